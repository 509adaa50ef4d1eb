"""Values as such: those written in the text, fields and elements, lists and maps, and casts from type to type.

Casts of fractions to integers cut towards zero; casts that fail are errors, or null with TRY_CAST.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from panes.errors import ExpressionError, WrongType
from panes.plan.duckdb_session import arrow_type
from panes.plan.functions.forms import (
    Function,
    NoColumn,
    SparkColumns,
    Types,
    call,
    cast,
    is_text,
    literal_text,
    shown,
    sql,
    takes,
    written,
)
from panes.plan.functions.numbers import FLOATS, INTEGERS
from panes.plan.functions.text import as_text
from panes.plan.functions.times import exact_seconds, time_of

if TYPE_CHECKING:
    from pyspark.sql import Column

_Type = exp.DataType.Type
_INTEGERS = {_Type.TINYINT, _Type.SMALLINT, _Type.INT, _Type.BIGINT}
_NUMBERS = _INTEGERS | {_Type.FLOAT, _Type.DOUBLE, _Type.DECIMAL}
_TEXTS = {_Type.TEXT, _Type.VARCHAR}
_TIMES = {_Type.TIMESTAMP, _Type.TIMESTAMPTZ, _Type.TIMESTAMPLTZ}
_OTHERS = {_Type.DATE, _Type.BOOLEAN}
_FRACTIONS = (*FLOATS, "DECIMAL")
_NESTED = ("STRUCT(", "MAP(")
#: a finite double beyond this is infinite as a float
_TO_FLOAT = (
    "CASE WHEN ABS({0}) >= 3.4028235677973366e+38 AND ISFINITE({0}) "
    "THEN CAST(SIGN({0}) * CAST('inf' AS FLOAT) AS FLOAT) ELSE {1} END"
)


def _cast(node: exp.Expr, types: Types) -> exp.Expr:
    value, to = node.this, node.args["to"]
    safe = _is_safe(node)
    made = exp.TryCast if safe else exp.Cast
    wanted = to.this
    asked = wanted in _NUMBERS or wanted in _TEXTS or wanted in _TIMES or wanted in _OTHERS
    kind = types.of(value) if asked else ""
    number = kind.startswith(_FRACTIONS) or kind in INTEGERS
    if wanted in _TEXTS:
        return as_text(value, types)
    if not safe and (kind.startswith(_NESTED) or kind.endswith("]")):
        # DuckDB would only say so when there are rows
        raise WrongType(arrow_type(kind), f" can't be turned into {shown(to)}")
    if wanted in _TIMES and number:
        return made(this=time_of(value, 1, types, strict=True), to=to.copy())
    if kind.startswith("TIMESTAMP") and wanted in _NUMBERS:
        if wanted in _INTEGERS:
            value = call("px_seconds", value.copy())
        else:
            value = exact_seconds(value) if wanted == _Type.DECIMAL else call("EPOCH", value.copy())
    elif wanted in _INTEGERS and kind.startswith(_FRACTIONS):
        value = call("TRUNC", value.copy())
    elif is_text(kind) and wanted in _NUMBERS:
        value = call("px_whole" if wanted in _INTEGERS else "px_fraction", value.copy())
    elif is_text(kind) and wanted == _Type.BOOLEAN:
        value = call("TRIM", value.copy())
    elif is_text(kind) and wanted == _Type.DATE:
        value = call("px_day", value.copy())
    found = made(this=value.copy(), to=to.copy())
    if kind == "DOUBLE" and wanted == _Type.FLOAT:
        return written(_TO_FLOAT.format(sql(value), sql(found)))
    if kind.startswith(FLOATS) and wanted == _Type.DECIMAL:
        return written(f"CASE WHEN ISFINITE({sql(value)}) THEN {sql(found)} END")
    return found


def _is_safe(node: exp.Expr) -> bool:
    return isinstance(node, exp.TryCast) and bool(node.args.get("safe"))


def _spark_cast(b: SparkColumns, node: exp.Expr) -> Column:
    given, wanted = b.type(node.this), b.type(node)
    if pa.types.is_string(wanted):
        return b.text(node.this)
    number = pa.types.is_integer(wanted) or pa.types.is_floating(wanted) or pa.types.is_decimal(wanted)
    if pa.types.is_timestamp(given) and number:
        instant = b.instant(node.this)
        if pa.types.is_integer(wanted):
            return b.F.unix_seconds(instant)
        if pa.types.is_decimal(wanted):
            raise NoColumn(f"{shown(node)}: times are exact as decimals in one engine only")
        return b.F.unix_micros(instant).cast("double") / b.F.lit(1e6)
    if pa.types.is_string(given) and number and not isinstance(node.this.unnest(), exp.Literal):
        raise NoColumn(f"{shown(node)}: Spark refuses other text than the embedded engine does")
    value = b.of(node.this)
    return b.try_cast(value, wanted) if _is_safe(node) else value


def _literal(b: SparkColumns, node: exp.Expr) -> Column:
    if node.is_string:
        return b.F.lit(str(node.this))
    if node.is_int:
        return b.F.lit(int(node.this))
    return b.F.lit(float(node.this)) if "e" in node.this.lower() else b.F.lit(Decimal(node.this))


def _element(node: exp.Expr, types: Types) -> exp.Expr:
    """`v[0]` is the first element of a list, `m['a']` the value of a key, null if there is none."""
    (index,) = node.expressions
    kind = types.of(node.this)
    if kind.startswith("MAP("):
        return call("MAP_EXTRACT_VALUE", node.this.copy(), index.copy())
    if kind.endswith("]"):
        return call("px_element", node.this.copy(), index.copy())
    if kind.startswith("STRUCT(") and isinstance(index, exp.Literal) and index.is_string:
        return call("STRUCT_EXTRACT", node.this.copy(), index.copy())
    raise WrongType("[...] takes an element of a list, or the value of a key of a map; got ", arrow_type(kind))


def _spark_element(b: SparkColumns, node: exp.Expr) -> Column:
    (index,) = node.expressions
    given = b.type(node.this)
    if pa.types.is_struct(given):
        return b.of(node.this).getField(literal_text(index, "the name of a field"))
    if pa.types.is_map(given):
        return b.of(node.this)[b.cast(b.of(index), given.key_type)]
    return b.of(node.this)[b.of(index)]


def _element_at(node: exp.Expr, types: Types) -> exp.Expr:
    """Of a list the element of a number, from 1 or backwards from -1; of a map the value of a key."""
    values, place = node.expressions
    kind = types.of(values)
    if kind.startswith("MAP("):
        return call("MAP_EXTRACT_VALUE", values.copy(), place.copy())
    number = types.of(place)
    if kind.endswith("]") and number in INTEGERS:
        return call("px_element_at", values.copy(), place.copy())
    got = f"{kind.lower()} and {number.lower()}"
    raise ExpressionError(f"element_at takes a list and a whole number, or a map and a key; got {got}")


def _spark_element_at(b: SparkColumns, node: exp.Expr) -> Column:
    values, place = node.expressions
    given = b.type(values)
    if pa.types.is_map(given):
        return b.of(values)[b.cast(b.of(place), given.key_type)]
    return b.F.element_at(b.of(values), b.of(place).cast("int"))


def _size(node: exp.Expr, types: Types) -> exp.Expr:
    (value,) = node.expressions
    kind = types.of(value)
    if not (kind.startswith("MAP(") or kind.endswith("]")):
        raise WrongType("size takes a list or a map; got ", arrow_type(kind))
    return cast(call("CARDINALITY" if kind.startswith("MAP(") else "LEN", value.copy()), "INTEGER")


def _spark_size(b: SparkColumns, node: exp.Expr) -> Column:
    value = b.of(node.expressions[0])
    return b.F.when(value.isNotNull(), b.F.size(value))


def _array_contains(node: exp.Expr, types: Types) -> exp.Expr:
    values, value = node.expressions
    if not types.of(values).endswith("]"):
        raise ExpressionError("array_contains takes a list and a value")
    return call("px_contains", values.copy(), value.copy())


def _spark_array_contains(b: SparkColumns, node: exp.Expr) -> Column:
    values, value = node.expressions
    return b.F.array_contains(b.of(values), b.cast(b.of(value), b.type(values).value_type))


VALUES = (
    Function({}, exp.Literal, spark=_literal),
    Function({}, exp.Boolean, spark=lambda b, node: b.F.lit(bool(node.this))),
    Function({}, exp.Null, spark=lambda b, node: b.F.lit(None)),
    # CAST is a TryCast in Spark's grammar, too; typed literals are a Cast
    Function({"cast": None, "try_cast": None}, exp.TryCast, duckdb=_cast, spark=_spark_cast),
    Function({}, exp.Cast, duckdb=_cast, spark=_spark_cast),
    Function({}, exp.Dot, spark=lambda b, node: b.of(node.this).getField(node.expression.name)),
    Function({}, exp.Bracket, duckdb=_element, spark=_spark_element),
    Function(takes("element_at", 2), None, duckdb=_element_at, spark=_spark_element_at),
    Function(takes("size", 1), None, duckdb=_size, spark=_spark_size),
    Function(takes("array_contains", 2), None, duckdb=_array_contains, spark=_spark_array_contains),
)
