"""User-defined windows of the three classes: examples of SPEC W, and the same windows as built-in ones."""

from __future__ import annotations

import bisect
import csv
import importlib.util
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from panes.errors import QueryError
from panes.units import TimeDomain
from panes.windows import ContextFreeWindow, DeterministicWindow, FreeFormWindow, WindowEvents, session, sliding
from panes.windows.base import NEVER, ROWS
from tests.windows.harness import Feeder, Stream, run

MS = TimeDomain("ms", integer=True)
HERE = Path(__file__).parent


class PeriodicCount(DeterministicWindow):
    """SPEC W-05."""

    def __init__(self, size: int, slide: int) -> None:
        self.size, self.slide = size, slide

    def on_row(self, state: Any, row: Mapping[str, Any], position: int, time: int) -> WindowEvents:
        begin = position % self.slide == 0
        end = position >= self.size and (position - self.size) % self.slide == 0
        return WindowEvents(int(begin), int(end))


class Both(DeterministicWindow):
    """Windows compose: this one delegates to others."""

    def __init__(self, *windows: DeterministicWindow) -> None:
        self.windows = windows

    def on_row(self, state: Any, row: Mapping[str, Any], position: int, time: int) -> WindowEvents:
        events = [w.on_row(state, row, position, time) for w in self.windows]
        return WindowEvents(sum(e.begin for e in events), sum(e.end for e in events))


class TimedSession(DeterministicWindow):
    """A session whose timeout comes from the watermark."""

    def __init__(self, gap: int) -> None:
        self.gap = gap

    def on_row(self, state: dict, row: Mapping[str, Any], position: int, time: int) -> WindowEvents:
        begin = "deadline" not in state
        state["deadline"] = time + self.gap
        return WindowEvents(begin=int(begin))

    def on_watermark(self, state: dict, time: int) -> list[int]:
        return [state.pop("deadline")] if state.get("deadline", NEVER) < time else []

    def on_finish(self, state: dict) -> int:
        return int("deadline" in state)


def count_windows(size: int, slide: int, n: int) -> list[tuple[int, int]]:
    return [(s, s + size) for s in range(0, n, slide) if s + size < n]


@pytest.mark.parametrize(("size", "slide"), [(4, 2), (5, 3), (3, 3), (2, 5), (1, 1)])
def test_periodic_count_of_w05(size: int, slide: int) -> None:
    n = 40
    window = PeriodicCount(size, slide).bind(MS)
    feeder = run(window, [Stream(list(range(n))), Stream(list(range(7)))])
    assert [e[1:3] for e in feeder.entries if e[0] == 0] == count_windows(size, slide, n)
    assert [e[1:3] for e in feeder.entries if e[0] == 1] == count_windows(size, slide, 7)


def markers() -> dict[int, tuple[list[int], list[int]]]:
    with (HERE / "data" / "w09_markers.csv").open() as file:
        return {
            int(r["record"]): ([int(w) for w in r["begin"].split()], [int(w) for w in r["end"].split()])
            for r in csv.DictReader(file)
        }


def test_markers_of_w09() -> None:
    table = markers()
    spec = Both(PeriodicCount(4, 2), PeriodicCount(5, 3))
    events = [spec.on_row({}, {}, k, k) for k in range(13)]
    assert [(e.begin, e.end) for e in events] == [(len(b), len(e)) for b, e in table.values()]
    begins = {w: record for record, (begun, _) in table.items() for w in begun}
    ends = {w: record for record, (_, ended) in table.items() for w in ended}
    feeder = run(spec.bind(MS), [Stream(list(range(13)))])
    assert [e[1:3] for e in feeder.entries] == [(begins[w], ends[w]) for w in sorted(ends)]
    sums = [sum(range(start, stop)) for _, start, stop, _, _ in feeder.entries]
    assert sums == [6, 10, 14, 25, 22, 30, 40, 38]
    assert feeder.cuts == {(0, record) for record, marks in table.items() if marks[0] or marks[1]}


