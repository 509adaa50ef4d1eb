"""Relations and joins as clauses of a CQL select: what `plan/relation_query.py` was asked, written again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from panes.cql.tree import Name, OrderItem, Select, WindowClause
from panes.errors import QueryError
from panes.plan.clauses import Reader, Tree, several
from panes.plan.names import AsWritten
from panes.plan.relation_query import Said

Trees = dict[str, exp.Expr]


def with_relation(select: Select, said: Said, keys: tuple[str, ...]) -> tuple[Select, Trees]:
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
