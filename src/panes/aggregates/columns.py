"""Between Arrow arrays and the NumPy columns that aggregates compute on.

`column_from_arrow` reads an argument (without a copy for numbers that have no nulls), and
`arrow_from_values` writes a result.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from panes.aggregates.base import Array, Column
from panes.aggregates.types import kind_of, plain, storage_of
from panes.errors import DataError

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
        return data.to_numpy(zero_copy_only=False)
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
