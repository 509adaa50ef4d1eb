"""Windows at regular steps: tumbling and sliding, on event time, on rows, or on an advancing column.

A window starts at every multiple of the slide (plus offset) and is `size` long. Sliding ones overlap when the
slide is shorter than the size, and leave gaps when it is longer. "Last 10 rows every 5 s" mixes two measures
and becomes a `CountBack`; calendar units become `CalendarWindows`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from panes.errors import QueryError
from panes.units import Rows, TimeDomain, parse_calendar, zone
from panes.windows.base import Array, Bound, ContextFree, CountBack, Window
from panes.windows.family import PeriodicFamily
from panes.windows.grid import Grid
from panes.windows.spec import call, columns_of, measured, optional_expression, size_argument

__all__ = ["Periodic", "PeriodicFamily", "Sliding", "Tumbling", "sliding", "tumbling"]


@dataclass(frozen=True)
class Periodic(ContextFree):
    """Windows [offset + k*slide, offset + k*slide + size) for all integers k; on rows those from 0 on."""

    size: Any = field(kw_only=True)
    slide: Any = field(kw_only=True)
    offset: Any = field(default=0, kw_only=True)

    @cached_property
    def _places(self) -> tuple[Grid, int, int, int]:
        grid, (size, slide, offset) = Grid.of(self.size, self.slide, self.offset)
        return grid, size, slide, offset % slide

    @property
    def reach(self) -> float:  # type: ignore[override]
        return self.size

    def edges(self, lo: Any, hi: Any) -> Array:
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

    def ending(self, lo: Any, hi: Any) -> tuple[Array, Array]:
        grid, size, slide, offset = self._places
        low, high = grid.index(lo), grid.index(hi)
        if low >= grid.high:
            return self._windows(0, -1)
        first = (low - offset - size) // slide + 1
        # at the limit all windows end that are cut there
        last = (high - offset - size) // slide if high < grid.high else (high - 1 - offset) // slide
        return self._windows(first, last)

    def containing(self, value: Any) -> tuple[Array, Array]:
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

    def horizon(self, progress: Any) -> Any:
        grid, size, slide, offset = self._places
        place = grid.index(progress)
        k = (place - offset - size) // slide + 1
        if self.measure.kind == "rows":
            k = max(k, 0)
        start = max(offset + k * slide, grid.low)
        return grid.never() if place >= grid.high or start >= grid.high else grid.value(start)

    def edge_before(self, values: Array) -> Array:
        """The largest edge <= each value: where its slice starts, also when edges are too many to list.

        On rows, edges before the first window (negative ones) come out as if windows started there.
        """
        grid, size, slide, offset = self._places
        places = grid.indexes(values)
        down = (places % slide - offset) % slide
        if size % slide:
            down = np.minimum(down, (places % slide - (offset + size) % slide) % slide)
        return grid.values(places - down)


def bind_periodic(domain: TimeDomain, *, size: Any, every: Any, on: str | None, offset: Any, tz: str | None) -> Bound:
    """Decide which measure the sizes are on, and resolve them there."""
    if isinstance(size, Rows) and not isinstance(every, Rows):
        ticks = bind_periodic(domain, size=every, every=every, on=on, offset=offset, tz=tz)
        if not isinstance(ticks, ContextFree):
            raise QueryError(f"every={every!r} must be a duration or a number")
        return CountBack(ticks.measure, rows=size.count, ticks=ticks, columns=ticks.columns)
    if isinstance(every, Rows) and not isinstance(size, Rows):
        raise QueryError(
            f"size={size!r} with every={every!r}: only sizes in rows can slide by rows; "
            "give both in rows, or slide by time"
        )
    if on is None and (_is_calendar(size, tz) or _is_calendar(every, tz)):
        from panes.windows.calendars import bind_calendar

        return bind_calendar(domain, size=size, every=every, offset=offset, tz=tz or "UTC")
    if tz is not None:
        raise QueryError(f"tz={tz!r} with size={size!r}: only days, weeks, months and years depend on a time zone")
    measure, (length, slide, shift) = measured(domain, on, size=size, every=every, offset=offset)
    bound = Periodic(measure, size=length, slide=slide, offset=shift or 0, columns=columns_of(measure))
    bound._places  # noqa: B018  (refuses sizes without exact edges now, not at the first row)
    return bound


def _is_calendar(size: Any, tz: str | None) -> bool:
    if not isinstance(size, str):
        return False
    unit = parse_calendar(size)
    return unit is not None and (tz is not None or bool(unit.months))


@dataclass(frozen=True, repr=False)
class Tumbling(Window):
    """Windows one after the other: see `tumbling`."""

    size: Any
    on: str | None = None
    offset: Any = None
    tz: str | None = None

    def __post_init__(self) -> None:
        _check(self)

    def __repr__(self) -> str:
        return call("tumbling", self.size, on=self.on, offset=self.offset, tz=self.tz)

    def bind(self, domain: TimeDomain) -> Bound:
        return bind_periodic(domain, size=self.size, every=self.size, on=self.on, offset=self.offset, tz=self.tz)


@dataclass(frozen=True, repr=False)
class Sliding(Window):
    """Windows at every slide: see `sliding`."""

    size: Any
    every: Any
    on: str | None = None
    offset: Any = None
    tz: str | None = None

    def __post_init__(self) -> None:
        _check(self)
        object.__setattr__(self, "every", size_argument(self.every, "every"))

    def __repr__(self) -> str:
        return call("sliding", self.size, every=self.every, on=self.on, offset=self.offset, tz=self.tz)

    def bind(self, domain: TimeDomain) -> Bound:
        return bind_periodic(domain, size=self.size, every=self.every, on=self.on, offset=self.offset, tz=self.tz)


def _check(spec: Any) -> None:
    object.__setattr__(spec, "size", size_argument(spec.size, "size"))
    optional_expression(spec.on, "on")
    if spec.offset is not None:
        object.__setattr__(spec, "offset", size_argument(spec.offset, "offset", positive=False))
    if spec.tz is not None:
        zone(spec.tz)


def tumbling(size: Any, *, on: str | None = None, offset: Any = None, tz: str | None = None) -> Tumbling:
    """Windows one after the other, without gaps: every row is in exactly one.

    `size`: a duration ("1 min"), `pn.rows(n)`, a number in units of the column `on`, or a calendar unit
    ("1 month", and "1 day" with `tz`). `offset` moves all starts.

    >>> tumbling("1 min")
    tumbling("1 min")
    """
    return Tumbling(size, on, offset, tz)


def sliding(size: Any, *, every: Any, on: str | None = None, offset: Any = None, tz: str | None = None) -> Sliding:
    """Windows of `size` that start at every `every`: overlapping if it is shorter, with gaps if longer.

    With `size` in rows and `every` a duration (or a number on a column): the last rows at every tick.

    >>> sliding("10 min", every="5 s")
    sliding("10 min", every="5 s")
    """
    return Sliding(size, every, on, offset, tz)
