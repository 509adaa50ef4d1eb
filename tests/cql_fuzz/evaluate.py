"""What a term is for one row, or over the rows of a window: SQL by plain Python, null is None.

A scope is a dict from names in lower case, plain and qualified ("t.price"), to values.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from tests.cql_fuzz.terms import Term
from tests.oracle.aggregates import OF_VALUES, order
from tests.oracle.aggregates import distinct as different

Scope = dict[str, Any]


def known_by(value: Any) -> str:
    """Values that are one for GROUP BY and DISTINCT have this in common: -0.0 is 0.0 there."""
    if isinstance(value, tuple):
        return ", ".join(map(known_by, value))
    return repr(value + 0.0 if isinstance(value, float) else value)


def value_of(term: Term, scope: Scope, rows: Sequence[Scope] | None = None) -> Any:
    """`rows`: what aggregates in the term are over, in event order."""
    name, args = term
    if name == "col":
        return scope[(f"{args[0]}." if args[0] else "").lower() + args[1].lower()]
    if name in ("int", "float", "str", "bool"):
        return args[0]
    if name == "null":
        return None
    if name == "agg":
        assert rows is not None, "an aggregate over no rows"
        return aggregate(*args, rows)
    if name in ("and", "or"):
        return _logic(name == "and", value_of(args[0], scope, rows), value_of(args[1], scope, rows))
    if name == "case":
        chosen = args[1] if value_of(args[0], scope, rows) is True else args[2]
        return value_of(chosen, scope, rows)
    if name in ("like", "rlike"):
        text = value_of(args[0], scope, rows)
        return None if text is None else bool(_PATTERNS[name](args[1], text))
    if name == "cast":
        inner = value_of(args[0], scope, rows)
        return None if inner is None else _CASTS[args[1]](inner)
    if name == "call":
        return _CALLS[args[0]](*(value_of(a, scope, rows) for a in args[1:]))
    values = [value_of(a, scope, rows) for a in args]
    if name == "is null":
        return values[0] is None
    if name == "in":
        return _in(*values)
    if name == "between":
        low = _compared(operator.ge, values[0], values[1])
        return _logic(True, low, _compared(operator.le, values[0], values[2]))
    if name in _COMPARISONS:
        return _compared(_COMPARISONS[name], *values)
    return None if None in values else _ARITHMETIC[name](*values)


def _of_row(scope: Scope) -> Scope:
    """A scope in which bare names are those of the row, though its window has some of them."""
    return {**scope, **{name.removeprefix("#row."): v for name, v in scope.items() if name.startswith("#row.")}}


def aggregate(name: str, distinct: str, value: Term | None, where: Term | None, rows: Sequence[Scope]) -> Any:
    rows = [_of_row(r) for r in rows]
    kept = [r for r in rows if where is None or value_of(where, r) is True]
    if value is None:
        return len(kept)
    values = [v for v in (value_of(value, r) for r in kept) if v is not None]
    if distinct and name == "count":
        return OF_VALUES["count_distinct"](values)
    return OF_VALUES[name](different(values) if distinct else values)


def _logic(both: bool, a: Any, b: Any) -> Any:
    """AND and OR of true, false and null."""
    if (not both) in (a, b):
        return not both
    return None if None in (a, b) else both


def _compared(compare: Callable[[Any, Any], bool], a: Any, b: Any) -> Any:
    return None if a is None or b is None else compare(order(a), order(b))


def _in(value: Any, *items: Any) -> Any:
    found = None if value is None else any(i is not None and order(i) == order(value) for i in items)
    return None if found is False and None in items else found


def _mod(a: Any, b: Any) -> Any:
    if b == 0:
        return None
    return math.fmod(a, b) if isinstance(a, float) or isinstance(b, float) else int(math.copysign(abs(a) % abs(b), a))


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda a, b: None if b == 0 else a / b,
    "%": _mod,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "neg": operator.neg,
    "not": operator.not_,
}
_PATTERNS: dict[str, Callable[[str, str], Any]] = {
    "like": lambda pattern, text: re.fullmatch(re.escape(pattern).replace("%", ".*").replace("_", "."), text, re.S),
    "rlike": re.search,
}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_CASTS: dict[str, Callable[[Any], Any]] = {
    "STRING": _text,
    "DOUBLE": float,
    "BIGINT": lambda v: int(v),
}


def _skipping(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values: None if None in values else function(*values)


def _of_known(choose: Callable[..., Any]) -> Callable[..., Any]:
    def call(*values: Any) -> Any:
        known = [v for v in values if v is not None]
        return choose(known, key=order) if known else None

    return call


_CALLS: dict[str, Callable[..., Any]] = {
    "coalesce": lambda *values: next((v for v in values if v is not None), None),
    "nullif": lambda a, b: None if _compared(operator.eq, a, b) is True else a,
    "greatest": _of_known(max),
    "least": _of_known(min),
    "upper": _skipping(str.upper),
    "lower": _skipping(str.lower),
    "length": _skipping(len),
    "concat": _skipping(lambda *values: "".join(values)),
    "abs": _skipping(abs),
}

EPOCH = datetime(1970, 1, 1)


def ticks_of(value: Any) -> Any:
    """A time as a whole number: dates and times in microseconds, numbers as they are."""
    if isinstance(value, datetime):
        gone = value - EPOCH
        return (gone.days * 86_400 + gone.seconds) * 1_000_000 + gone.microseconds
    return value
