"""Sources of Panes on Spark: exact micro-batches, replay, sockets."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

import panes as pn
from panes.connectors.replay import Pace
from panes.errors import DataError, QueryError
from panes.runners.spark.sources.socket import SocketReader
from panes.runtime.rejects import Rejects


def batch_sizes(query: Any) -> list[int]:
    """Rows of each micro-batch that had any."""
    return [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]]


def run_now(frame: Any, checkpoint: Path, rows: list[dict[str, Any]]) -> Any:
    """Run over all that is there; rows are added to `rows` in order of their micro-batches."""

    def keep(batch: Any, _: int) -> None:
        rows.extend(row.asDict() for row in batch.collect())

    writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def test_micro_batches_come_one_by_one(spark: Any, tmp_path: Path) -> None:
    batches = pn.testing.MicroBatches(spark, [[{"n": 1}, {"n": 2}], [{"n": 3}], []], partitions=2)
    assert batches.frame.isStreaming
    rows: list[dict[str, Any]] = []
    query = run_now(batches.frame, tmp_path / "c", rows)
    assert batch_sizes(query) == [2, 1]
    assert rows == [{"n": 1}, {"n": 2}, {"n": 3}]
    batches.add(pa.table({"n": [4, 5]}))
    run_now(batches.frame, tmp_path / "c", rows)
    assert [row["n"] for row in rows] == [1, 2, 3, 4, 5]


def test_micro_batches_of_a_folder_are_there_again(spark: Any, tmp_path: Path) -> None:
    pn.testing.micro_batches(spark, [{"n": [1]}], folder=tmp_path / "batches")
    again = pn.testing.micro_batches(spark, schema={"n": "bigint"}, folder=tmp_path / "batches")
    rows: list[dict[str, Any]] = []
    run_now(again, tmp_path / "c", rows)
    assert rows == [{"n": 1}]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({}, "needs schema="), ({"tables": [{"n": [1]}], "partitions": 0}, "partitions must be")],
)
def test_wrong_arguments_of_micro_batches_are_refused(spark: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        pn.testing.micro_batches(spark, **arguments)


def test_a_query_over_micro_batches(spark: Any, run_stream: Callable[..., pa.Table]) -> None:
    batches = [{"ts": [1, 4, 12], "v": [1.0, 2.0, 3.0]}, {"ts": [15, 31], "v": [4.0, 5.0]}]
    frame = pn.testing.micro_batches(spark, batches)
    out = pn.stream(frame, time="ts", watermark=2).window(ten=pn.tumbling(10)).agg(total="sum(v)").to_spark()
    got = run_stream(out).sort_by("window_start")
    assert got["window_start"].to_pylist() == [0, 10]
    assert got["total"].to_pylist() == [3.0, 7.0]


ROWS = {"ts": [0, 1000, 500, 2000, 10_000], "v": [1.0, 2.0, 3.0, 4.0, 5.0]}


@pytest.mark.parametrize("kind", ["table", "parquet", "csv", "json"])
def test_a_replay_gives_the_rows_of_its_data(kind: str, spark: Any, tmp_path: Path) -> None:
    table = pa.table(ROWS)
    data: Any = table
    if kind == "parquet":
        pa.parquet.write_table(table, data := tmp_path / "rows.parquet")
    elif kind == "csv":
        pa.csv.write_csv(table, data := tmp_path / "rows.csv")
    elif kind == "json":
        data = tmp_path / "rows.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    rows: list[dict[str, Any]] = []
    frame = pn.replay(data, batch_rows=2).to_spark(spark, partitions=2)
    query = run_now(frame, tmp_path / "c", rows)
    assert batch_sizes(query) == [2, 2, 1]
    assert rows == table.to_pylist()


def test_replay_goes_on_at_the_offset_of_the_checkpoint(spark: Any, tmp_path: Path) -> None:
    """Another tape of the same data: the rows after the offset, each once."""
    rows: list[dict[str, Any]] = []
    half = pa.table(ROWS).slice(0, 3)
    run_now(pn.replay(half, batch_rows=2).to_spark(spark), tmp_path / "c", rows)
    run_now(pn.replay(pa.table(ROWS), batch_rows=10).to_spark(spark), tmp_path / "c", rows)
    assert rows == pa.table(ROWS).to_pylist()


def test_replay_as_data_of_a_stream_on_both_runners(spark: Any, run_stream: Callable[..., pa.Table]) -> None:
    data = pn.replay(ROWS, time="ts", speed=1000, batch_rows=3)
    query = pn.stream(data, time="ts", watermark="1 s").window(pn.tumbling("1 s")).agg(total="sum(v)")
    assert query.to_arrow()["total"].to_pylist() == [4.0, 2.0, 4.0, 5.0]
    assert sorted(run_stream(query.to_spark())["total"].to_pylist()) == [2.0, 4.0, 4.0]


@pytest.mark.parametrize(
    ("pace", "seconds", "due"),
    [
        (Pace(), 0.0, 5),
        (Pace(speed=1), 0.0, 1),
        (Pace(speed=1), 0.999, 1),
        (Pace(speed=1), 1.0, 3),
        (Pace(speed=2), 1.0, 4),
        (Pace(speed=100), 1.0, 5),
        (Pace(rows_per_second=2), 0.0, 1),
        (Pace(rows_per_second=2), 1.5, 4),
        (Pace(rows_per_second=2), 60.0, 5),
    ],
)
def test_rows_are_due_by_the_pace(pace: Pace, seconds: float, due: int) -> None:
    replay = pn.replay(ROWS, time="ts", speed=1)
    times = replay.latest_times(pa.table(ROWS))
    assert times is not None
    assert pace.due(times, 5, 0, seconds) == due


def test_rows_without_a_time_do_not_wait() -> None:
    replay = pn.replay({"ts": [None, None, 5000, None, 6000]}, time="ts", speed=1, schema={"ts": "bigint"})
    times = replay.latest_times(pa.table({"ts": [None, None, 5000, None, 6000]}))
    assert [replay.pace.due(times, 5, 0, seconds) for seconds in (0, 0.5, 1)] == [4, 4, 5]
    nothing = pn.replay({"ts": [None, None]}, time="ts", speed=1, schema={"ts": "bigint"})
    assert sum(map(len, nothing.batches(Rejects()))) == 2


def test_replay_waits_for_the_clock(spark: Any, tmp_path: Path) -> None:
    """Ten hours of event time in an hour: of five rows the last one is far from due."""
    hours = {"ts": [0, 1, 2, 3, 36_000_000], "v": ROWS["v"]}
    frame = pn.replay(hours, time="ts", speed=10).to_spark(spark)
    seen: list[int] = []
    writer = frame.writeStream.foreachBatch(lambda batch, _: seen.append(batch.count()))
    query = writer.option("checkpointLocation", str(tmp_path / "c")).start()
    query.processAllAvailable()
    query.stop()
    assert sum(seen) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"speed": 0}, "speed must be"),
        ({"speed": 2}, "time="),
        ({"rows_per_second": -1}, "rows_per_second must be"),
        ({"speed": 2, "time": "ts", "rows_per_second": 1}, "not both"),
        ({"batch_rows": 0}, "batch_rows must be"),
        ({"speed": 2, "time": "st"}, "there is no such column"),
        ({"speed": 2, "time": "v"}, "timestamp or an integer"),
    ],
)
def test_wrong_arguments_of_a_replay_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        pn.replay(ROWS, **arguments)


@contextmanager
def serving(text: bytes) -> Iterator[int]:
    """A server on the returned port that sends the text to whoever comes, and closes."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            connection.sendall(text)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield server.getsockname()[1]
    thread.join(10)
    server.close()


