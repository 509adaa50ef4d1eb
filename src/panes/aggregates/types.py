"""Which Arrow types aggregates accept, and the NumPy dtype in which each is kept.

Text names of types ("double", "bigint", "decimal(10,2)") are read here too, for user-defined aggregates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from panes.errors import QueryError, WrongType

#: The kinds of `kind_of`, in words for error messages.
NUMERIC = ("integer", "float", "decimal")
ORDERED = ("boolean", "integer", "float", "decimal", "temporal", "text", "binary")

_SQL_NAMES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "varchar": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
}


@lru_cache(maxsize=1024)
def kind_of(type: pa.DataType) -> str:
    """The family of a type: boolean, integer, float, decimal, temporal, text, binary, nested or null."""
    if pt.is_dictionary(type):
        return kind_of(type.value_type)
    if pt.is_boolean(type):
        return "boolean"
    if pt.is_integer(type):
        return "integer"
    if pt.is_floating(type):
        return "float"
    if pt.is_decimal(type):
        return "decimal"
    if pt.is_temporal(type) and type != pa.month_day_nano_interval():
        return "temporal"
    if pt.is_string(type) or pt.is_large_string(type) or pt.is_string_view(type):
        return "text"
    if pt.is_binary(type) or pt.is_large_binary(type) or pt.is_fixed_size_binary(type):
        return "binary"
    if pt.is_null(type):
        return "null"
    return "nested"


@lru_cache(maxsize=1024)
def storage_of(type: pa.DataType) -> np.dtype:
    """The dtype of `Column.values` for a type: native for numbers, int64 for times, object for the rest."""
    kind = kind_of(type)
    if kind == "boolean":
        return np.dtype(bool)
    if kind == "integer":
        native: np.dtype = np.dtype(type.to_pandas_dtype())
        return native
    if kind == "float":
        # Half floats are widened: NumPy and Numba have no fast loops for them.
        return np.dtype(np.float64 if type == pa.float64() else np.float32)
    if kind == "temporal":
        return np.dtype(np.int64)
    return np.dtype(object)


@lru_cache(maxsize=1024)
def kept_as(type: pa.DataType) -> pa.DataType:
    """The type in which partials keep a value: times as int64 ticks, since no date could hold an identity."""
    if kind_of(type) == "temporal":
        return pa.int64()
    return pa.float32() if type == pa.float16() else type


@lru_cache(maxsize=1024)
def plain(type: pa.DataType) -> pa.DataType:
    """The type of the values themselves: dictionary encoding removed."""
    return type.value_type if pt.is_dictionary(type) else type


def arrow_type(name: str | pa.DataType) -> pa.DataType:
    """Read a type name, as SQL or Arrow write it.

    >>> arrow_type("bigint"), arrow_type("float64"), arrow_type("decimal(10,2)")
    (DataType(int64), DataType(double), Decimal128Type(decimal128(10, 2)))
    """
    if isinstance(name, pa.DataType):
        return name
    text = name.strip().lower()
    if text in _SQL_NAMES:
        return _SQL_NAMES[text]
    decimal = re.fullmatch(r"(?:decimal|numeric)\((\d+)(?:,\s*(\d+))?\)", text)
    if decimal:
        return pa.decimal128(int(decimal[1]), int(decimal[2] or 0))
    nested = re.fullmatch(r"(?:array|list)<(.+)>", text)
    if nested:
        return pa.list_(arrow_type(nested[1]))
    try:
        return pa.type_for_alias(text)
    except ValueError:
        raise QueryError(
            f"type {name!r} is not known; write an Arrow type or an SQL name such as {', '.join(_SQL_NAMES)}"
        ) from None


def require(what: str, argument: str, type: pa.DataType, kinds: Iterable[str], advice: str) -> None:
    """Refuse an argument whose type is not of one of `kinds`."""
    kinds = tuple(kinds)
    if kind_of(type) not in kinds:
        raise WrongType(f"{what} needs {_either(kinds)} values, but `{argument}` is of type ", type, f"; {advice}")


def _either(kinds: tuple[str, ...]) -> str:
    return kinds[0] if len(kinds) == 1 else ", ".join(kinds[:-1]) + " or " + kinds[-1]
