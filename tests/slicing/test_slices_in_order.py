"""In order, slices begin where windows begin: at most one partial more than windows that are open."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import panes as pn
from tests.fuzz.user_windows import Alternating

SCHEMA = {"ts": "bigint", "k": "string", "v": "bigint"}


def open_starts(windows: dict[str, tuple[int, int]], reached: int) -> set[int]:
    """Where windows begin that hold the tick `reached`."""
    found = set()
    for size, slide in windows.values():
        start = reached // slide * slide
        while start + size > reached:
            found.add(start)
            start -= slide
    return found


@pytest.mark.parametrize("seed", range(40))
def test_there_is_at_most_one_slice_on_time_more_than_open_windows(seed: int) -> None:
    rng = Random(seed)
    windows = {f"w{i}": (rng.randint(1, 30), rng.randint(1, 12)) for i in range(rng.randint(1, 4))}
    keyed = rng.random() < 0.5
    stream = pn.stream(time="ts", schema=SCHEMA, key="k" if keyed else None)
    op = stream.window(**{n: pn.sliding(s, every=e) for n, (s, e) in windows.items()}).agg(total="sum(v)").operator()
    ts = 0
    for _ in range(60):
        rows = []
        for _ in range(rng.randint(1, 12)):
            ts += rng.choice((0, 1, 1, 2, 3, 40))
            rows.append({"ts": ts, "k": rng.choice("abc"), "v": 1})
        op.push(rows)
        assert op.metrics["slices"] <= len(open_starts(windows, ts)) + 1


@pytest.mark.parametrize("seed", range(30))
def test_there_is_at_most_one_slice_on_rows_more_than_open_windows(seed: int) -> None:
    rng = Random(seed)
    windows = {f"w{i}": (rng.randint(1, 30), rng.randint(1, 12)) for i in range(rng.randint(1, 4))}
    made = {n: pn.sliding(pn.rows(s), every=pn.rows(e)) for n, (s, e) in windows.items()}
    outputs: Any = {"all": "collect_list(v)"} if rng.random() < 0.5 else {"total": "sum(v)"}
    op = pn.stream(time="ts", schema=SCHEMA).window(**made).agg(**outputs).operator()
    n = 0
    for _ in range(60):
        count = rng.randint(1, 12)
        op.push([{"ts": n + i, "k": "a", "v": i} for i in range(count)])
        n += count
        assert op.metrics["slices"] <= len(open_starts(windows, n - 1)) + 1


def test_out_of_order_slices_end_where_windows_end_too() -> None:
    op = pn.stream(time="ts", schema=SCHEMA, watermark=5).window(pn.sliding(10, every=4)).agg(n="count(*)").operator()
    op.push([{"ts": t, "k": "a", "v": 1} for t in range(40)])
    assert op.metrics["slices"] > len(open_starts({"w": (10, 4)}, 34)) + 1


def test_windows_can_be_added_after_slices_were_joined() -> None:
    query = pn.stream(time="ts", schema=SCHEMA).window(a=pn.sliding(10, every=4)).agg(n="count(*)")
    by_row, at_once = query.operator(), query.operator()
    rows = [{"ts": t, "k": "a", "v": 1} for t in range(30)]
    given: list[list[Any]] = []
    for op, batches in ((by_row, [[row] for row in rows]), (at_once, [rows])):
        for batch in batches:
            op.push(batch)
        op.add("b", pn.tumbling(3))
        more = [*op.push([{"ts": t, "k": "a", "v": 1} for t in range(30, 50)]), *op.finish()]
        given.append(more)
    assert given[0] == given[1]
    assert any(r["window"] == "b" for r in given[0])


@pytest.mark.parametrize("size", [1, 97, 700])
def test_long_batches_are_joined_only_where_windows_have_ended(size: int) -> None:
    """Slices are forgotten while a long batch is worked on, before event time has moved."""
    rng = Random(1)
    rows, now = [], 0
    for i in range(700):
        now += rng.choice((0, 0, 1, 1, 2, 9))
        rows.append({"ts": now, "k": rng.choice("ABC"), "v": i})
    op = pn.stream(time="ts", schema=SCHEMA, key="k").window(pn.sliding(9, every=2)).agg(a="collect_list(v)").operator()
    given = [r for at in range(0, 700, size) for r in op.push(rows[at : at + size])]
    given += op.finish()
    assert len(given) > 200
    for r in given:
        held = [q["v"] for q in rows if q["k"] == r["k"] and r["window_start"] <= q["ts"] < r["window_end"]]
        assert r["a"] == held


def test_a_window_of_the_users_own_that_begins_at_the_last_row_keeps_its_slice() -> None:
    windows = {"landmark": pn.landmark(3, every=4), "own": Alternating(2, 4)}
    query = pn.stream(None, schema={"ts": "bigint"}, time="ts").window(**windows).agg(n="count(*)")
    op = query.operator()
    op.push([{"ts": t} for t in range(7)])
    op = query.operator(restore=op.snapshot(), trusted=True)
    assert [(r["window_start"], r["window_end"], r["n"]) for r in op.finish()] == [(3, 7, 4), (6, 8, 1)]
