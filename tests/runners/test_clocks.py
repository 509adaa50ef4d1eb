"""Streams that go quiet: windows close by the clock, silent sides hold nobody up, silent streams end.

Generators are read in a thread of the run. They advance a fake clock themselves, and wait until a result was seen
where it must come without the next row, so nothing here depends on how fast anything is, and nothing sleeps.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any

import pytest

import panes as pn
from panes.errors import QueryError
from panes.operators.clauses import tumbling
from panes.policies.library.specs import time as for_time
from panes.runners.local.reading import ReadOptions, batches
from panes.runtime.quiet import Beat, Quiet
from panes.testing import FakeClock

SECOND = 1_000_000
SCHEMA = {"ts": "bigint", "v": "bigint"}
Row = dict[str, Any]
Step = Row | float | threading.Event | Callable[[], None]


def played(clock: FakeClock, *steps: Step) -> Iterator[Row]:
    """Rows as they come; a number lets so many seconds pass, an event is waited for, a function is called.

    Where two are read side by side, one waits until the row of the other has come.
    """
    for step in steps:
        if isinstance(step, threading.Event):
            assert step.wait(30)
        elif isinstance(step, int | float):
            clock.advance(int(step * SECOND))
        elif callable(step):
            step()
        else:
            yield step


def row(ts: int, v: int = 1) -> Row:
    return {"ts": ts * 1000, "v": v}


def stream(clock: FakeClock, *steps: Step, **options: Any) -> pn.Stream:
    return pn.stream(played(clock, *steps), schema=SCHEMA, clock=clock, **{"time": "ts", **options})


def arriving(clock: FakeClock, *steps: Step) -> pn.Stream:
    return pn.stream(played(clock, *steps), schema=SCHEMA, time=pn.arrival(clock=clock))


def bounds(rows: Iterable[Row]) -> list[tuple[int, int, int]]:
    return [(r["window_start"] // 1000, r["window_end"] // 1000, r["n"]) for r in rows]


def ten_seconds(made: pn.Stream) -> pn.Query:
    return made.window(pn.tumbling("10 s")).agg(n="count(*)")


def test_windows_close_on_a_quiet_stream() -> None:
    clock, seen = FakeClock(), threading.Event()
    given = ten_seconds(stream(clock, row(1), row(4), 30, seen, row(60), idle="30 s")).rows()
    assert bounds([next(given)]) == [(0, 10, 2)]  # the generator waits, so it came without the next row
    seen.set()
    assert bounds(given) == [(60, 70, 1)]


def test_the_loop_wakes_when_the_next_window_is_due() -> None:
    clock, first, second = FakeClock(), threading.Event(), threading.Event()
    made = stream(clock, row(1), row(35), 30, first, 4.9, 0.1, second, idle="30 s")
    given = made.window(pn.tumbling("10 s"), pn.tumbling("35 s")).agg(n="count(*)").rows()
    # at 35 + 30 = 65 the windows up to 40 close, and the one of 35 s up to 70 does so 5 s later
    assert bounds(next(given) for _ in range(3)) == [(0, 10, 1), (0, 35, 1), (30, 40, 1)]
    first.set()
    assert bounds([next(given)]) == [(35, 70, 1)]
    second.set()
    assert list(given) == []


def test_a_short_silence_changes_nothing() -> None:
    clock = FakeClock()
    made = ten_seconds(stream(clock, row(9), 29, row(8), 29, row(12), watermark="2 s", idle="30 s"))
    assert bounds(made.rows()) == [(0, 10, 2), (10, 20, 1)]
    assert made.metrics["rows_late"] == 0


def test_rows_behind_the_clock_are_late() -> None:
    clock = FakeClock()
    made = ten_seconds(stream(clock, row(9), 40, row(30), row(60), idle="30 s"))
    assert bounds(made.rows()) == [(0, 10, 1), (60, 70, 1)]  # whether the loop was woken in between or not
    assert made.metrics["rows_late"] == 1


def test_the_watermark_waits_for_disorder_as_before() -> None:
    clock, seen = FakeClock(), threading.Event()
    made = ten_seconds(stream(clock, row(9), 30, row(38), 0, seen, watermark="5 s", idle="30 s"))
    given = made.rows()
    assert bounds([next(given)]) == [(0, 10, 1)]  # 9 - 5 + 30 = 34
    seen.set()
    assert bounds(given) == [(30, 40, 1)]
    assert made.metrics["rows_late"] == 0


def test_before_the_first_row_there_is_nothing_to_count_from() -> None:
    clock = FakeClock(start=10**15)
    assert bounds(ten_seconds(stream(clock, 600, row(1), idle="30 s")).rows()) == [(0, 10, 1)]


def test_to_arrow_goes_by_the_clock_too() -> None:
    clock = FakeClock()
    made = ten_seconds(stream(clock, row(9), 40, row(30), row(60), idle=timedelta(seconds=30)))
    assert bounds(made.to_arrow().to_pylist()) == [(0, 10, 1), (60, 70, 1)]
    assert made.metrics["rows_late"] == 1


def test_a_slow_reader_is_no_silence_of_the_stream() -> None:
    quiet = Quiet()
    assert quiet.hear(Beat(10, 4, False)) == 6
    quiet.row()
    assert quiet.hear(Beat(90, 85, True)) == 5  # nobody asked for a row before 85


def test_data_that_is_all_there_is_never_quiet() -> None:
    rows = [row(n) for n in (1, 12, 5)]
    made = ten_seconds(pn.stream(rows, time="ts", watermark="10 s", idle="1 us"))
    assert bounds(made.rows()) == [(0, 10, 2), (10, 20, 1)]


def test_sessions_and_windows_that_look_back_close() -> None:
    clock, seen = FakeClock(), threading.Event()
    made = stream(clock, row(1), row(3), 60, seen, idle="5 s")
    last = pn.sliding(pn.rows(2), every="10 s")
    given = made.window(visit=pn.session("4 s"), last=last).agg(n="count(*)").rows()
    assert {(r["window"], r["n"]) for r in (next(given), next(given))} == {("visit", 2), ("last", 2)}
    seen.set()
    list(given)


def test_streams_end_when_they_are_silent_for_too_long() -> None:
    clock = FakeClock()
    made = ten_seconds(stream(clock, row(1), 29, row(2), 31, row(3), timeout="30 s"))
    assert bounds(made.rows()) == [(0, 10, 2)]
    assert made.metrics["rows_in"] == 2


def test_a_stream_without_windows_ends_too() -> None:
    clock = FakeClock()
    assert list(stream(clock, row(1), 31, row(3), timeout="30 s").rows()) == [row(1)]
    assert list(stream(clock, 31, row(3), timeout="30 s").select("v").rows()) == []


def test_the_end_needs_no_row() -> None:
    clock, seen = FakeClock(), threading.Event()
    given = ten_seconds(stream(clock, row(1), 30, seen, row(2), timeout="30 s")).rows()
    assert bounds(given) == [(0, 10, 1)]
    seen.set()


@pytest.mark.parametrize("seed", range(12))
def test_what_a_run_gives_follows_from_when_rows_came(seed: int) -> None:
    """The same as pushing each row after what the clock said before it, whatever the threads did."""
    rng = random.Random(seed)
    clock, steps, now = FakeClock(), [], 0
    for _ in range(60):
        now += rng.randrange(0, 3)
        steps += [rng.choice((0, 0, 1, 7, 10, 25)), row(max(0, now + rng.randrange(-4, 20)), rng.randrange(5))]
    windows = [pn.tumbling("5 s"), pn.session("3 s"), pn.sliding(pn.rows(3), every=pn.rows(2))]
    made = stream(clock, *steps, watermark="2 s", idle="10 s").window(*windows).agg(n="count(*)", v="sum(v)")
    pushed = pn.stream(None, schema=SCHEMA, time="ts", watermark="2 s").window(*windows).agg(n="count(*)", v="sum(v)")
    op, expected = pushed.operator(), []
    for gap, each in zip(steps[::2], steps[1::2]):
        op.next_due()  # rows that wait are worked on, so that the watermark is theirs
        if gap >= 10 and op.watermark > -(2**62):
            expected += op.advance(op.watermark + gap * 1000).rows()
        expected += op.push(each).rows()
    expected += op.finish().rows()
    assert sorted(map(str, made.rows())) == sorted(map(str, expected))
    assert made.metrics["rows_late"] == op.metrics["rows_late"]


# --- merged, joined, inside others ---


def test_a_silent_side_holds_nobody_up() -> None:
    clock, came, seen = FakeClock(), threading.Event(), threading.Event()
    silent = stream(clock, row(1), came.set, seen, idle="30 s")
    busy = stream(clock, came, *(part for n in range(0, 60, 5) for part in (row(n), 5)), seen, idle="30 s")
    made = ten_seconds(pn.merge(silent, busy))
    given = made.rows()
    assert bounds(next(given) for _ in range(3)) == [(0, 10, 3), (10, 20, 2), (20, 30, 2)]
    seen.set()
    assert bounds(given) == [(30, 40, 2), (40, 50, 2), (50, 60, 2)]
    assert made.metrics["rows_late"] == 0


def test_the_clock_takes_over_when_all_sides_are_silent() -> None:
    clock, came, seen = FakeClock(), threading.Event(), threading.Event()
    one = stream(clock, row(1), came.set, seen, idle="30 s")
    made = pn.merge(one, stream(clock, row(3), came, 60, seen, idle="20 s"))
    given = ten_seconds(made).rows()
    assert bounds([next(given)]) == [(0, 10, 2)]
    seen.set()
    assert list(given) == []


def test_a_join_closes_by_the_clock() -> None:
    clock, came, seen = FakeClock(), threading.Event(), threading.Event()
    left = stream(clock, row(1), came, 60, seen, idle="30 s")
    right = stream(clock, row(2), came.set, seen, idle="30 s")
    joined = pn.join(left, right, names=("l", "r"), window=pn.tumbling("10 s"), on="l.v = r.v", entries="l.v")
    given = joined.rows()
    assert next(given)["v"] == 1
    seen.set()
    assert list(given) == []


def test_windows_over_windows_close() -> None:
    clock, seen = FakeClock(), threading.Event()
    inner = ten_seconds(stream(clock, row(1), row(4), 60, seen, idle="30 s"))
    given = inner.stream().window(pn.tumbling("20 s")).agg(n="sum(n)").rows()
    assert bounds([next(given)]) == [(0, 20, 2)]
    seen.set()
    assert list(given) == []


# --- system time ---


def test_system_time_windows_close_without_a_row() -> None:
    clock, first, second = FakeClock(), threading.Event(), threading.Event()
    given = arriving(clock, row(1), 4, row(2), 6, first, 7, second, row(3)).window(
        pn.tumbling("10 s"), pn.tumbling("17 s")
    )
    results = given.agg(n="count(*)").rows()
    assert next(results)["n"] == 2
    first.set()
    assert next(results)["window_end"].second == 17
    second.set()
    assert [r["n"] for r in results] == [1, 1]


def test_system_time_inside_and_outside() -> None:
    clock, seen = FakeClock(), threading.Event()
    inner = arriving(clock, row(1), 4, row(2), 30, seen).window(pn.tumbling("10 s")).agg(n="count(*)")
    given = inner.stream().window(pn.tumbling("20 s")).agg(n="sum(n)").rows()
    assert next(given)["n"] == 2
    seen.set()
    assert list(given) == []


def test_time_policies_with_threads_go_by_the_clock() -> None:
    clock, seen = FakeClock(), threading.Event()
    policy = pn.policy(trigger=pn.policies.time("5 s", thread=True), evict=pn.policies.tumble())
    given = arriving(clock, row(1), 1, row(2), 5, seen).window(policy).agg(n="count(*)").rows()
    assert next(given)["n"] == 2
    seen.set()
    list(given)


@pytest.mark.parametrize("quiet", ["arrival", "idle"])
def test_operators_go_by_the_clock(quiet: str) -> None:
    clock, seen = FakeClock(), threading.Event()
    steps: tuple[Step, ...] = (row(1), 1, row(2), 12, seen)
    made = arriving(clock, *steps) if quiet == "arrival" else stream(clock, *steps, idle="5 s")
    given = made.aggregate(window=tumbling(for_time("10 s")), n="count(*)").rows()
    assert next(given)["n"] == 2
    seen.set()
    assert list(given) == []


def test_windows_over_operators_go_by_the_clock() -> None:
    clock, seen = FakeClock(), threading.Event()
    counted = stream(clock, row(1), 1, row(2), 60, seen, idle="5 s").aggregate(
        window=tumbling(for_time("10 s")), n="count(*)"
    )
    given = counted.window(pn.tumbling("20 s")).agg(n="sum(n)").rows()
    assert next(given)["n"] == 2
    seen.set()
    assert list(given) == []


def test_arrival_times_are_those_at_which_rows_came() -> None:
    clock = FakeClock(start=5 * SECOND)
    made = arriving(clock, row(1), 4, row(2), row(3)).select("v", at="unix_micros(arrival_time)")
    assert [r["at"] for r in made.rows()] == [5 * SECOND, 9 * SECOND, 9 * SECOND]


# --- what it says, and what it refuses ---


def test_explain_tells_who_moves_the_watermark() -> None:
    clock = FakeClock()
    said = str(ten_seconds(stream(clock, idle="30 s", timeout="5 min")).explain())
    assert "the clock moves the watermark when no row has come for 30 s" in said
    assert "ended when no row has come for 5 min" in said
    assert "close by the clock" in str(ten_seconds(arriving(clock)).explain())
    assert "ended when no row has come for 5 min" in str(stream(clock, timeout="5 min").explain())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"idle": "30"}, "idle='30' has no unit"),
        ({"idle": 30}, "idle must be a duration of the clock"),
        ({"idle": "0 s"}, "idle='0 s' must be positive"),
        ({"idle": timedelta(seconds=-1)}, "must be positive"),
        ({"idle": "1 month"}, "a clock can't count them"),
        ({"timeout": True}, "timeout must be a duration of the clock"),
        ({"timeout": "soon"}, "timeout='soon' is not a duration"),
        ({"idle": "1 s", "watermark": "manual"}, "only advance"),
        ({"idle": "1 s", "data": None}, "needs data to listen to"),
        ({"idle": "1 s", "time": pn.arrival()}, "leave idle out"),
        ({"clock": FakeClock(), "time": pn.arrival()}, "pn.arrival"),
        ({"idle": "1 s", "clock": lambda: 3}, "clock must be a clock"),
    ],
)
def test_wrong_options_of_silence_are_refused(options: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"data": [row(1)], "time": "ts", "schema": SCHEMA, **options}
    with pytest.raises(QueryError, match=message):
        pn.stream(given.pop("data"), **given)


def test_one_run_has_one_clock() -> None:
    made = pn.merge(stream(FakeClock(), row(1), idle="1 s"), stream(FakeClock(), row(1), idle="1 s"))
    with pytest.raises(QueryError, match="one clock"):
        list(ten_seconds(made).rows())


def test_errors_of_a_source_are_raised_where_rows_are_read() -> None:
    def broken() -> Iterator[Row]:
        yield row(1)
        raise ValueError("the wire is cut")

    made = ten_seconds(pn.stream(broken(), time="ts", schema=SCHEMA, idle="30 s", clock=FakeClock()))
    with pytest.raises(ValueError, match="the wire is cut"):
        list(made.rows())


def test_sources_can_be_read_again_without_a_clock() -> None:
    class Twice:
        def __iter__(self) -> Iterator[Row]:
            return iter([row(1), row(12)])

    made = pn.stream(Twice(), time="ts", schema=SCHEMA, idle="30 s")
    assert bounds(ten_seconds(made).rows()) == [(0, 10, 1), (10, 20, 1)]
    assert sum(len(table) for table in batches(made._node, ReadOptions())) == 2
