"""Which columns tell the results of a query apart, by the names that they have after all steps.

In: a query plan. Out: its `Identity`, or a QueryError that names what is missing. The windows of the plan can be
those of now instead, of an operator to which some were added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from panes.errors import QueryError
from panes.plan.steps import SelectStep
from panes.slicing.identity import Identity
from panes.windows.base import Bound

if TYPE_CHECKING:
    from panes.plan.query import QueryPlan

_POSITIONS = ("window_from", "window_to")


def identity_columns(
    plan: QueryPlan, what: str, windows: Mapping[str, Bound] | None = None, positions: bool | None = None
) -> tuple[str, ...]:
    """Keys, window and bounds; `what` was asked for, to say so if they are not all there."""
    bound = dict(plan.bound) if windows is None else windows
    for label, window in bound.items():
        if window.repeats:
            raise QueryError(f"{what}: results of the window {label!r} can't be told apart: {window.repeats}")
    if positions is None:
        positions = _POSITIONS[0] in plan.given.naming
    wanted = (*plan.stream.keys, "window", "window_start", "window_end", *(_POSITIONS if positions else ()))
    names = {column: _called(plan, column) for column in wanted}
    if len(bound) == 1 and names["window"] is None:
        del names["window"]  # it would be the same for all results
    _check(what, "tells results apart", (column for column, name in names.items() if name is None))
    return tuple(name for name in names.values() if name is not None)


def told_apart(
    plan: QueryPlan, what: str, windows: Mapping[str, Bound] | None = None, positions: bool | None = None
) -> Identity:
    """The identity of results, and what says which of them is the newest."""
    columns = identity_columns(plan, what, windows, positions)
    if not plan.given_again:
        return Identity(columns)
    revision, void = _called(plan, "revision"), _called(plan, "void")
    lost = (column for column, name in (("revision", revision), ("void", void)) if name is None)
    _check(what, "says what is the newest of a result", lost)
    return Identity(columns, revision, void)


def _called(plan: QueryPlan, column: str) -> str | None:
    if column in plan.given.names:
        return plan.shape.called(column)
    # a window that was added while running has brought it; steps let it pass, except for a select
    return None if any(isinstance(step, SelectStep) for step in plan.steps) else column


def _check(what: str, role: str, lost: Iterable[str]) -> None:
    missing = list(lost)
    if missing:
        raise QueryError(
            f"{what}: the select leaves out {', '.join(missing)}, which {role}; select it too, under any name"
        )
