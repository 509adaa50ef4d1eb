"""Snapshots of containers: a window goes on as if nothing had happened, and bytes that don't fit are refused."""

from __future__ import annotations

import random
from datetime import datetime
from typing import Any

import pytest

from panes.clock import FakeClock
from panes.errors import QueryError, SnapshotDamaged, SnapshotMismatch, SnapshotUntrusted
from panes.policies.library import SlidingWindow, TumblingWindow, count, delta, punct, time
from panes.policies.library.checkpoint import decode, encode
from panes.state.pickles import trusting
from panes.state.snapshot import unpack
from tests.library.programs import COMBINATIONS, Recorder, container, feed
from tests.library.test_against_oracle import PARTITIONS, random_config, random_rows
from tests.library.test_containers import RunningMean


@pytest.mark.parametrize("partition", PARTITIONS, ids=str)
@pytest.mark.parametrize(("evict", "trigger"), COMBINATIONS)
def test_a_restored_window_goes_on(evict: str, trigger: str | None, partition: tuple[str, str] | None) -> None:
    rng = random.Random(f"{evict} {trigger} {partition} snapshots")
    for _ in range(5):
        config = random_config(rng, evict, trigger, partition)
        rows = random_rows(rng, config)
        until = (rows[-1][0] if rows else 0) + 10
        clock = FakeClock()
        whole = container(config, clock)
        expected = Recorder(whole, clock)
        feed(whole, clock, rows, until)

        cut = rng.randint(0, len(rows))
        clock = FakeClock()
        window = container(config, clock)
        first = Recorder(window, clock)
        feed(window, clock, rows[:cut])
        blob = window.snapshot()
        clock = FakeClock(start=clock.now())
        window = container(config, clock)
        second = Recorder(window, clock)
        window.restore(blob)
        feed(window, clock, rows[cut:], until)
        assert first.events + second.events == expected.events
        assert list(window.subwindows()) == list(whole.subwindows())
        assert window.metrics == whole.metrics


def test_moments_that_passed_meanwhile_are_made_up_for() -> None:
    clock = FakeClock()
    window = SlidingWindow(evict=count(3), trigger=time(10), clock=clock)
    window.insert("a")
    later = FakeClock(start=35)
    again = SlidingWindow(evict=count(3), trigger=time(10), clock=later)
    told: list[Any] = []
    again.on("trigger", lambda key, w: told.append(later.now()))
    again.restore(window.snapshot())
    later.advance_to(40)
    assert told == [35, 35, 35, 40]


@pytest.mark.parametrize(
    ("objects", "name"),
    [
        ([{"v": 1, "s": "a"}, {"v": None, "s": "b"}], "x"),
        ([{"v": float("nan")}], "x"),
        ([None, "a"], "x"),
        ([datetime(2024, 1, 1)], "x"),
        ([b"\x00"], "x"),
        ([], "x"),
        ([("a", 1), ("b", 2)], "x.tuples"),
        ([(1, 2.5), (1.5, 2)], "x.tuples"),
        ([1, 2.5, "a", None, True], "x.json"),
        ([{"v": 1}, {"w": 2}], "x.json"),
        ([2**70], "x.json"),
        ([frozenset({1})], "x.pickled"),
        ([("a", 1), ("b",)], "x.pickled"),
    ],
)
def test_objects_come_back_as_they_were(objects: list[Any], name: str) -> None:
    stored, column = encode("x", objects)
    assert stored == name
    with trusting(name.endswith(".pickled")):
        assert repr(decode(stored, column)) == repr(objects)


def test_pickles_are_flagged() -> None:
    plain = TumblingWindow(evict=count(9), partitioned=True)
    plain.insert({"v": 1}, ("a", 1))
    assert unpack(plain.snapshot())[0]["pickled"] is False
    own = TumblingWindow(evict=count(9), summarizer=RunningMean)
    own.insert({"v": 4})
    assert unpack(own.snapshot())[0]["pickled"] is True
    again = TumblingWindow(evict=count(9), summarizer=RunningMean)
    with pytest.raises(SnapshotUntrusted, match="trusted=True"):
        again.restore(own.snapshot())
    again.restore(own.snapshot(), trusted=True)
    assert again.summarizer().mean == 4.0  # type: ignore[attr-defined]


def test_snapshots_of_other_windows_are_refused() -> None:
    blob = TumblingWindow(evict=count(2)).snapshot()
    for other in (
        TumblingWindow(evict=count(3)),
        TumblingWindow(evict=count(2), partitioned=True),
        SlidingWindow(evict=count(2), trigger=count(1)),
        TumblingWindow(evict=punct()),
    ):
        with pytest.raises(SnapshotMismatch, match="belongs to another window"):
            other.restore(blob)
    with pytest.raises(SnapshotMismatch, match=r"evict was count\(2\), is delta\('v', 2\)"):
        TumblingWindow(evict=delta("v", 2)).restore(blob)


def test_a_snapshot_is_restored_into_a_fresh_window_only() -> None:
    window = TumblingWindow(evict=count(2))
    blob = window.snapshot()
    window.insert(1)
    with pytest.raises(QueryError, match="seen tuples"):
        window.restore(blob)
    with pytest.raises(SnapshotDamaged):
        TumblingWindow(evict=count(2)).restore(blob[:-1])
