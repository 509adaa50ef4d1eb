"""Cumulating windows: the day so far, every hour. They share a start and grow by a step up to a maximum."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from panes.errors import QueryError
from panes.units import TimeDomain
from panes.windows.base import Array, ContextFree, Window
from panes.windows.grid import Grid
from panes.windows.spec import call, columns_of, measured, optional_expression, size_argument


@dataclass(frozen=True)
class Cumulating(ContextFree):
    """Windows [k*size, k*size + i*step) (plus offset), for i = 1..size/step."""

    step: Any = field(kw_only=True)
    size: Any = field(kw_only=True)
    offset: Any = field(default=0, kw_only=True)

    @cached_property
    def _places(self) -> tuple[Grid, int, int, int]:
        grid, (step, size, offset) = Grid.of(self.step, self.size, self.offset)
        return grid, step, size, offset % size

    @property
    def reach(self) -> float:  # type: ignore[override]
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

    def edges(self, lo: Any, hi: Any) -> Array:
        grid, _, _, offset = self._places
        low, high = grid.index(lo), grid.index(hi)
        ends = self._ends(low, high)[1]
        extra = [grid.low] if lo < grid.value(grid.low) <= hi and self.measure.kind != "rows" else []
        if self.measure.kind == "rows" and low < offset <= high:
            extra = [offset]
        return np.concatenate((np.array([grid.value(e) for e in extra], grid.dtype), ends)) if extra else ends

    def ending(self, lo: Any, hi: Any) -> tuple[Array, Array]:
        grid = self._places[0]
        return self._ends(grid.index(lo), grid.index(hi))

    def containing(self, value: Any) -> tuple[Array, Array]:
        grid, _, size, offset = self._places
        if not grid.covers(value):
            return self._ends(0, -1)
        place = grid.index(value)
        return self._ends(place, min(((place - offset) // size + 1) * size + offset, grid.high))

    def horizon(self, progress: Any) -> Any:
        grid, _, size, offset = self._places
        place = grid.index(progress)
        if place >= grid.high:
            return grid.never()
        start = max((place - offset) // size * size + offset, grid.low)
        if self.measure.kind == "rows":
            start = max(start, offset)
        return grid.value(start)


@dataclass(frozen=True, repr=False)
class Cumulate(Window):
    """Windows that grow step by step: see `cumulate`."""

    step: Any
    max: Any
    on: str | None = None
    offset: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", size_argument(self.step, "step"))
        object.__setattr__(self, "max", size_argument(self.max, "max"))
        optional_expression(self.on, "on")
        if self.offset is not None:
            object.__setattr__(self, "offset", size_argument(self.offset, "offset", positive=False))

    def __repr__(self) -> str:
        return call("cumulate", self.step, max=self.max, on=self.on, offset=self.offset)

    def bind(self, domain: TimeDomain) -> Cumulating:
        measure, (step, size, offset) = measured(domain, self.on, step=self.step, max=self.max, offset=self.offset)
        bound = Cumulating(measure, step=step, size=size, offset=offset or 0, columns=columns_of(measure))
        _, step_places, size_places, _ = bound._places
        if size_places % step_places:
            raise QueryError(
                f"max={self.max!r} must be a multiple of step={self.step!r}: the last step would be shorter"
            )
        return bound


def cumulate(step: Any, *, max: Any, on: str | None = None, offset: Any = None) -> Cumulate:
    """Windows that start together and grow by `step` up to `max`, then start anew.

    >>> cumulate("1 hour", max="1 day")
    cumulate("1 hour", max="1 day")
    """
    return Cumulate(step, max, on, offset)
