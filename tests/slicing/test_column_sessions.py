"""Sessions on a column: their bounds are values of it."""

from __future__ import annotations

from typing import Any

import pytest

import panes as pn


def bounds(kind: str, gap: Any, values: list[Any], **columns: list[Any]) -> list[tuple[Any, ...]]:
    schema = {"ts": "bigint", "km": kind, **dict.fromkeys(columns, "bigint")}
    rows = [{"ts": t, "km": v, **{n: c[t] for n, c in columns.items()}} for t, v in enumerate(values)]
    op = pn.stream(time="ts", schema=schema).window(pn.session(gap, on="km")).agg(n="count(*)").operator()
    found = [row for given in (*(op.push([row]) for row in rows), op.finish()) for row in given]
    return [(r["window_start"], r["window_end"], r["window_from"], r["window_to"], r["n"]) for r in found]


@pytest.mark.parametrize("kind", ["int", "bigint", "double"])
def test_bounds_are_values_of_the_column(kind: str) -> None:
    assert bounds(kind, 5, [1, 2, 9, 12, 30]) == [(0, 2, 1, 7, 2), (2, 4, 9, 17, 2), (4, None, 30, 35, 1)]


def test_bounds_with_a_gap_of_each_row() -> None:
    assert bounds("bigint", "g", [1, 2, 9, 12], g=[8, 1, 2, 0]) == [(0, 3, 1, 11, 3), (3, None, 12, 12, 1)]


def test_large_whole_numbers_are_exact() -> None:
    base = 2**60
    assert bounds("bigint", 1, [base, base + 1, base + 3]) == [
        (0, 2, base, base + 2, 2),
        (2, None, base + 3, base + 4, 1),
    ]


def test_a_withdrawn_session_names_its_values() -> None:
    stream = pn.stream(time="ts", schema={"ts": "bigint", "km": "double"}, watermark="manual", lateness=100)
    op = stream.window(s=pn.session(2, on="km"), t=pn.tumbling(10)).agg(n="count(*)").operator()
    op.push([{"ts": 0, "km": 0.0}, {"ts": 10, "km": 3.0}, {"ts": 20, "km": 9.0}])
    op.advance(20)
    given = op.push([{"ts": 5, "km": 1.5}]).to_arrow().to_pylist()
    shown = [(r["window_from"], r["window_to"], r["n"], r["void"]) for r in given if r["window"] == "s"]
    assert shown == [(0.0, 2.0, None, True), (3.0, 5.0, None, True), (0.0, 5.0, 3, False)]
    assert all(r["window_from"] is None for r in given if r["window"] == "t")


def test_a_snapshot_of_sessions_on_a_column_and_on_time() -> None:
    stream = pn.stream(time="ts", schema={"ts": "bigint", "km": "double"}, watermark="manual", lateness=100)
    query = stream.window(a=pn.session(2, on="km"), b=pn.session(3)).agg(n="count(*)")
    op = query.operator()
    op.push([{"ts": t, "km": float(t) + 0.5} for t in (0, 1, 10, 20)])
    op.advance(30)
    again = query.operator(restore=op.snapshot())
    late = [{"ts": 11, "km": 11.0}]
    assert again.push(late).to_arrow().equals(op.push(late).to_arrow())
