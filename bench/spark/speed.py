"""Rows per second of streams: time windows against Spark's own, everything else against a function per key."""

from __future__ import annotations

from typing import Any

import numpy as np

import panes as pn
from bench.contenders import ENGINE
from bench.harness import RATE, Claim, Goal, Point, Workload
from bench.spark import rivals
from bench.spark.data import Events
from bench.spark.lab import CPU, Case, SparkLab
from bench.spark.row_rivals import CountWindows, Sessions, by_row
from bench.workloads.common import value

NATIVE = f"{ENGINE} (native)"
WINDOW = "groupBy(window)"
PER_KEY = "applyInPandasWithState"
BY_ROW = "transformWithState"
SEPARATE = "20 Spark queries"
S60, S600 = "sliding 60 s / 1 s (60 overlaps)", "sliding 60 s / 100 ms (600 overlaps)"
SUMS = {"s": "sum(v)", "a": "avg(v)", "m": "max(v)"}
MEDIAN = {"m": "median(v)", "n": "count(*)"}


def panes(windows: dict[str, Any], aggregates: dict[str, str], strategy: str = "key_groups", **more: Any) -> Any:
    """The frame of a Panes query over the events."""

    def build(events: Any) -> Any:
        stream = pn.stream(events, time="ts", key="k", watermark="2 s")
        return stream.window(**windows).agg(**aggregates).to_spark(strategy=strategy, **more)

    return build


def _sliding(lab: SparkLab) -> None:
    folder = Events(lab.rows(10_000_000, 400_000)).folder()
    # the rival's input is cut where it would take minutes
    few = Events(20_000, files=1).folder()
    for name, window, rival, cut in (
        (S60, pn.sliding("60 s", every="1 s"), rivals.windowed("60 seconds", "1 second"), {"files": 2}),
        (S600, pn.sliding("60 s", every="100 ms"), rivals.windowed("60 seconds", "100 milliseconds"), {"folder": few}),
    ):
        cases = [
            Case(ENGINE, panes({"w": window}, SUMS)),
            Case(NATIVE, panes({"w": window}, SUMS, "native")),
            Case(WINDOW, rival, **cut),
        ]
        lab.compare(folder, cases, params={"windows": name})


def _tumbling(lab: SparkLab) -> None:
    folder = Events(lab.rows(10_000_000, 400_000)).folder()
    window = {"w": pn.tumbling("1 s")}
    cases = [
        Case(WINDOW, rivals.windowed("1 second")),
        Case(ENGINE, panes(window, SUMS)),
        Case(NATIVE, panes(window, SUMS, "native")),
    ]
    lab.compare(folder, cases, params={"windows": "tumbling 1 s (1 overlap)"})


def _many(lab: SparkLab) -> None:
    """Tumbling windows of 30 to 60 s, so that results don't outnumber rows."""
    folder = Events(lab.rows(10_000_000, 400_000)).folder()
    cases = []
    for n in lab.pick((1, 20, 1000), (1, 20)):
        lengths = np.linspace(30_000, 60_000, n).astype(int)
        windows = {f"w{i}": pn.tumbling(f"{int(ms)} ms") for i, ms in enumerate(lengths)}
        cases.append(Case(f"{ENGINE}, {n} queries", panes(windows, SUMS)))
        if n <= 20:
            cases.append(Case(f"{NATIVE}, {n} queries", panes(windows, SUMS, "native")))
    lengths = np.linspace(30_000, 60_000, 20).astype(int)
    separate = [rivals.windowed(f"{int(ms)} milliseconds") for ms in lengths]
    lab.compare(folder, [*cases, Case(SEPARATE, separate)], params={"windows": "tumbling 30 to 60 s"})


