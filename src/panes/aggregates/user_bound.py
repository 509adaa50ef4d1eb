"""User-defined aggregates at work: partials as Python objects, or as numeric columns."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Array, BoundAggregate, Cells, Column, Field, Inputs
from panes.aggregates.columns import arrow_from_values
from panes.aggregates.segments import compress
from panes.aggregates.types import arrow_type, storage_of
from panes.aggregates.user import UserAggregate
from panes.errors import DataError


class BoundObjects(BoundAggregate):
    """Partials are Python objects; a second field says which cells hold one."""

    fields = (Field("partial", pa.large_binary(), python=True), Field("some", pa.bool_()))

    def __init__(self, spec: UserAggregate, out_type: pa.DataType) -> None:
        self.spec = spec
        self.laws = spec.laws
        self.out_type = out_type

    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        rows, offsets = _used_rows(self.spec, rows, offsets)
        if self.spec.has("lift_segments"):
            partials = self.spec.lift_segments(tuple(_plain(c) for c in rows.columns), offsets)
            return self._cells(partials, offsets)
        arguments = [_python_values(c) for c in rows.columns]
        lifted = [self.spec.lift(*row) for row in zip(*arguments, strict=True)]
        if not arguments:
            lifted = [self.spec.lift() for _ in range(rows.rows)]
        return self._fold(lifted, offsets)

    def fold(self, cells: Cells, offsets: Array) -> Cells:
        partials, some = cells.fields
        index, offsets = compress(some, offsets)
        if self.spec.has("fold_segments"):
            return self._cells(self.spec.fold_segments(partials[index], offsets), offsets)
        return self._fold(partials[index].tolist(), offsets)

    def _fold(self, partials: list[Any], offsets: Array) -> Cells:
        bounds = offsets.tolist()
        pairs = pairwise(bounds)
        combine = self.spec.combine
        return self._cells([reduce(combine, partials[a:b]) if b > a else None for a, b in pairs], offsets)

    def _cells(self, partials: Any, offsets: Array) -> Cells:
        some = offsets[1:] > offsets[:-1]
        if len(partials) != len(some):
            raise DataError(
                f"{self.spec!r} returned {len(partials)} partials for {len(some)} segments; return one each"
            )
        return Cells((_objects(partials, some), some))

    def merge(self, a: Cells, b: Cells) -> Cells:
        if self.spec.has("fold_segments"):
            return super().merge(a, b)
        return self._pairwise(self.spec.combine, a, b, alone=True)

    def invert(self, a: Cells, b: Cells) -> Cells:
        if not self.laws.invertible:
            return super().invert(a, b)
        return self._pairwise(self.spec.invert, a, b, alone=False)

    def _pairwise(self, function: Any, a: Cells, b: Cells, *, alone: bool) -> Cells:
        """function(x, y) where both are there, else x; or y where only it is there and may stand `alone`."""
        (x, has_x), (y, has_y) = a.fields, b.fields
        some = has_x | has_y if alone else has_x
        out = np.full(len(some), None, object)
        for i in np.flatnonzero(some):
            if has_x[i] and has_y[i]:
                out[i] = function(x[i], y[i])
            else:
                out[i] = x[i] if has_x[i] else y[i]
        return Cells((out, some))

    def empty(self, n: int) -> Cells:
        return Cells((np.full(n, None, object), np.zeros(n, bool)))

    def lower(self, cells: Cells) -> pa.Array:
        partials, some = cells.fields
        nothing = self.spec.lower(self.spec.identity()) if self.spec.has("identity") else None
        results = [self.spec.lower(p) if ok else nothing for p, ok in zip(partials, some, strict=True)]
        try:
            return pa.array(results, self.out_type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise DataError(f"{self.spec!r}: a result is not of type {self.out_type}: {error}") from error


class BoundColumns(BoundAggregate):
    """Partials are numeric columns, and user code sees whole arrays."""

    def __init__(self, spec: UserAggregate, types: list[pa.DataType], out_type: pa.DataType) -> None:
        assert spec.state is not None
        self.spec = spec
        self.laws = spec.laws
        self.types = types
        self.out_type = out_type
        self.fields = tuple(Field(name, arrow_type(type)) for name, type in spec.state.items())
        self.dtypes = tuple(storage_of(f.type) for f in self.fields)
        self.dense = all(d.kind != "O" for d in self.dtypes)

    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        rows, offsets = _used_rows(self.spec, rows, offsets)
        columns = tuple(_plain(c) for c in rows.columns)
        return self._cells(self.spec.lift_segments(columns, offsets), len(offsets) - 1)

    def fold(self, cells: Cells, offsets: Array) -> Cells:
        return self._cells(self.spec.fold_segments(cells.fields, offsets), len(offsets) - 1)

    def invert(self, a: Cells, b: Cells) -> Cells:
        if not self.laws.invertible:
            return super().invert(a, b)
        return self._cells(self.spec.invert_segments(a.fields, b.fields), len(a))

    def empty(self, n: int) -> Cells:
        none = tuple(Column(np.empty(0, storage_of(t)), None, t) for t in self.types)
        times = np.empty(0, np.int64)
        return self.lift(Inputs(none, times, times, 0), np.zeros(n + 1, np.int64))

    def lower(self, cells: Cells) -> pa.Array:
        result = self.spec.lower_segments(cells.fields)
        if isinstance(result, pa.Array):
            return result.cast(self.out_type)
        values, valid = result if isinstance(result, tuple) else (result, None)
        return arrow_from_values(np.asarray(values), valid, self.out_type)

    def _cells(self, fields: Any, n: int) -> Cells:
        arrays = tuple(np.asarray(f, d) for f, d in zip(fields, self.dtypes, strict=True))
        if any(len(a) != n for a in arrays):
            raise DataError(f"{self.spec!r} returned partials of another length than its {n} segments")
        return Cells(arrays)


def _used_rows(spec: UserAggregate, rows: Inputs, offsets: Array) -> tuple[Inputs, Array]:
    """Rows without nulls in the arguments (if the aggregate skips them), from offset 0 on."""
    keep = np.ones(rows.rows, bool)
    if spec.skip_nulls:
        for column in rows.columns:
            if column.valid is not None:
                keep &= column.valid
    if keep.all() and offsets[0] == 0 and offsets[-1] == rows.rows:
        return rows, offsets
    index, offsets = compress(keep, offsets)
    return rows.take(index), offsets


def _python_values(column: Column) -> list[Any]:
    if column.valid is None and column.values.dtype.kind in "bifu" and not pa.types.is_temporal(column.type):
        return column.values.tolist()
    return arrow_from_values(column.values, column.valid, column.type).to_pylist()


def _plain(column: Column) -> Array:
    """Values for vectorised user code; where a null is left, an object array with None."""
    if column.valid is None or column.valid.all():
        return column.values
    values = column.values.astype(object)
    values[~column.valid] = None
    return values


def _objects(partials: Any, some: Array) -> Array:
    """An object array, filled one by one so that NumPy doesn't take tuples or lists for dimensions."""
    out = np.full(len(some), None, object)
    for i in np.flatnonzero(some).tolist():
        out[i] = partials[i]
    return out
