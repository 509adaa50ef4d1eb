"""A resolved expression to a Spark Column with the meaning that `plan.duckdb_sql` documents.

Columns are put together from functions of pyspark, never from SQL text. Every node has the type that the embedded
engine gives it, so that results have the same types on both, and integers overflow at the same place. What can't
be done with the same meaning raises `NoColumn` with the reason; the planner then takes another strategy.
Expects a session in ANSI mode (integers that overflow are errors) whose time zone is UTC.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from panes.connectors.spark_types import INSTANT, spark_type, storable
from panes.errors import QueryError
from panes.plan.expressions import Expression, Scope
from panes.plan.scalars import Scalars

if TYPE_CHECKING:
    from pyspark.sql import Column

Rule = Callable[["ColumnBuilder", Any], "Column"]
_MAX_DIGITS = 38


class NoColumn(QueryError):
    """An expression that no Spark Column has the meaning of."""


class ColumnBuilder:
    """Columns for expressions over `schema`; `find` gives the Column of a name of the schema."""

    def __init__(self, schema: pa.Schema, find: Callable[[str], Column]) -> None:
        self._scope = Scope(schema)
        self._find = find

    def column(self, expression: Expression) -> Column:
        """The Column of an expression, in the type that the embedded engine gives it."""
        return self.of(expression.tree)

    def of(self, node: exp.Expr) -> Column:
        """The Column of a node, in its type."""
        from panes.runners.spark.column_functions import CALLS, FUNCTIONS

        if isinstance(node, exp.Paren):
            return self.of(node.this)
        if isinstance(node, exp.Column):
            return self._find(node.name)
        rule = SYNTAX.get(type(node)) or FUNCTIONS.get(type(node))
        if isinstance(node, exp.Anonymous):
            rule = CALLS.get(node.name.lower())
        if rule is None:
            raise NoColumn(f"{node.sql(dialect='spark')} has no form in Spark that is known to be the same")
        return self.cast(rule(self, node), self.type(node))

    def type(self, node: exp.Expr) -> pa.DataType:
        """The type that the embedded engine gives a node."""
        expression = Expression.of(node.copy())
        return Scalars(self._scope, {"": expression}).types[""]

    def cast(self, column: Column, kind: pa.DataType) -> Column:
        return column if pa.types.is_null(kind) else column.cast(spark_type(storable(kind)))

    def as_type_of(self, node: exp.Expr, *parts: exp.Expr) -> list[Column]:
        """Parts of a node, cast to the node's own type."""
        kind = self.type(node)
        return [self.cast(self.of(part), kind) for part in parts]

    def text(self, node: exp.Expr) -> Column:
        """A value as text; only where both engines write it alike."""
        kind = self.type(node)
        if pa.types.is_floating(kind) or (pa.types.is_timestamp(kind) and kind.tz) or pa.types.is_nested(kind):
            raise NoColumn(f"{node.sql(dialect='spark')} is {kind}, which Spark writes as text in another way")
        return self.of(node).cast("string")

    def instant(self, node: exp.Expr) -> Column:
        """A time as a Spark timestamp with zone; the session's zone is UTC."""
        if not pa.types.is_temporal(self.type(node)):
            raise NoColumn(f"{node.sql(dialect='spark')} must be a time")
        return self.of(node).cast(INSTANT)


def literal_int(node: exp.Expr | None, what: str, least: int) -> int:
    """A whole number written in the expression; what it means below `least` differs between engines."""
    sign = 1
    while isinstance(node, exp.Paren | exp.Neg):
        sign = -sign if isinstance(node, exp.Neg) else sign
        node = node.this
    if isinstance(node, exp.Literal) and node.is_int and sign * int(node.this) >= least:
        return sign * int(node.this)
    raise NoColumn(f"{what} must be written as a number that is at least {least}")


def literal_text(node: exp.Expr | None, what: str) -> str:
    if isinstance(node, exp.Literal) and node.is_string:
        return str(node.this)
    raise NoColumn(f"{what} must be written as text")


def spark_function(name: str, *parts: str, cast: str | None = None) -> Rule:
    """A function of pyspark that means the same; `parts` are the arguments of the node in Spark's order."""

    def rule(b: ColumnBuilder, node: exp.Expr) -> Column:
        from pyspark.sql import functions as F

        columns = [b.of(node.args[part]) for part in parts or ("this",)]
        return getattr(F, name)(*(c if cast is None else c.cast(cast) for c in columns))

    return rule


