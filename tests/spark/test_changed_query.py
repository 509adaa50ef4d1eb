"""A checkpoint belongs to one query: a changed one is refused, and told what has changed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import panes as pn
from panes.testing import MicroBatches

ROWS = pa.table(
    {
        "t": pa.array(range(100), pa.int64()),
        "k": pa.array([i % 3 for i in range(100)], pa.int64()),
        "v": pa.array(range(100), pa.int64()),
    }
)
BASE: dict[str, Any] = {
    "stream": {"key": "k", "watermark": 5},
    "windows": {"w": pn.tumbling(10)},
    "aggregates": {"s": "sum(v)"},
    "to_spark": {"key_groups": 4},
}


def build(frame: Any, **changes: dict[str, Any]) -> Any:
    parts = {name: {**part, **changes.get(name, {})} for name, part in BASE.items()}
    stream = pn.stream(frame, time="t", **parts["stream"])
    return stream.window(**parts["windows"]).agg(**parts["aggregates"]).to_spark(**parts["to_spark"])


@pytest.fixture(scope="module")
def checkpoint(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The checkpoint of a stream that has seen its first rows, and the folder of its data."""
    folder = tmp_path_factory.mktemp("changed")
    batches = MicroBatches(spark, [ROWS.slice(0, 50)], folder=folder / "data")
    run(build(batches.frame), folder / "checkpoint")
    batches.add(ROWS.slice(50))
    return folder / "checkpoint", folder / "data"


def run(frame: Any, checkpoint: Path) -> None:
    stream = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    stream.awaitTermination()


@pytest.fixture
def continued(spark: Any, checkpoint: tuple[Path, Path], tmp_path: Path) -> Callable[..., None]:
    """Goes on with a copy of the checkpoint."""
    old, data = checkpoint
    shutil.copytree(old, tmp_path / "checkpoint")

    def go_on(**changes: dict[str, Any]) -> None:
        frame = MicroBatches(spark, schema=ROWS.schema, folder=data).frame
        run(build(frame, **changes), tmp_path / "checkpoint")

    return go_on


def test_the_same_query_goes_on(continued: Callable[..., None]) -> None:
    continued()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"windows": {"w": pn.tumbling(20)}}, "windows was"),
        ({"windows": {"more": pn.tumbling(pn.rows(5))}}, "windows was"),
        ({"aggregates": {"s": "max(v)"}}, "aggregates was"),
        ({"stream": {"key": None}}, "keys was"),
        ({"to_spark": {"key_groups": 8}}, "key_groups was 4, is 8"),
    ],
    ids=["size of a window", "one more window", "an aggregate", "the key", "key groups"],
)
def test_a_changed_query_is_refused_by_name(continued: Callable[..., None], changes: dict[str, Any], said: str) -> None:
    with pytest.raises(Exception, match="the checkpoint belongs to another query") as refused:
        continued(**changes)
    assert said in str(refused.value)
