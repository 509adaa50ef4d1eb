"""Sizes and points of time: what users write ("1.5 min", `timedelta`, `pn.rows(10)`) as exact integers.

In flow the arguments of window specs; out flow ticks of a stream's time column (`TimeDomain`), row
counts (`Rows`) and calendar units (`Calendar`). Durations are whole nanoseconds inside, so nothing is
lost between "100 ms" and an int64 tick.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from fractions import Fraction
from functools import lru_cache
from numbers import Integral, Real
from typing import TYPE_CHECKING, TypeAlias, TypeGuard, TypeVar

import numpy as np

from panes.errors import DataError, QueryError

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

_Number = TypeVar("_Number", int, float)
#: Largest size of anything, in ticks: sums of a time and two sizes then never leave exact integers by far.
MAX_TICKS = 2**62

_NANOS = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
    "day": 86400 * 10**9,
    "week": 7 * 86400 * 10**9,
}

_SPELLINGS = {
    "ns": "ns nano nanos nanosec nanosecs nanosecond nanoseconds",
    "us": "us µs μs micro micros microsec microsecs microsecond microseconds",
    "ms": "ms milli millis millisec millisecs millisecond milliseconds",
    "s": "s sec secs second seconds",
    "min": "m min mins minute minutes",
    "h": "h hr hrs hour hours",
    "day": "d day days",
    "week": "w wk wks week weeks",
    "month": "mo mon mons month months",
    "year": "y yr yrs year years",
}
_UNIT_OF = {word: unit for unit, words in _SPELLINGS.items() for word in words.split()}
_PART = re.compile(r"\s*([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)\s*([^\W\d_]+)\s*,?")
_PARTS = re.compile(f"(?:{_PART.pattern})+\\s*")
_NUMBER = re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)\s*")


@dataclass(frozen=True)
class Duration:
    """An exact span of time."""

    nanos: int

    def __str__(self) -> str:
        for unit in ("week", "day", "h", "min", "s", "ms", "us"):
            if self.nanos and self.nanos % _NANOS[unit] == 0:
                count = self.nanos // _NANOS[unit]
                plural = "s" if unit in ("day", "week") and abs(count) != 1 else ""
                return f"{count} {unit}{plural}"
        return f"{self.nanos} ns"


@dataclass(frozen=True)
class Calendar:
    """A number of calendar units: their length in hours depends on where they lie."""

    count: int
    unit: str  # "day" | "week" | "month" | "year"

    def __str__(self) -> str:
        return f"{self.count} {self.unit}{'' if abs(self.count) == 1 else 's'}"

    @property
    def months(self) -> int:
        return self.count * {"month": 1, "year": 12}.get(self.unit, 0)

    @property
    def days(self) -> int:
        return self.count * {"day": 1, "week": 7}.get(self.unit, 0)


@dataclass(frozen=True)
class Rows:
    """A number of rows of one key."""

    count: int

    def __post_init__(self) -> None:
        if isinstance(self.count, bool) or not isinstance(self.count, Integral):
            raise QueryError(f"rows({self.count!r}): the number of rows must be an integer")
        if not 0 < self.count <= MAX_TICKS:
            raise QueryError(f"rows({self.count!r}): the number of rows must be positive and below 2**62")
        object.__setattr__(self, "count", int(self.count))

    def __repr__(self) -> str:
        return f"rows({self.count})"


def rows(count: int) -> Rows:
    """A window size or slide counted in rows of a key: `pn.tumbling(pn.rows(100))`."""
    return Rows(count)


Size: TypeAlias = "str | timedelta | int | float | Rows | Duration"
#: A time, or a number of ticks, or a place on another measure.
Point: TypeAlias = "str | date | np.datetime64 | int | float"


def unit_of(word: str) -> str | None:
    """The unit that a word spells, as `_NANOS` and `Calendar` name it; None if it is no unit."""
    return _UNIT_OF.get(word.lower())


def looks_like_duration(text: str) -> bool:
    """Whether `text` is a number with or without a unit, so that it can only be meant as a duration."""
    return bool(_PARTS.fullmatch(text) or _NUMBER.fullmatch(text))


@lru_cache(maxsize=1024)  # the same few sizes are read again for every query, window and operator
def parse_duration(size: str | timedelta | Duration, *, argument: str = "size") -> Duration | Calendar:
    """Read a duration: "10 s", "1.5 min", "1 h 30 min", `timedelta`; months and years become `Calendar`.

    >>> parse_duration("1.5 min")
    Duration(nanos=90000000000)
    >>> parse_duration("3 months")
    Calendar(count=3, unit='month')
    """
    if isinstance(size, Duration):
        return size
    if isinstance(size, timedelta):
        return Duration(_timedelta_nanos(size))
    if _NUMBER.fullmatch(size):
        raise QueryError(f'{argument}={size!r} has no unit: write "{size.strip()} s", or a number without quotes')
    if not _PARTS.fullmatch(size):
        raise QueryError(f'{argument}={size!r} is not a duration: write a number and a unit, like "10 s" or "2 hours"')
    nanos = Fraction(0)
    calendar: Calendar | None = None
    parts = _PART.findall(size)
    for number, word in parts:
        unit = _unit(word, size, argument)
        if unit in _NANOS:
            nanos += Fraction(number) * _NANOS[unit]
            continue
        if len(parts) > 1:
            raise QueryError(f"{argument}={size!r} mixes units: months and years vary in length and stand alone")
        count = Fraction(number)
        if count.denominator != 1:
            raise QueryError(f"{argument}={size!r}: months and years come in whole numbers, their length varies")
        calendar = Calendar(int(count), unit)
    if calendar is not None:
        return calendar
    if nanos.denominator != 1:
        raise QueryError(f"{argument}={size!r} is not a whole number of nanoseconds, the finest unit there is")
    return Duration(int(nanos))


def _unit(word: str, text: str, argument: str) -> str:
    if word == "M":
        raise QueryError(f'{argument}={text!r}: "M" could be minutes or months; write "min" or "months"')
    unit = _UNIT_OF.get(word.lower())
    if unit is None:
        raise QueryError(
            f"{argument}={text!r}: unknown unit {word!r}; use ns, us, ms, s, min, h, day, week, month or year"
        )
    return unit


def parse_calendar(size: str | timedelta | Duration, *, argument: str = "size") -> Calendar | None:
    """Read a calendar unit: whole days, weeks, months or years written as such; None for other durations."""
    parsed = parse_duration(size, argument=argument)
    if isinstance(parsed, Calendar):
        return parsed
    if not isinstance(size, str):
        return None
    parts = _PART.findall(size)
    if len(parts) != 1 or _UNIT_OF[parts[0][1].lower()] not in ("day", "week"):
        return None
    count = Fraction(parts[0][0])
    if count.denominator != 1:
        return None
    return Calendar(int(count), _UNIT_OF[parts[0][1].lower()])


def _timedelta_nanos(delta: timedelta) -> int:
    micros = (delta.days * 86400 + delta.seconds) * 10**6 + delta.microseconds
    return micros * 1000 + int(getattr(delta, "nanoseconds", 0))  # pandas' Timedelta counts nanoseconds too


def is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_))


@dataclass(frozen=True)
class TimeDomain:
    """How a stream's time column counts: int64 ticks of `unit` since 1970-01-01 UTC.

    `integer`: the column is a plain integer, so bare numbers are sizes in its own units.
    """

    unit: str = "us"  # "s" | "ms" | "us" | "ns"
    integer: bool = False
    tz: str | None = None

    def __post_init__(self) -> None:
        if self.unit not in ("s", "ms", "us", "ns"):
            raise QueryError(f"time unit {self.unit!r} is unknown; use one of s, ms, us, ns")

    @property
    def nanos_per_tick(self) -> int:
        return _NANOS[self.unit]

    def ticks(self, size: Size, *, argument: str = "size", positive: bool = True) -> int:
        """A duration, timedelta or (on integer time) number as ticks; QueryError if they are not whole."""
        if is_number(size):
            if not self.integer:
                raise QueryError(f'{argument}={size!r} has no unit: time is a timestamp, write "{size} s" or the like')
            count = _whole(size, argument, "ticks of the integer time column")
        elif isinstance(size, (str, timedelta, Duration)):
            parsed = parse_duration(size, argument=argument)
            if isinstance(parsed, Calendar):
                raise QueryError(f"{argument}={str(parsed)!r} varies in length: only sizes and slides may be in months")
            count, rest = divmod(parsed.nanos, self.nanos_per_tick)
            if rest:
                raise QueryError(
                    f"{argument}={str(parsed)!r} is not a whole number of ticks: time counts in {self.unit}"
                )
        else:
            raise QueryError(
                f"{argument}={size!r} is not a duration: use a string like '10 s', a timedelta or a number"
            )
        return check_size(count, argument, size, positive=positive)

    def point(self, value: Point, *, argument: str = "start") -> int:
        """A datetime, ISO string or tick as a tick. Without a zone of its own, a datetime is UTC."""
        if is_number(value):
            tick = _whole(value, argument, "ticks of the time column")
        else:
            nanos = nanos_since_epoch(value, argument=argument)
            tick, rest = divmod(nanos, self.nanos_per_tick)
            if rest:
                raise QueryError(f"{argument}={value!r} lies between two ticks: the time column counts in {self.unit}")
        if not -(2**63) <= tick < 2**63:
            raise QueryError(f"{argument}={value!r} is out of the range of int64 ticks of {self.unit}")
        return tick

    def to_datetime(self, tick: int) -> datetime:
        """The tick as an aware datetime in `tz` (UTC if there is none), cut to microseconds."""
        micros = int(tick) * self.nanos_per_tick // 1000
        try:
            moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=micros)
            return moment if self.tz is None else moment.astimezone(zone(self.tz))
        except OverflowError:
            raise DataError(f"time {tick} ({self.unit}) is outside the years 1 to 9999 of a datetime") from None

    def shown(self, tick: int) -> int | datetime:
        """The tick in the terms of the time column: a number, or a datetime, without a zone if the column has none.

        Beyond the years 1 to 9999 it is the first or the last datetime there is.
        """
        if self.integer:
            return int(tick)
        try:
            moment = self.to_datetime(tick)
        except DataError:
            moment = (datetime.min if tick < 0 else datetime.max).replace(tzinfo=timezone.utc)
        return moment.replace(tzinfo=None) if self.tz is None else moment


def zone(name: str, *, argument: str = "tz") -> ZoneInfo:
    """The time zone called `name`; QueryError if there is none."""
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, TypeError, OSError):  # what zoneinfo raises for unknown or malformed names
        raise QueryError(f"{argument}={name!r} is no known time zone: use a name like 'Europe/Berlin'") from None


def check_size(count: _Number, argument: str, shown: object, *, positive: bool = True) -> _Number:
    """Refuse sizes of zero, negative ones and those no int64 holds, by name."""
    if positive and count <= 0:
        raise QueryError(f"{argument}={shown!r} must be positive: a window can't be empty or run backwards")
    if abs(count) > MAX_TICKS:
        raise QueryError(f"{argument}={shown!r} is too large: at most 2**62 ticks")
    return count


def _whole(value: float, argument: str, what: str) -> int:
    if value != value or value in (float("inf"), float("-inf")) or int(value) != value:
        raise QueryError(f"{argument}={value!r} must be a whole number: it counts {what}")
    return int(value)


_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(?:[.,](\d{1,9}))?)?\s*(Z|z|UTC|[+-]\d\d:?\d\d|[+-]\d\d)?"
)


def nanos_since_epoch(value: object, *, argument: str = "start") -> int:
    """A datetime, date or ISO string as nanoseconds since 1970; UTC unless it has a zone of its own."""
    if isinstance(value, np.datetime64):
        if np.isnat(value):
            raise QueryError(f"{argument}={value!r} is not a point in time")
        unit, step = np.datetime_data(value.dtype)
        moment = value
        if unit not in _NANOS:  # days, months and the like are whole seconds, which don't overflow
            moment, unit, step = moment.astype("M8[s]"), "s", 1
        return int(moment.astype(np.int64)) * step * _NANOS[unit]
    if isinstance(value, str):
        return _iso_nanos(value, argument)
    if isinstance(value, datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=timezone.utc)
        return _timedelta_nanos(aware - datetime(1970, 1, 1, tzinfo=timezone.utc))
    if isinstance(value, date):
        return (value - date(1970, 1, 1)).days * _NANOS["day"]
    raise QueryError(f"{argument}={value!r} is not a point in time: use a datetime, an ISO string or a number of ticks")


def _iso_nanos(text: str, argument: str) -> int:
    """ISO 8601 with up to nine digits of fraction, which `datetime.fromisoformat` doesn't read on 3.10."""
    match = _ISO.fullmatch(text.strip())
    if match is None:
        raise QueryError(f"{argument}={text!r} is no ISO date: write it like '2024-03-31T02:00:00Z'")
    day, clock, fraction, offset = match.groups()
    try:
        local = datetime.fromisoformat(f"{day}T{clock or '00:00'}")
    except ValueError as error:
        raise QueryError(f"{argument}={text!r} is no valid date: {error}") from None
    nanos = _timedelta_nanos(local - datetime(1970, 1, 1)) + int((fraction or "0").ljust(9, "0"))
    if offset and offset not in ("Z", "z", "UTC"):
        digits = offset[1:].replace(":", "").ljust(4, "0")
        minutes = int(digits[:2]) * 60 + int(digits[2:])
        nanos -= (minutes if offset[0] == "+" else -minutes) * _NANOS["min"]
    return nanos
