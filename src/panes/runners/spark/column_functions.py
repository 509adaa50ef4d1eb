"""The scalar functions of the allow-list as Spark Columns: one rule per function, see `columns`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from panes.plan.duckdb_times import as_extract
from panes.runners.spark.column_text import TEXT_FUNCTIONS
from panes.runners.spark.columns import ColumnBuilder, NoColumn, Rule, literal_int, literal_text, spark_function

if TYPE_CHECKING:
    from pyspark.sql import Column


def _of_time(name: str) -> Rule:
    def rule(b: ColumnBuilder, node: exp.Expr) -> Column:
        from pyspark.sql import functions as F

        return getattr(F, name)(b.instant(node.this))

    return rule


def _to_whole(name: str) -> Rule:
    """Ceil and floor: Spark's are errors where a double does not fit an integer."""

    def rule(b: ColumnBuilder, node: exp.Expr) -> Column:
        from pyspark.sql import functions as F

        return getattr(F, name)(b.of(node.this))

    return rule


def _round(b: ColumnBuilder, node: exp.Round) -> Column:
    """Halves away from zero."""
    from pyspark.sql import functions as F

    value, digits = b.of(node.this), 0
    if node.args.get("decimals") is not None:
        digits = literal_int(node.args["decimals"], "the number of digits of round", -300)
    return F.round(value, digits)


def _log(b: ColumnBuilder, node: exp.Log) -> Column:
    from pyspark.sql import functions as F

    if node.expression is None:
        return F.log(b.of(node.this).cast("double"))
    base, value = b.of(node.this).cast("double"), b.of(node.expression).cast("double")
    return F.when((value > F.lit(0.0)) & (base > F.lit(0.0)), F.log10(value) / F.log10(base))


def _sign(b: ColumnBuilder, node: exp.Sign) -> Column:
    from pyspark.sql import functions as F

    return F.signum(b.of(node.this).cast("double"))


def _is_nan(b: ColumnBuilder, node: exp.IsNan) -> Column:
    from pyspark.sql import functions as F

    return F.isnan(b.of(node.this).cast("double"))


def _of_all(name: str) -> Rule:
    """A function of any number of arguments, all of the type of the result."""

    def rule(b: ColumnBuilder, node: exp.Expr) -> Column:
        from pyspark.sql import functions as F

        columns = b.as_type_of(node, node.this, *node.expressions)
        return columns[0] if len(columns) == 1 else getattr(F, name)(*columns)

    return rule


def _null_if(b: ColumnBuilder, node: exp.Nullif) -> Column:
    from pyspark.sql import functions as F

    same = b.of(exp.EQ(this=node.this.copy(), expression=node.expression.copy()))
    value = b.of(node.this)
    return F.when(F.coalesce(same, F.lit(False)), F.lit(None)).otherwise(value)


def _nvl2(b: ColumnBuilder, node: exp.Nvl2) -> Column:
    from pyspark.sql import functions as F

    there, absent = b.as_type_of(node, node.args["true"], node.args["false"])
    return F.when(b.of(node.this).isNotNull(), there).otherwise(absent)


def _trunc(b: ColumnBuilder, node: exp.Expr) -> Column:
    from pyspark.sql import functions as F

    unit = node.args["unit"]
    return F.date_trunc(str(unit.this if isinstance(unit, exp.Var | exp.Literal) else unit), b.instant(node.this))


def _to_time(name: str) -> Rule:
    def rule(b: ColumnBuilder, node: exp.Anonymous) -> Column:
        from pyspark.sql import functions as F

        value, *form = node.expressions
        if form:
            return getattr(F, name)(b.of(value), literal_text(form[0], f"the format of {name}"))
        if pa.types.is_string(b.type(value)) and not isinstance(value, exp.Literal):
            raise NoColumn(
                f"{node.sql(dialect='spark')}: Spark reads other text as a time than the embedded engine does"
            )
        return b.of(value).cast("date" if name == "to_date" else "timestamp")

    return rule


def _as_date(b: ColumnBuilder, node: exp.TsOrDsToDate) -> Column:
    return _to_time("to_date")(b, exp.Anonymous(this="to_date", expressions=[node.this.copy()]))


def _date_format(b: ColumnBuilder, node: exp.Anonymous) -> Column:
    from pyspark.sql import functions as F

    time, form = node.expressions
    return F.date_format(b.instant(time), literal_text(form, "the format of date_format"))


def _extract(b: ColumnBuilder, node: exp.Extract) -> Column:
    from pyspark.sql import functions as F

    return F.date_part(F.lit(str(node.this.name).upper()), b.instant(node.expression))


def _date_part(b: ColumnBuilder, node: exp.Anonymous) -> Column:
    return _extract(b, as_extract(node))


def _element_at(b: ColumnBuilder, node: exp.Anonymous) -> Column:
    from pyspark.sql import functions as F

    values, place = node.expressions
    given = b.type(values)
    if pa.types.is_map(given):
        return b.of(values)[b.cast(b.of(place), given.key_type)]
    return F.element_at(b.of(values), b.of(place).cast("int"))


def _try_to_timestamp(b: ColumnBuilder, node: exp.Anonymous) -> Column:
    from pyspark.sql import functions as F

    value, *form = node.expressions
    if form:
        return F.try_to_timestamp(b.of(value), F.lit(literal_text(form[0], "the format of try_to_timestamp")))
    whole = _to_time("to_timestamp")(b, node)
    return F.try_to_timestamp(b.of(value)) if pa.types.is_string(b.type(value)) else whole


def _size(b: ColumnBuilder, node: exp.Anonymous) -> Column:
    from pyspark.sql import functions as F

    value = b.of(node.expressions[0])
    return F.when(value.isNotNull(), F.size(value))


