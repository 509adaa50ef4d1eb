"""Count, sum, average, product and geometric mean: exact for integers and decimals, float64 for floats.

Integer sums are exact whatever the order of combination: 64-bit inputs are kept as two halves that can't
overflow, so only a *result* beyond int64 is an error, never a partial. That makes them invertible even
by prefix sums. Float sums are not exactly invertible and say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from typing import ClassVar

import numpy as np
import pyarrow as pa

from panes.aggregates.base import INVERTIBLE, Array, Cells, Column, Inputs, Laws, Spec, present_values
from panes.aggregates.columns import arrow_from_values
from panes.aggregates.fieldwise import CombinedField, Fieldwise, count_field, masked, present_count, present_rows
from panes.aggregates.segments import SMALL, segment_count, segment_reduce
from panes.aggregates.types import NUMERIC, kind_of
from panes.errors import DataError

_FLOAT = np.dtype(np.float64)
_INT = np.dtype(np.int64)
_LOW = (1 << 32) - 1
_EXACT = Context(prec=100, rounding=ROUND_HALF_UP)


@dataclass(frozen=True, repr=False)
class Count(Spec):
    """Rows, or rows in which all arguments are there."""

    name: ClassVar[str] = "count"
    promises: ClassVar[Laws] = INVERTIBLE

    def bind(self, types: Sequence[pa.DataType]) -> BoundCount:
        self.argument_types(types)
        return BoundCount((count_field(),), INVERTIBLE, pa.int64())


@dataclass(frozen=True, repr=False)
class Sum(Spec):
    """Sum: int64 for integers, exact decimal for decimals, float64 for floats."""

    name: ClassVar[str] = "sum"
    takes: ClassVar[tuple[str, ...] | None] = NUMERIC
    mean: ClassVar[bool] = False
    #: null where the result goes beyond its type, instead of an error
    tolerant: ClassVar[bool] = False

    def advice_on(self, text: str, type: pa.DataType) -> str:
        to = "int" if kind_of(type) == "boolean" and not self.mean else "double"
        return f"cast it, for instance {self.name}(cast({text} as {to}))"

    def bind(self, types: Sequence[pa.DataType]) -> Total:
        (type,) = self.argument_types(types)
        return total_of(self.inputs[0], type, mean=self.mean, tolerant=self.tolerant)


@dataclass(frozen=True, repr=False)
class Avg(Sum):
    """Arithmetic mean: float64, or decimal with four more digits for decimals."""

    name: ClassVar[str] = "avg"
    mean: ClassVar[bool] = True


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
    takes: ClassVar[tuple[str, ...] | None] = NUMERIC

    def bind(self, types: Sequence[pa.DataType]) -> BoundProduct:
        self.argument_types(types)
        part = CombinedField("product", pa.float64(), _FLOAT, np.multiply, 1.0)
        return BoundProduct((part, count_field()), Laws(), pa.float64(), mean=False)


@dataclass(frozen=True, repr=False)
class GeometricMean(Spec):
    """exp of the mean of logarithms: 0 if any value is 0, NaN if any is negative."""

    name: ClassVar[str] = "geometric_mean"
    takes: ClassVar[tuple[str, ...] | None] = NUMERIC

    def bind(self, types: Sequence[pa.DataType]) -> BoundGeometricMean:
        self.argument_types(types)
        return BoundGeometricMean((float_sum_field(), count_field()), Laws(), pa.float64(), mean=True)


def total_of(argument: str, type: pa.DataType, *, mean: bool, tolerant: bool = False) -> Total:
    """The sum, or the mean, of an argument of this numeric type; `tolerant`: null where it goes beyond its type."""
    kind = kind_of(type)
    if kind == "float":
        return FloatTotal((float_sum_field(), count_field()), Laws(), pa.float64(), mean)
    if kind == "decimal":
        exact = pa.decimal128(38, type.scale)
        out = pa.decimal128(min(38, type.precision + 4), min(38, type.scale + 4)) if mean else exact
        part = CombinedField("sum", exact, np.dtype(object), np.add, Decimal(0))
        return DecimalTotal((part, count_field()), INVERTIBLE, out, mean, tolerant)
    out = pa.float64() if mean else pa.int64()
    if type.bit_width < 64:
        part = CombinedField("sum", pa.int64(), _INT, np.add, 0)
        return NarrowTotal((part, count_field()), INVERTIBLE, out, mean)
    return WideTotal(
        (count_field("high"), count_field("low"), count_field()), INVERTIBLE, out, mean, argument, tolerant
    )


def float_sum_field() -> CombinedField:
    return CombinedField("sum", pa.float64(), _FLOAT, np.add, 0.0)


def as_float(values: Array) -> Array:
    """Numbers of any kind (decimals too) in float64."""
    return values.astype(_FLOAT, copy=False)


class Total(Fieldwise):
    """A sum and the number of its values; lowered to the sum itself or to the mean."""

    def __init__(self, parts: tuple[CombinedField, ...], laws: Laws, out_type: pa.DataType, mean: bool) -> None:
        super().__init__(parts, laws, out_type)
        self.mean = mean

    def lower(self, cells: Cells) -> pa.Array:
        sums, n = cells.fields
        some = n > 0
        if self.mean:
            sums = sums / np.maximum(n, 1)
        return arrow_from_values(sums, some, self.out_type)


class DoubleTotal(Total):
    """Numbers that may become infinite, or none at all, without a warning."""

    def fold(self, cells: Cells, offsets: Array) -> Cells:
        with np.errstate(invalid="ignore", over="ignore"):
            return super().fold(cells, offsets)

    def merge(self, a: Cells, b: Cells) -> Cells:
        with np.errstate(invalid="ignore", over="ignore"):
            return super().merge(a, b)


class FloatTotal(DoubleTotal):
    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        (column,) = rows.columns
        with np.errstate(invalid="ignore", over="ignore"):
            sums = segment_reduce(np.add, as_float(masked(column, 0)), offsets, 0.0)
        return Cells((sums, present_count(column, offsets)))

    def lift_groups(self, rows: Inputs, groups: Array, n: int) -> Cells:
        values, groups = present_rows(rows.columns[0], groups)
        return Cells(sums_by_group(as_float(values), groups, n))


class NarrowTotal(Total):
    """Integers of at most 32 bits: their int64 sum can't overflow within any number of rows held."""

    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        (column,) = rows.columns
        sums = segment_reduce(np.add, masked(column, 0).astype(_INT), offsets, 0)
        return Cells((sums, present_count(column, offsets)))

    def lift_groups(self, rows: Inputs, groups: Array, n: int) -> Cells:
        values, groups = present_rows(rows.columns[0], groups)
        return Cells(sums_by_group(values.astype(_INT), groups, n))


