"""The rivals of `make bench-spark` compute what Panes does, and what Spark counts of processes is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import panes as pn
from bench.spark import rivals
from bench.spark.data import SCHEMA, write
from bench.spark.processes import cpu_seconds
from bench.spark.speed import MEDIAN, SUMS, panes

pytest.importorskip("pyspark")


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("events")
    rng = np.random.default_rng(3)
    for number in range(2):
        times = 1_700_000_000_000_000 + number * 4_000_000 + np.sort(rng.integers(0, 4_000_000, 2000))
        write(folder, number, times, rng.integers(0, 6, 2000), rng)
    return folder


@pytest.mark.parametrize(
    ("window", "aggregates", "rival", "columns"),
    [
        (pn.tumbling(pn.rows(50)), MEDIAN, rivals.count_windows(50), "window_from DIV 50 AS at, m, n"),
        (pn.session("20 ms"), MEDIAN, rivals.sessions(20), "unix_micros(window_start) AS at, m, n"),
        (pn.sliding("2 s", every="1 s"), SUMS, rivals.windowed("2 seconds", "1 second"), "window_start AS at, m, s"),
    ],
    ids=["counts", "sessions", "sliding"],
)
def test_rivals_give_the_same(
    spark: Any, run_stream: Any, events: Path, window: Any, aggregates: Any, rival: Any, columns: str
) -> None:
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(rivals)
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(events))
    ours = run_stream(panes({"w": window}, aggregates)(source).selectExpr("k", *columns.split(", ")), "ours")
    theirs = rival(source)
    names = {"window": "window.start", "start": "unix_micros(start)"}
    at = next(c for c in ("window", "start") if c in theirs.columns)
    place = names[at] if at == "start" or "s" in theirs.columns else at
    theirs = run_stream(theirs.selectExpr("k", f"{place} AS at", *columns.split(", ")[1:]), "theirs")
    mine = {(r["k"], str(r["at"])): r for r in ours.to_pylist()}
    other = {(r["k"], str(r["at"])): r for r in theirs.to_pylist()}
    # the count windows of the rival don't wait for the watermark, so its last ones are earlier
    assert len(mine) > 20
    assert {*mine} <= {*other}
    for key, row in mine.items():
        assert [row[c] for c in row if c not in ("k", "at")] == pytest.approx(
            [other[key][c] for c in row if c not in ("k", "at")]
        )
    if "n" not in columns or "window_start" in columns:
        assert len(mine) == len(other)


def test_rivals_by_row_give_the_same() -> None:
    """In Spark's own harness without Java: two micro-batches of one key, and the watermark after each."""
    from pyspark.sql import Row
    from pyspark.sql.streaming import TwsTester

    from bench.spark.row_rivals import CountWindows, Sessions

    rng = np.random.default_rng(5)
    times = np.cumsum(rng.choice([1_000, 4_000, 30_000], 300, p=[0.6, 0.35, 0.05]))
    rows = [{"k": 7, "t": int(t), "v": float(v)} for t, v in zip(times, rng.normal(50, 10, 300))]
    cut, bound = 170, 10_000
    # the micro-batches of a stream: rows, then time has passed
    schema = {"k": "bigint", "t": "bigint", "v": "double"}
    stream = pn.stream(None, schema=schema, time="t", key="k", watermark="manual")
    for window, processor in ((pn.tumbling(pn.rows(25)), CountWindows(25)), (pn.session(20_000), Sessions(20))):
        op = stream.window(w=window).agg(**MEDIAN).operator()
        tester = TwsTester(processor, timeMode=processor.time_mode, eventTimeExtractor=lambda row: row.t // 1000)
        ours, theirs = [], []
        for batch in (rows[:cut], rows[cut:]):
            ours += op.push(batch).rows()
            theirs += tester.test((7,), [Row(**row) for row in batch])
            passed = (batch[-1]["t"] - bound) // 1000
            ours += op.advance(passed * 1000).rows()
            if processor.time_mode == "EventTime":
                theirs += tester.setWatermark(passed)
        mine = [(row["m"], row["n"]) for row in ours]
        assert len(mine) > 8
        # count windows of the rival don't wait for the watermark
        assert mine == [(row.m, row.n) for row in theirs][: len(mine)]
        assert len(theirs) - len(mine) in (0, 1)


def test_cpu_of_all_processes_is_counted() -> None:
    before = cpu_seconds()
    assert sum(i * i for i in range(3_000_000)) > 0
    assert cpu_seconds() > before
