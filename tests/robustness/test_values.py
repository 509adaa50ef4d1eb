"""NaN, infinities and nulls as values, and sums too large for 64 bits."""

from __future__ import annotations

import math
from typing import Any

import pytest

import panes as pn
from tests.robustness.helpers import NAN, picked, query

INF = math.inf
#: One odd value in [10, 20), plain ones around it.
ROWS_AROUND = [{"ts": t, "v": float(t)} for t in (1, 5, 12, 21, 25, 33)]


def with_odd(value: float | None) -> list[dict[str, object]]:
    return sorted([*ROWS_AROUND, {"ts": 15, "v": value}], key=lambda row: row["ts"])  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(
    ("odd", "expected"),
    [
        (math.nan, [NAN, NAN, 12.0, NAN, NAN, NAN, 2, 2]),
        (INF, [INF, INF, 12.0, INF, INF, NAN, 2, 2]),
        (-INF, [-INF, -INF, -INF, 12.0, -INF, NAN, 2, 2]),
        (None, [12.0, 12.0, 12.0, 12.0, 12.0, None, 2, 1]),
    ],
)
def test_odd_value_in_its_window(odd: float | None, expected: list[object]) -> None:
    aggregates = {
        "sum": "sum(v)",
        "avg": "avg(v)",
        "min": "min(v)",
        "max": "max(v)",
        "last": "last(v)",
        "stddev": "stddev(v)",
        "rows": "count(*)",
        "values": "count(v)",
    }
    rows = query(with_odd(odd), {"w": pn.tumbling(10)}, aggregates).rows()
    found = {row["window_start"]: row for row in rows}
    assert picked([found[10]], list(aggregates)) == [tuple(expected)]


@pytest.mark.parametrize("odd", [math.nan, INF, -INF, None])
@pytest.mark.parametrize("aggregate", ["sum(v)", "avg(v)", "stddev(v)", "min(v)", "max(v)", "median(v)"])
def test_windows_without_the_odd_value_are_not_touched(odd: float | None, aggregate: str) -> None:
    """Windows are differences of shared slices, and NaN - NaN is not 0: the value must not leak."""
    windows = {"t": pn.tumbling(10), "s": pn.sliding(20, every=5), "r": pn.tumbling(pn.rows(2))}
    bounds = ["window", "window_start", "window_end", "window_from", "window_to", "x"]
    touched = picked(query(with_odd(odd), windows, {"x": aggregate}).rows(), bounds)
    calm = picked(query(with_odd(16.0), windows, {"x": aggregate}).rows(), bounds)
    assert len(touched) == len(calm)
    for one, other in zip(touched, calm):
        assert one[:5] == other[:5]
        label, start, end, first, stop, value = one
        holds_odd = first <= 3 < stop if label == "r" else start <= 15 < end
        if not holds_odd:
            assert value == (other[5] and pytest.approx(other[5], rel=1e-12)), one


def test_nan_is_larger_than_any_number() -> None:
    rows = [{"ts": t, "v": v} for t, v in enumerate([1.0, math.nan, INF, math.nan, -0.0, 0.0])]
    aggregates = {
        "median": "median(v)",
        "p90": pn.quantile("v", 0.9),
        "distinct": "count(distinct v)",
        "mode": "mode(v)",
    }
    result = query(rows, {"w": pn.tumbling(10)}, aggregates).rows()
    # 0 twice, 1, inf, NaN twice: four distinct values; halfway between 1 and inf is inf; zero is the smallest of the
    # two most frequent ones.
    assert picked(result, list(aggregates)) == [(INF, NAN, 4, 0.0)]


def test_a_column_of_nulls_gives_nulls_and_counts() -> None:
    rows = [{"ts": 1, "v": None}, {"ts": 2, "v": None}]
    source = pn.stream(rows, time="ts", schema={"ts": "bigint", "v": "double"})
    result = source.window(w=pn.tumbling(10)).agg(
        n="count(*)", m="count(v)", s="sum(v)", low="min(v)", median="median(v)", first="first(v)"
    )
    assert picked(result.rows(), ["n", "m", "s", "low", "median", "first"]) == [(2, 0, None, None, None, None)]


def test_integer_sums_are_exact() -> None:
    rows = [{"ts": t, "v": v} for t, v in enumerate([2**62, 1, -(2**62), 2**53 + 1])]
    assert picked(query(rows, {"w": pn.tumbling(10)}, {"s": "sum(v)"}).rows(), ["s"]) == [(2**53 + 2,)]


def test_integer_sum_beyond_64_bits_is_refused() -> None:
    rows = [{"ts": t, "amount": 2**62} for t in range(3)]
    with pytest.raises(pn.errors.PanesError, match="amount"):
        list(query(rows, {"w": pn.tumbling(10)}, {"s": "sum(amount)"}).rows())


@pytest.mark.parametrize("windows", [pn.tumbling(10), pn.sliding(10, every=5), pn.tumbling(pn.rows(2)), pn.session(5)])
def test_windows_in_which_no_condition_holds_are_given(windows: Any) -> None:
    rows = [{"ts": t, "v": v} for t, v in [(1, 1), (2, 2), (11, 5), (12, 9), (25, 0), (26, 0)]]
    found = query(rows, {"w": windows}, {"n": "count_if(v > 3)", "rows": "count(*)"}).rows()
    alone = query(rows, {"w": windows}, {"n": "count_if(v > 3)"}).rows()
    assert picked(alone, ["window_start", "n"]) == (wanted := picked(found, ["window_start", "n"]))
    assert 0 in {n for _, n in wanted}
