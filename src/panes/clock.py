"""The one idea of "now": a clock that tells the time, calls back when a moment comes, and lets a run wait for it.

Time is an int in microseconds. In flow moments and callbacks (`call_at`); out flow the callbacks, each once, in order
of their moments. `SystemClock` is the wall clock with one thread of its own; `FakeClock` stands still until it is told
to advance, so tests never sleep, and rows that carry their time drive it (`advance_to(time of the row)` before each
row), so that time policies over recorded data give the same results on every run. Time policies of containers, arrival
times, and streams that go quiet (`idle`, `timeout`) all look at such a clock.
"""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Protocol

from panes.errors import QueryError

#: Seconds that whoever waits waits in one go: a Ctrl-C just before a wait begins does not end it.
HEARING = 1.0
#: A callback that goes wrong must not stop the clock for all others: it is reported here.
log = logging.getLogger("panes.clock")


class Timer:
    """A callback that waits for its moment."""

    __slots__ = ("fn", "order", "when")

    def __init__(self, when: int, order: int, fn: Callable[[], None]) -> None:
        self.when = when
        self.order = order
        self.fn: Callable[[], None] | None = fn

    def cancel(self) -> None:
        """Never call back, if it hasn't happened yet."""
        self.fn = None

    @property
    def cancelled(self) -> bool:
        return self.fn is None

    def __lt__(self, other: Timer) -> bool:
        return (self.when, self.order) < (other.when, other.order)


class Clock(Protocol):
    """Tells the time and calls back."""

    def now(self) -> int:
        """Microseconds; never runs backwards."""

    def call_at(self, when: int, fn: Callable[[], None]) -> Timer:
        """Call `fn` once, as soon as the time is `when` or later."""

    def wait(self, changed: threading.Condition, until: int | None) -> None:
        """Wait until `changed`, which the caller holds, is notified or the time is `until`; perhaps not so long."""


class FakeClock:
    """A clock that moves only when it is told to.

    >>> clock = FakeClock()
    >>> timer = clock.call_at(5, lambda: print("called at", clock.now()))
    >>> clock.advance_to(9)
    called at 5
    >>> clock.now()
    9
    """

    def __init__(self, start: int = 0) -> None:
        self._now = start
        self._order = 0
        self._waiting: list[Timer] = []
        self._running = False
        self._waiters: list[threading.Condition] = []

    def now(self) -> int:
        return self._now

    def call_at(self, when: int, fn: Callable[[], None]) -> Timer:
        self._order += 1
        timer = Timer(when, self._order, fn)
        heapq.heappush(self._waiting, timer)
        return timer

    def advance(self, by: int) -> None:
        """Let `by` microseconds pass, with everything that falls due meanwhile."""
        if by < 0:
            raise QueryError(f"advance(by={by}): time never runs backwards")
        self.advance_to(self._now + by)

    def advance_to(self, moment: int) -> None:
        """Let time pass until `moment`; a moment that has passed already changes nothing.

        Callbacks run in order of their moments (ties: in order of registration) and see their own moment as `now()`,
        or a later one if an earlier callback took time (`spend`).
        """
        if self._running:
            raise QueryError(
                "advance_to() inside a callback: a callback takes time with spend(), the clock runs already"
            )
        self._running = True
        try:
            while self._waiting and self._waiting[0].when <= max(moment, self._now):
                timer = heapq.heappop(self._waiting)
                fn, timer.fn = timer.fn, None
                if fn is not None:
                    self._now = max(self._now, timer.when)
                    fn()
        finally:
            self._running = False
        self._now = max(self._now, moment)
        if self._waiters:
            for changed in tuple(self._waiters):
                with changed:
                    changed.notify_all()

    def wait(self, changed: threading.Condition, until: int | None) -> None:
        """Wait until `changed`, which the caller holds, is notified, or another thread advances to `until`."""
        self._waiters.append(changed)  # first: whoever advances from here on notifies
        try:
            if until is None or self._now < until:
                changed.wait(HEARING)
        finally:
            self._waiters.remove(changed)

    def spend(self, us: int) -> None:
        """What a callback calls to take `us` microseconds; nothing else is called meanwhile."""
        if us < 0:
            raise QueryError(f"spend(us={us}): time never runs backwards")
        self._now += us


class SystemClock:
    """The wall clock. Callbacks run in one daemon thread, started when needed; owners take their own lock."""

    def __init__(self) -> None:
        # The wall clock can be set back; what has passed since the start can't.
        self._offset = time.time_ns() - time.monotonic_ns()
        self._order = 0
        self._waiting: list[Timer] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def now(self) -> int:
        return (time.monotonic_ns() + self._offset) // 1000

    def call_at(self, when: int, fn: Callable[[], None]) -> Timer:
        with self._changed:
            self._order += 1
            timer = Timer(when, self._order, fn)
            heapq.heappush(self._waiting, timer)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="panes-clock", daemon=True)
                self._thread.start()
            elif self._waiting[0] is timer:
                self._changed.notify()
        return timer

    def wait(self, changed: threading.Condition, until: int | None) -> None:
        left = HEARING if until is None else min((until - self.now()) / 1e6, HEARING)
        if left > 0:
            changed.wait(left)

    def _run(self) -> None:
        while True:
            fn = self._next_due()
            if fn is None:
                continue
            try:
                fn()
            except Exception:
                log.exception("a callback of the clock failed; the clock goes on")

    def _next_due(self) -> Callable[[], None] | None:
        """Sleep until a callback is due and take it; None if it was cancelled or the queue has changed."""
        with self._changed:
            if not self._waiting:
                self._changed.wait()
                return None
            wait = self._waiting[0].when - self.now()
            if wait > 0:
                self._changed.wait(wait / 1e6)
                return None
            timer = heapq.heappop(self._waiting)
            fn, timer.fn = timer.fn, None
            return fn


@lru_cache(maxsize=1)
def wall_clock() -> SystemClock:
    """The clock of all that are given none: one thread for all of them."""
    return SystemClock()


def is_clock(given: object) -> bool:
    """Whether it can be waited on; a function that gives times can't."""
    return all(callable(getattr(given, name, None)) for name in ("now", "call_at", "wait"))
