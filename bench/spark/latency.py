"""From the end of a window, when its last row arrives, to its results: at 10,000 rows/s, as fast as triggers go."""

from __future__ import annotations

import shutil
import tempfile
import time
from typing import Any

import numpy as np
import pyarrow as pa

import panes as pn
from bench.contenders import ENGINE
from bench.harness import Workload
from bench.spark.lab import SparkLab
from bench.spark.live import live
from bench.spark.speed import NATIVE, SUMS, WINDOW

ROWS_PER_S = 10_000


def _panes(strategy: str) -> Any:
    def build(events: Any) -> Any:
        stream = pn.stream(events, time="ts", key="k", watermark="0 s")
        query = stream.window(w=pn.tumbling("1 s")).agg(**SUMS)
        return query.to_spark(strategy=strategy).selectExpr("window_end AS end")

    return build


def _spark(events: Any) -> Any:
    from pyspark.sql import functions as F

    grouped = events.withWatermark("ts", "0 seconds").groupBy("k", F.window("ts", "1 second"))
    return grouped.agg(F.sum("v").alias("s"), F.avg("v"), F.max("v")).selectExpr("window.end AS end")


def _latency(lab: SparkLab) -> None:
    seconds = 15 if lab.options.quick else 60
    for name, build in ((ENGINE, _panes("key_groups")), (NATIVE, _panes("native")), (WINDOW, _spark)):
        lab._log(f"{lab.workload}: {name}, {seconds} s")
        _measure(lab.spark, build, seconds / 3)  # Java compiles what it needs
        waits, rate = _measure(lab.spark, build, seconds)
        params = {"rows/s": ROWS_PER_S}
        for metric, share in (("p50 s", 50), ("p99 s", 99)):
            lab.record(name, metric, float(np.percentile(waits, share)), params=params, processed_per_s=rate)


def _measure(spark: Any, build: Any, seconds: float) -> tuple[np.ndarray, float]:
    """How long each result was waited for, once the stream runs evenly, and the rows per second."""
    began = time.time()
    given: list[tuple[np.ndarray, float]] = []  # the ends of windows, and when their results were there

    def note(frame: Any, number: int) -> None:
        ends = frame.toArrow()["end"].cast(pa.int64()).to_numpy()
        given.append((ends / 1e6, time.time()))

    checkpoint = tempfile.mkdtemp(prefix="panes-bench-")
    results = build(live(spark, ROWS_PER_S, began))
    query = results.writeStream.foreachBatch(note).option("checkpointLocation", checkpoint).start()
    try:
        while time.time() - began < seconds and query.isActive:
            time.sleep(0.2)
        if query.exception() is not None:
            raise query.exception()
        rates = [p["processedRowsPerSecond"] for p in query.recentProgress[-5:]]
    finally:
        query.stop()
        shutil.rmtree(checkpoint, ignore_errors=True)
    waits = [now - ends[ends > began + seconds / 3] for ends, now in given]
    return np.concatenate([*waits, np.empty(0)]), float(np.median(rates))


WORKLOADS = (Workload("spark-latency", "from a row's arrival to its window's result", _latency),)
