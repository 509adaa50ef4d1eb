"""Which column a name means: by stream name or alias, without case, in exactly one of the inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from panes.cql.catalog import Column, Columns, Problem
from panes.cql.errors import did_you_mean
from panes.cql.resolved import Input, Joined, ResolvedSelect, Source
from panes.plan.expressions import column_node

#: Columns that the windows of a query have, if no column of the stream has the name.
PSEUDO_COLUMNS = ("window", "window_start", "window_end", "window_from", "window_to", "revision", "void")


@dataclass(frozen=True)
class Found:
    """What a reference means; `input` is None for the columns that windows have."""

    name: str
    column: Column | None = None
    input: Input | None = None


@dataclass(frozen=True)
class Names:
    """The columns that the expressions of one select may use."""

    inputs: tuple[Input, ...]
    #: stream names by which an input can be called besides its alias
    streams: tuple[str, ...]
    windowed: bool
    using: tuple[str, ...] = ()
    #: columns that windows can have and these have not, with the reason
    absent: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, source: Source) -> Names:
        inputs, using = _inputs(source)
        streams = tuple(getattr(i.origin, "name", "") for i in inputs)
        return cls(inputs, streams, any(i.windows for i in inputs), using)

    @property
    def joined(self) -> bool:
        return len(self.inputs) > 1

    def all(self) -> list[tuple[Input, Column]]:
        """What `*` stands for: the columns of all inputs in order, those of USING once."""
        used = {name.lower() for name in self.using}
        found = []
        for place, one in enumerate(self.inputs):
            found += [(one, c) for c in one.columns if not (place and c.name.lower() in used)]
        return found

    def of_input(self, qualifier: str) -> Input:
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

    def find(self, name: str, qualifier: str | None = None) -> Found:
        """What `qualifier.name` means; raises Problem with the rule."""
        if qualifier is not None:
            one = self.of_input(qualifier)
            column = _column(one.columns, name)
            if column is None:
                known = [c.name for c in one.columns]
                shown = one.alias or "the subquery"
                raise Problem(f"{shown} has no column {name!r}", did_you_mean(name, known) or _listed(known))
            return Found(column.name, column, one)
        found = [(i, c) for i in self.inputs if (c := _column(i.columns, name)) is not None]
        if len(found) > 1 and name.lower() not in {n.lower() for n in self.using}:
            sides = " and ".join(f"{i.alias}.{c.name}" for i, c in found)
            raise Problem(f"{name!r} is ambiguous: it could be {sides}", "write which of them")
        if found:
            return Found(found[0][1].name, found[0][1], found[0][0])
        if self.windowed and name.lower() in PSEUDO_COLUMNS:
            if name.lower() in self.absent:
                raise Problem(f"the windows of this query have no {name.lower()}", self.absent[name.lower()])
            return Found(name.lower())
        known = [c.name for i in self.inputs for c in i.columns]
        hint = self._exposed(name) or did_you_mean(name, known) or _listed(known)
        raise Problem(f"there is no column {name!r}", hint)

    def find_resolved(self, node: exp.Column) -> Column | None:
        """The column that a resolved reference means, if it is one of an input."""
        for one in self.inputs:
            if not node.table or node.table == one.alias:
                for column in one.columns:
                    if column.name == node.name:
                        return column
        return None

    def _exposed(self, name: str) -> str:
        """A hint where the name exists below: a subquery shows only what it selects."""
        for one in self.inputs:
            if isinstance(one.origin, ResolvedSelect):
                below = Names.of(one.origin.source)
                if any(_column(i.columns, name) is not None for i in below.inputs):
                    return f"a subquery shows only what it selects: add {name} to its SELECT"
        return ""

    def node(self, found: Found) -> exp.Column:
        """A reference in the resolved tree."""
        node = column_node(found.name)
        merged = found.name.lower() in {name.lower() for name in self.using}
        if self.joined and found.input is not None and not merged:
            node.set("table", exp.to_identifier(found.input.alias))
        return node


def _listed(known: list[str]) -> str:
    return f"there are: {', '.join(known)}" if 0 < len(known) <= 12 else ""


def _column(columns: Columns, name: str) -> Column | None:
    wanted = name.lower()
    return next((c for c in columns if c.name.lower() == wanted), None)


def _inputs(source: Source) -> tuple[tuple[Input, ...], tuple[str, ...]]:
    if isinstance(source, Joined):
        left, using = _inputs(source.left)
        return (*left, source.right), (*using, *source.using)
    return (source,), ()
