"""The windows of a running operator and the lanes that serve them: how they begin, come, go, and are resumed.

Windows that take rows in any order share one lane, those that must see rows in order another; an operator has one of
them or both. What follows from the windows of now (the expressions to evaluate, whether arrival numbers matter, ...)
is found once, whenever they change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from panes.errors import QueryError
from panes.slicing.identity import Identity
from panes.slicing.lane import Agg, Lane, Results, RunningWindow
from panes.slicing.outputs import Labels, MixedOutputs, QueryOutputs, check_types, every_field
from panes.slicing.partials.partial_lane import PartialLane
from panes.slicing.results import POSITIONS, dimensions, positions
from panes.slicing.rows.row_lane import RowLane
from panes.slicing.shares import distinct, laid_out, places
from panes.slicing.spec import NOT_EARLY, OperatorSpec, bind_window, said_of_window
from panes.slicing.workload import order_free
from panes.state.checked import demand
from panes.state.journal import Journal, Replaced
from panes.windows.base import NEVER, SINCE_FIRST, Bound, Window
from panes.windows.normal_form import normal_form

Array = np.ndarray


class RunningQuery:
    """The windows of now, and their lanes."""

    replaced = Replaced(
        "running", "windows", "own", "lanes", "next_number", "expressions", "gaps", "needs_raw", "needs_arrival",
        "fails_on_rows", "rows_can_wait", "positions", "on_time", "aggs", "_places",
    )  # fmt: skip

    def __init__(self, spec: OperatorSpec, journal: Journal) -> None:
        self.spec = spec
        self._journal = journal
        self.windows: dict[str, Window] = dict(spec.windows)
        #: by label, what windows give that have outputs of their own
        self.own: dict[str, QueryOutputs] = dict(spec.own)
        self.running = tuple(
            self._window(label, number, bound) for number, (label, bound) in enumerate(spec.bound_windows.items())
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
        #: every aggregate that some window gives, as results have them
        self.aggs = distinct(self._sets())
        self._places = {id(lane): self._places_in(lane) for lane in self.lanes}
        self.fails_on_rows = any(a.bound.may_fail for a in self.aggs) or any(
            each.window.may_fail for each in self.running
        )
        self.rows_can_wait = self.spec.rows_can_wait and all(each.rows_can_wait for each in self.own.values())

    def _window(self, label: str, number: int, bound: Bound) -> RunningWindow:
        """A window with what it gives, as its lane is to keep it."""
        own = self.own.get(label)
        if own is None:
            return RunningWindow(label, number, bound)
        aggs = self.spec.with_row_count(own.aggs)
        return RunningWindow(label, number, bound, self.spec.taken_in_any_order(aggs) if order_free(bound) else aggs)

    def _sets(self) -> list[tuple[Agg, ...]]:
        """What windows give, each different set once; those of the query if there are no windows."""
        found = {id(each.aggs): self.spec.aggs if each.aggs is None else each.aggs for each in self.running}
        return [*found.values()] or [self.spec.aggs]

    def _places_in(self, lane: Lane) -> list[int | None] | None:
        """Where the aggregates of all windows are among those of a lane; None: they are the same."""
        found = places(self.aggs, lane.aggs)
        return None if found == [*range(len(lane.aggs))] else found

    def laid_out(self, lane: Lane, results: Results) -> Results:
        """What a lane gives, with a column for every aggregate of every window."""
        at = self._places[id(lane)]
        if at is None or not len(results):
            return results
        return replace(results, values=laid_out(results.values, at, self.aggs, len(results)))

    def mixed(self) -> MixedOutputs | None:
        """How results are made of aggregates, if windows don't all give the same."""
        declared = [*self._looked_at().values()]
        if not self.own and len(declared) < 2:
            return None
        return MixedOutputs({each.number: self.outputs(each.label) for each in self.running}, self.aggs, declared)

    def _looked_at(self) -> dict[str, QueryOutputs]:
        """What steps look at: all that the query declares, also when that window is gone."""
        spec = self.spec
        if spec.steps is None or spec.shared is None:
            return {}
        return {"agg()": spec.shared, **spec.own}

    def outputs(self, label: str) -> QueryOutputs:
        """What a window gives."""
        shared = self.spec.shared
        found = self.own.get(label, shared)
        assert found is not None  # a query that others can be added to says what it gives
        return found

    @property
    def labels(self) -> Callable[[], Labels]:
        """Which columns of the results of the windows of now belong to which of them, whoever comes and goes later."""
        own = {each.label: self.outputs(each.label) for each in self.running} if self.own else {}
        return partial(labels_of, self.spec, self.running, own, self.expressions.types, self.positions)

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
        # a lane whose windows are all gone goes on with the aggregates of the query, and has their columns till then
        sets = [self.spec.aggs, *self._sets()]
        return dict.fromkeys([*of_windows, *(column for aggs in sets for a in aggs for column in a.inputs)])

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

    def add(self, label: str, window: Window, aggregates: Mapping[str, object], watermark: int, next_row: int) -> None:
        """Give this window too from now on, starting with the first one whose rows are all still there, with all that
        it gives: what `aggregates` say, if there are any."""
        if label in self.windows:
            raise QueryError(f"query {label!r} is there already: remove it first, or choose another label")
        bound = normal_form(bind_window(label, window, self.spec.domain, self.spec.lateness))
        with said_of_window(label):
            self.expressions = self.expressions.including(bound.columns)
        self._give(label, aggregates)
        added = self._window(label, self.next_number, bound)
        self.expressions = self.expressions.including(c for a in added.aggs or () for c in a.inputs)
        ordered = not order_free(bound)
        if ordered and self.spec.early is not None:
            raise QueryError(f"window {label!r}: {NOT_EARLY}")
        serving = next((lane for lane in self.lanes if lane.ordered == ordered), None)
        if serving is not None:
            serving.add_query(added, watermark)
        else:
            self.lanes = [*self.lanes, self._late_lane(added, watermark)]
        self.running = (*self.running, added)
        self.windows = {**self.windows, label: window}
        self.next_number += 1
        self.changed(next_row)
        for lane in self.lanes:
            lane.know(self.expressions.types, next_row)

    def _give(self, label: str, aggregates: Mapping[str, object]) -> None:
        """Note what a window gives that is about to be added: these, or what the query gives."""
        if aggregates:
            if self.spec.outputs_for is None:
                raise QueryError(
                    f"add({label!r}): this query gives relations or rows of its windows, and no aggregates; windows "
                    "that are added to it give the same: leave the aggregates out"
                )
            self.own = {**self.own, label: self.spec.outputs_for(label, aggregates)}
        if self.own:
            there = {each.label: self.outputs(each.label) for each in self.running}
            check_types(label, self.outputs(label), {**self._looked_at(), **there})

    def _late_lane(self, window: RunningWindow, watermark: int) -> Lane:
        """A lane that begins in the middle of the stream."""
        if not order_free(window.window):
            rows = self._row_lane([window], self._dimensions([window]))
            rows.advance(watermark)
            return rows
        partials = self._partial_lane([])
        partials.last_time = max(lane.last_time for lane in self.lanes)
        partials.add_query(window, watermark)
        return partials

    def remove(self, label: str, next_row: int) -> None:
        """Stop giving this window."""
        if label not in self.windows:
            raise QueryError(f"there is no query {label!r} to remove; there are {', '.join(self.windows)}")
        gone = next(each for each in self.running if each.label == label)
        for lane in self.lanes:
            if any(each.number == gone.number for each in lane.queries):
                lane.remove_query(gone.number)
        self.running = tuple(each for each in self.running if each.label != label)
        self.windows = {known: window for known, window in self.windows.items() if known != label}
        self.own = {known: own for known, own in self.own.items() if known != label}
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

    def resume(
        self,
        facts: Mapping[str, Any],
        windows: Mapping[str, tuple[Window, Bound]],
        own: Mapping[str, QueryOutputs],
    ) -> None:
        """Have the windows and lanes that a snapshot says, the lanes still empty."""
        self.on_time = tuple((since, until) for since, until in facts["on_time"])
        self.next_number = facts["next_number"]
        self.windows = {label: window for label, (window, _) in windows.items()}
        self.own = dict(own)
        self.running = tuple(self._window(label, number, windows[label][1]) for label, number, _ in facts["windows"])
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


def labels_of(
    spec: OperatorSpec,
    running: Sequence[RunningWindow],
    own: Mapping[str, QueryOutputs],
    types: Mapping[str, pa.DataType],
    shown: pa.DataType | None,
) -> Labels:
    """Which columns of results belong to which window. `own`: what each gives, if they don't all give the same;
    `types`: of expressions; `shown`: the type of positions in results."""
    every = {f.name for f in every_field([*own.values()])}
    foreign: dict[str, frozenset[str]] = {each.label: frozenset() for each in running}
    narrower: dict[str, dict[str, pa.DataType]] = {each.label: {} for each in running}
    for each in [] if spec.selects else running:
        kind = positions([each.window], dimensions([(each.label, each.window)], types).values())
        others = every - {f.name for f in own[each.label].fields} if own else every
        foreign[each.label] = frozenset(others | set(() if kind is not None else POSITIONS))
        narrower[each.label] = {} if kind is None or kind == shown else dict.fromkeys(POSITIONS, kind)
    return Labels(foreign, narrower, spec.label)
