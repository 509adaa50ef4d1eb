"""Queries with aggregates of their own on Spark: key groups run them, and give what the embedded engine gives."""

from __future__ import annotations

from typing import Any

import pytest

import panes as pn
from panes.errors import QueryError

pytestmark = pytest.mark.xdist_group("spark")
COLUMNS = ("k", "window", "window_start", "window_end", "n", "m", "mid")


def enlarged(data: Any) -> pn.Query:
    query = pn.stream(data, time="t", key="k").window(a=pn.tumbling(10)).agg(n="count(*)")
    return query.add("b", pn.tumbling(5), m="sum(v) / count(*)", mid=pn.median("v"))


def test_key_groups_run_what_native_strategies_refuse_by_name(spark: Any) -> None:
    rows = [{"t": t, "k": "ab"[t % 2], "v": t} for t in range(40)]
    query = enlarged(spark.createDataFrame(rows, "t long, k string, v long"))
    given = query.to_spark().select(*COLUMNS).collect()
    assert sorted(map(tuple, given), key=str) == sorted(
        (tuple(row[c] for c in COLUMNS) for row in enlarged(rows).rows()), key=str
    )
    with pytest.raises(QueryError, match="the window 'b' has aggregates of its own"):
        query.to_spark(strategy="native")