def _per_key(lab: SparkLab, name: str, window: Any, rival: Any, by_rows: Any, keys: int, least: float) -> None:
    rows = lab.rows(10_000_000, 400_000)
    folder = Events(rows, keys=keys, files=2).folder()
    # rivals take minutes for all rows: one file, or fewer keys with as many rows per key and call
    share = 5 if keys < 100_000 else 20
    few = Events(rows // 2 // share, keys=keys // share, files=1).folder()
    by_key: dict[str, Any] = {"files": 1} if keys < 100_000 else {"folder": few}
    cases = [
        Case(ENGINE, panes({"w": window}, MEDIAN), goal=Goal(rows_per_s=least)),
        Case(PER_KEY, rival, **by_key),
        Case(BY_ROW, by_rows, folder=few),
    ]
    lab.compare(folder, cases, params={"windows": name, "keys": keys, "rows per batch": rows // 2}, per_batch=1)


def _small_batches(lab: SparkLab, name: str, window: Any, rival: Any, by_rows: Any, keys: int) -> None:
    """Micro-batches of 100,000 rows, where a function per key has few rows per call."""
    folder = Events(lab.rows(1_000_000, 400_000), keys=keys, files=4 if lab.options.quick else 10).folder()
    cases = [Case(ENGINE, panes({"w": window}, MEDIAN)), Case(PER_KEY, rival), Case(BY_ROW, by_rows, files=2)]
    lab.compare(folder, cases, params={"windows": name, "keys": keys, "rows per batch": 100_000}, per_batch=1)


def _counts(lab: SparkLab) -> None:
    name, window = "100 rows, median", pn.tumbling(pn.rows(100))
    contenders = window, rivals.count_windows(100), by_row(CountWindows(100))
    for keys, least in ((1_000, 1.5e6), (100_000, 1e6)):
        _per_key(lab, name, *contenders, keys, least)
    _small_batches(lab, name, *contenders, 1_000)


def _sessions(lab: SparkLab) -> None:
    # gaps that leave sessions of some hundred rows
    for keys, gap, least in ((1_000, 50, 1.5e6), (100_000, 5_000, 1e6)):
        name = f"sessions {gap} ms, median"
        _per_key(lab, name, pn.session(f"{gap} ms"), rivals.sessions(gap), by_row(Sessions(gap)), keys, least)
    name = "sessions 50 ms, median"
    _small_batches(lab, name, pn.session("50 ms"), rivals.sessions(50), by_row(Sessions(50)), 1_000)


def _ratio(rival: str, factor: float, engine: str = ENGINE, **params: Any) -> Any:
    def check(points: list[Point]) -> tuple[bool, str]:
        ours = value(points, engine, RATE, **params)
        theirs = value(points, rival, RATE, **params)
        return ours >= factor * theirs, f"{ours / theirs:.1f}x"

    return check


def _time_of_many(n: int, engine: str = ENGINE) -> Any:
    def check(points: list[Point]) -> tuple[bool, str]:
        ratio = value(points, f"{engine}, 1 queries") / value(points, f"{engine}, {n} queries")
        return ratio <= 1.5, f"{ratio:.2f}x the time"

    return check


def _cpu_of_many(points: list[Point]) -> tuple[bool, str]:
    theirs = value(points, SEPARATE, CPU)
    by_groups, native = (theirs / value(points, f"{engine}, 20 queries", CPU) for engine in (ENGINE, NATIVE))
    return native >= 10, f"native {native:.1f}x less CPU, key groups {by_groups:.1f}x"


def _per_key_claims(prefix: str, names: list[tuple[int, str]]) -> tuple[Claim, ...]:
    return tuple(
        Claim(
            f"{prefix}-{keys}-{rival}",
            f"at least 20x {rival}, {keys:,} keys",
            _ratio(rival, 20, windows=name, keys=keys),
        )
        for keys, name in names
        for rival in (PER_KEY, BY_ROW)
    )


WORKLOADS = (
    Workload(
        "spark-sliding", "sliding windows, sum, avg and max", _sliding,
        claims=(
            Claim("60", "at least 8x groupBy(window), 60 overlaps", _ratio(WINDOW, 8, windows=S60)),
            Claim("600", "at least 100x groupBy(window), 600 overlaps", _ratio(WINDOW, 100, windows=S600)),
            Claim("60n", "at least 8x, native slices", _ratio(WINDOW, 8, NATIVE, windows=S60)),
            Claim("600n", "at least 100x, native slices", _ratio(WINDOW, 100, NATIVE, windows=S600)),
        ),
    ),
    Workload(
        "spark-tumbling", "tumbling windows, sum, avg and max", _tumbling,
        claims=(
            Claim("1", "at least 0.8x groupBy(window), key groups", _ratio(WINDOW, 0.8)),
            Claim("1n", "at least 0.8x groupBy(window), native", _ratio(WINDOW, 0.8, NATIVE)),
        ),
    ),
    Workload(
        "spark-many", "many tumbling queries at once", _many,
        claims=(
            Claim("20", "20 queries take at most 1.5x the time of one", _time_of_many(20)),
            Claim("20n", "20 queries take at most 1.5x the time of one, native", _time_of_many(20, NATIVE)),
            Claim("1000", "1,000 queries take at most 1.5x the time of one", _time_of_many(1000)),
            Claim("cpu", "20 queries take at least 10x less CPU than 20 Spark queries", _cpu_of_many),
        ),
    ),
    Workload(
        "spark-counts", "count windows with median", _counts,
        claims=_per_key_claims("counts", [(1_000, "100 rows, median"), (100_000, "100 rows, median")]),
    ),
    Workload(
        "spark-sessions", "sessions with median", _sessions,
        claims=_per_key_claims("sessions", [(1_000, "sessions 50 ms, median"), (100_000, "sessions 5000 ms, median")]),
    ),
)  # fmt: skip
