"""Relations and joins as clauses of a CQL select: what `plan/relation_query.py` was asked, written again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from panes.cql.tree import Name, OrderItem, Select, WindowClause
from panes.errors import QueryError
from panes.plan.clauses import several
from panes.plan.expressions import column_node, parse_order
from panes.plan.names import Names
from panes.plan.relation_query import Said
from panes.plan.trees import rebuilt

Trees = dict[str, exp.Expr]


@dataclass(frozen=True)
class Clauses:
    """The clauses of a relation in the names of its text; `entries` by the name of the column."""

    entries: Trees
    where: exp.Expr | None
    group_by: tuple[exp.Expr, ...]
    having: exp.Expr | None
    order_by: tuple[OrderItem, ...]
    limit: int | None
    distinct: bool


def clauses_of(said: Said) -> Clauses:
    names, asked = said.names, said.asked
    given = asked.entries
    items = given.items() if isinstance(given, Mapping) else [(None, e) for e in several(given)]
    entries = dict(pair for name, item in items for pair in _entry(names, name, item))

    def condition(tree: Any, *, entries_first: bool = False) -> exp.Expr:
        """Names mean columns, then entries; or the other way round."""

        def change(node: exp.Expr) -> exp.Expr | None:
            if not isinstance(node, exp.Column) or len(node.parts) != 1 or node.name not in entries:
                return None
            if not entries_first and names.knows(node.name):
                return None
            entry = entries[node.name]
            return entry.copy() if isinstance(entry, exp.Column) else exp.Paren(this=entry.copy())

        return rebuilt(names.read(tree)[0], change)

    def order(item: Any) -> OrderItem:
        if isinstance(item, exp.Ordered):
            tree, descending = item.this, bool(item.args.get("desc"))
            return OrderItem(condition(tree, entries_first=True), descending, bool(item.args.get("nulls_first")))
        tree, direction = (item, "ASC NULLS FIRST") if isinstance(item, exp.Expr) else parse_order(item)
        nulls_first = direction.endswith("FIRST")
        return OrderItem(condition(tree, entries_first=True), direction.startswith("DESC"), nulls_first)

    return Clauses(
        entries,
        None if asked.where is None else names.read(asked.where)[0],
        tuple(condition(item) for item in several(asked.group_by)),
        None if asked.having is None else condition(asked.having),
        tuple(order(item) for item in several(asked.order_by)),
        asked.limit,
        asked.distinct,
    )


def _entry(names: Names, name: str | None, given: Any) -> Iterator[tuple[str, exp.Expr]]:
    if isinstance(given, exp.Star) or (isinstance(given, str) and given.strip() == "*"):
        yield from ((n, _outside(names, n, e.tree)) for n, e in names.star())
        return
    if isinstance(given, exp.Alias):
        name, given = given.alias, given.this
    tree, text = names.read(given)
    if isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star):
        yield from ((n, _outside(names, n, e.tree)) for n, e in names.star(tree.table))
        return
    if name is None and isinstance(tree.unnest(), exp.Column):
        name = tree.unnest().name
    yield name or text, tree


def _outside(names: Names, name: str, tree: exp.Expr) -> exp.Expr:
    """A column that `*` stands for, as a text says it."""
    if len(names.sides) > 1 and isinstance(tree, exp.Column):
        for s, side in enumerate(names.sides):
            own = next((own for own in side.schema.names if names.inner(s, own) == tree.name), None)
            if own is not None and own not in names.merged:
                return exp.column(exp.to_identifier(own, quoted=True), table=side.alias)
    return column_node(name)


def with_relation(select: Select, said: Said, keys: tuple[str, ...]) -> tuple[Select, Trees]:
    """A select over windows with the clauses of a relation; and what its columns are."""
    made = clauses_of(said)
    joined = bool(said.clauses)
    if joined and keys:
        raise QueryError("to_cql(): CQL has no word for joins key by key; join by the key with using=")
    if not joined and made.where is not None:
        raise QueryError(
            "to_cql(): where= of a relation chooses among rows of a window; WHERE in CQL comes before windows"
        )
    if joined:
        select = replace(select, where=made.where, group_by=made.group_by)
    else:
        select = replace(select, source=_partitioned(select.source, made.group_by, keys))
    clauses = replace(select, having=made.having, order_by=made.order_by, limit=made.limit, distinct=made.distinct)
    return clauses, made.entries


def _partitioned(source: Any, groups: tuple[exp.Expr, ...], keys: tuple[str, ...]) -> Any:
    """Groups inside of windows, which CQL writes into their clauses."""
    parts = [tree.unnest() for tree in groups]
    odd = next((tree for tree in parts if not isinstance(tree, exp.Column)), None)
    if odd is not None:
        raise QueryError(f"to_cql(): PARTITIONED BY takes columns, and rows are grouped by {odd.sql()}")
    inner = tuple(Name(tree.name) for tree in parts if tree.name not in keys)
    windows: tuple[WindowClause, ...] = tuple(replace(w, partitioned=inner) for w in source.windows)
    return replace(source, windows=windows)
