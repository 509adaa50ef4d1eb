"""Ticks of a query and the event time that Spark's watermark runs on, each from the other.

Spark's watermark counts milliseconds from 1970 and never lies before it. Timestamp columns are used as they
are, so what Spark reports is what users expect. A column of integers becomes a stand-in timestamp, one
millisecond per tick and shifted far ahead, so that negative numbers have a watermark too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from panes.connectors.spark_types import INSTANT
from panes.errors import QueryError
from panes.plan.query import StreamPlan
from panes.slicing.spec import MANUAL
from panes.windows.base import ALWAYS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: The column that carries event time into Spark's watermark.
EVENT_TIME = "panes_event_time"
#: Stand-in timestamps lie around this many milliseconds; integers beyond +- this are held to the edge.
SHIFT = 2**51
_NANOS_PER_MILLI = 1_000_000


@dataclass(frozen=True)
class EventTime:
    """How one stream's ticks and Spark's milliseconds correspond: milli = tick * `up` // `down` + `shift`."""

    up: int
    down: int
    shift: int
    bound: int  # milliseconds to wait for rows out of order

    @classmethod
    def of(cls, stream: StreamPlan) -> EventTime:
        if stream.watermark == MANUAL:
            raise QueryError(
                "watermark='manual' has no meaning on Spark, where the watermark follows the rows: "
                "give the disorder to wait for, for instance watermark='2 s'"
            )
        bound = int(stream.watermark or 0)
        nanos = int(stream.domain.nanos_per_tick)
        if stream.domain.integer:
            down = _NANOS_PER_MILLI if stream.domain.unit == "ns" else 1
            return cls(1, down, SHIFT, -(-bound // down))
        if nanos >= _NANOS_PER_MILLI:
            return cls(nanos // _NANOS_PER_MILLI, 1, 0, bound * (nanos // _NANOS_PER_MILLI))
        down = _NANOS_PER_MILLI // nanos
        return cls(1, down, 0, -(-bound // down))

    @property
    def beginning(self) -> int:
        """The tick that Spark's own windows of a stream begin at: for them what ends by 1970 has passed from the start.
        Stand-ins lie far after it."""
        return ALWAYS if self.shift else 0

    def watermark(self, millis: int) -> int:
        """The tick that Spark's watermark stands for; ALWAYS while there is none yet."""
        return ALWAYS if millis <= 0 else (millis - self.shift) * self.down // self.up

    def millis(self, tick: int) -> int:
        """The first millisecond at which the watermark has reached `tick`."""
        return -(-tick * self.up // self.down) + self.shift

    def reached(self, times: pa.ChunkedArray) -> int | None:
        """The latest of these times of rows, in microseconds of Spark's event time; None if there is none."""
        millis = self._latest(times)
        return None if millis is None else millis * 1000

    def watermark_after(self, times: pa.ChunkedArray) -> int:
        """The tick that Spark's watermark would stand for after rows of these times alone."""
        millis = self._latest(times)
        return ALWAYS if millis is None else self.watermark(millis - self.bound)

    def _latest(self, times: pa.ChunkedArray) -> int | None:
        latest = pc.max(times)
        if not latest.is_valid:
            return None
        millis = (latest.value if pa.types.is_timestamp(times.type) else latest.as_py()) * self.up // self.down
        if self.shift:
            millis = max(-SHIFT, min(SHIFT, millis)) + self.shift
        return int(millis)

    def with_watermark(self, frame: DataFrame, stream: StreamPlan, time: Column) -> DataFrame:
        """The frame with one more column, the event time marked for Spark; `time` is that of the stream."""
        return self.mark(frame.withColumn(EVENT_TIME, self._column(frame, stream, time)), EVENT_TIME)

    def mark(self, frame: DataFrame, column: str) -> DataFrame:
        """The frame with a column of timestamps as what Spark's watermark runs on."""
        if _has_watermark(frame):
            raise QueryError(
                "the DataFrame has a watermark already, and Spark allows no second one for the same rows: take "
                ".withWatermark(...) away from it, and say how much disorder to wait for in pn.stream(), for "
                "instance watermark='2 s'"
            )
        return frame.withWatermark(column, f"{self.bound} milliseconds")

    def _column(self, frame: DataFrame, stream: StreamPlan, time: Column) -> Column:
        from pyspark.sql import functions as F
        from pyspark.sql.types import TimestampNTZType

        if stream.domain.integer:
            near = F.greatest(F.lit(-SHIFT), F.least(F.lit(SHIFT), F.floor(time.cast("bigint") / F.lit(self.down))))
            if self.down == 1:
                near = F.greatest(F.lit(-SHIFT), F.least(F.lit(SHIFT), time.cast("bigint")))
            stand_in = F.timestamp_millis(near.cast("bigint") + F.lit(SHIFT))
            # greatest and least pass over null, which would be the far end of time
            return F.when(time.isNotNull(), stand_in)
        if isinstance(frame.select(time).schema[0].dataType, TimestampNTZType):
            return F.to_utc_timestamp(time.cast(INSTANT), F.current_timezone())
        return time.cast(INSTANT)


def _has_watermark(frame: Any) -> bool:
    if hasattr(frame, "_jdf"):
        return "EventTimeWatermark" in frame._jdf.queryExecution().analyzed().toString()
    return "WithWatermark" in frame._plan.print()  # Spark Connect: what was asked for, before it is analyzed


@dataclass(frozen=True)
class PassedTime(EventTime):
    """The event time of rows that come once the watermark has passed them: slices that Spark has aggregated, results of
    windows inside. It is `lag` ticks behind the watermark, and where that lies in a cell, at the cell's beginning."""

    length: int = 1  # of a cell, in ticks
    phase: int = 0
    lag: int = 0

    def watermark(self, millis: int) -> int:
        tick = super().watermark(millis)
        if tick == ALWAYS:
            return tick
        tick -= self.lag
        return tick - (tick - self.phase) % self.length

    def millis(self, tick: int) -> int:
        return super().millis(tick + (self.phase - tick) % self.length + self.lag)
