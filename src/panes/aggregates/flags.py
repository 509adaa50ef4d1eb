"""Aggregates of conditions and of bits: bool_and, bool_or, count_if, bit_and, bit_or, bit_xor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from panes.aggregates.base import IDEMPOTENT, INVERTIBLE, Array, Cells, Column, Inputs, Laws, Spec
from panes.aggregates.columns import arrow_from_values
from panes.aggregates.extremes import BoundExtreme
from panes.aggregates.fieldwise import CombinedField, Fieldwise, count_field, masked, present_count, present_rows
from panes.aggregates.segments import SMALL, segment_reduce
from panes.aggregates.totals import BoundCount
from panes.aggregates.types import storage_of


@dataclass(frozen=True, repr=False)
class _OfConditions(Spec):
    takes: ClassVar[tuple[str, ...] | None] = ("boolean",)
    advice: ClassVar[str] = "write a condition, for instance {x} > 0"


@dataclass(frozen=True, repr=False)
class BoolAnd(_OfConditions):
    """Whether all values are true."""

    name: ClassVar[str] = "bool_and"
    promises: ClassVar[Laws] = IDEMPOTENT
    largest: ClassVar[bool] = False  # false is less than true

    def bind(self, types: Sequence[pa.DataType]) -> BoundExtreme:
        (type,) = self.argument_types(types)
        return BoundExtreme(type, largest=self.largest)


@dataclass(frozen=True, repr=False)
class BoolOr(BoolAnd):
    """Whether any value is true."""

    name: ClassVar[str] = "bool_or"
    largest: ClassVar[bool] = True


@dataclass(frozen=True, repr=False)
class CountIf(_OfConditions):
    """How many values are true."""

    name: ClassVar[str] = "count_if"
    promises: ClassVar[Laws] = INVERTIBLE

    def bind(self, types: Sequence[pa.DataType]) -> BoundCountIf:
        self.argument_types(types)
        return BoundCountIf((count_field(),), INVERTIBLE, pa.int64())


@dataclass(frozen=True, repr=False)
class BitAnd(Spec):
    """The bits that are set in all values."""

    name: ClassVar[str] = "bit_and"
    promises: ClassVar[Laws] = IDEMPOTENT
    takes: ClassVar[tuple[str, ...] | None] = ("integer",)
    advice: ClassVar[str] = "cast it to an integer"
    ufunc: ClassVar[np.ufunc] = np.bitwise_and

    def bind(self, types: Sequence[pa.DataType]) -> BoundBits:
        (type,) = self.argument_types(types)
        return BoundBits(type, self.ufunc, self.laws)


@dataclass(frozen=True, repr=False)
class BitOr(BitAnd):
    """The bits that are set in any value."""

    name: ClassVar[str] = "bit_or"
    ufunc: ClassVar[np.ufunc] = np.bitwise_or


@dataclass(frozen=True, repr=False)
class BitXor(BitAnd):
    """The bits that are set in an odd number of values."""

    name: ClassVar[str] = "bit_xor"
    promises: ClassVar[Laws] = INVERTIBLE
    ufunc: ClassVar[np.ufunc] = np.bitwise_xor


class BoundCountIf(BoundCount):
    """What is not true counts as if it were null."""

    tells_rows = False

    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        return super().lift(_true(rows), offsets)

    def lift_groups(self, rows: Inputs, groups: Array, n: int) -> Cells:
        return super().lift_groups(_true(rows), groups, n)


class BoundBits(Fieldwise):
    def __init__(self, type: pa.DataType, ufunc: np.ufunc, laws: Laws) -> None:
        dtype = storage_of(type)
        identity = ~dtype.type(0) if ufunc is np.bitwise_and else dtype.type(0)
        super().__init__((CombinedField("bits", type, dtype, ufunc, identity), count_field()), laws, type)
        self.ufunc = ufunc

    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        (column,), identity = rows.columns, self.parts[0].identity
        bits = segment_reduce(self.ufunc, masked(column, identity), offsets, identity)
        return Cells((bits, present_count(column, offsets)))

    def lift_groups(self, rows: Inputs, groups: Array, n: int) -> Cells:
        if len(groups) >= SMALL:
            return super().lift_groups(rows, groups, n)
        values, groups = present_rows(rows.columns[0], groups)
        bits, _ = self.empty(n).fields
        self.ufunc.at(bits, groups, values)
        return Cells((bits, np.bincount(groups, minlength=n)))

    def lower(self, cells: Cells) -> pa.Array:
        bits, n = cells.fields
        return arrow_from_values(bits, n > 0, self.out_type)


def _true(rows: Inputs) -> Inputs:
    (column,) = rows.columns
    true = column.values if column.valid is None else column.values & column.valid
    return Inputs((Column(column.values, true, column.type),), rows.times, rows.seq, rows.rows)
