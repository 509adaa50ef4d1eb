"""Sessions in which Spark sends Arrow text and bytes with 64 bits for their length."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import panes as pn
from panes.testing import MicroBatches

ROWS = pa.table(
    {
        "t": pa.array(range(40), pa.int64()),
        "k": pa.array([f"k{i % 3}" for i in range(40)]),
        "b": pa.array([bytes([i]) for i in range(40)]),
        "l": pa.array([[f"a{i}"] for i in range(40)]),
        "m": pa.array([[("a", f"b{i}")] for i in range(40)], pa.map_(pa.string(), pa.string())),
        "s": pa.array([{"x": f"y{i}"} for i in range(40)]),
    }
)


@pytest.fixture
def large(spark: Any) -> Iterator[Any]:
    setting = "spark.sql.execution.arrow.useLargeVarTypes"
    spark.conf.set(setting, "true")
    yield spark
    spark.conf.unset(setting)


def query(data: Any, window: Any = None) -> Any:
    windows = pn.stream(data, time="t", key="k").window(window or pn.tumbling(pn.rows(4)))
    return windows.agg(c="max(k)", b="last(b)", l="last(l)", m="last(m)", s="last(s)").where("c > 'k'")


def rows(results: pa.Table) -> list[str]:
    return sorted(str(row) for row in results.to_pylist())


@pytest.mark.parametrize(
    ("window", "strategy"),
    [
        (pn.tumbling(pn.rows(4)), None),
        (pn.session(5), "key_groups"),
        (pn.policy(trigger=pn.policies.count(4)), "policy_central"),
    ],
    ids=["row windows", "sessions", "policies"],
)
def test_text_and_bytes_of_large_types_are_read_and_given(large: Any, window: Any, strategy: str | None) -> None:
    found = query(large.createDataFrame(ROWS), window).to_spark(strategy=strategy).toArrow()
    assert rows(found) == rows(query(ROWS, window).to_arrow())


def test_on_a_stream_too(large: Any, run_stream: Callable[..., pa.Table]) -> None:
    found = run_stream(query(MicroBatches(large, [ROWS]).frame).to_spark())
    assert rows(found) == rows(query(ROWS).to_arrow())
