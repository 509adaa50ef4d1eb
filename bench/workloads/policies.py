"""Policy windows: the largest of 50 time units every 21, by a common pair, in general form, and by policies in Python.

One row per time unit, so that there is a result every 21 rows. Rows are made batch by batch, outside the clock, so that
100 M of them fit into memory.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import panes as pn
from bench.contenders import ENGINE
from bench.harness import RATE, Claim, Goal, Lab, Point, Workload
from bench.workloads.common import value, values

p = pn.policies
SIZE, SLIDE = 50, 21
BATCH = 100_000
PAIR, GENERAL, NESTED, PYTHON, SLIDING = (
    "pair of policies", "general form", "nested policies", "policies in Python", "pn.sliding",
)  # fmt: skip


class Every(p.Trigger):
    """At every n-th row."""

    def __init__(self, n: int) -> None:
        self.n, self.seen = n, 0

    def notify(self, row: Any) -> bool:
        self.seen += 1
        if self.seen <= self.n:
            return False
        self.seen = 1
        return True


class Newest(p.Eviction):
    """At most n rows."""

    def __init__(self, n: int) -> None:
        self.n = n

    def notify(self, row: Any, triggered: bool, size: int) -> int:
        return 1 if size >= self.n else 0


#: The same windows, said in several ways: a combination of one is read line by line, as all combinations are.
WINDOWS: dict[str, Any] = {
    PAIR: pn.policy(evict=p.time(SIZE), trigger=p.time(SLIDE)),
    GENERAL: pn.policy(evict=p.largest(p.time(SIZE)), trigger=p.any_of(p.time(SLIDE))),
    NESTED: pn.policy(
        evict=p.largest(p.time(SIZE), p.first_of(p.count(1_000), p.time(2 * SIZE))),
        trigger=p.any_of(p.time(SLIDE), p.all_of(p.count(SLIDE), p.punctuation(-1.0, on="v"))),
    ),
    SLIDING: pn.sliding(SIZE, every=SLIDE),
    PYTHON: pn.policy(evict=Newest(SIZE), trigger=Every(SLIDE)),
}


def batches(rows: int) -> Iterator[pa.RecordBatch]:
    values = np.random.default_rng(7).random(BATCH)
    for first in range(0, rows, BATCH):
        yield pa.record_batch({"ts": np.arange(first, min(first + BATCH, rows)), "v": values[: rows - first]})


def rate(lab: Lab, window: Any, rows: int) -> float:
    """Rows per second of pushes."""
    stream = pn.stream(None, schema={"ts": "bigint", "v": "double"}, time="ts")
    op = stream.window(w=window).agg(x="max(v)").operator()
    seconds, clock = 0.0, lab.clock
    gc.collect()
    for number, batch in enumerate(batches(rows)):
        began = clock()
        op.push(batch)
        if number:  # the first batch may compile
            seconds += clock() - began
    return (rows - BATCH) / max(seconds, 1e-9)


def pairs_and_others(lab: Lab) -> None:
    goals = {PAIR: Goal(rows_per_s=30e6), PYTHON: Goal(rows_per_s=300e3)}
    for name, window in WINDOWS.items():
        rows = lab.rows(10_000_000, 600_000)
        rows = max(2 * BATCH, rows // 20) if name == PYTHON else max(2 * BATCH, rows)
        best = max(rate(lab, window, rows) for _ in range(lab.options.repeat))
        lab.record(name, RATE, best, params={}, goal=goals.get(name), rows=rows)


def growing(lab: Lab) -> None:
    for rows in lab.pick((1_000_000, 10_000_000, 100_000_000), (200_000, 400_000)):
        lab.record(ENGINE, RATE, rate(lab, WINDOWS[PAIR], rows), params={"rows": rows})


def _at_most_four_times(points: list[Point]) -> tuple[bool, str]:
    pair = value(points, PAIR)
    slower = {name: pair / value(points, name) for name in (GENERAL, NESTED)}
    return max(slower.values()) <= 4, ", ".join(f"{name} {ratio:.2g}x slower" for name, ratio in slower.items())


def _linear(points: list[Point]) -> tuple[bool, str]:
    rates = values(points, ENGINE)
    return rates[-1] >= 0.8 * rates[0], f"{rates[0] / 1e6:.3g} M rows/s at first, {rates[-1] / 1e6:.3g} M at most rows"


WORKLOADS = (
    Workload(
        "policies",
        f"the largest of {SIZE} time units every {SLIDE}, by policies",
        pairs_and_others,
        claims=(
            Claim("P: figure 15", "a general set of policies is at most 4x slower than a pair", _at_most_four_times),
        ),
    ),
    Workload(
        "policies-growing",
        "the pair over 1 M to 100 M rows",
        growing,
        x="rows",
        claims=(Claim("P: figure 15", "time grows with the number of rows and no faster", _linear),),
    ),
)
