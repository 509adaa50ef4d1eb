"""What is asked of the rows of each window, to a query plan: collected rows, and a `WindowRelation` over them.

Names and types are resolved here, once; only columns that something looks at are collected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa
from sqlglot import exp

from panes.aggregates.rows import CollectRows
from panes.errors import QueryError, WrongType
from panes.plan.aggregation import check_filter, compile_aggregates
from panes.plan.clauses import Entry, Reader, RelationClauses, Tree, several
from panes.plan.expressions import Expression, Scope
from panes.plan.grouped import GroupCompiler, GroupLayout, has_aggregate
from panes.plan.names import Given, JoinSide, Names, of_row
from panes.plan.query import QueryPlan, StreamPlan, plan_windows
from panes.plan.relation import ROWS, WindowRelation
from panes.plan.steps import RESERVED
from panes.plan.tagged import JoinedSide, Layout, Statement
from panes.plan.trees import bare, copied
from panes.plan.written import as_written
from panes.windows.base import Window

#: The column of a stream of several sides that says of which side a row is.
SIDE = "panes_side"
Ordering = Sequence[tuple[Expression, str]]


@dataclass(frozen=True)
class JoinClause:
    """How a stream is joined to those before it."""

    how: str = "inner"
    on: Given | None = None
    using: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.using:
            return f"{self.how} join using {', '.join(self.using)}"
        if self.on is None:
            return "all pairs"
        return f"{self.how} join on {self.on if isinstance(self.on, str) else as_written(self.on)}"


class JoinRule(Protocol):
    """How the sides of a relation are joined."""

    @property
    def clauses(self) -> tuple[JoinClause, ...]: ...

    def __call__(self, names: Names) -> tuple[Names, tuple[JoinedSide, ...]]:
        """Names with the merged columns of joins, and how each side after the first is joined."""


class _Alone:
    """One side: nothing is joined."""

    clauses: tuple[JoinClause, ...] = ()

    def __call__(self, names: Names) -> tuple[Names, tuple[JoinedSide, ...]]:
        return names, ()


@dataclass(frozen=True)
class WrittenRelation:
    """What a relation was made from: the clauses as they were given, what names mean in them, and the joins."""

    asked: RelationClauses
    names: Names
    clauses: tuple[JoinClause, ...]
    text: str

    def __str__(self) -> str:
        return self.text


def plan_relation(
    stream: StreamPlan, windows: Mapping[str, Window], asked: RelationClauses, *, alias: str | None, emit_empty: bool
) -> QueryPlan:
    """The rows of each window of a stream as a relation."""
    side = JoinSide.of(stream, alias)
    alike = {of_row(name): stream.scope.named(name) for name in side.schema.names if name in RESERVED}
    if alike:
        scope = stream.scope
        visible = None if scope.visible is None else (*scope.visible, *alike)
        stream = replace(stream, scope=replace(scope, derived={**scope.derived, **alike}, visible=visible))
    return plan_sides(stream, windows, asked, (side,), _Alone(), emit_empty=emit_empty)


def plan_sides(
    stream: StreamPlan,
    windows: Mapping[str, Window],
    asked: RelationClauses,
    sides: tuple[JoinSide, ...],
    joins: JoinRule,
    *,
    emit_empty: bool,
) -> QueryPlan:
    """The rows of one or several sides of each window, joined.

    With several sides, `stream` has the number of each row's side in SIDE, and columns named `alias__column`.
    """
    over = plan_windows(stream, windows, emit_empty=emit_empty)
    names, joined = joins(Names(sides, over.given.schema))
    told = "".join(f"{clause}; " for clause in joins.clauses)
    resolved = _Resolved(names, asked, joined)
    columns = [tuple(n for n in side.names if n in resolved.used) for side in names.side_schemas]
    if len(sides) == 1 and not columns[0]:
        columns = [(names.inner(0, stream.time),)]  # rows must be there to be counted
    collected = [*([SIDE] if len(sides) > 1 else []), *(n for side in columns for n in side)]
    plan = over.computing(compile_aggregates({ROWS: CollectRows(tuple(collected))}, stream.scope))
    schema = names.scope.schema
    fields = tuple(pa.schema([schema.field(n) for n in side]) for side in columns)
    layout = Layout(fields, names.window_schema, joined)
    statement, outputs = resolved.compile(layout, every_window=emit_empty)
    said = WrittenRelation(asked, names, joins.clauses, f"{told}{asked}")
    return plan.then(WindowRelation(plan.given, tuple(columns), statement, outputs, said))


class _Resolved:
    """Clauses with every name known; `compile` makes statements of them once it is known what is collected."""

    def __init__(self, names: Names, asked: RelationClauses, joins: tuple[JoinedSide, ...]) -> None:
        reader = Reader(names)
        self._names = names
        self._asked = asked
        self._joins = joins
        self._entries = reader.entries(asked.entries)
        self._where = None if asked.where is None else names.resolve(asked.where)
        self._order = [reader.order(item) for item in several(asked.order_by)]
        self._having = None if asked.having is None else reader.condition(asked.having)
        groups = [reader.condition(item) for item in several(asked.group_by)]
        trees = [*self._entries, *(t for t, _ in self._order), *([self._having] if self._having else [])]
        self._selected: dict[str, Expression] = {}
        self._ordered: list[tuple[Expression, str]] = []
        self._groups: GroupCompiler | None = None
        if groups or any(has_aggregate(t.tree) for t in trees):
            self._groups = GroupCompiler(names, [names.scope.resolve(copied(g.tree), g.text) for g in groups])
            read = self._split(self._groups)
        elif self._having is not None:
            raise QueryError("having needs group_by or an aggregate; a condition on single rows goes to where")
        else:
            read = self._resolve(names.scope)
        read += [] if self._where is None else [self._where]
        read += [join.on for join in joins if join.on is not None]
        self.used = frozenset(name for e in read for name in e.columns)

    def _resolve(self, scope: Scope) -> list[Expression]:
        """What is selected and ordered by, of rows or groups with these columns; returns all of it."""
        self._selected = {e.name: scope.resolve(copied(e.tree), e.text) for e in self._entries}
        self._ordered = [(scope.resolve(t.tree, t.text), direction) for t, direction in self._order]
        return [*self._selected.values(), *(e for e, _ in self._ordered)]

    def _split(self, groups: GroupCompiler) -> list[Expression]:
        """Trees over rows to trees over groups; returns what groups read of the rows."""
        self._entries = [Entry(groups.split(e.tree, e.text), e.text, e.name) for e in self._entries]
        self._order = [(Tree(groups.split(t.tree, t.text), t.text), direction) for t, direction in self._order]
        if self._having is not None:
            self._having = Tree(groups.split(self._having.tree, self._having.text), self._having.text)
        return [*groups.groups, *groups.inputs]

    def compile(self, rows: Layout, *, every_window: bool) -> tuple[Statement, tuple[str, ...]]:
        """The statement that gives the result, and the names of what it gives."""
        for join in self._joins:
            _check_condition(rows, join.on, "on")
        _check_condition(rows, self._where, "where")
        if self._groups is None:
            return self._statement(rows, self._where, ())
        for condition in self._groups.conditions:
            check_filter(condition, rows.compile(condition)[1])
        layout = GroupLayout(
            rows,
            self._groups.groups,
            self._groups.found,
            self._groups.inputs,
            self._names.windows,
            bind=self._groups.bind,
            where=self._where,
            every_window=every_window,
        )
        self._resolve(Scope(layout.schema))
        having = None
        if self._having is not None:
            having = Scope(layout.schema).resolve(self._having.tree, self._having.text)
            _check_condition(layout, having, "having")
        # pairs of a join come in no order of their own, so neither do groups: they go by their values
        by_value = range(len(self._groups.groups)) if len(rows.sides) > 1 and not self._asked.distinct else ()
        last = [(Scope(layout.schema).named(f"panes.g{i}"), "ASC NULLS FIRST") for i in by_value]
        return self._statement(layout, having, last)

    def _statement(self, layout: Layout, where: Expression | None, last: Ordering) -> tuple[Statement, tuple[str, ...]]:
        outputs = {e.name: self._selected[e.name] for e in self._entries if not self._given_anyway(e)}
        # what is the same for all rows of a window puts none before another
        order = [(e, direction) for e, direction in self._ordered if not self._names.of_window(e.column)]
        if self._asked.distinct:
            selected = {bare(e.tree): e for e in outputs.values()}
            odd = next((e.text for e, _ in order if bare(e.tree) not in selected), None)
            if odd is not None:
                raise QueryError(f"order_by: of distinct rows only selected columns are known; got {odd!r}")
            order = [(selected[bare(e.tree)], direction) for e, direction in order]
        statement = Statement(
            layout,
            list(outputs.values()),
            where=where,
            order=[*order, *last],
            limit=self._asked.limit,
            distinct=self._asked.distinct,
        )
        return statement, tuple(outputs)

    def _given_anyway(self, entry: Entry) -> bool:
        """Whether results have the entry whatever is selected: columns of the window, and keys."""
        if entry.name not in RESERVED and entry.name not in self._names.windows.names:
            return False
        tree = entry.tree.unnest()
        name = tree.name if isinstance(tree, exp.Column) else None
        if self._groups is not None and name is not None and name.startswith("panes.g"):
            name = self._groups.groups[int(name.removeprefix("panes.g"))].column
        if name != entry.name or not self._names.of_window(name):
            raise QueryError(f"relation: {entry.name!r} is a column of every result; choose another name")
        return True


def _check_condition(layout: Layout, condition: Expression | None, clause: str) -> None:
    if condition is not None and not pa.types.is_boolean(layout.compile(condition)[1]):
        kind = layout.compile(condition)[1]
        text = as_written(condition.tree)
        raise WrongType(f"{clause}={text!r} must be a condition, true or false for each row; it is ", kind)
