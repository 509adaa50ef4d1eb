"""The names that expressions over the rows of a window may use: columns of each side, and of the window itself.

A relation has one side; a join has several, each with an alias. Inside, a column of a join is named
`alias__column` (Spark would take a dot for a struct), whatever it is called in the text. Columns of windows
(`window_start`, ...) are meant by their bare name; a column of the rows with such a name needs the alias.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa
from sqlglot import exp

from panes.errors import ExpressionError
from panes.plan.aggregate_calls import is_aggregate_call
from panes.plan.expressions import Expression, Scope, column_node, columns_of, find_name, parse, start_of, text_of
from panes.plan.hints import did_you_mean, position
from panes.plan.query import StreamPlan
from panes.plan.scalars import Scalars
from panes.plan.steps import RESERVED
from panes.plan.trees import copied
from panes.plan.written import in_place_of, named

#: SQL text, or its tree
Given = str | exp.Expr


@dataclass(frozen=True)
class JoinSide:
    """The columns of one side that can be named, and those that `*` stands for; `alias` None: it has no name."""

    alias: str | None
    schema: pa.Schema
    shown: tuple[str, ...]

    @classmethod
    def of(cls, stream: StreamPlan, alias: str | None) -> JoinSide:
        names = stream.scope.names
        types = Scalars(stream.scope, {name: stream.scope.named(name) for name in names}).types
        return cls(alias, pa.schema([pa.field(name, types[name]) for name in names]), stream.columns)


def of_row(name: str) -> str:
    """The name inside of a column of a row that is called as one of windows is."""
    return inside("row", name)


def inside(alias: str | None, name: str) -> str:
    """The name of a column of a join inside."""
    return f"{alias}__{name}"


@dataclass(frozen=True)
class Names:
    """What names mean. `merged`: columns that several sides share (USING, keys), as one."""

    sides: tuple[JoinSide, ...]
    windows: pa.Schema
    merged: Mapping[str, exp.Expr] = field(default_factory=dict)

    def inner(self, side: int, name: str) -> str:
        """The name of a column inside."""
        if len(self.sides) > 1:
            return inside(self.sides[side].alias, name)
        return of_row(name) if name in RESERVED and name in self.windows.names else name

    @cached_property
    def side_schemas(self) -> tuple[pa.Schema, ...]:
        """The columns of each side, by their names inside."""
        sides = enumerate(self.sides)
        return tuple(pa.schema([pa.field(self.inner(s, f.name), f.type) for f in side.schema]) for s, side in sides)

    def _of_windows(self, name: str) -> str | None:
        """The column of windows that a bare name means: these come before columns of the rows."""
        bounds = [n for n in self.window_schema.names if n in RESERVED]
        return name if name in bounds else None if name in self.scope.names else find_name(name, bounds)

    @cached_property
    def window_schema(self) -> pa.Schema:
        """Columns of windows, without those that a column of the rows hides."""
        taken = {n for side in self.side_schemas for n in side.names}
        return pa.schema([f for f in self.windows if f.name not in taken])

    @cached_property
    def scope(self) -> Scope:
        return Scope(pa.schema([f for part in (*self.side_schemas, self.window_schema) for f in part]))

    def of_window(self, name: str | None) -> bool:
        """Whether all rows of a window have the same value in this column: its bounds, and its key."""
        hidden = name in RESERVED and name not in self.window_schema.names
        return name in self.windows.names and not hidden

    def merging(self, merged: Mapping[str, exp.Expr]) -> Names:
        return replace(self, merged={**self.merged, **merged})

    def resolve(self, given: Given) -> Expression:
        """A row expression, checked."""
        return self.scope.resolve(*self.tree(given))

    def knows(self, name: str) -> bool:
        """Whether a name without qualifier is that of a column."""
        columns = [n for side in self.sides for n in side.schema.names]
        return any(n.lower() == name.lower() for n in (*columns, *self.merged, *self.windows.names))

    def tree(self, given: Given) -> tuple[exp.Expr, str]:
        """A tree with names as they are inside, not checked otherwise, and the text that it came from."""
        tree, text = self.read(given)
        return self.inside(tree, text), text

    def read(self, given: Given) -> tuple[exp.Expr, str]:
        """A tree as it was written, and its text. Text that is exactly the name of a column is that column."""
        if isinstance(given, str):
            alone = len(self.sides) == 1 and given in self.scope.names
            return (column_node(given) if alone else parse(given)), given
        if isinstance(given, exp.Expr):
            return copied(given), text_of(given)
        raise ExpressionError(f"an expression must be SQL text; got {given!r}")

    def inside(self, tree: exp.Expr, text: str) -> exp.Expr:
        """The tree, which is used up, with names as they are inside."""
        root = exp.Paren(this=tree)
        for column in list(columns_of(root)):
            if not isinstance(column.this, exp.Star):
                column.replace(self._inside(column, text))
        found: exp.Expr = root.this
        return found

    def _inside(self, column: exp.Column, text: str) -> exp.Expr:
        """A column reference with its name inside; parts after the column go into its structs."""
        parts = [part.name for part in column.parts]
        window = self._of_windows(parts[0]) if len(parts) == 1 else None
        if window is not None and _is_aggregated(column):
            # what is aggregated are rows: a column of theirs is meant, if there is one
            window = None if any(find_name(parts[0], side.schema.names) for side in self.sides) else window
        if window is not None:
            return column_node(window)
        if len(parts) == 1 and parts[0] in self.scope.names and parts[0] not in RESERVED:
            return column
        side = self._side(parts[0]) if len(parts) > 1 else None
        if side is not None:
            name, rest = self._column(side, parts[1], column, text), parts[2:]
            found: exp.Expr = column_node(self.inner(side, name))
        elif len(self.sides) == 1:
            own = parts[0] in self.sides[0].schema.names
            made = column_node(self.inner(0, parts[0])) if own and len(parts) == 1 else None
            return column if made is None else in_place_of(made, column, named(parts[0]))
        else:
            found, rest = self._unqualified(parts[0], column, text), parts[1:]
        found = in_place_of(found, column, named(*parts[: len(parts) - len(rest)]))
        for part in rest:
            found = exp.Dot(this=found, expression=exp.to_identifier(part, quoted=True))
        return found

    def _unqualified(self, name: str, column: exp.Column, text: str) -> exp.Expr:
        merged = find_name(name, self.merged)
        if merged is not None:
            return self.merged[merged].copy()
        holders = [(s, found) for s, side in enumerate(self.sides) if (found := find_name(name, side.schema.names))]
        where = position(text, start_of(column))
        if len(holders) > 1:
            choices = " or ".join(f"{self.sides[s].alias}.{found}" for s, found in holders)
            raise ExpressionError(f"the column {name!r} is ambiguous {where}: write {choices}")
        if holders:
            return column_node(self.inner(*holders[0]))
        known = [n for side in self.sides for n in side.schema.names]
        raise ExpressionError(f"there is no column {name!r} {where}{did_you_mean(name, dict.fromkeys(known))}")

    def _side(self, alias: str) -> int | None:
        aliases = [side.alias.lower() if side.alias else None for side in self.sides]
        if alias.lower() in aliases:
            return aliases.index(alias.lower())
        if len(self.sides) > 1 and not any(find_name(alias, side.schema.names) for side in self.sides):
            known = [side.alias for side in self.sides if side.alias]
            raise ExpressionError(f"there is no stream {alias!r}{did_you_mean(alias, known)}")
        return None

    def _column(self, side: int, name: str, column: exp.Column, text: str) -> str:
        found = find_name(name, self.sides[side].schema.names)
        if found is None:
            alias, names = self.sides[side].alias, self.sides[side].schema.names
            raise ExpressionError(
                f"{alias} has no column {name!r}, {position(text, start_of(column))}{did_you_mean(name, names)}"
            )
        return found

    def star(self, alias: str | None = None) -> Iterator[tuple[str, Expression]]:
        """What `*` or `alias.*` stands for: names and columns. Names that two sides have get the alias before them."""
        chosen = range(len(self.sides)) if alias is None else [self._side(alias)]
        if None in chosen:
            raise ExpressionError(f"{alias}.*: there is no stream {alias!r}")
        counts: dict[str, int] = {}
        for side in self.sides:
            for name in side.shown:
                counts[name.lower()] = counts.get(name.lower(), 0) + 1
        if alias is None:
            for name, tree in self.merged.items():
                yield name, self.scope.resolve(tree.copy(), name)
        for s in chosen:
            assert s is not None
            for name in self.sides[s].shown:
                if alias is None and find_name(name, self.merged) is not None:
                    continue
                clash = alias is None and (counts[name.lower()] > 1 or (len(self.sides) > 1 and name in RESERVED))
                yield (f"{self.sides[s].alias}_{name}" if clash else name), self.scope.named(self.inner(s, name))

    def bare_name(self, column: exp.Column, text: str) -> str | None:
        """What a column, by its name inside, is called in its own side; None if it is a field of one."""
        known = len(column.parts) == 1 and column.name in self.scope.names
        name = column.name if known else self.scope.resolve(column.copy(), text).column
        for side, inside in zip(self.sides, self.side_schemas):
            if name in inside.names:
                return str(side.schema.names[inside.names.index(name)])
        return name


def _is_aggregated(column: exp.Expr) -> bool:
    node = column.parent
    while node is not None and not is_aggregate_call(node):
        node = node.parent
    return node is not None


class AsWritten(Names):
    """The same names, with trees left as they were written: for writing them again."""

    def inside(self, tree: exp.Expr, text: str) -> exp.Expr:
        return tree

    def bare_name(self, column: exp.Column, text: str) -> str | None:
        return column.name

    def star(self, alias: str | None = None) -> Iterator[tuple[str, Expression]]:
        for name, found in super().star(alias):
            yield name, replace(found, tree=self._outside(name, found.tree))

    def _outside(self, name: str, tree: exp.Expr) -> exp.Expr:
        if len(self.sides) > 1 and isinstance(tree, exp.Column):
            for s, side in enumerate(self.sides):
                own = next((own for own in side.schema.names if self.inner(s, own) == tree.name), None)
                if own is not None and own not in self.merged:
                    return exp.column(exp.to_identifier(own, quoted=True), table=side.alias)
        return column_node(name)
