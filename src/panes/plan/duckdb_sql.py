"""A resolved tree to DuckDB SQL with the meaning Spark gives it.

One rule per node, named for what differs. Documented meaning, whatever the engine: `/` is float division;
dividing by zero, with `/`, `div` or `%`, gives null; casts of fractions to integers cut towards zero; casts
that fail and integers that overflow are errors; logarithms of numbers that are not positive are null; dates
and times are read in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from panes.plan.trees import copied
from panes.plan.writing import writer

#: the DuckDB type of an SQL fragment, as text
TypeOf = Callable[[str], str]
Rule = Callable[[exp.Expr, TypeOf], exp.Expr]

INTEGERS = {
    exp.DataType.Type.TINYINT,
    exp.DataType.Type.SMALLINT,
    exp.DataType.Type.INT,
    exp.DataType.Type.BIGINT,
}
NUMBERS = INTEGERS | {exp.DataType.Type.FLOAT, exp.DataType.Type.DOUBLE, exp.DataType.Type.DECIMAL}
FRACTIONS = ("DOUBLE", "FLOAT", "DECIMAL")
_NARROW = ("TINYINT", "SMALLINT", "UTINYINT", "USMALLINT")


def duckdb_sql(tree: exp.Expr, columns: Mapping[str, str], type_of: TypeOf, *, narrow: bool = False) -> str:
    """SQL text for DuckDB; `columns` gives each column its name in the table that DuckDB will see.

    `narrow`: whether there may be integers of less than 32 bits.
    """
    rules = {**RULES, **NARROW_RULES} if narrow else RULES
    return _sql(_rewrite(copied(tree), columns, type_of, rules))


def _rewrite(
    node: exp.Expr, columns: Mapping[str, str], type_of: TypeOf, rules: Mapping[type[exp.Expr], Rule]
) -> exp.Expr:
    if isinstance(node, exp.Column):
        return exp.column(exp.to_identifier(columns[node.name], quoted=True))
    for child in list(node.iter_expressions()):
        if not isinstance(child, exp.DataType):
            child.replace(_rewrite(child, columns, type_of, rules))
    rule = rules.get(type(node))
    if isinstance(node, exp.Anonymous):
        rule = CALLS[node.name.lower()]
    return node if rule is None else rule(node, type_of)


_sql = writer(DuckDB)  # of trees of our own, which it may change


def _call(name: str, *args: exp.Expr | str | int) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=[exp.convert(a) if isinstance(a, int) else a for a in args])


def _paren(node: exp.Expr) -> exp.Expr:
    return exp.Paren(this=node.copy())


def _nonzero(node: exp.Expr) -> exp.Expr:
    return exp.Nullif(this=node.copy(), expression=exp.Literal.number(0))


def _cast(node: exp.Expr, kind: str) -> exp.Expr:
    return exp.Cast(this=node, to=copied(_type(kind)))


@lru_cache(maxsize=64)
def _type(kind: str) -> exp.DataType:
    return exp.DataType.build(kind, dialect="duckdb")


def _when(condition: exp.Expr, then: exp.Expr, otherwise: exp.Expr | None) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=condition, true=then)], default=otherwise)


def _div(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return exp.Div(this=_paren(node.this), expression=_nonzero(node.expression), typed=False, safe=False)


def _int_div(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return _cast(exp.IntDiv(this=_paren(node.this), expression=_nonzero(node.expression)), "BIGINT")


def _mod(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return exp.Paren(this=exp.Mod(this=_paren(node.this), expression=_nonzero(node.expression)))


def _with_ints(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """Numbers in the text are integers of 32 bits; for DuckDB they are as narrow as what they are added to."""
    for side, other in (("this", node.expression), ("expression", node.this)):
        number = node.args[side].unnest()
        number = number.this if isinstance(number, exp.Neg) else number
        if isinstance(number, exp.Literal) and number.is_int and type_of(_sql(other.copy())) in _NARROW:
            kind = "INTEGER" if int(number.this) < 2**31 else "BIGINT"
            node.set(side, _cast(node.args[side].copy(), kind))
    return node


def _cast_as_spark(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    value, to = node.this, node.args["to"]
    kind = type_of(_sql(value.copy())) if to.this in NUMBERS else ""
    if kind.startswith("TIMESTAMP"):
        value = _call("EPOCH", value.copy())
        value = _call("FLOOR", value) if to.this in INTEGERS else value
    elif to.this in INTEGERS and kind.startswith(FRACTIONS):
        value = _call("TRUNC", value.copy())
    safe = isinstance(node, exp.TryCast) and bool(node.args.get("safe"))
    return (exp.TryCast if safe else exp.Cast)(this=value.copy(), to=to.copy())


def _positive_only(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    number = node.expression if isinstance(node, exp.Log) and node.expression else node.this
    return _when(exp.GT(this=_paren(number), expression=exp.Literal.number(0)), node.copy(), None)


def _nan_if(outside: Callable[[exp.Expr], exp.Expr]) -> Rule:
    def rule(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
        return _when(outside(node.this), _cast(exp.Literal.string("NaN"), "DOUBLE"), node.copy())

    return rule


def _negative(x: exp.Expr) -> exp.Expr:
    return exp.LT(this=_paren(x), expression=exp.Literal.number(0))


def _beyond_one(x: exp.Expr) -> exp.Expr:
    return exp.GT(this=_call("ABS", x.copy()), expression=exp.Literal.number(1))


def _as(kind: str) -> Rule:
    return lambda node, type_of: _cast(node.copy(), kind)


def _sunday_is_one(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return exp.Paren(this=exp.Add(this=node.copy(), expression=exp.Literal.number(1)))


def _floor_seconds(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return _cast(_call("FLOOR", _call("EPOCH", node.this.copy())), "BIGINT")


def _floor_millis(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """Milliseconds, downwards before 1970 too, in integers: a double can't hold all microseconds."""
    micros, thousand = _call("EPOCH_US", node.this.copy()), exp.Literal.number(1000)
    below = exp.Paren(this=exp.Mod(this=micros, expression=thousand))
    above = exp.Paren(this=exp.Mod(this=exp.Paren(this=exp.Add(this=below, expression=thousand)), expression=thousand))
    return exp.Paren(this=exp.IntDiv(this=exp.Paren(this=exp.Sub(this=micros, expression=above)), expression=thousand))


