"""When windows of a stream are given: as Spark's own are, or with the micro-batch whose rows close them."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import panes as pn
from panes.errors import QueryError

BATCHES = ([1, 4, 12], [13, 25], [31])
SCHEMA = pa.schema([("t", pa.timestamp("ms", "UTC")), ("v", pa.int64())])


def micro_batches(spark: Any, folder: Path) -> Any:
    source = pn.testing.MicroBatches(spark, schema=SCHEMA, folder=folder / "input")
    for times in BATCHES:
        source.add(pa.table([pa.array([t * 1000 for t in times], SCHEMA[0].type), times], schema=SCHEMA))
    return source.frame


def given(frame: Any, folder: Path) -> list[list[int]]:
    """The beginnings of the windows that each micro-batch gives, in seconds."""
    found: dict[int, list[int]] = {}

    def keep(batch: Any, number: int) -> None:
        found[number] = sorted(int(row.window_start.timestamp()) for row in batch.collect())

    writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    return [found[number] for number in sorted(found)]


def both_kinds(frame: Any) -> Any:
    """Windows of which Spark has no own, so that key groups have to do it."""
    windows = pn.stream(frame, time="t").window(ten=pn.tumbling("10 s"), rows=pn.tumbling(pn.rows(100)))
    return windows.agg(n="count(*)")


def test_windows_come_when_sparks_own_would(spark: Any, tmp_path: Path) -> None:
    found = given(both_kinds(micro_batches(spark, tmp_path)).to_spark(), tmp_path)
    assert found[:4] == [[], [0], [10], [20]]
    assert not any(found[4:])


def test_windows_come_at_once_with_the_rows_that_close_them(spark: Any, tmp_path: Path) -> None:
    found = given(both_kinds(micro_batches(spark, tmp_path)).to_spark(close="at once"), tmp_path)
    assert found[:3] == [[0], [10], [20]]
    assert not any(found[3:])


def test_other_words_for_close_are_refused(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(QueryError, match=r"close='soon': leave it out.*or say 'at once'"):
        both_kinds(micro_batches(spark, tmp_path)).to_spark(close="soon")
    query = pn.stream(micro_batches(spark, tmp_path), time="t").window(pn.tumbling("10 s")).agg(n="count(*)")
    with pytest.raises(QueryError, match=r"native.*are not given at once"):
        query.to_spark(close="at once", strategy="native")


def test_rows_before_1970_are_late_from_the_start_as_for_spark_itself(spark: Any, tmp_path: Path) -> None:
    times = [
        datetime(1969, 12, 31, 23, 59, 55, tzinfo=timezone.utc),
        datetime(1970, 1, 1, 0, 0, 5, tzinfo=timezone.utc),
    ]
    frame = pn.testing.micro_batches(spark, [pa.table([times, [1, 2]], schema=SCHEMA)], folder=tmp_path / "input")
    counted = pn.stream(frame, time="t", watermark="1 s").window(pn.tumbling("10 s")).agg(n="count(*)")
    late: list[Any] = []
    writer = counted.to_spark(late=True).writeStream.foreachBatch(lambda batch, _: late.extend(batch.collect()))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert [row.late_row.v for row in late if row.late_row is not None] == [1]


@pytest.mark.parametrize("strategy", ["key_groups", "native"])
def test_a_second_watermark_is_refused_by_name(spark: Any, tmp_path: Path, strategy: str) -> None:
    frame = micro_batches(spark, tmp_path).withWatermark("t", "1 second").select("t", "v")
    windows = pn.stream(frame, time="t").window(ten=pn.tumbling("10 s"))
    with pytest.raises(QueryError, match=r"has a watermark already.*take \.withWatermark.*watermark='2 s'"):
        windows.agg(n="count(*)").to_spark(strategy=strategy)