def _literal(b: ColumnBuilder, node: exp.Literal) -> Column:
    from pyspark.sql import functions as F

    if node.is_string:
        return F.lit(str(node.this))
    if node.is_int:
        return F.lit(int(node.this))
    return F.lit(float(node.this)) if "e" in node.this.lower() else F.lit(Decimal(node.this))


def _boolean(b: ColumnBuilder, node: exp.Boolean) -> Column:
    from pyspark.sql import functions as F

    return F.lit(bool(node.this))


def _null(b: ColumnBuilder, node: exp.Null) -> Column:
    from pyspark.sql import functions as F

    return F.lit(None)


def _arithmetic(operate: Callable[[Column, Column], Column]) -> Rule:
    def rule(b: ColumnBuilder, node: exp.Binary) -> Column:
        for interval, other in ((node.expression, node.this), (node.this, node.expression)):
            if isinstance(interval.unnest(), exp.Interval):
                return _moved(b, node, other, interval.unnest())
        kind = b.type(node)
        if pa.types.is_decimal(kind):
            return operate(*_exact_decimals(b, node))
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise NoColumn(f"{node.sql(dialect='spark')} is {kind}, which Spark computes in another way")
        return operate(*b.as_type_of(node, node.this, node.expression))

    return rule


def _exact_decimals(b: ColumnBuilder, node: exp.Binary) -> list[Column]:
    """Both sides of an operation on decimals that Spark has digits enough for."""
    sides = [node.this, node.expression]
    kinds = [b.type(side) for side in sides]
    digits = [(k.precision - k.scale, k.scale) if pa.types.is_decimal(k) else (20, 0) for k in kinds]
    (whole, scale), (other_whole, other_scale) = digits
    needed = whole + other_whole + scale + other_scale + 1
    if not isinstance(node, exp.Mul):
        needed = max(whole, other_whole) + max(scale, other_scale) + 1
    if needed > _MAX_DIGITS:
        raise NoColumn(f"{node.sql(dialect='spark')} may need more than {_MAX_DIGITS} digits")
    return [b.of(side) for side in sides]


_SPANS: dict[str, dict[str, Any]] = {
    **{unit: {"secs": Decimal(1).scaleb(-power)} for unit, power in (("MICROSECOND", 6), ("MILLISECOND", 3))},
    "SECOND": {"secs": 1},
    "MINUTE": {"mins": 1},
    "HOUR": {"hours": 1},
    "DAY": {"days": 1},
    "WEEK": {"days": 7},
    "MONTH": {"months": 1},
    "QUARTER": {"months": 3},
    "YEAR": {"years": 1},
}


def _moved(b: ColumnBuilder, node: exp.Binary, time: exp.Expr, interval: exp.Interval) -> Column:
    """A time plus or minus an interval."""
    from pyspark.sql import functions as F

    unit = str(interval.args.get("unit") or "").upper().removesuffix("S")
    number = interval.this
    if unit not in _SPANS or not isinstance(number, exp.Literal) or not number.this.strip().lstrip("+-").isdigit():
        raise NoColumn(f"{interval.sql(dialect='spark')}: only a whole number of one unit is known to be the same")
    (part, per), *_ = _SPANS[unit].items()
    count = per * int(number.this)
    make = F.make_ym_interval if part in ("months", "years") else F.make_dt_interval
    span = make(**{part: F.lit(count)})
    moved = b.cast(b.of(time), b.type(node))
    return moved - span if isinstance(node, exp.Sub) else moved + span


def _divide(b: ColumnBuilder, node: exp.Div) -> Column:
    from pyspark.sql import functions as F

    over, by = (b.of(side).cast("double") for side in (node.this, node.expression))
    return F.when(by != F.lit(0.0), over / by)


def _int_divide(b: ColumnBuilder, node: exp.IntDiv) -> Column:
    from pyspark.sql import functions as F

    if not all(pa.types.is_integer(b.type(side)) for side in (node.this, node.expression)):
        raise NoColumn(f"{node.sql(dialect='spark')}: only integers are divided like this in Spark")
    over, by = (b.of(side).cast("bigint") for side in (node.this, node.expression))
    return F.when(by != F.lit(0), F.call_function("div", over, by))


