"""Expressions of a select: checked, every column found, types known, and what is wrong shown where it stands.

In: trees as parsed. Out: new trees whose columns have the names inside of `SelectNames`. Numbers with a point are
Doubles, as the language has no other fractions (SPEC Q-05); write CAST(1.5 AS DECIMAL(2, 1)) for exact ones.

What names mean is for `panes.plan.names` to say. A select with windows has the columns of these as well
(`window_start`, ...): by their bare name they are always meant, whatever columns are below. A column of an input that
has such a name is written with the input's alias, and has another name inside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NoReturn, Protocol

import pyarrow as pa
from sqlglot import exp

from panes.cql.arithmetic import without_shifts
from panes.cql.catalog import (
    ResolvedInput,
    ResolvedSelect,
    ResolvedSource,
    StreamColumn,
    column_named,
    inputs_of,
    joins_of,
)
from panes.cql.timing import time_type
from panes.cql.types import CHAR, Type, type_of
from panes.errors import ExpressionError, QueryError
from panes.plan.aggregate_calls import bare_call, is_aggregate_call
from panes.plan.aggregation import aggregate_types
from panes.plan.expressions import Expression, Scope, check_nodes, column_node, no_column, refusal, text_of
from panes.plan.hints import Hint, for_column, near
from panes.plan.names import JoinSide, Names, is_aggregated
from panes.plan.scalars import Scalars
from panes.plan.steps import WINDOW_COLUMNS
from panes.plan.trees import copied, rebuilt
from panes.plan.written import as_written, in_place_of, is_placed, named

_WHERE = ("is not known in WHERE, which comes before the windows", "a condition on results is HAVING")
_AGGREGATE = ("is one for all rows of a window, so it can't be aggregated", "select it beside the aggregate")
_PSEUDO_TYPES: Mapping[str, pa.DataType] = {
    "window": pa.string(),
    "window_from": pa.int64(),
    "window_to": pa.int64(),
    "revision": pa.int32(),
    "final": pa.bool_(),
    "void": pa.bool_(),
}


@dataclass(frozen=True)
class SelectNames(Names):
    """The columns that the expressions of one select may use. `merged` are those of USING, under their own name."""

    inputs: tuple[ResolvedInput, ...] = ()
    #: whether there are windows whose columns are not known yet: in the WHERE of a single stream
    before: bool = False
    #: columns that windows can have and these have not, with the reason
    absent: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, source: ResolvedSource, absent: Mapping[str, str] | None = None) -> SelectNames:
        inputs = inputs_of(source)
        windows: dict[str, pa.DataType] = {}
        if any(one.windows for one in inputs):
            bound = time_type(inputs[0])
            windows = {name: _PSEUDO_TYPES.get(name, bound) for name in sorted(WINDOW_COLUMNS.difference(absent or ()))}
        merged: dict[str, exp.Expr] = {name: column_node(name) for join in joins_of(source) for name in join.using}
        return cls(tuple(map(_side, inputs)), pa.schema(windows.items()), merged, inputs, absent=absent or {})

    @property
    def of_rows(self) -> SelectNames:
        """The same names where windows are still to come."""
        return replace(self, windows=pa.schema([]), before=True) if self.windowed else self

    @property
    def joined(self) -> bool:
        return len(self.inputs) > 1

    @property
    def windowed(self) -> bool:
        return bool(self.windows.names)

    def inner(self, side: int, name: str) -> str:
        if self.joined or not (self.windowed and name.lower() in WINDOW_COLUMNS):
            return super().inner(side, name)
        return name_apart(name, self.sides[0].schema.names)

    @cached_property
    def scope(self) -> Scope:
        return Scope(pa.schema([(name, kind.arrow) for name, kind in self.types.items()]))

    @cached_property
    def types(self) -> dict[str, Type]:
        """The types of all columns by their names inside."""
        found = {self.inner(s, c.name): c.type for s, one in enumerate(self.inputs) for c in one.columns}
        for name in self.merged:
            found[name] = next(c.type for i in self.inputs if (c := column_named(i.columns, name)) is not None)
        return found | {f.name: type_of(f.type) for f in self.windows}

    def _of_windows(self, name: str) -> str | None:
        return name.lower() if name.lower() in self.windows.names else None

    def is_inside(self, name: str) -> bool:
        return False

    def aggregates_rows(self, name: str) -> bool:
        return True

    @cached_property
    def _own(self) -> dict[str, tuple[int, str]]:
        return {self.inner(s, c.name): (s, c.name) for s, one in enumerate(self.inputs) for c in one.columns}

    def own_name(self, tree: exp.Expr) -> str | None:
        """The name of a column in its own stream, if a resolved tree is nothing but one."""
        return self._own.get(tree.name, (0, tree.name))[1] if isinstance(tree, exp.Column) else None

    def text(self, tree: exp.Expr) -> str:
        """A resolved tree as text, with columns by their own names, and aliases where they are needed."""

        def outside(node: exp.Expr) -> exp.Expr | None:
            if not isinstance(node, exp.Column) or node.name not in self._own:
                return None
            side, name = self._own[node.name]
            made = column_node(name)
            if name != node.name:
                made.set("table", exp.to_identifier(self.inputs[side].alias or "subquery"))
            return made

        return text_of(rebuilt(tree, outside))

    def column(self, side: int, name: str) -> exp.Column:
        """A resolved reference to a column of an input."""
        node = column_node(self.inner(side, name))
        in_place_of(node, node, named(name))
        return node

    def of_side(self, star: exp.Column) -> list[tuple[int, StreamColumn]]:
        """What `alias.*` stands for."""
        side = self.side(star.table, star)
        if side is None:
            raise self.unknown([star.table, "*"], star, "")
        return [(side, c) for c in self.inputs[side].columns]

    def all(self) -> list[tuple[int, StreamColumn]]:
        """What `*` stands for: the columns of all inputs in order, those of USING once."""
        used = {name.lower() for name in self.merged}
        return [(s, c) for s, i in enumerate(self.inputs) for c in i.columns if not (s and c.name.lower() in used)]

    def shown(self, side: int, column: StreamColumn) -> exp.Expr:
        """A column of an input as `*` shows it: of USING what either side has."""
        if column.name.lower() not in (name.lower() for name in self.merged):
            return self.column(side, column.name)
        if column.name.lower() not in WINDOW_COLUMNS:
            return column_node(column.name)
        sides = [(s, c) for s, i in enumerate(self.inputs) if (c := column_named(i.columns, column.name)) is not None]
        first, *others = [column_node(self.inner(s, c.name)) for s, c in sides]
        return exp.Coalesce(this=first, expressions=others)

    def unknown(self, parts: Sequence[str], column: exp.Column, text: str) -> ExpressionError:
        name = parts[0].lower()
        if len(parts) > 1:
            what = f"there is no stream or alias {parts[0]!r} in this FROM"
            return refusal(what, column, text, near(parts[0], self.aliases))
        if name in self.absent and not self.before:
            return refusal(f"the windows of this query have no {name}", column, text, Hint(self.absent[name]))
        if name in WINDOW_COLUMNS and (self.before or is_aggregated(column)):
            why, instead = _WHERE if self.before else _AGGREGATE
            return refusal(f"{name} {why}", column, text, Hint(instead))
        known = dict.fromkeys(c.name for one in self.inputs for c in one.columns)
        exposed = any(_hides(one, name) for one in self.inputs)
        below = Hint(f"a subquery shows only what it selects: add {parts[0]} to its SELECT")
        return no_column(parts[0], column, text, below if exposed else for_column(parts[0], known))


def name_apart(name: str, taken: Sequence[str]) -> str:
    """The name inside of a column of the rows that is called as one of windows is."""
    made = f"row_{name}"
    while made in taken:
        made += "_"
    return made


def _side(one: ResolvedInput) -> JoinSide:
    schema = pa.schema([(c.name, c.type.arrow) for c in one.columns])
    return JoinSide(one.alias or None, schema, tuple(schema.names), getattr(one.origin, "name", None))


def _hides(one: ResolvedInput, name: str) -> bool:
    """Whether a subquery reads a column and does not show it."""
    if not isinstance(one.origin, ResolvedSelect):
        return False
    return any(column_named(i.columns, name) is not None for i in inputs_of(one.origin.source))


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
