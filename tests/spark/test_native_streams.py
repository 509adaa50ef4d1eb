"""Native strategies on streams: the results of the operator where no row is late; and what is refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import panes as pn
from panes.errors import QueryError
from panes.runners.spark.runner import choose
from panes.runners.spark.strategies.card import Job
from tests.spark.native_cases import rows, same_results

pytestmark = pytest.mark.xdist_group("spark")

COLUMNS = ["ts", "n", "k", "v", "i", "j"]


def in_order() -> pa.Table:
    """Rows in the order of time, after 1970."""
    table = rows(3, 300)
    table = table.filter(pc.and_(pc.is_valid(table["ts"]), pc.greater_equal(table["n"], 0))).sort_by("n")
    return table.select(COLUMNS)


@pytest.fixture(scope="module")
def stream(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Rows in the order of time, after 1970, in three micro-batches."""
    folder = tmp_path_factory.mktemp("rows")
    table = in_order()
    for part in range(3):
        path = folder / f"{part}.parquet"
        pq.write_table(table.slice(part * len(table) // 3, len(table) // 3), path)
        os.utime(path, (part + 1, part + 1))
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


CASES: list[tuple[str, str, str | None, Any, str]] = [
    ("tumbling", "ts", "k", pn.tumbling("1 s", offset="300 ms"), "native"),
    ("sliding", "ts", None, pn.sliding("5 s", every="2 s", offset="300 ms"), "native"),
    ("integer time", "n", "k", pn.sliding(20, every=5, offset=3), "native"),
    ("sessions", "ts", "k", pn.session("100 ms"), "native_sessions"),
]


@pytest.mark.parametrize(("time", "key", "window", "strategy"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_agree_with_the_operator_where_no_row_is_late(
    stream: Any, run_stream: Callable[..., pa.Table], time: str, key: str | None, window: Any, strategy: str
) -> None:
    def query(data: Any) -> Any:
        rows_of = pn.stream(data, time=time, key=key, watermark="1 s" if time == "ts" else 20)
        return rows_of.where("j <> 3").window(w=window).agg(n="count(*)", s="sum(v)", i="avg(i)", d="stddev(v)")

    found = run_stream(query(stream).to_spark(strategy=strategy), "native")
    expected = query(in_order()).operator().push(in_order()).table
    assert found.num_rows > 5
    assert same_results(found, expected.cast(found.schema)) is None


@pytest.mark.parametrize(
    ("windows", "outputs", "options", "reason"),
    [
        ({"a": pn.tumbling("1 s"), "b": pn.tumbling("2 s")}, {"n": "count(*)"}, {}, "one window per stream"),
        ({"a": pn.sliding("1 s", every="3 s")}, {"n": "count(*)"}, {}, "without gaps"),
        ({"a": pn.cumulate("1 s", max="3 s")}, {"n": "count(*)"}, {}, "tumbling and sliding"),
        ({"a": pn.tumbling("1 s")}, {"n": "last(v)"}, {}, "order of rows of one time"),
        ({"a": pn.tumbling("1 s")}, {"n": "count(*)"}, {"lateness": "1 s"}, "can't be corrected"),
        ({"a": pn.tumbling("1 s")}, {"n": "count(*)"}, {"watermark": "manual"}, "no meaning on Spark"),
    ],
)
def test_refusals_name_the_reason(stream: Any, windows: Any, outputs: Any, options: Any, reason: str) -> None:
    query = pn.stream(stream, time="ts", **{"watermark": "1 s", **options}).window(**windows).agg(**outputs)
    with pytest.raises(QueryError, match=reason):
        query.to_spark(strategy="native")


def test_sessions_without_a_key_are_refused(stream: Any) -> None:
    query = pn.stream(stream, time="ts").window(pn.session("1 s")).agg(n="count(*)")
    with pytest.raises(QueryError, match="without a key"):
        query.to_spark(strategy="native_sessions")


def test_streams_are_native_only_if_asked(stream: Any) -> None:
    query = pn.stream(stream, time="ts").window(pn.tumbling("1 s")).agg(n="count(*)")
    assert choose(Job(query._plan, stream)).name == "key_groups"


def test_a_row_behind_the_watermark_counts_in_windows_that_are_open(
    spark: Any, run_stream: Callable[..., pa.Table], tmp_path: Path
) -> None:
    """What differs from the key-group operator, where such a row is late."""
    times = ([0, 4_500], [3_000, 1_000], [20_000], [20_001])
    for part, millis in enumerate(times):
        path = tmp_path / f"{part}.parquet"
        pq.write_table(pa.table({"ts": pa.array(millis, pa.timestamp("ms", tz="UTC"))}), path)
        os.utime(path, (part + 1, part + 1))
    frame = spark.readStream.schema("ts timestamp").option("maxFilesPerTrigger", 1).parquet(f"{tmp_path}/*.parquet")
    query = pn.stream(frame, time="ts", watermark="1 s").window(pn.tumbling("5 s")).agg(n="count(*)")
    counts = {s: run_stream(query.to_spark(strategy=s), s)["n"].to_pylist() for s in ("native", "key_groups")}
    assert counts == {"native": [4], "key_groups": [2]}
