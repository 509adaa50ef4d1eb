"""Late is a matter of window and row: worked examples of docs/semantics.md, checked by eye."""

from __future__ import annotations

from typing import Any

import pytest

import panes as pn

COUNT = {"n": "count(*)"}
SCHEMA = {"ts": "bigint", "v": "bigint"}


def operator(windows: dict[str, Any], aggregates: dict[str, Any] = COUNT, **options: Any) -> Any:
    return pn.stream(None, schema=SCHEMA, time="ts", **options).window(**windows).agg(**aggregates).operator()


def given(op: Any, *times: int) -> list[tuple[Any, ...]]:
    """What the rows give, one call each, and the end of the stream: label, start, end, count, revision."""
    found = []
    for t in times:
        found += op.push([{"ts": t, "v": t}]).rows()
    found += op.finish().rows()
    return [(r["window"], r["window_start"], r["window_end"], r["n"], r["revision"]) for r in found]


#: the example of docs/semantics.md: the watermark that 5 and 6 meet is 15
TIMES = (1, 25, 5, 6, 47)


def test_closed_tumbling_windows_miss_rows_and_open_sliding_ones_take_them() -> None:
    op = operator({"t": pn.tumbling(10)}, watermark=10)
    assert ("t", 0, 10, 1, 0) in given(op, *TIMES)
    assert op.metrics["late_by_reason"] == {"too late": 2}
    op = operator({"s": pn.sliding(20, every=10)}, watermark=10)
    found = given(op, *TIMES)
    assert ("s", -10, 10, 1, 0) in found
    assert ("s", 0, 20, 3, 0) in found
    assert op.metrics["rows_late"] == 0
    assert op.metrics["late_by_window"] == {"s": 2}


def test_a_row_far_behind_the_watermark_counts_in_a_long_window() -> None:
    """With a watermark of 2 s, a row 10 s behind counts in a window of an hour, as everywhere else."""
    op = operator({"hour": pn.tumbling(3600)}, watermark=2)
    assert given(op, 100, 200, 90) == [("hour", 0, 3600, 3, 0)]
    assert op.metrics["rows_late"] == 0


def test_lateness_counts_from_the_end_of_the_window() -> None:
    op = operator({"t": pn.tumbling(10)}, watermark=10, lateness=10)
    found = [g for g in given(op, *TIMES) if g[:3] == ("t", 0, 10)]
    assert found == [("t", 0, 10, 1, 0), ("t", 0, 10, 2, 1), ("t", 0, 10, 3, 2)]
    op = operator({"t": pn.tumbling(10)}, watermark=10, lateness=5)
    assert [g for g in given(op, *TIMES) if g[:3] == ("t", 0, 10)] == [("t", 0, 10, 1, 0)]
    assert op.metrics["rows_late"] == 2


def test_an_empty_window_that_was_closed_is_given_by_a_late_row() -> None:
    op = operator({"t": pn.tumbling(10)}, watermark=0, lateness=10)
    assert given(op, 25, 18) == [("t", 10, 20, 1, 0), ("t", 20, 30, 1, 0)]
    op = operator({"t": pn.tumbling(10)}, watermark=0)
    assert given(op, 25, 18) == [("t", 20, 30, 1, 0)]


def test_sessions_merge_first_and_are_judged_then() -> None:
    op = operator({"s": pn.session(8)}, watermark=10)
    assert given(op, *TIMES) == [("s", 1, 9, 1, 0), ("s", 25, 33, 1, 0), ("s", 47, 55, 1, 0)]
    op = operator({"s": pn.session(8)}, watermark=10)
    assert given(op, 1, 25, 18, 12) == [("s", 1, 9, 1, 0), ("s", 12, 33, 3, 0)]


def test_a_session_that_is_closed_for_good_is_not_merged_so_bounds_overlap() -> None:
    op = operator({"s": pn.session(5)}, watermark=0)
    assert given(op, 0, 6, 4) == [("s", 0, 5, 1, 0), ("s", 4, 11, 2, 0)]


def test_windows_that_see_rows_in_order_take_none_behind_the_watermark() -> None:
    windows = {"pair": pn.tumbling(pn.rows(2)), "hour": pn.tumbling(3600)}
    op = operator(windows, watermark=0)
    found = given(op, 10, 5, 20)
    assert ("hour", 0, 3600, 3, 0) in found
    assert [g[3] for g in found if g[0] == "pair"] == [2]
    assert op.metrics["late_by_window"] == {"pair": 1}
    assert op.metrics["rows_late"] == 0


@pytest.mark.parametrize("window", [pn.tumbling(100), pn.sliding(100, every=50), pn.session(50)], ids=str)
def test_aggregates_never_change_which_rows_a_window_takes(window: Any) -> None:
    rows = [{"ts": t, "v": t} for t in (10, 60, 20, 55, 20)]
    op = operator({"w": window}, {"n": "count(*)", "all": "collect_list(v)", "first": "first(v)"}, watermark=0)
    found = [*op.push(rows).rows(), *op.finish().rows()]
    assert op.metrics["rows_late"] == 0
    longest = max(found, key=lambda r: r["n"])
    assert (longest["all"], longest["first"]) == ([10, 20, 20, 55, 60], 10)


def test_batches_do_not_matter_where_a_window_closes_inside_of_one() -> None:
    rows = [{"ts": t, "v": t} for t in (1, 12, 3, 14, 8, 25, 19, 11, 30)]
    one, many = (operator({"t": pn.tumbling(10), "s": pn.session(3)}, watermark=2) for _ in range(2))
    together = [*one.push(rows).rows(), *one.finish().rows()]
    apart = [r for row in rows for r in many.push([row]).rows()] + [*many.finish().rows()]
    assert sorted(map(str, together)) == sorted(map(str, apart))
    assert one.metrics["late_by_window"] == many.metrics["late_by_window"]