@pytest.mark.parametrize("seed", range(10))
def test_user_session_equals_the_built_in_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    streams = [Stream(np.cumsum(rng.choice([0, 1, 2, 5, 9], 30)).tolist()) for _ in range(3)]
    built_in = run(session(4).bind(MS), streams)
    for feeder in (run(TimedSession(4).bind(MS), streams), run(TimedSession(4).bind(MS), streams, rng)):
        assert sorted(e[:3] for e in feeder.entries) == sorted(e[:3] for e in built_in.entries)
        given = {e[:3]: e[3:] for e in built_in.entries}
        assert all(e[3:] == given[e[:3]] for e in feeder.entries if e[4] != NEVER)
        assert feeder.cuts >= {(e[0], e[1]) for e in built_in.entries}


def dynamic_stock() -> Any:
    path = HERE.parents[1] / "examples" / "dynamic_stock.py"
    loader = importlib.util.spec_from_file_location("dynamic_stock", path)
    assert loader is not None
    assert loader.loader is not None
    module = importlib.util.module_from_spec(loader)
    import sys

    sys.modules["dynamic_stock"] = module
    loader.loader.exec_module(module)
    return module.DynamicStock


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_dynamic_stock_of_w06(seed: int | None) -> None:
    """Above 10 a report every 5 minutes over 10; from minute 25 on every 2 over 5."""
    window = dynamic_stock()().bind(TimeDomain("ms"))
    minute = 60_000
    prices = [12.0 if m < 25 else 9.0 for m in range(41)]
    stream = Stream([m * minute for m in range(41)], {"price": prices})
    feeder = Feeder(window, 1)
    cuts = [] if seed is None else sorted(np.random.default_rng(seed).choice(41, 8, replace=False).tolist())
    for start, stop in zip([0, *cuts], [*cuts, 41], strict=True):
        if start < stop:
            feeder.push({0: Stream(stream.times[start:stop], {"price": prices[start:stop]})})
            feeder.advance(stream.times[stop - 1])
    feeder.finish()
    expected = [
        (0, 5),
        (0, 10),
        (5, 15),
        (10, 20),
        (15, 25),
        (20, 27),
        (25, 29),
        (26, 31),
        (28, 33),
        (30, 35),
    ]
    expected += [(32, 37), (34, 39)]
    assert [(e[3] // minute, e[4] // minute) for e in feeder.entries] == expected
    assert all(e[3:] == (e[1] * minute, e[2] * minute) for e in feeder.entries)


def test_dynamic_stock_with_pauses_and_both_changes() -> None:
    window = dynamic_stock()(expensive=(5, 10), cheap=(2, 5)).bind(MS)
    times = [0, 1, 30, 31, 32, 60, 61, 64, 70]
    prices = [9.0, 9.0, 9.0, 12.0, 12.0, 12.0, 9.0, 9.0, 12.0]
    feeder = run(window, [Stream(times, {"price": prices})])
    for _, start_pos, stop_pos, start, end in feeder.entries:
        assert times[start_pos] == start
        assert all(start <= t < end for t in times[start_pos:stop_pos])
    assert [e[4] for e in feeder.entries] == sorted(e[4] for e in feeder.entries)
    assert len(feeder.entries) > 8


class UserSliding(ContextFreeWindow):
    def __init__(self, size: int, slide: int, measure: Any = None) -> None:
        self.size, self.slide = size, slide
        if measure is not None:
            self.measure = measure

    def next_edge(self, value: int) -> int:
        start = (value // self.slide + 1) * self.slide
        end = ((value - self.size) // self.slide + 1) * self.slide + self.size
        return min(start, end)

    def ends_between(self, previous: int, current: int) -> Iterable[tuple[int, int]]:
        end = ((previous - self.size) // self.slide + 1) * self.slide + self.size
        while end <= current:
            yield end - self.size, end
            end += self.slide


class Holidays(ContextFreeWindow):
    """A handful of windows between fixed edges; after the last there is none."""

    edges = (10, 17, 40, 41)

    def next_edge(self, value: int) -> int | None:
        at = bisect.bisect_right(self.edges, value)
        return self.edges[at] if at < len(self.edges) else None

    def ends_between(self, previous: int, current: int) -> list[tuple[int, int]]:
        return [w for w in ((10, 17), (40, 41)) if previous < w[1] <= current]


@pytest.mark.parametrize("reach", [None, "size"])
@pytest.mark.parametrize(("size", "slide"), [(10, 4), (5, 5), (3, 8)])
def test_context_free_equals_the_built_in_one(size: int, slide: int, reach: str | None) -> None:
    spec = UserSliding(size, slide)
    if reach:
        spec.reach = size
    mine, theirs = spec.bind(MS), sliding(size, every=slide).bind(MS)
    for lo in range(-30, 30):
        for hi in (lo, lo + 1, lo + 17):
            assert mine.edges(lo, hi).tolist() == theirs.edges(lo, hi).tolist()
            assert [a.tolist() for a in mine.ending(lo, hi)] == [a.tolist() for a in theirs.ending(lo, hi)]
        assert [a.tolist() for a in mine.containing(lo)] == [a.tolist() for a in theirs.containing(lo)]
        if reach is None or size >= slide:
            assert mine.horizon(lo) == theirs.horizon(lo)
        else:
            assert mine.horizon(lo) <= theirs.horizon(lo)


def test_context_free_with_an_end() -> None:
    window = Holidays().bind(MS)
    assert window.edges(0, 100).tolist() == [10, 17, 40, 41]
    assert [a.tolist() for a in window.ending(0, 100)] == [[10, 40], [17, 41]]
    assert [a.tolist() for a in window.containing(12)] == [[10], [17]]
    assert [len(a) for a in window.containing(20)] == [0, 0]
    assert (window.horizon(0), window.horizon(17), window.horizon(41)) == (10, 40, NEVER)
    assert UserSliding(3, 3, ROWS).bind(MS).measure == ROWS


class Broken(UserSliding):
    def next_edge(self, value: int) -> int:
        return value

    def ends_between(self, previous: int, current: int) -> list[tuple[int, int]]:
        return [(current, current)]


class NeverEnds(UserSliding):
    def next_edge(self, value: int) -> int:
        return value + 1

    def ends_between(self, previous: int, current: int) -> list[tuple[int, int]]:
        return []


class EndsTooMuch(DeterministicWindow):
    def on_row(self, state: Any, row: Mapping[str, Any], position: int, time: int) -> WindowEvents:
        return WindowEvents(end=1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Broken(1, 1).bind(MS).edges(0, 5), "it must lie after 0"),
        (lambda: Broken(1, 1).bind(MS).ending(0, 5), "it must end in"),
        (lambda: NeverEnds(1, 1).bind(MS).horizon(0), "set `reach`"),
        (lambda: run(EndsTooMuch().bind(MS), [Stream([1])]), "ended 1 windows at row 0, but 0 are open"),
    ],
)
def test_wrong_user_code_is_named(call, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        call()


def test_classes_without_their_methods_cant_be_made() -> None:
    for base in (ContextFreeWindow, DeterministicWindow, FreeFormWindow):
        with pytest.raises(TypeError, match="abstract"):
            base()


class LastRows(FreeFormWindow):
    """The last `size` rows at every change of `kind`."""

    columns = ("kind",)

    def expire(self, state: dict, row: Mapping[str, Any], position: int, time: int) -> int:
        held = state.get("held", 0)
        state["held"] = min(held, 3) + 1
        return max(held - 3, 0)

    def emit(self, state: dict, row: Mapping[str, Any], position: int, time: int) -> bool:
        changed = state.get("kind") not in (None, row["kind"])
        state["kind"] = row["kind"]
        return changed


def test_a_free_form_window_says_which_rows_leave() -> None:
    bound = LastRows().bind(MS)
    assert bound.columns == ("kind",)
    state, head, given = bound.new_state(), 0, []
    for position, kind in enumerate("aaaaabbc"):
        expired, emit = bound.on_row(state, {"kind": kind}, position, position)
        head += expired
        if emit:
            given.append((head, position))
    assert given == [(2, 5), (4, 7)]
