"""`pn.arrival()`: as the time of a stream, the moment at which each row arrives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa

from panes.clock import Clock, is_clock, wall_clock
from panes.errors import QueryError
from panes.plan.silence import Silence

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

    def stamps(self, rows: int, now: int | None = None) -> np.ndarray:
        """The time of so many rows that come at once; `now`: what the clock said then, if someone listened."""
        if self.clock is None or is_clock(self.clock):
            clock = wall_clock() if self.clock is None else cast(Clock, self.clock)
            return np.full(rows, clock.now() if now is None else now)
        tell = cast(Callable[[], int], self.clock)
        stamps = [tell() for _ in range(rows)]
        for stamp in stamps:
            if isinstance(stamp, bool) or not isinstance(stamp, int):
                raise QueryError(f"clock must give microseconds as a whole number; it gave {stamp!r}")
        return np.array(stamps, np.int64)


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


def stamped(table: pa.Table, time: Arrival, reached: int, now: int | None = None) -> tuple[pa.Table, int]:
    """Rows that come now, with their time, and that of the last: never before what was `reached`."""
    if not table.num_rows:
        return table, reached
    stamps = np.maximum.accumulate(np.maximum(time.stamps(table.num_rows, now), reached))
    return table.append_column(ARRIVAL_TIME, pa.array(stamps).cast(ARRIVAL_TYPE)), int(stamps[-1])
