"""Variance, standard deviation, skewness and kurtosis: sums of powers of distances from the mean, up to the fourth.

Partials are merged as Chan, Golub and LeVeque do: nothing is ever computed as a difference of large squares, so values
far from zero lose no digits. The mean is found as a distance from one of the values. So it is exact where all values
are equal, and sums of squares of such values are exactly 0, which is when correlation, slope (`pairs.py`), skewness and
kurtosis are null.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Array, BoundAggregate, Cells, Column, Field, Inputs, Laws, Spec
from panes.aggregates.columns import arrow_from_values
from panes.aggregates.fieldwise import masked, present_rows
from panes.aggregates.segments import compress, segment_ids, segment_reduce
from panes.aggregates.totals import as_float, sums_by_group
from panes.aggregates.types import NUMERIC


def complete_rows(columns: Sequence[Column], offsets: Array) -> tuple[list[Array], Array]:
    """The values in float64 of the rows in which no column is null, and the segments among them."""
    valid = None
    for column in columns:
        if column.valid is not None:
            valid = column.valid if valid is None else valid & column.valid
    if valid is None:
        first, stop = offsets[0], offsets[-1]
        return [as_float(c.values[first:stop]) for c in columns], offsets - first
    index, offsets = compress(valid, offsets)
    return [as_float(c.values[index]) for c in columns], offsets


def held_cells(cells: Cells, offsets: Array) -> tuple[list[Array], Array]:
    """The fields of the cells that hold any value (the first field counts them), and the segments among them."""
    index, offsets = compress(cells.fields[0] > 0, offsets)
    return [f[index] for f in cells.fields], offsets


def mean_near(values: Array, weights: Array | None, offsets: Array) -> Array:
    """The weighted mean of each segment, exact if all of its values are equal; 0 for an empty one."""
    filled = offsets[1:] > offsets[:-1]
    total = np.diff(offsets) if weights is None else segment_reduce(np.add, weights, offsets, 0)
    near = np.zeros(len(filled))
    near[filled] = values[offsets[:-1][filled]]
    away = values - near[segment_ids(offsets)]
    if weights is not None:
        away = away * weights
    return near + segment_reduce(np.add, away, offsets, 0.0) / np.maximum(total, 1)


def sums(columns: Sequence[Array], offsets: Array) -> list[Array]:
    """The sum of each column per segment."""
    return [segment_reduce(np.add, column, offsets, 0.0) for column in columns]


@dataclass(frozen=True, repr=False)
class Variance(Spec):
    """Mean squared distance from the mean; of a sample unless `population`."""

    name: ClassVar[str] = "variance"
    takes: ClassVar[tuple[str, ...] | None] = NUMERIC
    root: ClassVar[bool] = False

    population: bool = False

    def bind(self, types: Sequence[pa.DataType]) -> BoundMoments:
        self.argument_types(types)
        return BoundMoments(self.population, self.root)


@dataclass(frozen=True, repr=False)
class StdDev(Variance):
    """Square root of the variance."""

    name: ClassVar[str] = "stddev"
    root: ClassVar[bool] = True


@dataclass(frozen=True, repr=False)
class MergedMoments(Spec):
    """Of rows that are moments themselves (n, mean, m2, as of slices found elsewhere): the moments of all."""

    name: ClassVar[str] = "merged_moments"

    def bind(self, types: Sequence[pa.DataType]) -> BoundMergedMoments:
        self.argument_types(types)
        return BoundMergedMoments(population=True, root=False)


class BoundMoments(BoundAggregate):
    laws = Laws()
    fields = (Field("n", pa.int64()), Field("mean", pa.float64()), Field("m2", pa.float64()))
    out_type = pa.float64()
    dense = True

    def __init__(self, population: bool, root: bool) -> None:
        self.population = population
        self.root = root

    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        (values,), offsets = complete_rows(rows.columns, offsets)
        with np.errstate(invalid="ignore", over="ignore"):
            total = np.diff(offsets)
            divisor = np.maximum(total, 1)
            centre = segment_reduce(np.add, values, offsets, 0.0) / divisor
            away = np.repeat(centre, total)
            np.subtract(values, away, out=away)
            drift = segment_reduce(np.add, away, offsets, 0.0) / divisor
            away *= away
            return _cells(total, centre, drift, segment_reduce(np.add, away, offsets, 0.0))

    def lift_groups(self, rows: Inputs, groups: Array, n: int) -> Cells:
        values, groups = present_rows(rows.columns[0], groups)
        values = as_float(values)
        with np.errstate(invalid="ignore", over="ignore"):
            sums, total = sums_by_group(values, groups, n)
            divisor = np.maximum(total, 1)
            centre = sums / divisor
            away = values - centre[groups]
            drift = sums_by_group(away, groups, n)[0] / divisor
            away *= away
            return _cells(total, centre, drift, sums_by_group(away, groups, n)[0])

    def fold(self, cells: Cells, offsets: Array) -> Cells:
        n, mean, m2 = (f[offsets[0] : offsets[-1]] for f in cells.fields)
        offsets = offsets - offsets[0]
        with np.errstate(invalid="ignore", over="ignore"):
            total = segment_reduce(np.add, n, offsets, 0)
            divisor = np.maximum(total, 1)
            centre = segment_reduce(np.add, n * mean, offsets, 0.0) / divisor
            away = mean - centre[segment_ids(offsets)]
            away[n == 0] = 0.0  # the mean of no values says nothing, even where the centre is infinite
            drift = segment_reduce(np.add, n * away, offsets, 0.0) / divisor
            return _cells(total, centre, drift, segment_reduce(np.add, m2 + n * away * away, offsets, 0.0))

    def merge(self, a: Cells, b: Cells) -> Cells:
        (n, x, p), (m, y, q) = a.fields, b.fields
        with np.errstate(invalid="ignore", over="ignore"):
            total = n + m
            share = m / np.maximum(total, 1)
            apart = np.where((n > 0) & (m > 0), y - x, 0.0)
            mean = np.where(n > 0, x + apart * share, y)
            return Cells((total, mean, p + q + apart * apart * n * share))

    def lower(self, cells: Cells) -> pa.Array:
        n, _, m2 = cells.fields
        freedom = n if self.population else n - 1
        out = m2 / np.maximum(freedom, 1)
        return arrow_from_values(np.sqrt(out) if self.root else out, freedom > 0, self.out_type)


class BoundMergedMoments(BoundMoments):
    out_type = pa.struct([pa.field(f.name, f.type) for f in BoundMoments.fields])

    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        return self.fold(Cells(tuple(masked(column, 0) for column in rows.columns)), offsets)

    def lift_groups(self, rows: Inputs, groups: Array, n: int) -> Cells:
        return BoundAggregate.lift_groups(self, rows, groups, n)

    def lower(self, cells: Cells) -> pa.Array:
        return pa.StructArray.from_arrays([pa.array(f) for f in cells.fields], fields=list(self.out_type))


def _cells(n: Array, centre: Array, drift: Array, squares: Array) -> Cells:
    """Cells from squares around a rounded centre; `drift` is how far the true mean lies from it."""
    return Cells((n, centre + drift, np.maximum(squares - n * drift * drift, 0.0)))


@dataclass(frozen=True, repr=False)
class Skewness(Spec):
    """How lopsided values lie around their mean; of the population."""

    name: ClassVar[str] = "skewness"
    takes: ClassVar[tuple[str, ...] | None] = NUMERIC
    power: ClassVar[int] = 3

    def bind(self, types: Sequence[pa.DataType]) -> BoundShape:
        self.argument_types(types)
        return BoundShape(self.power)


@dataclass(frozen=True, repr=False)
class Kurtosis(Skewness):
    """How heavy the tails of values are, above those of a normal distribution; of the population."""

    name: ClassVar[str] = "kurtosis"
    power: ClassVar[int] = 4


class BoundShape(BoundAggregate):
    laws = Laws()
    fields = (Field("n", pa.int64()), *(Field(name, pa.float64()) for name in ("mean", "m2", "m3", "m4")))
    out_type = pa.float64()
    dense = True

    def __init__(self, power: int) -> None:
        self.power = power

    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        (values,), offsets = complete_rows(rows.columns, offsets)
        with np.errstate(invalid="ignore", over="ignore"):
            mean = mean_near(values, None, offsets)
            d = values - mean[segment_ids(offsets)]
            square = d * d
            return _around(np.diff(offsets), mean, *sums([d, square, square * d, square * square], offsets))

    def fold(self, cells: Cells, offsets: Array) -> Cells:
        (n, means, *powers), offsets = held_cells(cells, offsets)
        with np.errstate(invalid="ignore", over="ignore"):
            mean = mean_near(means, n, offsets)
            moved = _moved(n, means - mean[segment_ids(offsets)], *powers)
            return _around(segment_reduce(np.add, n, offsets, 0), mean, *sums(moved, offsets))

    def merge(self, a: Cells, b: Cells) -> Cells:
        (n, x, *p), (m, y, *q) = a.fields, b.fields
        with np.errstate(invalid="ignore", over="ignore"):
            total = n + m
            apart = np.where((n > 0) & (m > 0), y - x, 0.0)
            mean = np.where(n > 0, x + apart * (m / np.maximum(total, 1)), y)
            left = _moved(n, np.where(n > 0, x - mean, 0.0), *p)
            right = _moved(m, np.where(m > 0, y - mean, 0.0), *q)
            return Cells((total, mean, *(u + v for u, v in zip(left[1:], right[1:], strict=True))))

    def lower(self, cells: Cells) -> pa.Array:
        n, _, m2, m3, m4 = cells.fields
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            found = np.sqrt(n) * m3 / np.sqrt(m2 * m2 * m2) if self.power == 3 else n * m4 / (m2 * m2) - 3.0
        return arrow_from_values(found, (n > 0) & (m2 != 0), self.out_type)


def _moved(n: Array, d: Array, m2: Array, m3: Array, m4: Array) -> list[Array]:
    """Sums of the first to fourth power around a point, from those around means that lie d away from it."""
    s = d * d
    return [n * d, m2 + n * s, m3 + 3 * d * m2 + n * s * d, m4 + 4 * d * m3 + 6 * s * m2 + n * s * s]


def _around(n: Array, centre: Array, s1: Array, s2: Array, s3: Array, s4: Array) -> Cells:
    """Cells from sums of powers around a rounded centre: the true mean lies a little away from it."""
    e = s1 / np.maximum(n, 1)
    s = e * e
    m2 = np.maximum(s2 - n * s, 0.0)
    m3 = s3 - 3 * e * s2 + 2 * n * s * e
    return Cells((n, centre + e, m2, m3, s4 - 4 * e * s3 + 6 * s * s2 - 3 * n * s * s))
