"""Functions of time, and times moved by intervals. Dates and times are read in UTC."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from panes.errors import ExpressionError
from panes.plan.functions import time_formats
from panes.plan.functions.forms import (
    Function,
    NoColumn,
    SparkColumns,
    SparkForm,
    Types,
    call,
    cast,
    is_text,
    literal_text,
    paren,
    shown,
    spark_call,
    sql,
    takes,
    text_in,
    written,
)

if TYPE_CHECKING:
    from pyspark.sql import Column

_UNITS = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "year"),
    "QUARTER": "quarter",
    **dict.fromkeys(("MONTH", "MM", "MON"), "month"),
    "WEEK": "week",
    **dict.fromkeys(("DAY", "DD"), "day"),
    **{unit.upper(): unit for unit in ("hour", "minute", "second", "millisecond", "microsecond")},
}
#: fields of EXTRACT, and the part of DuckDB that it is, with how much more it is
_FIELDS: Mapping[str, tuple[str, int]] = {
    **dict.fromkeys(("YEAR", "Y", "YEARS", "YR", "YRS"), ("year", 0)),
    **dict.fromkeys(("YEAROFWEEK",), ("isoyear", 0)),
    **dict.fromkeys(("QUARTER", "QTR"), ("quarter", 0)),
    **dict.fromkeys(("MONTH", "MON", "MONS", "MONTHS"), ("month", 0)),
    **dict.fromkeys(("WEEK", "W", "WEEKS"), ("week", 0)),
    **dict.fromkeys(("DAY", "D", "DAYS"), ("day", 0)),
    **dict.fromkeys(("DAYOFWEEK", "DOW"), ("dow", 1)),
    **dict.fromkeys(("DAYOFWEEK_ISO", "DOW_ISO"), ("isodow", 0)),
    "DOY": ("doy", 0),
    **dict.fromkeys(("HOUR", "H", "HOURS", "HR", "HRS"), ("hour", 0)),
    **dict.fromkeys(("MINUTE", "M", "MIN", "MINS", "MINUTES"), ("minute", 0)),
    **dict.fromkeys(("SECOND", "S", "SEC", "SECONDS", "SECS"), ("second", 0)),
}
#: units of DATEDIFF: all that DuckDB can read, which would refuse others only when there are rows
_DIFFERENCES = frozenset(
    """
    year y yr yrs years quarter quarters month mon mons months week w weeks day d days dayofmonth hour h hours hr hrs
    minute m min mins minutes second s sec secs seconds millisecond ms msec msecs milliseconds microsecond us usec
    usecs microseconds dow weekday dayofweek isodow doy dayofyear decade dec decs decades century cent c centuries
    millennium mil mils millennia millenium isoyear yearweek weekofyear epoch julian
    """.upper().split()
)
_MICRO = "CAST(0.000001 AS DECIMAL(7, 6))"
_WHOLE_DAYS = ("DAY", "WEEK", "MONTH", "QUARTER", "YEAR")


def _field(node: exp.Expr) -> tuple[str, int]:
    name = str(node.this.name if isinstance(node.this, exp.Expression) else node.this).upper()
    if name not in _FIELDS:
        raise ExpressionError(
            f"extract({name} FROM ...): there is no such field; use YEAR, YEAROFWEEK, QUARTER, MONTH, WEEK, DAY, "
            "DAYOFWEEK, DAYOFWEEK_ISO, DOY, HOUR, MINUTE or SECOND"
        )
    return _FIELDS[name]


def _extract(node: exp.Expr, types: Types) -> exp.Expr:
    part, more = _field(node)
    time = sql(node.expression)
    if is_text(types.of(node.expression)):
        time = f"CAST({time} AS TIMESTAMP)"
    if part == "second":  # with its fraction
        micros = f"CAST(DATE_PART('microseconds', CAST({time} AS TIMESTAMP)) AS DECIMAL(8, 0))"
        return written(f"CAST({micros} * {_MICRO} AS DECIMAL(8, 6))")
    found = f"DATE_PART('{part}', {time})"
    return written(f"CAST({f'({found} + {more})' if more else found} AS INT)")


def _as_extract(node: exp.Expr) -> exp.Extract:
    """`date_part('year', t)` is `extract(year FROM t)`."""
    field, time = node.expressions
    return exp.Extract(this=exp.var(text_in(field, "the field of date_part")), expression=time.copy())


def _trunc(node: exp.Expr, types: Types) -> exp.Expr:
    unit = node.args["unit"]
    if _word(unit) not in _UNITS:
        raise _no_unit("date_trunc", unit)
    return call("DATE_TRUNC", exp.Literal.string(_UNITS[_word(unit)]), node.this.copy())


def _difference(node: exp.Expr, types: Types) -> exp.Expr:
    unit = node.args.get("unit")
    if unit is not None and _word(unit) not in _DIFFERENCES:
        raise _no_unit("datediff", unit)
    return node


def _word(unit: exp.Expr) -> str:
    return str(unit.name or unit.this).upper()


def _no_unit(function: str, unit: exp.Expr) -> ExpressionError:
    known = ", ".join(sorted(set(_UNITS.values())))
    return ExpressionError(f"{function}: there is no unit {_word(unit).lower()!r}; there are: {known}")


def _to_date(node: exp.Expr, types: Types) -> exp.Expr:
    value, *form = node.expressions
    if form:
        return cast(_parsed("to_date", value, form[0]), "DATE")
    return _as_date(value, types)


def _as_date(value: exp.Expr, types: Types) -> exp.Expr:
    text = is_text(types.of(value))
    return cast(call("px_day", value.copy()) if text else value.copy(), "DATE")


def _to_timestamp(node: exp.Expr, types: Types) -> exp.Expr:
    value, *form = node.expressions
    if form:
        value = _parsed("to_timestamp", value, form[0])
    return exp.Cast(this=value.copy(), to=exp.DataType.build("timestamp", dialect="spark"))


def _try_to_timestamp(node: exp.Expr, types: Types) -> exp.Expr:
    """As `to_timestamp`, and null where that is an error."""
    value, *form = node.expressions
    kind = exp.DataType.build("timestamp", dialect="spark")
    if not form:
        return exp.TryCast(this=value.copy(), to=kind)
    value_sql = sql(cast(value.copy(), "VARCHAR"))
    fits, time = time_formats.read(text_in(form[0], "the format of try_to_timestamp"), value_sql)
    return exp.Cast(this=exp.Paren(this=written(f"CASE WHEN {fits} THEN TRY({time}) END")), to=kind)


def _parsed(name: str, value: exp.Expr, form: exp.Expr) -> exp.Expr:
    """Text in a format as a timestamp; other text is an error."""
    text = text_in(form, f"the format of {name}")
    value_sql = sql(cast(value.copy(), "VARCHAR"))
    fits, time = time_formats.read(text, value_sql)
    quoted = text.replace("'", "''")
    wrong = f"error('{name}: ''' || {value_sql} || ''' does not have the format {quoted}')"
    return exp.Paren(this=written(f"CASE WHEN {fits} THEN {time} WHEN {value_sql} IS NOT NULL THEN {wrong} END"))


def _date_format(node: exp.Expr, types: Types) -> exp.Expr:
    time, form = node.expressions
    return written(
        time_formats.written(text_in(form, "the format of date_format"), sql(cast(time.copy(), "TIMESTAMP")))
    )


def exact_seconds(time: exp.Expr) -> exp.Expr:
    """Seconds with their fraction, as a decimal."""
    return written(f"CAST(EPOCH_US({sql(time)}) AS DECIMAL(19, 0)) * {_MICRO}")


def time_of(number: exp.Expr, per_second: int, types: Types, *, strict: bool = False) -> exp.Expr:
    """The time that is so many seconds, or parts of one, after 1970; of NaN and infinity there is none, or an error."""
    kind, value = types.of(number), sql(number)
    exact = kind.startswith(("DOUBLE", "FLOAT", "DECIMAL"))
    micros = f"({value if exact else f'CAST({value} AS BIGINT)'}) * {1_000_000 // per_second}"
    made = f"MAKE_TIMESTAMP(CAST({f'TRUNC({micros})' if exact else micros} AS BIGINT))"
    if kind.startswith(("DOUBLE", "FLOAT")) and not strict:
        made = f"CASE WHEN ISFINITE({value}) THEN {made} END"
    return written(made)


def moved_date(node: exp.Expr, types: Types) -> exp.Expr | None:
    """A date plus or minus an interval of whole days is a date; None: it is something else."""
    for interval, other in ((node.expression, node.this), (node.this, node.expression)):
        inner = interval.unnest()
        if isinstance(inner, exp.Interval):
            if _interval_unit(inner) in _WHOLE_DAYS and types.of(other) == "DATE":
                return cast(paren(node), "DATE")
            return None
    return None


def _interval_unit(interval: exp.Expr) -> str:
    return str(interval.args.get("unit") or "").upper().removesuffix("S")


_SPANS: Mapping[str, tuple[str, int | Decimal]] = {
    **{unit: ("secs", Decimal(1).scaleb(-power)) for unit, power in (("MICROSECOND", 6), ("MILLISECOND", 3))},
    "SECOND": ("secs", 1),
    "MINUTE": ("mins", 1),
    "HOUR": ("hours", 1),
    "DAY": ("days", 1),
    "WEEK": ("days", 7),
    "MONTH": ("months", 1),
    "QUARTER": ("months", 3),
    "YEAR": ("years", 1),
}


def moved_time(b: SparkColumns, node: exp.Expr, time: exp.Expr, interval: exp.Expr) -> Column:
    """A time plus or minus an interval."""
    unit = _interval_unit(interval)
    number = interval.this
    if unit not in _SPANS or not isinstance(number, exp.Literal) or not number.this.strip().lstrip("+-").isdigit():
        raise NoColumn(f"{shown(interval)}: only a whole number of one unit is known to be the same")
    part, per = _SPANS[unit]
    make = b.F.make_ym_interval if part in ("months", "years") else b.F.make_dt_interval
    span = make(**{part: b.F.lit(per * int(number.this))})
    moved = b.cast(b.of(time), b.type(node))
    return moved - span if isinstance(node, exp.Sub) else moved + span


def _of_time(name: str) -> SparkForm:
    return lambda b, node: b.call(name, b.instant(node.this))


def _spark_trunc(b: SparkColumns, node: exp.Expr) -> Column:
    unit = node.args["unit"]
    return b.F.date_trunc(str(unit.this if isinstance(unit, exp.Var | exp.Literal) else unit), b.instant(node.this))


def _spark_to_time(name: str) -> SparkForm:
    def form(b: SparkColumns, node: exp.Expr) -> Column:
        value, *pattern = node.expressions
        if pattern:
            return b.call(name, b.of(value), literal_text(pattern[0], f"the format of {name}"))
        if pa.types.is_string(b.type(value)) and not isinstance(value, exp.Literal):
            raise NoColumn(f"{shown(node)}: Spark reads other text as a time than the embedded engine does")
        return b.of(value).cast("date" if name == "to_date" else "timestamp")

    return form


def _spark_as_date(b: SparkColumns, node: exp.Expr) -> Column:
    return _spark_to_time("to_date")(b, call("to_date", node.this.copy()))


def _spark_try_to_timestamp(b: SparkColumns, node: exp.Expr) -> Column:
    value, *form = node.expressions
    if form:
        return b.F.try_to_timestamp(b.of(value), b.F.lit(literal_text(form[0], "the format of try_to_timestamp")))
    whole = _spark_to_time("to_timestamp")(b, node)
    return b.F.try_to_timestamp(b.of(value)) if pa.types.is_string(b.type(value)) else whole


def _spark_date_format(b: SparkColumns, node: exp.Expr) -> Column:
    time, form = node.expressions
    return b.F.date_format(b.instant(time), literal_text(form, "the format of date_format"))


def _spark_extract(b: SparkColumns, node: exp.Expr) -> Column:
    return b.F.date_part(b.F.lit(str(node.this.name).upper()), b.instant(node.expression))


def _spark_days_added(b: SparkColumns, node: exp.Expr) -> Column:
    if str(node.args.get("unit") or "DAY").upper() != "DAY":
        raise NoColumn(f"{shown(node)}: only days are added like this")
    return b.F.date_add(b.of(node.this).cast("date"), b.of(node.expression).cast("int"))


def _spark_difference(b: SparkColumns, node: exp.Expr) -> Column:
    if str(node.args.get("unit") or "DAY").upper() != "DAY":
        raise NoColumn(f"{shown(node)}: only days are counted like this")
    return b.F.datediff(b.of(node.this).cast("date"), b.of(node.expression).cast("date"))


def _spark_from_epoch(per_second: int) -> SparkForm:
    def form(b: SparkColumns, node: exp.Expr) -> Column:
        (number,) = node.expressions
        if not pa.types.is_integer(b.type(number)):
            raise NoColumn(f"{shown(node)}: only whole numbers are read as times alike")
        return b.F.timestamp_micros(b.of(number).cast("bigint") * b.F.lit(1_000_000 // per_second))

    return form


def _part(name: str, node: type[exp.Expr], duckdb: str | None = None, spark: str | None = None) -> Function:
    return Function(takes(name, 1), node, duckdb=duckdb, spark=_of_time(spark or name))


def _epoch(name: str, per_second: int) -> Function:
    def duckdb(node: exp.Expr, types: Types) -> exp.Expr:
        return time_of(node.expressions[0], per_second, types)

    return Function(takes(name, 1), None, duckdb=duckdb, spark=_spark_from_epoch(per_second))


TIMES = (
    _part("year", exp.Year),
    _part("quarter", exp.Quarter),
    _part("month", exp.Month),
    _part("day", exp.Day, spark="dayofmonth"),
    _part("dayofmonth", exp.DayOfMonth),
    _part("hour", exp.Hour),
    _part("minute", exp.Minute),
    _part("second", exp.Second),
    _part("dayofweek", exp.DayOfWeek, "(DAYOFWEEK({0}) + 1)"),
    _part("dayofyear", exp.DayOfYear),
    _part("weekofyear", exp.WeekOfYear),
    _part("last_day", exp.LastDay),
    _part("unix_seconds", exp.UnixSeconds, "PX_SECONDS({0})"),
    _part("unix_millis", exp.UnixMillis, "PX_MILLIS({0})"),
    _part("unix_micros", exp.UnixMicros),
    _epoch("timestamp_seconds", 1),
    _epoch("timestamp_millis", 1_000),
    _epoch("timestamp_micros", 1_000_000),
    Function(takes("weekday", 1), None, duckdb="(ISODOW(CAST({0} AS DATE)) - 1)", spark=spark_call("weekday", "date")),
    Function(takes("make_date", 3), None, spark=spark_call("make_date", "int")),
    Function({"extract": None}, exp.Extract, duckdb=_extract, spark=_spark_extract),
    Function(
        takes("date_part", 2),
        None,
        duckdb=lambda node, types: _extract(_as_extract(node), types),
        spark=lambda b, node: _spark_extract(b, _as_extract(node)),
    ),
    Function(takes("date_trunc", 2), exp.TimestampTrunc, duckdb=_trunc, spark=_spark_trunc),
    Function(takes("datediff", 2, 3), exp.DateDiff, duckdb=_difference, spark=_spark_difference),
    Function(
        takes("date_add date_sub", 2),
        exp.TsOrDsAdd,
        duckdb=lambda node, types: cast(node.copy(), "DATE"),
        spark=_spark_days_added,
    ),
    Function(
        takes("add_months", 2),
        exp.AddMonths,
        duckdb=lambda node, types: cast(node.copy(), "DATE"),
        spark=spark_call("add_months", "date", "int"),
    ),
    Function(takes("to_date", 1, 2), None, duckdb=_to_date, spark=_spark_to_time("to_date")),
    # what sqlglot puts around the arguments of others
    Function({}, exp.TsOrDsToDate, duckdb=lambda node, types: _as_date(node.this, types), spark=_spark_as_date),
    Function(takes("to_timestamp", 1, 2), None, duckdb=_to_timestamp, spark=_spark_to_time("to_timestamp")),
    Function(takes("try_to_timestamp", 1, 2), None, duckdb=_try_to_timestamp, spark=_spark_try_to_timestamp),
    Function(takes("date_format", 2), None, duckdb=_date_format, spark=_spark_date_format),
)
