"""The window library over batches: speed of the containers, and memory with a million keys and partition eviction."""

from __future__ import annotations

import gc
import resource
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.contenders import ENGINE
from bench.harness import RATE, Claim, Goal, Lab, Point, Workload
from bench.workloads.common import value, values
from panes.clock import FakeClock
from panes.policies.library import (
    SlidingWindow,
    TumblingWindow,
    count,
    delta,
    partition_age,
    partition_count,
    time,
    tuple_count,
)
from panes.policies.library.columnar import ColumnarWindow

ROW_BY_ROW = "row by row"
PROCESS = "whole process"
MEGABYTES = "MB"
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("v", pa.float64())])
BATCH = 100_000
MICROSECONDS = 10  # between two rows

WINDOWS: dict[str, dict[str, Any]] = {
    "tumbling count": {"evict": count(100)},
    "tumbling delta": {"evict": delta("ts", "1 s")},
    "tumbling time": {"evict": time("1 s")},
    "sliding count, count": {"evict": count(100), "trigger": count(10)},
    "sliding delta, delta": {"evict": delta("ts", "1 s"), "trigger": delta("ts", "100 ms")},
    "sliding time, time": {"evict": time("1 s"), "trigger": time("100 ms")},
}
LIMITS: dict[str, dict[str, Any]] = {
    "partition_count 1 M, lru": {"partition_evict": partition_count(1_000_000)},
    "partition_count, lru": {"partition_evict": partition_count(100_000)},
    "partition_count, lfu": {"partition_evict": partition_count(100_000), "select": "lfu"},
    "partition_count, oldest": {"partition_evict": partition_count(100_000), "select": "oldest"},
    "tuple_count, lru": {"partition_evict": tuple_count(200_000)},
    "partition_age": {"partition_evict": partition_age("1 s")},
}


def stream(rows: int, keys: int, *, first: int = 0, fresh: int = 0) -> pa.Table:
    """Rows of random keys; with `fresh`, keys come from a range that moves on by so many per row."""
    rng = np.random.default_rng(first)
    at = np.arange(first, first + rows)
    return pa.table({"ts": at * MICROSECONDS, "k": rng.integers(0, keys, rows) + at * fresh, "v": rng.random(rows)})


def speed(lab: Lab) -> None:
    """What each flush or trigger holds, for 1,000 keys: the columnar window, and the container row by row."""
    rows = lab.rows(2_000_000, 100_000)
    table = stream(rows, 1000)
    for name, policies in WINDOWS.items():
        batches = [table.slice(at, BATCH) for at in range(0, rows, BATCH)]
        _columnar(policies).push(batches[0])  # compiles
        goal = Goal(rows_per_s=1e6)
        rates = [_rate(lab, rows, lambda: _push_all(_columnar(policies), batches)) for _ in range(lab.options.repeat)]  # noqa: B023
        lab.record(ENGINE, RATE, statistics.median(rates), params={"window": name}, goal=goal, rows=rows)
        some = table.slice(0, min(rows, 50_000)).to_pylist()
        rate = _rate(lab, len(some), lambda: _insert_all(policies, some))  # noqa: B023
        lab.record(ROW_BY_ROW, RATE, rate, params={"window": name}, rows=len(some))


def memory(lab: Lab) -> None:
    """Keys that never end, a million of them at a time: the most that is held in each part of the stream."""
    parts = 6
    for name in lab.pick(list(LIMITS), ["partition_count, lru", "partition_age"]):
        options = LIMITS[name]
        # Long enough for the limit to be met well before the last third.
        rows = lab.rows(6_000_000 if "1 M" in name else 1_500_000, 300_000) // parts
        gc.collect()
        before = _resident()
        window = _columnar({"evict": count(10), "trigger": count(5), **options})
        for part in range(parts):
            table = stream(rows, 1_000_000, first=part * rows, fresh=1)
            most = 0
            for at in range(0, rows, BATCH):
                window.push(table.slice(at, BATCH))
                most = max(most, window.metrics["bytes"])
            del table
            gc.collect()
            params = {"limit": name, "rows": (part + 1) * rows}
            lab.record(ENGINE, MEGABYTES, most / 1e6, params=params, partitions=window.metrics["partitions"])
            lab.record(PROCESS, MEGABYTES, max(_resident() - before, 0), params=params)


def _columnar(options: dict[str, Any]) -> ColumnarWindow:
    return ColumnarWindow(SCHEMA, key=["k"], time="ts", keep=["v"], **options)


def _push_all(window: ColumnarWindow, batches: Sequence[pa.Table]) -> None:
    for batch in batches:
        window.push(batch)


def _insert_all(policies: dict[str, Any], rows: Sequence[dict[str, Any]]) -> None:
    clock = FakeClock()
    window: TumblingWindow | SlidingWindow
    if "trigger" in policies:
        window = SlidingWindow(partitioned=True, clock=clock, **policies)
        window.on("trigger", lambda key, w: w.content(key))
    else:
        window = TumblingWindow(partitioned=True, clock=clock, **policies)
        window.on("before_flush", lambda key, w: w.content(key))
    for row in rows:
        clock.advance_to(row["ts"])
        window.insert(row, row["k"])


def _rate(lab: Lab, rows: int, work: Callable[[], None]) -> float:
    began = lab.clock()
    work()
    return rows / max(lab.clock() - began, 1e-9)


def _resident() -> float:
    """Megabytes of memory that the process holds now; where the system doesn't say, the most it has ever held."""
    pages = Path("/proc/self/statm")
    if pages.exists():
        return int(pages.read_text().split()[1]) * resource.getpagesize() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def _faster(points: list[Point]) -> tuple[bool, str]:
    ratios = [value(points, ENGINE, window=w) / value(points, ROW_BY_ROW, window=w) for w in WINDOWS]
    return min(ratios) >= 5, f"{min(ratios):.3g} to {max(ratios):.3g} times row by row"


def _flat(points: list[Point]) -> tuple[bool, str]:
    """The last third of the stream, which has as many new keys as the others, adds next to nothing."""
    growths, largest = [], 0.0
    for limit in {p.params["limit"]: None for p in points}:
        held = values(points, ENGINE, MEGABYTES, limit=limit)
        growths.append(max(held[4:]) / max(held[:4]))
        largest = max(largest, *values(points, PROCESS, MEGABYTES, limit=limit))
    said = f"state at most {max(growths):.2f} times what it was before, the process at most {largest:.0f} MB more"
    return max(growths) <= 1.1, said


WORKLOADS = (
    Workload(
        "library", "containers of the window library, 1,000 keys, columnar and row by row", speed,
        claims=(Claim("G-29", "the compiled loop is many times the containers", _faster),),
    ),
    Workload(
        "library-memory", "a million keys at a time, ever new ones, with partition eviction", memory, x="rows",
        claims=(Claim("G-16", "partition eviction keeps memory flat", _flat),),
    ),
)  # fmt: skip
