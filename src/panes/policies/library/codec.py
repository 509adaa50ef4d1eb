"""Python objects as Arrow columns, exactly: what comes back is what went in, in type and value.

Arrow itself where it is exact, JSON where values of one column differ in type, and only users' own objects are pickled.
The end of a column's name says how it is to be read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from panes.errors import SnapshotDamaged
from panes.state import pickles
from panes.state.pickles import PICKLED

TUPLES, JSON = ".tuples", ".json"
_REFUSED = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError, ValueError)


def encode(name: str, objects: Sequence[Any]) -> tuple[str, pa.Array]:
    """A column for the objects, and its name.

    >>> encode("row", [{"v": 1}, {"v": 2}])[0]
    'row'
    >>> encode("row", [1, 2.5])[0]
    'row.json'
    """
    objects = list(objects)
    try:
        found = pa.array(objects)
        if repr(found.to_pylist()) == repr(objects):
            return name, found
    except _REFUSED:
        found = None
    if objects and all(type(o) is tuple and len(o) == len(objects[0]) > 0 for o in objects):
        parts = [encode(str(i), [o[i] for o in objects]) for i in range(len(objects[0]))]
        if not any(part.endswith(PICKLED) for part, _ in parts):
            return name + TUPLES, pa.StructArray.from_arrays([a for _, a in parts], names=[n for n, _ in parts])
    try:
        texts = [json.dumps(o) for o in objects]
        if repr([json.loads(text) for text in texts]) == repr(objects):
            return name + JSON, pa.array(texts, pa.string())
    except _REFUSED:
        texts = []
    return name + PICKLED, pa.array([pickles.dumps(o) for o in objects], pa.binary())


def decode(name: str, column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The objects of a column of `encode`."""
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if name.endswith(TUPLES):
        fields = [column.type.field(i).name for i in range(column.type.num_fields)]
        if any(field.endswith(PICKLED) for field in fields):
            raise SnapshotDamaged(f"the column {name!r} says that a part of a tuple is pickled, which none is")
        return list(zip(*(decode(field, column.field(i)) for i, field in enumerate(fields))))
    if name.endswith(JSON):
        return [json.loads(text) for text in column.to_pylist()]
    if name.endswith(PICKLED):
        return [pickles.loads(data, f"the column {name!r} of a window") for data in column.to_pylist()]
    return column.to_pylist()


def table(columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    """All columns, encoded."""
    encoded = dict(encode(name, objects) for name, objects in columns.items())
    return pa.table(encoded)


def objects(table: pa.Table) -> dict[str, list[Any]]:
    """The columns of `table`, by their first names."""
    return {name.split(".")[0]: decode(name, table[name]) for name in table.column_names}


def has_pickles(*tables: pa.Table) -> bool:
    """Whether reading them runs code of whoever wrote them."""
    return any(name.endswith(PICKLED) for table in tables for name in table.column_names)
