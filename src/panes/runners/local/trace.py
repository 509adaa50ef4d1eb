"""What a picture needs to know of the rows of a run: how far each came behind the newest one.

In: the time column of each batch. Out: a sample of rows with their delay, every late row up to a limit, and
how far the watermark was behind. Only runs that are going to be plotted are traced.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

SAMPLE = 4_000
LATE = 2_000
Array = np.ndarray


@dataclass
class Trace:
    """Rows of a run, thinned out evenly so that any run fits in a picture."""

    bound: int | None  # the watermark's distance in ticks; None: not known in advance
    newest: int | None = None
    oldest: int | None = None
    rows: int = 0
    late_rows: int = 0
    _stride: int = 1
    _times: list[int] = field(default_factory=list)
    _delays: list[int] = field(default_factory=list)
    _late: list[tuple[int, int]] = field(default_factory=list)
    _lag: list[tuple[int, int]] = field(default_factory=list)

    def see(self, times: Array) -> None:
        """Take in the times of a batch, in order of arrival."""
        if not len(times):
            return
        start = times[0] if self.newest is None else max(self.newest, times[0])
        newest = np.maximum.accumulate(np.concatenate(([start], times)))
        delays = newest[1:] - times
        if self.bound is not None:
            # late means below the watermark that the rows before it made
            behind = newest[:-1] - self.bound > times
            self.late_rows += int(behind.sum())
            room = LATE - len(self._late)
            at = np.flatnonzero(behind)[: max(room, 0)]
            self._late += zip(times[at].tolist(), delays[at].tolist(), strict=True)
        self._sample(times, delays)
        self.newest = int(newest[-1])
        self.oldest = int(times.min()) if self.oldest is None else min(self.oldest, int(times.min()))

    def reached(self, watermark: int) -> None:
        """Note where the watermark is after a batch."""
        if self.newest is not None and abs(watermark) < 2**62:
            self._lag.append((self.newest, self.newest - watermark))
            if len(self._lag) > SAMPLE:
                self._lag = self._lag[::2]

    def _sample(self, times: Array, delays: Array) -> None:
        first = -self.rows % self._stride
        self.rows += len(times)
        self._times += times[first :: self._stride].tolist()
        self._delays += delays[first :: self._stride].tolist()
        while len(self._times) > SAMPLE:
            self._times, self._delays = self._times[::2], self._delays[::2]
            self._stride *= 2

    def sample(self) -> tuple[Array, Array]:
        """(time, delay) of some rows."""
        return np.array(self._times, np.int64), np.array(self._delays, np.int64)

    def late(self) -> tuple[Array, Array]:
        """(time, delay) of the first late rows."""
        pairs = np.array(self._late, np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]

    def lag(self) -> tuple[Array, Array]:
        """(newest time, how far the watermark was behind it), after each batch."""
        if self.bound is not None and self.oldest is not None and self.newest is not None:
            return np.array([self.oldest, self.newest]), np.array([self.bound, self.bound])
        pairs = np.array(self._lag, np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]
