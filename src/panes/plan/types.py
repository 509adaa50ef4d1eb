"""Column types: SQL names ("bigint") to Arrow types, and the few Arrow types that Panes works with.

In: a schema as users write it, or as a source reports it. Out: an Arrow schema in canonical types, so that
nothing further down has to know about dictionaries, views or half floats.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa

from panes.errors import QueryError

#: "timestamp" or, with another precision than microseconds, "timestamp[ns]", as Arrow writes it
_TIMESTAMP = re.compile(r"timestamp(?:\[(s|ms|us|ns)\])?")
SQL_TYPES: Mapping[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "TEXT": pa.string(),
    "VARCHAR": pa.string(),
    "CHAR": pa.string(),
    "BINARY": pa.binary(),
    "VARBINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMPTZ": pa.timestamp("us", tz="UTC"),
    "TIMESTAMPLTZ": pa.timestamp("us", tz="UTC"),
    "TIMESTAMPNTZ": pa.timestamp("us"),
}

_UNKNOWN = (
    "is not known; use one of boolean, tinyint, smallint, int, bigint, float, double, decimal(p, s), string, "
    "binary, date, timestamp, timestamp[ns], timestamp_ltz, or an Arrow type"
)


def arrow_type(given: str | pa.DataType, *, column: str) -> pa.DataType:
    """The Arrow type of a type as the user wrote it: an SQL name as in Spark, or an Arrow type.

    >>> arrow_type("decimal(10, 2)", column="price")
    Decimal128Type(decimal128(10, 2))
    """
    if isinstance(given, pa.DataType):
        return canonical_type(given)
    if not isinstance(given, str):
        raise QueryError(
            f"schema: the type of column {column!r} must be an SQL type name such as 'bigint', "
            f"or an Arrow type; got {given!r}"
        )
    try:
        return _sql_type(given.strip().lower())
    except ValueError as error:
        raise QueryError(f"schema: the type of column {column!r}, {given!r}, {error}") from error


@lru_cache(maxsize=256)
def _sql_type(text: str) -> pa.DataType:
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    # Spark's TIMESTAMP is an instant; as a type of data, "timestamp" means one without zone, as in Arrow and
    # pandas, so it is read before sqlglot maps it.
    precise = _TIMESTAMP.fullmatch(text)
    if precise:
        return pa.timestamp(precise[1] or "us")
    try:
        parsed = exp.DataType.build(text, dialect="spark")
    except SqlglotError as error:
        raise ValueError(_UNKNOWN) from error
    name = str(getattr(parsed.this, "value", ""))
    if name == "DECIMAL":
        parameters = [int(p.name) for p in parsed.expressions]
        precision, scale = (parameters + [10, 0][len(parameters) :])[:2]
        return pa.decimal128(precision, scale)
    if name not in SQL_TYPES or (parsed.expressions and name not in ("VARCHAR", "CHAR")):
        raise ValueError(_UNKNOWN)
    return SQL_TYPES[name]


def arrow_schema(given: Any) -> pa.Schema:
    """The schema the user gave: `{"ts": "bigint", "v": "double"}` or an Arrow schema."""
    if isinstance(given, pa.Schema):
        return canonical_schema(given)
    if not isinstance(given, Mapping) or not given:
        raise QueryError(f"schema must be a dict of column name to type, or an Arrow schema; got {given!r}")
    fields = []
    for name, kind in given.items():
        if not isinstance(name, str) or not name:
            raise QueryError(f"schema: column names must be non-empty text; got {name!r}")
        fields.append(pa.field(name, arrow_type(kind, column=name)))
    return pa.schema(fields)


def canonical_type(kind: pa.DataType) -> pa.DataType:
    """The type Panes holds a column in: no dictionaries, no views, no half floats, no large text."""
    if pa.types.is_dictionary(kind):
        return canonical_type(kind.value_type)
    if pa.types.is_large_string(kind) or kind == pa.string_view():
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind) or kind == pa.binary_view():
        return pa.binary()
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_date64(kind):
        return pa.timestamp("ms")
    return kind


def canonical_schema(schema: pa.Schema) -> pa.Schema:
    """`schema` in canonical types, without metadata; refuses two columns of one name."""
    seen: set[str] = set()
    for name in schema.names:
        if name in seen:
            raise QueryError(f"the data has two columns named {name!r}; rename one of them")
        seen.add(name)
    return pa.schema([pa.field(f.name, canonical_type(f.type)) for f in schema])
