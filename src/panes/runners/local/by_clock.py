"""What the clock does to a stream on which nothing comes: it moves the watermark, so that windows close.

In: beats (listening.py). Out: the tick up to which time has come. The watermark is what it was at the last row plus
the clock's time since, once the silence has lasted as long as `idle` says; a stream of arrival times is where the
clock is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from panes.plan.query import StreamPlan
from panes.plan.silence import Silence
from panes.runners.local.listening import Beat, Ear, Quiet, ear_for
from panes.runners.local.source import Source
from panes.slicing.results import Result
from panes.units import TimeDomain
from panes.windows.base import ALWAYS, NEVER

#: Where nobody knows when something is due, it is looked for so often, in microseconds of the clock.
LOOK = 100_000


class ByClock:
    """The time of one stream while it is quiet."""

    def __init__(self, silence: Silence, domain: TimeDomain, ear: Ear) -> None:
        self._silence = silence
        self._nanos = domain.nanos_per_tick
        self._ear = ear
        self._quiet = Quiet()
        self._left_at: int | None = None  # the watermark as the last row left it

    def row(self) -> None:
        """Something came."""
        self._quiet.row()
        self._left_at = None

    def reached(self, beat: Beat, watermark: Callable[[], int]) -> int | None:
        """The tick that the clock has come to; None: it has no say now. `watermark`: where rows have come to."""
        if self._silence.follows:
            return beat.reached
        if self._silence.arrives:
            # a row that comes now says the same by itself
            return beat.now if beat.waits else None
        if self._silence.idle is None:
            return None
        quiet = self._quiet.hear(beat)
        if quiet < self._silence.idle:
            if beat.waits:
                self._ear.wake_at(self._quiet.since + self._silence.idle)
            return None
        if self._left_at is None:
            self._left_at = watermark()
        if self._left_at == ALWAYS:
            return None  # there was no row yet to count from
        return self._left_at + quiet * 1000 // self._nanos

    def due(self, beat: Beat, tick: int | None, watermark: int) -> None:
        """Wake when the watermark, which is at `watermark`, has come to a tick (None: nobody knows which)."""
        if tick == NEVER:
            return
        if tick is None or tick <= watermark + 1 or self._silence.follows:
            self._ear.wake_at(beat.now + LOOK)
        elif self._silence.arrives:
            self._ear.wake_at(tick)
        elif self._left_at is not None:
            micros = -(-(tick - self._left_at) * self._nanos // 1000)
            self._ear.wake_at(self._quiet.since + micros)


class Advanced(Protocol):
    """The operator of a query, as far as the clock goes."""

    watermark: int

    def advance(self, watermark: int) -> Result: ...

    def next_due(self) -> int: ...


def moved(clock: ByClock, beat: Beat, operator: Advanced) -> tuple[Result | None, Beat]:
    """What an operator gives because of what the clock says, and what that says to those who read its results."""

    def settled() -> int:
        operator.next_due()  # works on rows that wait, which move the watermark
        return operator.watermark

    tick = clock.reached(beat, settled)
    if tick is None:
        return None, beat._replace(reached=None)
    due = operator.next_due()
    result = None
    if tick > operator.watermark:
        result = operator.advance(tick)
        due = operator.next_due()
    if beat.waits:
        clock.due(beat, due, operator.watermark)
    return result, beat._replace(reached=operator.watermark)


class EarlyByClock:
    """When open windows are given as they stand, where that is every so often by the clock."""

    def __init__(self, every: int, ear: Ear) -> None:
        self._every = every
        self._ear = ear
        self._next: int | None = None

    def due(self, beat: Beat) -> bool:
        """Whether it is time, by what the clock says; the first time is one stretch after the run began."""
        now = self._next is not None and beat.now >= self._next
        if now or self._next is None:
            self._next = beat.now + self._every
        if beat.waits:
            self._ear.wake_at(self._next)
        return now


def hand_out(source: Source, stream: StreamPlan, *, promptly: bool, always: bool = False) -> Ear | None:
    """Tell the sources of a run what is asked of them; the ear to listen with, if it goes by a clock.

    `always`: it does so whatever the streams say of themselves, if they may keep it waiting.
    Rows are then handed out as they come in any case: gathered ones would all have come at one moment.
    """
    ear = ear_for((stream.silence, *source.silences), always=always) if source.waits else None
    source.hand_out(promptly=promptly or ear is not None, ear=ear)
    return ear
