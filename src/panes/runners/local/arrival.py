"""`pn.arrival()`: rows that have no event time get the time at which they arrive."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from panes.clock import Clock, is_clock, wall_clock
from panes.errors import QueryError
from panes.plan.silence import Silence
from panes.runners.local.derived import DerivedSource, explain_inputs
from panes.runners.local.listening import Beat, Ear
from panes.runners.local.rejects import Rejects
from panes.runners.local.source import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The column that holds the time of arrival, in microseconds of UTC.
ARRIVAL_TIME = "arrival_time"
ARRIVAL_TYPE = pa.timestamp("us")


@dataclass(frozen=True)
class Arrival:
    """Time by arrival, and the clock that tells it; None: that of the machine."""

    clock: Clock | Callable[[], int] | None = None

    @property
    def silence(self) -> Silence:
        """The clock moves such a stream at any moment; a function can't be waited on, so it only stamps rows."""
        if self.clock is None:
            return Silence(arrives=True)
        return Silence(arrives=True, clock=cast(Clock, self.clock)) if is_clock(self.clock) else Silence()


def arrival(*, clock: Clock | Callable[[], int] | None = None) -> Arrival:
    """As `time` of a stream: rows are stamped as they arrive, in a column `arrival_time`; they are in order.

    Windows close by the clock, whether rows come or not.

    `clock`: for tests, a `pn.testing.FakeClock`; or a function that gives microseconds since 1970, asked for each row,
    with which windows close when the next row comes. None: the clock of the machine, asked for each batch. Time never
    goes back: if the clock does, rows get the time of the row before.
    On Spark it is the time of the micro-batch; with a clock, rows of a static frame are stamped here, one by one.
    """
    if clock is not None and not callable(clock) and not is_clock(clock):
        raise QueryError(
            f"clock must be a function that gives microseconds as a whole number, or a clock; got {clock!r}"
        )
    return Arrival(clock)


class ArrivalSource(DerivedSource):
    """A source with one more column, the time at which each row came."""

    def __init__(self, source: Source, time: Arrival) -> None:
        if ARRIVAL_TIME in source.schema.names:
            raise QueryError(
                f"time=pn.arrival(): the data has a column {ARRIVAL_TIME!r} already; rename it, or give it as time"
            )
        super().__init__(source.schema.append(pa.field(ARRIVAL_TIME, ARRIVAL_TYPE)), [source])
        self.rows = source.rows
        self._source = source
        self._clock = time.clock

    def derive(self, rejects: Rejects) -> Iterator[pa.Table | Beat]:
        return self._stamped(self._source.batches(rejects))

    def _stamped(self, batches: Iterable[Any]) -> Iterator[Any]:
        reached, ear = np.iinfo(np.int64).min, self.ear
        for batch in batches:
            if isinstance(batch, Beat):
                yield batch
                continue
            if not batch.num_rows:
                continue
            stamps = np.maximum.accumulate(np.maximum(self._stamps(batch.num_rows, ear), reached))
            reached = stamps[-1]
            yield batch.append_column(ARRIVAL_TIME, pa.array(stamps).cast(ARRIVAL_TYPE))

    def _stamps(self, rows: int, ear: Ear | None) -> np.ndarray:
        if self._clock is None or is_clock(self._clock):
            clock = wall_clock() if self._clock is None else cast(Clock, self._clock)
            return np.full(rows, clock.now() if ear is None else ear.now)
        tell = cast(Callable[[], int], self._clock)
        stamps = [tell() for _ in range(rows)]
        for stamp in stamps:
            if isinstance(stamp, bool) or not isinstance(stamp, int):
                raise QueryError(f"clock must give microseconds as a whole number; it gave {stamp!r}")
        return np.array(stamps, np.int64)

    def explain(self) -> tuple[str, ...]:
        return explain_inputs(self._source)

    def to_spark(self) -> DataFrame:
        from pyspark.sql import functions as F

        from panes.runners.spark.source import frame_of, frame_of_tables

        frame = frame_of(self._source)
        if self._clock is not None:
            if frame.isStreaming:
                raise QueryError("pn.arrival(clock=...) can't be on a streaming frame: Spark stamps its rows")
            # a clock of the program is asked in the program
            return frame_of_tables(self.schema, self._stamped([frame.toArrow()]), frame.sparkSession)
        now = F.to_utc_timestamp(F.current_timestamp(), F.current_timezone()).cast("timestamp_ntz")
        return frame.withColumn(ARRIVAL_TIME, now)

    def __str__(self) -> str:
        return f"{self._source}, stamped on arrival"
