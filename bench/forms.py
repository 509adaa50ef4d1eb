"""The same window from several doors costs the same: `python -m bench.forms`, in turns, by CPU time of this process.

One row per time unit, keys in random order. Each group is one kind of window, written with several words: the table
shows the median of each and its ratio to the first of the group. `bench.against` compares with another revision.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from typing import Any

import numpy as np
import pyarrow as pa

import panes as pn

p = pn.policies
BATCH = 65_536
#: 100 time units every 50, and 100 rows every 50
GROUPS: dict[str, dict[str, Any]] = {
    "by time": {
        "sliding(100, every=50)": pn.sliding(100, every=50),
        "policy(time, time)": pn.policy(evict=p.time(100), trigger=p.time(50)),
    },
    "by time, one after the other": {
        "tumbling(50)": pn.tumbling(50),
        "policy(time)": pn.policy(trigger=p.time(50)),
    },
    "by rows": {
        "policy(count, count)": pn.policy(evict=p.count(100), trigger=p.count(50)),
        "[SIZE 100 EVERY 50]": pn.sliding(pn.rows(100), every=pn.rows(50), align="end", partial=True),
        "sliding(rows, every=rows)": pn.sliding(pn.rows(100), every=pn.rows(50)),
    },
}


def batches(rows: int, keys: int, size: int) -> list[pa.RecordBatch]:
    rng = np.random.default_rng(18)
    owners, values = rng.integers(0, keys, rows), rng.random(rows)
    whole = pa.record_batch({"ts": np.arange(rows), "k": owners, "v": values})
    return [whole.slice(first, size) for first in range(0, rows, size)]


def run(window: Any, parts: list[pa.RecordBatch]) -> tuple[float, int]:
    """Seconds of this process, and how many results there were."""
    stream = pn.stream(None, schema={"ts": "bigint", "k": "bigint", "v": "double"}, time="ts", key="k")
    op = stream.window(w=window).agg(n="count(*)", total="sum(v)").operator()
    gc.collect()
    began, results = time.process_time(), 0
    for part in parts:
        results += len(op.push(part))
    results += len(op.finish())
    return time.process_time() - began, results


def main() -> None:
    usage = argparse.ArgumentParser(prog="python -m bench.forms", description=__doc__)
    usage.add_argument("--rows", type=int, default=1_000_000)
    usage.add_argument("--keys", type=int, default=100)
    usage.add_argument("--batch", type=int, default=BATCH, help="rows of a batch")
    usage.add_argument("--repeat", type=int, default=5, help="turns")
    options = usage.parse_args()
    parts = batches(options.rows, options.keys, options.batch)
    few = parts[: max(1, 20_000 // options.batch)]
    for group, windows in GROUPS.items():
        for window in windows.values():
            run(window, few)  # may compile
        seconds: dict[str, list[float]] = {name: [] for name in windows}
        results = {}
        for _ in range(options.repeat):
            for name, window in windows.items():
                took, results[name] = run(window, parts)
                seconds[name].append(took)
        first = statistics.median(next(iter(seconds.values())))
        print(group)
        for name, each in seconds.items():
            median = statistics.median(each)
            print(f"  {name:28} {median:8.3f} s  {median / first:6.2f} x  {results[name]:>10,} results")


if __name__ == "__main__":
    main()
