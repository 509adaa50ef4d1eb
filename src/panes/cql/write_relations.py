"""Relations and joins as clauses of a CQL select: what `plan/relation_query.py` was asked, written again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from panes.cql.names import PSEUDO_COLUMNS
from panes.cql.tree import Entry, Name, OrderItem, Select, WindowClause
from panes.errors import QueryError
from panes.plan.aggregation import is_aggregate_call
from panes.plan.clauses import Reader, Tree, several
from panes.plan.expressions import Scope, column_node
from panes.plan.names import AsWritten
from panes.plan.relation_query import WrittenRelation
from panes.plan.trees import copied, rebuilt

Trees = dict[str, exp.Expr]


def with_relation(select: Select, said: WrittenRelation, keys: tuple[str, ...]) -> tuple[Select, Trees]:
    """A select over windows with the clauses of a relation; and what its columns are."""
    asked, joined = said.asked, bool(said.clauses)
    reader = Reader(AsWritten(said.names.sides, said.names.windows, said.names.merged))
    entries = {entry.name: entry.tree for entry in reader.entries(asked.entries)}
    groups = tuple(reader.condition(item).tree for item in several(asked.group_by))
    if joined and keys:
        raise QueryError("to_cql(): CQL has no word for joins key by key; join by the key with using=")
    if not joined and asked.where is not None:
        raise QueryError(
            "to_cql(): where= of a relation chooses among rows of a window; WHERE in CQL comes before windows"
        )
    if joined:
        where = None if asked.where is None else said.names.read(asked.where)[0]
        select = replace(select, where=where, group_by=groups)
    else:
        select = replace(select, source=_partitioned(select.source, groups, keys))
    having = None if asked.having is None else reader.condition(asked.having).tree
    order = tuple(_item(*reader.order(item)) for item in several(asked.order_by))
    return replace(select, having=having, order_by=order, limit=asked.limit, distinct=asked.distinct), entries


def _item(what: Tree, direction: str) -> OrderItem:
    return OrderItem(what.tree, direction.startswith("DESC"), direction.endswith("FIRST"))


def _partitioned(source: Any, groups: tuple[exp.Expr, ...], keys: tuple[str, ...]) -> Any:
    """Groups inside of windows, which CQL writes into their clauses."""
    parts = [tree.unnest() for tree in groups]
    odd = next((tree for tree in parts if not isinstance(tree, exp.Column)), None)
    if odd is not None:
        raise QueryError(f"to_cql(): PARTITIONED BY takes columns, and rows are grouped by {odd.sql()}")
    inner = tuple(Name(tree.name) for tree in parts if tree.name not in keys)
    windows: tuple[WindowClause, ...] = tuple(replace(w, partitioned=inner) for w in source.windows)
    return replace(source, windows=windows)


def written_out(select: Select, scope: Scope, *, in_aggregates: bool) -> Select:
    """The same without columns that only the stream's own steps have made: what computes them takes their place.

    `in_aggregates`: in these, too; otherwise they are written so already.
    """
    source: Any = select.source
    known = source.alias or source.name

    def of_row(node: exp.Expr) -> exp.Expr | None:
        if isinstance(node, exp.Column) and node.name.lower() in PSEUDO_COLUMNS:
            return exp.column(exp.to_identifier(node.name, quoted=True), table=exp.to_identifier(str(known)))
        return None

    def change(node: exp.Expr) -> exp.Expr | None:
        if not in_aggregates and is_aggregate_call(node):
            return copied(node)
        if not isinstance(node, exp.Column) or node.table or node.name not in scope.derived:
            return None
        made = rebuilt(scope.derived[node.name].tree, of_row)
        return made if isinstance(made, exp.Column) else exp.Paren(this=made)

    def part(name: Name) -> Name:
        made = scope.derived[name.text].tree if name.text in scope.derived else column_node(name.text)
        if not isinstance(made, exp.Column):
            raise QueryError(f"to_cql(): PARTITIONED BY takes columns, and rows are grouped by {made.sql()}")
        return Name(made.name)

    if not scope.derived:
        return select
    windows = tuple(replace(w, partitioned=tuple(map(part, w.partitioned))) for w in source.windows)
    return replace(
        select,
        entries=tuple(_renamed(e, rebuilt(e.expression, change)) for e in select.entries),
        source=replace(source, windows=windows),
        group_by=tuple(rebuilt(tree, change) for tree in select.group_by),
        having=None if select.having is None else rebuilt(select.having, change),
        order_by=tuple(replace(item, expression=rebuilt(item.expression, change)) for item in select.order_by),
    )


def _renamed(entry: Entry, made: exp.Expr) -> Entry:
    """An entry that keeps the name of its column."""
    old = entry.expression
    name = entry.alias or (Name(old.name) if isinstance(old, exp.Column) and made != old else None)
    return Entry(made, name)