class WideTotal(Total):
    """64-bit integers: the sum is high * 2^32 + low, both int64, so that no combination overflows."""

    def __init__(
        self,
        parts: tuple[CombinedField, ...],
        laws: Laws,
        out_type: pa.DataType,
        mean: bool,
        argument: str,
        tolerant: bool,
    ) -> None:
        super().__init__(parts, laws, out_type, mean)
        self.argument = argument
        self.tolerant = tolerant

    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        (column,) = rows.columns
        values = masked(column, 0)
        if _sum_fits(values, len(values)):
            sums = segment_reduce(np.add, values.astype(_INT, copy=False), offsets, 0)
            high, low = _halves(sums)
        else:
            high = segment_reduce(np.add, (values >> 32).astype(_INT, copy=False), offsets, 0)
            low = segment_reduce(np.add, (values & _LOW).astype(_INT, copy=False), offsets, 0)
        return Cells((high, low, present_count(column, offsets)))

    def lift_groups(self, rows: Inputs, groups: Array, n: int) -> Cells:
        values, kept = present_rows(rows.columns[0], groups)
        if not _sum_fits(values, len(values)):
            return super().lift_groups(rows, groups, n)
        sums, counts = sums_by_group(values.astype(_INT, copy=False), kept, n)
        return Cells((*_halves(sums), counts))

    def lower(self, cells: Cells) -> pa.Array:
        high, low, n = cells.fields
        top = high + (low >> 32)
        fits = (top >= -(1 << 31)) & (top < (1 << 31))
        sums = (top << 32) | (low & _LOW)
        if not self.mean:
            if not self.tolerant and not fits.all():
                raise DataError(
                    f"sum of `{self.argument}` goes beyond the range of a 64-bit integer; "
                    f"cast it to a decimal, for instance sum(cast({self.argument} as decimal(38,0)))"
                )
            return arrow_from_values(sums, (n > 0) & fits, self.out_type)
        means = np.where(fits, sums, high * float(1 << 32) + low) / np.maximum(n, 1)
        return arrow_from_values(means, n > 0, self.out_type)


