"""Windows come with the micro-batch whose rows close them, where these rows alone make the watermark."""

from __future__ import annotations

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


def test_windows_come_with_the_rows_that_close_them(spark: Any, tmp_path: Path) -> None:
    stream = pn.stream(micro_batches(spark, tmp_path), time="t")
    windows = stream.window(ten=pn.tumbling("10 s"), rows=pn.tumbling(pn.rows(100)))
    found = given(windows.agg(n="count(*)").to_spark(), tmp_path)
    assert found[:3] == [[0], [10], [20]]
    assert not any(found[3:])


@pytest.mark.parametrize("strategy", ["key_groups", "native"])
def test_a_second_watermark_is_refused_by_name(spark: Any, tmp_path: Path, strategy: str) -> None:
    frame = micro_batches(spark, tmp_path).withWatermark("t", "1 second").select("t", "v")
    windows = pn.stream(frame, time="t").window(ten=pn.tumbling("10 s"))
    with pytest.raises(QueryError, match=r"has a watermark already.*take \.withWatermark.*watermark='2 s'"):
        windows.agg(n="count(*)").to_spark(strategy=strategy)
