"""The fully parallel plan for policies without history (SPEC P-53, P-54): every task discretizes and reduces its rows.

Policies by time know their borders without looking at rows, so each task cuts time at the same borders, reduces the
rows that it reads to one partial per key, window and slice of time, and sends nothing else. Partials meet by key group,
where windows, numbered by key and border, are put together. What is held at the end of a stream begins so long before
the last row of a key, which no task knows: each sends the rows so long before its own last one as partials, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Cells
from panes.connectors.spark_types import spark_schema, storable_schema
from panes.policies.policy import PolicyMachine
from panes.policies.specs import Active, Time, Tumble
from panes.runners.spark.frame_columns import by_group, mapped
from panes.runners.spark.group_operator import GroupQuery, used_columns
from panes.runners.spark.packing import from_bytes, group_labels, group_of, read, to_bytes
from panes.runners.spark.strategies.card import Strategy, StrategyJob
from panes.runners.spark.strategies.key_groups import Unpacker, needed
from panes.runners.spark.strategies.policy_parts import Partials, TimeBorders, messages, refusal, slots_of
from panes.slicing.keys import KeyDirectory
from panes.slicing.lane import NO_TIME
from panes.slicing.operator import SliceOperator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Array = np.ndarray
_SCHEMA = pa.schema([("panes_group", pa.int32()), ("panes_data", pa.binary())])
_SLICE, _WINDOW, _ROWS, _FIRST, _LAST = "panes.slice", "panes.window", "panes.rows", "panes.first", "panes.last"
#: In the place of a window's number, with this added: rows that may be held at the end, one partial each.
_TAIL = 1 << 20
#: Bytes of rows that are reduced at once.
_AT_ONCE = 1 << 26


@dataclass(frozen=True)
class Share:
    """The rows that a task reads, as partials by key, window and slice (DWD chained with DPA)."""

    query: GroupQuery
    partials: Partials
    borders: tuple[TimeBorders, ...]
    groups: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        waiting = 0
        for batch in batches:
            held.append(batch)
            waiting += batch.nbytes
            if waiting >= _AT_ONCE:
                yield from self._sent(held)
                held, waiting = [], 0
        if held:
            yield from self._sent(held)

    def _sent(self, held: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        rows = read(self.query.plan.stream, pa.Table.from_batches(held)).select(self.query.columns)
        found = [(label, to_bytes(table)) for label, table in self.by_group(rows)]
        return messages(found, _SCHEMA).combine_chunks().to_batches()

    def by_group(self, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """(label of a key group, partials of it)."""
        stream = self.query.plan.stream
        if (times := rows.column(stream.time)).null_count:
            rows = rows.filter(times.is_valid())
        if not rows.num_rows:
            return
        slots, keys = slots_of(rows, stream.keys)
        tables = [self._reduced(number, rows, slots, keys) for number in range(len(self.borders))]
        table = pa.concat_tables(tables)
        if keys is None:
            yield group_labels(1)[0], table
            return
        of = group_of(keys.groups(keys.slots([table.column(k) for k in stream.keys])), self.groups)
        for group in np.unique(of):
            yield group_labels(self.groups)[group], table.filter(pa.array(of == group))

    def _reduced(self, number: int, rows: pa.Table, slots: Array, keys: KeyDirectory | None) -> pa.Table:
        """The partials of one window: by slice, and of rows that may be held at the end."""
        borders = self.borders[number]
        ticks = rows.column(self.query.plan.stream.time).cast(pa.int64()).to_numpy()
        parts = [self._partials(number, rows, ticks, slots, borders.slices(ticks), keys)]
        if borders.tail is not None:
            last = np.full(int(slots.max()) + 1, NO_TIME)
            np.maximum.at(last, slots, ticks)
            late = np.flatnonzero(ticks >= last[slots] - borders.tail)
            # rows of one time leave together
            chosen = rows.take(pa.array(late))
            parts.append(self._partials(number + _TAIL, chosen, ticks[late], slots[late], ticks[late], keys))
        return pa.concat_tables(parts)

    def _partials(
        self, number: int, rows: pa.Table, ticks: Array, slots: Array, slices: Array, keys: KeyDirectory | None
    ) -> pa.Table:
        order = np.lexsort((slices, slots))
        new = np.ones(len(order), bool)
        new[1:] = (np.diff(slots[order]) != 0) | (np.diff(slices[order]) != 0)
        groups = np.empty(len(order), np.int64)
        groups[order] = np.cumsum(new) - 1
        starts = np.flatnonzero(new)
        first, sorted_ticks = order[starts], ticks[order]
        columns = {} if keys is None else dict(zip(self.query.plan.stream.keys, keys.key_columns(slots[first])))
        columns |= {
            _WINDOW: pa.array(np.full(len(first), number)),
            _SLICE: pa.array(slices[first]),
            _ROWS: pa.array(np.diff(starts, append=len(order))),
            _FIRST: pa.array(np.minimum.reduceat(sorted_ticks, starts)),
            _LAST: pa.array(np.maximum.reduceat(sorted_ticks, starts)),
        }
        return pa.table(columns | self.partials.lift(rows, ticks, np.arange(len(ticks)), groups, len(first)))


@dataclass(frozen=True)
class Joining:
    """The partials of all tasks for one key group, as results (DFA)."""

    plan: GroupQuery
    partials: Partials
    borders: tuple[TimeBorders, ...]
    labels: tuple[str, ...]

    def results(self, table: pa.Table) -> pa.Table:
        return pa.concat_tables([self._of_window(number, table) for number in range(len(self.borders))])

    def _of_window(self, number: int, table: pa.Table) -> pa.Table:
        window, borders = table.column(_WINDOW).to_numpy(), self.borders[number]
        keys, slots, cells, found = self._folded(table.filter(pa.array(window == number)))
        if not len(slots):
            return self._table(keys, slots, number, *(slots,) * 4, self.partials.values(cells, slots, slots))
        starts = np.flatnonzero(np.diff(slots, prepend=-1))
        ends = np.append(starts[1:], len(slots))
        last = np.maximum.reduceat(found[_LAST], starts)
        index = np.repeat(np.arange(len(starts)), ends - starts)
        before = np.concatenate(([0], np.cumsum(found[_ROWS])))
        of, border, lo, hi = borders.windows(found[_SLICE], found[_FIRST], index, last, starts, ends)
        base = before[starts[of]]
        parts = [self._table(keys, slots[starts[of]], number, found[_FIRST][lo], border, before[lo] - base,
                             before[hi] - base, self.partials.values(cells, lo, hi))]  # fmt: skip
        if borders.end:
            total = before[ends] - before[starts]
            parts.append(self._at_end(number, table, window, keys, slots, cells, found, starts, ends, last, total))
        return pa.concat_tables(parts)

    def _at_end(
        self, number: int, table: pa.Table, window: Array, keys: KeyDirectory | None, slots: Array, cells: list[Cells],
        found: dict[str, Array], starts: Array, ends: Array, last: Array, total: Array,
    ) -> pa.Table:  # fmt: skip
        """What is held at the end of the stream, for every key."""
        borders, none = self.borders[number], np.full(len(starts), NO_TIME)
        if borders.tail is None:  # all since the last border
            lo = ends - 1
            held, start = found[_ROWS][lo], found[_FIRST][lo]
            values = self.partials.values(cells, lo, ends)
        else:
            _, tail_slots, tail_cells, tail = self._folded(table.filter(pa.array(window == number + _TAIL)), keys)
            places = np.searchsorted(slots[starts], tail_slots)
            kept = np.flatnonzero(tail[_SLICE] >= last[places] - borders.tail)
            tail_cells = [each.take(kept) for each in tail_cells]
            lo, hi = (np.searchsorted(places[kept], np.arange(len(starts)), side=side) for side in ("left", "right"))
            rows = np.concatenate(([0], np.cumsum(tail[_ROWS][kept])))
            held, start = rows[hi] - rows[lo], tail[_SLICE][kept][lo]
            values = self.partials.values(tail_cells, lo, hi)
        return self._table(keys, slots[starts], number, start, none, total - held, total, values)

    def _folded(
        self, table: pa.Table, keys: KeyDirectory | None = None
    ) -> tuple[KeyDirectory | None, Array, list[Cells], dict[str, Array]]:
        """Partials of the same key and slice as one, in order of key and slice."""
        names = self.plan.plan.stream.keys
        slots = np.zeros(table.num_rows, np.int64)
        if names:
            keys = KeyDirectory([table.schema.field(k).type for k in names]) if keys is None else keys
            slots = keys.slots([table.column(k) for k in names])
        slices = table.column(_SLICE).to_numpy()
        order = np.lexsort((slices, slots))
        slots, slices = slots[order], slices[order]
        new = np.ones(len(order), bool)
        new[1:] = (np.diff(slots) != 0) | (np.diff(slices) != 0)
        starts = np.flatnonzero(new)
        cells = self.partials.fold([c.take(order) for c in self.partials.cells(table)], np.cumsum(new))
        if not len(order):
            return keys, slots, cells, {}
        of = {name: table.column(name).to_numpy()[order] for name in (_ROWS, _FIRST, _LAST)}
        reduced = {
            _SLICE: slices[starts],
            _ROWS: np.add.reduceat(of[_ROWS], starts),
            _FIRST: np.minimum.reduceat(of[_FIRST], starts),
            _LAST: np.maximum.reduceat(of[_LAST], starts),
        }
        return keys, slots[starts], cells, reduced

    def _table(
        self, keys: KeyDirectory | None, slots: Array, number: int, start: Array, end: Array, lo: Array, hi: Array,
        values: list[pa.Array],
    ) -> pa.Table:  # fmt: skip
        """Windows as the operator gives them."""
        schema = SliceOperator(replace(self.plan.spec, aggs=(), finalize=None)).finish().table.schema
        time, n = schema.field("window_end").type, len(slots)
        columns = [] if keys is None else keys.key_columns(slots)
        columns += [pa.array([self.labels[number]] * n, pa.string()), pa.array(start).cast(time)]
        columns += [pa.array(end, pa.int64(), mask=end == NO_TIME).cast(time), pa.array(lo), pa.array(hi)]
        columns.append(pa.array(np.zeros(n, np.int32)))
        cast = [column.cast(f.type) for column, f in zip(columns, schema)]
        return self.partials.results(pa.Table.from_arrays(cast, schema=schema), values)


def borders_of(machine: PolicyMachine) -> TimeBorders | None:
    """The borders of policies by time alone; None: the policies are others."""
    if machine.central or machine.clocked or len(machine.trigger) != 1 or len(machine.evict) != 1:
        return None
    (trigger,), (evict,) = machine.trigger, machine.evict
    if not _by_time(trigger) or trigger.border_on_row:
        return None
    first = trigger.start + trigger.delay
    if isinstance(evict, Active) and isinstance(evict.eviction, Tumble):
        return TimeBorders(first, trigger.size, None, machine.end)
    return TimeBorders(first, trigger.size, evict.size, machine.end) if _by_time(evict) else None


def _by_time(policy: object) -> bool:
    return isinstance(policy, Time) and policy.active and policy.on is None


def _refuses(job: StrategyJob) -> str | None:
    reason = refusal(job)
    if reason is not None:
        return reason
    for label, bound in job.plan.bound:
        assert isinstance(bound, PolicyMachine)
        if borders_of(bound) is None:
            return f"{label} goes by more than one trigger and one eviction by event time, which need no history"
    for agg in job.plan.aggregation.aggs:
        if agg.bound.laws.by_arrival:
            return f"{agg.name} asks for the order of rows with the same time, which no task knows"
    return None


def _cost(job: StrategyJob) -> float:
    """Time relative to the key-group operator, measured on 2 cores: with keys there are many more partials."""
    return 1.4 if job.plan.stream.keys else 0.55


def _build(job: StrategyJob) -> DataFrame:
    query, partials = GroupQuery(job.plan, used_columns(job.plan)), Partials(job.plan)
    found = [borders_of(bound) for _, bound in job.plan.bound if isinstance(bound, PolicyMachine)]
    borders = tuple(b for b in found if b is not None)
    joining = Joining(query, partials, borders, tuple(label for label, _ in job.plan.bound))
    unpack = Unpacker(storable_schema(query.result_schema), None)

    def join_windows(given: pa.Table) -> pa.Table:
        return unpack.results(joining.results(pa.concat_tables(map(from_bytes, given.column(1).to_pylist()))))

    share = Share(query, partials, borders, job.key_groups)
    shares = mapped(job.frame, needed(job, query), share, spark_schema(_SCHEMA))
    return by_group(shares, ["panes_group"], join_windows, spark_schema(unpack.schema))


POLICY_PARALLEL = Strategy(
    name="policy_parallel",
    summary="every task asks policies by time and reduces the rows it reads; partials meet by key and border",
    applies="windows by one trigger and one eviction by event time, or tumbling by time, on static frames",
    costs="rows are reduced where they are read: without keys 0.55 times the time of key_groups, with 1,000 keys 1.4",
    limits="static frames; aggregates that are associative and commutative; no late rows, lateness or snapshots",
    refuses=_refuses,
    cost=_cost,
    build=_build,
)
