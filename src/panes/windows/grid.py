"""Exact arithmetic for edges at regular steps.

Edges of regular windows are integers times a grain: ticks and positions have grain 1, a column measured in
steps of 0.1 has grain 1/10. All arithmetic happens on those integers, so that the end of a window and the
start of the next are the same number, and 3 steps of 0.1 are 0.3. Values come in through `Grid.index`,
edges go out through `Grid.value` and `Grid.steps`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from panes.errors import DataError, QueryError
from panes.units import MAX_TICKS
from panes.windows.base import ALWAYS, NEVER, Array

#: No call lists more edges or windows than this: a guard against windows of 1 ns over a gap of years.
MOST = 1 << 27
#: Fractional sizes are read as decimals of this many digits, so 1.7000000000000002 is 1.7.
_DIGITS = 12


@dataclass(frozen=True)
class Grid:
    """The numbers j / per, for integers j from `low` to `high`. Edges beyond are cut to these limits."""

    per: int
    low: int
    high: int

    @classmethod
    def of(cls, *numbers: Any) -> tuple[Grid, tuple[int, ...]]:
        """The coarsest grid that holds all `numbers`, read as decimals, and their places on it."""
        if all(type(n) is int for n in numbers):
            return cls(1, ALWAYS + 1, NEVER - 1), numbers
        exact = [Fraction(n) if isinstance(n, int) else Fraction(f"{n:.{_DIGITS}g}") for n in numbers]
        per = math.lcm(*(f.denominator for f in exact))
        places = tuple(int(f * per) for f in exact)
        if per == 1:
            return cls(1, ALWAYS + 1, NEVER - 1), places
        if max(abs(p) for p in places) > MAX_TICKS:
            raise QueryError(
                f"sizes {', '.join(map(repr, numbers))} differ too much in scale for exact edges: round them"
            )
        # up to here float64 can tell two edges apart
        limit = min(abs(p) for p in places if p) * 2**50
        return cls(per, -limit, limit), places

    @property
    def dtype(self) -> type:
        return np.int64 if self.per == 1 else np.float64

    def value(self, place: int) -> Any:
        return place if self.per == 1 else float(place) / self.per

    def values(self, places: Array) -> Array:
        return places if self.per == 1 else places / self.per

    def never(self) -> Any:
        return NEVER if self.per == 1 else math.inf

    def index(self, value: Any) -> int:
        """The largest j whose value is <= `value`, cut to the limits."""
        if self.per == 1 and isinstance(value, (int, np.integer)):
            return min(max(int(value), self.low), self.high)
        number = float(value)
        if not math.isfinite(number):
            return self.high if number > 0 else self.low
        place = min(max(math.floor(Fraction(number) * self.per), self.low), self.high)
        step = 1
        while self.value(place + step) <= number and place < self.high:  # several places may round to one float
            place += step
            step *= 2
        while step:
            if self.value(place + step) <= number and place + step <= self.high:
                place += step
            step //= 2
        return place

    def indexes(self, values: Array) -> Array:
        """`index` of many values, all of them inside int64."""
        if self.per == 1 and values.dtype.kind in "iu":
            return np.clip(values.astype(np.int64), self.low, self.high)
        return np.fromiter((min(max(self.index(v), ALWAYS), NEVER) for v in values), np.int64, len(values))

    def covers(self, value: Any) -> bool:
        """Whether windows can hold `value`: not beyond the limits, and not NaN."""
        return bool(self.value(self.low) <= value < self.value(self.high))

    def steps(self, first: int, last: int, step: int, origin: int) -> Array:
        """The values at origin + k * step for k = first..last, cut to the limits."""
        check_count(last - first + 1)
        if last < first:
            return np.empty(0, self.dtype)
        start, stop = origin + first * step, origin + last * step
        if max(self.low, ALWAYS) <= start and stop <= min(self.high, NEVER):
            return self.values(start + step * np.arange(last - first + 1, dtype=np.int64))
        exact = (min(max(origin + k * step, self.low), self.high) for k in range(first, last + 1))
        return np.array([self.value(place) for place in exact], self.dtype)


def distinct(values: Array) -> Array:
    """Sorted, each value once: by sorting, which takes a fraction of the time that `numpy.unique` does."""
    values = np.sort(values)
    new = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=new[1:])
    return values[new]


def check_count(count: int) -> None:
    if count > MOST:
        raise DataError(
            f"{count} window edges lie between two times of the stream: windows are too short for such a gap"
        )
