"""Column types of Arrow and Spark, each from the other.

Spark knows fewer types than Arrow: times are in microseconds, integers are signed. A result column of a type
that Spark does not have is cast to the nearest that holds all its values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from panes.errors import QueryError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

#: A time with a zone, by the one name that means it whatever spark.sql.timestampType is.
INSTANT = "timestamp_ltz"
_WIDER = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}


def storable(kind: pa.DataType) -> pa.DataType:
    """The Arrow type in which Spark can hold values of `kind`."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if kind == pa.uint64():
        return pa.decimal128(20, 0)
    if kind in _WIDER:
        return _WIDER[kind]
    if pa.types.is_large_string(kind) or pa.types.is_dictionary(kind):
        return storable(kind.value_type) if pa.types.is_dictionary(kind) else pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", storable(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(storable(kind.key_type), storable(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, storable(f.type)) for f in kind])
    return kind


def large(kind: pa.DataType) -> pa.DataType:
    """The type that Spark has for values of `kind` where it counts their bytes in 64 bits."""
    if pa.types.is_string(kind):
        return pa.large_string()
    if pa.types.is_binary(kind):
        return pa.large_binary()
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", large(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(large(kind.key_type), large(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, large(f.type)) for f in kind])
    return kind


def storable_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(f.name, storable(f.type)) for f in schema])


def spark_type(kind: pa.DataType) -> DataType:
    """The Spark type of a storable Arrow type."""
    return spark_schema(pa.schema([pa.field("value", kind)])).fields[0].dataType


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema of an Arrow one (whose types are storable)."""
    from pyspark.sql.pandas.types import from_arrow_schema

    try:
        return from_arrow_schema(schema)
    except Exception as error:  # pyspark has no common class for these
        raise QueryError(f"Spark has no type for one of the columns {schema.names}: {error}") from error


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema of a Spark one, as workers see it."""
    from pyspark.sql.pandas.types import to_arrow_type

    fields = []
    for field in schema.fields:
        try:
            kind = to_arrow_type(field.dataType, timezone="UTC")
        except Exception as error:
            raise QueryError(
                f"column {field.name!r} has the Spark type {field.dataType.simpleString()}, which can't be read "
                f"as Arrow: {error}; leave it out with select()"
            ) from error
        fields.append(pa.field(field.name, kind))
    return pa.schema(fields)
