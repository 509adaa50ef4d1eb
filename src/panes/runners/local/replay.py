"""`pn.replay(...)`: plays recorded rows again, as fast as they once came or faster, as data of a stream.

In: whatever `pn.stream` takes as data. Out: the same rows in the same order, each when it is due: by event
time at a chosen speed, by rows per second, or at once. On Spark the replay is a streaming source with offsets
(runners/spark/sources/tape.py).
"""

from __future__ import annotations

import time as clock
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from panes.errors import QueryError
from panes.plan.hints import did_you_mean
from panes.plan.types import arrow_schema
from panes.runners.local.listening import Ear
from panes.runners.local.rejects import Rejects
from panes.runners.local.source import Source
from panes.runners.local.sources import open_source
from panes.units import TimeDomain, is_number

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Embedded runs look so often, in seconds, for rows that are due.
_TICK = 0.02
#: The time of rows before the first that has one; and times beyond this many nanoseconds are held to it.
_NO_TIME = -(2**63)
_LIMIT = 2**62


@dataclass(frozen=True)
class Pace:
    """How fast rows come: seconds of event time per second, or rows per second; neither: all at once."""

    speed: float | None = None
    rows_per_second: float | None = None

    def due(self, times: np.ndarray | None, rows: int, first: int, seconds: float) -> int:
        """How many of the `rows` have come, if row `first` came `seconds` ago.

        `times`: for each row the latest event time so far, in nanoseconds.
        """
        if self.rows_per_second is not None:
            return min(rows, first + 1 + int(seconds * self.rows_per_second))
        if self.speed is None or times is None:
            return rows
        return max(first, self.reached(times, start_time(times, first), seconds))

    def reached(self, times: np.ndarray, start: int | None, seconds: float) -> int:
        """How many of the rows with these times have come `seconds` after event time `start`."""
        if start is None:
            return len(times)
        now = min(start + int(seconds * (self.speed or 0) * 1e9), 2 * _LIMIT - 1)
        return int(np.searchsorted(times, now, side="right"))


def start_time(times: np.ndarray, first: int = 0) -> int | None:
    """The time with which row `first` begins, or the next row that has one; None: none has."""
    known = max(first, int(np.searchsorted(times, _NO_TIME, side="right")))
    return int(times[known]) if known < len(times) else None


