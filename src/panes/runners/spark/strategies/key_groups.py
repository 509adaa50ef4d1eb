"""Key-group operator: the engine's own operator in Spark's tasks, on Arrow batches of many keys.

Rows are packed by key group where they are read (packing.py), shuffled as few large values, and pushed to the
operator of their group (processor.py). Results travel packed too and are unpacked into typed columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from panes.connectors.spark_types import spark_schema, storable_schema
from panes.errors import QueryError
from panes.plan.query import QueryPlan, StreamPlan
from panes.runners.spark.beats import period_of
from panes.runners.spark.event_time import EventTime, PassedTime
from panes.runners.spark.frame_columns import by_group, mapped
from panes.runners.spark.group_operator import GroupQuery, PassedQuery, Runnable, reach, take, used_columns
from panes.runners.spark.packing import (
    PACKED,
    PACKED_TIME,
    Packer,
    from_bytes,
    group_labels,
    hash_groups,
    in_order,
    unpacked,
)
from panes.runners.spark.strategies.card import Strategy, StrategyJob
from panes.runners.spark.workers import tune_worker
from panes.slicing.spec import MANUAL
from panes.windows.base import ALWAYS, LookBack, MachineWindow
from panes.windows.codec import has_form

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The name under which Spark reports what the operators of a micro-batch did. Those inside of another query have a
#: number after it, since Spark wants a name of its own for each.
OBSERVED = "panes"
_numbers = itertools.count(1)
_INITIAL = "panes_group int, panes_snapshot binary"


def build(job: StrategyJob) -> DataFrame:
    return _streaming(job) if job.streaming else _static(job)


def _query(job: StrategyJob) -> GroupQuery:
    # late rows are given as they came; and a snapshot from elsewhere may hold whole rows
    whole = job.late or job.restore
    columns = tuple(job.plan.stream.schema.names) if whole else used_columns(job.plan, job.sequence)
    if job.passed:
        return PassedQuery(job.plan, columns, job.sequence)
    # where the watermark is that of several streams, rows of one don't say how far it is
    alone = job.streaming and not (job.marked or job.inside)
    early = EventTime.of(job.plan.stream) if alone and job.at_once else None
    clock = job.plan.stream if alone and job.clocked else None
    return GroupQuery(job.plan, columns, job.sequence, job.at_once, early, job.latest, clock)


def needed(job: StrategyJob, query: GroupQuery) -> list[str]:
    """Columns to read: those sent to workers, and those that only `where` looks at."""
    conditions = [e for c in job.plan.stream.where for e in c.scalars.wanted.values()]
    filtered = {c for e in conditions for c in e.columns} | {e.column for e in conditions}
    return [n for n in job.plan.stream.schema.names if n in filtered or n in query.columns]


def _streaming(job: StrategyJob) -> DataFrame:
    from panes.runners.spark.sources.beats import beats

    query, stream = _query(job), job.plan.stream
    time = EventTime.of(stream)
    groups = stream_groups(job.plan, job.key_groups)
    pulses = query.follows or (query.clock is not None and stream.silence.idle is not None)
    packer = Packer(stream, query.columns, groups, None if job.passed else time, pulses=pulses)
    packed = mapped(job.frame, needed(job, query), packer, PACKED)
    if job.passed:
        time = PassedTime(**asdict(time), lag=int(stream.watermark or 0))
    elif not job.marked:
        packed = time.mark(packed, PACKED_TIME)
    # the watermark is kept by Spark from here on; with its column Spark would drop what it takes for late
    packed = packed.drop(PACKED_TIME)
    if query.clock is not None:
        labels = group_labels(groups)[: packer.used_groups]
        packed = packed.union(beats(job.frame.sparkSession, labels, period_of(stream.silence), job.clock_file))
    initial = _initial_state(job, query, groups)
    return in_groups(packed, query, time, groups, late=job.late, initial=initial, inside=job.inside)


def in_groups(
    packed: DataFrame,
    query: Runnable,
    time: EventTime,
    groups: int,
    *,
    late: bool = False,
    initial: Any = None,
    inside: bool = False,
) -> DataFrame:
    """Packed rows of a stream, pushed to the operators of their key groups; what these give, as typed columns."""
    from pyspark.sql import functions as F

    from panes.runners.spark.processor import GIVEN, GroupProcessor

    given = packed.groupBy("panes_group").transformWithStateInPandas(
        GroupProcessor(query, time, groups, keep_late=late),
        outputStructType=GIVEN,
        outputMode="append",
        timeMode="EventTime",
        initialState=initial,
    )
    counted = given.observe(
        f"{OBSERVED}_{next(_numbers)}" if inside else OBSERVED,
        F.coalesce(F.sum("rows"), F.lit(0)).alias("rows"),
        F.coalesce(F.sum("rows_late"), F.lit(0)).alias("rows_late"),
        F.coalesce(F.sum("results_given"), F.lit(0)).alias("results"),
        F.coalesce(F.sum("state_bytes"), F.lit(0)).alias("state_bytes"),
        F.coalesce(F.sum("written"), F.lit(0)).alias("written"),
    )
    unpack = Unpacker(storable_schema(query.result_schema), storable_schema(query.late_schema) if late else None)
    return mapped(counted, counted.columns, unpack, spark_schema(unpack.schema))


def _initial_state(job: StrategyJob, query: GroupQuery, groups: int) -> Any:
    """A snapshot of the embedded runner, by key group."""
    if not job.restore:
        return None
    op = query.operator(job.restore, trusted=job.trusted)
    declared = dict(query.spec.windows)
    own = [n for n, w in op.windows.items() if w is not declared.get(n) and not has_form(w)]
    if own and not query.spec.user_code:
        raise QueryError(
            f"restore=: window {own[0]!r} was added while running and is code of your own, which a checkpoint holds "
            "only for queries that declare some; declare it in the query"
        )
    op.take_late()
    # without keys all rows are in the first group, and the others never run
    used = groups if job.plan.stream.keys else 1
    labels = group_labels(groups)
    parts = [(labels[g], bytearray(op.snapshot(key_groups=hash_groups(g, groups)))) for g in range(used)]
    return job.frame.sparkSession.createDataFrame(parts, _INITIAL).groupBy("panes_group")


def stream_groups(plan: QueryPlan, groups: int) -> int:
    """How many key groups a stream is worked on in: one, if windows of a key depend on rows of others."""
    return 1 if any(isinstance(bound, MachineWindow) and bound.central for _, bound in plan.bound) else groups


def static_groups(plan: QueryPlan, groups: int) -> int:
    """How many key groups a static frame is worked on in.

    Empty windows of every key, unchanged ones, and those that the clock closes, go as far as the last row of any key,
    which only a group with all keys knows.
    """
    unchanged = any(isinstance(bound, LookBack) and bound.unchanged for _, bound in plan.bound)
    return 1 if plan.emit_empty or unchanged or clocked(plan) else stream_groups(plan, groups)


def clocked(plan: QueryPlan) -> bool:
    return any(bound.clocked for _, bound in plan.bound)


def _static(job: StrategyJob) -> DataFrame:
    query, stream = _query(job), job.plan.stream
    groups = static_groups(job.plan, job.key_groups)
    packed = mapped(job.frame, needed(job, query), Packer(stream, query.columns, groups), PACKED)
    unpack = Unpacker(storable_schema(query.result_schema), storable_schema(query.late_schema) if job.late else None)
    by_clock = clocked(job.plan)

    def whole_group(packed_rows: pa.Table) -> pa.Table:
        """All rows of a key group, then the end of the stream. Rows of a static frame are never late."""
        parts, chunks, rows = (packed_rows.column(i).to_pylist() for i in (1, 2, 3))
        op = query.operator()
        whole = unpacked(in_order(parts, chunks, rows))
        given = take(op, whole)
        if by_clock and whole is not None:
            given += reach(op, clock_at_end(stream, whole))
        given.append(op.finish().table)
        return pa.concat_tables([*(unpack.results(t) for t in given), unpack.late(op.take_late())])

    return by_group(packed, ["panes_group"], whole_group, spark_schema(unpack.schema))


def clock_at_end(stream: StreamPlan, rows: pa.Table) -> int:
    """Where the watermark of a stream is after its last row."""
    latest = None if stream.watermark == MANUAL else pc.max(rows[stream.time].cast(pa.int64())).as_py()
    return ALWAYS if latest is None else latest - int(stream.watermark or 0)


class Unpacker:
    """Packed results to typed columns; with late rows, these too, in columns of their own."""

    def __init__(self, results: pa.Schema, late: pa.Schema | None) -> None:
        self._results = results
        self._late = late
        self.schema = results
        if late is not None:
            row = pa.struct([f for f in late if f.name != "reason"])
            self.schema = results.append(pa.field("late_reason", pa.string())).append(pa.field("late_row", row))

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tune_worker()
        for batch in batches:
            for results in batch.column("results"):
                if results.is_valid:
                    yield from self.results(from_bytes(results.as_buffer())).to_batches()
            for late in batch.column("late"):
                if late.is_valid:
                    yield from self.late(from_bytes(late.as_buffer())).to_batches()

    def results(self, table: pa.Table) -> pa.Table:
        columns = [table.column(f.name).cast(f.type) for f in self._results]
        return self._filled(columns, table.num_rows)

    def late(self, table: pa.Table) -> pa.Table:
        if self._late is None:
            return self.schema.empty_table()
        columns = [pa.nulls(table.num_rows, f.type) for f in self._results]
        row = self.schema.field("late_row").type
        flat = table.combine_chunks()
        fields = [_whole(flat.column(f.name).cast(f.type)) for f in row]
        columns += [flat.column("reason"), pa.StructArray.from_arrays(fields, fields=list(row))]
        return self._filled(columns, table.num_rows)

    def _filled(self, columns: list[Any], n: int) -> pa.Table:
        missing = self.schema.names[len(columns) :]
        columns = [*columns, *(pa.nulls(n, self.schema.field(name).type) for name in missing)]
        return pa.Table.from_arrays(columns, schema=self.schema)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])


def _refuses(job: StrategyJob) -> str | None:
    if job.restore and not job.streaming:
        return "restore= goes on with a stream, and a static frame is not one"
    if job.restore and job.passed:
        return "restore= is of these windows alone, and those inside would begin anew"
    return None


def _cost(job: StrategyJob) -> float:
    """Relative time per row: every row passes through Python twice, whatever the windows."""
    return 1.0


KEY_GROUPS = Strategy(
    name="key_groups",
    summary="the engine's operator in Spark's Python workers, one call per key group and micro-batch",
    applies="every query",
    costs="each row goes through Python once; hardly depends on the number of windows or their overlap",
    limits="no Spark limits beyond append mode; a stream needs the RocksDB state store",
    refuses=_refuses,
    cost=_cost,
    build=build,
    facts=lambda job: _query(job).facts(stream_groups(job.plan, job.key_groups)),
)
