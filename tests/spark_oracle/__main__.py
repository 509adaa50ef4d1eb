"""Compare random streams, embedded and by every strategy, with Spark's own windows.

`python -m tests.spark_oracle --streams 300 --seed 1`
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import panes as pn
from tests.spark_oracle.streams import (
    by_strategy,
    counted_by_panes,
    counted_by_spark,
    difference,
    on_spark,
    random_stream,
    strategies,
)

#: so many queries run at a time
TOGETHER = 4


def compare(spark: Any, seeds: range, folder: Path) -> tuple[list[str], dict[str, Counter[str]]]:
    """What differs, and per kind of window how many streams, rows, late rows and rows left out there were."""
    wrong: list[str | None] = []
    totals: dict[str, Counter[str]] = {}
    for first in range(seeds.start, seeds.stop, TOGETHER):
        streams = [random_stream(seed) for seed in range(first, min(first + TOGETHER, seeds.stop))]
        places = {stream: folder / str(stream.seed) for stream in streams}
        running = [on_spark(spark, stream, place) for stream, place in places.items()]
        others = [
            (stream, strategy, by_strategy(spark, stream, strategy, place))
            for stream, place in places.items()
            for strategy in strategies(stream)
        ]
        by_spark = {s: counted_by_spark(spark, *each) for s, each in zip(streams, running, strict=True)}
        for stream, strategy, each in others:
            got = counted_by_spark(spark, *each)
            want = counted_by_panes(stream, as_spark=False).counted if stream.kind == "session" else by_spark[stream]
            wrong.append(difference(stream, want, got, strategy))
        for stream in streams:
            panes = counted_by_panes(stream)
            wrong.append(difference(stream, by_spark[stream], panes.counted, "embedded"))
            seen = {"streams": 1, "rows": panes.rows, "late": panes.late, "left out": panes.left_out}
            totals.setdefault(stream.kind, Counter()).update(seen)
    return [said for said in wrong if said is not None], totals


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.spark_oracle", description=__doc__)
    parser.add_argument("--streams", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    spark = pn.spark(cores=2, memory="1g")
    with tempfile.TemporaryDirectory() as folder:
        wrong, totals = compare(spark, range(options.seed, options.seed + options.streams), Path(folder))
    spark.stop()
    for said in wrong:
        print(said)
    for kind, seen in sorted(totals.items()):
        share = 100 * seen["left out"] / max(1, seen["rows"])
        print(f"{kind}: {seen['streams']} streams, {seen['rows']} rows, {seen['late']} late, {share:.1f} % left out")
    print(f"{options.streams} streams, {len(wrong)} differences, seed {options.seed}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
