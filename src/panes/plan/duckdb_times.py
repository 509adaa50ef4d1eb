"""Functions of time with Spark's meaning, for `duckdb_sql`: one rule per node or call."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from panes.errors import ExpressionError
from panes.plan import time_formats
from panes.plan.duckdb_nodes import Rule, TypeOf, call, cast, is_text, paren, sql, text_of, when, written

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
_WHOLE_DAYS = ("DAY", "WEEK", "MONTH", "QUARTER", "YEAR")


def extracted(node: exp.Expr) -> str:
    """The field of an EXTRACT as DuckDB calls it; ExpressionError if there is none."""
    return _field(node)[0]


def _field(node: exp.Expr) -> tuple[str, int]:
    name = str(node.this.name if isinstance(node.this, exp.Expression) else node.this).upper()
    if name not in _FIELDS:
        raise ExpressionError(
            f"extract({name} FROM ...): there is no such field; use YEAR, YEAROFWEEK, QUARTER, MONTH, WEEK, DAY, "
            "DAYOFWEEK, DAYOFWEEK_ISO, DOY, HOUR, MINUTE or SECOND"
        )
    return _FIELDS[name]


def _extract(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    part, more = _field(node)
    time = node.expression
    if is_text(type_of(sql(time.copy()))):
        time = cast(time.copy(), "TIMESTAMP")
    if part == "second":  # with its fraction
        micros = cast(
            call("DATE_PART", exp.Literal.string("microseconds"), cast(time.copy(), "TIMESTAMP")), "DECIMAL(8, 0)"
        )
        return cast(
            exp.Mul(this=micros, expression=cast(exp.Literal.number("0.000001"), "DECIMAL(7, 6)")), "DECIMAL(8, 6)"
        )
    found: exp.Expr = call("DATE_PART", exp.Literal.string(part), time.copy())
    if more:
        found = exp.Paren(this=exp.Add(this=found, expression=exp.Literal.number(more)))
    return cast(found, "INTEGER")


def _date_part(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return _extract(as_extract(node), type_of)


def as_extract(node: exp.Expr) -> exp.Extract:
    """`date_part('year', t)` is `extract(year FROM t)`."""
    field, time = node.expressions
    return exp.Extract(this=exp.var(text_of(field, "the field of date_part")), expression=time.copy())


def _trunc(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    unit = node.args["unit"]
    if _word(unit) not in _UNITS:
        raise _no_unit("date_trunc", unit)
    return call("DATE_TRUNC", exp.Literal.string(_UNITS[_word(unit)]), node.this.copy())


def _difference(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    unit = node.args.get("unit")
    if unit is not None and _word(unit) not in _DIFFERENCES:
        raise _no_unit("datediff", unit)
    return node


def _word(unit: exp.Expr) -> str:
    return str(unit.name or unit.this).upper()


def _no_unit(function: str, unit: exp.Expr) -> ExpressionError:
    known = ", ".join(sorted(set(_UNITS.values())))
    return ExpressionError(f"{function}: there is no unit {_word(unit).lower()!r}; there are: {known}")


def _to_date(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    value, *form = node.expressions
    if form:
        return cast(_parsed("to_date", value, form[0]), "DATE")
    return _as_date(value, type_of)


def _as_date(value: exp.Expr, type_of: TypeOf) -> exp.Expr:
    text = is_text(type_of(sql(value.copy())))
    return cast(call("px_day", value.copy()) if text else value.copy(), "DATE")


def _to_timestamp(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    value, *form = node.expressions
    if form:
        value = _parsed("to_timestamp", value, form[0])
    return exp.Cast(this=value.copy(), to=exp.DataType.build("timestamp", dialect="spark"))


def _try_to_timestamp(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """As `to_timestamp`, and null where that is an error."""
    value, *form = node.expressions
    kind = exp.DataType.build("timestamp", dialect="spark")
    if not form:
        return exp.TryCast(this=value.copy(), to=kind)
    value_sql = sql(cast(value.copy(), "VARCHAR"))
    fits, time = time_formats.read(text_of(form[0], "the format of try_to_timestamp"), value_sql)
    return exp.Cast(this=exp.Paren(this=written(f"CASE WHEN {fits} THEN TRY({time}) END")), to=kind)


def _parsed(name: str, value: exp.Expr, form: exp.Expr) -> exp.Expr:
    """Text in a format as a timestamp; other text is an error."""
    text = text_of(form, f"the format of {name}")
    value_sql = sql(cast(value.copy(), "VARCHAR"))
    fits, time = time_formats.read(text, value_sql)
    shown = text.replace("'", "''")
    wrong = f"error('{name}: ''' || {value_sql} || ''' does not have the format {shown}')"
    return exp.Paren(this=written(f"CASE WHEN {fits} THEN {time} WHEN {value_sql} IS NOT NULL THEN {wrong} END"))


def _date_format(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    time, form = node.expressions
    return written(
        time_formats.written(text_of(form, "the format of date_format"), sql(cast(time.copy(), "TIMESTAMP")))
    )


def floor_seconds(time: exp.Expr) -> exp.Expr:
    """Seconds, downwards before 1970 too, in integers: a double can't hold all microseconds."""
    return call("px_seconds", call("EPOCH_US", time.copy()))


