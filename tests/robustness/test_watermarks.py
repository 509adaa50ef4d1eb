"""Watermarks that go back, stand still or jump, and calls after the end."""

from __future__ import annotations

import pytest

import panes as pn
from panes.slicing.operator import SliceOperator
from tests.robustness.helpers import balanced, picked, query

SCHEMA = {"ts": "bigint", "v": "double"}
BOUNDS = ["window_start", "window_end", "n", "revision"]
COUNT = {"n": "count(*)"}


def manual(**options: object) -> SliceOperator:
    return query(None, {"w": pn.tumbling(10)}, COUNT, schema=SCHEMA, watermark="manual", **options).operator()


def rows(*times: int) -> list[dict[str, object]]:
    return [{"ts": t, "v": float(t)} for t in times]


def test_a_watermark_that_goes_back_is_ignored_and_counted() -> None:
    operator = manual()
    operator.push(rows(1, 11, 21))
    assert picked(operator.advance(20).rows(), BOUNDS) == [(0, 10, 1, 0), (10, 20, 1, 0)]
    assert len(operator.advance(5)) == 0
    assert operator.metrics["watermark_regressions"] == 1
    operator.push(rows(15))  # the watermark is still 20, so this is late
    assert operator.metrics["rows_late"] == 1
    assert picked(operator.finish().rows(), BOUNDS) == [(20, 30, 1, 0)]
    assert balanced(operator.metrics)


def test_nothing_is_due_twice() -> None:
    operator = manual()
    operator.push(rows(1))
    assert len(operator.advance(10)) == 1
    assert len(operator.advance(10)) == 0
    assert len(operator.advance(11)) == 0


def test_unordered_watermarks_end_where_ordered_ones_do() -> None:
    found = []
    for order in ([5, 12, 25, 40], [12, 5, 40, 25], [40, 5, 12, 25]):
        operator = manual()
        operator.push(rows(1, 11, 21, 31))
        found.append([r for w in order for r in picked(operator.advance(w).rows(), BOUNDS)])
    assert found[0] == found[1] == found[2] == [(s, s + 10, 1, 0) for s in (0, 10, 20, 30)]


def test_advance_also_moves_a_bounded_watermark() -> None:
    operator = query(None, {"w": pn.tumbling(10)}, COUNT, schema=SCHEMA, watermark=100).operator()
    assert len(operator.push(rows(1, 50))) == 0
    assert picked(operator.advance(30).rows(), BOUNDS) == [(0, 10, 1, 0)]
    assert len(operator.push(rows(60))) == 0  # 60 - 100 is below 30: no step back
    assert picked(operator.finish().rows(), BOUNDS) == [(50, 60, 1, 0), (60, 70, 1, 0)]


@pytest.mark.parametrize("watermark", [2**62, -(2**62)])
def test_watermarks_at_the_rim_of_time(watermark: int) -> None:
    operator = manual()
    operator.push(rows(1, 11))
    due = picked(operator.advance(watermark).rows(), BOUNDS)
    rest = picked(operator.finish().rows(), BOUNDS)
    assert due + rest == [(0, 10, 1, 0), (10, 20, 1, 0)]
    assert len(due) == (2 if watermark > 0 else 0)


@pytest.mark.parametrize("watermark", [2**63, -(2**63) - 1, 1.5, float("nan"), "soon", None])
def test_watermarks_that_are_no_time_are_refused_and_change_nothing(watermark: object) -> None:
    operator = manual()
    operator.push(rows(1, 11))
    with pytest.raises(pn.errors.QueryError, match="watermark"):
        operator.advance(watermark)
    assert picked(operator.advance(10).rows(), BOUNDS) == [(0, 10, 1, 0)]


def test_open_windows_of_in_order_streams_take_disorder_too() -> None:
    operator = query(None, {"w": pn.tumbling(10)}, COUNT, schema=SCHEMA, watermark=None).operator()
    operator.push(rows(5, 4, 5, 6))
    assert operator.metrics["rows_late"] == 0
    assert picked(operator.push(rows(11, 9)).rows(), BOUNDS) == [(0, 10, 4, 0)]
    assert operator.metrics["rows_late"] == 1


@pytest.mark.parametrize("call", ["push", "advance", "finish", "add", "remove"])
def test_calls_after_finish_are_refused(call: str) -> None:
    operator = manual()
    operator.push(rows(1))
    operator.finish()
    arguments = {
        "push": (rows(2),),
        "advance": (5,),
        "add": ("x", pn.tumbling(5)),
        "remove": ("w",),
    }
    with pytest.raises(pn.errors.OperatorClosed):
        getattr(operator, call)(*arguments.get(call, ()))


@pytest.mark.parametrize("watermark", ["soon", -1, "-5 s", 1.5, float("nan")])
def test_odd_watermark_arguments_are_refused(watermark: object) -> None:
    with pytest.raises(pn.errors.QueryError, match="watermark"):
        query(rows(1), {"w": pn.tumbling(10)}, COUNT, watermark=watermark).operator()


@pytest.mark.parametrize("lateness", ["much", -1, "-5 s"])
def test_odd_lateness_arguments_are_refused(lateness: object) -> None:
    with pytest.raises(pn.errors.QueryError, match="lateness"):
        query(rows(1), {"w": pn.tumbling(10)}, COUNT, lateness=lateness).operator()
