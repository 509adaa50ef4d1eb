"""Null times, the same time twice, times before 1970 and far in the future."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pytest

import panes as pn
from tests.robustness.helpers import balanced, late, picked, query

BOUNDS = ["window_start", "window_end", "n"]
COUNT = {"n": "count(*)"}
MAX = 2**63 - 1


def test_null_time_goes_to_the_ledger() -> None:
    rows = [{"ts": 1, "v": 1}, {"ts": None, "v": 2}, {"ts": 12, "v": 3}]
    result = query(rows, {"w": pn.tumbling(10)}, COUNT)
    assert picked(result.rows(), BOUNDS) == [(0, 10, 1), (10, 20, 1)]
    assert late(result) == [(None, "null time")]


def test_rows_without_any_time_are_all_late() -> None:
    operator = query(None, {"w": pn.tumbling(10)}, COUNT, schema={"ts": "bigint"}).operator()
    assert len(operator.push([{"ts": None}, {"ts": None}])) == 0
    assert len(operator.finish()) == 0
    assert balanced(operator.metrics)
    assert operator.metrics["rows_late"] == 2


def test_duplicate_times_keep_the_order_of_arrival() -> None:
    rows = [{"ts": 5, "v": v} for v in "abc"] + [{"ts": 6, "v": "d"}]
    windows = {"t": pn.tumbling(10), "pairs": pn.tumbling(pn.rows(2))}
    result = query(rows, windows, {"all": "collect_list(v)", "first": "first(v)", "last": "last(v)"}).rows()
    assert sorted(picked(result, ["window", "all", "first", "last"])) == [
        ("pairs", ["a", "b"], "a", "b"),
        ("pairs", ["c", "d"], "c", "d"),
        ("t", ["a", "b", "c", "d"], "a", "d"),
    ]


@pytest.mark.parametrize("chunk", [1, 2, 4])
def test_duplicate_times_do_not_depend_on_batches(chunk: int) -> None:
    rows = [{"ts": 5, "v": v} for v in "abcdefgh"]
    operator = query(
        None,
        {"pairs": pn.tumbling(pn.rows(3))},
        {"all": "collect_list(v)"},
        schema={"ts": "bigint", "v": "string"},
    ).operator()
    given = [row["all"] for i in range(0, 8, chunk) for row in operator.push(rows[i : i + chunk]).rows()]
    given += [row["all"] for row in operator.finish().rows()]
    assert given == [["a", "b", "c"], ["d", "e", "f"]]


def test_windows_before_1970_are_like_those_after() -> None:
    rows = [{"ts": t} for t in (-25, -20, -11, -10, -1, 0, 9)]
    windows = {"t": pn.tumbling(10), "s": pn.sliding(15, every=10), "o": pn.tumbling(10, offset=3)}
    result = picked(query(rows, windows, COUNT).rows(), ["window", *BOUNDS])
    expected = {
        "t": [(-30, -20, 1), (-20, -10, 2), (-10, 0, 2), (0, 10, 2)],
        "s": [(-30, -15, 2), (-20, -5, 3), (-10, 5, 3), (0, 15, 2)],
        "o": [(-27, -17, 2), (-17, -7, 2), (-7, 3, 2), (3, 13, 1)],
    }
    for label, windows_of_label in expected.items():
        assert [row[1:] for row in result if row[0] == label] == windows_of_label


def test_timestamps_of_1900_and_9999() -> None:
    moments = [datetime(1900, 1, 1, 12, 30), datetime(1969, 12, 31, 23, 59, 59), datetime(9999, 12, 30, 1)]
    table = pa.table({"ts": pa.array(moments, pa.timestamp("us")), "v": [1, 2, 3]})
    result = query(table, {"day": pn.tumbling("1 day")}, {"s": "sum(v)"}).rows()
    midnights = [moment.replace(hour=0, minute=0, second=0) for moment in moments]
    expected = [(start, start + timedelta(days=1), v) for start, v in zip(midnights, (1, 2, 3))]
    found = [
        (row["window_start"].replace(tzinfo=None), row["window_end"].replace(tzinfo=None), row["s"]) for row in result
    ]
    assert found == expected


@pytest.mark.parametrize("window", [pn.tumbling(1), pn.sliding(3, every=2), pn.session(5), pn.tumbling(pn.rows(1))])
def test_the_empty_stretch_before_the_far_future_costs_nothing(window: object) -> None:
    rows = [{"ts": 0}, {"ts": 10**15}, {"ts": 10**18}]
    operator = query(None, {"w": window}, COUNT, schema={"ts": "bigint"}).operator()
    given = [row["n"] for row in operator.push(rows).rows()] + [row["n"] for row in operator.finish().rows()]
    assert sum(given) >= 3
    assert operator.metrics["slices"] <= 10


@pytest.mark.parametrize("time", [MAX, MAX - 1, -MAX, -MAX - 1])
def test_times_at_the_rim_of_64_bits(time: int) -> None:
    """A window that would end beyond the last tick can't be written down: its rows are late, or used."""
    operator = query(None, {"w": pn.tumbling(10)}, COUNT, schema={"ts": "bigint"}).operator()
    given = [*operator.push([{"ts": time}]).rows(), *operator.finish().rows()]
    assert balanced(operator.metrics)
    assert sum(row["n"] for row in given) == operator.metrics["rows_used"]
    assert all(row["window_start"] <= time < row["window_end"] for row in given)


def test_float_times_are_refused() -> None:
    with pytest.raises(pn.errors.PanesError, match="ts"):
        list(query([{"ts": 1.5}], {"w": pn.tumbling(10)}, COUNT).rows())


def test_a_far_future_row_makes_later_ones_late_not_lost() -> None:
    rows = [{"ts": 1}, {"ts": 10**12}, {"ts": 2}]
    result = query(rows, {"w": pn.tumbling(10)}, COUNT)
    assert picked(result.rows(), BOUNDS) == [(0, 10, 1), (10**12, 10**12 + 10, 1)]
    assert [time for time, _ in late(result)] == [2]


def test_aware_and_naive_timestamps_mean_the_same_instant() -> None:
    naive = [{"ts": datetime(2025, 1, 1, 12), "v": 1}]
    aware = [{"ts": datetime(2025, 1, 1, 13, tzinfo=timezone(timedelta(hours=1))), "v": 1}]
    starts = [
        next(iter(query(rows, {"w": pn.tumbling("1 h")}, COUNT).rows()))["window_start"] for rows in (naive, aware)
    ]
    assert starts[0] == datetime(2025, 1, 1, 12)
    assert starts[1] == datetime(2025, 1, 1, 12, tzinfo=timezone.utc)