def exact_seconds(time: exp.Expr) -> exp.Expr:
    """Seconds with their fraction, as a decimal."""
    micros = cast(call("EPOCH_US", time.copy()), "DECIMAL(19, 0)")
    return exp.Mul(this=micros, expression=cast(exp.Literal.number("0.000001"), "DECIMAL(7, 6)"))


def from_epoch(per_second: int) -> Rule:
    def rule(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
        return made_of(node.expressions[0], per_second, type_of)

    return rule


def made_of(number: exp.Expr, per_second: int, type_of: TypeOf, *, strict: bool = False) -> exp.Expr:
    """The time that is so many seconds, or parts of one, after 1970; of NaN and infinity there is none, or an error."""
    kind = type_of(sql(number.copy()))
    exact = kind.startswith(("DOUBLE", "FLOAT", "DECIMAL"))
    wide = number.copy() if exact else cast(number.copy(), "BIGINT")
    micros = exp.Mul(this=exp.Paren(this=wide), expression=exp.Literal.number(1_000_000 // per_second))
    made = call("MAKE_TIMESTAMP", cast(call("TRUNC", micros) if exact else micros, "BIGINT"))
    if kind.startswith(("DOUBLE", "FLOAT")) and not strict:
        return when(call("ISFINITE", number.copy()), made, None)
    return made


def _floor_millis(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """Milliseconds, downwards before 1970 too."""
    micros, thousand = call("EPOCH_US", node.this.copy()), exp.Literal.number(1000)
    below = exp.Paren(this=exp.Mod(this=micros, expression=thousand))
    above = exp.Paren(this=exp.Mod(this=exp.Paren(this=exp.Add(this=below, expression=thousand)), expression=thousand))
    return exp.Paren(this=exp.IntDiv(this=exp.Paren(this=exp.Sub(this=micros, expression=above)), expression=thousand))


def _monday_is_zero(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    day = call("ISODOW", cast(node.expressions[0].copy(), "DATE"))
    return exp.Paren(this=exp.Sub(this=day, expression=exp.Literal.number(1)))


def _sunday_is_one(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return exp.Paren(this=exp.Add(this=node.copy(), expression=exp.Literal.number(1)))


def moved_date(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """A date plus or minus an interval of whole days is a date; None: it is something else."""
    for interval, other in ((node.expression, node.this), (node.this, node.expression)):
        inner = interval.unnest()
        if isinstance(inner, exp.Interval):
            unit = str(inner.args.get("unit") or "").upper().removesuffix("S")
            if unit in _WHOLE_DAYS and type_of(sql(other.copy())) == "DATE":
                return cast(paren(node), "DATE")
            return None
    return None


TIME_RULES: Mapping[type[exp.Expr], Rule] = {
    exp.Extract: _extract,
    exp.TimestampTrunc: _trunc,
    exp.DateTrunc: _trunc,
    exp.DateDiff: _difference,
    exp.DayOfWeek: _sunday_is_one,
    exp.UnixSeconds: lambda node, type_of: floor_seconds(node.this),
    exp.UnixMillis: _floor_millis,
    exp.TsOrDsToDate: lambda node, type_of: _as_date(node.this, type_of),
    exp.TsOrDsAdd: lambda node, type_of: cast(node.copy(), "DATE"),
    exp.AddMonths: lambda node, type_of: cast(node.copy(), "DATE"),
}

TIME_CALLS: Mapping[str, Rule] = {
    "weekday": _monday_is_zero,
    "to_date": _to_date,
    "to_timestamp": _to_timestamp,
    "try_to_timestamp": _try_to_timestamp,
    "date_part": _date_part,
    "date_format": _date_format,
    "timestamp_seconds": from_epoch(1),
    "timestamp_millis": from_epoch(1_000),
    "timestamp_micros": from_epoch(1_000_000),
}
