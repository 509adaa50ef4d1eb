"""The windows of a running operator and the lanes that serve them: how they begin, come, go, and are resumed.

Windows that take rows in any order share one lane, those that must see rows in order another; an operator has one of
them or both. What follows from the windows of now (the expressions to evaluate, whether arrival numbers matter, ...)
is found once, whenever they change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from panes.errors import QueryError
from panes.slicing.identity import Identity
from panes.slicing.lane import Lane, RunningWindow
from panes.slicing.partials.partial_lane import PartialLane
from panes.slicing.results import dimensions, positions
from panes.slicing.rows.row_lane import RowLane
from panes.slicing.spec import NOT_EARLY, OperatorSpec
from panes.slicing.workload import order_free
from panes.state.checked import demand
from panes.state.journal import Journal, Replaced
from panes.windows.base import NEVER, SINCE_FIRST, Bound, Window
from panes.windows.normal_form import normal_form

Array = np.ndarray


class RunningQuery:
    """The windows of now, and their lanes."""

    replaced = Replaced(
        "running", "windows", "lanes", "next_number", "expressions", "gaps", "needs_raw", "needs_arrival",
        "fails_on_rows", "positions", "on_time",
    )  # fmt: skip

    def __init__(self, spec: OperatorSpec, journal: Journal) -> None:
        self.spec = spec
        self._journal = journal
        self.windows: dict[str, Window] = dict(spec.windows)
        self.running = tuple(
            RunningWindow(label, number, bound) for number, (label, bound) in enumerate(spec.bound_windows.items())
        )
        self.next_number = len(self.running)
        self.expressions = spec.expressions.including(self._wanted())
        self.lanes: list[Lane] = self._first_lanes()
        #: stretches of arrival numbers of rows that windows on time were there for: from, and up to
        self.on_time: tuple[tuple[int, int], ...] = ()
        self.changed(0)

    def changed(self, next_row: int) -> None:
        """Find what follows from the windows of now; `next_row` is the arrival number of the next row."""
        there = bool(self.on_time) and self.on_time[-1][1] == NEVER
        if there != any(order_free(each.window) for each in self.running):
            *before, (since, _) = self.on_time if there else (*self.on_time, (next_row, NEVER))
            self.on_time = (*before, (since, next_row if there else NEVER))
        kinds = [kind for lane in self.lanes for kind in lane.dimensions.values()]
        in_order = any(lane.ordered for lane in self.lanes)
        #: the type of positions that results have; None: they have none
        self.positions: pa.DataType | None = positions([w.window for w in self.running], kinds) if in_order else None
        #: columns with the gaps of sessions
        self.gaps = sorted({gap for each in self.running if (gap := getattr(each.window, "gap_column", None))})
        #: rows may be turned away long after they came, and are then wanted as they were
        self.needs_raw = bool(kinds)
        self.needs_arrival = any(lane.needs_arrival for lane in self.lanes)
        self.fails_on_rows = any(a.bound.may_fail for a in self.spec.aggs) or any(
            each.window.may_fail for each in self.running
        )

    @property
    def told_apart(self) -> Callable[[], Identity] | None:
        """How results of the windows of now are told apart."""
        if self.spec.told_apart is None:
            return None
        windows = {each.label: each.window for each in self.running}
        return partial(self.spec.told_apart, windows, self.positions is not None)

    def _wanted(self) -> Iterable[str]:
        """All row expressions that windows and aggregates look at."""
        of_windows = (column for each in self.running for column in each.window.columns)
        return dict.fromkeys([*of_windows, *(column for a in self.spec.aggs for column in a.inputs)])

    def used_columns(self) -> Mapping[str, pa.DataType]:
        """All row expressions that the lanes of now look at, and their types."""
        measures = [m for lane in self.lanes for m in lane.dimensions if m != SINCE_FIRST]
        return {name: self.expressions.types[name] for name in dict.fromkeys([*self._wanted(), *measures])}

    def _first_lanes(self) -> list[Lane]:
        free = [each for each in self.running if order_free(each.window)]
        ordered = [each for each in self.running if not order_free(each.window)]
        lanes: list[Lane] = [self._partial_lane(free)] if free or not ordered else []
        return [*lanes, self._row_lane(ordered, self._dimensions(ordered))] if ordered else lanes

    def _partial_lane(self, windows: Sequence[RunningWindow]) -> PartialLane:
        spec = self.spec
        return PartialLane(
            windows, spec.aggs_in_any_order, lateness=spec.lateness, keyed=bool(spec.keys), store=spec.store,
            emit_empty=spec.emit_empty, in_order=spec.in_order and spec.lateness is None,
            early=spec.early is not None, journal=self._journal,
        )  # fmt: skip

    def _row_lane(self, windows: Sequence[RunningWindow], measures: Mapping[str, np.dtype]) -> RowLane:
        spec = self.spec
        return RowLane(
            windows, spec.aggs, lateness=spec.lateness, dimensions=measures, keyed=bool(spec.keys), store=spec.store,
            emit_empty=spec.emit_empty, in_order=spec.in_order and spec.lateness is None, journal=self._journal,
        )  # fmt: skip

    def _dimensions(self, windows: Sequence[RunningWindow]) -> dict[str, np.dtype]:
        return dimensions([(each.label, each.window) for each in windows], self.expressions.types)

    def add(self, label: str, window: Window, watermark: int, next_row: int) -> None:
        """Give this window too from now on, starting with the first one whose rows are all still there."""
        if label in self.windows:
            raise QueryError(f"window {label!r} is there already: remove it first, or choose another label")
        bound = normal_form(window.labelled(label, self.spec.domain))
        added = RunningWindow(label, self.next_number, bound)
        self.expressions = self.expressions.including(bound.columns)
        ordered = not order_free(bound)
        if ordered and self.spec.early is not None:
            raise QueryError(f"window {label!r}: {NOT_EARLY}")
        serving = next((lane for lane in self.lanes if lane.ordered == ordered), None)
        if serving is not None:
            serving.add_window(added, watermark)
        else:
            self.lanes = [*self.lanes, self._late_lane(added, watermark)]
        self.running = (*self.running, added)
        self.windows = {**self.windows, label: window}
        self.next_number += 1
        self.changed(next_row)

    def _late_lane(self, window: RunningWindow, watermark: int) -> Lane:
        """A lane that begins in the middle of the stream."""
        if not order_free(window.window):
            rows = self._row_lane([window], self._dimensions([window]))
            rows.advance(watermark)
            return rows
        partials = self._partial_lane([])
        partials.last_time = max(lane.last_time for lane in self.lanes)
        partials.add_window(window, watermark)
        return partials

    def remove(self, label: str, next_row: int) -> None:
        """Stop giving this window."""
        if label not in self.windows:
            raise QueryError(f"there is no window {label!r} to remove; there are {', '.join(self.windows)}")
        gone = next(each for each in self.running if each.label == label)
        for lane in self.lanes:
            if any(each.number == gone.number for each in lane.queries):
                lane.remove_window(gone.number)
        self.running = tuple(each for each in self.running if each.label != label)
        self.windows = {known: window for known, window in self.windows.items() if known != label}
        self.changed(next_row)

    def facts(self) -> list[dict[str, Any]]:
        """What a snapshot says of each lane."""
        return [
            {
                "rows": lane.ordered,
                "numbers": [each.number for each in lane.queries],
                "dimensions": {name: kind.str for name, kind in lane.dimensions.items()},
            }
            for lane in self.lanes
        ]

    def resume(self, facts: Mapping[str, Any], windows: Mapping[str, tuple[Window, Bound]]) -> None:
        """Have the windows and lanes that a snapshot says, the lanes still empty."""
        self.on_time = tuple((since, until) for since, until in facts["on_time"])
        self.next_number = facts["next_number"]
        self.windows = {label: window for label, (window, _) in windows.items()}
        self.running = tuple(RunningWindow(label, number, windows[label][1]) for label, number, _ in facts["windows"])
        self.expressions = self.spec.expressions.including(self._wanted())
        by_number = {each.number: each for each in self.running}
        self.lanes = [self._resumed([by_number[n] for n in lane["numbers"]], lane) for lane in facts["lanes"]]

    def _resumed(self, windows: Sequence[RunningWindow], known: Mapping[str, Any]) -> Lane:
        """A lane as a snapshot says that it was, if it can have been so."""
        measures = {name: np.dtype(kind) for name, kind in known["dimensions"].items()}
        demand(all(order_free(w.window) != known["rows"] for w in windows), "windows are kept as others are")
        if not known["rows"]:
            return self._partial_lane(windows)
        demand(self._dimensions(windows).items() <= measures.items(), "a window is on a measure that is not kept")
        # windows that are gone may have left measures behind, which go on being kept
        self.expressions = self.expressions.including(m for m in measures if m != SINCE_FIRST)
        return self._row_lane(windows, measures)
