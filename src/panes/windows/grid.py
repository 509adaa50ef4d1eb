"""Exact arithmetic for edges at regular steps, of one window and of many.

Edges of regular windows are integers times a grain: ticks and positions have grain 1, a column measured in
steps of 0.1 has grain 1/10. All arithmetic happens on those integers, so that the end of a window and the
start of the next are the same number, and 3 steps of 0.1 are 0.3. Values come in through `Grid.index`,
edges go out through `Grid.value` and `Grid.steps`. `PeriodicFamily` asks a thousand periodic windows at once: their
edges and due windows cost a few array operations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from panes.errors import DataError, QueryError
from panes.units import MAX_TICKS
from panes.windows.base import ALWAYS, NEVER, Array, Regular

#: No call lists more edges or windows than this: a guard against windows of 1 ns over a gap of years.
MOST = 1 << 27
#: Fractional sizes are read as decimals of this many digits, so 1.7000000000000002 is 1.7.
_DIGITS = 12
#: Places below this can be added and subtracted in int64; beyond it each window is asked alone.
_SAFE = 2**62
_PRUNED = 64
#: Up to this many numbers are sorted as they are.
_FEW = 64


@dataclass(frozen=True)
class Grid:
    """The numbers j / per, for integers j from `low` to `high`. Edges beyond are cut to these limits."""

    per: int
    low: int
    high: int

    @classmethod
    def of(cls, *numbers: float) -> tuple[Grid, tuple[int, ...]]:
        """The coarsest grid that holds all `numbers`, read as decimals, and their places on it."""
        whole = [n for n in numbers if type(n) is int]
        if len(whole) == len(numbers):
            return cls(1, ALWAYS + 1, NEVER - 1), tuple(whole)
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

    def value(self, place: int) -> float:
        return place if self.per == 1 else float(place) / self.per

    def values(self, places: Array) -> Array:
        return places if self.per == 1 else places / self.per

    def never(self) -> float:
        return NEVER if self.per == 1 else math.inf

    def index(self, value: float) -> int:
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

    def covers(self, value: float) -> bool:
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


def distinct(values: Array, grain: int = 1) -> Array:
    """Sorted, each value once; they lie a multiple of `grain` apart.

    By marks where values lie close, and else by sorting: both take a fraction of the time that `numpy.unique` does.
    """
    if len(values) > _FEW:
        first = int(values.min())
        steps = (int(values.max()) - first) // grain + 1
        if steps < 4 * len(values):
            there = np.zeros(steps, bool)
            there[(values - first) // grain] = True
            return first + grain * there.nonzero()[0]
    values = np.sort(values)
    new = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=new[1:])
    return values[new]


def check_count(count: int) -> None:
    if count > MOST:
        raise DataError(
            f"{count} window edges lie between two times of the stream: windows are too short for such a gap"
        )


class PeriodicFamily:
    """Periodic windows on one measure, as arrays. Query i is the i-th window given."""

    def __init__(self, windows: Sequence[Regular]) -> None:
        self.windows = tuple(windows)
        measures = {w.measure for w in self.windows}
        if len(measures) > 1:
            raise ValueError(f"one family has one measure, not {sorted(map(str, measures))}")
        numbers = [n for w in self.windows for n in (w.size, w.slide, w.offset)]
        self._grid, places = Grid.of(*numbers) if numbers else (Grid.of(0)[0], ())
        table = np.array(places, np.int64).reshape(-1, 3)
        self._size, self._slide = table[:, 0].copy(), table[:, 1].copy()
        self._offset = table[:, 2] % self._slide if len(table) else table[:, 2]
        self._from_zero = bool(measures) and next(iter(measures)).kind == "rows"
        self._margin = 2 * (int(self._size.max()) + int(self._slide.max())) if len(table) else 0

    def __len__(self) -> int:
        return len(self.windows)

    @property
    def limits(self) -> tuple[float, float]:
        """The smallest and largest value that windows can be found for."""
        return self._grid.value(self._grid.low), self._grid.value(self._grid.high)

    @cached_property
    def _progressions(self) -> tuple[Array, Array, Array]:
        """(step, phase, first) of all progressions of edges, most of those inside another left out."""
        steps = np.concatenate((self._slide, self._slide))
        firsts = np.concatenate((self._offset, self._offset + self._size))
        phases = firsts % steps
        if not self._from_zero:
            firsts = phases
        rows = np.stack((steps, firsts, phases), axis=1)[np.lexsort((phases, firsts, steps))]
        rows = rows[np.append(np.ones(len(rows[:1]), bool), (rows[1:] != rows[:-1]).any(axis=1))]
        kept = []
        for _ in range(_PRUNED):  # short steps come first, and cover most
            if not len(rows):
                break
            step, first, phase = rows[0]
            kept.append(rows[0])
            inside = (rows[:, 0] % step == 0) & ((rows[:, 2] - phase) % step == 0)
            if self._from_zero:
                inside &= rows[:, 1] >= first
            rows = rows[~inside]
        table = np.concatenate((np.array(kept, np.int64).reshape(-1, 3), rows))
        return table[:, 0].copy(), table[:, 2].copy(), table[:, 1].copy()

    def _slow(self, *places: int) -> bool:
        return not self.windows or max(*places, -min(places)) + self._margin > _SAFE

    def edges(self, lo: float, hi: float) -> Array:
        """All starts and ends e of all windows with lo < e <= hi, sorted and unique."""
        grid = self._grid
        low, high = grid.index(lo), grid.index(hi)
        if self._slow(low, high):
            parts = [w.edges(lo, hi) for w in self.windows]
            return np.unique(np.concatenate(parts)) if parts else np.empty(0, grid.dtype)
        steps, phases, firsts = self._progressions
        begin = low + 1 + (phases - low - 1) % steps
        if self._from_zero:
            begin = np.maximum(begin, firsts)
        _, places = _spread(begin, steps, high)
        if len(steps) > 1:
            places = distinct(places, self.grain)
        return grid.values(places)

    def ending(self, lo: float, hi: float) -> tuple[Array, Array, Array]:
        """(query index, starts, ends) of all windows with lo < end <= hi, by end, then query index."""
        grid = self._grid
        low, high = grid.index(lo), grid.index(hi)
        if self._slow(low, high):
            return self._ending_one_by_one(lo, hi)
        which, ends = _spread(self._next_ends(low), self._slide, high)
        order = self._by_end(ends)
        which, ends = which[order], ends[order]
        return which, grid.values(ends - self._size[which]), grid.values(ends)

    def _by_end(self, ends: Array) -> Array:
        """The stable order of ends: several times as fast by numbers of 16 bits, which NumPy sorts by counting."""
        if len(ends) > _FEW:
            first = int(ends.min())
            if (int(ends.max()) - first) // self.grain < 1 << 16:
                ends = ((ends - first) // self.grain).astype(np.uint16)
        return ends.argsort(kind="stable")

    @cached_property
    def grain(self) -> int:
        """All starts and ends lie a multiple of this apart, in places of the grid."""
        return int(np.gcd.reduce(np.concatenate((self._slide, self._size, self._offset - self._offset[0]))))

    def next_edge(self, value: float) -> float:
        """The smallest start or end > value among all windows."""
        place = self._grid.index(value)
        if not len(self) or self._slow(place):
            return min(
                (e[0] for w in self.windows if len(e := w.edges(value, value + w.slide))), default=self._grid.never()
            )
        steps, phases, firsts = self._progressions
        found = place + 1 + (phases - place - 1) % steps
        if self._from_zero:
            found = np.maximum(found, firsts)
        return self._grid.value(int(found.min()))

    def starts_holding(self, value: float, most: int) -> Array | None:
        """Starts of all windows with start <= value < end, sorted; None if there may be more than `most`."""
        place = self._grid.index(value)
        if not len(self) or self._slow(place) or int((self._size // self._slide + 1).sum()) > most:
            return None
        first = self._next_ends(place) - self._size
        _, starts = _spread(first, self._slide, place)
        return self._grid.values(np.unique(starts))

    def edge_before(self, values: Array) -> Array:
        """The largest edge <= each value: where its slice starts, also when edges are too many to list.

        On rows, edges before the first windows come out as if windows started there.
        """
        places = self._grid.indexes(values)
        steps, phases, _ = self._progressions
        if len(places) < len(steps):  # loop over the shorter of the two
            down = np.array([((p % steps - phases) % steps).min() for p in places.tolist()], np.int64)
        else:
            down = np.full(len(places), np.iinfo(np.int64).max)
            for step, phase in zip(steps, phases, strict=True):
                np.minimum(down, (places % step - phase) % step, out=down)
        return self._grid.values(places - down)

    def _ending_one_by_one(self, lo: float, hi: float) -> tuple[Array, Array, Array]:
        empty = np.empty(0, np.int64)
        found = [w.ending(lo, hi) for w in self.windows]
        which = np.concatenate([empty, *(np.full(len(s), i) for i, (s, _) in enumerate(found))])
        starts = np.concatenate([empty.astype(self._grid.dtype), *(s for s, _ in found)])
        ends = np.concatenate([empty.astype(self._grid.dtype), *(e for _, e in found)])
        order = np.lexsort((starts, which, ends))
        return which[order], starts[order], ends[order]

    def _next_ends(self, place: int) -> Array:
        """The smallest end > place of each query."""
        ends = place + 1 + (self._offset + self._size - place - 1) % self._slide
        return np.maximum(ends, self._offset + self._size) if self._from_zero else ends

    def next_end(self, progress: float) -> float:
        """The smallest end after `progress` among all windows, whether they will hold rows or not."""
        place = self._grid.index(progress)
        if not len(self) or self._slow(place):
            return progress + 1
        return self._grid.value(int(self._next_ends(place).min()))

    def horizon(self, progress: float) -> float:
        """The smallest start among all windows that end after `progress`."""
        grid = self._grid
        if not len(self):
            return grid.never()
        place = grid.index(progress)
        if self._slow(place):
            return min(w.horizon(progress) for w in self.windows)
        return grid.value(int((self._next_ends(place) - self._size).min()))


def _spread(first: Array, step: Array, high: int) -> tuple[Array, Array]:
    """All first[i] + k * step[i] <= high, k >= 0, as (i, value), ordered by i, then value."""
    counts = np.maximum((high - first) // step + 1, 0)
    check_count(int(counts.sum()))
    total = np.cumsum(counts)
    which = np.repeat(np.arange(len(counts)), counts)
    nth = np.arange(len(which)) - np.repeat(total - counts, counts)
    return which, first[which] + nth * step[which]
