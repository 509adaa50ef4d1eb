"""The columns that windows bring along: their label, their bounds, and what became of a result before.

Not all windows have all of them: places (window_from, window_to) are for windows that are not on time, `void` is for
streams whose late rows correct results, and both it and `final` for windows that are given before they close.
"""

from __future__ import annotations

from collections.abc import Sequence

from panes.cql.catalog import Catalog, StreamEntry
from panes.cql.given import given_plan
from panes.cql.resolved import Input
from panes.cql.timing import on_time, time_of
from panes.plan.expressions import text_of

_NO_PLACES = "windows on time have window_start and window_end; places are for windows on rows or on columns"
_NOT_VOID = "results are withdrawn only where late rows correct them: give the stream a LATENESS"
_ALL_FINAL = "all results are final, unless windows are given before they close: EMIT EARLY EVERY 10 sec"


def absent_columns(inputs: Sequence[Input], catalog: Catalog, *, early: bool) -> dict[str, str]:
    """Columns that windows can have and those of these inputs have not, with the reason.

    `early`: windows are given before they close.
    """
    absent = {} if early else {"final": _ALL_FINAL}
    if not early and not any(_is_correctable(one, catalog) for one in inputs):
        absent["void"] = _NOT_VOID
    # windows that see different rows are a query each, and every one of them must have what is asked for
    apart = len({None if w.where is None else text_of(w.where) for w in inputs[0].windows}) > 1
    placed = [not on_time(w, time_of(one)) for one in inputs for w in one.windows]
    if not (all(placed) if apart else any(placed)):
        absent |= dict.fromkeys(("window_from", "window_to"), _NO_PLACES)
    return absent


def _is_correctable(one: Input, catalog: Catalog) -> bool:
    """Whether late rows correct what the windows of an input gave."""
    entry, time = one.origin, time_of(one)
    if time is None or not isinstance(entry, StreamEntry):
        return False
    entry = catalog.streams.find(entry.name) or entry
    plan = given_plan(catalog, entry, time) if entry.query is None else None
    return entry.lateness is not None or (plan is not None and plan.lateness is not None)
