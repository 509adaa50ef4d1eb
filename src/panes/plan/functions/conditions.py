"""Conditions and choices: comparisons, logic, CASE, and functions that choose between values or ask for nulls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from panes.plan.functions.forms import (
    ANY_NUMBER,
    Function,
    NoColumn,
    SparkColumns,
    SparkForm,
    shown,
    takes,
)

if TYPE_CHECKING:
    from pyspark.sql import Column

_NUMBERS = ("float", "integer")
#: kinds whose values compare with each other, whatever they are
_ORDERED = ("text", "boolean", "temporal", "decimal", "binary")


def _compare(operate: Callable[[Column, Column], Column]) -> SparkForm:
    return lambda b, node: operate(*_comparable(b, node.this, node.expression))


def _comparable(b: SparkColumns, *nodes: exp.Expr) -> list[Column]:
    """Values of one kind. Text beside another type is read as that type, as both engines do."""
    kinds = [b.type(node) for node in nodes]
    texts = [pa.types.is_string(kind) for kind in kinds]
    others = [kind for kind, text in zip(kinds, texts) if not text]
    columns = [b.of(node) for node in nodes]
    if not others or not any(texts):
        return columns
    for node, text in zip(nodes, texts):
        if text and not isinstance(node.unnest(), exp.Literal):
            raise NoColumn(f"{shown(node)} is text that is compared with {others[0]}: cast it")
    return [b.cast(column, others[0]) if text else column for column, text in zip(columns, texts)]


def _if_comparable(kinds: Sequence[str]) -> str | None:
    left, right = kinds
    numbers = left in _NUMBERS and right in _NUMBERS
    return "boolean" if numbers or left == right in _ORDERED else None


def _if_conditions(kinds: Sequence[str]) -> str | None:
    return "boolean" if all(kind == "boolean" for kind in kinds) else None


def _if_null_is_asked_for(kinds: Sequence[str]) -> str | None:
    return "boolean" if kinds[-1] == "null" else None


def _comparison(sign: str, node: type[exp.Expr], operate: Callable[[Column, Column], Column]) -> Function:
    return Function({}, node, sign, spark=_compare(operate), never_fails=_if_comparable)


def _is(b: SparkColumns, node: exp.Expr) -> Column:
    value, what = b.of(node.this), node.expression
    if isinstance(what, exp.Null):
        return value.isNull()
    if isinstance(what, exp.Boolean):
        return value.eqNullSafe(bool(what.this))
    raise NoColumn(f"{shown(node)}: only IS NULL, IS TRUE and IS FALSE are known to be the same")


def _in(b: SparkColumns, node: exp.Expr) -> Column:
    value, *choices = _comparable(b, node.this, *node.expressions)
    return value.isin(*choices)


def _between(b: SparkColumns, node: exp.Expr) -> Column:
    value, low, high = _comparable(b, node.this, node.args["low"], node.args["high"])
    return (value >= low) & (value <= high)


def _case(b: SparkColumns, node: exp.Expr) -> Column:
    kind = b.type(node)
    chosen: Column | None = None
    for branch in node.args["ifs"]:
        condition = branch.this
        if node.this is not None:
            condition = exp.EQ(this=node.this.copy(), expression=condition.copy())
        value = b.cast(b.of(branch.args["true"]), kind)
        chosen = (b.F if chosen is None else chosen).when(b.of(condition), value)
    assert chosen is not None  # the grammar wants a WHEN
    default = node.args.get("default")
    return chosen if default is None else chosen.otherwise(b.cast(b.of(default), kind))


def _if(b: SparkColumns, node: exp.Expr) -> Column:
    kind = b.type(node)
    chosen = b.F.when(b.of(node.this), b.cast(b.of(node.args["true"]), kind))
    otherwise = node.args.get("false")
    return chosen if otherwise is None else chosen.otherwise(b.cast(b.of(otherwise), kind))


def _of_all(name: str) -> SparkForm:
    """A function of any number of arguments, all of the type of the result."""

    def form(b: SparkColumns, node: exp.Expr) -> Column:
        columns = b.as_type_of(node, node.this, *node.expressions)
        return columns[0] if len(columns) == 1 else b.call(name, *columns)

    return form


def _null_if(b: SparkColumns, node: exp.Expr) -> Column:
    same = b.of(exp.EQ(this=node.this.copy(), expression=node.expression.copy()))
    value = b.of(node.this)
    return b.F.when(b.F.coalesce(same, b.F.lit(False)), b.F.lit(None)).otherwise(value)


def _nvl2(b: SparkColumns, node: exp.Expr) -> Column:
    there, absent = b.as_type_of(node, node.args["true"], node.args["false"])
    return b.F.when(b.of(node.this).isNotNull(), there).otherwise(absent)


CONDITIONS = (
    _comparison("=", exp.EQ, lambda x, y: x == y),
    _comparison("<>", exp.NEQ, lambda x, y: x != y),
    _comparison(">", exp.GT, lambda x, y: x > y),
    _comparison(">=", exp.GTE, lambda x, y: x >= y),
    _comparison("<", exp.LT, lambda x, y: x < y),
    _comparison("<=", exp.LTE, lambda x, y: x <= y),
    Function({}, exp.NullSafeEQ, "<=>", spark=_compare(lambda x, y: x.eqNullSafe(y))),
    Function({}, exp.NullSafeNEQ, "IS DISTINCT FROM", spark=_compare(lambda x, y: ~x.eqNullSafe(y))),
    Function({}, exp.Is, "IS", spark=_is, never_fails=_if_null_is_asked_for),
    Function({}, exp.In, "IN", spark=_in),
    Function({}, exp.Between, "BETWEEN", spark=_between),
    Function(
        *({}, exp.And, "AND"), spark=lambda b, node: b.of(node.this) & b.of(node.expression), never_fails=_if_conditions
    ),
    Function(
        *({}, exp.Or, "OR"), spark=lambda b, node: b.of(node.this) | b.of(node.expression), never_fails=_if_conditions
    ),
    Function({}, exp.Not, "NOT", spark=lambda b, node: ~b.of(node.this), never_fails=_if_conditions),
    Function({}, exp.Case, spark=_case),
    Function(takes("if", 2, 3), exp.If, spark=_if),
    Function(takes("coalesce", 1, ANY_NUMBER) | takes("nvl ifnull", 2), exp.Coalesce, spark=_of_all("coalesce")),
    Function(takes("greatest", 2, ANY_NUMBER), exp.Greatest, spark=_of_all("greatest")),
    Function(takes("least", 2, ANY_NUMBER), exp.Least, spark=_of_all("least")),
    Function(takes("nullif", 2), exp.Nullif, spark=_null_if),
    Function(takes("nvl2", 3), exp.Nvl2, spark=_nvl2),
    Function(
        takes("isnull", 1), None, duckdb="(({0}) IS NULL)", spark=lambda b, node: b.of(node.expressions[0]).isNull()
    ),
    Function(
        takes("isnotnull", 1),
        None,
        duckdb="(NOT (({0}) IS NULL))",
        spark=lambda b, node: b.of(node.expressions[0]).isNotNull(),
    ),
)
