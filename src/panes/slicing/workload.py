"""Workload analysis: what windows, aggregates and stream order together require (SPEC S-14..S-17).

The answers depend on the whole query, never on data, and are asked again when a window comes or goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from panes.aggregates.base import Laws
from panes.windows.base import SINCE, TIME, Bound, ContextClass, ContextFree


@dataclass(frozen=True)
class Decision:
    """One step of the decision path: the question, the answer, and why."""

    question: str
    answer: bool
    because: str


@dataclass(frozen=True)
class Workload:
    """What a query needs. `lane` is "partials" (order-free), "rows" (event-time order), or "partials and rows"."""

    in_order: bool
    lane: str
    keep_rows: bool
    splits: bool
    removals: bool
    decisions: tuple[Decision, ...]


def order_free(window: Bound) -> bool:
    """Whether out-of-order rows can be added to this window's slices without looking at other rows."""
    # which rows the window before it had is known by their positions
    return window.measure == TIME and timed(window) and not window.changes_only


def timed(window: Bound) -> bool:
    """Whether times alone say which window it is, and no positions."""
    on_time = window.measure in (TIME, SINCE)
    return on_time and (isinstance(window, ContextFree) or window.context is ContextClass.SESSION)


def analyse(
    windows: Sequence[tuple[str, Bound]], laws: Sequence[tuple[str, Laws]], *, in_order: bool, lateness: bool
) -> Workload:
    """Walk the decision trees for these windows and aggregates."""
    steps: list[Decision] = []

    def ask(question: str, culprits: Sequence[str], yes: str, no: str) -> bool:
        answer = bool(culprits)
        steps.append(Decision(question, answer, f"{yes}: {', '.join(culprits)}" if answer else no))
        return answer

    aware = [n for n, w in windows if w.context is ContextClass.FORWARD_AWARE]
    ordered = [n for n, w in windows if not order_free(w)]
    counting = [n for n, w in windows if any(m.kind == "rows" for m in w.measures)]
    one_way = [n for n, law in laws if not law.commutative]
    needs_order = ask("Must rows be seen in event-time order?", ordered,
                      "edges depend on it for", "edges lie on event time alone")  # fmt: skip
    sorted_late = one_way if len(ordered) < len(windows) else []
    if in_order and not lateness:
        why = "they are put in order when a result is due for" if sorted_late else "the start is found only later for"
        keep = ask("Must rows be kept?", [*sorted_late, *aware], why,
                   "rows come in order, and every window knows its start when it begins")  # fmt: skip
        splits = ask("Must slices be split?", aware, "starts are found later in", "every edge is known in time")
        removals = False
    else:
        data_driven = [n for n, w in windows if w.context in (ContextClass.FORWARD_FREE, ContextClass.FORWARD_AWARE)]
        keep = ask("Must rows be kept?", [*one_way, *data_driven, *[n for n in counting if n not in data_driven]],
                   "a row out of order changes what was computed for",
                   "partials take rows in any order")  # fmt: skip
        splits = ask("Must slices be split?", data_driven, "a row out of order can move edges of",
                     "edges are known in advance, sessions only grow and merge")  # fmt: skip
        removals = ask("Must rows move between slices?", counting, "a row out of order shifts positions of",
                       "no window counts rows")  # fmt: skip
    lane = "partials" if not needs_order else "rows" if len(ordered) == len(windows) else "partials and rows"
    return Workload(in_order, lane, keep, splits, removals, tuple(steps))
