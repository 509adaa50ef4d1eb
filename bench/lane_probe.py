"""How fast the partial lane alone is: rows per second through `add` and `advance`, with rows ready in memory.

    python -m bench.lane_probe [--batches 100] [--only keys]

Sum of a float column; 100,000 rows per batch and per second of event time; sliding 60 s / 1 s and tumbling
1..20 s together (21 queries) unless the line says otherwise. Keyed lines include the lookup of keys.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panes import aggregates
from panes.aggregates.base import Column
from panes.slicing.keys import KeyDirectory
from panes.slicing.lane import Agg, RowBatch, RunningWindow
from panes.slicing.partials.partial_lane import PartialLane
from panes.windows.base import TIME, Bound
from panes.windows.periodic import Periodic
from panes.windows.session import SessionScan

SECOND = 1_000_000
BATCH = 100_000


@dataclass
class Case:
    name: str
    windows: list[Bound]
    late: float = 0.0  # share of rows that come 0..2 s late
    keys: int = 0
    goal: float = 0.0  # million rows/s
    gaps: bool = False  # pauses of 2 s, so that sessions end
    agg: str = "sum"


def standard_windows() -> list[Bound]:
    sizes = [(60, 1), *((s, s) for s in range(1, 21))]
    return [Periodic(TIME, size=a * SECOND, slide=b * SECOND) for a, b in sizes]


def many_windows(n: int) -> list[Bound]:
    return [Periodic(TIME, size=(1 + i % 20) * SECOND, slide=(1 + i % 20) * SECOND) for i in range(n)]


CASES = [
    Case("in order", standard_windows(), goal=250),
    Case("20 % late", standard_windows(), late=0.2, goal=130),
    Case("1,000 keys", standard_windows(), keys=1000, goal=130),
    Case("1,000 keys, 20 % late", standard_windows(), late=0.2, keys=1000),
    Case("100,000 keys", standard_windows(), keys=100_000, goal=35),
    Case("100,000 keys, 20 % late", standard_windows(), late=0.2, keys=100_000),
    Case("median", standard_windows(), goal=20, agg="median"),
    Case("median, 20 % late", standard_windows(), late=0.2, agg="median"),
    Case("max, 1,000 keys", standard_windows(), keys=1000, agg="max"),
    Case("1 query", many_windows(1)),
    Case("20 queries", many_windows(20)),
    Case("1,000 queries", many_windows(1000)),
    Case("sessions, 1,000 keys", [SessionScan(TIME, gap=SECOND)], keys=1000, goal=30, gaps=True),
    Case("sessions, 100,000 keys", [SessionScan(TIME, gap=SECOND)], keys=100_000, gaps=True),
    Case("21 + session", [*standard_windows(), SessionScan(TIME, gap=SECOND)], gaps=True),
    Case("21 + session, 20 % late", [*standard_windows(), SessionScan(TIME, gap=SECOND)], late=0.2, gaps=True),
    Case("21 + session, 1,000 keys", [*standard_windows(), SessionScan(TIME, gap=SECOND)], keys=1000, gaps=True),
]


def batches(case: Case, count: int, seed: int = 0) -> list[tuple[pa.Array | None, RowBatch]]:
    """Batches of rows, and the key column of each (rows then have no slots yet)."""
    rng = np.random.default_rng(seed)
    out = []
    for i in range(count):
        times = (np.arange(i * BATCH, (i + 1) * BATCH) * (SECOND // BATCH)).astype(np.int64)
        if case.gaps:
            times += i // 12 * 2 * SECOND
        if case.late:
            late = rng.random(BATCH) < case.late
            times[late] -= rng.integers(0, 2 * SECOND, int(late.sum()))
        keys = pa.array(rng.integers(0, case.keys, BATCH) * 7919) if case.keys else None
        column = Column(rng.random(BATCH), None, pa.float64())
        seq = np.arange(i * BATCH, (i + 1) * BATCH)
        out.append((keys, RowBatch(None, times, seq, {"v": column}, not case.late)))
    return out


def lane_of(case: Case) -> PartialLane:
    queries = [RunningWindow(f"w{i}", i, w) for i, w in enumerate(case.windows)]
    agg = Agg("s", ("v",), getattr(aggregates, case.agg)("v").bind([pa.float64()]))
    return PartialLane(queries, [agg], lateness=None, keyed=bool(case.keys))


def run(case: Case, data: list[tuple[pa.Array | None, RowBatch]]) -> tuple[float, int, PartialLane]:
    """Seconds, results, and the lane. The clock starts when windows have filled, after 62 batches."""
    lane = lane_of(case)
    directory = KeyDirectory([pa.int64()]) if case.keys else None
    results = 0
    begin = time.thread_time()
    for i, (keys, rows) in enumerate(data):
        if i == len(data) // 2:
            begin = time.thread_time()
            results = 0
        if directory is not None and keys is not None:
            rows = RowBatch(directory.slots([keys]), rows.times, rows.seq, rows.columns, rows.in_order)
        lane.add(rows)
        watermark = int(rows.times[-1]) if rows.in_order else int(rows.times.max()) - 2 * SECOND
        results += len(lane.advance(watermark))
    return time.thread_time() - begin, results, lane


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=160)
    parser.add_argument("--only", default="")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    probe: Callable[[], float] = np.random.default_rng(0).random(BATCH).sum
    unit = min(_timed(probe) for _ in range(200))
    print(f"numpy.sum of {BATCH} values: {unit * 1e6:.0f} us")
    for case in CASES:
        if options.only and options.only not in case.name:
            continue
        data = batches(case, options.batches)
        best = min((run(case, data) for _ in range(options.repeat)), key=lambda r: r[0])
        seconds, results, lane = best
        timed = len(data) - len(data) // 2
        rate = timed * BATCH / seconds / 1e6
        print(
            f"{case.name:28s} {rate:7.1f} M rows/s (goal {case.goal:5.0f})  {seconds / timed / unit:5.1f} x sum  "
            f"{results / timed:9.1f} results/batch  {lane.metrics()['store']}"
        )


def _timed(call: Callable[[], float]) -> float:
    begin = time.thread_time()
    call()
    return time.thread_time() - begin


if __name__ == "__main__":
    main()
