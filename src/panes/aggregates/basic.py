"""Count, sum, average, product and geometric mean; `totals.py` does the adding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Array, Cells, Column, Inputs, Laws
from panes.aggregates.columns import arrow_from_values
from panes.aggregates.fieldwise import Fieldwise, Part, count_part, masked, present_count
from panes.aggregates.segments import SMALL, rows_by_group, segment_count, segment_reduce
from panes.aggregates.spec import Spec
from panes.aggregates.totals import (
    INVERTIBLE,
    FloatTotal,
    Total,
    as_float,
    float_sum_part,
    subtract,
    total_of,
)
from panes.aggregates.types import NUMERIC, kind_of, require


@dataclass(frozen=True, repr=False)
class Count(Spec):
    """Rows, or rows in which all arguments are there."""

    name: ClassVar[str] = "count"
    promises: ClassVar[Laws] = INVERTIBLE

    def bind(self, types: Sequence[pa.DataType]) -> BoundCount:
        self.argument_types(types)
        return BoundCount((count_part(),), INVERTIBLE, pa.int64())


@dataclass(frozen=True, repr=False)
class Sum(Spec):
    """Sum: int64 for integers, exact decimal for decimals, float64 for floats."""

    name: ClassVar[str] = "sum"
    #: null where the result goes beyond its type, instead of an error
    tolerant: ClassVar[bool] = False

    def bind(self, types: Sequence[pa.DataType]) -> Fieldwise:
        (type,) = self.argument_types(types)
        to = "int" if kind_of(type) == "boolean" else "double"
        advice = f"cast it, for instance {self.name}(cast({self.inputs[0]} as {to}))"
        require(repr(self), self.inputs[0], type, NUMERIC, advice)
        return total_of(self.inputs[0], type, mean=False, tolerant=self.tolerant)


@dataclass(frozen=True, repr=False)
class Avg(Spec):
    """Arithmetic mean: float64, or decimal with four more digits for decimals."""

    name: ClassVar[str] = "avg"
    tolerant: ClassVar[bool] = False

    def bind(self, types: Sequence[pa.DataType]) -> Fieldwise:
        (type,) = self.argument_types(types)
        advice = f"cast it, for instance {self.name}(cast({self.inputs[0]} as double))"
        require(repr(self), self.inputs[0], type, NUMERIC, advice)
        return total_of(self.inputs[0], type, mean=True, tolerant=self.tolerant)


@dataclass(frozen=True, repr=False)
class TrySum(Sum):
    """The sum, or null where it goes beyond its type."""

    name: ClassVar[str] = "try_sum"
    tolerant: ClassVar[bool] = True


@dataclass(frozen=True, repr=False)
class TryAvg(Avg):
    """The mean, or null where it goes beyond its type."""

    name: ClassVar[str] = "try_avg"
    tolerant: ClassVar[bool] = True


@dataclass(frozen=True, repr=False)
class Product(Spec):
    """Product of values, in float64."""

    name: ClassVar[str] = "product"

    def bind(self, types: Sequence[pa.DataType]) -> Fieldwise:
        (type,) = self.argument_types(types)
        require(repr(self), self.inputs[0], type, NUMERIC, "cast it to a number")
        part = Part("product", pa.float64(), np.dtype(np.float64), np.multiply, 1.0)
        return BoundProduct((part, count_part()), Laws(), pa.float64())


@dataclass(frozen=True, repr=False)
class GeometricMean(Spec):
    """exp of the mean of logarithms: 0 if any value is 0, NaN if any is negative."""

    name: ClassVar[str] = "geometric_mean"

    def bind(self, types: Sequence[pa.DataType]) -> Fieldwise:
        (type,) = self.argument_types(types)
        require(repr(self), self.inputs[0], type, NUMERIC, "cast it to a number")
        return BoundGeometricMean((float_sum_part(), count_part()), Laws(), pa.float64())


class BoundCount(Fieldwise):
    """Rows in which all arguments are there."""

    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        valid = _all_there(rows)
        return Cells((np.diff(offsets) if valid is None else segment_count(valid, offsets),))

    def lift_groups(self, rows: Inputs, groups: Array, n: int) -> Cells:
        valid = _all_there(rows)
        if valid is not None:
            groups = groups[valid]
        if len(groups) < SMALL:
            return Cells((np.bincount(groups, minlength=n),))
        from panes.aggregates import kernels

        return Cells((kernels.count_by_group(groups, n),))

    def invert(self, a: Cells, b: Cells) -> Cells:
        return subtract(a, b)

    def lower(self, cells: Cells) -> pa.Array:
        return pa.array(cells.fields[0])


class BoundProduct(Total):
    def __init__(self, parts: tuple[Part, ...], laws: Laws, out_type: pa.DataType) -> None:
        super().__init__(parts, laws, out_type, mean=False)

    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        (column,) = rows.columns
        with np.errstate(invalid="ignore", over="ignore"):
            products = segment_reduce(np.multiply, as_float(masked(column, 1)), offsets, 1.0)
        return Cells((products, present_count(column, offsets)))

    def lift_groups(self, rows: Inputs, groups: Array, n: int) -> Cells:
        return self.lift(*rows_by_group(rows, groups, n))

    def fold(self, cells: Cells, offsets: Array) -> Cells:
        with np.errstate(invalid="ignore", over="ignore"):
            return super().fold(cells, offsets)

    def merge(self, a: Cells, b: Cells) -> Cells:
        with np.errstate(invalid="ignore", over="ignore"):
            return super().merge(a, b)


class BoundGeometricMean(FloatTotal):
    def __init__(self, parts: tuple[Part, ...], laws: Laws, out_type: pa.DataType) -> None:
        super().__init__(parts, laws, out_type, mean=True)

    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        return super().lift(_logarithms(rows), offsets)

    def lift_groups(self, rows: Inputs, groups: Array, n: int) -> Cells:
        return super().lift_groups(_logarithms(rows), groups, n)

    def lower(self, cells: Cells) -> pa.Array:
        sums, n = cells.fields
        return arrow_from_values(np.exp(sums / np.maximum(n, 1)), n > 0, self.out_type)


def _all_there(rows: Inputs) -> Array | None:
    """Which rows have no null among the arguments; None: all."""
    present = [c.valid for c in rows.columns if c.valid is not None]
    if len(present) < 2:
        return present[0] if present else None
    return np.asarray(np.logical_and.reduce(present))


def _logarithms(rows: Inputs) -> Inputs:
    (column,) = rows.columns
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(as_float(masked(column, 1)))
    return Inputs((Column(logs, column.valid, pa.float64()),), rows.times, rows.seq, rows.rows)
