"""Columns may have any name: dots, backticks, quotes, names that differ in case alone, names used inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import panes as pn
from panes.errors import QueryError
from panes.testing import MicroBatches

NAMES = {
    "dots and backticks": ("a.t", "`k`", "v``.x"),
    "quotes, spaces and signs": ('t "x"', " k'\n", "v\\ü💥"),
    "case alone": ("T", "t", "v"),
    "names used inside": ("panes_event_time", "c0", "window_end"),
}
WINDOWS: dict[str, tuple[Any, list[str]]] = {
    "time": (pn.tumbling(10), ["native", "key_groups"]),
    "session": (pn.session(5), ["native_sessions"]),
    "policy": (
        pn.policy(trigger=pn.policies.time(10), evict=pn.policies.time(10)),
        ["policy_parallel", "policy_central"],
    ),
    "rows": (pn.tumbling(pn.rows(4)), ["key_groups"]),
}


def table(time: str, key: str, value: str) -> pa.Table:
    numbers = pa.array(range(40), pa.int64())
    return pa.table({time: numbers, key: pa.array([f"k{i % 3}" for i in range(40)]), value: numbers})


def query(data: Any, window: Any, time: str, key: str, value: str) -> Any:
    column = "`" + value.replace("`", "``") + "`"
    kept = pn.stream(data, time=time, key=key, watermark=3).where(f"{column} <> 7")
    return kept.window(window).agg(**{"a.s": f"sum({column})", "A.S": f"max({column})"}).where("`a.s` > 1")


def rows(results: pa.Table) -> list[str]:
    return sorted(str(row) for row in results.to_pylist())


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_columns_of_any_name_give_the_same_results_on_spark(spark: Any, names: tuple[str, str, str]) -> None:
    data = table(*names)
    frame = spark.createDataFrame(data)
    for window, strategies in WINDOWS.values():
        expected = rows(query(data, window, *names).to_arrow())
        for strategy in strategies:
            assert rows(query(frame, window, *names).to_spark(strategy=strategy).toArrow()) == expected


@pytest.mark.parametrize("strategy", ["key_groups", "native"])
def test_a_stream_may_have_them_too(spark: Any, run_stream: Callable[..., pa.Table], strategy: str) -> None:
    names = ("a.t", "`k`", "A.T")
    data = table(*names)
    # Parquet, where the results are written, has no names that differ in case alone
    streamed = query(MicroBatches(spark, [data]).frame, pn.tumbling(10), *names).select("`k`", "window_end", "a.s")
    found = run_stream(streamed.to_spark(strategy=strategy))
    expected = query(data, pn.tumbling(10), *names).select("`k`", "window_end", "a.s").to_arrow()
    assert len(found) == 9
    assert set(rows(found)) <= set(rows(expected))


def test_merged_and_computed_columns_may_have_them(spark: Any) -> None:
    def merged(convert: Callable[[pa.Table], Any]) -> Any:
        streams = [
            pn.stream(convert(table("a.t", "k", "v")), time="a.t").select("a.t", **{"x.y": f"v + {i}", "X.Y": "k"})
            for i in (1, 2)
        ]
        return pn.merge(*streams).window(pn.tumbling(10)).agg(s="sum(`x.y`)", k="max(`X.Y`)")

    on_spark = merged(spark.createDataFrame).to_spark().toArrow()
    assert rows(on_spark) == rows(merged(lambda data: data).to_arrow())


@pytest.mark.parametrize("name", ["a\0b", "panes.slice"])
def test_a_name_that_libraries_cut_or_panes_uses_is_refused(name: str) -> None:
    with pytest.raises(QueryError, match="NUL character" if "\0" in name else "are for Panes"):
        pn.stream(table("t", name, "v"), time="t", key=name)


def test_a_new_column_with_a_nul_is_refused() -> None:
    stream = pn.stream(table("t", "k", "v"), time="t")
    for build in (
        lambda: stream.select(**{"a\0b": "v"}),
        lambda: stream.window(pn.tumbling(10)).agg(**{"a\0b": "sum(v)"}),
        lambda: stream.window(pn.tumbling(10)).agg(s="sum(v)").select(**{"a\0b": "s"}),
    ):
        with pytest.raises(QueryError, match="NUL character"):
            build()


def test_two_columns_of_one_name_are_refused_by_name(spark: Any) -> None:
    frame = spark.createDataFrame(table("t", "k", "v")).toDF("t", "k", "k")
    with pytest.raises(QueryError, match="2 columns named 'k'"):
        pn.stream(frame, time="t")


@pytest.mark.parametrize("key", ["k", "a.k", "`k`"])
def test_streams_with_a_key_are_joined_using_it(key: str) -> None:
    """Rows without a key match none, as with on=."""
    keys = pa.array(["a", "b", None, "a", "b", None])
    numbers = pa.array(range(6), pa.int64())
    left, right = (pn.stream(pa.table({"t": numbers, key: keys, v: numbers}), time="t", key=key) for v in "vw")
    quoted = "`" + key.replace("`", "``") + "`"
    for how, count in (("inner", 8), ("full", 12)):
        using = pn.join(left, right, window=pn.tumbling(6), using=key, how=how).to_arrow()
        assert len(using) == count
        on = pn.join(left, right, window=pn.tumbling(6), on=f"l.{quoted} = r.{quoted}", how=how).to_arrow()
        assert rows(using) == rows(on)
