"""Columns used as a measure that do not advance, and session gaps that are none."""

from __future__ import annotations

import math

import pytest

import panes as pn
from tests.robustness.helpers import balanced, late, picked, query

COUNT = {"n": "count(*)"}


KM = [{"ts": t, "km": km} for t, km in [(1, 0), (2, 4), (3, 3), (4, None), (5, 4), (6, 11)]]


def test_a_measure_that_goes_back_is_on_the_ledger() -> None:
    result = query(KM, {"leg": pn.tumbling(5, on="km")}, COUNT)
    assert picked(result.rows(), ["window_from", "window_to", "n"]) == [(0, 5, 3), (10, 15, 1)]
    assert sorted(late(result)) == [(3, "measure went back"), (4, "null measure")]


def test_windows_on_time_use_rows_whose_measure_is_broken() -> None:
    operator = query(KM, {"leg": pn.tumbling(5, on="km"), "t": pn.tumbling(10)}, COUNT).operator()
    rows = [*operator.push(KM).rows(), *operator.finish().rows()]
    found = picked(rows, ["window", "window_from", "window_to", "n"])
    assert sorted(found, key=repr) == sorted([("leg", 0, 5, 3), ("leg", 10, 15, 1), ("t", None, None, 6)], key=repr)
    assert (operator.metrics["rows_used"], operator.metrics["rows_late"]) == (6, 0)
    assert operator.metrics["late_by_window"] == {"leg": 2}


@pytest.mark.parametrize("last", [2, 0], ids=["in time", "late"])
def test_of_two_reasons_the_missing_value_is_named(last: int) -> None:
    """Whether a row comes in time or late: one measure went back, the other is null."""
    rows = [{"ts": 0, "km": 5, "kwh": 1}, {"ts": 1, "km": 9, "kwh": 2}, {"ts": last, "km": 4, "kwh": None}]
    windows = {"leg": pn.tumbling(5, on="km"), "load": pn.tumbling(5, on="kwh")}
    operator = query(rows, windows, COUNT, lateness=10).operator()
    for row in rows:
        operator.push([row])
    operator.finish()
    assert operator.late["reason"].to_pylist() == ["null measure"]


def test_a_measure_that_stands_still_is_fine() -> None:
    rows = [{"ts": t, "km": 7} for t in range(5)]
    assert picked(query(rows, {"leg": pn.tumbling(5, on="km")}, COUNT).rows(), ["window_from", "n"]) == [(5, 5)]


def test_each_key_has_its_own_progress() -> None:
    rows = [{"ts": t, "k": k, "km": km} for t, (k, km) in enumerate([("a", 9), ("b", 1), ("a", 10), ("b", 6)])]
    operator = query(rows, {"leg": pn.tumbling(5, on="km")}, COUNT, key="k").operator()
    operator.push(rows)
    operator.finish()
    assert operator.metrics["rows_late"] == 0


@pytest.mark.parametrize("value", [math.inf, -math.inf, 1e300])
def test_a_measure_whose_window_has_no_bounds_is_on_the_ledger(value: float) -> None:
    """Infinities, and values so large that size 1 makes no difference to them any more."""
    rows = [{"ts": 1, "v": value}, {"ts": 2, "v": math.nan}]
    result = query(rows, {"leg": pn.tumbling(1.0, on="v")}, COUNT)
    assert picked(result.rows(), ["window_from", "n"]) == []
    assert sorted(late(result)) == [(1, "measure out of range"), (2, "null measure")]


@pytest.mark.parametrize("gap", [None, -1])
def test_a_bad_session_gap_is_on_the_ledger(gap: int | None) -> None:
    rows = [{"ts": 1, "gap": 5}, {"ts": 4, "gap": gap}, {"ts": 6, "gap": 2}]
    result = query(rows, {"visit": pn.session("gap")}, COUNT)
    assert picked(result.rows(), ["window_start", "window_end", "n"]) == [(1, 8, 2)]
    assert late(result) == [(4, "bad gap")]


def test_odd_rows_never_upset_the_balance() -> None:
    rows = [
        {"ts": t, "km": km, "gap": gap}
        for t, km, gap in [
            (1, 1, 3),
            (None, 2, 3),
            (2, None, 3),
            (3, 0, 3),
            (4, 5, None),
            (5, 6, -2),
            (0, 7, 3),
        ]
    ]
    schema = {"ts": "bigint", "km": "bigint", "gap": "bigint"}
    windows = {"leg": pn.tumbling(5, on="km"), "visit": pn.session("gap"), "t": pn.tumbling(10)}
    operator = query(None, windows, COUNT, schema=schema).operator()
    operator.push(rows)
    operator.finish()
    assert balanced(operator.metrics)
    assert operator.metrics["rows_in"] == 7
    # two bad gaps and a null time; a measure that is null or goes back keeps a row out of "leg" alone
    assert operator.metrics["rows_used"] == 4
    assert operator.metrics["late_by_window"] == {"leg": 3}
