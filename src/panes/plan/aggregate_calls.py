"""Calls of aggregates in trees: which nodes they are, and what they are told.

count(DISTINCT x), first(x) IGNORE NULLS, sum(x) FILTER (WHERE y), percentile_cont(0.9) WITHIN GROUP (ORDER BY x).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from decimal import Decimal
from typing import Protocol, TypeAlias

from sqlglot import exp

from panes.aggregates.registry import SORTED_TEXT
from panes.aggregates.registry import names as aggregate_names
from panes.errors import ExpressionError
from panes.plan.functions import count_problem
from panes.plan.functions.forms import ANY_NUMBER
from panes.plan.hints import Hint

_AGGREGATES = frozenset(aggregate_names())
_SKIP_NULLS = ("first", "last", "first_value", "last_value", "any_value")
_WITH_GROUPS = "percentile_cont, percentile_disc, mode, listagg and string_agg can"
_QUANTILES = ("percentile_cont", "percentile_disc")


class Refuse(Protocol):
    """An error that says what is wrong with a call, where it is, and what would be right."""

    def __call__(self, what: str, hint: Hint = ..., /) -> ExpressionError: ...


def is_aggregate(name: str) -> bool:
    return name.lower() in _AGGREGATES


#: An option of an aggregate; a list may hold expressions, which are no constants.
Constant: TypeAlias = "bool | int | float | str | list[Constant | None]"


def is_aggregate_call(node: exp.Expr) -> bool:
    inner = bare_call(node)
    return isinstance(inner, exp.Anonymous) and is_aggregate(inner.name)


def bare_call(node: exp.Expr) -> exp.Expr:
    """A call without FILTER, WITHIN GROUP and IGNORE NULLS around it; aggregates skip nulls anyway."""
    call: exp.Expr = node.this if isinstance(node, exp.Filter) else node
    return call.this if isinstance(call, exp.IgnoreNulls | exp.WithinGroup) else call


def is_list_of_options(node: exp.Anonymous) -> bool:
    """Whether a call is the list in percentile(v, array(0.1, 0.9)): numbers that an aggregate is told."""
    caller = node.parent
    of_aggregate = isinstance(caller, exp.Anonymous) and is_aggregate(caller.name)
    return of_aggregate and node.name.lower() == "array" and all(isinstance(e, exp.Literal) for e in node.expressions)


def options_of(arguments: list[exp.Expr], inputs_first: int | None) -> tuple[list[exp.Expr], list[Constant]]:
    """Arguments that are expressions of the row, so many at first (None: all), and constants after them."""
    if inputs_first is None:
        return arguments, []
    inputs, options = arguments[:inputs_first], list[Constant]()
    for argument in arguments[inputs_first:]:
        constant = _constant(argument)
        if constant is None:
            inputs.append(argument)
        else:
            options.append(constant)
    return inputs, options


def _constant(node: exp.Expr) -> Constant | None:
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Literal):
        return str(node.this) if node.is_string else _number(node)
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return -_number(node.this)
    if isinstance(node, exp.Array) or (isinstance(node, exp.Anonymous) and node.name.lower() == "array"):
        return [_constant(e) for e in node.expressions]
    return None


def _number(literal: exp.Literal) -> int | float:
    return int(literal.this) if literal.is_int else float(literal.this)


def arguments_of(call: exp.Anonymous, refuse: Refuse) -> tuple[str, list[exp.Expr], bool]:
    """The name of the aggregate and its arguments, without * and Spark's flags; and whether DISTINCT is said."""
    name, arguments = call.name.lower(), list(call.expressions)
    if name == "count" and len(arguments) == 1 and isinstance(arguments[0], exp.Star):
        return name, [], False
    if not arguments:
        raise refuse(f"{name} needs an argument")
    distinct = isinstance(arguments[0], exp.Distinct)
    if distinct:
        arguments = [*arguments[0].expressions, *arguments[1:]]
        if any(isinstance(argument, exp.Star) for argument in arguments):
            raise refuse(f"{name}(DISTINCT *) is not there: name the columns")
        if name == "count" and len(arguments) == 1:
            return "count_distinct", arguments, False
    if name in _SKIP_NULLS and len(arguments) == 2:
        if not (isinstance(arguments[1], exp.Boolean) and arguments[1].this):
            raise refuse(f"{name} always skips nulls, so its second argument can only be true")
        arguments = arguments[:1]
    if name == "mode" and len(arguments) == 2 and isinstance(arguments[1], exp.Boolean):
        arguments = arguments[:1]  # of several that are most frequent it is always the smallest
    return name, arguments, distinct


def made_problem(name: str, count: int, make: Callable[..., object]) -> str | None:
    """What is wrong with making an aggregate of that many arguments: "sum takes 1 argument, not 2"."""
    given = inspect.signature(make).parameters.values()
    places = [p for p in given if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    most = ANY_NUMBER if any(p.kind is p.VAR_POSITIONAL for p in given) else len(places)
    return count_problem(name, count, sum(p.default is p.empty for p in places), most)


def by_the_name(name: str, message: str) -> str:
    """A message that begins with one of the names of an aggregate, with the one that it was called by."""
    own = message.partition(":")[0].partition("(")[0]
    return f"{name}{message.removeprefix(own)}" if is_aggregate(own) else message


def without_group(node: exp.WithinGroup, refuse: Refuse) -> exp.Anonymous:
    """A call with WITHIN GROUP as one whose arguments say it all."""
    call = node.this
    name = call.name.lower()
    keys = node.expression.expressions
    if len(keys) != 1:
        raise refuse(f"{name}: WITHIN GROUP orders by one expression, not {len(keys)}")
    (key,) = keys
    by, descending = key.this, bool(key.args.get("desc"))
    if name in _QUANTILES:
        share = call.expressions
        if len(share) != 1:
            raise refuse(f"{name} takes one number between 0 and 1 before WITHIN GROUP")
        if descending and name == "percentile_disc":
            raise refuse(f"{name} counts from the smallest value: order by {by.sql()} without DESC")
        return _call(name, by, _other_end(share[0]) if descending else share[0])
    if name == "mode" and not call.expressions:
        return _call(name, by)
    if name in ("listagg", "string_agg") and call.expressions:
        return _text(name, call.expressions, by, key, refuse)
    raise refuse(f"{name} can't have WITHIN GROUP", Hint(_WITH_GROUPS, f"; {_WITH_GROUPS}"))


def _text(name: str, arguments: list[exp.Expr], by: exp.Expr, key: exp.Ordered, refuse: Refuse) -> exp.Anonymous:
    descending, nulls_first = bool(key.args.get("desc")), bool(key.args.get("nulls_first"))
    if isinstance(arguments[0], exp.Distinct):
        if arguments[0].expressions[0] != by or descending:
            raise refuse(f"{name}(DISTINCT x) can be ordered by x itself only, without DESC")
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
