"""Aggregate: results over the rows of a window each time it is full (tumbling) or triggers (sliding).

In: rows with the columns that windows, keys, groups and aggregates read. Out: one row per window, or per group of a
window in order of first appearance, then a punctuation. A window without rows gives nothing.

Partial windows, which a sliding window has before it is first full and a tumbling one at the end of the stream, are
given only if `partial` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Inputs
from panes.aggregates.columns import column_from_arrow
from panes.aggregates.segments import offsets_of, sort_by_group
from panes.operators.arrivals import PortOutput
from panes.operators.clauses import Clause
from panes.operators.machine import Machine, NumberMachine, columnar
from panes.operators.models import SLIDING_FORMS, TUMBLING_FORMS, InputPort, Model, OutputPort, Parameter
from panes.operators.state import dump_ports, load_ports
from panes.policies.library import SlidingWindow, TumblingWindow
from panes.slicing.keys import KeyDirectory
from panes.slicing.lane import Agg

Array = np.ndarray

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

    def dump(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        return dump_ports(self)

    def load(self, facts: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> None:
        load_ports(self, facts, tables)


def aggregate_machine(spec: AggregateSpec, mechanism: str) -> Machine:
    """Over batches where that can be, else row by row."""
    from panes.operators.aggregate_columns import AggregateColumns

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
