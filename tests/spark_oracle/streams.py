"""Random streams with late rows, and what Spark and Panes count in each of their windows.

In a micro-batch Spark judges rows by the watermark of the micro-batch before, and gives windows by its own, which the
rows of all micro-batches before it have made. The operator does the same when rows are pushed first, and event time
moves on then. Watermarks lie between whole seconds and times on them, so nothing ends exactly at a watermark.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

import panes as pn

BASE = datetime(2024, 3, 1)
SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("k", pa.string()), ("v", pa.int64())])
Row = tuple[int, str, int]  # second, key, value
Counted = Counter[tuple[str, int, int, int, int]]  # key, start, end, rows, sum


@dataclass(frozen=True)
class Stream:
    """Micro-batches of rows, and one window over them; sizes in seconds."""

    seed: int
    kind: str  # "tumbling", "sliding" or "session"
    size: int
    slide: int
    delay: float  # of the watermark
    batches: tuple[tuple[Row, ...], ...]

    @property
    def window(self) -> Any:
        if self.kind == "session":
            return pn.session(f"{self.size} s")
        return pn.sliding(f"{self.size} s", every=f"{self.slide} s")


def random_stream(seed: int) -> Stream:
    rng = Random(seed)
    kind = rng.choice(("tumbling", "sliding", "session"))
    size = rng.randint(3, 25)
    slide = size if kind == "tumbling" else rng.randint(1, size)
    delay = rng.choice((0.5, 0.5, 2.5, 6.5))
    now, batches = rng.randint(0, 50), []
    for _ in range(rng.randint(5, 7)):
        rows = []
        for _ in range(rng.randint(1, 10)):
            now += rng.choice((0, 1, 1, 2, 3, 9))
            behind = rng.choice((0, 0, 0, rng.randint(1, 12), rng.randint(10, 60)))
            rows.append((now - behind, rng.choice("ab"), rng.randint(1, 100)))
        batches.append(tuple(rows))
    return Stream(seed, kind, size, slide, delay, tuple(batches))


def table_of(rows: tuple[Row, ...]) -> pa.Table:
    columns = [[BASE + timedelta(seconds=t) for t, _, _ in rows], [k for _, k, _ in rows], [v for _, _, v in rows]]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def second(moment: datetime) -> int:
    return round((moment - BASE).total_seconds())


def _frame(spark: Any, stream: Stream, folder: Path) -> Any:
    from pyspark.sql import functions as F

    frame = pn.testing.micro_batches(spark, [table_of(rows) for rows in stream.batches], folder=folder / "in")
    return frame.withColumn("ts", F.col("ts").cast("timestamp"))  # Spark's windows are in the zone of the session


def _start(frame: Any, name: str, folder: Path) -> tuple[Any, str]:
    flat = frame.selectExpr(
        "k", "cast(start as timestamp_ntz) as start", "cast(end as timestamp_ntz) as end", "n", "s"
    )  # fmt: skip
    running = flat.writeStream.format("memory").queryName(name).outputMode("append")
    return running.option("checkpointLocation", str(folder / "ck")).trigger(availableNow=True).start(), name


def strategies(stream: Stream) -> tuple[str, ...]:
    """Those that must give what Spark gives; of sessions, what the embedded operator gives."""
    alone = ("native",) if stream.kind == "tumbling" else ()
    return ("key_groups", *(() if stream.kind == "session" else ("native_overlaps", *alone)))


def by_strategy(spark: Any, stream: Stream, strategy: str, folder: Path) -> tuple[Any, str]:
    """As `on_spark`, of a query of Panes."""
    frame = _frame(spark, stream, folder / strategy)
    asked = pn.stream(frame, time="ts", key="k", watermark=f"{round(stream.delay * 1000)} ms").window(w=stream.window)
    given = asked.agg(n="count(*)", s="sum(v)").to_spark(strategy=strategy, key_groups=4)
    given = given.selectExpr("k", "window_start as start", "window_end as end", "n", "s")
    return _start(given, f"panes_{strategy}_{abs(stream.seed)}", folder / strategy)


def on_spark(spark: Any, stream: Stream, folder: Path) -> tuple[Any, str]:
    """The running query, and the name of the table in memory that it fills."""
    from pyspark.sql import functions as F

    frame = _frame(spark, stream, folder)
    frame = frame.withWatermark("ts", f"{round(stream.delay * 1000)} milliseconds")
    if stream.kind == "session":
        window = F.session_window("ts", f"{stream.size} seconds")
    else:
        window = F.window("ts", f"{stream.size} seconds", f"{stream.slide} seconds")
    counted = frame.groupBy("k", window.alias("w")).agg(F.count("*").alias("n"), F.sum("v").alias("s"))
    return _start(counted.selectExpr("k", "w.start", "w.end", "n", "s"), f"oracle_{abs(stream.seed)}", folder)


def counted_by_spark(spark: Any, running: Any, name: str) -> Counted:
    running.awaitTermination()
    rows = spark.table(name).collect()
    spark.catalog.dropTempView(name)
    return Counter((r.k, second(r.start), second(r.end), r.n, r.s) for r in rows)


@dataclass
class ByPanes:
    """What the operator counts; `left_out`: rows that Spark drops though they touch an open session, of `rows`."""

    counted: Counted
    rows: int = 0
    late: int = 0
    left_out: int = 0


def counted_by_panes(stream: Stream, *, as_spark: bool = True) -> ByPanes:
    """`as_spark`: without the rows that Spark drops though they touch an open session."""
    query = (
        pn.stream(None, schema=SCHEMA, time="ts", key="k", watermark="manual")
        .window(w=stream.window)
        .agg(n="count(*)", s="sum(v)")
    )
    op = query.operator()
    found = ByPanes(Counter())
    reached, latest = None, None  # the watermark, and the latest time so far, in seconds
    for rows in (*stream.batches, ()):
        for row in rows:
            found.rows += 1
            dropped = stream.kind == "session" and reached is not None and row[0] + stream.size <= reached
            if as_spark and dropped and takes(query, op, row):
                found.left_out += 1
            else:
                _count(found, op.push(table_of((row,))))
        if latest is not None:
            reached = latest - stream.delay
            _count(found, op.advance(BASE + timedelta(seconds=reached)))
        latest = max([t for t, _, _ in rows] + ([] if latest is None else [latest]), default=None)
    found.late = op.metrics["rows_late"]
    return found


def takes(query: Any, op: Any, row: Row) -> bool:
    """Whether an operator would use a row; it does not see it."""
    other = query.operator(restore=op.snapshot())
    before = other.metrics["rows_late"]
    other.push(table_of((row,)))
    return bool(other.metrics["rows_late"] == before)


def _count(found: ByPanes, results: Any) -> None:
    for r in results.rows():
        found.counted[r["k"], second(r["window_start"]), second(r["window_end"]), r["n"], r["s"]] += 1


def difference(stream: Stream, want: Counted, got: Counted, who: str) -> str | None:
    if want == got:
        return None
    missing, more = sorted((want - got).elements()), sorted((got - want).elements())
    return f"{stream}, {who}\n  missing: {missing}\n  more: {more}"
