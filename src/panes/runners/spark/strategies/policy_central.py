"""Central discretization (SPEC P-49..P-52, P-54): one task asks the policies, many reduce rows, one joins windows.

The discretizer sees all rows of a key group in order, and knows from the policies which rows each window holds. Windows
hold rows in a row, so what it tells the workers is where windows begin and end: rows are cut there into slices, and
a window is a range of slices, of its key. Workers get an even share of the rows each, and reduce them by slice;
the final aggregation puts windows together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Cells
from panes.connectors.spark_types import spark_schema, storable_schema
from panes.errors import DataError
from panes.runners.spark.frame_columns import by_group, mapped
from panes.runners.spark.group_operator import GroupQuery, reach, take, used_columns
from panes.runners.spark.packing import PACKED, Packer, from_bytes, in_order, to_bytes, unpacked
from panes.runners.spark.strategies.card import Strategy, StrategyJob
from panes.runners.spark.strategies.key_groups import Unpacker, clock_at_end, clocked, needed, static_groups
from panes.runners.spark.strategies.policy_parts import Partials, messages, refusal, slots_of
from panes.slicing.operator import SliceOperator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Array = np.ndarray
_SCHEMA = pa.schema([("panes_group", pa.int32()), ("panes_share", pa.int32()), ("panes_data", pa.binary())])
_SLICE, _TIME = "panes.slice", "panes.time"
#: The share that is no rows, but the windows.
_WINDOWS = -1


@dataclass(frozen=True)
class CentralDiscretizer:
    """Asks the policies, and says what rows go to whom and which slices make up a window."""

    query: GroupQuery
    partials: Partials
    shares: int

    def tell(self, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """(share, its rows), and the windows."""
        stream = self.query.plan.stream
        times = rows.column(stream.time)
        rows = self.query.spec.read(rows.filter(times.is_valid()) if times.null_count else rows)
        ticks = rows.column(stream.time).cast(pa.int64()).to_numpy()
        windows = self._windows(rows)
        slots, offsets, of_window = self._keys(rows, windows)
        order = np.lexsort((ticks, slots))
        lo, hi = (offsets[of_window] + windows.column(n).to_numpy() for n in ("window_from", "window_to"))
        cuts = np.unique(np.concatenate((offsets, lo, hi)))
        yield _WINDOWS, self._ranges(windows, np.searchsorted(cuts, lo), np.searchsorted(cuts, hi))
        places = np.arange(len(order))
        sent = rows.select(self.partials.columns) if self.partials.columns else rows.select([stream.time])
        sent = sent.combine_chunks().take(pa.array(order))
        sent = sent.append_column(_SLICE, pa.array(np.searchsorted(cuts, places, side="right") - 1))
        sent = sent.append_column(_TIME, pa.array(ticks[order]))
        bounds = np.linspace(0, len(order), self.shares + 1).astype(np.int64)
        for share, (start, end) in enumerate(pairwise(bounds.tolist())):
            if end > start:
                yield share, sent.slice(start, end - start)

    def _windows(self, rows: pa.Table) -> pa.Table:
        """The windows that the policies find, without what is computed of them."""
        op = SliceOperator(replace(self.query.spec, aggs=(), finalize=None, read=_as_is, reads_as_is=False))
        found = take(op, rows)
        if clocked(self.query.plan):
            found += reach(op, clock_at_end(self.query.plan.stream, rows))
        found.append(op.finish().table)
        if op.take_late().num_rows:
            raise DataError("policy_central: some rows have a time out of range; strategy='key_groups' leaves them out")
        return pa.concat_tables(found)

    def _keys(self, rows: pa.Table, windows: pa.Table) -> tuple[Array, Array, Array]:
        """The key of each row, where rows of each key begin, and the key of each window."""
        keys = self.query.plan.stream.keys
        slots, directory = slots_of(rows, keys)
        if directory is None:
            return slots, np.array([0, len(rows)]), np.zeros(len(windows), np.int64)
        of_window = directory.slots([windows.column(k) for k in keys])
        return slots, np.concatenate(([0], np.cumsum(np.bincount(slots, minlength=len(directory))))), of_window

    def _ranges(self, windows: pa.Table, lo: Array, hi: Array) -> pa.Table:
        return windows.append_column("panes.lo", pa.array(lo)).append_column("panes.hi", pa.array(hi))


def _as_is(table: pa.Table) -> pa.Table:
    return table


def preaggregate(partials: Partials, share: int, rows: pa.Table) -> pa.Table:
    """A worker's rows as partials, one for each slice that it has rows of."""
    slices = rows.column(_SLICE).to_numpy()
    numbers, groups = np.unique(slices, return_inverse=True)
    times = rows.column(_TIME).to_numpy()
    # rows are in order, so numbers of this share, after those of the shares before it, order them
    seq = (np.int64(share) << 40) + np.arange(len(times))
    cells = partials.lift(rows, times, seq, groups, len(numbers))
    return pa.table({_SLICE: pa.array(numbers), **cells})


