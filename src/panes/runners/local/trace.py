"""What a picture needs to know of the rows of a run: how far each came behind the newest one, and some of them.

In: the rows of each batch. Out: a sample of rows with their delay and the columns asked for, the first late rows, and
how far the watermark was behind. Only runs that are going to be plotted are traced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SAMPLE = 4_000
LATE = 2_000
#: Names in samples that no column of a stream has.
TIME, DELAY = "\0time", "\0delay"
Array = np.ndarray


@dataclass
class Trace:
    """Rows of a run, thinned out evenly so that any run fits in a picture."""

    bound: int | None  # the watermark's distance in ticks; None: not known in advance
    columns: Sequence[str] = ()
    newest: int | None = None
    oldest: int | None = None
    rows: int = 0
    late_rows: int = 0
    out_of_order: int = 0
    _stride: int = 1
    _sample: list[pa.Table] = field(default_factory=list)
    _late: list[pa.Table] = field(default_factory=list)
    _lag: list[tuple[int, int]] = field(default_factory=list)

    def see(self, batch: pa.Table, time: str) -> None:
        """Take in a batch, in order of arrival."""
        if batch.column(time).null_count:
            batch = batch.filter(pc.is_valid(batch.column(time)))
        if not batch.num_rows:
            return
        times = batch.column(time).cast(pa.int64()).to_numpy()
        start = times[0] if self.newest is None else max(self.newest, times[0])
        newest = np.maximum.accumulate(np.concatenate(([start], times)))
        delays = newest[1:] - times
        self.out_of_order += int((delays > 0).sum())
        there = [name for name in self.columns if name in batch.column_names]
        rows = batch.select(there).append_column(TIME, [times]).append_column(DELAY, [delays])
        if self.bound is not None:
            # late means below the watermark that the rows before it made
            late = np.flatnonzero(newest[:-1] - self.bound > times)
            room = LATE - sum(map(len, self._late))
            self.late_rows += len(late)
            self._late.append(rows.take(late[: max(room, 0)]))
        self._keep(rows)
        self.newest = int(newest[-1])
        self.oldest = int(times.min()) if self.oldest is None else min(self.oldest, int(times.min()))

    def reached(self, watermark: int) -> None:
        """Note where the watermark is after a batch."""
        if self.newest is not None and abs(watermark) < 2**62:
            self._lag.append((self.newest, self.newest - watermark))
            if len(self._lag) > SAMPLE:
                self._lag = self._lag[::2]

    def _keep(self, rows: pa.Table) -> None:
        first = -self.rows % self._stride
        self.rows += len(rows)
        self._sample.append(rows.take(np.arange(first, len(rows), self._stride)))
        while sum(map(len, self._sample)) > SAMPLE:
            kept = pa.concat_tables(self._sample)
            self._sample = [kept.take(np.arange(0, len(kept), 2))]
            self._stride *= 2

    @property
    def complete(self) -> bool:
        """Whether the sample holds every row."""
        return self._stride == 1

    def sample(self) -> pa.Table | None:
        """Some rows, in order of arrival: `TIME`, `DELAY` and the columns asked for. None: there was no row."""
        return pa.concat_tables(self._sample) if self._sample else None

    def late(self) -> pa.Table | None:
        """The first late rows, likewise."""
        return pa.concat_tables(self._late) if self._late else None

    def lag(self) -> tuple[Array, Array]:
        """(newest time, how far the watermark was behind it), after each batch."""
        if self.bound is not None and self.oldest is not None and self.newest is not None:
            return np.array([self.oldest, self.newest]), np.array([self.bound, self.bound])
        pairs = np.array(self._lag, np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]