class DecimalTotal(Total):
    """Decimals, added as Python objects in a context wide enough to be exact."""

    def __init__(
        self, parts: tuple[CombinedField, ...], laws: Laws, out_type: pa.DataType, mean: bool, tolerant: bool
    ) -> None:
        super().__init__(parts, laws, out_type, mean)
        self.tolerant = tolerant

    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        (column,) = rows.columns
        counts = present_count(column, offsets)
        values, offsets = present_values(column, offsets)
        with localcontext(_EXACT):
            return Cells((segment_reduce(np.add, values, offsets, Decimal(0)), counts))

    def fold(self, cells: Cells, offsets: Array) -> Cells:
        with localcontext(_EXACT):
            return super().fold(cells, offsets)

    def invert(self, a: Cells, b: Cells) -> Cells:
        with localcontext(_EXACT):
            return super().invert(a, b)

    def lower(self, cells: Cells) -> pa.Array:
        sums, n = cells.fields
        if self.mean:
            unit = Decimal(1).scaleb(-self.out_type.scale)
            with localcontext(_EXACT):
                means = [(s / c).quantize(unit) if c else None for s, c in zip(sums, n.tolist(), strict=True)]
            sums = np.array([*means, None], object)[:-1]
        some = n > 0
        if self.tolerant:
            limit = Decimal(1).scaleb(self.out_type.precision - self.out_type.scale)
            some = some & np.array([s is not None and s.copy_abs() < limit for s in sums], bool)
        return arrow_from_values(sums, some, self.out_type)


def _halves(sums: Array) -> tuple[Array, Array]:
    """High and low 32 bits; reuses the memory of `sums`, fresh pages being dearer than the arithmetic."""
    high = sums >> 32
    return high, np.bitwise_and(sums, _LOW, out=sums)


def _sum_fits(values: Array, n: int) -> bool:
    """Whether a sum of up to n of these can't leave int64: a cheap bound, not the sum itself."""
    if n == 0:
        return True
    return max(int(values.max()), -int(values.min())) * n < 1 << 63


def sums_by_group(values: Array, groups: Array, n: int) -> tuple[Array, Array]:
    """(sum, number of values) per group 0..n-1."""
    sums, counts = np.zeros(n, values.dtype), np.zeros(n, np.int64)
    if len(groups) < SMALL:
        with np.errstate(invalid="ignore", over="ignore"):
            np.add.at(sums, groups, values)
        return sums, np.bincount(groups, minlength=n)
    from panes.aggregates import kernels

    kernels.sum_by_group(values, groups, sums, counts)
    return sums, counts


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

    def lower(self, cells: Cells) -> pa.Array:
        return pa.array(cells.fields[0])


class BoundProduct(DoubleTotal):
    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        (column,) = rows.columns
        with np.errstate(invalid="ignore", over="ignore"):
            products = segment_reduce(np.multiply, as_float(masked(column, 1)), offsets, 1.0)
        return Cells((products, present_count(column, offsets)))


class BoundGeometricMean(FloatTotal):
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
