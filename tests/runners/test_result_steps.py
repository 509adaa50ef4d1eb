"""`query.where`, `select` and `order_by`: the same in a run, in an operator, and across batches and snapshots."""

from __future__ import annotations

import random
from typing import Any

import pytest

import panes as pn
from panes.errors import QueryError

ROWS = [{"ts": i * 100, "k": "abc"[i * i % 3], "v": float(i * 7 % 13)} for i in range(60)]


def query(rows: Any = ROWS, **options: Any) -> Any:
    made = pn.stream(rows, schema={"ts": "bigint", "k": "string", "v": "double"}, time="ts", key="k", **options)
    return made.window(fast=pn.tumbling("1 s"), slow=pn.tumbling("2 s")).agg(total="sum(v)", n="count(*)")


def test_having_select_and_order() -> None:
    plain = query().to_arrow().to_pylist()
    steps = (
        query()
        .where("total > 20 AND window = 'fast'")
        .order_by("total DESC")
        .select("k", "window_end", mean="total / n")
    )
    expected = sorted(
        (r for r in plain if r["total"] > 20 and r["window"] == "fast"), key=lambda r: (r["window_end"], -r["total"])
    )
    assert steps.to_arrow().to_pylist() == [
        {"k": r["k"], "window_end": r["window_end"], "mean": r["total"] / r["n"]} for r in expected
    ]
    assert len(expected) > 3
    assert list(steps.rows()) == steps.to_arrow().to_pylist()


def test_a_query_is_not_changed_by_its_steps() -> None:
    plain = query()
    before = plain.to_arrow()
    plain.where("total > 20").select("k")
    assert plain.to_arrow().equals(before)


def test_selected_columns_can_be_looked_at_further() -> None:
    found = query().select("k", "window", mean="total / n").where("mean > 6 AND window = 'slow'").to_arrow()
    assert found.column_names == ["k", "window", "mean"]
    assert 0 < found.num_rows < query().to_arrow().num_rows
    assert all(r["mean"] > 6 for r in found.to_pylist())


def test_no_results_keep_their_columns() -> None:
    nothing = query().where("total > 1e9").select(x="total + 1").to_arrow()
    assert nothing.num_rows == 0
    assert nothing.column_names == ["x"]
    assert query([]).order_by("n").select("k", "n").to_arrow().column_names == ["k", "n"]


@pytest.mark.parametrize("seed", range(5))
def test_operators_give_results_after_the_steps_whatever_the_batches(seed: int) -> None:
    rng = random.Random(seed)
    steps = query().where("total > 10").order_by("total", "k").select("k", "window_end", "total", big="total > 20")
    expected = steps.to_arrow().to_pylist()
    op, given, at = steps.operator(), [], 0
    while at < len(ROWS):
        step = rng.randint(1, 20)
        given += op.push(ROWS[at : at + step]).rows()
        at += step
        if rng.random() < 0.4:
            op = steps.operator(restore=op.snapshot())
    given += op.finish().rows()
    assert given == expected


def test_a_snapshot_goes_on_under_other_steps() -> None:
    op = query().where("total > 10").operator()
    op.push(ROWS[:30])
    again = query().select("total").operator(restore=op.snapshot())
    assert again.push(ROWS[30:]).table.column_names == ["total"]


def test_windows_added_while_running_go_through_the_steps() -> None:
    op = query().where("n > 0").select("window", "n").operator()
    op.push(ROWS[:30])
    op.add("rows", pn.tumbling(pn.rows(5)))
    given = op.push(ROWS[30:]).table
    assert given.column_names == ["window", "n"]
    assert "rows" in given["window"].to_pylist()


def test_corrections_that_fail_are_withdrawn() -> None:
    rows = [{"ts": 100, "k": "a", "v": 5.0}, {"ts": 5000, "k": "a", "v": 0.0}, {"ts": 200, "k": "a", "v": -4.0}]
    made = pn.stream(rows, time="ts", key="k", lateness="10 s").window(pn.tumbling("1 s")).agg(total="sum(v)")
    found = made.where("total > 3").select("window_end", "total", "revision", "void").to_arrow().to_pylist()
    assert found == [
        {"window_end": 1000, "total": None, "revision": 1, "void": True},
        {"window_end": 1000, "total": 5.0, "revision": 0, "void": False},
    ]


def test_steps_are_explained_and_shown() -> None:
    steps = query().where("total > 10").order_by("total DESC").select("k", double="total * 2")
    text = str(steps.explain())
    for part in ("Steps on results", "1  where total > 10", "order by total DESC", "select k, total * 2 as double"):
        assert part in text
    assert "where total > 10" in repr(steps)
    assert "Steps" not in str(query().explain())


def test_pictures_are_of_what_the_windows_give(tmp_path: Any) -> None:
    pytest.importorskip("matplotlib")
    query().select("k").plot(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 0


def test_names_of_steps_are_checked_at_once() -> None:
    with pytest.raises(QueryError, match="did you mean 'total'"):
        query().select("totl")
    with pytest.raises(QueryError, match="no column 'x'"):
        query().where("x > 1")
    with pytest.raises(QueryError, match="call order_by before select"):
        query().select("k").order_by("k")
