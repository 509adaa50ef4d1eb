"""Recorded rows that are played again, as fast as they once came or faster (`pn.replay`).

In: whatever `pn.stream` takes as data. Out: the same rows in the same order, each when it is due: by event
time at a chosen speed, by rows per second, or at once. On Spark the replay is a streaming source with offsets
(runners/spark/sources/tape.py).
"""

from __future__ import annotations

import time as clock
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panes.connectors.source import Source
from panes.runtime.rejects import Rejects
from panes.units import TimeDomain

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


class ReplaySource(Source):
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

    def read(self, rejects: Rejects, *, promptly: bool = False) -> Iterator[pa.Table]:
        began = clock.monotonic()
        done = 0
        latest = start = None
        for table in self.source.batches(rejects, promptly=promptly):
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

    def __str__(self) -> str:
        return f"replay of {self.source}"
