"""A statement in which every name is known: what `resolve` makes and `compile` builds from.

Columns in expressions have the very names of the streams' columns; over joins each also says the alias of its
side. Streams and schemas that a statement makes are entries of the catalog.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from panes.cql.catalog import Column, Columns, SchemaEntry, StreamEntry
from panes.cql.tree import EmitEarly, JoinKind, Model, Span, WindowClause
from panes.cql.types import Type


@dataclass(frozen=True)
class Input:
    """What a select reads: a stream or another query under an alias, with its windows."""

    alias: str
    columns: Columns
    origin: StreamEntry | ResolvedQuery
    windows: tuple[WindowClause, ...] = ()


@dataclass(frozen=True)
class Joined:
    left: Source
    right: Input
    kind: JoinKind
    on: exp.Expr | None = None
    using: tuple[str, ...] = ()


Source = Input | Joined


@dataclass(frozen=True)
class Output:
    """A column of a result: its name, what computes it, and its type."""

    name: str
    tree: exp.Expr
    type: Type
    span: Span | None = None


@dataclass(frozen=True)
class Order:
    tree: exp.Expr
    descending: bool = False
    nulls_first: bool | None = None


@dataclass(frozen=True)
class ResolvedSelect:
    """`keys` are what GROUP BY names (a window each), `parts` what PARTITIONED BY names (groups in a window)."""

    outputs: tuple[Output, ...]
    source: Source
    where: exp.Expr | None = None
    keys: tuple[Output, ...] = ()
    parts: tuple[str, ...] = ()
    having: exp.Expr | None = None
    order_by: tuple[Order, ...] = ()
    limit: int | None = None
    distinct: bool = False
    model: Model | None = None
    aggregated: bool = False
    early: EmitEarly | None = None

    @property
    def columns(self) -> Columns:
        return tuple(Column(output.name, output.type) for output in self.outputs)

    @property
    def windows(self) -> tuple[WindowClause, ...]:
        """The windows of its input; of a join those of its first side, which all sides share."""
        source = self.source
        while isinstance(source, Joined):
            source = source.left
        return source.windows


@dataclass(frozen=True)
class ResolvedMerge:
    """The rows of all inputs, by position of their columns, under the names of the first."""

    inputs: tuple[StreamEntry, ...]
    columns: Columns


ResolvedQuery = ResolvedSelect | ResolvedMerge


@dataclass(frozen=True)
class ResolvedSink:
    """A query whose results leave the session."""

    sink: Literal["file", "console"]
    path: str | None
    query: ResolvedQuery

    @property
    def target(self) -> str:
        return "the console" if self.path is None else self.path


#: What each statement comes to: entries for the catalog, or a query to run.
Resolved = SchemaEntry | StreamEntry | tuple[StreamEntry, ...] | ResolvedQuery | ResolvedSink
