"""The names that expressions over the rows of a window may use: columns of each side, and of the window itself.

A relation has one side; a join has several, each with an alias. Inside, a column of a join is named
`alias__column` (Spark would take a dot for a struct), whatever it is called in the text. Columns of windows
(`window_start`, ...) are meant by their bare name; a column of the rows with such a name needs the alias.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa
from sqlglot import exp

from panes.errors import ExpressionError
from panes.plan.aggregate_calls import is_aggregate_call
from panes.plan.expressions import (
    Expression,
    Scope,
    column_node,
    columns_of,
    find_name,
    no_column,
    parse,
    refusal,
    text_of,
)
from panes.plan.flow import Flow
from panes.plan.hints import Hint, for_column, near
from panes.plan.query import StreamPlan
from panes.plan.steps import RESERVED
from panes.plan.trees import copied, rebuilt
from panes.plan.written import in_place_of, named

#: SQL text, or its tree
Given = str | exp.Expr


@dataclass(frozen=True)
class JoinSide:
    """The columns of one side that can be named, and those that `*` stands for; `alias` None: it has no name."""

    alias: str | None
    schema: pa.Schema
    shown: tuple[str, ...]
    #: another name that it can be called by, where no alias is that
    called: str | None = None

    def find(self, name: str) -> str | None:
        """The column that a name means."""
        return find_name(name, self.schema.names)

    @cached_property
    def inside(self) -> pa.Schema:
        """The same columns by their names inside a join."""
        return pa.schema([pa.field(inside(self.alias, f.name), f.type) for f in self.schema])

    @classmethod
    def of(cls, stream: StreamPlan, alias: str | None) -> JoinSide:
        return cls(alias, Flow.of(stream, stream.scope.names).schema, stream.columns)


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
        if len(self.sides) > 1:
            return tuple([side.inside for side in self.sides])
        return (pa.schema([pa.field(self.inner(0, f.name), f.type) for f in self.sides[0].schema]),)

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
        if window is not None and not (self.aggregates_rows(parts[0]) and is_aggregated(column)):
            return in_place_of(column_node(window), column)
        if len(parts) == 1 and self.is_inside(parts[0]):
            return column
        side = self.side(parts[0], column) if len(parts) > 1 else None
        if side is None:
            found, rest = self._unqualified(parts, column, text), parts[1:]
        else:
            found, rest = column_node(self.inner(side, self._column(side, parts[1], column, text))), parts[2:]
        found = in_place_of(found, column, named(*parts[: len(parts) - len(rest)]))
        for part in rest:
            found = exp.Dot(this=found, expression=exp.to_identifier(part, quoted=True))
        return found

    def is_inside(self, name: str) -> bool:
        """Whether a name is one inside already."""
        return name in self.scope.names and name not in RESERVED

    def aggregates_rows(self, name: str) -> bool:
        """Whether a column of windows, in an aggregate, means one of the rows: these are what is aggregated."""
        return any(side.find(name) for side in self.sides)

    def _unqualified(self, parts: Sequence[str], column: exp.Column, text: str) -> exp.Expr:
        name = parts[0]
        merged = find_name(name, self.merged)
        if merged is not None:
            return copied(self.merged[merged])
        holders = [(s, found) for s, side in enumerate(self.sides) if (found := side.find(name))]
        if len(holders) > 1:
            choices = "write " + " or ".join(f"{self.sides[s].alias}.{found}" for s, found in holders)
            what = f"the column {name!r} is ambiguous"
            raise refusal(what, column, text, Hint(choices, f": {choices}"), then=" ")
        if not holders:
            raise self.unknown(parts, column, text)
        return column_node(self.inner(*holders[0]))

    def unknown(self, parts: Sequence[str], column: exp.Column, text: str) -> ExpressionError:
        """What to say of a name that no column has."""
        if len(self.sides) == 1:
            return no_column(".".join(parts), column, text, for_column(parts[0], self.scope.names))
        if len(parts) > 1:
            hint = near(parts[0], self.aliases)
            return ExpressionError(f"there is no stream {parts[0]!r}", piece=column, after=hint.python, hint=hint.cql)
        known = dict.fromkeys(n for side in self.sides for n in side.schema.names)
        return no_column(parts[0], column, text, near(parts[0], known))

    def side(self, alias: str, column: exp.Column) -> int | None:
        """The side that a qualifier means; None: it may be a column with fields."""
        for names in ([side.alias for side in self.sides], [side.called for side in self.sides]):
            found = [s for s, name in enumerate(names) if name is not None and name.lower() == alias.lower()]
            if len(found) > 1:
                what, rule = f"{alias!r} is ambiguous: it is read twice", "give each of them an alias"
                raise ExpressionError(what, piece=column, after=f"; {rule}", hint=rule)
            if found:
                return found[0]
        return None

    @property
    def aliases(self) -> list[str]:
        return [side.alias for side in self.sides if side.alias]

    def _column(self, side: int, name: str, column: exp.Column, text: str) -> str:
        found = self.sides[side].find(name)
        if found is None:
            what = f"{self.sides[side].alias or 'the subquery'} has no column {name!r}"
            raise refusal(what, column, text, near(name, self.sides[side].schema.names))
        return found

    def star(self, alias: str | None = None) -> Iterator[tuple[str, Expression]]:
        """What `*` or `alias.*` stands for: names and columns. Names that two sides have get the alias before them."""
        chosen = range(len(self.sides)) if alias is None else [self.side(alias, exp.column("*", table=alias))]
        if None in chosen:
            raise ExpressionError(f"{alias}.*: there is no stream {alias!r}{near(str(alias), self.aliases).python}")
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


def is_aggregated(column: exp.Expr) -> bool:
    node = column.parent
    while node is not None and not is_aggregate_call(node):
        node = node.parent
    return node is not None


class AsWritten(Names):
    """The same names, with trees left as they were written: for writing them again."""

    @classmethod
    def of(cls, names: Names) -> AsWritten:
        return cls(names.sides, names.windows, names.merged)

    def inside(self, tree: exp.Expr, text: str) -> exp.Expr:
        return rebuilt(tree, self._outside)

    def bare_name(self, column: exp.Column, text: str) -> str | None:
        return column.name

    def star(self, alias: str | None = None) -> Iterator[tuple[str, Expression]]:
        for name, found in super().star(alias):
            outside = None if alias is None and name in self.merged else self._outside(found.tree)
            yield name, replace(found, tree=outside or column_node(name))

    def _outside(self, tree: exp.Expr) -> exp.Expr | None:
        """A column of a join by its alias and its own name."""
        if len(self.sides) > 1 and isinstance(tree, exp.Column) and not tree.table:
            for s, side in enumerate(self.sides):
                own = next((own for own in side.schema.names if self.inner(s, own) == tree.name), None)
                if own is not None:
                    return exp.column(exp.to_identifier(own, quoted=True), table=side.alias)
        return None
