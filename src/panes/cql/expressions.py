"""Expressions of a select: checked against the allow-list, every column found, types known.

In: trees as parsed. Out: new trees whose columns have the streams' own names. Numbers with a point are
Doubles, as the language has no other fractions (SPEC Q-05); write CAST(1.5 AS DECIMAL(2, 1)) for exact ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NoReturn, Protocol

import pyarrow as pa
from sqlglot import exp

from panes.aggregates.registry import names as aggregate_names
from panes.cql.catalog import Problem
from panes.cql.errors import did_you_mean
from panes.cql.names import Names
from panes.cql.shifts import without_shifts
from panes.cql.timing import time_type
from panes.cql.types import Type, type_of
from panes.errors import PanesError
from panes.plan.aggregation import compile_aggregates, is_aggregate
from panes.plan.dialect import ALLOWED_NODES, PLAIN_CALLS, SCALAR_FUNCTIONS, PanesSQL
from panes.plan.expressions import Expression, Scope, column_node
from panes.plan.scalars import Scalars


class Fail(Protocol):
    """Raises a CqlError that underlines a tree, a name or a span."""

    def __call__(self, message: str, at: object, hint: str = "") -> NoReturn: ...


_AROUND_AGGREGATES = (exp.Star, exp.Distinct, exp.Filter, exp.Where, exp.IgnoreNulls, exp.Anonymous)
_PSEUDO_TYPES: Mapping[str, pa.DataType] = {
    "window": pa.string(),
    "window_start": pa.null(),  # that of the time, see `time_type`
    "window_end": pa.null(),
    "window_from": pa.int64(),
    "window_to": pa.int64(),
    "revision": pa.int32(),
    "void": pa.bool_(),
}


def text_of(tree: exp.Expr) -> str:
    """A resolved tree as the expression language of the Python API writes it."""
    return str(tree.sql(dialect=PanesSQL, comments=False))


def aggregates_in(tree: exp.Expr) -> list[exp.Expr]:
    """The outermost aggregate calls, each with its FILTER."""
    found: list[exp.Expr] = []

    def visit(node: exp.Expr) -> None:
        if _is_call(node):
            found.append(node)
            return
        for child in node.iter_expressions():
            visit(child)

    visit(tree)
    return found


def has_aggregates(tree: exp.Expr) -> bool:
    return any(isinstance(n, exp.Anonymous) and is_aggregate(n.name) for n in tree.walk())


def replace_nodes(tree: exp.Expr, change: Callable[[exp.Expr], exp.Expr | None]) -> exp.Expr:
    """A copy of a tree in which `change` has put others in the place of nodes; it sees parents first."""
    root = exp.Paren(this=tree.copy())

    def visit(node: exp.Expr) -> None:
        for child in list(node.iter_expressions()):
            made = change(child)
            if made is None:
                visit(child)
            else:
                child.replace(made)

    visit(root)
    return root.this


class Expressions:
    """Resolves the trees of one select."""

    def __init__(self, names: Names, fail: Fail) -> None:
        self.names = names
        self._fail = fail

    def row(self, tree: exp.Expr, where: str) -> exp.Expr:
        """An expression of one row; aggregates are refused."""
        for call in aggregates_in(tree):
            self._fail(
                f"{_name(call)} is an aggregate and can't be used in {where}", call, f"{where} sees one row at a time"
            )
        return self.resolve(tree)

    def resolve(self, tree: exp.Expr) -> exp.Expr:
        """An expression in which aggregates may stand."""
        tree = without_shifts(tree)
        self._check(tree)
        return replace_nodes(tree, self._replaced)

    def type(self, tree: exp.Expr, at: object) -> Type:
        """The type of a resolved tree."""
        if isinstance(tree, exp.Column):
            found = self.names.find_resolved(tree)
            if found is not None:
                return found.type
        flat = replace_nodes(tree, _flat)
        fields = {_flat_name(c): c for c in flat.find_all(exp.Column)}
        try:
            scope = self._scope()
            calls = aggregates_in(flat)
            if not calls:
                return type_of(_type_in(scope, flat))
            kinds = _aggregate_types(scope.schema, tuple(text_of(call) for call in calls))
            inner = iter(kinds)
            outer = replace_nodes(flat, lambda n: column_node(next(inner)) if _is_call(n) else None)
            known = {f.name: f.type for f in scope.schema if f.name in fields} | dict(kinds)
            return type_of(_type_in(Scope(pa.schema(list(known.items()))), outer))
        except PanesError as error:
            self._fail(str(error), at)

    def _scope(self) -> Scope:
        fields: dict[str, pa.DataType] = {}
        for one in self.names.inputs:
            for column in one.columns:
                name = f"{one.alias}.{column.name}" if self.names.joined else column.name
                fields[name] = column.type.arrow
        for name in self.names.using:
            joined = self.names.find(name).column
            assert joined is not None  # USING names columns of streams
            fields[name] = joined.type.arrow
        bound = time_type(self.names.inputs[0])
        for name, kind in _PSEUDO_TYPES.items():
            fields.setdefault(name, bound if name in ("window_start", "window_end") else kind)
        return Scope(pa.schema(list(fields.items())))

    def _replaced(self, node: exp.Expr) -> exp.Expr | None:
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Literal):
            return _double(node)
        if isinstance(node, exp.Cast):
            kind = node.args["to"]
            if isinstance(node.this, exp.Literal) and kind.is_type(exp.DataType.Type.DECIMAL):
                return node.copy()
        return None

    def _column(self, node: exp.Column) -> exp.Expr:
        parts = [part.name for part in node.parts]
        try:
            if len(parts) == 1:
                return self.names.node(self.names.find(parts[0]))
            if self._is_struct(parts[0]):
                tree: exp.Expr = self.names.node(self.names.find(parts[0]))
                rest = parts[1:]
            else:
                tree = self.names.node(self.names.find(parts[1], parts[0]))
                rest = parts[2:]
        except Problem as problem:
            self._fail(problem.short, node, problem.hint)
        for part in rest:
            tree = exp.Dot(this=tree, expression=exp.to_identifier(part, quoted=True))
        return tree

    def _is_struct(self, name: str) -> bool:
        """Whether the first part of `a.b` is a column with fields, and no stream."""
        wanted = name.lower()
        if wanted in {i.alias.lower() for i in self.names.inputs} | {s.lower() for s in self.names.streams}:
            return False
        columns = [c for i in self.names.inputs for c in i.columns if c.name.lower() == wanted]
        return bool(columns) and pa.types.is_struct(columns[0].type.arrow)

    def _check(self, tree: exp.Expr) -> None:
        """Refuse every function and syntax that is not on the list, by name."""
        for node in tree.walk():
            if isinstance(node, exp.Anonymous):
                self._check_call(node)
            elif isinstance(node, exp.Star):
                if not (isinstance(node.parent, exp.Anonymous) and node.parent.name.lower() == "count"):
                    self._fail("* stands for all columns of a SELECT, or in count(*)", node)
            elif type(node) not in ALLOWED_NODES and not isinstance(node, _AROUND_AGGREGATES):
                self._fail(f"{_words(node)} can't be used here", node)
            elif isinstance(node, exp.Binary) and not (node.args.get("this") and node.args.get("expression")):
                self._fail("this operator needs a value on both sides", node)
            elif isinstance(node, exp.In) and not node.expressions:
                self._fail("IN takes a list of values; a subquery can't be used here", node)

    def _check_call(self, node: exp.Anonymous) -> None:
        name = node.name.lower()
        if name in PLAIN_CALLS:
            fewest, most = PLAIN_CALLS[name]
            if not fewest <= len(node.expressions) <= most:
                self._fail(f"{name} takes {fewest} argument(s)", node)
        elif is_aggregate(name):
            inner = next((n for n in node.find_all(exp.Anonymous) if n is not node and is_aggregate(n.name)), None)
            if inner is not None:
                self._fail(f"{inner.name} is inside {name}: aggregates can't be nested; use a subquery", inner)
        else:
            hint = did_you_mean(name, {*aggregate_names(), *SCALAR_FUNCTIONS})
            self._fail(f"there is no function {node.name!r}", node, hint)


def _type_in(scope: Scope, tree: exp.Expr) -> pa.DataType:
    expression = Expression.of(tree)
    return Scalars(scope, {"it": expression}).types["it"]


@lru_cache(maxsize=4096)
def _aggregate_types(schema: pa.Schema, texts: tuple[str, ...]) -> Mapping[str, pa.DataType]:
    """The types of aggregates over rows of a schema, by names that no column has, in order."""
    longest = max(map(len, schema.names), default=0)
    named = {f"{'a' * (longest + 1)}{i}": text for i, text in enumerate(texts)}
    return dict(compile_aggregates(named, Scope(schema)).post.types)


def _flat(node: exp.Expr) -> exp.Expr | None:
    return column_node(_flat_name(node)) if isinstance(node, exp.Column) else None


def _flat_name(column: exp.Column) -> str:
    return ".".join(part.name for part in column.parts)


def _is_call(node: exp.Expr) -> bool:
    inner = node
    while isinstance(inner, exp.Filter | exp.IgnoreNulls):
        inner = inner.this
    return isinstance(inner, exp.Anonymous) and is_aggregate(inner.name)


def _name(call: exp.Expr) -> str:
    while isinstance(call, exp.Filter | exp.IgnoreNulls):
        call = call.this
    return str(call.name)


def _double(node: exp.Literal) -> exp.Expr:
    number = node.copy()
    if not node.is_string and "." in node.this and "e" not in node.this.lower():
        number.set("this", f"{node.this}E0")
    return number


def _words(node: exp.Expr) -> str:
    if isinstance(node, exp.Subquery | exp.Select | exp.Exists):
        return "a subquery in an expression"
    if isinstance(node, exp.Window):
        return "OVER (the windows in [brackets] take its place)"
    return f"{type(node).__name__} syntax"
