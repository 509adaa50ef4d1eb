"""WITHIN GROUP (ORDER BY ...) behind a call, as calls without it: percentile_cont(0.9) of what is ordered by."""

from __future__ import annotations

from decimal import Decimal

from sqlglot import exp

from panes.aggregates.registry import SORTED_TEXT
from panes.errors import ExpressionError

_QUANTILES = ("percentile_cont", "percentile_disc")


def without_group(node: exp.WithinGroup, where: str) -> exp.Anonymous:
    """The same as a call whose arguments say it all; `where`: the place in the text, for messages."""
    call = node.this
    name = call.name.lower()
    keys = node.expression.expressions
    if len(keys) != 1:
        raise ExpressionError(f"{name}: WITHIN GROUP orders by one expression, not {len(keys)}, {where}")
    (key,) = keys
    by, descending = key.this, bool(key.args.get("desc"))
    if name in _QUANTILES:
        share = call.expressions
        if len(share) != 1:
            raise ExpressionError(f"{name} takes one number between 0 and 1 before WITHIN GROUP, {where}")
        if descending and name == "percentile_disc":
            raise ExpressionError(f"{name} counts from the smallest value: order by {by.sql()} without DESC, {where}")
        return _call(name, by, _other_end(share[0]) if descending else share[0])
    if name == "mode" and not call.expressions:
        return _call(name, by)
    if name in ("listagg", "string_agg") and call.expressions:
        return _text(name, call.expressions, by, key, where)
    raise ExpressionError(
        f"{name} can't have WITHIN GROUP, {where}; percentile_cont, percentile_disc, mode, listagg and string_agg can"
    )


def _text(name: str, arguments: list[exp.Expr], by: exp.Expr, key: exp.Ordered, where: str) -> exp.Anonymous:
    descending, nulls_first = bool(key.args.get("desc")), bool(key.args.get("nulls_first"))
    if isinstance(arguments[0], exp.Distinct):
        if arguments[0].expressions[0] != by or descending:
            raise ExpressionError(f"{name}(DISTINCT x) can be ordered by x itself only, without DESC, {where}")
        return _call(name, *arguments)
    value, *separator = arguments
    between = separator[0] if separator else exp.Literal.string("")
    return _call(SORTED_TEXT, value, by, between, exp.Boolean(this=descending), exp.Boolean(this=nulls_first))


def _other_end(share: exp.Expr) -> exp.Expr:
    """1 - p for the number p; anything else is refused later."""
    if isinstance(share, exp.Literal) and not share.is_string:
        return exp.Literal.number(str(1 - Decimal(share.this)))
    return share


def _call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=list(arguments))
