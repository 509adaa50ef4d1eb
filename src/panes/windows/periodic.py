"""Windows at regular steps: tumbling and sliding, on event time, on rows, or on an advancing column.

A window starts at every multiple of the slide (plus offset) and is `size` long. Sliding ones overlap when the
slide is shorter than the size, and leave gaps when it is longer. Size and slide may lie on different measures, each
event time, rows, or an advancing column: "last 10 rows every 5 s". Steps of the slide are then ticks, and the window
holds the last `size` of the rows before a tick (`LookBack`). Calendar units become `CalendarWindows`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from panes.errors import QueryError
from panes.units import Rows, Size, TimeDomain, is_number, parse_calendar
from panes.windows.base import (
    ALWAYS,
    NEVER,
    ROWS,
    SINCE,
    TIME,
    Array,
    Bound,
    ContextFree,
    LookBack,
    Measure,
    Regular,
)
from panes.windows.grid import Grid, PeriodicFamily
from panes.windows.spec import CHECKS, WrittenWindow, columns_of, measured, shift

__all__ = ["Periodic", "PeriodicFamily", "Sliding", "Tumbling", "sliding", "tumbling"]

#: `offset` of windows that are counted from the first row of their key
FIRST_ROW = "first row"


@dataclass(frozen=True)
class Periodic(Regular):
    """Windows at regular steps, by exact arithmetic."""

    size: float = field(kw_only=True)
    slide: float = field(kw_only=True)
    offset: float = field(default=0, kw_only=True)
    partial: bool = field(default=False, kw_only=True)

    @cached_property
    def _places(self) -> tuple[Grid, int, int, int]:
        grid, (size, slide, offset) = Grid.of(self.size, self.slide, self.offset)
        return grid, size, slide, offset % slide

    @property
    def reach(self) -> float:
        return self.size

    def edges(self, lo: float, hi: float) -> Array:
        grid, size, slide, offset = self._places
        low, high = grid.index(lo), grid.index(hi)
        found = [self._steps(low, high, offset)]
        if size % slide:
            found.append(self._steps(low, high, offset + size))
        for limit in (grid.low, grid.high):  # an edge cut to the limit is an edge too
            if (lo < grid.value(limit) <= hi) and self._windows_over(limit):
                found.append(np.array([grid.value(limit)], grid.dtype))
        return found[0] if len(found) == 1 else np.unique(np.concatenate(found))

    def _steps(self, low: int, high: int, origin: int) -> Array:
        grid, _, slide, _ = self._places
        first = (low - origin) // slide + 1
        if self.measure.kind == "rows":
            first = max(first, 0)
        return grid.steps(first, (high - origin) // slide, slide, origin)

    def _windows_over(self, place: int) -> bool:
        _, size, slide, offset = self._places
        if self.measure.kind == "rows" and place < 0:
            return False
        return (place - offset - 1) // slide > (place - offset - size - 1) // slide

    def ending(self, lo: float, hi: float) -> tuple[Array, Array]:
        grid, size, slide, offset = self._places
        low, high = grid.index(lo), grid.index(hi)
        if low >= grid.high:
            return self._windows(0, -1)
        first = (low - offset - size) // slide + 1
        # at the limit all windows end that are cut there
        last = (high - offset - size) // slide if high < grid.high else (high - 1 - offset) // slide
        return self._windows(first, last)

    def containing(self, value: float) -> tuple[Array, Array]:
        grid, size, slide, offset = self._places
        if not grid.covers(value):
            return self._windows(0, -1)
        place = grid.index(value)
        return self._windows((place - offset - size) // slide + 1, (place - offset) // slide)

    def _windows(self, first: int, last: int) -> tuple[Array, Array]:
        grid, size, slide, offset = self._places
        if self.measure.kind == "rows":
            first = max(first, 0)
        starts = grid.steps(first, last, slide, offset)
        ends = grid.steps(first, last, slide, offset + size)
        return starts, ends

    def ends_over(self, values: Array) -> tuple[Array, Array]:
        grid, size, slide, offset = self._places
        if not (grid.dtype == np.int64 and self.measure.kind == "time"):
            return super().ends_over(values)
        after = (values - offset) % slide  # since the last start
        held = after < size
        last = np.minimum(values - after, NEVER - 1 - size) + size
        first = last - (size - 1 - after) // slide * slide
        return np.where(held, first, NEVER), np.where(held, last, ALWAYS)

    def horizon(self, progress: float) -> float:
        grid, size, slide, offset = self._places
        place = grid.index(progress)
        k = (place - offset - size) // slide + 1
        if self.measure.kind == "rows":
            k = max(k, 0)
        start = max(offset + k * slide, grid.low)
        return grid.never() if place >= grid.high or start >= grid.high else grid.value(start)

    def edge_before(self, values: Array) -> Array:
        grid, size, slide, offset = self._places
        places = grid.indexes(values)
        down = (places % slide - offset) % slide
        if size % slide:
            down = np.minimum(down, (places % slide - (offset + size) % slide) % slide)
        return grid.values(places - down)


@dataclass(frozen=True)
class _Length:
    """A size and the column it is measured on (None: event time, or rows)."""

    value: Size
    on: str | None

    def measure(self) -> Measure:
        if isinstance(self.value, Rows):
            return ROWS
        return TIME if self.on is None else Measure("column", self.on)


def _lengths(size: Size, every: Size, on: str | None, every_on: str | None) -> tuple[_Length, _Length]:
    """Which measure size and slide are on.

    `on` is the column of the size, and of the slide unless that is in rows or a duration or has `every_on`;
    with a size in rows it is the column of the slide.
    """
    if isinstance(size, Rows) and not isinstance(every, Rows):
        if on is not None and every_on is not None:
            raise QueryError(
                f"on={on!r} and every_on={every_on!r} with size={size!r}: rows need no column; leave out on"
            )
        return _Length(size, None), _Length(every, on if every_on is None else every_on)
    if every_on is not None:
        if not is_number(every):
            raise QueryError(f"every={every!r} with every_on={every_on!r} must be a number: it is not an event time")
        return _Length(size, on), _Length(every, every_on)
    if isinstance(size, Rows) or isinstance(every, Rows):
        if isinstance(size, Rows) and on is not None:
            raise QueryError(
                f"on={on!r} with size={size!r}, every={every!r}: rows are counted per key, they need no column"
            )
        return _Length(size, on), _Length(every, None)
    return _Length(size, on), _Length(every, on if is_number(every) else None)


def _bind_back(domain: TimeDomain, length: _Length, ticks: Bound, *, at_end: bool, unchanged: bool = False) -> LookBack:
    """The last `length` at each tick."""
    if not isinstance(ticks, ContextFree):
        raise QueryError(f"every: {ticks!r} has no regular steps")
    if ticks.measure == SINCE:
        raise QueryError('offset="first row" is for windows whose size is on event time as well')
    if at_end and ticks.measure != ROWS:
        raise QueryError(f"partial=True is for slides in rows: on {ticks.measure} every window has an end")
    measure, (size,) = measured(domain, length.on, size=length.value)
    columns = tuple(dict.fromkeys((*columns_of(ticks.measure), *columns_of(measure))))
    return LookBack(
        ticks.measure, back=measure, size=size, ticks=ticks, at_end=at_end, unchanged=unchanged, columns=columns
    )


def bind_sliding(domain: TimeDomain, spec: Sliding) -> Bound:
    """Decide which measures size and slide are on, and where windows of one measure lie."""
    size, every = _lengths(spec.size, spec.every, spec.on, spec.every_on)
    at_end = spec.align == "end"
    mixed = size.measure() != every.measure()
    if spec.unchanged and (not mixed or every.measure() == ROWS):
        raise QueryError(
            "unchanged=True is for a size and a slide on different measures, the slide on time or on a column: other "
            "windows are given whether or not rows have come since the last one"
        )
    if spec.partial and not (mixed or at_end):
        raise QueryError(
            'partial=True needs align="end": windows that start at every slide are many at the end of the stream'
        )
    if mixed or (at_end and size.measure() == ROWS):
        ticks = bind_periodic(domain, size=every.value, every=every.value, on=every.on, offset=spec.offset, tz=spec.tz)
        return _bind_back(domain, size, ticks, at_end=spec.partial, unchanged=spec.unchanged)
    bound = bind_periodic(domain, size=spec.size, every=spec.every, on=size.on, offset=spec.offset, tz=spec.tz)
    if not at_end:
        return bound
    if spec.partial:
        raise QueryError(f"partial=True is for slides in rows: on {bound.measure} every window has an end")
    if isinstance(bound, Periodic):
        return replace(bound, offset=bound.offset - bound.size)
    from panes.windows.calendars import CalendarWindows

    assert isinstance(bound, CalendarWindows)
    return replace(bound, at_end=True)


def bind_periodic(
    domain: TimeDomain,
    *,
    size: Size,
    every: Size,
    on: str | None,
    offset: Size | None,
    tz: str | None,
    partial: bool = False,
) -> Bound:
    """Resolve sizes of one measure."""
    if offset == FIRST_ROW:
        found = bind_periodic(domain, size=size, every=every, on=on, offset=None, tz=tz, partial=partial)
        if found.measure != TIME or not isinstance(found, Periodic):
            raise QueryError(
                f"offset={offset!r} is for windows of fixed length on event time; "
                "windows on rows start at the first row anyway"
            )
        return replace(found, measure=SINCE)
    if on is None and (_is_calendar(size, tz) or _is_calendar(every, tz)):
        from panes.windows.calendars import bind_calendar

        return bind_calendar(domain, size=size, every=every, offset=offset, tz=tz or "UTC")
    if tz is not None:
        raise QueryError(f"tz={tz!r} with size={size!r}: only days, weeks, months and years depend on a time zone")
    measure, (length, slide, shift) = measured(domain, on, size=size, every=every, offset=offset)
    if partial and measure != ROWS:
        raise QueryError(f"partial=True is for windows on rows: on {measure} every window has an end")
    bound = Periodic(measure, size=length, slide=slide, offset=shift, partial=partial, columns=columns_of(measure))
    bound._places  # noqa: B018  (refuses sizes without exact edges now, not at the first row)
    return bound


def _is_calendar(size: Size, tz: str | None) -> bool:
    if not isinstance(size, str):
        return False
    unit = parse_calendar(size)
    return unit is not None and (tz is not None or bool(unit.months))


def _offset(value: Size, argument: str) -> Size:
    return value if value == FIRST_ROW else shift(value, argument)


_CHECKS = {**CHECKS, "offset": _offset}


@dataclass(frozen=True, repr=False)
class Tumbling(WrittenWindow):
    """Windows one after the other: see `tumbling`."""

    size: Size
    on: str | None = None
    offset: Size | None = None
    tz: str | None = None
    partial: bool = False

    checks = _CHECKS

    def bind(self, domain: TimeDomain) -> Bound:
        return bind_periodic(
            domain, size=self.size, every=self.size, on=self.on, offset=self.offset, tz=self.tz, partial=self.partial
        )


@dataclass(frozen=True, repr=False)
class Sliding(WrittenWindow):
    """Windows at every slide: see `sliding`."""

    size: Size
    every: Size
    on: str | None = None
    every_on: str | None = None
    align: str = "start"
    partial: bool = False
    unchanged: bool = False
    offset: Size | None = None
    tz: str | None = None
    checks = _CHECKS

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.align not in ("start", "end"):
            raise QueryError(f'align={self.align!r} must be "start" or "end": which of them lies at every slide')

    def bind(self, domain: TimeDomain) -> Bound:
        return bind_sliding(domain, self)


def tumbling(
    size: Size, *, on: str | None = None, offset: Size | None = None, tz: str | None = None, partial: bool = False
) -> Tumbling:
    """Windows one after the other, without gaps: every row is in exactly one.

    `size`: a duration ("1 min"), `pn.rows(n)`, a number in units of the column `on`, or a calendar unit
    ("1 month", and "1 day" with `tz`). `offset` moves all starts; "first row": the first window of a key starts
    at its first row. `partial`: on rows, the end of the stream ends the last window too.

    >>> tumbling("1 min")
    tumbling("1 min")
    """
    return Tumbling(size, on, offset, tz, partial)


def sliding(
    size: Size,
    *,
    every: Size,
    on: str | None = None,
    every_on: str | None = None,
    align: str = "start",
    partial: bool = False,
    unchanged: bool = False,
    offset: Size | None = None,
    tz: str | None = None,
) -> Sliding:
    """Windows of `size` that start at every `every`: overlapping if it is shorter, with gaps if longer.

    Both may be durations, `pn.rows(n)`, or numbers in units of the column `on`. If their measures differ, a window
    ends at every `every` and holds the last `size` before it: "the last 10 rows every 5 s", "the last 5 s every 10
    rows". `every_on`: the column of the slide, if it is not that of the size.

    `align="end"`: windows end at every `every` also where both are of one measure; the first ones hold what there
    is. `partial`: with a slide in rows, the end of the stream is the end of a window too. `unchanged`: "the last 10
    rows every 5 s" are given every 5 s, also where no row has come since the last time; up to the watermark, and at
    the end of the stream up to the last row of any key.

    >>> sliding("10 min", every="5 s")
    sliding("10 min", every="5 s")
    >>> from panes.units import rows
    >>> sliding("5 s", every=rows(10))
    sliding("5 s", every=rows(10))
    """
    return Sliding(size, every, on, every_on, align, partial, unchanged, offset, tz)