def test_socket_on_spark(spark: Any, run_stream: Callable[..., pa.Table]) -> None:
    text = b'{"ts": 1, "v": 2.0}\n{"ts": 4, "v": 3.0}\nnot json\n{"ts": 12, "v": 5.0}\n{"ts": 31, "v": 1.0}\n'
    with serving(text) as port:
        source = pn.socket_source(port, schema={"ts": "bigint", "v": "double"}, timeout=10)
        query = pn.stream(source, time="ts").window(pn.tumbling(10)).agg(total="sum(v)")
        got = run_stream(query.to_spark(late=True)).to_pylist()
    assert sorted(row["total"] for row in got if row["late_reason"] is None) == [5.0, 5.0]
    assert [row["late_reason"] for row in got if row["late_reason"] is not None] == ["null time"]


def test_socket_rows_stay_until_they_are_committed(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64())])
    with serving(b"1\n2\n3\n") as port:
        options = pn.socket_source(port, schema=schema, format="csv", timeout=10).options
        reader = SocketReader({**{k: str(v) for k, v in options.items()}, "folder": str(tmp_path)}, schema)
        reader.prepareForTriggerAvailableNow()
        end = reader.latestOffset({"row": 0}, ReadAllAvailable())
    again = SocketReader({"folder": str(tmp_path)}, schema)
    (part,) = again.partitions({"row": 1}, end)
    assert [n for batch in again.read(part) for n in batch["n"].to_pylist()] == [2, 3]
    again.commit(end)
    with pytest.raises(DataError, match="earlier run"):
        again.partitions({"row": 0}, end)