class Replay(Source):
    """Recorded rows that come again at a pace."""

    def __init__(self, source: Source, time: str | None, unit: str, pace: Pace, batch_rows: int | None) -> None:
        self.source = source
        self.time = time
        self.pace = pace
        self.batch_rows = batch_rows
        self.rows = source.rows
        self.repeatable = source.repeatable
        self.waits = source.waits or pace != Pace()
        self._unit = unit

    @property
    def schema(self) -> pa.Schema:
        return self.source.schema

    def retype(self, name: str, kind: pa.DataType) -> None:
        self.source.retype(name, kind)

    def hand_out(self, *, promptly: bool, ear: Ear | None = None) -> None:
        super().hand_out(promptly=promptly, ear=ear)
        self.source.hand_out(promptly=promptly)  # who hears this source hears that one

    def read(self, rejects: Rejects) -> Iterator[pa.Table]:
        began = clock.monotonic()
        done = 0
        latest = start = None
        for table in self.source.batches(rejects):
            times = self.latest_times(table, latest)
            if times is not None:
                latest = int(times[-1])
                start = start_time(times) if start is None else start
            at = 0
            while at < table.num_rows:
                due = self._due(times, start, table.num_rows, done, clock.monotonic() - began)
                end = min(due, at + (self.batch_rows or due))
                if end <= at:
                    clock.sleep(_TICK)
                    continue
                yield table.slice(at, end - at)
                at = end
            done += table.num_rows

    def _due(self, times: np.ndarray | None, start: int | None, rows: int, done: int, seconds: float) -> int:
        """How many rows of a table are due that has `done` rows before it."""
        if times is not None:
            return self.pace.reached(times, start, seconds)
        return min(rows, self.pace.due(None, done + rows, 0, seconds) - done)

    def latest_times(self, table: pa.Table, before: int | None = None) -> np.ndarray | None:
        """For each row the latest event time so far, in nanoseconds; None if the pace does not need them."""
        if self.pace.speed is None or self.time is None or not table.num_rows:
            return None
        column = table.column(self.time)
        stamped = pa.types.is_timestamp(column.type)
        factor = TimeDomain(column.type.unit if stamped else self._unit, not stamped).nanos_per_tick
        ticks = np.clip(column.cast(pa.int64()).fill_null(0).to_numpy(), -_LIMIT // factor, _LIMIT // factor)
        valid = column.is_valid().to_numpy()
        times = np.where(valid, ticks * factor, _NO_TIME)
        return np.maximum.accumulate(times if before is None else np.maximum(times, before))

    def to_spark(
        self, spark: SparkSession | None = None, *, partitions: int | None = None, folder: str | None = None
    ) -> DataFrame:
        """The replay as a streaming DataFrame; the same rows have the same offset in every run.

        - `partitions`: how many tasks read a micro-batch, by default as many as there are cores.
        - `folder`: where the rows are kept for Spark's workers, by default a temporary one.
        """
        from panes.runners.spark.sources.tape import play

        return play(self, spark, partitions, folder)

    def __str__(self) -> str:
        return f"replay of {self.source}"


def replay(
    data: Any,
    *,
    time: str | None = None,
    speed: float | str = "max",
    rows_per_second: float | None = None,
    batch_rows: int | None = None,
    schema: Mapping[str, str | pa.DataType] | pa.Schema | None = None,
    time_unit: str = "ms",
) -> Replay:
    """Recorded rows as a stream that runs again, as data of `pn.stream` on both runners.

    - `data`: what `pn.stream` takes: a frame, a table, a list of dicts, the path of Parquet, CSV or JSON files.
    - `speed`: how many seconds of event time pass in one second: 1 as it was, 60 a minute per second; "max":
      rows don't wait. With a speed, `time` names the event-time column (`time_unit` if it holds integers).
    - `rows_per_second`: so many rows per second instead, whatever their times.
    - `batch_rows`: at most so many rows in one batch or micro-batch.
    """
    if not (speed == "max" or (is_number(speed) and float(speed) > 0)):
        raise QueryError(f"speed must be a positive number or 'max'; got {speed!r}")
    if rows_per_second is not None and not (is_number(rows_per_second) and rows_per_second > 0):
        raise QueryError(f"rows_per_second must be a positive number; got {rows_per_second!r}")
    if rows_per_second is not None and speed != "max":
        raise QueryError("replay: give speed or rows_per_second, not both")
    if batch_rows is not None and (isinstance(batch_rows, bool) or not isinstance(batch_rows, int) or batch_rows < 1):
        raise QueryError(f"batch_rows must be a whole number from 1 on; got {batch_rows!r}")
    if speed != "max" and time is None:
        raise QueryError(f"speed={speed!r} is measured in event time: name its column with time=")
    source = open_source(data, None if schema is None else arrow_schema(schema))
    if time is not None:
        _check_time(source, time)
    TimeDomain(time_unit, True)
    pace = Pace(None if speed == "max" else float(speed), rows_per_second)
    return Replay(source, time, time_unit, pace, batch_rows)


def _check_time(source: Source, time: str) -> None:
    if time not in source.schema.names:
        raise QueryError(f"time={time!r}: there is no such column{did_you_mean(time, source.schema.names)}")
    kind = source.schema.field(time).type
    if pa.types.is_string(kind) or pa.types.is_date(kind):
        source.retype(time, pa.timestamp("us"))
    elif not (pa.types.is_timestamp(kind) or pa.types.is_integer(kind)):
        raise QueryError(f"time={time!r} must be a timestamp or an integer column; it is {kind}")
