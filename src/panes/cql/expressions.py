"""Expressions of a select: checked against the allow-list, every column found, types known.

In: trees as parsed. Out: new trees whose columns have the streams' own names. Numbers with a point are
Doubles, as the language has no other fractions (SPEC Q-05); write CAST(1.5 AS DECIMAL(2, 1)) for exact ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import NoReturn, Protocol

import pyarrow as pa
from sqlglot import exp

from panes.aggregates.registry import names as aggregate_names
from panes.cql.arithmetic import without_shifts
from panes.cql.catalog import Problem
from panes.cql.errors import did_you_mean
from panes.cql.names import FoundColumn, SelectNames
from panes.cql.timing import time_type
from panes.cql.types import CHAR, Type, spoken, type_of
from panes.errors import PanesError, WrongType
from panes.plan.aggregate_calls import is_aggregate
from panes.plan.aggregation import aggregate_types
from panes.plan.expressions import Expression, Scope, column_node, text_of
from panes.plan.functions import ALLOWED_NODES, PLAIN_CALLS, SCALAR_FUNCTIONS, call_problem
from panes.plan.hints import FOREIGN_FUNCTIONS
from panes.plan.names import inside
from panes.plan.scalars import Scalars
from panes.plan.trees import copied, rebuilt
from panes.plan.written import as_written, in_place_of, is_placed, named


class Fail(Protocol):
    """Raises a CqlError that underlines a tree, a name or a span."""

    def __call__(self, message: str, at: object, hint: str = "") -> NoReturn: ...


_AROUND_AGGREGATES = (
    *(exp.Star, exp.Distinct, exp.Filter, exp.Where, exp.IgnoreNulls, exp.Anonymous),
    *(exp.WithinGroup, exp.Order, exp.Ordered),
)
_PSEUDO_TYPES: Mapping[str, pa.DataType] = {
    "window": pa.string(),
    "window_start": pa.null(),  # that of the time, see `time_type`
    "window_end": pa.null(),
    "window_from": pa.int64(),
    "window_to": pa.int64(),
    "revision": pa.int32(),
    "final": pa.bool_(),
    "void": pa.bool_(),
}


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
                f"{_bare(call).name} is an aggregate and can't be used in {where}",
                call,
                f"{where} sees one row at a time",
            )
        return self.resolve(tree)

    def resolve(self, tree: exp.Expr) -> exp.Expr:
        """An expression in which aggregates may stand."""
        tree = without_shifts(tree)
        self._check(tree)
        return rebuilt(tree, self._replaced)

    def type(self, tree: exp.Expr, at: object) -> Type:
        """The type of a resolved tree."""
        if isinstance(tree, exp.Column):
            found = self.names.find_resolved(tree)
            if found is not None:
                return found.type
        if tree.meta_get("char"):
            return CHAR
        try:
            return type_of(self._arrow_type(self._flat(tree)))
        except WrongType as error:
            self._fail(spoken(error), error.piece if is_placed(error.piece) else at)
        except PanesError as error:
            self._fail(str(error), at)

    def prepare(self, trees: Iterable[exp.Expr]) -> None:
        """Find what `type` needs to know of several resolved trees, at once; it is `type` that says what is wrong."""
        rows: list[Expression] = []
        calls: dict[str, exp.Expr] = {}
        for tree in map(self._flat, trees):
            found = aggregates_in(tree)
            calls |= {text_of(call): call for call in found}
            rows += [] if found else [Expression.of(tree)]
        try:
            types = aggregate_types(list(calls.values()), self.scope, also=rows)
        except PanesError:
            return
        self._aggregates |= dict(zip(calls, types, strict=True))

    def _arrow_type(self, tree: exp.Expr) -> pa.DataType:
        calls = aggregates_in(tree)
        if not calls:
            return _type_in(self.scope, tree)
        types = [self._aggregate_type(call) for call in calls]
        if calls == [tree]:
            return types[0]
        longest = max(map(len, self.scope.schema.names), default=0)
        given = {f"{'a' * (longest + 1)}{i}": kind for i, kind in enumerate(types)}
        names = iter(given)

        def stand_in(node: exp.Expr) -> exp.Expr | None:
            return in_place_of(column_node(next(names)), node, as_written(node)) if _is_call(node) else None

        outer = rebuilt(tree, stand_in)
        for column in outer.find_all(exp.Column):
            if column.name not in given:
                given[column.name] = self.scope.schema.field(column.name).type
        return _type_in(Scope(pa.schema(list(given.items()))), outer)

    def _aggregate_type(self, call: exp.Expr) -> pa.DataType:
        text = text_of(call)
        if text not in self._aggregates:
            (self._aggregates[text],) = aggregate_types([call], self.scope)
        return self._aggregates[text]

    def _flat(self, tree: exp.Expr) -> exp.Expr:
        """The tree with columns named as in `scope`."""
        return rebuilt(tree, _flat) if self.names.joined or self.names.windowed else tree

    @cached_property
    def scope(self) -> Scope:
        """All columns that expressions may use; those of a join with the alias before them."""
        fields: dict[str, pa.DataType] = {}
        for one in self.names.inputs:
            for column in one.columns:
                node = self.names.node(FoundColumn(column.name, column, one))
                alone = column.name if not self.names.joined else inside(one.alias, column.name)
                fields[_flat_name(node) if node.table else alone] = column.type.arrow
        for name in self.names.using:
            joined = self.names.find_column(name).column
            assert joined is not None  # USING names columns of streams
            fields[name] = joined.type.arrow
        if self.names.windowed:
            bound = time_type(self.names.inputs[0])
            for name, kind in _PSEUDO_TYPES.items():
                fields[name] = bound if name in ("window_start", "window_end") else kind
        return Scope(pa.schema(list(fields.items())))

    def _replaced(self, node: exp.Expr) -> exp.Expr | None:
        if isinstance(node, exp.Column):
            return self._column(node, self.names)
        if _is_call(node) and self.names.windowed:
            # what is aggregated are rows, which have no columns of windows
            return rebuilt(node, self._replaced_in_call)
        return self._replaced_value(node)

    def _replaced_in_call(self, node: exp.Expr) -> exp.Expr | None:
        if isinstance(node, exp.Column):
            return self._column(node, self.names.in_aggregates)
        return self._replaced_value(node)

    def _replaced_value(self, node: exp.Expr) -> exp.Expr | None:
        if isinstance(node, exp.Literal):
            return _double(node)
        if isinstance(node, exp.Cast):
            kind = node.args["to"]
            if kind.this == exp.DType.CHAR:
                return _first_character(node, rebuilt(node.this, self._replaced))
            if isinstance(node.this, exp.Literal) and kind.is_type(exp.DataType.Type.DECIMAL):
                return copied(node)
        return None

    def _column(self, node: exp.Column, names: SelectNames) -> exp.Expr:
        parts = [part.name for part in node.parts]
        try:
            if len(parts) == 1:
                return in_place_of(self.names.node(names.find(parts[0])), node, named(*parts))
            if self._is_struct(parts[0]):
                tree: exp.Expr = self.names.node(names.find(parts[0]))
                rest = parts[1:]
            else:
                tree = self.names.node(names.find(parts[1], parts[0]))
                rest = parts[2:]
        except Problem as problem:
            self._fail(problem.short, node, problem.hint)
        tree = in_place_of(tree, node, named(*parts[: len(parts) - len(rest)]))
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
                self._fail(f"{type(node).__name__} syntax can't be used here", node)
            elif isinstance(node, exp.Binary) and not (node.args.get("this") and node.args.get("expression")):
                self._fail("this operator needs a value on both sides", node)
            elif isinstance(node, exp.In) and not node.expressions:
                self._fail("IN takes a list of values; a subquery can't be used here", node)
            elif (problem := call_problem(node)) is not None:
                self._fail(problem, node)

    def _check_call(self, node: exp.Anonymous) -> None:
        name = node.name.lower()
        if is_aggregate(name):
            inner = next((n for n in node.find_all(exp.Anonymous) if n is not node and is_aggregate(n.name)), None)
            if inner is not None:
                self._fail(f"{inner.name} is inside {name}: aggregates can't be nested; use a subquery", inner)
        elif name not in PLAIN_CALLS and not _is_list_of_options(node):
            known = {*aggregate_names(), *SCALAR_FUNCTIONS}
            hint = FOREIGN_FUNCTIONS[name].cql if name in FOREIGN_FUNCTIONS else did_you_mean(name, known)
            self._fail(f"there is no function {node.name!r}", node, hint)


def _is_list_of_options(node: exp.Anonymous) -> bool:
    """Whether a call is the list in percentile(v, array(0.1, 0.9)): numbers that an aggregate is told."""
    caller = node.parent
    of_aggregate = isinstance(caller, exp.Anonymous) and is_aggregate(caller.name)
    return of_aggregate and node.name.lower() == "array" and all(isinstance(e, exp.Literal) for e in node.expressions)


def _type_in(scope: Scope, tree: exp.Expr) -> pa.DataType:
    expression = Expression.of(tree)
    return Scalars(scope, {expression.text: expression}).types[expression.text]


def _flat(node: exp.Expr) -> exp.Expr | None:
    return in_place_of(column_node(_flat_name(node)), node) if isinstance(node, exp.Column) else None


def _flat_name(column: exp.Column) -> str:
    *before, name = (part.name for part in column.parts)
    return inside(before[0], name) if before else name


def _is_call(node: exp.Expr) -> bool:
    inner = _bare(node)
    return isinstance(inner, exp.Anonymous) and is_aggregate(inner.name)


def _bare(call: exp.Expr) -> exp.Expr:
    """A call without FILTER, WITHIN GROUP and IGNORE NULLS around it."""
    while isinstance(call, exp.Filter | exp.IgnoreNulls | exp.WithinGroup):
        call = call.this
    return call


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
