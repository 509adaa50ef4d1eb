"""Between Arrow arrays and the NumPy arrays that aggregates compute on.

`column_from_arrow` reads an argument (without a copy for numbers that have no nulls), and `arrow_from_values` writes a
result. `cells_to_arrow` and `cells_from_arrow` carry partials in snapshots and between workers, without loss: ragged
fields become lists, and Python objects of users' aggregates pickles; they are flagged by `Field.python`, and nothing
else is ever pickled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from panes.aggregates.base import Array, BoundAggregate, Cells, Column, Field, Ragged
from panes.aggregates.types import kind_of, plain, storage_of
from panes.errors import DataError, SnapshotDamaged, SnapshotMismatch
from panes.state import pickles

#: Types whose values lie in memory just as columns keep them, by id (ids are quick to look up).
_AS_THEY_ARE = {
    t.id: storage_of(t)
    for t in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float32(), pa.float64(), pa.timestamp("us"), pa.duration("us"), pa.time64("us"), pa.date64()),
    )
}


def column_from_arrow(data: pa.Array | pa.ChunkedArray) -> Column:
    """Read an Arrow array as a `Column`; its `type` is the Arrow type with dictionary encoding removed.

    >>> column_from_arrow(pa.array([1, None, 3])).valid
    array([ True, False,  True])
    """
    if isinstance(data, pa.ChunkedArray):
        data = data.chunk(0) if data.num_chunks == 1 else data.combine_chunks()
        if isinstance(data, pa.ChunkedArray):  # combine_chunks of no chunks at all
            data = pa.array([], data.type)
    dtype = _AS_THEY_ARE.get(data.type.id)
    if dtype is not None and not data.null_count:
        return Column(_view(data, dtype), None, data.type)
    if pt.is_dictionary(data.type):
        data = data.dictionary_decode()
    valid = None
    if data.null_count:
        valid = data.is_valid().to_numpy(zero_copy_only=False)
    return Column(_values(data), valid, data.type)


def _values(data: pa.Array) -> Array:
    kind = kind_of(data.type)
    dtype = storage_of(data.type)
    if dtype.kind == "O":
        return _objects(data)
    if kind == "boolean":
        if data.null_count:
            data = data.fill_null(False)
        flags: Array = data.to_numpy(zero_copy_only=False)
        return flags
    if kind == "float" and data.type == pa.float16():
        data = data.cast(pa.float32())
    raw = np.dtype(f"i{data.type.bit_width // 8}") if kind == "temporal" else dtype
    return _view(data, raw).astype(dtype, copy=False)


def _view(data: pa.Array, dtype: np.dtype) -> Array:
    """The values of an array of fixed width, where they are."""
    n = len(data)
    buffer = data.buffers()[1]
    if buffer is None or n == 0:
        return np.zeros(n, dtype)
    return np.frombuffer(buffer, dtype, n, data.offset * dtype.itemsize)


def _objects(data: pa.Array) -> Array:
    values = np.empty(len(data), object)
    if kind_of(data.type) == "text":
        values[:] = data.to_numpy(zero_copy_only=False)
    else:
        # One by one: assigning a list of lists would make NumPy look for a second dimension.
        for i, value in enumerate(data.to_pylist()):
            values[i] = value
    return values


def arrow_from_values(values: Array, valid: Array | None, type: pa.DataType) -> pa.Array:
    """The reverse of `column_from_arrow`: an Arrow array of `type`, null where not valid.

    >>> arrow_from_values(np.array([1, 2]), np.array([True, False]), pa.int64()).to_pylist()
    [1, None]
    """
    if valid is not None and np.count_nonzero(valid) == len(valid):
        valid = None
    if valid is None and _AS_THEY_ARE.get(type.id) == values.dtype and values.flags.c_contiguous:
        return pa.Array.from_buffers(type, len(values), [None, pa.py_buffer(values)])
    type = plain(type)
    if values.dtype.kind == "O":
        return _from_objects(values, valid, type)
    out = pa.array(values, mask=None if valid is None else ~valid)
    if out.type == type:
        return out
    if kind_of(type) == "temporal" and type.bit_width == 32:
        out = out.cast(pa.int32())
    return out.cast(type)


def _from_objects(values: Array, valid: Array | None, type: pa.DataType) -> pa.Array:
    items = values.tolist()
    if valid is not None:
        items = [v if ok else None for v, ok in zip(items, valid.tolist(), strict=True)]
    try:
        return pa.array(items, type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise DataError(f"a value does not fit the result type {type}: {error}") from error


def arrow_field(field: Field) -> pa.Field:
    """The Arrow field under which a field of a partial is written."""
    type = pa.large_binary() if field.python else field.type
    return pa.field(field.name, pa.large_list(type) if field.ragged else type)


def cells_to_arrow(bound: BoundAggregate, cells: Cells) -> dict[str, pa.Array]:
    """One Arrow array per field of the aggregate's partial."""
    return {f.name: _write(f, data) for f, data in zip(bound.fields, cells.fields, strict=True)}


