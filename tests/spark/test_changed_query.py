"""A checkpoint belongs to one query: a changed one is refused, and told what has changed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import panes as pn
from panes.errors import QueryError, SnapshotMismatch
from panes.runners.spark.group_operator import GroupQuery, used_columns
from panes.runners.spark.stored import changed
from panes.runners.spark.stream_frames import FILE
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
    "to_spark": {"key_groups": 4, "strategy": "key_groups"},
}


def changed_parts(changes: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {name: {**part, **changes.get(name, {})} for name, part in BASE.items()}


def build(data: Any, changes: dict[str, dict[str, Any]]) -> Any:
    parts = changed_parts(changes)
    return pn.stream(data, time="t", **parts["stream"]).window(**parts["windows"]).agg(**parts["aggregates"])


def on_spark(frame: Any, **changes: dict[str, Any]) -> Any:
    return build(frame, changes).to_spark(**changed_parts(changes)["to_spark"])


@pytest.fixture(scope="module")
def checkpoint(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The checkpoint of a stream that has seen its first rows, and the folder of its data."""
    folder = tmp_path_factory.mktemp("changed")
    batches = MicroBatches(spark, [ROWS.slice(0, 50)], folder=folder / "data")
    run(on_spark(batches.frame), folder / "checkpoint")
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
        run(on_spark(frame, **changes), tmp_path / "checkpoint")

    return go_on


def test_the_same_query_goes_on(continued: Callable[..., None]) -> None:
    continued()


def test_a_changed_query_is_refused_by_name(continued: Callable[..., None], tmp_path: Path) -> None:
    # as in checkpoints that did not say so by themselves: the state does, once there are rows
    (tmp_path / "checkpoint" / FILE).unlink()
    with pytest.raises(Exception, match="the checkpoint belongs to another query") as refused:
        continued(windows={"w": pn.tumbling(20)}, to_spark={"key_groups": 8})
    assert "windows was" in str(refused.value)
    assert "key_groups was 4, is 8" in str(refused.value)


def test_a_changed_query_is_refused_at_the_start_though_no_rows_have_come(
    spark: Any, checkpoint: tuple[Path, Path], tmp_path: Path
) -> None:
    """Spark has no work then, and would end as if all were well."""
    old, data = checkpoint
    shutil.copytree(old, tmp_path / "checkpoint")
    batches = MicroBatches(spark, schema=ROWS.schema, folder=tmp_path / "data")
    shutil.copy(data / "000000.arrow", tmp_path / "data")
    run(on_spark(batches.frame), tmp_path / "checkpoint")  # the same query has nothing to do
    for changes in ({"windows": {"w": pn.tumbling(20)}}, {"to_spark": {"strategy": "native"}}):
        frame = on_spark(batches.frame, **changes)
        for written in (frame, frame.select("window_end", "s").where("s > 0")):
            with pytest.raises(SnapshotMismatch, match=r"belongs to another query: (windows|columns|strategy) was"):
                run(written, tmp_path / "checkpoint")


def test_a_checkpoint_keeps_the_strategy_that_it_began_with(spark: Any, tmp_path: Path) -> None:
    """Also one of a version whose planner chose another, through all that was said to the frame and the writer."""
    found: dict[str, list[Any]] = {}
    for began in ("key_groups", "native"):
        batches, checkpoint = MicroBatches(spark, [ROWS.slice(0, 50)]), tmp_path / began
        for strategy in (began, None):
            frame = on_spark(batches.frame, to_spark={"strategy": strategy})
            frame = frame.where("s >= 0").select("k", "window_end", "s")
            writer = frame.writeStream.foreachBatch(
                lambda batch, _, began=began: found.setdefault(began, []).extend(map(tuple, batch.collect()))
            )
            running = writer.trigger(availableNow=True).option("checkpointLocation", str(checkpoint)).start()
            running.awaitTermination()
            batches.add(ROWS.slice(50))
        (operator,) = {operator["operatorName"] for operator in running.lastProgress["stateOperators"]}
        assert operator == {"key_groups": "transformWithStateInPandasExec", "native": "stateStoreSave"}[began]
        assert json.loads((checkpoint / FILE).read_text())["strategy"] == began
    assert sorted(found["key_groups"]) == sorted(found["native"])
    assert len(found["native"]) == 3 * 9


def test_a_start_that_failed_ties_a_checkpoint_to_no_query(spark: Any, tmp_path: Path) -> None:
    batches = MicroBatches(spark, [ROWS])
    writer = on_spark(batches.frame).writeStream.format("no_such_sink")
    with pytest.raises(Exception, match="no_such_sink"):
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    changed = on_spark(batches.frame, windows={"w": pn.tumbling(20)}, to_spark={"strategy": "native"})
    run(changed, tmp_path / "checkpoint")


@pytest.mark.parametrize("mode", ["update", "complete"])
def test_output_modes_other_than_append_are_refused(spark: Any, mode: str) -> None:
    frame = on_spark(MicroBatches(spark, schema=ROWS.schema).frame)
    written = frame.withColumn("more", frame.s + 1)
    for ask in (
        lambda: frame.writeStream.outputMode(mode),
        lambda: written.writeStream.format("noop").start(outputMode=mode),
        lambda: written.writeStream.toTable("results", outputMode=mode),
    ):
        with pytest.raises(QueryError, match=f"outputMode.'{mode}'.: a window is given when it is complete"):
            ask()


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
def test_every_change_is_told(changes: dict[str, Any], said: str) -> None:
    """What the check compares, without a stream for each."""

    def facts(changes: dict[str, Any]) -> dict[str, Any]:
        plan = build(ROWS, changes)._plan
        groups = changed_parts(changes)["to_spark"]["key_groups"]
        return GroupQuery(plan, used_columns(plan)).facts(groups)

    assert changed(facts({}), facts({})) == ""
    assert said in changed(facts({}), facts(changes))
