"""Expressions of a select: checked, every column found, types known, and what is wrong shown where it stands.

In: trees as parsed. Out: new trees whose columns have the names inside of `names`. Numbers with a point are
Doubles, as the language has no other fractions (SPEC Q-05); write CAST(1.5 AS DECIMAL(2, 1)) for exact ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NoReturn, Protocol

import pyarrow as pa
from sqlglot import exp

from panes.cql.arithmetic import without_shifts
from panes.cql.names import SelectNames
from panes.cql.types import CHAR, Type, type_of
from panes.errors import QueryError
from panes.plan.aggregate_calls import bare_call, is_aggregate_call
from panes.plan.aggregation import aggregate_types
from panes.plan.expressions import Expression, Scope, check_nodes, column_node, text_of
from panes.plan.scalars import Scalars
from panes.plan.trees import copied, rebuilt
from panes.plan.written import as_written, in_place_of, is_placed


class Fail(Protocol):
    """Raises a CqlError that underlines a tree, a name or a span; what is wrong is text, or an error found below."""

    def __call__(self, message: str | QueryError, at: object, hint: str = "") -> NoReturn: ...


def aggregates_in(tree: exp.Expr) -> list[exp.Expr]:
    """The outermost aggregate calls, each with its FILTER."""
    if is_aggregate_call(tree):
        return [tree]
    found: list[exp.Expr] = []
    for child in tree.iter_expressions():
        found += aggregates_in(child)
    return found


def has_aggregates(tree: exp.Expr) -> bool:
    return bool(aggregates_in(tree))


class ExpressionResolver:
    """Resolves the trees of one select."""

    def __init__(self, names: SelectNames, fail: Fail) -> None:
        self.names = names
        self._fail = fail
        #: types of aggregates, by text
        self._aggregates: dict[str, pa.DataType] = {}

    def row(self, tree: exp.Expr, where: str) -> exp.Expr:
        """An expression of one row; aggregates are refused."""
        for call in aggregates_in(tree):
            self._fail(
                f"{bare_call(call).name} is an aggregate and can't be used in {where}",
                call,
                f"{where} sees one row at a time",
            )
        return self.resolve(tree)

    def resolve(self, tree: exp.Expr) -> exp.Expr:
        """An expression in which aggregates may stand."""
        tree = without_shifts(tree)
        with self.shown(tree):
            check_nodes(tree, "", aggregates=True)
            return self.names.inside(rebuilt(tree, _value), "")

    @contextmanager
    def shown(self, at: object) -> Iterator[None]:
        """Show what is wrong with an expression where it stands; if that is not known, at a place given."""
        try:
            yield
        except QueryError as error:
            piece = getattr(error, "piece", None)
            self._fail(error, piece if is_placed(piece) else at)

    def type(self, tree: exp.Expr, at: object) -> Type:
        """The type of a resolved tree."""
        if isinstance(tree, exp.Column):
            return self.names.types[tree.name]
        if tree.meta_get("char"):
            return CHAR
        with self.shown(at):
            return type_of(self._arrow_type(tree))

    def prepare(self, trees: Iterable[exp.Expr]) -> None:
        """Find what `type` needs to know of several resolved trees, at once; it is `type` that says what is wrong."""
        rows: list[Expression] = []
        calls: dict[str, exp.Expr] = {}
        for tree in trees:
            found = aggregates_in(tree)
            calls |= {text_of(call): call for call in found}
            rows += [] if found else [Expression.of(tree)]
        try:
            types = aggregate_types(list(calls.values()), self.names.scope, also=rows)
        except QueryError:
            return
        self._aggregates |= dict(zip(calls, types, strict=True))

    def _arrow_type(self, tree: exp.Expr) -> pa.DataType:
        calls, scope = aggregates_in(tree), self.names.scope
        if not calls:
            return _type_in(scope, tree)
        types = [self._aggregate_type(call) for call in calls]
        if calls == [tree]:
            return types[0]
        longest = max(map(len, scope.names), default=0)
        given = {f"{'a' * (longest + 1)}{i}": kind for i, kind in enumerate(types)}
        names = iter(given)

        def stand_in(node: exp.Expr) -> exp.Expr | None:
            return in_place_of(column_node(next(names)), node, as_written(node)) if is_aggregate_call(node) else None

        outer = rebuilt(tree, stand_in)
        return _type_in(Scope(pa.schema([*scope.schema, *given.items()])), outer)

    def _aggregate_type(self, call: exp.Expr) -> pa.DataType:
        text = text_of(call)
        if text not in self._aggregates:
            (self._aggregates[text],) = aggregate_types([call], self.names.scope)
        return self._aggregates[text]


def _value(node: exp.Expr) -> exp.Expr | None:
    """Numbers with a point as Doubles, and casts to Char as the first character."""
    if isinstance(node, exp.Literal):
        return _double(node)
    if isinstance(node, exp.Cast):
        kind = node.args["to"]
        if kind.this == exp.DType.CHAR:
            return _first_character(node, rebuilt(node.this, _value))
        if isinstance(node.this, exp.Literal) and kind.is_type(exp.DataType.Type.DECIMAL):
            return copied(node)
    return None


def _type_in(scope: Scope, tree: exp.Expr) -> pa.DataType:
    expression = Expression.of(tree)
    return Scalars(scope, {expression.text: expression}).types[expression.text]


def _double(node: exp.Literal) -> exp.Expr:
    number = copied(node)
    if not node.is_string and "." in node.this and "e" not in node.this.lower():
        number.set("this", f"{node.this}E0")
        in_place_of(number, node, str(node.this))
    return number


def _first_character(cast: exp.Cast, value: exp.Expr) -> exp.Expr:
    """CAST(... AS CHAR), marked as one: a Char is text for engines, which would leave it as long as it is."""
    text = type(cast)(**{**cast.args, "this": value, "to": exp.DataType.build("STRING", dialect="spark")})
    made = exp.Left(this=text, expression=exp.Literal.number(1))
    made.meta["char"] = True
    return in_place_of(made, cast, as_written(cast))
