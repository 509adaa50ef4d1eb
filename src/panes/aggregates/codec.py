"""Partials as Arrow arrays and back, without loss: what snapshots and exchanges between workers carry.

Ragged fields become lists. Fields of user-defined aggregates that hold Python objects become pickles; they
are flagged by `Field.python`, and nothing else is ever pickled.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Array, BoundAggregate, Cells, Field, Ragged
from panes.aggregates.columns import arrow_from_values, column_from_arrow
from panes.aggregates.types import storage_of
from panes.errors import SnapshotDamaged, SnapshotMismatch
from panes.state import pickles


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
