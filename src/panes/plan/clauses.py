"""The clauses of a relation as users or CQL give them, to trees over the names inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from panes.aggregates.base import Aggregate
from panes.errors import ExpressionError, QueryError
from panes.plan.aggregate_calls import is_aggregate_call
from panes.plan.expressions import parse_order
from panes.plan.names import Given, Names
from panes.plan.written import as_written


@dataclass(frozen=True)
class RelationClauses:
    """The clauses of a relation as they were given: SQL text or trees."""

    entries: Given | Sequence[Given] | Mapping[str, Given] = "*"
    where: Given | None = None
    group_by: Given | Sequence[Given] = ()
    having: Given | None = None
    order_by: Given | Sequence[Given] = ()
    limit: int | None = None
    distinct: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.distinct, bool):
            raise QueryError(f"distinct must be True or False; got {self.distinct!r}")
        number = isinstance(self.limit, int) and not isinstance(self.limit, bool)
        if self.limit is not None and not (number and self.limit >= 0):
            raise QueryError(f"limit must be a whole number of rows per window; got {self.limit!r}")

    def __str__(self) -> str:
        parts = [_text(self.entries)]
        for word, given in (("where", self.where), ("group by", self.group_by), ("having", self.having)):
            parts += [f"{word} {_text(given)}"] if given is not None and several(given) else []
        parts += [f"order by {_text(self.order_by)}"] if several(self.order_by) else []
        parts += [] if self.limit is None else [f"limit {self.limit}"]
        return ("distinct " if self.distinct else "") + " ".join(parts)


@dataclass(frozen=True)
class Tree:
    """A tree over the names inside, not checked yet, and the text that it came from."""

    tree: exp.Expr
    text: str


@dataclass(frozen=True)
class Entry(Tree):
    """One column of the result."""

    name: str


class Reader:
    """Reads clauses; names of entries may be used in `group_by`, `having` and `order_by`."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._entries: dict[str, exp.Expr] = {}

    def entries(self, given: object) -> list[Entry]:
        """What is selected: one text or tree, several, or a mapping of names to them."""
        items = list(given.items()) if isinstance(given, Mapping) else [(None, e) for e in several(given)]
        entries = [entry for name, item in items for entry in self._entry(name, item)]
        if not entries:
            raise QueryError("relation: at least one column must be selected; '*' selects all")
        for entry in entries:
            if entry.name in self._entries:
                raise QueryError(
                    f"relation: two columns are named {entry.name!r}; give them names of their own, "
                    "for instance {'first': 'l.x', 'second': 'r.x'}"
                )
            self._entries[entry.name] = entry.tree
        return entries

    def _entry(self, name: str | None, given: Any) -> list[Entry]:
        if isinstance(given, Aggregate):
            raise QueryError(f"relation: write the aggregate {given!r} as SQL text")
        if isinstance(given, exp.Star) or (isinstance(given, str) and given.strip() == "*"):
            return [Entry(e.tree, n, n) for n, e in self._names.star()]
        if isinstance(given, exp.Alias):
            name, given = given.alias, given.this
        tree, text = self._names.tree(given)
        if isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star):
            return [Entry(e.tree, n, n) for n, e in self._names.star(tree.table)]
        bare = tree.unnest()
        if name is None and isinstance(bare, exp.Column):
            name = self._names.bare_name(bare, text)
        return [Entry(tree, text, name or text)]

    def condition(self, given: Given) -> Tree:
        """A condition or group expression: names mean columns, then entries."""
        return self._with_entries(given, entries_first=False)

    def order(self, given: Any) -> tuple[Tree, str]:
        """What to order by, and the direction in full: names mean entries, then columns."""
        if isinstance(given, exp.Ordered):
            nulls = "FIRST" if given.args.get("nulls_first") else "LAST"
            direction = f"{'DESC' if given.args.get('desc') else 'ASC'} NULLS {nulls}"
            given = given.this
        elif isinstance(given, exp.Expr):
            direction = "ASC NULLS FIRST"
        else:
            text, (given, direction) = given, parse_order(given)
            if text in self._entries:
                given, direction = exp.column(text, quoted=True), "ASC NULLS FIRST"
        found = self._with_entries(given, entries_first=True)
        if isinstance(found.tree.unnest(), exp.Literal):
            raise QueryError(f"order_by: {found.text} is the same for every row; give the name of a column")
        return found, direction

    def _with_entries(self, given: Given, *, entries_first: bool) -> Tree:
        tree, text = self._names.read(given)
        root = exp.Paren(this=tree)
        for column in _outside_aggregates(root):
            entry = self._named(column)
            if entry is not None and (entries_first or not self._names.knows(column.name)):
                column.replace(entry.copy() if isinstance(entry, exp.Column) else exp.Paren(this=entry.copy()))
        return Tree(self._names.inside(root.this, text), text)

    def _named(self, column: exp.Column) -> exp.Expr | None:
        if len(column.parts) != 1 or isinstance(column.this, exp.Star):
            return None
        if column.name in self._entries:
            return self._entries[column.name]
        alike = [tree for name, tree in self._entries.items() if name.lower() == column.name.lower()]
        if len(alike) > 1:
            raise ExpressionError(f"{column.name!r} is ambiguous: several columns are named so but for case")
        return alike[0] if alike else None


def several(given: Any) -> list[Any]:
    """One or several of something, as a list."""
    if isinstance(given, str | exp.Expr | Aggregate):
        return [given]
    return list(given)


def _outside_aggregates(node: exp.Expr) -> list[exp.Column]:
    found: list[exp.Column] = []
    for child in node.iter_expressions():
        if isinstance(child, exp.Column):
            found.append(child)
        elif not is_aggregate_call(child):
            found += _outside_aggregates(child)
    return found


def _text(given: object) -> str:
    if isinstance(given, Mapping):
        return ", ".join(f"{_text(e)} as {name}" for name, e in given.items())
    return ", ".join(e if isinstance(e, str) else as_written(e) for e in several(given))
