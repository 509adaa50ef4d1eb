"""The late ledger: it holds the newest rows and counts all, and metrics speak the language of the time column."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pytest

import panes as pn
from panes.errors import QueryError
from panes.slicing.ledger import KEEP_LATE, LateLedger, Newest
from tests.robustness.helpers import balanced


def operator(**options: Any) -> Any:
    stream = pn.stream(time="ts", schema={"ts": "bigint", "v": "bigint"}, **options)
    return stream.window(pn.tumbling(10)).agg(n="count(*)").operator()


def late_rows(first: int, n: int) -> list[dict[str, int]]:
    return [{"ts": 0, "v": v} for v in range(first, first + n)]


def test_the_ledger_holds_the_newest_rows_and_counts_all() -> None:
    op = operator(keep_late=5)
    op.push([{"ts": 100, "v": -1}])
    for first in range(0, 600, 3):
        op.push(late_rows(first, 3))
    op.push([{"ts": None, "v": 600}])
    assert op.late["v"].to_pylist() == [596, 597, 598, 599, 600]
    assert op.metrics["late_by_reason"] == {"too late": 600, "null time": 1}
    assert balanced(op.metrics)


def test_one_batch_with_more_late_rows_than_are_held() -> None:
    op = operator(keep_late=4)
    op.push([{"ts": 100, "v": -1}, *late_rows(0, 50)])
    assert op.late["v"].to_pylist() == [46, 47, 48, 49]
    assert op.metrics["rows_late"] == 50


def test_by_default_so_many_are_held() -> None:
    op = operator()
    rows = pa.table({"ts": [100] + [0] * (KEEP_LATE + 7), "v": range(KEEP_LATE + 8)})
    op.push(rows)
    assert op.late.num_rows == KEEP_LATE
    assert op.late["v"][-1].as_py() == KEEP_LATE + 7
    assert op.metrics["rows_late"] == KEEP_LATE + 7


def test_all_are_held_if_the_stream_says_so() -> None:
    op = operator(keep_late=None)
    op.push(pa.table({"ts": [100] + [0] * (KEEP_LATE + 7), "v": range(KEEP_LATE + 8)}))
    assert op.late.num_rows == KEEP_LATE + 7


def test_counts_go_on_after_a_snapshot() -> None:
    op = operator(keep_late=2)
    op.push([{"ts": 100, "v": -1}, *late_rows(0, 9)])
    query = pn.stream(time="ts", schema={"ts": "bigint", "v": "bigint"}, keep_late=3)
    again = query.window(pn.tumbling(10)).agg(n="count(*)").operator(restore=op.snapshot())
    again.push(late_rows(9, 2))
    assert again.late["v"].to_pylist() == [8, 9, 10]
    assert again.metrics["rows_late"] == 11
    assert balanced(again.metrics)


def test_rows_that_were_taken_stay_counted_after_a_snapshot() -> None:
    op = operator()
    op.push([{"ts": 100, "v": -1}, *late_rows(0, 9)])
    assert op.take_late().num_rows == 9
    again = operator()
    again.restore(op.snapshot())
    assert again.late.num_rows == 0
    assert balanced(again.metrics)


def test_who_takes_late_rows_gets_all_of_them() -> None:
    ledger = LateLedger(pa.schema([("v", pa.int64())]))
    for first in range(0, 3000, 3):
        ledger.put(pa.table({"v": range(first, first + 3)}), "too late")
    assert ledger.take()["v"].to_pylist() == list(range(3000))
    assert ledger.take().num_rows == 0


def test_workers_of_spark_hand_out_all_late_rows() -> None:
    from panes.runners.spark.group_operator import GroupQuery

    query = pn.stream(time="ts", schema={"ts": "bigint"}, keep_late=3).window(pn.tumbling(10)).agg(n="count(*)")
    op = GroupQuery(query._plan, ("ts",)).operator()
    op.advance(100)
    for _ in range(2):
        op.push(pa.table({"ts": [1] * 50}))
        assert op.take_late().num_rows == 50


def test_memory_of_single_rows_is_that_of_a_table() -> None:
    newest = Newest(10_000)
    for v in range(30_000):
        newest.put(pa.table({"v": [v]}))
    assert len(newest) == 10_000
    assert len(newest.tables()) <= 256
    assert pa.concat_tables(newest.tables())["v"].to_pylist() == list(range(20_000, 30_000))


def test_merged_streams_hold_as_many_as_the_one_that_wants_most() -> None:
    def side(keep: int | None) -> Any:
        return pn.stream([{"ts": 100, "v": 0}, *late_rows(0, 4)], time="ts", keep_late=keep)

    query = pn.merge(side(1), side(3)).window(pn.tumbling(10)).agg(n="count(*)")
    query.to_arrow()
    assert query.late.num_rows == 3
    assert query.metrics["rows_late"] == 8


@pytest.mark.parametrize("keep", [-1, 1.5, True, "all"])
def test_a_number_of_rows_that_is_none_is_refused(keep: Any) -> None:
    with pytest.raises(QueryError, match="keep_late must be a number of rows, or None for all of them"):
        operator(keep_late=keep)


def test_an_operator_of_a_stream_holds_the_newest_rows_without_a_time() -> None:
    stream = pn.stream(time="ts", schema={"ts": "bigint", "v": "bigint"}, keep_late=2)
    op = stream.punctuate("v = 3").operator()
    op.push([{"ts": None, "v": v} for v in range(5)])
    assert op.late["v"].to_pylist() == [3, 4]
    assert op.metrics["rows_late"] == 5


@pytest.mark.parametrize(
    ("kind", "reached"),
    [
        ("bigint", 8),
        (pa.timestamp("s"), datetime(1970, 1, 1, 0, 0, 8)),
        (pa.timestamp("us", "UTC"), datetime(1970, 1, 1, 0, 0, 8, tzinfo=timezone.utc)),
        (pa.timestamp("ns", "Europe/Berlin"), datetime(1970, 1, 1, 0, 0, 8, tzinfo=timezone.utc)),
    ],
    ids=str,
)
def test_the_watermark_is_in_the_terms_of_the_time_column(kind: Any, reached: Any) -> None:
    op = (
        pn.stream(time="ts", schema={"ts": kind})
        .window(pn.tumbling(10 if kind == "bigint" else "10 s"))
        .agg(n="count(*)")
        .operator()
    )
    assert op.metrics["watermark"] is None
    op.push([{"ts": reached}])
    found = op.metrics["watermark"]
    assert found == reached
    assert type(found) is type(reached)
    if isinstance(reached, datetime):
        assert (found.tzinfo is None) == (reached.tzinfo is None)


def test_a_watermark_beyond_all_datetimes_is_the_last_one() -> None:
    op = (
        pn.stream(time="ts", schema={"ts": pa.timestamp("s")}, watermark="manual")
        .window(pn.tumbling("10 s"))
        .agg(n="count(*)")
        .operator()
    )
    op.advance(2**61)
    assert op.metrics["watermark"] == datetime.max
