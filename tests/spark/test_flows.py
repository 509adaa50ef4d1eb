"""Streams without windows, merged streams, steps on results and nested queries: Spark gives what the embedded
runner gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import panes as pn
from panes.errors import QueryError
from panes.runners.spark import flows
from panes.runners.spark.columns import NoColumn

TABLE = pa.table(
    {
        "ts": pa.array([i * 100 * 1000 for i in range(60)]).cast(pa.timestamp("us", "UTC")),
        "k": ["abc"[i * i % 3] for i in range(60)],
        "v": [float(i * 7 % 13) for i in range(60)],
        "a b": [i % 5 for i in range(60)],
    }
)


def rows(table: pa.Table) -> list[dict[str, Any]]:
    return table.to_pylist()


def bag(table: pa.Table) -> list[str]:
    return sorted(str(row) for row in table.to_pylist())


def stream(data: Any, **options: Any) -> Any:
    return pn.stream(data, **{"time": "ts", "key": "k", **options})


def flow(data: Any) -> Any:
    return (
        stream(data).where("v > 3").with_columns(twice="v * 2", name="upper(k)").select("a b", "name", "twice", at="ts")
    )


def totals(data: Any) -> Any:
    return (
        stream(data)
        .where("v <> 5")
        .window(fast=pn.tumbling("1 s"), slow=pn.tumbling("2 s"))
        .agg(total="sum(v)", n="count(*)")
    )


def stepped(data: Any) -> Any:
    chosen = totals(data).where("total > 20 AND window = 'fast'").order_by("total DESC", "k")
    return chosen.select("k", "window_end", mean="total / n", day="date_trunc('day', window_start)")


def nested(data: Any) -> Any:
    inner = totals(data).where("window = 'fast'").select("k", "n").stream(key="k")
    return inner.window(pn.tumbling("3 s")).agg(most="max(n)", rows="count(*)")


def merged(data: Any) -> Any:
    big, small = stream(data).where("v > 6"), stream(data).where("v < 3")
    return pn.merge(big.select("v", "ts"), small.select("ts", "v"))


def batches(spark: Any, count: int = 4) -> Any:
    size = -(-TABLE.num_rows // count)
    return pn.testing.micro_batches(spark, [TABLE.slice(i, size) for i in range(0, TABLE.num_rows, size)])


@pytest.mark.parametrize(
    "make",
    [flow, merged, stepped, nested, lambda d: merged(d).window(pn.tumbling("1 s")).agg(n="count(*)")],
    ids=["flow", "merge", "steps", "nested", "windows over a merge"],
)
def test_static_frames_give_the_same(spark: Any, make: Callable[[Any], Any]) -> None:
    expected, found = make(TABLE).to_arrow(), make(spark.createDataFrame(TABLE)).to_spark().toArrow()
    assert found.column_names == expected.column_names
    assert bag(found.cast(expected.schema)) == bag(expected)
    assert expected.num_rows > 5


def test_rows_that_spark_would_compute_otherwise(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, frame = flow(TABLE).to_arrow(), spark.createDataFrame(TABLE)
    native = flow(frame).to_spark()
    assert "MapInArrow" not in plan_of(native)
    monkeypatch.setattr(flows, "_native", refuse)
    found = flow(frame).to_spark()
    assert "MapInArrow" in plan_of(found)
    assert found.schema == native.schema
    assert rows(found.toArrow().cast(expected.schema)) == rows(expected)


def refuse(*_: Any) -> Any:
    raise NoColumn("not this time")


def plan_of(frame: Any) -> str:
    return str(frame._jdf.queryExecution().toString())


@pytest.mark.parametrize("strategy", ["native", "key_groups"])
def test_results_are_ordered_under_every_strategy(spark: Any, strategy: str) -> None:
    expected = stepped(TABLE).to_arrow()
    found = stepped(spark.createDataFrame(TABLE)).to_spark(strategy=strategy).toArrow()
    assert rows(found.cast(expected.schema)) == rows(expected)


def test_streaming_frames_give_the_same(spark: Any, run_stream: Callable[..., pa.Table]) -> None:
    for name, make in {"flow": flow, "merge": merged}.items():
        expected = make(TABLE).to_arrow()
        assert bag(run_stream(make(batches(spark)).to_spark(), name).cast(expected.schema)) == bag(expected)


def test_steps_on_a_streaming_frame(spark: Any, run_stream: Callable[..., pa.Table]) -> None:
    # a row late enough to be left out by the windows, and one that closes all windows
    late = TABLE.slice(0, 1).set_column(1, "k", pa.array(["late"]))
    last = TABLE.slice(0, 1).set_column(0, "ts", pa.array([10**8]).cast(TABLE.schema.field("ts").type))
    frame = pn.testing.micro_batches(spark, [TABLE, TABLE.slice(0, 0), late, last, last])
    found = run_stream(stepped(frame).to_spark(late=True))
    assert found.column_names == ["k", "window_end", "mean", "day", "late_reason", "late_row"]
    expected = stepped(TABLE).to_arrow()
    results = found.filter(found["late_reason"].is_null()).select(expected.column_names).cast(expected.schema)
    assert bag(results) == bag(expected)
    left = found.filter(found["late_reason"].is_valid()).to_pylist()
    assert [row["late_row"]["k"] for row in left] == ["late"]


def test_rows_by_arrival_are_all_there(spark: Any, run_stream: Callable[..., pa.Table]) -> None:
    data = TABLE.drop_columns(["ts"])
    by_arrival = pn.stream(spark.createDataFrame(data), time=pn.arrival())
    assert bag(by_arrival.to_spark().toArrow()) == bag(data)
    counted = by_arrival.window(pn.tumbling("1 hour")).agg(n="count(*)").to_spark().toArrow()
    assert counted["n"].to_pylist() == [60]
    assert counted.schema.field("window_start").type == pa.timestamp("us")
    live = pn.stream(pn.testing.micro_batches(spark, [data]), time=pn.arrival()).select("k", "arrival_time")
    stamped = run_stream(live.to_spark(), "live")
    assert bag(stamped.select(["k"])) == bag(data.select(["k"]))
    assert len(set(stamped["arrival_time"].to_pylist())) == 1
    ticks = iter(range(60))
    by_clock = pn.stream(spark.createDataFrame(data), time=pn.arrival(clock=lambda: next(ticks)))
    expected = data.append_column("arrival_time", pa.array(range(60)).cast(pa.timestamp("us")))
    assert rows(by_clock.select(*expected.column_names).to_spark().toArrow()) == rows(expected)
    with pytest.raises(QueryError, match=r"clock=.* can't be on a streaming frame"):
        pn.stream(pn.testing.micro_batches(spark, [data]), time=pn.arrival(clock=lambda: 0)).to_spark()


def test_windows_over_windows_on_a_streaming_frame(spark: Any, run_stream: Callable[..., pa.Table]) -> None:
    expected = nested(TABLE).to_arrow()
    last = TABLE.slice(0, 1).set_column(0, "ts", pa.array([10**8]).cast(TABLE.schema.field("ts").type))
    parts = [TABLE.slice(i, 17) for i in range(0, TABLE.num_rows, 17)]
    found = run_stream(nested(pn.testing.micro_batches(spark, [*parts, last, last])).to_spark(key_groups=3))
    assert bag(found.cast(expected.schema)) == bag(expected)


@pytest.mark.parametrize(
    ("inner", "time", "reason"),
    [
        (pn.tumbling(pn.rows(3)), "window_end", "inside is not given just when"),
        (pn.tumbling("1 s"), "last", "not the end of the windows inside"),
    ],
)
def test_windows_over_windows_that_are_no_streaming_query(spark: Any, inner: Any, time: str, reason: str) -> None:
    rows_of = pn.stream(batches(spark), time="ts", key="k", watermark="1 s")
    results = rows_of.window(inner).agg(n="count(*)", last="max(ts)").stream(time=time)
    with pytest.raises(QueryError, match=reason):
        results.window(pn.tumbling("3 s")).agg(n="sum(n)").to_spark()


def test_explain_shows_the_steps(spark: Any) -> None:
    text = str(stepped(spark.createDataFrame(TABLE)).explain())
    assert text.index("Steps on results") < text.index("On Spark")
    assert "On Spark" in str(nested(spark.createDataFrame(TABLE)).explain())
