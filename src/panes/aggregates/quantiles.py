"""Median, quantiles and histograms: how values are distributed.

A quantile lies between the two nearest values as Spark and pandas have it, or is one of the values. Those of a window
are selected across the sorted runs of its slices without merging them.

A histogram has a few bins that follow the data: the two nearest are put together until few enough are left. Spark's
`histogram_numeric` does this row by row and so depends on the order of rows; here the partial is all values in order,
and the result depends on them alone. With no more different values than bins both are the same.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar, SupportsFloat

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Array, Cells
from panes.aggregates.columns import arrow_from_values
from panes.aggregates.runs import BoundRuns, Holistic, Runs, merged
from panes.aggregates.segments import SMALL, offsets_of, same, segment_reduce
from panes.aggregates.totals import as_float
from panes.aggregates.types import NUMERIC, kind_of, require
from panes.errors import QueryError

LINEAR = "linear"


@dataclass(frozen=True, repr=False)
class _Quantiles(Holistic):
    def _bound(
        self, types: Sequence[pa.DataType], parts: Sequence[Fraction], method: str, several: bool
    ) -> BoundQuantiles:
        if method == LINEAR:
            advice = f"write quantile({self.inputs[0]}, 0.5, method='disc') to get one of the values themselves"
            require(repr(self), self.inputs[0], types[0], NUMERIC, advice)
        (type,) = self.argument_types(types)
        return BoundQuantiles(type, parts, method, several=several)


@dataclass(frozen=True, repr=False)
class Median(_Quantiles):
    """The value in the middle, or the mean of the two that are there."""

    name: ClassVar[str] = "median"

    def bind(self, types: Sequence[pa.DataType]) -> BoundQuantiles:
        return self._bound(types, [Fraction(1, 2)], LINEAR, several=False)


@dataclass(frozen=True, repr=False)
class Quantile(_Quantiles):
    """The value that lies at the share p of the way from the smallest to the largest."""

    name: ClassVar[str] = "quantile"

    p: float
    method: str = LINEAR

    def __post_init__(self) -> None:
        super().__post_init__()
        share(self.name, self.p)
        known_method(self.name, self.method)

    def bind(self, types: Sequence[pa.DataType]) -> BoundQuantiles:
        return self._bound(types, [share(self.name, self.p)], self.method, several=False)


@dataclass(frozen=True, repr=False)
class Quantiles(_Quantiles):
    """Several quantiles of the same values, as a list."""

    name: ClassVar[str] = "quantiles"

    ps: tuple[float, ...]
    method: str = LINEAR

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.ps:
            raise QueryError("quantiles: ps is empty; give at least one number between 0 and 1")
        for p in self.ps:
            share(self.name, p)
        known_method(self.name, self.method)

    def bind(self, types: Sequence[pa.DataType]) -> BoundQuantiles:
        return self._bound(types, [share(self.name, p) for p in self.ps], self.method, several=True)


def share(what: str, p: float) -> Fraction:
    """p as the decimal number that was written, so that ceil(p * n) is what it says: 0.07 of 100 is 7."""
    if isinstance(p, bool) or not isinstance(p, (int, float)) or not 0 <= p <= 1:
        raise QueryError(f"{what}: p = {p!r} is not a number between 0 and 1; the median is 0.5")
    return Fraction(repr(p))


def known_method(what: str, method: str) -> None:
    if method != LINEAR and method not in PLACES:
        known = ", ".join(map(repr, (LINEAR, *PLACES)))
        raise QueryError(f"{what}: method = {method!r} is not known; there are {known}")


def _disc(top: int, bottom: int, n: Array) -> Array:
    """ceil(p * n), at least 1: the first value that so large a share of the values does not exceed."""
    ranks: Array = np.maximum(-(-top * n // bottom), 1)
    return ranks


def _lower(top: int, bottom: int, n: Array) -> Array:
    return top * (n - 1) // bottom + 1


def _higher(top: int, bottom: int, n: Array) -> Array:
    return -(-top * (n - 1) // bottom) + 1


def _nearest(top: int, bottom: int, n: Array) -> Array:
    """The nearer of both; of two that are equally far the one at an even place, counted from 0."""
    below, rest = np.divmod(top * (n - 1), bottom)
    up = (2 * rest > bottom) | ((2 * rest == bottom) & (below % 2 == 1))
    ranks: Array = below + up + 1
    return ranks


#: How a quantile that is one of the values is chosen: the rank, from 1, for p = top / bottom of n values.
PLACES: dict[str, Callable[[int, int, Array], Array]] = {
    "lower": _lower,
    "higher": _higher,
    "nearest": _nearest,
    "disc": _disc,
}


def ranks_of(method: str, part: Fraction, n: Array) -> Array:
    """The rank of the value that the quantile is, and 0 where n is 0; exact."""
    top, bottom = part.numerator, part.denominator
    if 2 * max(top, bottom) * int(n.max(initial=0)) >= 1 << 63:
        n = n.astype(object)
    return np.where(n > 0, PLACES[method](top, bottom, n), 0).astype(np.int64)


class BoundQuantiles(BoundRuns):
    """One quantile, or a list of `several`."""

    def __init__(self, type: pa.DataType, parts: Sequence[Fraction], method: str, *, several: bool) -> None:
        self.item = pa.float64() if method == LINEAR else type
        super().__init__(type, pa.list_(self.item) if several else self.item)
        self.parts = list(parts)
        self.method = method
        self.several = several

    def lower(self, cells: Cells) -> pa.Array:
        return self.lower_ranges(cells, None, np.arange(len(cells) + 1))

    def lower_ranges(self, cells: Cells, index: Array | None, offsets: Array) -> pa.Array:
        columns = self._select(Runs.of(cells), index, offsets)
        if not self.several:
            return columns[0]
        n, k = len(offsets) - 1, len(self.parts)
        side_by_side = pa.concat_arrays(columns).take(pa.array(np.arange(n * k).reshape(k, n).T.ravel()))
        none = columns[0].is_null()
        bounds = pa.array(np.arange(0, n * k + 1, k), pa.int32())
        return pa.ListArray.from_arrays(bounds, side_by_side, mask=none)

    def _select(self, runs: Runs, index: Array | None, offsets: Array) -> list[pa.Array]:
        """For each part the quantile of each range of runs."""
        if self.method == LINEAR and self.dtype.kind == "O":
            runs = Runs(runs.offsets, as_float(runs.values), runs.upto)
        one_each = index is None and len(offsets) == len(runs.offsets) and bool(np.all(np.diff(offsets) == 1))
        if index is None:
            index = np.arange(len(runs))
        totals = segment_reduce(np.add, runs.totals()[index], offsets, 0)
        if one_each:
            find = _in_one_run(runs)
        elif runs.values.dtype.kind == "O" or np.diff(runs.offsets)[index].sum() < SMALL:
            find = _in_one_run(merged(runs.take(index), offsets))
        else:
            find = _across(runs, index, offsets)
        if self.method == LINEAR:
            values = [_between(find, float(part), totals) for part in self.parts]
        else:
            values = [find(ranks_of(self.method, part, totals), False)[0] for part in self.parts]
        return [arrow_from_values(found, totals > 0, self.item) for found in values]


#: Ranks, and whether the next value is wanted too, to the values at these ranks and the next ones.
Find = Callable[[Array, bool], tuple[Array, Array]]


def _between(find: Find, p: float, n: Array) -> Array:
    """As Spark computes it, to the last digit."""
    position = (n - 1) * p
    below = np.floor(position)
    low, high = find(np.where(n > 0, below.astype(np.int64) + 1, 0), True)
    mixed = (position > below) & ~same(low, high)
    low, high = as_float(low), as_float(high)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(mixed, low + (high - low) * (position - below), low)


def _in_one_run(runs: Runs) -> Find:
    """In runs that are whole: small inputs, and values that are objects."""
    totals = runs.totals()

    def find(ranks: Array, following: bool) -> tuple[Array, Array]:
        low, _ = runs.kth(ranks)
        return low, runs.kth(np.minimum(ranks + 1, totals))[0] if following else low

    return find


def _across(runs: Runs, index: Array, offsets: Array) -> Find:
    """Across the runs of each range, which are not merged."""
    from panes.aggregates import kernels

    def find(ranks: Array, following: bool) -> tuple[Array, Array]:
        low = np.zeros(len(ranks), runs.values.dtype)
        high = np.zeros(len(ranks) if following else 0, runs.values.dtype)
        kernels.select_ranges(runs.values, runs.upto, runs.offsets, index, offsets, ranks, low, high)
        return low, high

    return find


_FEWEST, _MOST = 2, 2**31 - 1


@dataclass(frozen=True, repr=False)
class HistogramNumeric(Holistic):
    """Bins as a list of structs: x, where a bin lies, and y, how many values it stands for."""

    name: ClassVar[str] = "histogram_numeric"
    takes: ClassVar[tuple[str, ...] | None] = (*NUMERIC, "temporal")
    advice: ClassVar[str] = "cast it to a number"

    bins: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.bins, bool) or not isinstance(self.bins, int) or not _FEWEST <= self.bins <= _MOST:
            raise QueryError(f"{self.name}: bins = {self.bins!r} is not a whole number between {_FEWEST} and {_MOST:,}")

    def bind(self, types: Sequence[pa.DataType]) -> BoundHistogram:
        (type,) = self.argument_types(types)
        return BoundHistogram(type, self.bins)


class BoundHistogram(BoundRuns):
    def __init__(self, type: pa.DataType, bins: int) -> None:
        item = pa.struct([pa.field("x", type), pa.field("y", pa.float64())])
        super().__init__(type, pa.list_(item))
        self.bins = bins

    def lower(self, cells: Cells) -> pa.Array:
        runs = Runs.of(cells)
        bounds = runs.offsets - runs.offsets[0]
        values, counts = runs.values[runs.offsets[0] : runs.offsets[-1]], runs.counts().astype(np.float64)
        if np.diff(bounds).max(initial=0) > self.bins:
            parts = [self._few(values[a:b], counts[a:b]) for a, b in pairwise(bounds.tolist())]
            values, counts = (np.concatenate(side) for side in zip(*parts))
            bounds = offsets_of(np.array([len(x) for x, _ in parts]))
        items = [arrow_from_values(values, None, self.type), pa.array(counts)]
        bins = pa.StructArray.from_arrays(items, fields=list(self.out_type.value_type))
        empty = pa.array(bounds[1:] == bounds[:-1])
        return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), bins, type=self.out_type, mask=empty)

    def _few(self, values: Array, counts: Array) -> tuple[Array, Array]:
        if len(values) <= self.bins:
            return values, counts
        x, y = merged_bins(values.tolist(), counts.tolist(), self.bins)
        kind = kind_of(self.type)
        places: list[Decimal] | list[int] | list[float] = x
        if kind in ("integer", "temporal"):
            places = [int(v) for v in x]  # towards zero, as a cast does
        elif kind == "decimal":
            unit = Decimal(1).scaleb(-self.type.scale)
            places = [Decimal(v).quantize(unit) for v in x]
        return np.array(places, values.dtype), np.array(y)


def _distance(low: float, high: float) -> float:
    """How far apart two bins are; NaN, which is larger than any number, is far from all."""
    found = high - low
    return found if found == found else math.inf


def merged_bins(values: Iterable[SupportsFloat], y: list[float], bins: int) -> tuple[list[float], list[float]]:
    """Put the nearest two neighbours together until `bins` are left; of several that are equally near the first."""
    x = [float(v) for v in values]
    before, after = [i - 1 for i in range(len(x))], [i + 1 for i in range(len(x))]
    stamp = [0] * len(x)
    near = [(_distance(x[i], x[i + 1]), i, 0, 0) for i in range(len(x) - 1)]
    heapq.heapify(near)
    left = len(x)
    while left > bins and near:
        _, i, mine, other = heapq.heappop(near)
        j = after[i]
        if stamp[i] != mine or j >= len(x) or stamp[j] != other or stamp[i] < 0:
            continue
        total = y[i] + y[j]
        x[i], y[i] = (x[i] * y[i] + x[j] * y[j]) / total, total
        stamp[i], stamp[j] = stamp[i] + 1, -1
        after[i] = after[j]
        if after[i] < len(x):
            before[after[i]] = i
            heapq.heappush(near, (_distance(x[i], x[after[i]]), i, stamp[i], stamp[after[i]]))
        if before[i] >= 0:
            k = before[i]
            heapq.heappush(near, (_distance(x[k], x[i]), k, stamp[k], stamp[i]))
        left -= 1
    kept = [i for i in range(len(x)) if stamp[i] >= 0]
    return [x[i] for i in kept], [y[i] for i in kept]
