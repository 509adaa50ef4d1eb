"""Joins: every input as a stream under its alias, joined window by window (SPEC Q-18)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from panes.api.stream import Query, Stream
from panes.api.together import join_streams
from panes.cql.compile_select import entries_of, group_trees, inner_names, only, ordered
from panes.cql.compile_windows import window_label, window_of
from panes.cql.names import Names
from panes.cql.resolved import Input, Joined, ResolvedSelect
from panes.cql.timing import time_of
from panes.plan.clauses import RelationClauses
from panes.plan.expressions import text_of
from panes.plan.relation_query import JoinClause

if TYPE_CHECKING:
    from panes.cql.compile import Compiler


def compile_join(compiler: Compiler, query: ResolvedSelect) -> Query:
    """A join of two or more streams; all have the same time-based window, which `resolve` has checked."""
    assert isinstance(query.source, Joined)
    inputs, clauses = _flat(query.source)
    first = inputs[0]
    (window,) = first.windows
    label = window_label(window, 0)
    sides = [(i.alias, _side(compiler, i)) for i in inputs]
    made = window_of(window, time_of(first), query.model, sides[0][1]._plan.domain)
    shown = inner_names(query)
    asked = RelationClauses(
        entries=entries_of(query, shown),
        where=query.where,
        group_by=group_trees(query, Names.of(query.source)),
        having=query.having,
        order_by=[ordered(o) for o in query.order_by],
        limit=query.limit,
        distinct=query.distinct,
    )
    return only(join_streams(sides, clauses, {label: made}, asked), shown)


def _side(compiler: Compiler, source: Input) -> Stream:
    made = compiler.stream(source, time_of(source))
    where = source.windows[0].where
    return made if where is None else made.where(text_of(where))


def _flat(source: Joined) -> tuple[list[Input], list[JoinClause]]:
    """Joins nest to the left: the inputs from left to right, and how each after the first is joined."""
    if isinstance(source.left, Joined):
        inputs, clauses = _flat(source.left)
    else:
        inputs, clauses = [source.left], []
    return [*inputs, source.right], [*clauses, JoinClause(source.kind, source.on, source.using)]
