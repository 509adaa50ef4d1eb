"""Windows of a stream before they close: `early("batch")` against Spark's own update mode, and by event time."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import panes as pn
from panes.errors import QueryError

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.string()), ("v", pa.int64())])


def table(rows: list[tuple[int, str, int]]) -> pa.Table:
    times, keys, values = zip(*rows)
    return pa.table([pa.array([t * 1_000_000 for t in times], SCHEMA[0].type), keys, values], schema=SCHEMA)


def batches(seed: int) -> list[pa.Table]:
    rng, now, found = Random(seed), 100, []
    for _ in range(5):
        rows = []
        for _ in range(rng.randint(1, 8)):
            now += rng.choice((0, 1, 2, 7))
            rows.append((now - rng.choice((0, 0, 0, 3, 30)), rng.choice("ab"), rng.randint(1, 9)))
        found.append(table(rows))
    return found


def by_batch(frame: Any, folder: Path, mode: str = "append") -> list[list[Any]]:
    found: dict[int, list[Any]] = {}

    def keep(batch: Any, number: int) -> None:
        found[number] = batch.collect()

    writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(folder)).outputMode(mode)
    writer.trigger(availableNow=True).start().awaitTermination()
    return [found[number] for number in sorted(found)]


@pytest.mark.parametrize("seed", range(3))
def test_every_micro_batch_gives_what_update_mode_does(spark: Any, tmp_path: Path, seed: int) -> None:
    """Update mode gives windows that rows of a micro-batch were taken by, and does not say when they close."""
    from pyspark.sql import functions as F

    frame = pn.testing.micro_batches(spark, batches(seed), folder=tmp_path / "input")
    size, slide = [("10 seconds", "10 seconds"), ("10 seconds", "5 seconds"), ("6 seconds", "3 seconds")][seed]
    plain = frame.withWatermark("ts", "4 seconds").groupBy("k", F.window("ts", size, slide).alias("w"))
    plain = plain.agg(F.count("*").alias("n"), F.sum("v").alias("s")).select("k", "w.start", "w.end", "n", "s")
    updated = [set(map(tuple, rows)) for rows in by_batch(plain, tmp_path / "plain", "update")]
    stream = pn.stream(frame, time="ts", key="k", watermark="4 s").window(w=pn.sliding(size, every=slide))
    given = stream.agg(n="count(*)", s="sum(v)").early("batch").to_spark(key_groups=3)
    last: dict[Any, Any] = {}
    for number, rows in enumerate(by_batch(given, tmp_path / "panes")):
        assert not any(row.void for row in rows)
        found = {(r.k, r.window_start, r.window_end, r.n, r.s) for r in rows}
        changed = {one for one in found if last.get(one[:3]) != one[3:]}
        last |= {one[:3]: one[3:] for one in found}
        assert changed == (updated[number] if number < len(updated) else set())
        # what did not change is given because it has closed
        assert {(r.k, r.window_start) for r in rows if not r.final} <= {one[:2] for one in changed}


def test_sessions_that_grow_are_withdrawn(spark: Any, tmp_path: Path) -> None:
    tables = [table([(t, "a", 1) for t in times]) for times in ((0, 3), (5,), (40,), (41,))]
    frame = pn.testing.micro_batches(spark, tables, folder=tmp_path / "input")
    visits = pn.stream(frame, time="ts", key="k").window(v=pn.session("4 s")).agg(n="count(*)").early("batch")
    found = [
        [(r.window_start.second, "void" if r.void else r.n, r.revision, r.final) for r in rows]
        for rows in by_batch(visits.to_spark(key_groups=2), tmp_path / "checkpoint")
    ]
    assert [rows for rows in found if rows] == [
        [(0, 2, 0, False)],
        [(0, "void", 1, False), (0, 3, 0, False)],
        [(40, 1, 0, False)],
        [(40, "void", 1, False), (0, 3, 1, True), (40, 2, 0, False)],
    ]


def test_what_spark_cant_do_is_refused_by_name(spark: Any, tmp_path: Path) -> None:
    frame = pn.testing.micro_batches(spark, batches(0), folder=tmp_path / "input")
    windows = pn.stream(frame, time="ts", key="k").window(w=pn.tumbling("10 s")).agg(n="count(*)")
    with pytest.raises(QueryError, match=r"say early\('batch'\), and how often with .trigger"):
        windows.early("1 s", clock=True).to_spark()
    with pytest.raises(QueryError, match=r"native.*have not closed"):
        windows.early("batch").to_spark(strategy="native")
