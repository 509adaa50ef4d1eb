"""Windows tied to a point: everything since a landmark, and single fixed windows."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from panes.errors import QueryError
from panes.units import MAX_TICKS, TimeDomain
from panes.windows.base import ALWAYS, NEVER, TIME, Array, ContextFree, Measure, Window
from panes.windows.grid import Grid
from panes.windows.spec import (
    call,
    columns_of,
    measured,
    optional_expression,
    place,
    point_argument,
    size_argument,
)


@dataclass(frozen=True)
class LandmarkWindows(ContextFree):
    """Windows [start, start + i*every) for i = 1, 2, ...; given only when their last step holds a row."""

    start: Any = field(kw_only=True)
    every: Any = field(kw_only=True)

    @cached_property
    def _places(self) -> tuple[Grid, int, int]:
        grid, (start, every) = Grid.of(self.start, self.every)
        return grid, start, every

    @property
    def reach(self) -> float:  # type: ignore[override]
        return self.every

    @property
    def fresh(self) -> Any:
        return self.every

    def _steps(self, low: int, high: int, least: int) -> Array:
        """start + i*every in (low, high], for i >= least; the one cut to the limit too."""
        grid, start, every = self._places
        first, last = max((low - start) // every + 1, least), (high - start) // every
        if high >= grid.high > low:
            last += start + last * every < grid.high
        return grid.steps(first, last, every, start)

    def edges(self, lo: Any, hi: Any) -> Array:
        grid = self._places[0]
        return self._steps(grid.index(lo), grid.index(hi), 0)

    def ending(self, lo: Any, hi: Any) -> tuple[Array, Array]:
        grid, start, _ = self._places
        ends = self._steps(grid.index(lo), grid.index(hi), 1)
        return np.full(len(ends), grid.value(start), ends.dtype), ends

    def containing(self, value: Any) -> tuple[Array, Array]:
        """The first window that holds `value`: the later ones are without end, `ending` lists them."""
        grid, start, every = self._places
        if not grid.covers(value) or grid.index(value) < start:
            return self.ending(0, 0)
        low = grid.index(value)
        end = min(start + ((low - start) // every + 1) * every, grid.high)
        return self.ending(grid.value(low), grid.value(end))

    def ends_over(self, values: Array) -> tuple[Array, Array]:
        first, _ = super().ends_over(values)
        return first, np.where(first < NEVER, NEVER, ALWAYS)  # there is always a later one

    def horizon(self, progress: Any) -> Any:
        grid, start, _ = self._places
        return grid.never() if grid.index(progress) >= grid.high else grid.value(start)


@dataclass(frozen=True)
class FixedWindow(ContextFree):
    """The one window [start, end)."""

    start: Any = field(kw_only=True)
    end: Any = field(kw_only=True)

    @property
    def reach(self) -> float:  # type: ignore[override]
        return self.end - self.start

    def _window(self, there: bool) -> tuple[Array, Array]:
        both = np.array([self.start, self.end])
        return both[:1][: int(there)], both[1:][: int(there)]

    def edges(self, lo: Any, hi: Any) -> Array:
        both = np.array([self.start, self.end])
        return both[(both > lo) & (both <= hi)]

    def ending(self, lo: Any, hi: Any) -> tuple[Array, Array]:
        return self._window(lo < self.end <= hi)

    def containing(self, value: Any) -> tuple[Array, Array]:
        return self._window(self.start <= value < self.end)

    def horizon(self, progress: Any) -> Any:
        return self.start if progress < self.end else Grid.of(self.start, self.end)[0].never()


@dataclass(frozen=True, repr=False)
class Landmark(Window):
    """All rows since a point: see `landmark`."""

    start: Any
    every: Any
    on: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", point_argument(self.start, "start"))
        object.__setattr__(self, "every", size_argument(self.every, "every"))
        optional_expression(self.on, "on")

    def __repr__(self) -> str:
        return call("landmark", self.start, every=self.every, on=self.on)

    def bind(self, domain: TimeDomain) -> LandmarkWindows:
        measure, (every,) = measured(domain, self.on, every=self.every)
        start = place(domain, measure, self.start, "start")
        bound = LandmarkWindows(measure, start=start, every=every, columns=columns_of(measure))
        bound._places  # noqa: B018  (refuses sizes without exact edges now, not at the first row)
        return bound


@dataclass(frozen=True, repr=False)
class Fixed(Window):
    """One window between two points: see `fixed`."""

    start: Any
    end: Any
    on: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", point_argument(self.start, "start"))
        object.__setattr__(self, "end", point_argument(self.end, "end"))
        optional_expression(self.on, "on")

    def __repr__(self) -> str:
        return call("fixed", self.start, self.end, on=self.on)

    def bind(self, domain: TimeDomain) -> FixedWindow:
        measure = TIME if self.on is None else Measure("column", self.on)
        start, end = (place(domain, measure, v, a) for v, a in ((self.start, "start"), (self.end, "end")))
        if end <= start:
            raise QueryError(f"end={self.end!r} must lie after start={self.start!r}: the window would be empty")
        if end - start > MAX_TICKS:
            raise QueryError(f"end={self.end!r} is too far from start={self.start!r}: at most 2**62 ticks")
        return FixedWindow(measure, start=start, end=end, columns=columns_of(measure))


@dataclass(frozen=True, repr=False)
class FixedBand(Window):
    """One window of a size from a point on: see `fixed_band`."""

    start: Any
    size: Any
    on: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", point_argument(self.start, "start"))
        object.__setattr__(self, "size", size_argument(self.size, "size"))
        optional_expression(self.on, "on")

    def __repr__(self) -> str:
        return call("fixed_band", self.start, size=self.size, on=self.on)

    def bind(self, domain: TimeDomain) -> FixedWindow:
        measure, (size,) = measured(domain, self.on, size=self.size)
        start = place(domain, measure, self.start, "start")
        grid, (first, length) = Grid.of(start, size)
        if first + length > grid.high:
            raise QueryError(f"start={self.start!r} plus size={self.size!r} is out of the range of {measure}")
        return FixedWindow(measure, start=start, end=grid.value(first + length), columns=columns_of(measure))


def landmark(start: Any, *, every: Any, on: str | None = None) -> Landmark:
    """All rows since `start`, given at every step that brought news.

    `start` is a datetime, an ISO date (UTC unless it says otherwise) or a number of ticks; with `every` in
    rows a position, with `on` a value of the column.

    >>> landmark("2024-01-01", every="1 hour")
    landmark("2024-01-01", every="1 hour")
    """
    return Landmark(start, every, on)


def fixed(start: Any, end: Any, *, on: str | None = None) -> Fixed:
    """One window [start, end).

    >>> fixed("2015-01-01T12:00", "2015-01-01T14:00")
    fixed("2015-01-01T12:00", "2015-01-01T14:00")
    """
    return Fixed(start, end, on)


def fixed_band(start: Any, *, size: Any, on: str | None = None) -> FixedBand:
    """One window of `size` from `start` on.

    >>> fixed_band("2015-01-01T12:00", size="2 hours")
    fixed_band("2015-01-01T12:00", size="2 hours")
    """
    return FixedBand(start, size, on)
