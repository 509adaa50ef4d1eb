"""Generated streams with stated properties, cut into batches: what every workload feeds to its contenders.

Flows in: a number of rows, a rate, a share of late rows. Flows out: `Batch`es, as NumPy columns and as Arrow.
All times are int64 milliseconds; all values are whole numbers in float64, so that sums agree to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

Array = np.ndarray
#: 2024-01-01T00:00Z: an hour's edge, so that windows of all sizes used here are aligned.
EPOCH = 1_704_067_200_000
BATCH_ROWS = 100_000


@dataclass(frozen=True)
class Batch:
    """Rows in order of arrival, and how far event time has come after them."""

    times: Array
    values: Array
    keys: Array | None
    watermark: int
    arrow: pa.RecordBatch

    def __len__(self) -> int:
        return len(self.times)


@dataclass(frozen=True)
class Stream:
    """A whole input: columns in order of arrival, and by how much a row may be late at most (ms)."""

    times: Array
    values: Array
    keys: Array | None = None
    delay: int = 0
    extra: dict[str, Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.times)

    def batches(self, rows: int = BATCH_ROWS) -> list[Batch]:
        return list(self._batches(rows))

    def _batches(self, rows: int) -> Iterator[Batch]:
        newest = EPOCH - 10**12
        for lo in range(0, len(self), rows):
            part = slice(lo, lo + rows)
            times, values = self.times[part], self.values[part]
            keys = None if self.keys is None else self.keys[part]
            newest = max(newest, int(times.max()))
            columns = {"ts": times, "v": values, **{name: c[part] for name, c in self.extra.items()}}
            if keys is not None:
                columns["k"] = keys
            yield Batch(times, values, keys, newest - self.delay, pa.RecordBatch.from_pydict(columns))


def steady(rows: int, *, rate: int, seed: int = 1, distinct: int = 1000) -> Stream:
    """`rate` rows per second at even distances, values spread over `distinct` whole numbers."""
    rng = np.random.default_rng(seed)
    times = EPOCH + np.arange(rows, dtype=np.int64) * 1000 // rate
    return Stream(times, rng.integers(0, distinct, rows).astype(np.float64))


def with_keys(stream: Stream, keys: int, *, seed: int = 2) -> Stream:
    """Each row gets one of `keys` keys, at random."""
    return replace(stream, keys=np.random.default_rng(seed).integers(0, keys, len(stream)))


def late(stream: Stream, *, share: float = 0.2, least: int = 0, most: int = 2000, seed: int = 3) -> Stream:
    """A `share` of the rows comes `least`..`most` ms after its time, uniformly."""
    rng = np.random.default_rng(seed)
    hold = np.where(rng.random(len(stream)) < share, rng.integers(least, most + 1, len(stream)), 0)
    order = np.argsort(stream.times + hold, kind="stable")
    return Stream(
        stream.times[order],
        stream.values[order],
        None if stream.keys is None else stream.keys[order],
        most,
        {name: column[order] for name, column in stream.extra.items()},
    )


def with_gaps(stream: Stream, *, per_minute: int = 5, gap: int = 1500) -> Stream:
    """Silence of `gap` ms, `per_minute` times a minute, so that there are sessions (SPEC S-38)."""
    breaks = (stream.times - EPOCH) // (60_000 // per_minute)
    return replace(stream, times=stream.times + breaks * gap)


def football(rows: int, *, rate: int = 2000) -> Stream:
    """Like positions of a football match: 2000 updates/s, 84,232 distinct values."""
    return with_gaps(steady(rows, rate=rate, distinct=84_232, seed=11))


def machine(rows: int, *, rate: int = 100) -> Stream:
    """Like the states of a manufacturing machine: 100 updates/s, 37 distinct values."""
    return with_gaps(steady(rows, rate=rate, distinct=37, seed=12))


def energy(rows: int, *, sensors: int = 20, seed: int = 13) -> Stream:
    """Like the DEBS 2012 data: 100 Hz, an energy value that drifts, binary sensors of different rates.

    Sensor i changes about every 50 * 2^(i / 2) records; its state is column `s<i>`.
    """
    rng = np.random.default_rng(seed)
    drift = np.round(10_000 + np.cumsum(rng.normal(0, 3, rows)))
    states = {
        f"s{i}": (np.cumsum(rng.random(rows) < 1 / (50 * 2 ** (i / 2))) % 2).astype(np.int64) for i in range(sensors)
    }
    return replace(steady(rows, rate=100), values=drift, extra=states)
