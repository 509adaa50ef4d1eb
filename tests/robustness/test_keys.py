"""Null and NaN keys, keys of many columns and types."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

import panes as pn
from tests.robustness.helpers import NAN, picked, query

WINDOWS = {"t": pn.tumbling(10), "visit": pn.session(3), "pair": pn.tumbling(pn.rows(2))}


def per_key(rows: object, key: object, names: list[str], window: str = "t") -> list[tuple[object, ...]]:
    result = query(rows, WINDOWS, {"n": "count(*)"}, key=key).rows()
    return sorted(picked([row for row in result if row["window"] == window], [*names, "n"]), key=repr)


@pytest.mark.parametrize("window", ["t", "visit", "pair"])
def test_null_is_a_key_of_its_own(window: str) -> None:
    rows = [{"ts": t, "k": k} for t, k in enumerate(["a", None, "a", None, ""])]
    expected = [("a", 2), (None, 2)] if window == "pair" else [("", 1), ("a", 2), (None, 2)]
    assert per_key(rows, "k", ["k"], window) == sorted(expected, key=repr)


def test_null_in_one_of_two_key_columns() -> None:
    rows = [{"ts": t, "a": a, "b": b} for t, (a, b) in enumerate([(1, None), (None, 1), (1, None), (None, None)])]
    expected = [(1, None, 2), (None, 1, 1), (None, None, 1)]
    assert per_key(rows, ["a", "b"], ["a", "b"]) == sorted(expected, key=repr)


def test_nan_is_one_key_and_zero_has_no_sign() -> None:
    table = pa.table({"ts": [0, 1, 2, 3], "k": [math.nan, -0.0, float("nan"), 0.0]})
    assert per_key(table, "k", ["k"]) == sorted([(NAN, 2), (0.0, 2)], key=repr)


def test_a_key_that_is_null_all_through() -> None:
    table = pa.table({"ts": [0, 1], "k": pa.array([None, None], pa.string())})
    assert per_key(table, "k", ["k"]) == [(None, 2)]


def test_keys_that_join_to_the_same_text_stay_apart() -> None:
    rows = [{"ts": 0, "a": "x", "b": "yz"}, {"ts": 1, "a": "xy", "b": "z"}]
    assert per_key(rows, ["a", "b"], ["a", "b"]) == [("x", "yz", 1), ("xy", "z", 1)]
