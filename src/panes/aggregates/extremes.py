"""Min and max, how often they occur, and their distance. Values keep their type and are never converted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, localcontext
from typing import ClassVar

import numpy as np
import pyarrow as pa

from panes.aggregates.base import IDEMPOTENT, Array, BoundAggregate, Cells, Field, Inputs, Laws, Spec, present_values
from panes.aggregates.columns import arrow_from_values
from panes.aggregates.fieldwise import (
    CombinedField,
    Fieldwise,
    masked,
    present_count,
    present_rows,
    some_field,
)
from panes.aggregates.segments import SMALL, compress, greatest, least, less, normal, same, segment_ids, segment_reduce
from panes.aggregates.types import NUMERIC, ORDERED, kept_as, kind_of, storage_of
from panes.errors import DataError

_ADVICE = "take its parts apart first, or cast it to a type that has an order"


@dataclass(frozen=True, repr=False)
class Min(Spec):
    """Smallest value; NaN only if there is nothing else."""

    name: ClassVar[str] = "min"
    promises: ClassVar[Laws] = IDEMPOTENT
    takes: ClassVar[tuple[str, ...] | None] = ORDERED
    advice: ClassVar[str] = _ADVICE
    largest: ClassVar[bool] = False

    def bind(self, types: Sequence[pa.DataType]) -> BoundExtreme:
        (type,) = self.argument_types(types)
        return BoundExtreme(type, largest=self.largest)


@dataclass(frozen=True, repr=False)
class Max(Min):
    """Largest value; NaN is larger than any number."""

    name: ClassVar[str] = "max"
    largest: ClassVar[bool] = True


@dataclass(frozen=True, repr=False)
class MinCount(Spec):
    """How often the smallest value occurs."""

    name: ClassVar[str] = "min_count"
    takes: ClassVar[tuple[str, ...] | None] = ORDERED
    advice: ClassVar[str] = _ADVICE
    largest: ClassVar[bool] = False

    def bind(self, types: Sequence[pa.DataType]) -> BoundExtremeCount:
        (type,) = self.argument_types(types)
        return BoundExtremeCount(type, largest=self.largest)


@dataclass(frozen=True, repr=False)
class MaxCount(MinCount):
    """How often the largest value occurs."""

    name: ClassVar[str] = "max_count"
    largest: ClassVar[bool] = True


@dataclass(frozen=True, repr=False)
class Range(Spec):
    """Largest value minus smallest."""

    name: ClassVar[str] = "range"
    promises: ClassVar[Laws] = IDEMPOTENT
    takes: ClassVar[tuple[str, ...] | None] = (*NUMERIC, "temporal")

    def bind(self, types: Sequence[pa.DataType]) -> BoundRange:
        (type,) = self.argument_types(types)
        return BoundRange(type, self.inputs[0])


class BoundExtreme(Fieldwise):
    def __init__(self, type: pa.DataType, *, largest: bool) -> None:
        dtype = storage_of(type)
        ufunc, identity = greatest(dtype) if largest else least(dtype)
        super().__init__(
            (CombinedField("value", kept_as(type), dtype, ufunc, identity), some_field()), IDEMPOTENT, type
        )
        self.largest = largest

    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        (column,) = rows.columns
        part = self.parts[0]
        some = present_count(column, offsets) > 0
        if part.dtype.kind != "O":
            return Cells((segment_reduce(part.ufunc, masked(column, part.identity), offsets, part.identity), some))
        values, offsets = present_values(column, offsets)
        return Cells((segment_reduce(part.ufunc, values, offsets, None), some))

    def lift_groups(self, rows: Inputs, groups: Array, n: int) -> Cells:
        if not self.dense:
            return super().lift_groups(rows, groups, n)
        values, groups = present_rows(rows.columns[0], groups)
        best, some = self.empty(n).fields
        if len(groups) < SMALL:
            with np.errstate(invalid="ignore"):  # NaN is a value like others here
                self.parts[0].ufunc.at(best, groups, values)
            some[groups] = True
        else:
            from panes.aggregates import kernels

            scatter = kernels.max_by_group if self.largest else kernels.min_by_group
            scatter(values, groups, best, some)
        return Cells((best, some))

    def lower(self, cells: Cells) -> pa.Array:
        return arrow_from_values(normal(cells.fields[0]), cells.fields[1], self.out_type)


class BoundExtremeCount(BoundAggregate):
    """The extreme value and how many rows have it; a cell without rows counts 0."""

    def __init__(self, type: pa.DataType, *, largest: bool) -> None:
        self.laws = Laws()
        self.fields = (Field("value", kept_as(type)), Field("n", pa.int64()))
        self.out_type = pa.int64()
        self.dtype = storage_of(type)
        self.dense = self.dtype.kind != "O"
        self.largest = largest
        self.best = BoundExtreme(type, largest=largest)
        self.ufunc, self.identity = self.best.parts[0].ufunc, self.best.parts[0].identity

    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        (column,) = rows.columns
        ones = np.ones(len(column), np.int64) if column.valid is None else column.valid.astype(np.int64)
        return self.fold(Cells((column.values, ones)), offsets)

    def lift_groups(self, rows: Inputs, groups: Array, n: int) -> Cells:
        if not self.dense:
            return super().lift_groups(rows, groups, n)
        (best, _) = self.best.lift_groups(rows, groups, n).fields
        values, groups = present_rows(rows.columns[0], groups)
        hit = same(values, best[groups])
        return Cells((best, np.bincount(groups[hit], minlength=n)))

    def fold(self, cells: Cells, offsets: Array) -> Cells:
        values, counts = cells.fields
        held = counts > 0
        if not held.all():
            index, offsets = compress(held, offsets)
            values, counts = values[index], counts[index]
        else:
            values, counts = values[offsets[0] : offsets[-1]], counts[offsets[0] : offsets[-1]]
            offsets = offsets - offsets[0]
        best = segment_reduce(self.ufunc, values, offsets, self.identity)
        hits = np.where(same(values, best[segment_ids(offsets)]), counts, 0)
        return Cells((best, segment_reduce(np.add, hits, offsets, 0)))

    def merge(self, a: Cells, b: Cells) -> Cells:
        if not self.dense:
            return super().merge(a, b)
        (x, m), (y, n) = a.fields, b.fields
        better = less(y, x) if not self.largest else less(x, y)
        take_b = (n > 0) & ((m == 0) | better)
        tie = (n > 0) & (m > 0) & same(x, y)
        return Cells((np.where(take_b, y, x), np.where(tie, m + n, np.where(take_b, n, m))))

    def empty(self, n: int) -> Cells:
        return Cells((np.full(n, self.identity, self.dtype), np.zeros(n, np.int64)))

    def lower(self, cells: Cells) -> pa.Array:
        return pa.array(cells.fields[1])


class BoundRange(Fieldwise):
    def __init__(self, type: pa.DataType, argument: str) -> None:
        dtype = storage_of(type)
        low = CombinedField("min", kept_as(type), dtype, *least(dtype))
        high = CombinedField("max", kept_as(type), dtype, *greatest(dtype))
        super().__init__((low, high, some_field()), IDEMPOTENT, _distance_type(type))
        self.ends = BoundExtreme(type, largest=False), BoundExtreme(type, largest=True)
        self.type = type
        self.argument = argument

    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        low, high = (end.lift(rows, offsets) for end in self.ends)
        return Cells((low.fields[0], *high.fields))

    def lift_groups(self, rows: Inputs, groups: Array, n: int) -> Cells:
        low, high = (end.lift_groups(rows, groups, n) for end in self.ends)
        return Cells((low.fields[0], *high.fields))

    def lower(self, cells: Cells) -> pa.Array:
        low, high, some = cells.fields
        kind = kind_of(self.type)
        if kind == "decimal":
            distance = np.empty(len(some), object)
            with localcontext(Context(prec=100)):
                distance[some] = high[some] - low[some]
        elif kind == "float":
            with np.errstate(invalid="ignore"):
                distance = np.where(some, high, 0) - np.where(some, low, 0)
        else:
            distance = self._integer_distance(np.where(some, low, 0), np.where(some, high, 0))
        return arrow_from_values(distance, some, self.out_type)

    def _integer_distance(self, low: Array, high: Array) -> Array:
        if low.dtype.itemsize < 8:
            low, high = low.astype(np.int64), high.astype(np.int64)
        distance: Array = high - low
        if (high < low + distance).any() or (distance < 0).any():
            raise DataError(f"range of `{self.argument}` goes beyond a 64-bit integer; cast it to decimal(38,0)")
        if self.type == pa.date32():
            distance = distance * 86_400
        return distance


def _distance_type(type: pa.DataType) -> pa.DataType:
    if kind_of(type) == "integer":
        return pa.uint64() if type == pa.uint64() else pa.int64()
    if pa.types.is_date(type):
        return pa.duration("ms" if type == pa.date64() else "s")
    if pa.types.is_timestamp(type) or pa.types.is_time(type):
        return pa.duration(type.unit)
    if kind_of(type) == "decimal":
        return pa.decimal128(38, type.scale)
    return type
