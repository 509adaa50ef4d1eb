"""Windows tied to a point: the day so far every hour (cumulate), everything since a landmark, single fixed windows."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from panes.errors import QueryError
from panes.units import MAX_TICKS, Point, Size, TimeDomain
from panes.windows.base import ALWAYS, NEVER, TIME, Array, ContextFree, Measure
from panes.windows.grid import Grid
from panes.windows.spec import WrittenWindow, columns_of, measured, place


@dataclass(frozen=True)
class Cumulating(ContextFree):
    """Windows [k*size, k*size + i*step) (plus offset), for i = 1..size/step."""

    step: float = field(kw_only=True)
    size: float = field(kw_only=True)
    offset: float = field(default=0, kw_only=True)

    @cached_property
    def _places(self) -> tuple[Grid, int, int, int]:
        grid, (step, size, offset) = Grid.of(self.step, self.size, self.offset)
        return grid, step, size, offset % size

    @property
    def reach(self) -> float:
        return self.size

    def _ends(self, low: int, high: int) -> tuple[Array, Array]:
        """Windows with low < end <= high, as values; ends are one step apart."""
        grid, step, size, offset = self._places
        first, last = (low - offset) // step + 1, (high - offset) // step
        if high >= grid.high:  # windows beyond the limit are cut to it
            last += last * step + offset < grid.high
        if self.measure.kind == "rows":
            first = max(first, 1)
        ends = grid.steps(first, last, step, offset)
        if not len(ends):
            return ends, ends
        steps = size // step
        rounds = (np.arange(first, last + 1) - 1) // steps
        starts = grid.steps(int(rounds[0]), int(rounds[-1]), size, offset)
        return starts[rounds - rounds[0]], ends

    def edges(self, lo: float, hi: float) -> Array:
        grid, _, _, offset = self._places
        low, high = grid.index(lo), grid.index(hi)
        ends = self._ends(low, high)[1]
        extra = [grid.low] if lo < grid.value(grid.low) <= hi and self.measure.kind != "rows" else []
        if self.measure.kind == "rows" and low < offset <= high:
            extra = [offset]
        return np.concatenate((np.array([grid.value(e) for e in extra], grid.dtype), ends)) if extra else ends

    def ending(self, lo: float, hi: float) -> tuple[Array, Array]:
        grid = self._places[0]
        return self._ends(grid.index(lo), grid.index(hi))

    def containing(self, value: float) -> tuple[Array, Array]:
        grid, _, size, offset = self._places
        if not grid.covers(value):
            return self._ends(0, -1)
        place = grid.index(value)
        return self._ends(place, min(((place - offset) // size + 1) * size + offset, grid.high))

    def horizon(self, progress: float) -> float:
        grid, _, size, offset = self._places
        place = grid.index(progress)
        if place >= grid.high:
            return grid.never()
        start = max((place - offset) // size * size + offset, grid.low)
        if self.measure.kind == "rows":
            start = max(start, offset)
        return grid.value(start)


@dataclass(frozen=True, repr=False)
class Cumulate(WrittenWindow):
    """Windows that grow step by step: see `cumulate`."""

    step: Size
    max: Size
    on: str | None = None
    offset: Size | None = None

    def bind(self, domain: TimeDomain) -> Cumulating:
        measure, (step, size, offset) = measured(domain, self.on, step=self.step, max=self.max, offset=self.offset)
        bound = Cumulating(measure, step=step, size=size, offset=offset, columns=columns_of(measure))
        _, step_places, size_places, _ = bound._places
        if size_places % step_places:
            raise QueryError(
                f"max={self.max!r} must be a multiple of step={self.step!r}: the last step would be shorter"
            )
        return bound


def cumulate(step: Size, *, max: Size, on: str | None = None, offset: Size | None = None) -> Cumulate:
    """Windows that start together and grow by `step` up to `max`, then start anew.

    >>> cumulate("1 hour", max="1 day")
    cumulate("1 hour", max="1 day")
    """
    return Cumulate(step, max, on, offset)


@dataclass(frozen=True)
class LandmarkWindows(ContextFree):
    """Windows [start, start + i*every) for i = 1, 2, ...; given only when their last step holds a row."""

    start: float = field(kw_only=True)
    every: float = field(kw_only=True)

    @cached_property
    def _places(self) -> tuple[Grid, int, int]:
        grid, (start, every) = Grid.of(self.start, self.every)
        return grid, start, every

    @property
    def reach(self) -> float:
        return self.every

    @property
    def fresh(self) -> float:
        return self.every

    def _steps(self, low: int, high: int, least: int) -> Array:
        """start + i*every in (low, high], for i >= least; the one cut to the limit too."""
        grid, start, every = self._places
        first, last = max((low - start) // every + 1, least), (high - start) // every
        if high >= grid.high > low:
            last += start + last * every < grid.high
        return grid.steps(first, last, every, start)

    def edges(self, lo: float, hi: float) -> Array:
        grid = self._places[0]
        return self._steps(grid.index(lo), grid.index(hi), 0)

    def ending(self, lo: float, hi: float) -> tuple[Array, Array]:
        grid, start, _ = self._places
        ends = self._steps(grid.index(lo), grid.index(hi), 1)
        return np.full(len(ends), grid.value(start), ends.dtype), ends

    def containing(self, value: float) -> tuple[Array, Array]:
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

    def horizon(self, progress: float) -> float:
        grid, start, _ = self._places
        return grid.never() if grid.index(progress) >= grid.high else grid.value(start)


@dataclass(frozen=True)
class FixedWindow(ContextFree):
    """The one window [start, end)."""

    start: float = field(kw_only=True)
    end: float = field(kw_only=True)

    @property
    def reach(self) -> float:
        return self.end - self.start

    def _window(self, there: bool) -> tuple[Array, Array]:
        both = np.array([self.start, self.end])
        return both[:1][: int(there)], both[1:][: int(there)]

    def edges(self, lo: float, hi: float) -> Array:
        both = np.array([self.start, self.end])
        return both[(both > lo) & (both <= hi)]

    def ending(self, lo: float, hi: float) -> tuple[Array, Array]:
        return self._window(lo < self.end <= hi)

    def containing(self, value: float) -> tuple[Array, Array]:
        return self._window(self.start <= value < self.end)

    def horizon(self, progress: float) -> float:
        return self.start if progress < self.end else Grid.of(self.start, self.end)[0].never()


@dataclass(frozen=True, repr=False)
class Landmark(WrittenWindow):
    """All rows since a point: see `landmark`."""

    start: Point
    every: Size
    on: str | None = None

    def bind(self, domain: TimeDomain) -> LandmarkWindows:
        measure, (every,) = measured(domain, self.on, every=self.every)
        start = place(domain, measure, self.start, "start")
        bound = LandmarkWindows(measure, start=start, every=every, columns=columns_of(measure))
        bound._places  # noqa: B018  (refuses sizes without exact edges now, not at the first row)
        return bound


@dataclass(frozen=True, repr=False)
class Fixed(WrittenWindow):
    """One window between two points: see `fixed`."""

    start: Point
    end: Point
    on: str | None = None
    bare = 2

    def bind(self, domain: TimeDomain) -> FixedWindow:
        measure = TIME if self.on is None else Measure("column", self.on)
        start, end = (place(domain, measure, v, a) for v, a in ((self.start, "start"), (self.end, "end")))
        if end <= start:
            raise QueryError(f"end={self.end!r} must lie after start={self.start!r}: the window would be empty")
        if end - start > MAX_TICKS:
            raise QueryError(f"end={self.end!r} is too far from start={self.start!r}: at most 2**62 ticks")
        return FixedWindow(measure, start=start, end=end, columns=columns_of(measure))


@dataclass(frozen=True, repr=False)
class FixedBand(WrittenWindow):
    """One window of a size from a point on: see `fixed_band`."""

    start: Point
    size: Size
    on: str | None = None

    def bind(self, domain: TimeDomain) -> FixedWindow:
        measure, (size,) = measured(domain, self.on, size=self.size)
        start = place(domain, measure, self.start, "start")
        grid, (first, length) = Grid.of(start, size)
        if first + length > grid.high:
            raise QueryError(f"start={self.start!r} plus size={self.size!r} is out of the range of {measure}")
        return FixedWindow(measure, start=start, end=grid.value(first + length), columns=columns_of(measure))


def landmark(start: Point, *, every: Size, on: str | None = None) -> Landmark:
    """All rows since `start`, given at every step that brought news.

    `start` is a datetime, an ISO date (UTC unless it says otherwise) or a number of ticks; with `every` in
    rows a position, with `on` a value of the column.

    >>> landmark("2024-01-01", every="1 hour")
    landmark("2024-01-01", every="1 hour")
    """
    return Landmark(start, every, on)


def fixed(start: Point, end: Point, *, on: str | None = None) -> Fixed:
    """One window [start, end).

    >>> fixed("2015-01-01T12:00", "2015-01-01T14:00")
    fixed("2015-01-01T12:00", "2015-01-01T14:00")
    """
    return Fixed(start, end, on)


def fixed_band(start: Point, *, size: Size, on: str | None = None) -> FixedBand:
    """One window of `size` from `start` on.

    >>> fixed_band("2015-01-01T12:00", size="2 hours")
    fixed_band("2015-01-01T12:00", size="2 hours")
    """
    return FixedBand(start, size, on)
