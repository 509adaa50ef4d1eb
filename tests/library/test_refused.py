"""Bad configurations are refused by name when they are written; bad tuples stop the window and are named."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest

from panes.errors import DataError, QueryError
from panes.policies.library import (
    SlidingWindow,
    TumblingWindow,
    count,
    delta,
    partition_age,
    partition_count,
    punct,
    time,
    tuple_count,
)

CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "negative count": (lambda: count(-1), r"count\(n=-1\): must be at least 0"),
    "count of a fraction": (lambda: count(1.5), r"count\(n=1.5\): must be a whole number"),
    "count of a word": (lambda: count("3"), r"count\(n='3'\): must be a whole number"),
    "count of a truth value": (lambda: count(True), r"count\(n=True\): must be a whole number"),
    "negative delta": (lambda: delta("v", -1), r"delta\(delta=-1\): a difference must be a number, zero or more"),
    "delta of not a number": (lambda: delta("v", float("nan")), r"delta\(delta=nan\)"),
    "delta without attribute": (lambda: delta("", 1), r"delta\(attribute=''\)"),
    "delta of a number": (lambda: delta(3, 1), r"delta\(attribute=3\)"),
    "no time": (lambda: time(0), r"time\(size\)=0 must be positive"),
    "negative time": (lambda: time("-1 s"), r"time\(size\)=.*must be positive"),
    "time without a unit": (lambda: time("10"), r"time\(size\)='10' has no unit"),
    "time finer than the clock": (lambda: time("10 ns"), r"time\(size\).*not a whole number of ticks"),
    "calendar time": (lambda: time("1 month"), r"time\(size\)='1 month': months and years vary"),
    "partition_count(0)": (lambda: partition_count(0), r"partition_count\(most=0\): must be at least 1"),
    "tuple_count(0)": (lambda: tuple_count(0), r"tuple_count\(most=0\): must be at least 1"),
    "partition_age(0)": (lambda: partition_age(0), r"partition_age\(size\)=0 must be positive"),
    "tumbling count(0)": (lambda: TumblingWindow(evict=count(0)), r"evict=count\(0\)"),
    "tumbling by nonsense": (lambda: TumblingWindow(evict=3), "evict=3: a tumbling window is full by"),
    "sliding punct": (lambda: SlidingWindow(evict=punct(), trigger=count(1)), r"evict=punct\(\): a sliding window"),
    "triggered by punct": (lambda: SlidingWindow(evict=count(1), trigger=punct()), r"trigger=punct\(\)"),
    "trigger count(0)": (lambda: SlidingWindow(evict=count(1), trigger=count(0)), r"trigger=count\(0\)"),
    "summarizer of a sliding window": (
        lambda: SlidingWindow(evict=count(1), trigger=count(1), summarizer=object),
        "summarizer=.*only tumbling windows",
    ),
    "no summarizer": (lambda: TumblingWindow(evict=count(1), summarizer=int), "summarizer=int has no on_open_window"),
    "summarizer of a number": (lambda: TumblingWindow(evict=count(1), summarizer=3), "summarizer=3: must be a class"),
    "partition eviction of one window": (
        lambda: TumblingWindow(evict=count(1), partition_evict=partition_count(1)),
        r"partition_evict=partition_count\(1\) needs partitioned=True",
    ),
    "partition eviction by nonsense": (
        lambda: TumblingWindow(evict=count(1), partitioned=True, partition_evict=count(1)),
        r"partition_evict=count\(1\): use partition_count",
    ),
    "unknown selection": (
        lambda: TumblingWindow(evict=count(1), partitioned=True, select="random"),
        "select='random' is unknown: use one of lru, lfu, oldest, user",
    ),
    "unknown event": (
        lambda: TumblingWindow(evict=count(1)).on("trigger", print),
        r"on\('trigger'\): a tumbling window has no such event; it has before_insert",
    ),
    "selection that isn't the user's": (
        lambda: TumblingWindow(evict=count(1)).on("partition_select", print),
        r"on\('partition_select'\).*needs select='user'",
    ),
    "handler of a number": (lambda: TumblingWindow(evict=count(1)).on("before_flush", 3), "a handler must be callable"),
    "partitioned without a key": (
        lambda: TumblingWindow(evict=count(1), partitioned=True).insert(1),
        "key is missing: a partitioned window needs the key",
    ),
    "a key for one window": (
        lambda: TumblingWindow(evict=count(1)).insert(1, "a"),
        "key='a' given to a window that is not partitioned",
    ),
    "punctuation of a count window": (
        lambda: TumblingWindow(evict=count(1)).punctuate(),
        r"punctuate\(\): the window is full by count\(1\)",
    ),
    "no summarizer to ask": (lambda: TumblingWindow(evict=count(1)).summarizer(), "made without one"),
    "summarizer of no subwindow": (
        lambda: TumblingWindow(evict=count(1), summarizer=lambda: None).summarizer("a"),
        r"summarizer\('a'\): there is no such subwindow",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_misuse_of_the_window_library_is_refused(name: str) -> None:
    call, said = CASES[name]
    with pytest.raises(QueryError, match=said):
        call()


def test_tuples_that_a_delta_can_t_be_taken_of_are_named_and_change_nothing() -> None:
    for rows, said in (
        ([{"v": 3}, {"v": 2}], r"delta\('v', 1\): the attribute fell from 3 to 2 at {'v': 2}"),
        ([{"v": 3}, {"w": 2}], r"delta\('v', 1\): the tuple {'w': 2} has no attribute 'v'"),
        ([{"v": 3}, {"v": None}], r"None at {'v': None} is not a number"),
        ([{"v": 3}, {"v": float("nan")}], "nan at .* is not a number"),
        ([{"v": 3}, {"v": True}], "True at .* is not a number"),
    ):
        for window in (
            TumblingWindow(evict=delta("v", 1)),
            SlidingWindow(evict=delta("v", 1), trigger=count(1)),
            SlidingWindow(evict=count(5), trigger=delta("v", 1)),
        ):
            window.insert(rows[0])
            before = window.metrics
            with pytest.raises(DataError, match=said):
                window.insert(rows[1])
            assert window.content() == (rows[0],)
            assert window.metrics == before


def test_deltas_of_attributes_functions_and_points_in_time() -> None:
    times = [datetime(2024, 1, 1, 0, 0, second) for second in (0, 5, 11)]
    for policy, rows in (
        (delta("t", "10 s"), [{"t": t} for t in times]),
        (delta("t", "10 s"), [SimpleNamespace(t=t) for t in times]),
        (delta(lambda t: t.second, 10), times),
    ):
        window = TumblingWindow(evict=policy)
        for row in rows:
            window.insert(row)
        assert window.content() == (rows[2],)
