"""Aggregate: results over the rows of a window each time it is full (tumbling) or triggers (sliding).

In: rows with the columns that windows, keys, groups and aggregates read. Out: one row per window, or per group of a
window in order of first appearance, then a punctuation. A window without rows gives nothing.

Partial windows, which a sliding window has before it is first full and a tumbling one at the end of the stream, are
given only if `partial` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Column, Inputs
from panes.aggregates.columns import arrow_from_values, column_from_arrow
from panes.aggregates.segments import offsets_of, sort_by_group
from panes.operators.arrivals import NO_TIME, Arrivals, PortOutput
from panes.operators.clauses import TUMBLING, Clause, RowClock, renamed
from panes.operators.machine import Machine, NumberMachine, columnar
from panes.operators.models import SLIDING_FORMS, TUMBLING_FORMS, InputPort, Model, OutputPort, Parameter
from panes.policies.library import SlidingWindow, TumblingWindow
from panes.policies.library.columnar import ColumnarWindow, Firings, vectorises
from panes.policies.library.specs import count
from panes.slicing.arrays import spread
from panes.slicing.keys import KeyDirectory
from panes.slicing.lane import Agg
from panes.slicing.rows.range_fold import lower_ranges
from panes.state.checked import counts, whole
from panes.state.snapshot import in_cell, of_cell

Array = np.ndarray
_TIME, _NUMBER = "panes.time", "panes.number"
_SHIFT = RowClock.SHIFT

AGGREGATE = Model(
    "Aggregate",
    inputs=(InputPort("in", (*TUMBLING_FORMS, *SLIDING_FORMS), "window bound"),),
    outputs=(OutputPort("out", "generating"),),
    parameters=(
        Parameter("outputs", required=True),
        Parameter("group_by"),
        Parameter("partial", choices=(True, False)),
    ),
)


@dataclass(frozen=True)
class AggregateSpec:
    """An Aggregate whose names and types are known; the clause is in ticks."""

    rows: pa.Schema
    clause: Clause
    keys: tuple[str, ...]
    groups: tuple[str, ...]
    aggs: tuple[Agg, ...]  # inputs are columns of `rows`
    finish: Callable[[pa.Table], pa.Table]  # results of aggregates to outputs
    schema: pa.Schema
    partial: bool = False


class AggregateMachine(NumberMachine):
    """Aggregate on the containers of the window library."""

    def __init__(self, spec: AggregateSpec) -> None:
        self.schemas = (spec.schema,)
        self.spec = spec
        super().__init__([(spec.rows, spec.keys, spec.clause)])
        (self._port,) = self.ports
        self._windows: list[tuple[int, tuple[int, ...]]] = []  # time, row numbers
        window = self._port.window
        if isinstance(window, SlidingWindow):
            window.on("trigger", self._on_trigger)
        else:
            assert window is not None
            window.on("before_flush", self._on_flush)

    def on_row(self, port: int, number: int, key: Hashable) -> None:
        self._port.insert(number, key)

    def _on_flush(self, key: Hashable, window: TumblingWindow) -> None:
        self._windows.append((self.clock.tick, window.content(key)))

    def _on_trigger(self, key: Hashable, window: SlidingWindow) -> None:
        if self.spec.partial or window.is_full(key):
            self._windows.append((self.clock.tick, window.content(key)))

    def on_finish(self) -> None:
        window = self._port.window
        if self.spec.partial and isinstance(window, TumblingWindow):
            open_windows = [content for _, content in window.subwindows() if content]
            self._windows += [(self.clock.tick, content) for content in sorted(open_windows)]

    def given(self) -> tuple[PortOutput, ...]:
        windows = [(time, numbers) for time, numbers in self._windows if numbers]
        self._windows = []
        if not windows:
            return (PortOutput.of(self.schemas[0].empty_table(), np.empty(0, np.int64)),)
        numbers = np.concatenate([np.array(n, np.int64) for _, n in windows])
        offsets = offsets_of(np.array([len(n) for _, n in windows]))
        return (
            results(self.spec, self._port.store.take(numbers), numbers, offsets, np.array([t for t, _ in windows])),
        )


class AggregateColumns(Machine):
    """Aggregate over whole batches, on a columnar window with all keys at once.

    The same results as row by row; sums of floats up to rounding.
    """

    @staticmethod
    def takes(spec: AggregateSpec) -> bool:
        kinds = [spec.rows.field(name).type for name in spec.clause.attributes]
        return vectorises(spec.clause.evict, spec.clause.every, spec.clause.select) and all(
            pa.types.is_timestamp(k) or pa.types.is_floating(k) or (pa.types.is_integer(k) and k != pa.uint64())
            for k in kinds
        )

    def __init__(self, spec: AggregateSpec) -> None:
        self.spec = spec
        self.schemas = (spec.schema,)
        self._attributes = {name: f"panes.at.{name}" for name in spec.clause.attributes}
        self._keep = [*dict.fromkeys((*spec.keys, *spec.groups, *(i for a in spec.aggs for i in a.inputs))), _NUMBER]
        kinds = {a: spec.rows.field(n).type for n, a in self._attributes.items()}
        # points in time as ticks, which is what differences were made to count in
        kinds = {a: pa.int64() if pa.types.is_temporal(kind) else kind for a, kind in kinds.items()}
        fields = [*((a, kind) for a, kind in kinds.items()), (_TIME, pa.int64()), (_NUMBER, pa.int64())]
        self._schema = pa.schema([*spec.rows, *(pa.field(*f) for f in fields)])
        clause = spec.clause
        trigger = None if clause.kind == TUMBLING else renamed(clause.every or count(1), self._attributes)
        self._window = ColumnarWindow(
            self._schema,
            evict=renamed(clause.evict, self._attributes),
            trigger=trigger,
            key=spec.keys,
            time=_TIME,
            keep=self._keep,
            partition_evict=clause.partition_evict,
            select=clause.select,
        )
        self._now = NO_TIME
        self._counts = {"rows_in": 0, "rows_out": 0}

    def push(self, arrivals: Arrivals) -> tuple[PortOutput, ...]:
        if len(arrivals):
            self._now = max(self._now, int(arrivals.times[-1]))
        return self._given(list(self._fired(arrivals)))

    def _fired(self, arrivals: Arrivals) -> Iterator[Firings]:
        """What the rows bring, and the punctuations between them."""
        (table,) = arrivals.tables
        first = self._counts["rows_in"]
        self._counts["rows_in"] += table.num_rows
        times = arrivals.times[arrivals.rows_of(0)]
        for name, attribute in self._attributes.items():
            kind = self._schema.field(attribute).type
            table = table.append_column(attribute, table.column(name).cast(kind))
        table = table.append_column(_TIME, pa.array(times + _SHIFT))
        table = table.append_column(_NUMBER, pa.array(np.arange(first, first + table.num_rows)))
        if arrivals.marks is None:
            yield self._window.push(table)
            return
        at = np.flatnonzero(arrivals.marks)
        rows_before = [0, *(at - np.arange(len(at))).tolist(), table.num_rows]
        for i, (start, end) in enumerate(pairwise(rows_before)):
            if end > start:
                yield self._window.push(table.slice(start, end - start))
            if i < len(at):
                yield self._window.advance(int(arrivals.times[at[i]]) + _SHIFT)
                if self.spec.clause.punctuated:
                    yield self._window.punctuate()

    def advance(self, time: int) -> tuple[PortOutput, ...]:
        self._now = max(self._now, time)
        return self._given([self._window.advance(time + _SHIFT)])

    def finish(self) -> tuple[PortOutput, ...]:
        if not self.spec.partial or self.spec.clause.kind != TUMBLING:
            return self._given([])
        held = self._window.held()
        numbers = held.columns[_NUMBER].values
        filled = np.flatnonzero(held.stop > held.start)
        order = filled[np.argsort(numbers[held.start[filled]], kind="stable")]
        at = np.full(len(order), self._now, np.int64)
        return self._given([], [self._results(held.columns, held.start[order], held.stop[order], at)])

    def _given(self, fired: list[Firings], more: list[PortOutput] | None = None) -> tuple[PortOutput, ...]:
        parts = [] if more is None else more
        for each in fired:
            wanted = each.stop > each.start
            if not self.spec.partial and self.spec.clause.kind != TUMBLING:
                wanted &= each.full
            if wanted.any():
                parts.append(
                    self._results(each.columns, each.start[wanted], each.stop[wanted], each.at[wanted] - _SHIFT)
                )
        if not parts:
            return (PortOutput.of(self.schemas[0].empty_table(), np.empty(0, np.int64)),)
        given = PortOutput.concat(parts)
        self._counts["rows_out"] += given.table.num_rows
        return (given,)

    def _results(self, columns: Mapping[str, Column], start: Array, stop: Array, at: Array) -> PortOutput:
        spec = self.spec
        numbers = columns[_NUMBER].values
        overlaps = int((stop - start).sum()) > 2 * len(numbers)
        if spec.groups or not overlaps:
            index, offsets = spread(start, stop)
            rows = pa.table({n: _arrow(columns[n].take(index)) for n in self._keep})
            return results(spec, rows, numbers[index], offsets, at)
        cells = [
            agg.bound.lift(
                Inputs(tuple(columns[name] for name in agg.inputs), numbers, numbers, len(numbers)),
                np.arange(len(numbers) + 1),
            )
            for agg in spec.aggs
        ]
        values, _ = lower_ranges([agg.bound for agg in spec.aggs], cells, start, stop)
        done = spec.finish(pa.table(list(values), names=[agg.name for agg in spec.aggs]))
        keys = [_arrow(columns[name].take(start)) for name in spec.keys]
        table = pa.table([*keys, *done.columns], schema=spec.schema)
        return PortOutput(table, at, np.arange(1, len(at) + 1), at)

    def dump(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        window = in_cell("window", self._window.snapshot())
        return {"mechanism": "columns", "now": self._now, "counts": self._counts}, {"window": window}

    def load(self, facts: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> None:
        self._now, self._counts = whole(facts, "now"), counts(facts, "counts", self._counts)
        self._window.restore(of_cell(tables, "window", "window"))

    def saved(self) -> Callable[[Machine], None]:
        now, counted, window = self._now, dict(self._counts), self._window.saved()

        def put_back(machine: Machine) -> None:
            assert isinstance(machine, AggregateColumns)
            machine._now, machine._counts = now, dict(counted)
            window(machine._window)

        return put_back

    @property
    def metrics(self) -> dict[str, Any]:
        held = self._window.metrics
        return {
            **self._counts,
            "rows_held": held["tuples"],
            "keys": held["partitions"],
            "bytes": held["bytes"],
        }


def aggregate_machine(spec: AggregateSpec, mechanism: str) -> Machine:
    """Over batches where that can be, else row by row."""
    return (
        AggregateColumns(spec)
        if columnar("Aggregate", mechanism, AggregateColumns.takes(spec))
        else AggregateMachine(spec)
    )


def results(spec: AggregateSpec, rows: pa.Table, numbers: Array, offsets: Array, times: Array) -> PortOutput:
    """What windows give: window i is rows offsets[i]:offsets[i + 1], processed at times[i]."""
    firsts, of_window = offsets[:-1], np.arange(len(times))
    if spec.groups:
        order, offsets, of_window = _by_group(rows.select(spec.groups), offsets)
        rows, numbers = rows.take(pa.array(order)), numbers[order]
        firsts = offsets[:-1]
    columns = {}
    for agg in spec.aggs:
        inputs = tuple(column_from_arrow(rows.column(name)) for name in agg.inputs)
        cells = agg.bound.lift(Inputs(inputs, numbers, numbers, len(numbers)), offsets)
        columns[agg.name] = agg.bound.lower(cells)
    named = rows.select([*spec.keys, *spec.groups]).take(pa.array(firsts))
    done = spec.finish(pa.table(columns))
    table = pa.table([*named.columns, *done.columns], schema=spec.schema)
    marks = np.cumsum(np.bincount(of_window, minlength=len(times)))
    return PortOutput(table, times[of_window], marks, times)


def _by_group(groups: pa.Table, offsets: Array) -> tuple[Array, Array, Array]:
    """Rows ordered by window, then by group in order of first appearance; offsets of groups; the window of each."""
    directory = KeyDirectory([column.type for column in groups.columns])
    codes = directory.slots(groups.columns)
    window = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    distinct, first, inverse = np.unique(window * len(directory) + codes, return_index=True, return_inverse=True)
    by_appearance = np.argsort(first, kind="stable")
    rank = np.empty(len(distinct), np.int64)
    rank[by_appearance] = np.arange(len(distinct))
    order, bounds = sort_by_group(rank[inverse.ravel()], len(distinct))
    return order, bounds, window[first[by_appearance]]


def _arrow(column: Column) -> pa.Array:
    return arrow_from_values(column.values, column.valid, column.type)