def _contains(b: ColumnBuilder, node: exp.Anonymous) -> Column:
    from pyspark.sql import functions as F

    values, value = node.expressions
    kind = b.type(values).value_type
    return F.array_contains(b.of(values), b.cast(b.of(value), kind))


def _days_added(b: ColumnBuilder, node: exp.TsOrDsAdd) -> Column:
    from pyspark.sql import functions as F

    if str(node.args.get("unit") or "DAY").upper() != "DAY":
        raise NoColumn(f"{node.sql(dialect='spark')}: only days are added like this")
    return F.date_add(b.of(node.this).cast("date"), b.of(node.expression).cast("int"))


def _days_between(b: ColumnBuilder, node: exp.DateDiff) -> Column:
    from pyspark.sql import functions as F

    if str(node.args.get("unit") or "DAY").upper() != "DAY":
        raise NoColumn(f"{node.sql(dialect='spark')}: only days are counted like this")
    return F.datediff(b.of(node.this).cast("date"), b.of(node.expression).cast("date"))


def _months_added(b: ColumnBuilder, node: exp.AddMonths) -> Column:
    from pyspark.sql import functions as F

    return F.add_months(b.of(node.this).cast("date"), b.of(node.expression).cast("int"))


def _bit_count(b: ColumnBuilder, node: exp.BitwiseCount) -> Column:
    from pyspark.sql import functions as F

    return F.bit_count(b.of(node.this).cast("bigint"))


def _from_epoch(per_second: int) -> Rule:
    def rule(b: ColumnBuilder, node: exp.Anonymous) -> Column:
        from pyspark.sql import functions as F

        (number,) = node.expressions
        if not pa.types.is_integer(b.type(number)):
            raise NoColumn(f"{node.sql(dialect='spark')}: only whole numbers are read as times alike")
        return F.timestamp_micros(b.of(number).cast("bigint") * F.lit(1_000_000 // per_second))

    return rule


def _call(name: str, *casts: str) -> Rule:
    def rule(b: ColumnBuilder, node: exp.Anonymous) -> Column:
        from pyspark.sql import functions as F

        return getattr(F, name)(*(b.of(part).cast(kind) for part, kind in zip(node.expressions, casts, strict=True)))

    return rule


def _present(there: bool) -> Callable[[ColumnBuilder, Any], Column]:
    def rule(b: ColumnBuilder, node: exp.Anonymous) -> Column:
        value = b.of(node.expressions[0])
        return value.isNotNull() if there else value.isNull()

    return rule


def _pi(b: ColumnBuilder, node: exp.Pi) -> Column:
    from pyspark.sql import functions as F

    return F.pi()


FUNCTIONS: dict[type[exp.Expr], Rule] = {
    exp.Abs: spark_function("abs"),
    exp.Ceil: _to_whole("ceil"),
    exp.Floor: _to_whole("floor"),
    exp.Round: _round,
    **{
        node: spark_function(name, cast="double")
        for node, name in (
            (exp.Sqrt, "sqrt"), (exp.Cbrt, "cbrt"), (exp.Exp, "exp"), (exp.Ln, "log"), (exp.Sin, "sin"),
            (exp.Cos, "cos"), (exp.Tan, "tan"), (exp.Asin, "asin"), (exp.Acos, "acos"), (exp.Atan, "atan"),
            (exp.Degrees, "degrees"), (exp.Radians, "radians"),
        )
    },
    exp.Log: _log,
    exp.Pow: spark_function("pow", "this", "expression", cast="double"),
    exp.Atan2: spark_function("atan2", "this", "expression", cast="double"),
    exp.Sign: _sign,
    exp.Pi: _pi,
    exp.IsNan: _is_nan,
    exp.Greatest: _of_all("greatest"),
    exp.Least: _of_all("least"),
    exp.Coalesce: _of_all("coalesce"),
    exp.Nullif: _null_if,
    exp.Nvl2: _nvl2,
    **TEXT_FUNCTIONS,
    **{
        node: _of_time(name)
        for node, name in (
            (exp.Year, "year"), (exp.Quarter, "quarter"), (exp.Month, "month"), (exp.Day, "dayofmonth"),
            (exp.DayOfMonth, "dayofmonth"), (exp.Hour, "hour"), (exp.Minute, "minute"), (exp.Second, "second"),
            (exp.DayOfWeek, "dayofweek"), (exp.DayOfYear, "dayofyear"), (exp.WeekOfYear, "weekofyear"),
            (exp.UnixSeconds, "unix_seconds"), (exp.UnixMillis, "unix_millis"), (exp.UnixMicros, "unix_micros"),
            (exp.LastDay, "last_day"),
        )
    },
    exp.TimestampTrunc: _trunc,
    exp.DateTrunc: _trunc,
    exp.Extract: _extract,
    exp.TsOrDsToDate: _as_date,
    exp.TsOrDsAdd: _days_added,
    exp.DateDiff: _days_between,
    exp.AddMonths: _months_added,
    exp.BitwiseCount: _bit_count,
}  # fmt: skip

CALLS: dict[str, Rule] = {
    "isnull": _present(there=False),
    "isnotnull": _present(there=True),
    "make_date": _call("make_date", "int", "int", "int"),
    "weekday": _call("weekday", "date"),
    "to_date": _to_time("to_date"),
    "to_timestamp": _to_time("to_timestamp"),
    "date_format": _date_format,
    "size": _size,
    "array_contains": _contains,
    "element_at": _element_at,
    "date_part": _date_part,
    "try_to_timestamp": _try_to_timestamp,
    "timestamp_seconds": _from_epoch(1),
    "timestamp_millis": _from_epoch(1_000),
    "timestamp_micros": _from_epoch(1_000_000),
}
