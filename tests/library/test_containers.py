"""Containers beyond the worked examples: events, access, summarizers, selection by users, time that is missed."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Any

import pytest

from panes.clock import FakeClock, SystemClock
from panes.errors import DataError
from panes.policies.library import (
    SlidingWindow,
    TumblingWindow,
    Window,
    count,
    delta,
    partition_age,
    partition_count,
    punct,
    time,
    tuple_count,
)
from panes.policies.library.events import EVENTS

SECOND = 10**6


def listen(window: Window, *events: str) -> list[tuple[Any, ...]]:
    told: list[tuple[Any, ...]] = []
    for event in events:
        window.on(event, lambda *args, event=event: told.append((event, *args[:-1], args[-1].content(args[-2]))))
    return told


def test_events_of_a_tumbling_window_in_order() -> None:
    window = TumblingWindow(evict=count(2))
    told = listen(window, "before_insert", "after_insert", "before_flush", "after_flush")
    window.insert("a")
    window.insert("b")
    assert told == [
        ("before_insert", "a", None, ()),
        ("after_insert", "a", None, ("a",)),
        ("before_insert", "b", None, ("a",)),
        ("after_insert", "b", None, ("a", "b")),
        ("before_flush", None, ("a", "b")),
        ("after_flush", None, ()),
    ]


def test_events_of_a_sliding_window_in_order() -> None:
    window = SlidingWindow(evict=count(1), trigger=count(1), partitioned=True)
    names = ("before_insert", "after_insert", "before_evict", "after_evict", "trigger", "initial_full")
    told = listen(window, *names)
    window.insert("a", "k")
    del told[:]
    window.insert("b", "k")
    assert told == [
        ("before_evict", "a", "k", ("a",)),
        ("after_evict", "a", "k", ()),
        ("before_insert", "b", "k", ()),
        ("after_insert", "b", "k", ("b",)),
        ("trigger", "k", ("b",)),
    ]


def test_the_events_are_those_of_the_specification() -> None:
    assert {kind: set(events) for kind, events in EVENTS.items()} == {
        "tumbling": {"before_insert", "after_insert", "before_flush", "after_flush", "partition_evict",
                     "partition_select"},
        "sliding": {"before_insert", "after_insert", "before_evict", "after_evict", "trigger", "initial_full",
                    "partition_evict", "partition_select"},
    }  # fmt: skip


def test_missed_triggers_fire_back_to_back() -> None:
    """SPEC G-30: the first firing takes 2.5 s; those due at 2 and 3 run at 3.5, that of 4 at 4.0."""
    clock = FakeClock()
    window = SlidingWindow(evict=count(1), trigger=time("1 s"), clock=clock)
    fired: list[float] = []

    def handler(key: Hashable, w: Window) -> None:
        fired.append(clock.now() / SECOND)
        if len(fired) == 1:
            clock.spend(2_500_000)

    window.on("trigger", handler)
    window.open()
    clock.advance_to(5 * SECOND)
    assert fired == [1.0, 3.5, 3.5, 4.0, 5.0]


def test_two_windows_that_catch_up_take_turns() -> None:
    clock, fired = FakeClock(), []
    for name in ("a", "b"):
        window = SlidingWindow(evict=count(1), trigger=time(10), clock=clock)
        window.on("trigger", lambda key, w, name=name: fired.append((name, clock.now())))
        window.open()
    clock.call_at(5, lambda: clock.spend(20))
    clock.advance_to(30)
    assert fired == [("a", 25), ("b", 25), ("a", 25), ("b", 25), ("a", 30), ("b", 30)]


class RunningMean:
    """SPEC G-27, listing 7."""

    def __init__(self) -> None:
        self.mean = 0.0
        self.n = 0
        self.told: list[Any] = []

    def on_open_window(self, key: Hashable) -> None:
        self.told.append(("open", key))

    def on_tuple_insertion(self, row: Any) -> None:
        self.mean += (row["v"] - self.mean) / (self.n + 1)
        self.n += 1

    def on_close_window(self) -> None:
        self.told.append("close")


def test_a_summarizer_stands_for_the_tuples() -> None:
    window = TumblingWindow(evict=count(3), partitioned=True, summarizer=RunningMean)
    means: list[Any] = []
    window.on("before_flush", lambda key, w: means.append((key, w.summarizer(key).mean, w.summarizer(key).told)))
    for value in (1, 2, 6):
        window.insert({"v": value}, "a")
        window.insert({"v": 10 * value}, "b")
        assert window.content("a") == ()
    assert means == [("a", 3.0, [("open", "a"), "close"]), ("b", 30.0, [("open", "b"), "close"])]
    assert window.metrics["partitions"] == 0


@pytest.mark.parametrize("evict", [count(3), delta("v", 4), time(3), punct()], ids=repr)
def test_summarizers_see_what_windows_hold(evict: Any) -> None:
    seen: list[list[Any]] = []
    for summarizer in (None, RunningMean):
        clock = FakeClock()
        window = TumblingWindow(evict=evict, partitioned=True, clock=clock, summarizer=summarizer)
        sizes: list[Any] = []
        window.on("before_flush", lambda key, w, s=sizes: s.append((key, w.size(key))))
        for i in range(40):
            clock.advance_to(i)
            window.insert({"v": i}, i % 3)
            if evict == punct() and i % 7 == 6:
                window.punctuate()
        seen.append([*sizes, window.metrics])
    assert seen[0] == seen[1]


def test_users_select_the_partitions_that_go() -> None:
    window = SlidingWindow(
        evict=count(9), trigger=count(9), partitioned=True, partition_evict=partition_count(2), select="user"
    )
    offered: list[Any] = []
    gone: list[Any] = []

    def largest(candidates: Any) -> None:
        found = list(candidates)
        offered.append([(c.key, c.size) for c in found])
        max(found, key=lambda c: len(c.content)).mark()

    window.on("partition_select", largest)
    window.on("partition_evict", lambda subs: gone.extend(subs))
    for key, row in (("a", 1), ("b", 2), ("b", 3), ("c", 4)):
        window.insert(row, key)
    assert offered == [[("a", 1), ("b", 2)]]
    assert gone == [("b", (2, 3))]


def test_users_are_asked_until_enough_is_gone() -> None:
    window = SlidingWindow(
        evict=count(9), trigger=count(9), partitioned=True, partition_evict=tuple_count(3), select="user"
    )
    asked: list[Any] = []
    window.on("partition_select", lambda candidates: [asked.append(c.key) or c.mark() for c in [next(candidates)]])
    gone: list[Any] = []
    window.on("partition_evict", lambda subs: gone.append([key for key, _ in subs]))
    for row, key in enumerate("abcaaa"):
        window.insert(row, key)
    assert (asked, gone) == (["b", "c"], [["b"], ["c"]])


def test_a_selection_that_marks_nothing_is_named() -> None:
    window = SlidingWindow(
        evict=count(9), trigger=count(9), partitioned=True, partition_evict=partition_count(1), select="user"
    )
    window.insert(1, "a")
    with pytest.raises(DataError, match=r"partition_select marked none of 1 subwindows.*partition_count\(1\).*'b'"):
        window.insert(2, "b")


def test_what_happens_to_an_aged_key_does_not_depend_on_other_keys() -> None:
    for between in (False, True):
        clock = FakeClock()
        window = SlidingWindow(
            evict=count(9), trigger=count(9), partitioned=True, partition_evict=partition_age(10), clock=clock
        )
        window.insert(1, "a")
        clock.advance_to(11)
        if between:
            window.insert(0, "b")
        window.insert(2, "a")
        assert window.content("a") == (2,)


def test_there_is_a_lock_only_where_the_clock_runs() -> None:
    plain = TumblingWindow(evict=count(2), partitioned=True, partition_evict=partition_age("1 s"))
    timed = TumblingWindow(evict=time("1 s"), clock=FakeClock())
    assert plain.locked() is plain.locked()
    assert type(plain.locked()).__name__ == "nullcontext"
    with timed.locked(), timed.locked():
        timed.insert("within")
        assert list(timed.subwindows()) == [(None, ("within",))]
        other = threading.Thread(target=timed.insert, args=("outside",))
        other.start()
        other.join(0.05)
        assert timed.content() == ("within",)
    other.join()
    assert timed.content() == ("within", "outside")


def test_the_wall_clock_flushes_in_its_own_thread() -> None:
    flushed, seen = threading.Event(), []
    window = TumblingWindow(evict=time("20 ms"), clock=SystemClock())
    window.on("before_flush", lambda key, w: seen.append((w.content(key), threading.current_thread().name)))
    window.on("after_flush", lambda key, w: flushed.set())
    window.insert("a")
    assert flushed.wait(30)
    window.close()
    assert seen[0] == (("a",), "panes-clock")
    assert window.metrics["timers"] == 0


def test_windows_without_time_policies_read_no_clock() -> None:
    class Broken(FakeClock):
        def now(self) -> int:
            raise AssertionError("nobody needs the time")

    for window in (
        TumblingWindow(evict=delta("v", 1), clock=Broken()),
        SlidingWindow(evict=count(2), trigger=count(1), clock=Broken()),
    ):
        window.insert({"v": 1})


def test_none_is_a_key() -> None:
    window = TumblingWindow(evict=punct(), partitioned=True)
    window.insert(1, None)
    window.insert(2, "a")
    window.punctuate(None)
    assert list(window.subwindows()) == [("a", (2,))]


def test_a_handler_that_fails_stops_no_later_trigger() -> None:
    clock = FakeClock()
    window = SlidingWindow(evict=count(1), trigger=time(10), clock=clock)
    fired: list[int] = []

    def handler(key: Hashable, w: Window) -> None:
        fired.append(clock.now())
        if len(fired) == 1:
            raise RuntimeError("once")

    window.on("trigger", handler)
    window.open()
    with pytest.raises(RuntimeError, match="once"):
        clock.advance_to(30)
    clock.advance_to(30)
    assert fired == [10, 20, 30]


def test_threads_and_the_clock_lose_no_tuple() -> None:
    window = TumblingWindow(evict=time("1 ms"), partitioned=True, clock=SystemClock())
    flushed: list[Any] = []
    window.on("before_flush", lambda key, w: flushed.extend(w.content(key)))

    def insert(name: int) -> None:
        for i in range(2000):
            window.insert((name, i), i % 7)

    threads = [threading.Thread(target=insert, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with window.locked():
        window.close()
        held = [row for _, rows in window.subwindows() for row in rows]
    assert sorted(flushed + held) == [(name, i) for name in range(4) for i in range(2000)]


def test_timers_of_subwindows_that_are_gone_are_forgotten() -> None:
    clock = FakeClock()
    window = SlidingWindow(
        evict=count(1), trigger=time("1 h"), partitioned=True, partition_evict=partition_count(10), clock=clock
    )
    for key in range(10_000):
        window.insert(key, key)
    assert window.metrics["timers"] < 200
