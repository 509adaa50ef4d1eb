"""Variance and standard deviation from (n, mean, M2), merged as Chan, Golub and LeVeque do.

M2 is the sum of squared distances from the mean. Nothing is ever computed as a difference of large squares,
so values far from zero lose no digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Array, BoundAggregate, Cells, Field, Inputs, Laws
from panes.aggregates.columns import arrow_from_values
from panes.aggregates.fieldwise import masked, present_rows
from panes.aggregates.segments import compress, segment_ids, segment_reduce, sort_by_group
from panes.aggregates.spec import Spec
from panes.aggregates.totals import as_float, sums_by_group
from panes.aggregates.types import NUMERIC, require


@dataclass(frozen=True, repr=False)
class Variance(Spec):
    """Mean squared distance from the mean; of a sample unless `population`."""

    name: ClassVar[str] = "variance"
    root: ClassVar[bool] = False

    population: bool = False

    def bind(self, types: Sequence[pa.DataType]) -> BoundMoments:
        (type,) = self.argument_types(types)
        require(repr(self), self.inputs[0], type, NUMERIC, "cast it to a number")
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
        (column,) = rows.columns
        values = column.values
        if column.valid is not None:
            index, offsets = compress(column.valid, offsets)
            values = values[index]
        else:
            values = values[offsets[0] : offsets[-1]]
            offsets = offsets - offsets[0]
        values = as_float(values)
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

    def empty(self, n: int) -> Cells:
        return Cells((np.zeros(n, np.int64), np.zeros(n), np.zeros(n)))

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
        order, offsets = sort_by_group(groups, n)
        return self.lift(rows.take(order), offsets)

    def lower(self, cells: Cells) -> pa.Array:
        return pa.StructArray.from_arrays([pa.array(f) for f in cells.fields], fields=list(self.out_type))


def _cells(n: Array, centre: Array, drift: Array, squares: Array) -> Cells:
    """Cells from squares around a rounded centre; `drift` is how far the true mean lies from it."""
    return Cells((n, centre + drift, np.maximum(squares - n * drift * drift, 0.0)))
