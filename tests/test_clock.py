"""Clocks: the fake one to the letter, the wall clock for what doesn't depend on how fast the machine is."""

from __future__ import annotations

import logging
import threading

import pytest

from panes.clock import FakeClock, SystemClock
from panes.errors import QueryError


def test_callbacks_run_in_order_and_see_their_moment() -> None:
    clock, seen = FakeClock(), []
    for when, name in ((5, "late"), (3, "first"), (3, "second"), (9, "never")):
        clock.call_at(when, lambda name=name: seen.append((name, clock.now())))  # type: ignore[misc]
    clock.advance_to(8)
    assert seen == [("first", 3), ("second", 3), ("late", 5)]
    assert clock.now() == 8


def test_a_callback_registers_another() -> None:
    clock, seen = FakeClock(), []

    def again() -> None:
        seen.append(clock.now())
        clock.call_at(clock.now() + 2, again)

    clock.call_at(1, again)
    clock.advance(6)
    assert seen == [1, 3, 5]


def test_cancelled_callbacks_never_run() -> None:
    clock, seen = FakeClock(), []
    timer = clock.call_at(1, lambda: seen.append(1))
    timer.cancel()
    clock.advance(2)
    assert seen == []


def test_a_callback_takes_time() -> None:
    clock, seen = FakeClock(), []
    clock.call_at(1, lambda: clock.spend(5))
    clock.call_at(2, lambda: seen.append(clock.now()))
    clock.advance_to(1)
    assert seen == [6]
    assert clock.now() == 6


def test_time_never_runs_backwards() -> None:
    clock = FakeClock(start=5)
    clock.advance_to(3)
    assert clock.now() == 5
    for move in (clock.advance, clock.spend):
        with pytest.raises(QueryError, match="never runs backwards"):
            move(-1)


def test_the_clock_runs_already_inside_a_callback() -> None:
    clock = FakeClock()
    clock.call_at(1, lambda: clock.advance(1))
    with pytest.raises(QueryError, match="spend"):
        clock.advance(5)
    clock.advance(5)  # it has not stuck
    assert clock.now() == 6


def test_system_clock_calls_in_order_of_moments_in_its_thread() -> None:
    clock, seen, registered, done = SystemClock(), [], threading.Event(), threading.Event()
    now = clock.now()

    def hold() -> None:  # the clock's thread, until all others wait: then nothing depends on how fast we are
        assert registered.wait(30)

    clock.call_at(now, hold)
    clock.call_at(now + 2000, done.set)
    clock.call_at(now - 5, lambda: seen.append(("past", threading.current_thread().daemon)))
    clock.call_at(now + 1000, lambda: seen.append(("soon", threading.current_thread().daemon)))
    clock.call_at(now + 500, lambda: seen.append(("never", True))).cancel()
    registered.set()
    assert done.wait(30)
    assert seen == [("past", True), ("soon", True)]
    assert clock.now() >= now + 2000


def test_system_clock_survives_a_callback_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    clock, done = SystemClock(), threading.Event()
    with caplog.at_level(logging.ERROR, "panes.clock"):
        clock.call_at(clock.now(), lambda: 1 / 0)  # type: ignore[arg-type, return-value]
        clock.call_at(clock.now() + 1, done.set)
        assert done.wait(30)
    assert "ZeroDivisionError" in caplog.text
