"""Aggregates whose partial is a few independent fields, each combined by one NumPy function.

Count, sum, average, min, max, product and geometric mean are all of this form, so folding, merging,
taking out again and identities are written once. The last field always says whether the partial holds any value.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Array, BoundAggregate, Cells, Column, Field, Inputs, Laws
from panes.aggregates.segments import compress, segment_count, segment_reduce_each


@dataclass(frozen=True)
class CombinedField:
    """One field: its name and types, and the function and identity that combine it."""

    name: str
    type: pa.DataType
    dtype: np.dtype
    ufunc: np.ufunc
    identity: object


#: What takes a value out again that was combined.
_INVERSE: dict[np.ufunc, np.ufunc] = {np.add: np.subtract, np.bitwise_xor: np.bitwise_xor}


def count_field(name: str = "n") -> CombinedField:
    return CombinedField(name, pa.int64(), np.dtype(np.int64), np.add, 0)


def some_field() -> CombinedField:
    return CombinedField("some", pa.bool_(), np.dtype(bool), np.logical_or, False)


class Fieldwise(BoundAggregate):
    """Fold and merge field by field. Subclasses lift rows and lower cells."""

    parts: tuple[CombinedField, ...]
    ufuncs: tuple[np.ufunc, ...]
    tells_rows = True

    def __init__(self, parts: tuple[CombinedField, ...], laws: Laws, out_type: pa.DataType) -> None:
        self.parts = parts
        self.laws = laws
        self.out_type = out_type
        self.fields = tuple(Field(p.name, p.type) for p in parts)
        self.ufuncs = tuple(p.ufunc for p in parts)
        self._identities = tuple(p.identity for p in parts)
        self.dense = all(p.dtype.kind != "O" for p in parts)

    @abstractmethod
    def lift(self, rows: Inputs, offsets: Array) -> Cells: ...

    def fold(self, cells: Cells, offsets: Array) -> Cells:
        fields = cells.fields
        if not self.dense:
            # Objects have no identity that NumPy could reduce with, so only filled cells take part.
            index, offsets = compress(fields[-1] != 0, offsets)
            fields = tuple(f[index] for f in fields)
        return Cells(segment_reduce_each(self.ufuncs, fields, self._identities, offsets))

    def merge(self, a: Cells, b: Cells) -> Cells:
        if not self.dense:
            return super().merge(a, b)
        return Cells(tuple(p.ufunc(x, y) for p, x, y in zip(self.parts, a.fields, b.fields, strict=True)))

    def invert(self, a: Cells, b: Cells) -> Cells:
        if not self.laws.invertible:
            return super().invert(a, b)
        inverses = [_INVERSE[p.ufunc] for p in self.parts]
        return Cells(tuple(inverse(x, y) for inverse, x, y in zip(inverses, a.fields, b.fields, strict=True)))

    def lower_endings(self, cells: Cells, starts: Array) -> pa.Array:
        if not self.dense:
            return super().lower_endings(cells, starts)
        # Backwards, so that a range shares all that shorter ones have come to.
        back = len(cells) - 1 - starts
        fields = [p.ufunc.accumulate(f[::-1], dtype=p.dtype)[back] for p, f in zip(self.parts, cells.fields)]
        return self.lower(Cells(tuple(fields)))

    def empty(self, n: int) -> Cells:
        return Cells(tuple(np.full(n, p.identity, p.dtype) for p in self.parts))


def present_count(column: Column, offsets: Array) -> Array:
    """Values that are not null, per segment."""
    if column.valid is None:
        lengths: Array = offsets[1:] - offsets[:-1]
        return lengths
    return segment_count(column.valid, offsets)


def masked(column: Column, identity: object) -> Array:
    """Values with nulls replaced by an identity."""
    if column.valid is None:
        return column.values
    return np.where(column.valid, column.values, np.asarray(identity, column.values.dtype))


def present_rows(column: Column, groups: Array) -> tuple[Array, Array]:
    """(values, groups) of the rows that are not null."""
    if column.valid is None:
        return column.values, groups
    return column.values[column.valid], groups[column.valid]
