"""Whether an expression has a value for every row: one that can't fail may be computed later, with other rows.

Cautious: what is not known to be safe may fail. Arithmetic on floats is safe, arithmetic on integers may overflow,
and a cast may meet a value that it does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from sqlglot import exp

from panes.aggregates.types import kind_of
from panes.plan.expressions import Expression

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul)
_NUMBERS = ("float", "integer")
#: kinds whose values compare with each other, whatever they are
_ORDERED = ("text", "boolean", "temporal", "decimal", "binary")


def never_fail(expressions: Iterable[Expression], schema: pa.Schema) -> bool:
    """Whether all of them have a value for every row.

    >>> from panes.plan.expressions import Scope
    >>> scope = Scope(pa.schema({"price": pa.float64(), "qty": pa.int64(), "text": pa.string()}))
    >>> [never_fail([scope.scalar(t)], scope.schema) for t in ("price * qty", "qty * qty", "cast(text as int)")]
    [True, False, False]
    """
    return all(_kind(e.tree, schema) is not None for e in expressions)


def _kind(tree: exp.Expr, schema: pa.Schema) -> str | None:
    """What sort of value an expression has, for every row; None: it may fail, or nobody knows."""
    if isinstance(tree, exp.Column):
        return kind_of(schema.field(tree.name).type)
    if isinstance(tree, exp.Literal):
        return "text" if tree.is_string else "integer" if tree.is_int else "float"
    if isinstance(tree, exp.Boolean):
        return "boolean"
    if isinstance(tree, exp.Paren):
        return _kind(tree.this, schema)
    if isinstance(tree, exp.Neg):
        return "float" if _kind(tree.this, schema) == "float" else None
    if isinstance(tree, exp.Not):
        return "boolean" if _kind(tree.this, schema) == "boolean" else None
    if isinstance(tree, exp.Is):
        return "boolean" if isinstance(tree.expression, exp.Null) and _kind(tree.this, schema) else None
    if not isinstance(tree, (*_COMPARISONS, *_ARITHMETIC, exp.And, exp.Or)):
        return None
    left, right = _kind(tree.this, schema), _kind(tree.expression, schema)
    if left is None or right is None:
        return None
    if isinstance(tree, (exp.And, exp.Or)):
        return "boolean" if left == right == "boolean" else None
    numbers = left in _NUMBERS and right in _NUMBERS
    if isinstance(tree, _ARITHMETIC):
        return "float" if numbers and "float" in (left, right) else None
    return "boolean" if numbers or left == right in _ORDERED else None
