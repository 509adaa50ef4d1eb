"""Aggregate over whole batches: windows of the library in columns, all keys at once.

The same results as `AggregateMachine` row by row; sums of floats up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Column, Inputs
from panes.aggregates.columns import arrow_from_values
from panes.operators.aggregate import AggregateSpec, results
from panes.operators.arrivals import NO_TIME, Arrivals, PortOutput
from panes.operators.clauses import TUMBLING
from panes.operators.machine import Machine
from panes.operators.windows import RowClock, renamed
from panes.policies.library.columnar import ColumnarWindow, Firings, vectorises
from panes.policies.library.specs import count
from panes.slicing.ranges import spread
from panes.slicing.rows.range_fold import lower_ranges
from panes.state.checked import counts, one_row, read_table, whole

Array = np.ndarray
_TIME, _NUMBER = "panes.time", "panes.number"
_SHIFT = RowClock.SHIFT


class AggregateColumns(Machine):
    """Aggregate on a columnar window."""

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
        window = pa.table({"window": pa.array([self._window.snapshot()], pa.large_binary())})
        return {"mechanism": "columns", "now": self._now, "counts": self._counts}, {"window": window}

    def load(self, facts: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> None:
        self._now, self._counts = whole(facts, "now"), counts(facts, "counts", self._counts)
        self._window.restore(one_row(read_table(tables, "window", {"window": pa.large_binary()}), "window")["window"])

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


def _arrow(column: Column) -> pa.Array:
    return arrow_from_values(column.values, column.valid, column.type)
