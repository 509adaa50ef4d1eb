"""Native sessions on static frames: the key-group operator and Spark's own session_window() as oracles."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import panes as pn
from panes.errors import QueryError
from tests.spark.native_cases import frame_of, rows, same_results

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(scope="module")
def frame(spark: Any) -> Any:
    return frame_of(spark, rows(2, 200)).cache()


@pytest.mark.parametrize(("time", "gap"), [("ts", "150 ms"), ("ntz", "1 s"), ("small", 3)])
@pytest.mark.parametrize("key", [None, "k"])
def test_agree_with_the_key_group_operator(frame: Any, time: str, gap: Any, key: str | None) -> None:
    query = pn.stream(frame, time=time, key=key).window(pn.session(gap)).agg(n="count(*)", s="sum(v)", l="last(s)")
    native, groups = (query.to_spark(strategy=s) for s in ("native_sessions", "key_groups"))
    assert native.schema == groups.schema
    assert same_results(native.toArrow(), groups.toArrow()) is None


def test_spark_session_window_is_the_oracle(spark: Any) -> None:
    from pyspark.sql import functions as F

    table = pa.table({"ts": pa.array([0, 10, 21, 30, 41], pa.timestamp("us", tz="UTC")), "v": [1, 2, 3, 4, 5]})
    frame = spark.createDataFrame(table)
    query = pn.stream(frame, time="ts").window(pn.session("10 us")).agg(s="sum(v)")
    expected = frame.groupBy(F.session_window("ts", "10 microseconds").alias("w")).agg(F.sum("v").alias("s"))
    oracle = {(r["w"]["start"], r["w"]["end"], r["s"]) for r in expected.collect()}
    assert len(oracle) == 3
    for strategy in ("native_sessions", "key_groups"):
        found = query.to_spark(strategy=strategy).collect()
        assert {(r["window_start"], r["window_end"], r["s"]) for r in found} == oracle


@pytest.mark.parametrize(
    ("windows", "reason"),
    [
        ({"a": pn.tumbling("1 s")}, "no session on event time"),
        ({"a": pn.session("1 s"), "b": pn.session("2 s")}, "several windows"),
        ({"a": pn.session("j")}, "a gap of each row"),
        ({"a": pn.session(3, on="v")}, "no session on event time"),
    ],
)
def test_refusals_name_the_reason(frame: Any, windows: Any, reason: str) -> None:
    query = pn.stream(frame, time="ts", key="k").window(**windows).agg(n="count(*)")
    with pytest.raises(QueryError, match=reason):
        query.to_spark(strategy="native_sessions")