def _monday_is_zero(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    day = _call("ISODOW", _cast(node.expressions[0].copy(), "DATE"))
    return exp.Paren(this=exp.Sub(this=day, expression=exp.Literal.number(1)))


def _is_null(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return exp.Paren(this=exp.Is(this=_paren(node.expressions[0]), expression=exp.Null()))


def _is_not_null(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return exp.Paren(this=exp.Not(this=_is_null(node, type_of)))


def _from_epoch(per_second: int) -> Rule:
    def rule(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
        factor = exp.Literal.number(1_000_000 // per_second)
        micros = exp.Mul(this=_paren(node.expressions[0]), expression=factor)
        return _call("MAKE_TIMESTAMP", _cast(micros, "BIGINT"))

    return rule


def _same(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return node


RULES: Mapping[type[exp.Expr], Rule] = {
    exp.Div: _div,
    exp.IntDiv: _int_div,
    exp.Mod: _mod,
    exp.Cast: _cast_as_spark,
    exp.TryCast: _cast_as_spark,
    exp.Ln: _positive_only,
    exp.Log: _positive_only,
    exp.Sqrt: _nan_if(_negative),
    exp.Asin: _nan_if(_beyond_one),
    exp.Acos: _nan_if(_beyond_one),
    exp.Sign: _as("DOUBLE"),
    exp.DayOfWeek: _sunday_is_one,
    exp.UnixSeconds: _floor_seconds,
    exp.UnixMillis: _floor_millis,
    exp.TsOrDsAdd: _as("DATE"),
    exp.AddMonths: _as("DATE"),
}

NARROW_RULES: Mapping[type[exp.Expr], Rule] = {exp.Add: _with_ints, exp.Sub: _with_ints, exp.Mul: _with_ints}

CALLS: Mapping[str, Rule] = {
    "isnull": _is_null,
    "isnotnull": _is_not_null,
    "weekday": _monday_is_zero,
    "make_date": _same,
    "timestamp_seconds": _from_epoch(1),
    "timestamp_millis": _from_epoch(1_000),
    "timestamp_micros": _from_epoch(1_000_000),
}