def cells_from_arrow(bound: BoundAggregate, arrays: Mapping[str, pa.Array]) -> Cells:
    """The partials that `cells_to_arrow` wrote; refuses arrays of another aggregate or type."""
    missing = [f.name for f in bound.fields if f.name not in arrays]
    if missing:
        raise SnapshotMismatch(f"partials of {type(bound).__name__} lack the fields {', '.join(missing)}")
    cells = Cells(tuple(_read(f, arrays[f.name]) for f in bound.fields))
    bound.check(cells)
    return cells


class PartialColumns:
    """Partials of several aggregates as columns of one table, and back."""

    def __init__(self, bounds: Sequence[BoundAggregate]) -> None:
        self._bounds = tuple(bounds)
        self.names = {f"agg.{i}.{f.name}" for i, bound in enumerate(self._bounds) for f in bound.fields}

    def write(self, cells: Sequence[Cells]) -> dict[str, pa.Array]:
        columns = {}
        for i, (bound, partials) in enumerate(zip(self._bounds, cells, strict=True)):
            columns.update({f"agg.{i}.{name}": a for name, a in cells_to_arrow(bound, partials).items()})
        return columns

    def read(self, table: pa.Table) -> tuple[Cells, ...]:
        found = []
        for i, bound in enumerate(self._bounds):
            prefix = f"agg.{i}."
            arrays = {n[len(prefix) :]: table[n] for n in table.column_names if n.startswith(prefix)}
            found.append(cells_from_arrow(bound, arrays))
        return tuple(found)


def _write(field: Field, data: Array | Ragged) -> pa.Array:
    if isinstance(data, Ragged):
        first, stop = data.offsets[0], data.offsets[-1]
        values = _write_values(field, data.values[first:stop])
        return pa.LargeListArray.from_arrays(pa.array(data.offsets - first, pa.int64()), values)
    return _write_values(field, data)


def _write_values(field: Field, values: Array) -> pa.Array:
    if field.python:
        return pa.array([pickles.dumps(v) for v in values], pa.large_binary())
    return arrow_from_values(values, None, field.type)


def _read(field: Field, data: pa.Array | pa.ChunkedArray) -> Array | Ragged:
    expected = arrow_field(field).type
    if data.type != expected:
        raise SnapshotMismatch(f"field {field.name!r} is of type {data.type}, not {expected}")
    if isinstance(data, pa.ChunkedArray):
        data = data.combine_chunks() if data.num_chunks else pa.array([], data.type)
        if isinstance(data, pa.ChunkedArray):
            data = pa.concat_arrays(data.chunks)
    if field.ragged:
        if data.null_count:
            raise SnapshotDamaged(f"field {field.name!r} of a partial has nulls")
        offsets = data.offsets.to_numpy()
        values = data.values.slice(offsets[0], offsets[-1] - offsets[0])
        return Ragged(offsets - offsets[0], _read_values(field, values))
    return _read_values(field, data)


def _read_values(field: Field, data: pa.Array) -> Array:
    if field.python:
        values = np.empty(len(data), object)
        for i, blob in enumerate(data):
            values[i] = pickles.loads(blob.as_py(), "the state of an aggregate of your own")
        return values
    if data.null_count and storage_of(field.type) != np.dtype(object):
        raise SnapshotDamaged(f"field {field.name!r} of a partial has nulls")
    # A copy: Arrow memory is read-only, and stores update partials in place.
    return column_from_arrow(data).values.astype(storage_of(field.type), copy=True)
