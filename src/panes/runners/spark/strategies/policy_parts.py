"""What the parallel plans of policy windows share: rows to partials, partials to results, and who may use them.

Partials travel as Arrow tables with one column per field of each aggregate's partial. Aggregates must be associative
and commutative, since workers reduce shares of the rows in any order (SPEC P-51).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Cells, Inputs
from panes.aggregates.columns import cells_from_arrow, cells_to_arrow, column_from_arrow
from panes.plan.query import QueryPlan
from panes.plan.scalars import Scalars
from panes.policies.policy import PolicyMachine
from panes.runners.spark.strategies.card import StrategyJob
from panes.slicing.keys import KeyDirectory
from panes.slicing.lane import Agg
from panes.slicing.rows.range_fold import lower_ranges
from panes.state.pickles import trusting

Array = np.ndarray


@dataclass(frozen=True)
class Partials:
    """The aggregates of a query, over shares of its rows. Frozen and picklable: it travels to Spark's workers."""

    plan: QueryPlan

    @cached_property
    def aggs(self) -> tuple[Agg, ...]:
        return self.plan.aggregation.aggs

    @cached_property
    def arguments(self) -> Scalars:
        """What aggregates are computed of."""
        return Scalars(self.plan.stream.scope, dict(self.plan.aggregation.inputs))

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the stream that aggregates look at."""
        wanted = self.arguments.wanted.values()
        used = {name for e in wanted for name in (*e.columns, e.column) if name is not None}
        return tuple(name for name in self.plan.stream.schema.names if name in used)

    def lift(self, rows: pa.Table, times: Array, seq: Array, groups: Array, n: int) -> dict[str, pa.Array]:
        """One partial per group 0..n-1 of rows."""
        found = self.arguments.evaluate(rows) if self.aggs and self.arguments.wanted else {}
        out: dict[str, pa.Array] = {}
        for i, agg in enumerate(self.aggs):
            columns = tuple(column_from_arrow(found[text]) for text in agg.inputs)
            cells = agg.bound.lift_groups(Inputs(columns, times, seq, len(times)), groups, n)
            out |= {f"panes.{i}.{name}": array for name, array in cells_to_arrow(agg.bound, cells).items()}
        return out

    def cells(self, table: pa.Table) -> list[Cells]:
        """The partials of a table, which another task of the same job has made."""
        found = []
        with trusting(True):
            for i, agg in enumerate(self.aggs):
                named = {f.name: table.column(f"panes.{i}.{f.name}") for f in agg.bound.fields}
                found.append(cells_from_arrow(agg.bound, named))
        return found

    def fold(self, cells: list[Cells], groups: Array) -> list[Cells]:
        """Cells of the same group, which stand together, as one."""
        starts = np.flatnonzero(np.diff(groups, prepend=groups[:1] - 1)) if len(groups) else np.empty(0, np.int64)
        offsets = np.append(starts, len(groups))
        return [agg.bound.fold(each, offsets) for agg, each in zip(self.aggs, cells)]

    def values(self, cells: list[Cells], lo: Array, hi: Array) -> list[pa.Array]:
        """For each aggregate its results over these ranges of cells."""
        if not len(lo):
            return [pa.nulls(0, agg.bound.out_type) for agg in self.aggs]
        return list(lower_ranges([agg.bound for agg in self.aggs], cells, lo, hi)[0])

    def results(self, windows: pa.Table, values: list[pa.Array]) -> pa.Table:
        """Results as the operator gives them: `windows` has the columns before the aggregates, and the revision."""
        at = windows.num_columns - 1
        for agg, column in zip(self.aggs, values):
            windows = windows.add_column(at, agg.name, column)
            at += 1
        finalize = self.plan.operator_spec().finalize
        return windows if finalize is None else finalize(windows)


def refusal(job: StrategyJob) -> str | None:
    """Why no parallel plan for policies can run a job."""
    plan = job.plan
    if not all(isinstance(bound, PolicyMachine) for _, bound in plan.bound):
        return "it is for windows by policies"
    if job.streaming:
        return "a stream keeps the state of policies and rows in its key groups: it is for static frames"
    if job.late or job.restore or plan.emit_empty or plan.stream.lateness is not None:
        return "late rows, lateness, snapshots and empty windows are left to key_groups"
    if plan.own:
        return f"the window {plan.own[0][0]!r} has aggregates of its own, which key groups compute"
    for agg in plan.aggregation.aggs:
        if not (agg.bound.laws.associative and agg.bound.laws.commutative):
            return f"{agg.name} depends on the order of its rows, and workers reduce shares of them"
    return None


def slots_of(rows: pa.Table, keys: Sequence[str]) -> tuple[Array, KeyDirectory | None]:
    """The number of each row's key, and who knows the keys by number; all rows have one without keys."""
    if not keys:
        return np.zeros(rows.num_rows, np.int64), None
    directory = KeyDirectory([rows.schema.field(k).type for k in keys])
    return directory.slots([rows.column(k) for k in keys]), directory


