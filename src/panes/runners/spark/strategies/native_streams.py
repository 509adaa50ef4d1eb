"""Native windows on streams: Spark's `window()` over rows, or over slices where windows overlap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from panes.runners.spark.columns import NoColumn
from panes.runners.spark.event_time import EVENT_TIME, SHIFT, EventTime
from panes.runners.spark.strategies.card import Job
from panes.runners.spark.strategies.native_rows import NativeQuery
from panes.runners.spark.strategies.native_windows import Slices
from panes.windows.base import NEVER

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_MICROS_PER_MILLI = 1000


class StreamClock:
    """Between the numbers of native windows and the timestamps that Spark's watermark runs on."""

    def __init__(self, query: NativeQuery) -> None:
        self._query = query
        self.time = EventTime.of(query.stream)
        self.integer = query.stream.domain.integer
        if self.integer and self.time.down != 1:
            raise NoColumn("integer times in nanoseconds are finer than the watermark of Spark")

    def marked(self) -> DataFrame:
        """Rows with the keys and arguments of the query, and an event time that has a watermark."""
        from pyspark.sql import functions as F

        query = self._query
        if query.job.marked:
            raise NoColumn("several streams are merged, each with a watermark of its own")
        frame = query.filtered()
        if self.integer:
            # these get a stand-in time, which has no room for more
            name = query.stream.time
            time = F.col(f"`{name}`").cast("bigint")
            message = F.lit(f"a time of column {name!r} is beyond +-2**51, too far for the watermark of Spark")
            far = F.raise_error(message).cast("bigint")
            frame = frame.withColumn(name, F.when(time.isNull() | time.between(-SHIFT, SHIFT), time).otherwise(far))
        marked = self.time.with_watermark(frame, query.stream)
        return marked.select(*query.arguments(), EVENT_TIME)

    def span(self, count: int) -> str:
        """A length, as Spark's windows take it."""
        return f"{count * (_MICROS_PER_MILLI if self.integer else 1)} microseconds"

    def origin(self, offset: int, step: int) -> str:
        """Where windows at `offset` + k * `step` begin."""
        return self.span((offset + (SHIFT if self.integer else 0)) % step)

    def number(self, instant: Column) -> Column:
        """The tick, or microsecond, of an edge that Spark gives."""
        from pyspark.sql import functions as F

        return F.unix_millis(instant) - F.lit(SHIFT) if self.integer else F.unix_micros(instant)


def check_stream(query: NativeQuery, streaming: bool) -> None:
    query.check()
    if not streaming:
        return
    if query.stream.lateness is not None:
        raise NoColumn("results that were given can't be corrected on a stream (lateness)")
    if query.ordered:
        raise NoColumn("first, last and the like need the order of rows of one time, which a stream does not keep")


def build_stream(job: Job) -> DataFrame:
    """One window of event time, over slices if it overlaps."""
    from pyspark.sql import functions as F

    query, slices = NativeQuery(job), Slices.of(job.plan)
    check_stream(query, streaming=True)
    if len(slices.ends) != 1:
        raise NoColumn("Spark takes one window per stream; this query has several")
    (only,) = slices.ends
    if only.round != 1 or only.size < only.step or only.high < NEVER:
        raise NoColumn("on streams Spark has tumbling and sliding windows without gaps alone")
    clock = StreamClock(query)
    rows = clock.marked()
    size, step, origin = clock.span(only.size), clock.span(only.step), clock.origin(only.offset, only.step)
    if slices.alone:
        found = rows.groupBy(*query.keys, F.window(EVENT_TIME, size, step, origin).alias("w")).agg(*query.lift())
    else:
        length = clock.span(slices.length)
        slice = F.window(EVENT_TIME, length, length, clock.origin(slices.phase, slices.length))
        parts = rows.groupBy(*query.keys, slice.alias("s")).agg(*query.lift())
        found = parts.groupBy(*query.keys, F.window("s", size, step, origin).alias("w")).agg(*query.merge())
    return query.results(found, F.lit(0), clock.number(F.col("w.start")), clock.number(F.col("w.end")))
