"""What a stream does when no rows come: who moves its watermark then, and when it has ended.

In: `idle`, `timeout` and `clock` as users write them. Out: a frozen `Silence`, spans in microseconds of the clock.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass, replace

from panes.clock import Clock, is_clock
from panes.errors import QueryError
from panes.slicing.spec import MANUAL
from panes.units import Calendar, Duration, parse_duration


@dataclass(frozen=True)
class Silence:
    """A stream while nothing comes. Picklable without a clock of its own."""

    #: after so long the clock moves the watermark, on from where the last row left it; None: only rows do
    idle: int | None = None
    #: after so long the stream has ended; None: it may be silent for ever
    timeout: int | None = None
    #: its time is that of the clock, so the watermark is too, at any moment
    arrives: bool = False
    #: it is made of windows inside, and goes where the clock moves those
    follows: bool = False
    #: what tells the time; None: the clock of the machine
    clock: Clock | None = None

    @property
    def active(self) -> bool:
        """Whether someone must look at the clock while no rows come."""
        return self.arrives or self.idle is not None or self.timeout is not None

    @property
    def patience(self) -> int | None:
        """How long others wait for this stream when it is silent; one of arrival times has nothing older to bring."""
        return 0 if self.arrives else self.idle

    @property
    def spoken(self) -> str:
        """What `explain()` says of it; empty if there is nothing to say."""
        said = []
        if self.follows:
            said.append("windows close by the clock where those inside do")
        if self.arrives:
            said.append("windows close by the clock, without waiting for a row")
        if self.idle is not None:
            said.append(f"the clock moves the watermark when no row has come for {span(self.idle)}")
        if self.timeout is not None:
            said.append(f"ended when no row has come for {span(self.timeout)}")
        return "; ".join(said)


#: Only rows move time, and only their end ends the stream.
BY_ROWS = Silence()


def plan_silence(
    idle: object, timeout: object, clock: Clock | None, *, watermark: object = None, pushed: bool = False
) -> Silence:
    """What users wrote, checked. `pushed`: the stream has no data of its own."""
    found = Silence(silent_for(idle, "idle"), silent_for(timeout, "timeout"), clock=clock)
    if clock is not None and not is_clock(clock):
        raise QueryError(f"clock must be a clock with now(), call_at() and wait(), or None; got {clock!r}")
    if idle is not None and watermark == MANUAL:
        raise QueryError(f"idle={idle!r}: with watermark='manual' only advance() moves the watermark, not the clock")
    for name, value in (("idle", idle), ("timeout", timeout)):
        if value is not None and pushed:
            raise QueryError(
                f"{name}={value!r} needs data to listen to: rows of this stream are pushed, and whoever pushes them "
                "knows when there are none; call advance() or finish() then"
            )
    return found


def merged(silences: Iterable[Silence]) -> Silence:
    """Of streams that are one: the clock takes over when all of them are silent; each ends by itself."""
    found = list(silences)
    clock = next((s.clock for s in found if s.clock is not None), None)
    if all(s.arrives for s in found):
        return Silence(arrives=True, clock=clock)
    waits = [s.patience for s in found]
    return Silence(None if None in waits else max(w for w in waits if w is not None), clock=clock)


def inherited(silence: Silence) -> Silence:
    """Of a stream that is made of this one: it goes by the same clock, and ends with it anyway."""
    return replace(silence, timeout=None)


def followed(silence: Silence) -> Silence:
    """Of results that are given as soon as time has come to theirs."""
    return Silence(follows=silence.follows or silence.patience is not None, clock=silence.clock)


def same_idle(silence: Silence, watermark: object) -> Silence:
    """Of the same rows on another time: what comes after a silence is counted in that."""
    return Silence(None if watermark == MANUAL else silence.idle, clock=silence.clock)


def span(micros: int) -> str:
    """So many microseconds, as users write them."""
    return str(Duration(micros * 1000))


def silent_for(given: object, argument: str) -> int | None:
    """A span of the clock in microseconds, as users write it."""
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, str | dt.timedelta | Duration):
        raise QueryError(
            f"{argument} must be a duration of the clock such as '30 s', a timedelta or None; got {given!r}"
        )
    size = parse_duration(given, argument=argument)
    if isinstance(size, Calendar):
        raise QueryError(f"{argument}={given!r}: months and years vary in length, a clock can't count them")
    if size.nanos < 1000:
        raise QueryError(f"{argument}={given!r} must be positive, at least a microsecond")
    return size.nanos // 1000
