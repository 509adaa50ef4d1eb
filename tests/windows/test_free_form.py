"""Free-form windows that see the watermark and name their end: as the built-in ones, on time, through snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

import panes as pn
from examples.dynamic_stock import DynamicStock, ExactStock
from panes.errors import QueryError
from tests.fuzz.user_windows import LastOf


def given(window: Any, rows: list[dict[str, Any]], **options: Any) -> list[tuple[Any, ...]]:
    query = pn.stream(rows, time="t", **options).window(w=window).agg(vs=pn.collect_list("v"))
    return [(r["window_end"], r["vs"]) for r in query.rows()]


def at(*times: int) -> list[dict[str, Any]]:
    return [{"t": t, "v": t} for t in times]


def test_last_2_rows_every_5_end_with_the_fifth_and_the_tenth() -> None:
    """As pn.sliding(rows(2), every=rows(5), align="end") has them, and as soon as it does."""
    rows = at(*range(1, 13))
    assert given(LastOf(2, 5), rows) == [(5, [4, 5]), (10, [9, 10])]
    built_in = pn.sliding(pn.rows(2), every=pn.rows(5), align="end")
    query = pn.stream(None, schema={"t": "bigint", "v": "bigint"}, time="t", watermark=2)
    op = query.window(mine=LastOf(2, 5), built_in=built_in).agg(vs=pn.collect_list("v")).operator()
    for row in rows:
        found = {r["window"]: (r["window_from"], r["window_to"], r["vs"]) for r in op.push(row).rows()}
        assert found.get("mine") == found.get("built_in")
        assert bool(found) == (row["t"] in (7, 12))


@dataclass(frozen=True)
class LastRowsByTime(pn.FreeFormWindow):
    """The last `keep` rows at every multiple of `every` ticks before which rows have come since the last."""

    keep: int
    every: int

    def new_state(self) -> Any:
        return {"held": 0, "last": None}

    def expire(self, state: Any, row: Mapping[str, Any], position: int, time: int) -> int:
        gone = max(0, state["held"] - self.keep + 1)
        state.update(held=state["held"] - gone + 1, last=time)
        return gone

    def emit(self, state: Any, row: Mapping[str, Any], position: int, time: int) -> bool:
        return False

    def on_watermark(self, state: Any, time: int) -> list[int | pn.WindowDue]:
        if state["last"] is None or (tick := (state["last"] // self.every + 1) * self.every) > time:
            return []
        state["last"] = None
        return [tick]


@pytest.mark.parametrize("seed", range(20))
def test_last_2_rows_every_5_ticks_are_those_of_the_built_in(seed: int) -> None:
    rng, t, rows = Random(seed), 0, []
    for i in range(40):
        t += rng.choice((0, 1, 1, 2, 7))
        rows.append({"t": t, "k": rng.randrange(3), "v": i})
    stream = pn.stream(rows, time="t", key="k", watermark=rng.choice((None, 3)))
    windows = {"mine": LastRowsByTime(2, 5), "built_in": pn.sliding(pn.rows(2), every=5)}
    query = stream.window(**windows).agg(vs=pn.collect_list("v"))
    op, found = query.operator(), []
    for row in rows:
        found += op.push(row).rows()
        if rng.random() < 0.2:
            op = query.operator(restore=op.snapshot(), trusted=True)
    of = {name: [(r["k"], r["window_end"], r["vs"]) for r in found if r["window"] == name] for name in windows}
    assert sorted(of["mine"]) == sorted(of["built_in"])
    assert of["mine"]


class Named(pn.FreeFormWindow):
    """Rows two by two; the end is what was asked for."""

    def __init__(self, end: Any, *, by_time: bool = False) -> None:
        self.named, self.by_time = end, by_time

    def expire(self, state: Any, row: Mapping[str, Any], position: int, time: int) -> int:
        state["last"] = time
        return 2 if position % 2 == 0 and position and not self.by_time else 0

    def emit(self, state: Any, row: Mapping[str, Any], position: int, time: int) -> bool:
        return position % 2 == 1 and not self.by_time

    def end(self, state: Any, row: Mapping[str, Any], position: int, time: int) -> Any:
        return self.named

    def on_watermark(self, state: Any, time: int) -> list[Any]:
        return [self.named] if self.by_time and "last" in state and time == 9 else []


def test_the_end_of_a_window_that_a_row_gives() -> None:
    assert given(Named(7), at(5, 9)) == [(7, [5])]


@pytest.mark.parametrize("by_time", [False, True])
@pytest.mark.parametrize("end", [4, 10])
def test_an_end_lies_between_the_last_row_and_the_time_reached(end: int, by_time: bool) -> None:
    with pytest.raises(QueryError) as error:
        given(Named(end, by_time=by_time), at(5, 9))
    assert f"named the end {end}: it must lie from 5" in str(error.value)
    assert "window 'w': Named(...)" in str(error.value)


@pytest.mark.parametrize("end", [None, 7.5, True, "7"])
def test_an_end_is_a_time_in_ticks(end: Any) -> None:
    for by_time in (False, True):
        with pytest.raises(QueryError, match="it must be a time in ticks"):
            given(Named(end, by_time=by_time), at(5, 9))


class AtEnd(Named):
    def __init__(self, *due: Any) -> None:
        super().__init__(0, by_time=True)
        self.due = due

    def on_watermark(self, state: Any, time: int) -> list[Any]:
        return []

    def on_finish(self, state: Any) -> Any:
        return self.due


def test_what_the_end_of_the_stream_gives() -> None:
    rows = at(1, 2, 3)
    assert given(AtEnd(), rows) == []
    assert given(AtEnd(3), rows) == [(3, [1, 2, 3])]
    assert given(AtEnd(100, pn.WindowDue(101, expire=2)), rows) == [(100, [1, 2, 3]), (101, [3])]
    assert given(AtEnd(pn.WindowDue(None, expire=1)), rows) == given(AtEnd(None), rows[1:]) == [(None, [2, 3])]
    assert given(AtEnd(pn.WindowDue(3, expire=3)), rows) == []
    with pytest.raises(QueryError, match="can't be negative"):
        given(AtEnd(pn.WindowDue(3, expire=-1)), rows)


def test_time_closes_windows_of_keys_that_have_no_more_rows() -> None:
    rows = [{"t": 1, "k": "a", "v": 1}, {"t": 2, "k": "b", "v": 2}, {"t": 30, "k": "b", "v": 30}]
    query = pn.stream(rows, time="t", key="k").window(w=LastRowsByTime(2, 5)).agg(vs=pn.collect_list("v"))
    assert sorted((r["k"], r["window_end"], r["vs"]) for r in query.rows()) == [("a", 5, [1]), ("b", 5, [2])]


def test_k07_the_stocks_change_of_pace_deterministic_and_exact() -> None:
    """The price falls at minute 25: from then on a report every 2 minutes, over the last 5."""
    minute = 60_000
    rows = [{"t": m * minute, "price": 12.0 if m < 25 else 9.0, "v": m} for m in range(36)]
    both = pn.stream(rows, time="t", time_unit="ms").window(fixed=DynamicStock(), exact=ExactStock())
    found = list(both.agg(vs=pn.collect_list("v")).rows())
    spans = {
        name: [(r["window_start"] // minute, r["window_end"] // minute) for r in found if r["window"] == name]
        for name in ("fixed", "exact")
    }
    before = [(0, 5), (0, 10), (5, 15), (10, 20), (15, 25)]
    assert spans["fixed"] == [*before, (20, 27), (25, 29), (26, 31), (28, 33), (30, 35)]
    assert spans["exact"] == [*before, (22, 27), (24, 29), (26, 31), (28, 33), (30, 35)]
    for r in found:
        assert r["vs"] == list(range(r["window_start"] // minute, r["window_end"] // minute))


def test_k07_exact_reports_with_pauses_and_both_changes() -> None:
    rng, t, rows, cheap = Random(7), 0, [], False
    for _ in range(400):
        t += rng.choice((0, 1, 1, 2, 40))
        cheap = cheap != (rng.random() < 0.1)
        rows.append({"t": t, "price": 9.0 if cheap else 12.0, "v": t})
    query = pn.stream(rows, time="t").window(w=ExactStock(expensive=(5, 10), cheap=(2, 5))).agg(vs=pn.collect_list("v"))
    ends, mode, due = [], None, 0
    for row in rows:  # each row may change the pace; reports before it go by the old one
        every, over = (2, 5) if mode else (5, 10)
        while mode is not None and due <= row["t"]:
            ends.append((due, [r["v"] for r in rows if due - over <= r["t"] < due]))
            due += every
        if mode != (row["price"] <= 10):
            mode = row["price"] <= 10
            due = row["t"] + (2 if mode else 5)
    assert [(r["window_end"], r["vs"]) for r in query.rows()] == [(end, vs) for end, vs in ends if vs]
