"""Streams on which nothing comes: how long they have been silent, and where the clock has moved their time to.

What a run hears of its clock comes as `Beat`s between rows: before rows, and when there are none. The watermark of a
silent stream is what it was at the last row plus the clock's time since, once the silence has lasted as long as `idle`
says; a stream of arrival times is where the clock is. Nothing here waits: whoever knows of a moment at which something
is due tells the run's `Alarm`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, NamedTuple, Protocol

from panes.plan.silence import Silence
from panes.slicing.results import Result
from panes.state.checked import demand, fact, value
from panes.units import TimeDomain
from panes.windows.base import ALWAYS, NEVER

#: Where nobody knows when something is due, it is looked for so often, in microseconds of the clock.
LOOK = 100_000


class Beat(NamedTuple):
    """What the clock said: the time, and since when nothing has come. `waits`: there is nothing to read now.

    `reached`: the tick that the clock has moved windows inside to; what they give from here on is not before it.
    """

    now: int
    since: int
    waits: bool
    reached: int | None = None


class Alarm(Protocol):
    """The clock of a run, as nodes see it."""

    #: what the clock said when the rows that are worked on now came
    now: int

    def wake_at(self, moment: int) -> None:
        """Something is due at this moment."""


class ClockState:
    """What is remembered of the clock from one step to the next, written and read by the names of attributes.

    Moments are those of the clock of the run, so a run that goes on elsewhere must go by the same one.
    """

    #: whole numbers, true or false, beats, or such objects themselves; what is None at first may stay so
    remembers: ClassVar[tuple[str, ...]] = ()

    def dump_clock(self) -> dict[str, object]:
        """All that is remembered."""
        held = {name: getattr(self, name) for name in self.remembers}
        return {name: each.dump_clock() if isinstance(each, ClockState) else each for name, each in held.items()}

    def load_clock(self, facts: Mapping[str, object]) -> None:
        """Go on from there; for an object that has heard nothing."""
        demand(set(facts) == set(self.remembers), "something else is remembered of the clock")
        for name in self.remembers:
            fresh, kept = getattr(self, name), facts[name]
            if isinstance(fresh, ClockState):
                fresh.load_clock(fact(facts, name, dict))
            elif isinstance(kept, list | Beat):
                demand(fresh is None, f"{name!r} is not a beat")
                setattr(self, name, _beat(kept))
            elif kept is not None or fresh is not None:
                setattr(self, name, value(kept, name, int if fresh is None else type(fresh)))


def _beat(kept: list[object] | Beat) -> Beat:
    demand(len(kept) == len(Beat._fields), "a beat has too few parts, or too many")
    now, since, waits, reached = kept
    tick = None if reached is None else value(reached, "reached", int)
    return Beat(value(now, "now", int), value(since, "since", int), value(waits, "waits", bool), tick)


class Quiet(ClockState):
    """How long a stream has been silent, as whoever reads it sees it."""

    remembers = ("since", "_now", "_last")

    def __init__(self) -> None:
        #: when the silence began
        self.since = 0
        self._now = self._last = -(2**63)

    def hear(self, beat: Beat) -> int:
        """How long the silence has lasted, in microseconds."""
        self._now = beat.now
        self.since = max(self._last, beat.since)
        return beat.now - self.since

    def row(self) -> None:
        """Something came, when the beat before it said."""
        self._last = self._now


class SilenceLimit(ClockState):
    """Ends a stream on which nothing has come for so long; None: it never does."""

    remembers = ("_quiet", "over")

    def __init__(self, timeout: int | None, alarm: Alarm | None) -> None:
        self._timeout = None if alarm is None else timeout
        self._alarm = alarm
        self._quiet = Quiet()
        self.over = False

    def row(self) -> None:
        """Something came."""
        self._quiet.row()

    def hear(self, beat: Beat) -> bool:
        """Whether the stream has ended."""
        if self._timeout is None or self._alarm is None:
            return False
        if self._quiet.hear(beat) >= self._timeout:
            self.over = True
        elif beat.waits:
            self._alarm.wake_at(self._quiet.since + self._timeout)
        return self.over


class ByClock(ClockState):
    """The time of one stream while it is quiet."""

    remembers = ("_quiet", "_left_at")

    def __init__(self, silence: Silence, domain: TimeDomain, alarm: Alarm) -> None:
        self._silence = silence
        self._nanos = domain.nanos_per_tick
        self._alarm = alarm
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
                self._alarm.wake_at(self._quiet.since + self._silence.idle)
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
            self._alarm.wake_at(beat.now + LOOK)
        elif self._silence.arrives:
            self._alarm.wake_at(tick)
        elif self._left_at is not None:
            micros = -(-(tick - self._left_at) * self._nanos // 1000)
            self._alarm.wake_at(self._quiet.since + micros)


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


class EarlyByClock(ClockState):
    """When open windows are given as they stand, where that is every so often by the clock."""

    remembers = ("_next",)

    def __init__(self, every: int, alarm: Alarm) -> None:
        self._every = every
        self._alarm = alarm
        self._next: int | None = None

    def due(self, beat: Beat) -> bool:
        """Whether it is time, by what the clock says; the first time is one stretch after the run began."""
        now = self._next is not None and beat.now >= self._next
        if now or self._next is None:
            self._next = beat.now + self._every
        if beat.waits:
            self._alarm.wake_at(self._next)
        return now
