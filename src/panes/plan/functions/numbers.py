"""Numbers: arithmetic, operators on bits, and functions of numbers.

`/` is float division; dividing by zero, with `/`, `div` or `%`, gives null; integers that overflow are errors;
logarithms of numbers that are not positive are null.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from panes.plan.functions.forms import (
    DuckdbForm,
    Function,
    NoColumn,
    SparkColumns,
    SparkForm,
    Types,
    call,
    cast,
    literal_int,
    paren,
    shown,
    spark_call,
    sql,
    takes,
    written,
)
from panes.plan.functions.times import moved_date, moved_time

if TYPE_CHECKING:
    from pyspark.sql import Column

FLOATS = ("DOUBLE", "FLOAT")
_NARROW = ("TINYINT", "SMALLINT", "UTINYINT", "USMALLINT")
INTEGERS = (*_NARROW, "INTEGER", "BIGINT", "UINTEGER", "UBIGINT", "HUGEINT")
_MOST_DIGITS = 38


def _add(node: exp.Expr, types: Types) -> exp.Expr:
    if types.narrow:
        _widen(node, types)
    return moved_date(node, types) or node


def _mul(node: exp.Expr, types: Types) -> exp.Expr:
    """Products of decimals have digits enough; DuckDB keeps to 18 where both sides have no more."""
    if types.narrow:
        _widen(node, types)
    elif not types.decimals:
        return node
    kinds = [types.of(side) for side in (node.this, node.expression)]
    if not all(kind.startswith("DECIMAL") for kind in kinds):
        return node
    digits = [tuple(map(int, kind[len("DECIMAL(") : -1].split(","))) for kind in kinds]
    (precision, scale), (other_precision, other_scale) = digits
    if not 18 < precision + other_precision < _MOST_DIGITS or max(precision, other_precision) > 18:
        return node
    wide = cast(paren(node.this), f"DECIMAL(19, {scale})")
    product = exp.Mul(this=wide, expression=paren(node.expression))
    return cast(product, f"DECIMAL({precision + other_precision + 1}, {scale + other_scale})")


def _widen(node: exp.Expr, types: Types) -> None:
    """Numbers in the text are integers of 32 bits; for DuckDB they are as narrow as what they are added to."""
    for side, other in (("this", node.expression), ("expression", node.this)):
        number = node.args[side].unnest()
        number = number.this if isinstance(number, exp.Neg) else number
        if isinstance(number, exp.Literal) and number.is_int and types.of(other) in _NARROW:
            kind = "INTEGER" if int(number.this) < 2**31 else "BIGINT"
            node.set(side, cast(node.args[side].copy(), kind))


def _arithmetic(operate: Callable[[Column, Column], Column]) -> SparkForm:
    def form(b: SparkColumns, node: exp.Expr) -> Column:
        for interval, other in ((node.expression, node.this), (node.this, node.expression)):
            if isinstance(interval.unnest(), exp.Interval):
                return moved_time(b, node, other, interval.unnest())
        kind = b.type(node)
        if pa.types.is_decimal(kind):
            return operate(*_exact_decimals(b, node))
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise NoColumn(f"{shown(node)} is {kind}, which Spark computes in another way")
        return operate(*b.as_type_of(node, node.this, node.expression))

    return form


def _exact_decimals(b: SparkColumns, node: exp.Expr) -> list[Column]:
    """Both sides of an operation on decimals that Spark has digits enough for."""
    sides = [node.this, node.expression]
    kinds = [b.type(side) for side in sides]
    digits = [(k.precision - k.scale, k.scale) if pa.types.is_decimal(k) else (20, 0) for k in kinds]
    (whole, scale), (other_whole, other_scale) = digits
    needed = whole + other_whole + scale + other_scale + 1
    if not isinstance(node, exp.Mul):
        needed = max(whole, other_whole) + max(scale, other_scale) + 1
    if needed > _MOST_DIGITS:
        raise NoColumn(f"{shown(node)} may need more than {_MOST_DIGITS} digits")
    return [b.of(side) for side in sides]


def _spark_div(b: SparkColumns, node: exp.Expr) -> Column:
    over, by = (b.of(side).cast("double") for side in (node.this, node.expression))
    return b.F.when(by != b.F.lit(0.0), over / by)


def _spark_int_div(b: SparkColumns, node: exp.Expr) -> Column:
    if not all(pa.types.is_integer(b.type(side)) for side in (node.this, node.expression)):
        raise NoColumn(f"{shown(node)}: only integers are divided like this in Spark")
    over, by = (b.of(side).cast("bigint") for side in (node.this, node.expression))
    return b.F.when(by != b.F.lit(0), b.F.call_function("div", over, by))


def _spark_mod(b: SparkColumns, node: exp.Expr) -> Column:
    if pa.types.is_decimal(b.type(node)):
        over, by = _exact_decimals(b, node)
    else:
        over, by = b.as_type_of(node, node.this, node.expression)
    return b.F.when(by != b.F.lit(0), over % by)


def _spark_negative(b: SparkColumns, node: exp.Expr) -> Column:
    (value,) = b.as_type_of(node, node.this)
    return -value


def _float_if_one_is(kinds: Sequence[str]) -> str | None:
    """Arithmetic on floats never fails; integers overflow."""
    return "float" if "float" in kinds and all(kind in ("float", "integer") for kind in kinds) else None


def _bits(operate: Callable[[Column, Column], Column]) -> SparkForm:
    return lambda b, node: operate(*b.as_type_of(node, node.this, node.expression))


_SIGN = (
    "CASE WHEN ISNAN(CAST({0} AS DOUBLE)) THEN CAST({0} AS DOUBLE) ELSE CAST(SIGN(CAST({0} AS DOUBLE)) AS DOUBLE) END"
)
#: of 64 bits, whatever the type
_BIT_COUNT = "CAST(BIT_COUNT(CAST({0} AS BIGINT)) AS INT)"


def _within_one(name: str) -> str:
    return f"CASE WHEN ABS(CAST({{0}} AS DOUBLE)) > 1 THEN CAST('NaN' AS DOUBLE) ELSE {name}({{0}}) END"


def _spark_log(b: SparkColumns, node: exp.Expr) -> Column:
    base, value = b.of(node.this).cast("double"), b.of(node.expression).cast("double")
    zero = b.F.lit(0.0)
    return b.F.when((value > zero) & (base > zero), b.F.log10(value) / b.F.log10(base))


def _to_whole(name: str) -> DuckdbForm:
    """Up or down to a whole number, which is a BIGINT of a float or double; NaN becomes 0."""

    def form(node: exp.Expr, types: Types) -> exp.Expr:
        value = sql(node.this)
        found = f"{name}({value})"
        if types.of(node.this).startswith(FLOATS):
            found = f"CASE WHEN ISNAN({value}) THEN CAST(0 AS BIGINT) ELSE CAST({found} AS BIGINT) END"
        return written(found)

    return form


def _round(node: exp.Expr, types: Types) -> exp.Expr:
    """Halves away from zero, of the number as it is written: 1.005 is 1.01 with two digits."""
    digits = node.args.get("decimals")
    if digits is None or not (kind := types.of(node.this)).startswith(FLOATS):
        return node
    found = call("px_round", node.this.copy(), digits.copy())
    return cast(found, "FLOAT") if kind.startswith("FLOAT") else found


def _spark_round(b: SparkColumns, node: exp.Expr) -> Column:
    value, digits = b.of(node.this), 0
    if node.args.get("decimals") is not None:
        digits = literal_int(node.args["decimals"], "the number of digits of round", -300)
    return b.F.round(value, digits)


NUMBERS = (
    Function({}, exp.Add, "+", duckdb=_add, spark=_arithmetic(lambda x, y: x + y), never_fails=_float_if_one_is),
    Function({}, exp.Sub, "-", duckdb=_add, spark=_arithmetic(lambda x, y: x - y), never_fails=_float_if_one_is),
    Function({}, exp.Mul, "*", duckdb=_mul, spark=_arithmetic(lambda x, y: x * y), never_fails=_float_if_one_is),
    Function({}, exp.Neg, "-", spark=_spark_negative, never_fails=_float_if_one_is),
    Function({}, exp.Div, "/", duckdb="({0}) / NULLIF({1}, 0)", spark=_spark_div),
    Function({}, exp.IntDiv, "DIV", duckdb="CAST(({0}) // NULLIF({1}, 0) AS BIGINT)", spark=_spark_int_div),
    Function(takes("mod", 2), exp.Mod, "%", duckdb="(({0}) % NULLIF({1}, 0))", spark=_spark_mod),
    Function({}, exp.BitwiseAnd, "&", spark=_bits(lambda x, y: x.bitwiseAND(y))),
    Function({}, exp.BitwiseOr, "|", spark=_bits(lambda x, y: x.bitwiseOR(y))),
    Function({}, exp.BitwiseXor, "^", spark=_bits(lambda x, y: x.bitwiseXOR(y))),
    Function({}, exp.BitwiseNot, "~", spark=lambda b, node: b.F.bitwise_not(*b.as_type_of(node, node.this))),
    Function(takes("bit_count", 1), exp.BitwiseCount, duckdb=_BIT_COUNT, spark=spark_call("bit_count", "bigint")),
    Function(takes("abs", 1), exp.Abs, spark=spark_call("abs")),
    # Spark's are errors where a double does not fit an integer
    Function(takes("ceil ceiling", 1), exp.Ceil, duckdb=_to_whole("CEIL"), spark=spark_call("ceil")),
    Function(takes("floor", 1), exp.Floor, duckdb=_to_whole("FLOOR"), spark=spark_call("floor")),
    Function(takes("round", 1, 2), exp.Round, duckdb=_round, spark=_spark_round),
    Function(
        takes("sqrt", 1),
        exp.Sqrt,
        duckdb="CASE WHEN ({0}) < 0 THEN CAST('NaN' AS DOUBLE) ELSE SQRT({0}) END",
        spark=spark_call("sqrt", "double"),
    ),
    Function(takes("cbrt", 1), exp.Cbrt, spark=spark_call("cbrt", "double")),
    Function(takes("exp", 1), exp.Exp, spark=spark_call("exp", "double")),
    Function(takes("ln", 1), exp.Ln, duckdb="CASE WHEN ({0}) > 0 THEN LN({0}) END", spark=spark_call("log", "double")),
    Function(
        takes("log", 1, 2) | takes("log2 log10", 1),
        exp.Log,
        duckdb="CASE WHEN ({0}) > 0 AND ({1}) > 0 THEN LOG({0}, {1}) END",
        spark=_spark_log,
    ),
    Function(takes("pow power", 2), exp.Pow, spark=spark_call("pow", "double")),
    Function(takes("sign signum", 1), exp.Sign, duckdb=_SIGN, spark=spark_call("signum", "double")),
    Function(takes("sin", 1), exp.Sin, spark=spark_call("sin", "double")),
    Function(takes("cos", 1), exp.Cos, spark=spark_call("cos", "double")),
    Function(takes("tan", 1), exp.Tan, spark=spark_call("tan", "double")),
    Function(takes("asin", 1), exp.Asin, duckdb=_within_one("ASIN"), spark=spark_call("asin", "double")),
    Function(takes("acos", 1), exp.Acos, duckdb=_within_one("ACOS"), spark=spark_call("acos", "double")),
    Function(takes("atan", 1), exp.Atan, spark=spark_call("atan", "double")),
    Function(takes("atan2", 2), exp.Atan2, spark=spark_call("atan2", "double")),
    Function(takes("degrees", 1), exp.Degrees, spark=spark_call("degrees", "double")),
    Function(takes("radians", 1), exp.Radians, spark=spark_call("radians", "double")),
    Function(takes("pi", 0), exp.Pi, spark=spark_call("pi")),
    Function(
        takes("isnan", 1),
        exp.IsNan,
        duckdb="COALESCE(ISNAN(CAST({0} AS DOUBLE)), FALSE)",
        spark=spark_call("isnan", "double"),
    ),
)
