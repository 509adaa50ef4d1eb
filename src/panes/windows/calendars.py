"""Windows of calendar days, weeks, months and years in a time zone: their edges are local midnights.

A day of the change to summer time has 23 hours, one of the change back 25. Where a clock skips midnight, the
day starts at the first moment it has. Dates are counted as NumPy does (days since 1970-01-01); the moments
at which they start are found through `zoneinfo` once per date and zone, then remembered.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache

import numpy as np

from panes.errors import QueryError
from panes.units import Calendar, Duration, Size, TimeDomain, parse_calendar, parse_duration, zone
from panes.windows.base import NEVER, TIME, Array, ContextFree

_DAY = 86400
#: Monday 1970-01-05, where weeks are counted from, in days.
_MONDAY = 4
#: 1970-01-01 as Python counts days.
_EPOCH = date(1970, 1, 1).toordinal()
#: Dates that Python and zoneinfo know with some days to spare, first and last; no windows beyond.
_KNOWN = (date(2, 1, 1).toordinal() - _EPOCH, date(9998, 12, 31).toordinal() - _EPOCH)


@lru_cache(maxsize=2**16)
def _start_of_date(day: int, tz: str, clock: int) -> int:
    """The first UTC second at which clocks in `tz` have reached `clock` (seconds after midnight) of a date."""
    where = zone(tz)
    local = datetime.fromordinal(_EPOCH + day) + timedelta(seconds=clock)
    seconds = day * _DAY + clock
    first, second = _offset_at(local, where), _offset_at(local.replace(fold=1), where)
    if first >= second:  # once, or twice: then the first time
        return seconds - first
    # the clock skips `local`: look for the change, which lies in (low, high]
    low, high = seconds - second, seconds - first
    while high - low > 1:
        middle = (low + high) // 2
        if _offset_at(datetime.fromtimestamp(middle, timezone.utc).astimezone(where), where) == second:
            high = middle
        else:
            low = middle
    return high


def _offset_at(local: datetime, where: tzinfo) -> int:
    """Seconds by which clocks in `where` are ahead of UTC."""
    offset = where.utcoffset(local)
    assert offset is not None
    return offset.days * _DAY + offset.seconds


def starts_of_dates(dates: Array, tz: str, clock: int = 0) -> Array:
    """UTC seconds at which each date (days since 1970) starts in `tz`, `clock` seconds after midnight."""
    return np.array([_start_of_date(d, tz, clock) for d in np.clip(dates, *_KNOWN).tolist()], np.int64)


def _add(dates: Array, step: Calendar) -> Array:
    """Dates moved by a calendar step; the 31st becomes the last day of a shorter month."""
    if not step.months:
        return dates + step.days
    months = dates.astype("M8[D]").astype("M8[M]")
    day = dates - months.astype("M8[D]").astype(np.int64)
    first = (months + step.months).astype("M8[D]").astype(np.int64)
    last = (months + step.months + 1).astype("M8[D]").astype(np.int64) - 1
    moved: Array = np.minimum(first + day, last)
    return moved


@dataclass(frozen=True)
class CalendarWindows(ContextFree):
    """Windows that start at every `slide` of the calendar in `tz` and last `size` of it.

    Starts are counted from 1970-01-01 (days, months, years) or Monday 1970-01-05 (weeks), moved by `shift`
    dates and `clock` seconds of local time. Starts and ends both increase with the number of the window.
    """

    size: Calendar = field(kw_only=True)
    slide: Calendar = field(kw_only=True)
    tz: str = field(kw_only=True)
    ticks_per_second: int = field(kw_only=True)
    shift: Calendar = field(default=Calendar(0, "day"), kw_only=True)
    clock: int = field(default=0, kw_only=True)
    #: windows end at every slide instead, and start `size` of the calendar before
    at_end: bool = field(default=False, kw_only=True)

    @property
    def reach(self) -> float:
        return _most_days(self.size) * _DAY * self.ticks_per_second

    def _numbers(self, first_day: int, last_day: int) -> Array:
        """Numbers of all windows that start within these dates, and of a few more around them."""
        margin = _most_days(self.shift) + 9
        low, high = (min(max(d, _KNOWN[0] + margin), _KNOWN[1] - margin) for d in (first_day, last_day))
        low, high = low - margin, high + margin
        if self.slide.months:
            unit, step = "M8[M]", self.slide.months
            low, high = (int(np.datetime64(d, "D").astype(unit).astype(np.int64)) for d in (low, high))
        else:
            step = self.slide.days
        return np.arange(low // step - 1, high // step + 2)

    def _windows(self, numbers: Array) -> tuple[Array, Array]:
        if self.slide.months:
            dates = (numbers * self.slide.months).astype("M8[M]").astype("M8[D]").astype(np.int64)
        else:
            dates = numbers * self.slide.days + (_MONDAY if self.slide.unit == "week" else 0)
        size = replace(self.size, count=-self.size.count) if self.at_end else self.size
        one, other = (self._ticks(_add(some, self.shift)) for some in (dates, _add(dates, size)))
        starts, ends = (other, one) if self.at_end else (one, other)
        there = starts < ends  # not so for dates a zone left out, and beyond the years there are
        return starts[there], ends[there]

    def _ticks(self, dates: Array) -> Array:
        seconds = starts_of_dates(dates, self.tz, self.clock)
        most = (NEVER - 1) // self.ticks_per_second
        ticks: Array = np.clip(seconds, -most, most) * self.ticks_per_second
        return ticks

    def _around(self, lo: float, hi: float) -> tuple[Array, Array]:
        """All windows that start or end in [lo, hi], and some around."""
        first, last = (int(t) // (_DAY * self.ticks_per_second) for t in (lo, hi))
        long = _most_days(self.size)
        return self._windows(self._numbers(first - 2 - (0 if self.at_end else long), last + 2 + long * self.at_end))

    def edges(self, lo: float, hi: float) -> Array:
        both = np.unique(np.concatenate(self._around(lo, hi)))
        return both[(both > lo) & (both <= hi)]

    def ending(self, lo: float, hi: float) -> tuple[Array, Array]:
        starts, ends = self._around(lo, hi)
        mask = (ends > lo) & (ends <= hi)
        return starts[mask], ends[mask]

    def containing(self, value: float) -> tuple[Array, Array]:
        starts, ends = self._around(value, value)
        mask = (starts <= value) & (value < ends)
        return starts[mask], ends[mask]

    def horizon(self, progress: float) -> float:
        ahead = (_most_days(self.slide) + _most_days(self.size)) * _DAY * self.ticks_per_second
        starts, ends = self._around(progress, int(progress) + ahead)
        later = starts[ends > progress]
        return int(later[0]) if len(later) else NEVER


def _most_days(step: Calendar) -> int:
    return abs(step.days) + abs(step.months) * 31 + 1


def bind_calendar(domain: TimeDomain, *, size: Size, every: Size, offset: Size | None, tz: str) -> CalendarWindows:
    """Resolve calendar sizes; `offset` is calendar units, or a time of day."""
    units = {}
    for argument, value in (("size", size), ("every", every)):
        unit = parse_calendar(value, argument=argument) if isinstance(value, str) else None
        if unit is None:
            raise QueryError(
                f"{argument}={value!r} must be in days, weeks, months or years, as the other size is: "
                "calendar units have no fixed length to compare it with"
            )
        if unit.days + unit.months * 31 > 366 * 1000:
            raise QueryError(f"{argument}={value!r} is too large: calendar windows span at most 1000 years")
        units[argument] = unit
    shift, clock = _offset(offset)
    if shift.months and not units["every"].months:
        raise QueryError(f"offset={offset!r} must be in days, as every={every!r} is: months vary in length")
    zone(tz)
    return CalendarWindows(
        TIME,
        size=units["size"],
        slide=units["every"],
        tz=tz,
        ticks_per_second=10**9 // domain.nanos_per_tick,
        shift=shift,
        clock=clock,
    )


def _offset(offset: Size | None) -> tuple[Calendar, int]:
    if offset is None:
        return Calendar(0, "day"), 0
    if not isinstance(offset, str):
        raise QueryError(f'offset={offset!r} of calendar windows must be text with a unit, like "6 hours"')
    unit = parse_calendar(offset, argument="offset")
    if unit is not None:
        return unit, 0
    span = parse_duration(offset, argument="offset")
    seconds, rest = divmod(span.nanos if isinstance(span, Duration) else 0, 10**9)
    if rest or not 0 <= seconds < _DAY:
        raise QueryError(
            f"offset={offset!r} of calendar windows must be whole days or more, or a time of day in seconds"
        )
    return Calendar(0, "day"), seconds
