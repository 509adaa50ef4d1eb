"""A select over windows: keys before the windows, aggregates in them, then HAVING, ORDER BY and the columns.

What is not "aggregates per key" becomes a relation: the rows of each window themselves, groups inside of one window
(PARTITIONED BY), DISTINCT and LIMIT. In a join, every input is a stream under its alias, joined window by window
(SPEC Q-18).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from panes.api.stream import Query, Stream, WindowedStream
from panes.api.together import join_streams, merge
from panes.cql.catalog import (
    ResolvedInput,
    ResolvedJoin,
    ResolvedOrder,
    ResolvedOutput,
    ResolvedSelect,
    inputs_of,
    joins_of,
)
from panes.cql.dialect import expression_text
from panes.cql.expressions import aggregates_in, name_apart
from panes.cql.timing import is_of_windows, time_of
from panes.cql.tree import Name
from panes.cql.windows.clause import WindowClause
from panes.errors import QueryError
from panes.plan.clauses import RelationClauses
from panes.plan.expressions import column_node, text_of
from panes.plan.relation_query import JoinClause
from panes.plan.steps import RESERVED, WINDOW_COLUMNS
from panes.plan.trees import rebuilt

if TYPE_CHECKING:
    from panes.cql.compile import Built, Compiler


def compile_windowed(compiler: Compiler, query: ResolvedSelect) -> Built:
    source = query.source
    assert isinstance(source, ResolvedInput)
    alike = _by_predicate(source.windows)
    if len(alike) > 1:
        _refuse(clause.apart for clause in query.clauses)
        return _merged(compiler, query, source, alike)
    time = time_of(source)
    rows = compiler.stream(source, time)
    for condition in (query.where, source.windows[0].where):
        if condition is not None:
            rows = rows.where(text_of(condition))
    query, rows = _apart(query, rows)
    source = query.source
    assert isinstance(source, ResolvedInput)
    keys, rows = _keyed(rows, query, source)
    windows: dict[str, Any] = {
        w.label_text(i): w.evaluated(time, query.model, rows._plan.domain) for i, w in enumerate(source.windows)
    }
    windowed = rows.window(**windows)
    if query.aggregated and not query.distinct and query.limit is None and not _inside(query, source):
        return _aggregated(windowed, query, keys)
    _refuse(clause.refused_in_relation() for clause in query.clauses)
    return _relation(windowed, query)


def _refuse(reasons: Iterable[str]) -> None:
    for reason in filter(None, reasons):
        raise QueryError(reason)


def _apart(query: ResolvedSelect, rows: Stream) -> tuple[ResolvedSelect, Stream]:
    """The same over rows that have the names inside of columns that are called as columns of windows are."""
    source = query.source
    assert isinstance(source, ResolvedInput)
    names = [c.name for c in source.columns]
    others = {name: name_apart(name, names) for name in names if name.lower() in WINDOW_COLUMNS}
    if not others:
        return query, rows
    columns = tuple(replace(c, name=others.get(c.name, c.name)) for c in source.columns)
    made = replace(query, source=replace(source, columns=columns))
    return made, rows.with_columns(**{new: text_of(column_node(old)) for old, new in others.items()})


def _inside(query: ResolvedSelect, source: ResolvedInput) -> bool:
    """Whether PARTITIONED BY makes groups that are not windows of their own: not on time, where it is the same.

    DISTINCT and LIMIT are over all groups of a window, and models look at all of its rows.
    """
    whole = query.distinct or query.limit is not None or query.model in ("time", "batch")
    return bool(query.parts) and (whole or not all(w.same_for_parts for w in source.windows))


def _keyed(rows: Stream, query: ResolvedSelect, source: ResolvedInput) -> tuple[dict[str, str], Stream]:
    """The stream with windows kept apart by GROUP BY; what was written for a key -> the column that holds it."""
    keys: dict[str, str] = {}
    computed: dict[str, str] = {}
    for place, key in enumerate(query.keys):
        if isinstance(key.tree, exp.Column):
            keys[text_of(key.tree)] = key.tree.name
        else:
            name = _free(f"key_{place}", rows)
            computed[name] = text_of(key.tree)
            keys[text_of(key.tree)] = name
    if query.aggregated and not _inside(query, source):
        keys |= {text_of(part): part.name for part in query.parts}
    if computed:
        rows = rows.with_columns(**computed)
    chosen = list(dict.fromkeys(keys.values()))
    if rows._plan.time in chosen:
        # a key that is the time as well: its values are a column of their own
        copy = _free("key_time", rows)
        rows = rows.with_columns(**{copy: text_of(column_node(rows._plan.time))})
        keys = {k: copy if v == rows._plan.time else v for k, v in keys.items()}
        chosen = list(dict.fromkeys(keys.values()))
    return keys, rows.key_by(*chosen) if chosen else rows


def _free(name: str, rows: Stream) -> str:
    """A name that no column has."""
    while name in rows._plan.scope.names:
        name += "_"
    return name


def _aggregated(windowed: WindowedStream, query: ResolvedSelect, keys: dict[str, str]) -> Query:
    """Aggregates per key and window, then what is computed from them."""
    aggregates: dict[str, str] = {}
    names: dict[str, str] = {}

    def name_for(call: exp.Expr, wanted: str | None) -> str:
        text = text_of(call)
        if text not in names:
            taken = {*aggregates, *keys.values(), *RESERVED}
            name = wanted if wanted is not None and wanted not in taken else expression_text(call)
            while name in taken:
                name += "_"
            names[text] = name
            aggregates[name] = text
        return names[text]

    for output in query.outputs:  # single aggregates keep the name of their column
        if aggregates_in(output.tree) == [output.tree]:
            name_for(output.tree, output.name)

    def over_results(tree: exp.Expr) -> str:
        def change(node: exp.Expr) -> exp.Expr | None:
            text = text_of(node)
            if text in keys:
                return column_node(keys[text])
            if aggregates_in(node) == [node]:
                return column_node(name_for(node, None))
            return None

        return text_of(rebuilt(tree, change))

    outputs = {o.name: over_results(o.tree) for o in query.outputs}
    having = None if query.having is None else over_results(query.having)
    order = [_ordered_text(o, over_results(o.tree)) for o in query.order_by]
    made = windowed.agg(**(aggregates or {"count(*)": "count(*)"}))
    for clause in query.clauses:
        made = clause.applied(made)
    if having is not None:
        made = made.where(having)
    if order:
        made = made.order_by(*order)
    return made.select(**outputs)


def _ordered_text(order: ResolvedOrder, text: str) -> str:
    nulls = {None: "", True: " NULLS FIRST", False: " NULLS LAST"}[order.nulls_first]
    return f"{text} {'DESC' if order.descending else 'ASC'}{nulls}"


def _ordered(order: ResolvedOrder) -> exp.Ordered:
    """What a relation is ordered by; without a word on nulls they are the smallest values."""
    first = order.nulls_first if order.nulls_first is not None else not order.descending
    return exp.Ordered(this=order.tree, desc=order.descending, nulls_first=first)


def _group_trees(query: ResolvedSelect) -> list[exp.Expr]:
    """What the rows of a window are grouped by where it is a relation: GROUP BY and PARTITIONED BY."""
    if not query.aggregated:
        return []
    return list({text_of(tree): tree for tree in [*(k.tree for k in query.keys), *query.parts]}.values())


def _relation(windowed: WindowedStream, query: ResolvedSelect) -> Query:
    """The rows of each window as a relation."""
    keys = windowed._stream._plan.keys
    shown = _inner_names(query, keys)
    entries = _entries_of(query, shown)
    across: dict[str, ResolvedOrder] = {}
    if keys and query.aggregated and query.limit is None:
        # groups are ordered among those of other keys, too: by columns of their own, which nobody sees
        across = {f"panes_order_{place}": o for place, o in enumerate(query.order_by)}
    made = windowed.relation(
        {**entries, **{name: o.tree for name, o in across.items()}},
        group_by=_group_trees(query),
        having=query.having,
        order_by=[_ordered(o) for o in query.order_by],
        limit=query.limit,
        distinct=query.distinct,
    )
    if across:
        made = made.order_by(*(_ordered_text(o, name) for name, o in across.items()))
    return _only(made, shown)


def _inner_names(query: ResolvedSelect, keys: Sequence[str] = ()) -> dict[str, str]:
    """Column of the result -> its name in the relation: another one where that name means something else there."""
    inputs = inputs_of(query.source)
    own = {c.name for c in inputs[0].columns} if len(inputs) == 1 else set()  # those of joins have others inside

    def name(place: int, output: ResolvedOutput) -> str:
        itself = isinstance(output.tree, exp.Column) and output.tree.name == output.name
        if output.name in RESERVED:
            return output.name if itself and is_of_windows(output.tree) else f"out_{place}"
        return output.name if itself or output.name not in own.union(keys) else f"out_{place}"

    return {o.name: name(place, o) for place, o in enumerate(query.outputs)}


def _entries_of(query: ResolvedSelect, shown: dict[str, str]) -> dict[str, exp.Expr]:
    """What the relation computes: all but the columns that windows have anyway."""
    found = {shown[o.name]: o.tree for o in query.outputs if shown[o.name] not in RESERVED}
    return found or {"out": exp.Literal.number(1)}


def _only(made: Query, shown: dict[str, str]) -> Query:
    """The columns that were selected, and no others."""
    if all(name == inner for name, inner in shown.items()):
        return made.select(*shown)
    return made.select(**{name: text_of(column_node(inner)) for name, inner in shown.items()})


def _by_predicate(windows: Sequence[WindowClause]) -> list[tuple[WindowClause, ...]]:
    """Windows that see the same rows, together."""
    found: dict[str | None, list[WindowClause]] = {}
    for place, window in enumerate(windows):
        predicate = None if window.where is None else text_of(window.where)
        found.setdefault(predicate, []).append(replace(window, label=Name(window.label_text(place))))
    return [tuple(alike) for alike in found.values()]


def _merged(
    compiler: Compiler, query: ResolvedSelect, source: ResolvedInput, alike: Sequence[tuple[WindowClause, ...]]
) -> Stream:
    """Windows that see different rows: a query for those that see the same, and their results as one stream."""
    made = []
    for windows in alike:
        part = compile_windowed(compiler, replace(query, source=replace(source, windows=windows)))
        assert isinstance(part, Query)
        made.append(part.stream())
    return merge(*made)


def compile_join(compiler: Compiler, query: ResolvedSelect) -> Query:
    """A join of two or more streams; all have the same time-based window, which `resolve` has checked."""
    assert isinstance(query.source, ResolvedJoin)
    inputs = inputs_of(query.source)
    clauses = [JoinClause(join.kind, join.on, join.using) for join in joins_of(query.source)]
    first = inputs[0]
    (window,) = first.windows
    sides = [(i.alias, _side(compiler, i)) for i in inputs]
    made = window.evaluated(time_of(first), query.model, sides[0][1]._plan.domain)
    shown = _inner_names(query)
    asked = RelationClauses(
        entries=_entries_of(query, shown),
        where=query.where,
        group_by=_group_trees(query),
        having=query.having,
        order_by=[_ordered(o) for o in query.order_by],
        limit=query.limit,
        distinct=query.distinct,
    )
    return _only(join_streams(sides, clauses, {window.label_text(0): made}, asked), shown)


def _side(compiler: Compiler, source: ResolvedInput) -> Stream:
    made = compiler.stream(source, time_of(source))
    where = source.windows[0].where
    return made if where is None else made.where(text_of(where))
