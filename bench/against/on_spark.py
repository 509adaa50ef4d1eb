"""The main workloads of `make bench-spark`, Panes only: streams over Parquet files until these are done."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from bench.against.work import Pass, Work

ROWS = 4_000_000
CORES = 2


@cache
def session() -> Any:
    import panes as pn

    return pn.spark(cores=CORES, memory="2g")


def _stream(
    rows: int | None,
    *,
    windows: Callable[[], dict[str, Any]],
    median: bool = False,
    strategy: str = "key_groups",
    files: int = 10,
    per_batch: int | None = None,
) -> Callable[[], Pass]:
    from bench.harness import Options
    from bench.spark.data import Events
    from bench.spark.lab import SparkLab
    from bench.spark.speed import MEDIAN, SUMS, panes

    folder = Events(rows or ROWS, files=files).folder()
    lab = SparkLab("against", Options(), lambda _: None, session())
    build = panes(windows(), MEDIAN if median else SUMS, strategy, **(_at_once() if strategy == "key_groups" else {}))

    def once() -> Pass:
        done = lab.time([build(lab.source(folder, per_batch=per_batch))])
        return Pass(done.seconds, done.cpu, sum(int(p["sink"]["numOutputRows"]) for p in done.batches))

    return once


def _at_once() -> dict[str, str]:
    """Windows are given with the rows that close them, as in trees that knew nothing else: both do the same work."""
    import panes as pn

    query = pn.stream([{"t": 1}], time="t").window(pn.tumbling(1)).agg(n="count(*)")
    known = "close" in inspect.signature(query.to_spark).parameters
    return {"close": "at once"} if known else {}


def _one(kind: str, *arguments: str, **options: str) -> dict[str, Any]:
    import panes as pn

    return {"w": getattr(pn, kind)(*arguments, **options)}


def _rows() -> dict[str, Any]:
    import panes as pn

    return {"w": pn.tumbling(pn.rows(100))}


def _many() -> dict[str, Any]:
    import panes as pn

    return {f"w{i}": pn.tumbling(f"{30_000 + 1_500 * i} ms") for i in range(20)}


_tumbling = partial(_one, "tumbling", "1 s")
_sliding = partial(_one, "sliding", "60 s", every="1 s")
_sessions = partial(_one, "session", "50 ms")

WORKS: tuple[Work, ...] = (
    Work("spark-tumbling", "1 s", partial(_stream, windows=_tumbling)),
    Work("spark-native", "1 s, native slices", partial(_stream, windows=_tumbling, strategy="native")),
    Work("spark-sliding", "60 s every 1 s", partial(_stream, windows=_sliding)),
    Work("spark-many", "20 tumbling windows", partial(_stream, windows=_many)),
    Work("spark-counts", "100 rows, median", partial(_stream, windows=_rows, median=True, files=2, per_batch=1)),
    Work("spark-sessions", "50 ms, median", partial(_stream, windows=_sessions, median=True, files=2, per_batch=1)),
)