def _remainder(b: ColumnBuilder, node: exp.Mod) -> Column:
    from pyspark.sql import functions as F

    kind = b.type(node)
    if pa.types.is_decimal(kind):
        over, by = _exact_decimals(b, node)
    else:
        over, by = b.as_type_of(node, node.this, node.expression)
    return F.when(by != F.lit(0), over % by)


def _negative(b: ColumnBuilder, node: exp.Neg) -> Column:
    (value,) = b.as_type_of(node, node.this)
    return -value


def _compare(operate: Callable[[Column, Column], Column]) -> Rule:
    def rule(b: ColumnBuilder, node: exp.Binary) -> Column:
        return operate(*_comparable(b, node.this, node.expression))

    return rule


def _comparable(b: ColumnBuilder, *nodes: exp.Expr) -> list[Column]:
    """Values of one kind. Text beside another type is read as that type, as both engines do."""
    kinds = [b.type(node) for node in nodes]
    texts = [pa.types.is_string(kind) for kind in kinds]
    others = [kind for kind, text in zip(kinds, texts) if not text]
    columns = [b.of(node) for node in nodes]
    if not others or not any(texts):
        return columns
    for node, text in zip(nodes, texts):
        if text and not isinstance(node.unnest(), exp.Literal):
            raise NoColumn(f"{node.sql(dialect='spark')} is text that is compared with {others[0]}: cast it")
    return [b.cast(column, others[0]) if text else column for column, text in zip(columns, texts)]


def _is(b: ColumnBuilder, node: exp.Is) -> Column:
    value, what = b.of(node.this), node.expression
    if isinstance(what, exp.Null):
        return value.isNull()
    if isinstance(what, exp.Boolean):
        return value.eqNullSafe(bool(what.this))
    raise NoColumn(f"{node.sql(dialect='spark')}: only IS NULL, IS TRUE and IS FALSE are known to be the same")


def _in(b: ColumnBuilder, node: exp.In) -> Column:
    value, *choices = _comparable(b, node.this, *node.expressions)
    return value.isin(*choices)


def _between(b: ColumnBuilder, node: exp.Between) -> Column:
    value, low, high = _comparable(b, node.this, node.args["low"], node.args["high"])
    return (value >= low) & (value <= high)


def _like(fold: bool) -> Rule:
    def rule(b: ColumnBuilder, node: exp.Binary) -> Column:
        pattern = literal_text(node.expression, "the pattern of LIKE")
        if "\\" in pattern:
            raise NoColumn(f"the pattern {pattern!r} has a backslash, which Spark reads as an escape")
        value = b.of(node.this)
        matches = value.ilike(pattern) if fold else value.like(pattern)
        return ~matches if node.args.get("negate") else matches

    return rule


def _escape(b: ColumnBuilder, node: exp.Escape) -> Column:
    from pyspark.sql import functions as F

    like, sign = node.this, literal_text(node.expression, "the sign after ESCAPE")
    if not isinstance(like, exp.Like):
        raise NoColumn(f"{node.sql(dialect='spark')}: ESCAPE is known to be the same with LIKE alone")
    pattern = literal_text(like.expression, "the pattern of LIKE")
    matches = F.like(b.of(like.this), F.lit(pattern), F.lit(sign))
    return ~matches if like.args.get("negate") else matches


def _case(b: ColumnBuilder, node: exp.Case) -> Column:
    from pyspark.sql import functions as F

    kind = b.type(node)
    chosen: Any = None
    for branch in node.args["ifs"]:
        condition = branch.this
        if node.this is not None:
            condition = exp.EQ(this=node.this.copy(), expression=condition.copy())
        value = b.cast(b.of(branch.args["true"]), kind)
        chosen = (F if chosen is None else chosen).when(b.of(condition), value)
    default = node.args.get("default")
    return chosen if default is None else chosen.otherwise(b.cast(b.of(default), kind))


def _if(b: ColumnBuilder, node: exp.If) -> Column:
    from pyspark.sql import functions as F

    kind = b.type(node)
    chosen = F.when(b.of(node.this), b.cast(b.of(node.args["true"]), kind))
    otherwise = node.args.get("false")
    return chosen if otherwise is None else chosen.otherwise(b.cast(b.of(otherwise), kind))


