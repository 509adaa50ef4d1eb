"""Columns of data: their names, their types, and values cast to these.

In: a schema as users write it, or as a source reports it. Out: an Arrow schema in canonical types, so that
nothing further down has to know about dictionaries, views or half floats; and columns of the type that a stream
declares, only where no value changes its meaning.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from panes.errors import DataError, QueryError

#: What columns inside begin with.
_OWN = "panes."
_ZONE = r":\d\d.*(Z|z|[+-]\d\d(:?\d\d)?)$"
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


def arrow_schema(given: object) -> pa.Schema:
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


@lru_cache(maxsize=1024)
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


def check_columns(names: Iterable[str]) -> None:
    """Refuse columns of data that can't be told apart, or that meet columns inside."""
    counted = Counter(names)
    for name, times in counted.items():
        check_name(name, "the data")
        if times > 1:
            raise QueryError(f"the data has {times} columns named {name!r}; rename or leave out all but one")
        if name.startswith(_OWN):
            raise QueryError(f"the data has a column {name!r}: names that begin with {_OWN!r} are for Panes; rename it")


def check_name(name: str, where: str) -> None:
    """Refuse names that are not the same everywhere: many libraries end a text where a NUL is."""
    if "\0" in name:
        raise QueryError(f"{where}: column name {name!r} has a NUL character, where many libraries cut it; rename it")


def cast_column(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """`column` as `field` says, or DataError naming the column, both types and the reason."""
    given, wanted = column.type, field.type
    if given.equals(wanted):
        return column
    if pa.types.is_dictionary(given):
        return cast_column(pc.cast(column, given.value_type), field)
    if not _castable(given, wanted):
        raise DataError(f"column {field.name!r} must be {wanted}, and {given} can't be turned into it without guessing")
    try:
        if _is_text(given) and pa.types.is_timestamp(wanted):
            return _parse_times(column, wanted)
        found = pc.cast(column, wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        reason = str(error).strip().splitlines()[0]
        raise DataError(f"column {field.name!r} must be {wanted}, but came as {given}: {reason}") from error
    odd = _changed(column, found)
    if odd is not None:
        raise DataError(f"column {field.name!r} must be {wanted}, but came as {given}: it can't hold {odd}")
    return found


def _changed(given: pa.ChunkedArray, found: pa.ChunkedArray) -> object:
    """A number that Arrow's cast has made infinite or rounded away, where only whole numbers are checked; or None."""
    t, kind = pa.types, found.type
    if given.type.equals(kind):
        return None
    if t.is_floating(given.type) and t.is_float32(kind):
        wrong = pc.and_(pc.is_inf(found), pc.invert(pc.is_inf(given)))
    elif t.is_floating(given.type) and t.is_decimal(kind):
        wrong = pc.not_equal(pc.cast(found, given.type, safe=False), given)
    elif _is_list(kind) and _is_list(given.type):
        return _changed(pc.list_flatten(given), pc.list_flatten(found))
    elif t.is_struct(kind):
        names = [name for name in kind.names if name in given.type.names]
        parts = ((pc.struct_field(given, name), pc.struct_field(found, name)) for name in names)
        return next((odd for one, other in parts if (odd := _changed(one, other)) is not None), None)
    else:
        return None
    place = pc.index(wrong, pa.scalar(True)).as_py()
    return None if place < 0 else given[place].as_py()


def _castable(given: pa.DataType, wanted: pa.DataType) -> bool:
    t = pa.types
    if t.is_null(given):
        return True
    if t.is_null(wanted):
        return False
    if is_numeric(given):
        return is_numeric(wanted)
    if t.is_timestamp(given) or t.is_date(given):
        return bool(t.is_timestamp(wanted) or (t.is_date(given) and t.is_date(wanted)))
    if _is_text(given):
        return _is_text(wanted) or t.is_timestamp(wanted) or t.is_date(wanted)
    if _is_binary(given):
        return _is_binary(wanted)
    if _is_list(given) and _is_list(wanted):
        return _castable(given.value_type, wanted.value_type)
    if t.is_struct(given) and t.is_struct(wanted):
        return all(_castable(given.field(f.name).type, f.type) for f in wanted if f.name in given.names)
    if t.is_map(given) and t.is_map(wanted):
        return _castable(given.key_type, wanted.key_type) and _castable(given.item_type, wanted.item_type)
    return bool(given.id == wanted.id)


def is_numeric(kind: pa.DataType) -> bool:
    t = pa.types
    return bool(t.is_integer(kind) or t.is_floating(kind) or t.is_decimal(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view())


def _is_binary(kind: pa.DataType) -> bool:
    t = pa.types
    return bool(
        t.is_binary(kind) or t.is_large_binary(kind) or t.is_fixed_size_binary(kind) or kind == pa.binary_view()
    )


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _parse_times(column: pa.ChunkedArray, wanted: pa.TimestampType) -> pa.ChunkedArray:
    """ISO 8601 text to timestamps; text with a zone is an instant, text without one is UTC."""
    column = pc.utf8_trim_whitespace(pc.cast(column, pa.string()))
    zoned = pc.match_substring_regex(column, _ZONE)
    nothing = pa.scalar(None, pa.string())
    instants = pc.cast(pc.if_else(zoned, column, nothing), pa.timestamp(wanted.unit, tz="UTC"))
    others = pc.cast(pc.if_else(zoned, nothing, column), pa.timestamp(wanted.unit))
    parsed = pc.coalesce(instants, pc.cast(others, instants.type))
    return pc.cast(parsed, wanted)
