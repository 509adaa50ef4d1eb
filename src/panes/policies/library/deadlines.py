"""What falls due when, for all subwindows of one window: a priority queue that wakes the window through its clock.

In flow moments at which a subwindow must be looked at; out flow calls to the window, in order of the moments. At
one moment, what leaves a window leaves before a trigger looks at it; then older subwindows come first. Missed moments
are made up for back to back, none is lost.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from panes.clock import Clock, Timer
from panes.policies.library.partitions import Subwindow

#: What is due, in the order in which it happens at one moment.
EVICT, TRIGGER, FORGET = 0, 1, 2


class Deadlines:
    """Moments of one window. The window says what they mean (`run`) and whether they still hold."""

    def __init__(
        self,
        clock: Clock,
        lock: AbstractContextManager[Any],
        run: Callable[[int, int, Subwindow], None],
        holds: Callable[[int, int, Subwindow], bool],
    ) -> None:
        self._clock = clock
        self._lock = lock
        self._run = run
        self._holds = holds
        self._kept = 0  # moments that held when this was last looked into
        self._heap: list[tuple[int, int, int, int, Subwindow]] = []
        self._pushed = 0
        self._timer: Timer | None = None

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, due: int, what: int, age: int, sub: Subwindow) -> None:
        """`sub` must be looked at when it is `due`; `age` orders what is due at once."""
        self._pushed += 1
        heapq.heappush(self._heap, (due, what, age, self._pushed, sub))
        if len(self._heap) > 2 * self._kept + 64:  # moments of subwindows that are gone
            self._heap = [entry for entry in self._heap if self._holds(entry[0], entry[1], entry[4])]
            heapq.heapify(self._heap)
            self._kept = len(self._heap)
        self._arm()

    def run_until(self, now: int) -> None:
        """Make up for everything that was due by now, if the clock's thread has not come to it yet."""
        try:
            while self._heap and self._heap[0][0] <= now:
                due, what, _, _, sub = heapq.heappop(self._heap)
                self._run(due, what, sub)
        finally:  # a handler that fails must not stop the moments after it
            self._arm()

    def close(self) -> None:
        """Nothing is due any more."""
        self._heap.clear()
        self._arm()

    def _arm(self) -> None:
        """Have the clock call at the first moment, and no other."""
        due = self._heap[0][0] if self._heap else None
        if self._timer is not None:
            if self._timer.when == due and not self._timer.cancelled:
                return
            self._timer.cancel()
            self._timer = None
        if due is not None:
            self._timer = self._clock.call_at(due, self._wake)

    def _wake(self) -> None:
        # One moment at a time, so that windows on one clock that catch up do so in the order of their moments.
        with self._lock:
            self._timer = None
            if self._heap and self._heap[0][0] <= self._clock.now():
                self.run_until(self._heap[0][0])
            else:
                self._arm()
