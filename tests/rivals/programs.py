"""Random periodic programs for differential tests: queries, an aggregate, rows, and how they are fed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bench.rivals import FUNCTIONS, Function, Periodic, Query, Results, Rival, Session

Array = np.ndarray


@dataclass(frozen=True)
class Program:
    """What to compute, the rows in order of arrival, and the most that a row may be late."""

    queries: tuple[Query, ...]
    function: Function
    times: Array
    values: Array
    delay: int
    batches: tuple[int, ...]  # where each batch ends

    @property
    def ooo(self) -> bool:
        return self.delay > 0

    def feed(self) -> Iterator[tuple[Array, Array, int]]:
        """(times, values, watermark after them) of each batch."""
        newest = np.maximum.accumulate(self.times)
        for lo, hi in zip((0, *self.batches[:-1]), self.batches):
            yield self.times[lo:hi], self.values[lo:hi], int(newest[hi - 1]) - self.delay

    def run(self, rival: Rival) -> Results:
        out = []
        for times, values, watermark in self.feed():
            rival.push(times, values)
            out.append(rival.advance(watermark))
        out.append(rival.finish())
        return Results.concat(out)


def random_program(
    seed: int, *, measure: str, function: str, disorder: bool, sessions: bool = False, rows: int = 80
) -> Program:
    """Whole numbers as values, so that sums are exact in any order."""
    rng = np.random.default_rng(seed)
    steps = rng.choice([0, 1, 1, 2, 5, 40], rows)
    times = np.cumsum(steps) + int(rng.integers(-50, 50))
    delay = int(rng.integers(1, 20)) if disorder else 0
    arrival = np.argsort(times + rng.integers(0, delay + 1, rows) * (rng.random(rows) < 0.3), kind="stable")
    queries: list[Query] = [
        Periodic(int(rng.integers(1, 25)), int(rng.integers(1, 25)), measure) for _ in range(rng.integers(1, 5))
    ]
    if sessions:
        queries.append(Session(int(rng.integers(1, 10))))
    ends = np.unique(np.append(rng.integers(1, rows, rng.integers(0, 12)), rows))
    return Program(
        tuple(queries),
        FUNCTIONS[function],
        times[arrival],
        rng.integers(-100, 100, rows).astype(float),
        delay,
        tuple(ends.tolist()),
    )
