"""Skewness and kurtosis, from the second, third and fourth power of distances from the mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Array, BoundAggregate, Cells, Field, Inputs, Laws
from panes.aggregates.centred import complete_rows, held_cells, mean_near, sums
from panes.aggregates.columns import arrow_from_values
from panes.aggregates.segments import rows_by_group, segment_ids, segment_reduce
from panes.aggregates.spec import Spec
from panes.aggregates.types import NUMERIC, require


@dataclass(frozen=True, repr=False)
class Skewness(Spec):
    """How lopsided values lie around their mean; of the population."""

    name: ClassVar[str] = "skewness"
    power: ClassVar[int] = 3

    def bind(self, types: Sequence[pa.DataType]) -> BoundShape:
        (type,) = self.argument_types(types)
        require(repr(self), self.inputs[0], type, NUMERIC, "cast it to a number")
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

    def lift_groups(self, rows: Inputs, groups: Array, n: int) -> Cells:
        return self.lift(*rows_by_group(rows, groups, n))

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

    def empty(self, n: int) -> Cells:
        return Cells((np.zeros(n, np.int64), *(np.zeros(n) for _ in range(4))))

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
