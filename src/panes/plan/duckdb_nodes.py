"""Small trees for DuckDB, out of which the rules of `duckdb_sql` make larger ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from panes.errors import ExpressionError
from panes.plan.trees import copied
from panes.plan.writing import writer

#: the DuckDB type of an SQL fragment, as text
TypeOf = Callable[[str], str]
Rule = Callable[[exp.Expr, TypeOf], exp.Expr]

sql = writer(DuckDB)  # of trees of our own, which it may change


def written(text: str) -> exp.Expr:
    """A tree that is written as this SQL."""
    return exp.Var(this=text)


def call(name: str, *args: exp.Expr | str | int) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=[exp.convert(a) if isinstance(a, int) else a for a in args])


def paren(node: exp.Expr) -> exp.Expr:
    return exp.Paren(this=node.copy())


def nonzero(node: exp.Expr) -> exp.Expr:
    return exp.Nullif(this=node.copy(), expression=exp.Literal.number(0))


def cast(node: exp.Expr, kind: str) -> exp.Expr:
    return exp.Cast(this=node, to=copied(_type(kind)))


@lru_cache(maxsize=64)
def _type(kind: str) -> exp.DataType:
    return exp.DataType.build(kind, dialect="duckdb")


def when(condition: exp.Expr, then: exp.Expr, otherwise: exp.Expr | None) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=condition, true=then)], default=otherwise)


def whole_number(node: exp.Expr | None) -> int | None:
    """A whole number that is written in the expression; None: it is something else."""
    sign = 1
    while isinstance(node, exp.Paren | exp.Neg):
        sign = -sign if isinstance(node, exp.Neg) else sign
        node = node.this
    return sign * int(node.this) if isinstance(node, exp.Literal) and node.is_int else None


def text_of(node: exp.Expr | None, what: str) -> str:
    """Text that is written in the expression."""
    if isinstance(node, exp.Literal) and node.is_string:
        return str(node.this)
    raise ExpressionError(f"{what} must be written as text in the expression")


def is_text(kind: str) -> bool:
    return kind.startswith("VARCHAR") or kind in ("STRING_LITERAL", "CHAR")