def combine(partials: Partials, windows: pa.Table, parts: list[pa.Table]) -> pa.Table:
    """The partials of all workers, in order of shares, as results."""
    slices = np.concatenate([part.column(_SLICE).to_numpy() for part in parts]) if parts else np.empty(0, np.int64)
    cells = [Cells.concat(each) for each in zip(*(partials.cells(part) for part in parts))]
    folded, numbers = partials.fold(cells, slices), np.unique(slices)
    lo, hi = (np.searchsorted(numbers, windows.column(name).to_numpy()) for name in ("panes.lo", "panes.hi"))
    values = partials.values(folded, lo, hi)
    return partials.results(windows.drop_columns(["panes.lo", "panes.hi"]), values)


def _build(job: StrategyJob) -> DataFrame:
    query, stream = GroupQuery(job.plan, used_columns(job.plan, job.sequence), job.sequence), job.plan.stream
    groups, partials = static_groups(job.plan, job.key_groups), Partials(job.plan)
    discretizer = CentralDiscretizer(query, partials, job.key_groups)
    packed = mapped(job.frame, needed(job, query), Packer(stream, query.columns, groups), PACKED)
    told_as = spark_schema(_SCHEMA)
    unpack = Unpacker(storable_schema(query.result_schema), None)

    def discretize(given: pa.Table) -> pa.Table:
        whole = unpacked(in_order(*(given.column(i).to_pylist() for i in (1, 2, 3))))
        group = given.column(0)[0].as_py()
        return _told(group, [] if whole is None else discretizer.tell(whole))

    def reduce_share(given: pa.Table) -> pa.Table:
        group, share = (given.column(i)[0].as_py() for i in (0, 1))
        (data,) = given.column(2).to_pylist()
        if share == _WINDOWS:
            return given
        return _told(group, [(share, preaggregate(partials, share, from_bytes(data)))])

    def join_windows(given: pa.Table) -> pa.Table:
        told = sorted(zip(given.column(1).to_pylist(), given.column(2).to_pylist()))
        windows, *parts = (from_bytes(data) for _, data in told)
        return unpack.results(combine(partials, windows, parts))

    told = by_group(packed, ["panes_group"], discretize, told_as)
    reduced = by_group(told, ["panes_group", "panes_share"], reduce_share, told_as)
    return by_group(reduced, ["panes_group"], join_windows, spark_schema(unpack.schema))


def _told(group: int, found: Iterable[tuple[int, pa.Table]]) -> pa.Table:
    return messages([(group, share, to_bytes(table)) for share, table in found], _SCHEMA)


POLICY_CENTRAL = Strategy(
    name="policy_central",
    summary="one task asks the policies of a key group, many reduce shares of its rows, one joins windows",
    applies="windows by policies of any kind on static frames, with aggregates that are associative and commutative",
    costs="rows are sent twice: 1.4 to 2 times the time of key_groups, measured on 2 cores, so it must be asked for",
    limits="static frames; no late rows, lateness, snapshots or empty windows",
    refuses=refusal,
    cost=lambda job: 1.7,
    build=_build,
)