def _cast(b: ColumnBuilder, node: exp.Cast) -> Column:
    from pyspark.sql import functions as F

    given, wanted = b.type(node.this), b.type(node)
    safe = isinstance(node, exp.TryCast) and bool(node.args.get("safe"))
    if pa.types.is_string(wanted):
        return b.text(node.this)
    number = pa.types.is_integer(wanted) or pa.types.is_floating(wanted) or pa.types.is_decimal(wanted)
    if pa.types.is_timestamp(given) and number:
        instant = b.instant(node.this)
        if pa.types.is_integer(wanted):
            return F.unix_seconds(instant)
        if pa.types.is_decimal(wanted):
            raise NoColumn(f"{node.sql(dialect='spark')}: times are exact as decimals in one engine only")
        return F.unix_micros(instant).cast("double") / F.lit(1e6)
    if pa.types.is_string(given) and number and not isinstance(node.this.unnest(), exp.Literal):
        raise NoColumn(f"{node.sql(dialect='spark')}: Spark refuses other text than the embedded engine does")
    value = b.of(node.this)
    return value.try_cast(spark_type(storable(wanted))) if safe else value


def _dot(b: ColumnBuilder, node: exp.Dot) -> Column:
    return b.of(node.this).getField(node.expression.name)


def _element(b: ColumnBuilder, node: exp.Bracket) -> Column:
    (index,) = node.expressions
    given = b.type(node.this)
    if pa.types.is_struct(given):
        return b.of(node.this).getField(literal_text(index, "the name of a field"))
    if pa.types.is_map(given):
        return b.of(node.this)[b.cast(b.of(index), given.key_type)]
    return b.of(node.this)[b.of(index)]


def _joined(b: ColumnBuilder, node: exp.DPipe) -> Column:
    from pyspark.sql import functions as F

    return F.concat(b.text(node.this), b.text(node.expression))


def _bits(operate: Callable[[Column, Column], Column]) -> Rule:
    return lambda b, node: operate(*b.as_type_of(node, node.this, node.expression))


def _flipped(b: ColumnBuilder, node: exp.BitwiseNot) -> Column:
    from pyspark.sql import functions as F

    return F.bitwise_not(*b.as_type_of(node, node.this))


SYNTAX: dict[type[exp.Expr], Rule] = {
    exp.Literal: _literal,
    exp.Boolean: _boolean,
    exp.Null: _null,
    exp.Neg: _negative,
    exp.Not: lambda b, node: ~b.of(node.this),
    exp.And: lambda b, node: b.of(node.this) & b.of(node.expression),
    exp.Or: lambda b, node: b.of(node.this) | b.of(node.expression),
    exp.Add: _arithmetic(lambda x, y: x + y),
    exp.Sub: _arithmetic(lambda x, y: x - y),
    exp.Mul: _arithmetic(lambda x, y: x * y),
    exp.Div: _divide,
    exp.IntDiv: _int_divide,
    exp.Mod: _remainder,
    exp.EQ: _compare(lambda x, y: x == y),
    exp.NEQ: _compare(lambda x, y: x != y),
    exp.GT: _compare(lambda x, y: x > y),
    exp.GTE: _compare(lambda x, y: x >= y),
    exp.LT: _compare(lambda x, y: x < y),
    exp.LTE: _compare(lambda x, y: x <= y),
    exp.NullSafeEQ: _compare(lambda x, y: x.eqNullSafe(y)),
    exp.NullSafeNEQ: _compare(lambda x, y: ~x.eqNullSafe(y)),
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _between,
    exp.Like: _like(fold=False),
    exp.ILike: _like(fold=True),
    exp.Escape: _escape,
    exp.Case: _case,
    exp.If: _if,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Dot: _dot,
    exp.Bracket: _element,
    exp.DPipe: _joined,
    exp.BitwiseAnd: _bits(lambda x, y: x.bitwiseAND(y)),
    exp.BitwiseOr: _bits(lambda x, y: x.bitwiseOR(y)),
    exp.BitwiseXor: _bits(lambda x, y: x.bitwiseXOR(y)),
    exp.BitwiseNot: _flipped,
}