def messages(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    """What tasks send each other, one row each."""
    columns = zip(*rows) if rows else [[] for _ in schema]
    return pa.table([pa.array(column, f.type) for column, f in zip(columns, schema)], schema=schema)


@dataclass(frozen=True)
class TimeBorders:
    """Borders at `first + k * every`, k from 1 on; a window holds rows up to `size` before its border.

    `size` None: it holds all rows since the border before (tumbling), the first one all rows before it. Slices of time
    end at borders, and where windows begin, and are numbered along time.
    """

    first: int
    every: int
    size: int | None
    end: bool  # whether what is held at the end is a result

    @property
    def tail(self) -> int | None:
        """How long before the last row of a key the rows go back that are held at the end, if not to a border."""
        return self.size if self.end else None

    @property
    def _begin(self) -> int:
        """Where, after a border, windows begin."""
        return 0 if self.size is None else -self.size % self.every

    def slices(self, ticks: Array) -> Array:
        """The number of the slice of each tick."""
        number, rest = np.divmod(ticks - self.first, self.every)
        if self.size is None:
            return np.maximum(number, 0)
        return number if self._begin == 0 else 2 * number + (rest >= self._begin)

    def windows(
        self, slices: Array, ticks: Array, keys: Array, last: Array, starts: Array, ends: Array
    ) -> tuple[Array, Array, Array, Array]:
        """The windows that hold rows and whose border the last row of their key has reached.

        Slices are in order of keys, each with one of its ticks, and those of key k stand in [starts[k], ends[k]).
        Gives of each window its key, its border, and where its slices begin and end.
        """
        number = (ticks - self.first) // self.every
        lowest = np.maximum(number + 1, 1)
        highest = lowest if self.size is None else (ticks + self.size - self.first) // self.every
        highest = np.minimum(highest, (last[keys] - self.first) // self.every)
        counts = np.maximum(highest - lowest + 1, 0)
        slice_of = np.repeat(np.arange(len(slices)), counts)
        ks = lowest[slice_of] + np.arange(len(slice_of)) - np.repeat(np.cumsum(counts) - counts, counts)
        pairs = np.unique(np.stack((keys[slice_of], ks)), axis=1)
        of, border = pairs[0], self.first + pairs[1] * self.every
        if self.size is None:
            low, high = np.maximum(pairs[1] - 1, 0), pairs[1]
        else:
            low, high = self.slices(border - self.size), self.slices(border)
        return of, border, _place(slices, keys, of, low, starts), _place(slices, keys, of, high, starts)


def _place(slices: Array, keys: Array, of: Array, wanted: Array, starts: Array) -> Array:
    """Where in the order of keys and slices the first slice from `wanted` on of each key stands."""
    if not len(of):
        return np.empty(0, np.int64)
    least = min(int(slices.min()), int(wanted.min()))
    width = max(int(slices.max()), int(wanted.max())) - least + 2
    if (int(keys.max()) + 1) * width < 1 << 62:
        return np.searchsorted(keys * width + (slices - least), of * width + (wanted - least))
    ends = np.append(starts[1:], len(slices))  # times too far apart to be one number with the key
    return np.array([starts[k] + np.searchsorted(slices[starts[k] : ends[k]], w) for k, w in zip(of, wanted)], np.int64)
