"""Native windows on streams: Spark aggregates rows to slices; windows of several slices are made in key groups.

Spark gives a slice once, when the watermark has passed it, to a key-group operator over parts of aggregates: Python
sees slices and never a row. Windows are given when the watermark has passed the cell that they end in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

import pyarrow as pa

from panes.aggregates.base import Spec
from panes.connectors.spark_types import INSTANT, arrow_schema
from panes.plan.expressions import Scope
from panes.plan.query import StreamPlan, plan_query
from panes.runners.spark.columns import NoColumn
from panes.runners.spark.event_time import EVENT_TIME, SHIFT, EventTime, PassedTime
from panes.runners.spark.frame_columns import mapped
from panes.runners.spark.group_operator import PassedQuery
from panes.runners.spark.packing import PACKED, PACKED_TIME, Packer
from panes.runners.spark.strategies.card import StrategyJob
from panes.runners.spark.strategies.key_groups import in_groups
from panes.runners.spark.strategies.native_aggregates import TIME, SlicePart
from panes.runners.spark.strategies.native_rows import NativeQuery
from panes.runners.spark.strategies.native_windows import Scale, Slices, StreamCells

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_MICROS_PER_MILLI = 1000
#: The end of the cell of a row.
CELL = "c"


class StreamClock:
    """Between the numbers of native windows and the timestamps that Spark's watermark runs on."""

    def __init__(self, query: NativeQuery) -> None:
        self._query = query
        self.time = EventTime.of(query.stream)
        self.integer = query.stream.domain.integer
        if self.integer and self.time.down != 1:
            raise NoColumn("integer times in nanoseconds are finer than the watermark of Spark")

    @property
    def unit(self) -> int:
        """What lengths that are free to choose are multiples of: a tick, and a millisecond at least."""
        return 1 if self.integer else max(_MICROS_PER_MILLI, Scale.of(self._query.stream.domain).up)

    def cell_time(self, cells: StreamCells) -> PassedTime:
        scale = Scale.of(self._query.stream.domain)
        length, phase = (n * scale.down // scale.up for n in (cells.length, cells.phase))
        return PassedTime(**asdict(self.time), length=length, phase=phase)

    def marked(self) -> DataFrame:
        """Rows that have a time, with the keys and arguments of the query; the time has a watermark."""
        from pyspark.sql import functions as F

        query = self._query
        if query.job.marked:
            raise NoColumn("several streams are merged, each with a watermark of its own")
        time = query.time
        if self.integer:
            # these get a stand-in time, which has no room for more
            number, name = time.cast("bigint"), query.stream.time
            message = F.lit(f"a time of column {name!r} is beyond +-2**51, too far for the watermark of Spark")
            far = F.raise_error(message).cast("bigint")
            time = F.when(number.isNull() | number.between(-SHIFT, SHIFT), number).otherwise(far)
        marked = self.time.with_watermark(query.filtered(), query.stream, time)
        return marked.select(*query.arguments(), EVENT_TIME).filter(F.col(EVENT_TIME).isNotNull())

    def span(self, count: int) -> str:
        """A length, as Spark reads it."""
        return f"{count * (_MICROS_PER_MILLI if self.integer else 1)} microseconds"

    def number(self, instant: Column) -> Column:
        """The tick, or microsecond, of an edge that Spark gives."""
        from pyspark.sql import functions as F

        return F.unix_millis(instant) - F.lit(SHIFT) if self.integer else F.unix_micros(instant)

    @property
    def metadata(self) -> dict[str, int]:
        """What a column has that Spark's watermark passes; to compute with the event time loses it."""
        return {"spark.watermarkDelayMs": self.time.bound}

    def instant(self, number: Column) -> Column:
        """The instant of a tick, or microsecond, as Spark's watermark counts."""
        from pyspark.sql import functions as F

        return F.timestamp_millis(number + F.lit(SHIFT)) if self.integer else F.timestamp_micros(number)

    def time_of(self, number: Column) -> Column:
        """A tick, or microsecond, as the stream's own times are."""
        from pyspark.sql import functions as F

        kind = self._query.job.frame.schema[self._query.stream.time].dataType
        return (number if self.integer else F.timestamp_micros(number)).cast(kind)

    def number_of(self, time: Column) -> Column:
        """The tick, or microsecond, of a time as results have it."""
        from pyspark.sql import functions as F

        return time.cast("bigint") if self.integer else F.unix_micros(time.cast(INSTANT))


def check_stream(query: NativeQuery, streaming: bool) -> None:
    query.check()
    if not streaming:
        return
    if query.job.at_once:
        raise NoColumn("Spark's own windows are not given at once (close)")
    if query.stream.lateness is not None:
        raise NoColumn("results that were given can't be corrected on a stream (lateness)")
    if query.ordered:
        raise NoColumn("first, last and the like need the order of rows of one time, which a stream does not keep")


def stream_cost(job: StrategyJob, cost: float) -> float:
    """What a way to run a stream costs that gives what key groups give. Where somebody reads the results on, the two
    would hear of the watermark at different times; and Spark Connect can't see which strategy a checkpoint has."""
    return math.inf if job.inside or not hasattr(job.frame.sparkSession, "_jvm") else cost


def cells_of(query: NativeQuery, slices: Slices) -> StreamCells:
    return StreamCells.of(slices, StreamClock(query).unit)


def windows_are_cells(slices: Slices, cells: StreamCells) -> bool:
    """Whether each cell is a window, so that a row that is behind its cell is behind all of its windows."""
    return slices.alone and slices.ends[0].size == cells.length and not cells.cut


def build_stream(job: StrategyJob) -> DataFrame:
    """Rows to slices by Spark alone; slices to windows too, if each is one, and else in key groups."""
    from pyspark.sql import functions as F

    query, slices = NativeQuery(job), Slices.of(job.plan)
    check_stream(query, streaming=True)
    clock = StreamClock(query)
    cells = cells_of(query, slices)
    rows, by = clock.marked(), [*query.keys, CELL]
    time = clock.number(F.col(EVENT_TIME))
    # by arithmetic: Spark's window() takes longer
    end = time - F.pmod(time - F.lit(cells.phase), F.lit(cells.length)) + F.lit(cells.length)
    if cells.cut:
        rows, by = rows.withColumn("s", cells.edge_before(time)), [*by, "s"]
    rows = rows.withColumn(CELL, clock.instant(end)).withMetadata(CELL, clock.metadata)
    parts = rows.groupBy(*by).agg(*query.lift())
    end = clock.number(F.col(CELL))
    start = end - F.lit(cells.length)
    if windows_are_cells(slices, cells):
        return query.results(parts, F.lit(0), start, end)
    return windows_of_parts(query, parts, F.greatest(start, F.col("s")) if cells.cut else start, clock, cells)


def windows_of_parts(
    query: NativeQuery, parts: DataFrame, start: Column, clock: StreamClock, cells: StreamCells
) -> DataFrame:
    """The windows of slices, put together in key groups. `start` says where the slice of each row begins."""
    from pyspark.sql import functions as F

    job, stream = query.job, query.stream
    flat = [F.col(source).alias(name) for name, source in _flat(query.parts).items()]
    parts = parts.select(*query.keys, clock.time_of(start).alias(TIME), *flat)
    schema = arrow_schema(parts.schema)
    at = schema.get_field_index(TIME)
    schema = schema.set(at, pa.field(TIME, stream.schema.field(stream.time).type))
    plan = plan_query(
        StreamPlan(Scope(schema), TIME, stream.domain, tuple(query.keys), stream.watermark),
        {str(number): window for number, (_, window) in enumerate(job.plan.windows)},
        {name: _fold(name, part) for name, part in query.parts.items()},
    )
    packer = Packer(plan.stream, tuple(schema.names), job.key_groups)
    packed = mapped(parts, schema.names, packer, PACKED).drop(PACKED_TIME)
    found = in_groups(
        packed,
        PassedQuery(plan, tuple(schema.names)),
        clock.cell_time(cells),
        job.key_groups,
        inside=job.inside,
    )
    numbers = (clock.number_of(F.col(name)) for name in ("window_start", "window_end"))
    return query.results(found, F.col("window").cast("int"), *numbers)


def _flat(parts: Mapping[str, SlicePart]) -> dict[str, str]:
    """Columns of parts, those with fields taken apart: name -> where it is."""
    plain = {name: name for name, part in parts.items() if not part.fields}
    return plain | {f"{name}_{field}": f"{name}.{field}" for name, part in parts.items() for field in part.fields}


def _fold(name: str, part: SlicePart) -> Spec:
    if part.fold is None:
        raise NoColumn("one of its aggregates has parts that only Spark can combine")
    return part.fold(tuple(f"{name}_{field}" for field in part.fields) or (name,))
