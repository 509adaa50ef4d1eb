"""Anything that holds rows to an Arrow table of the stream's schema.

In: an Arrow table or batch, a pandas or Polars frame, a dict (one row, or columns), a list of dicts, or
anything with an Arrow stream interface. Out: a `pa.Table` with exactly the schema's columns and types.
Columns may come in another order, extra ones are ignored, and types may change where no value does
(int32 to int64); anything else raises DataError naming the column, and the row where rows are dicts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa

from panes.errors import DataError
from panes.exact import Inexact, exact_array, shown
from panes.plan.hints import did_you_mean
from panes.plan.types import canonical_type, cast_column

#: faster over many rows than a loop
_GET: Callable[[Any, str], Any] = dict.get


class RowRefused(DataError):
    """A value in a row that its column can't hold; rows are counted from 0 here, and from 1 in the text."""

    def __init__(self, field: pa.Field, row: int, value: object, reason: str) -> None:
        super().__init__(f"column {field.name!r} must be {field.type}; row {row + 1:,} has {shown(value)}: {reason}")
        self._parts = field, row, value, reason

    def after(self, rows: int) -> RowRefused:
        """The same error where so many rows came before."""
        field, row, value, reason = self._parts
        return RowRefused(field, row + rows, value, reason)

    def __reduce__(self) -> tuple[object, ...]:
        return RowRefused, self._parts


def conform(data: object, schema: pa.Schema, *, first: int = 0) -> pa.Table:
    """`data` as a table of `schema`; `first`: how many rows came before it, for errors that name a row."""
    if isinstance(data, pa.Table | pa.RecordBatch) and data.schema.equals(schema):
        return data if isinstance(data, pa.Table) else pa.Table.from_batches([data])
    if isinstance(data, Mapping) and not _is_columns(data):
        return _from_rows([data], schema, first)
    if isinstance(data, list | tuple) and _is_rows(data):
        return _from_rows(data, schema, first)
    table = to_table(data)
    columns = []
    for field in schema:
        index = table.schema.get_all_field_indices(field.name)
        if len(index) > 1:
            raise DataError(f"the batch has {len(index)} columns named {field.name!r}")
        if not index:
            hint = did_you_mean(field.name, table.column_names)
            raise DataError(f"the batch has no column {field.name!r}{hint}")
        columns.append(cast_column(table.column(index[0]), field))
    return pa.Table.from_arrays(columns, schema=schema)


def to_table(data: Any) -> pa.Table:
    """`data` as an Arrow table with the columns and types it has of its own."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, list | tuple) and _is_rows(data):
        return _from_rows(data, infer_rows(data))
    if isinstance(data, Mapping):
        if not _is_columns(data):
            return _from_rows([data], infer_rows([data]))
        return _from_columns(data)
    module = type(data).__module__.partition(".")[0]
    try:
        if module == "pandas" and hasattr(data, "columns"):
            # a named index is often the time; a plain numbering is nothing
            if any(name is not None for name in data.index.names):
                data = data.reset_index()
            return pa.Table.from_pandas(data, preserve_index=False).replace_schema_metadata(None)
        if module == "polars" and hasattr(data, "collect"):
            data = data.collect()
        if hasattr(data, "__arrow_c_stream__"):
            return pa.table(data)
        if module == "polars" and hasattr(data, "to_arrow"):
            return data.to_arrow()
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, ValueError) as error:
        raise DataError(f"the {type(data).__name__} can't be read as Arrow columns: {_first_line(error)}") from error
    raise DataError(
        f"a batch must be an Arrow table or batch, a pandas or Polars frame, a dict or a list of dicts; "
        f"got {_describe(data)}"
    )


def infer_rows(rows: Sequence[Mapping[str, object]], declared: pa.Schema | None = None) -> pa.Schema:
    """The schema of a list of dicts: all keys in order of appearance, each with the type of its values.

    Columns that are `declared` have that type whatever their values are.
    """
    known = {} if declared is None else dict(zip(declared.names, declared.types, strict=True))
    names = dict.fromkeys(name for row in rows for name in row)
    fields = []
    for name in names:
        try:
            kind = known[name] if name in known else pa.array([row.get(name) for row in rows]).type
        except (pa.ArrowException, ValueError, OverflowError) as error:
            raise DataError(f"column {name!r} mixes types that don't go together: {_first_line(error)}") from error
        fields.append(pa.field(str(name), canonical_type(kind)))
    return pa.schema(fields)


def is_batch(data: object) -> bool:
    """Whether `data` is one batch of rows, as against a source of several."""
    if isinstance(data, list | tuple):
        return _is_rows(data)
    if isinstance(data, pa.RecordBatchReader):
        return False
    return (
        isinstance(data, pa.Table | pa.RecordBatch | Mapping)
        or hasattr(data, "__arrow_c_stream__")
        or type(data).__module__.partition(".")[0] in ("pandas", "polars")
    )


def _is_rows(data: Sequence[object]) -> bool:
    return not data or isinstance(data[0], Mapping)


def _is_columns(data: Mapping[str, object]) -> bool:
    """Whether a dict holds columns (every value is a sequence) and not the values of one row."""
    return (
        bool(data)
        and all(
            isinstance(v, list | tuple | np.ndarray | pa.Array | pa.ChunkedArray) or hasattr(v, "__array__")
            for v in data.values()
        )
        and not any(isinstance(v, np.generic) for v in data.values())
    )


def _from_columns(data: Mapping[str, object]) -> pa.Table:
    columns = {}
    for name, values in data.items():
        try:
            columns[str(name)] = values if isinstance(values, pa.ChunkedArray) else pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise DataError(f"column {name!r} can't be read: {_first_line(error)}") from error
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"columns must have the same length; got {lengths}")
    return pa.table(columns)


def _from_rows(rows: Sequence[Mapping[str, object]], schema: pa.Schema, first: int = 0) -> pa.Table:
    """Dicts to columns. A key that a row lacks is null there, as in JSON."""
    columns = []
    for field in schema:
        columns.append(_column(_values(rows, field.name), field, first))
    return pa.Table.from_arrays(columns, schema=schema)


def _values(rows: Sequence[Mapping[str, object]], name: str) -> list[object]:
    try:
        return list(map(_GET, rows, repeat(name)))
    except TypeError:  # mappings that are no dicts, or no rows at all
        odd = next((row for row in rows if not isinstance(row, Mapping)), None)
        if odd is not None:
            raise DataError(f"every row must be a dict; got {_describe(odd)}") from None
        return [row.get(name) for row in rows]


def _column(values: list[object], field: pa.Field, first: int) -> pa.Array | pa.ChunkedArray:
    if pa.types.is_temporal(field.type) and str in (kinds := set(map(type, values))) and kinds <= {str, type(None)}:
        return _times_in_text(values, field, first)
    try:
        return exact_array(values, field.type)
    except Inexact as error:
        raise RowRefused(field, first + error.row, error.value, error.reason) from None


def _times_in_text(values: list[object], field: pa.Field, first: int) -> pa.ChunkedArray:
    try:
        return cast_column(pa.chunked_array([pa.array(values)]), field)
    except (DataError, UnicodeError):
        for row, value in enumerate(values):
            try:
                cast_column(pa.chunked_array([pa.array([value])]), field)
            except (DataError, UnicodeError):
                what = "date" if pa.types.is_date(field.type) else "time"
                reason = f"it is not a {what} in ISO 8601, or finer than the column"
                raise RowRefused(field, first + row, value, reason) from None
        raise


def _describe(data: object) -> str:
    text = repr(data)
    return f"{type(data).__name__} {text if len(text) <= 60 else text[:57] + '...'}"


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
