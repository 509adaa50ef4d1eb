"""Which column a name means: by stream name or alias, without case, in exactly one of the inputs.

A select with windows has the columns of these as well (`window_start`, ...): by their bare name they are always
meant, whatever columns are below. A column of an input that has such a name is written with the input's alias.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from panes.cql.catalog import (
    Problem,
    ResolvedInput,
    ResolvedJoin,
    ResolvedSelect,
    ResolvedSource,
    StreamColumn,
    column_named,
)
from panes.cql.errors import did_you_mean
from panes.plan.expressions import column_node
from panes.plan.hints import BARE, FOREIGN_FUNCTIONS
from panes.plan.steps import FINAL, RESERVED

#: Columns that the windows of a query have.
PSEUDO_COLUMNS = frozenset({*RESERVED, FINAL})


_WHERE = ("is not known in WHERE, which comes before the windows", "a condition on results is HAVING")
_AGGREGATE = ("is one for all rows of a window, so it can't be aggregated", "select it beside the aggregate")
#: How resolved trees qualify columns of a query without an alias, where they must.
NAMELESS = "subquery"


def is_of_windows(node: exp.Expr) -> bool:
    """Whether a resolved tree, in a select with windows, is a column of these."""
    return isinstance(node, exp.Column) and not node.table and node.name.lower() in PSEUDO_COLUMNS


@dataclass(frozen=True)
class FoundColumn:
    """What a reference means; `input` is None for the columns that windows have."""

    name: str
    column: StreamColumn | None = None
    input: ResolvedInput | None = None


@dataclass(frozen=True)
class SelectNames:
    """The columns that the expressions of one select may use."""

    inputs: tuple[ResolvedInput, ...]
    #: stream names by which an input can be called besides its alias
    streams: tuple[str, ...]
    windowed: bool
    #: columns of windows are not known here: why, and what to write
    before: tuple[str, str] | None = None
    using: tuple[str, ...] = ()
    #: columns that windows can have and these have not, with the reason
    absent: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, source: ResolvedSource) -> SelectNames:
        inputs, using = _inputs(source)
        streams = tuple(getattr(i.origin, "name", "") for i in inputs)
        return cls(inputs, streams, any(i.windows for i in inputs), using=using)

    @property
    def of_rows(self) -> SelectNames:
        """The same names where windows are still to come: in the WHERE of a single stream."""
        return replace(self, windowed=False, before=_WHERE if self.windowed else None)

    @property
    def in_aggregates(self) -> SelectNames:
        """The same names inside of aggregates, which are over rows."""
        return replace(self, windowed=False, before=_AGGREGATE)

    @property
    def joined(self) -> bool:
        return len(self.inputs) > 1

    def all(self) -> list[tuple[ResolvedInput, StreamColumn]]:
        """What `*` stands for: the columns of all inputs in order, those of USING once."""
        used = {name.lower() for name in self.using}
        found = []
        for place, one in enumerate(self.inputs):
            found += [(one, c) for c in one.columns if not (place and c.name.lower() in used)]
        return found

    def of_input(self, qualifier: str) -> ResolvedInput:
        """The input that a qualifier means."""
        wanted = qualifier.lower()
        named = [i for i in self.inputs if i.alias.lower() == wanted]
        if not named:
            named = [i for i, stream in zip(self.inputs, self.streams, strict=True) if stream.lower() == wanted]
        if len(named) > 1:
            raise Problem(f"{qualifier!r} is ambiguous: it is read twice", "give each of them an alias")
        if not named:
            known = dict.fromkeys(i.alias for i in self.inputs if i.alias)
            raise Problem(f"there is no stream or alias {qualifier!r} in this FROM", did_you_mean(qualifier, known))
        return named[0]

    def find(self, name: str, qualifier: str | None = None) -> FoundColumn:
        """What `qualifier.name` means; raises Problem with the rule."""
        if qualifier is not None:
            one = self.of_input(qualifier)
            column = column_named(one.columns, name)
            if column is None:
                known = [c.name for c in one.columns]
                shown = one.alias or "the subquery"
                raise Problem(f"{shown} has no column {name!r}", did_you_mean(name, known) or _listed(known))
            return FoundColumn(column.name, column, one)
        if self._of_windows(name):
            return FoundColumn(name.lower())
        return self.find_column(name)

    def _of_windows(self, name: str) -> bool:
        return self.windowed and name.lower() in PSEUDO_COLUMNS and name.lower() not in self.absent

    def find_column(self, name: str) -> FoundColumn:
        """The column of an input that a bare name means, where it can't be one of the windows."""
        found = [(i, c) for i in self.inputs if (c := column_named(i.columns, name)) is not None]
        if len(found) > 1 and name.lower() not in {n.lower() for n in self.using}:
            sides = " and ".join(f"{i.alias}.{c.name}" for i, c in found)
            raise Problem(f"{name!r} is ambiguous: it could be {sides}", "write which of them")
        if found:
            return FoundColumn(found[0][1].name, found[0][1], found[0][0])
        if self.windowed and name.lower() in self.absent:
            raise Problem(f"the windows of this query have no {name.lower()}", self.absent[name.lower()])
        if self.before is not None and name.lower() in PSEUDO_COLUMNS:
            why, instead = self.before
            raise Problem(f"{name.lower()} {why}", instead)
        known = [c.name for i in self.inputs for c in i.columns]
        habit = FOREIGN_FUNCTIONS[name.lower()].cql if name.lower() in BARE else ""
        hint = habit or self._exposed(name) or did_you_mean(name, known) or _listed(known)
        raise Problem(f"there is no column {name!r}", hint)

    def find_resolved(self, node: exp.Column) -> StreamColumn | None:
        """The column that a resolved reference means, if it is one of an input."""
        if self.windowed and is_of_windows(node):
            return None
        for one in self.inputs:
            if not node.table or node.table == (one.alias or NAMELESS):
                for column in one.columns:
                    if column.name == node.name:
                        return column
        return None

    def _exposed(self, name: str) -> str:
        """A hint where the name exists below: a subquery shows only what it selects."""
        for one in self.inputs:
            if isinstance(one.origin, ResolvedSelect):
                below = SelectNames.of(one.origin.source)
                if any(column_named(i.columns, name) is not None for i in below.inputs):
                    return f"a subquery shows only what it selects: add {name} to its SELECT"
        return ""

    def node(self, found: FoundColumn) -> exp.Column:
        """A reference in the resolved tree."""
        node = column_node(found.name)
        merged = found.name.lower() in {name.lower() for name in self.using}
        apart = self.windowed and is_of_windows(node)
        if found.input is not None and (apart or (self.joined and not merged)):
            node.set("table", exp.to_identifier(found.input.alias or NAMELESS))
        return node

    def shown(self, found: FoundColumn) -> exp.Expr:
        """A column of an input as `*` shows it: of USING what either side has."""
        node = self.node(found)
        if not (node.table and found.name.lower() in {name.lower() for name in self.using}):
            return node
        sides = [(i, c) for i in self.inputs if (c := column_named(i.columns, found.name)) is not None]
        first, *others = [self.node(FoundColumn(c.name, c, i)) for i, c in sides]
        return exp.Coalesce(this=first, expressions=others)


def _listed(known: list[str]) -> str:
    return f"there are: {', '.join(known)}" if 0 < len(known) <= 12 else ""


def _inputs(source: ResolvedSource) -> tuple[tuple[ResolvedInput, ...], tuple[str, ...]]:
    if isinstance(source, ResolvedJoin):
        left, using = _inputs(source.left)
        return (*left, source.right), (*using, *source.using)
    return (source,), ()
