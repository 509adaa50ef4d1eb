"""What statements come to, with every name known, and the catalog of what those so far have made.

`resolve` makes entries of the catalog, schemas and streams, or queries that `compile` builds from. A stream has columns
and at most one origin: a raw source (file, socket, data of the program), a query that derives it, or parts that splits
have sent to it. In expressions of queries, columns have the very names of the streams' columns; over joins each also
says the alias of its side. A catalog is only a register, in which names are looked up without case; `session` decides
what goes in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, TypeVar

from sqlglot import exp

from panes.cql.clauses import QueryClause, S, StreamClause, model_of
from panes.cql.errors import did_you_mean, problem
from panes.cql.tree import JoinKind, Model, RawSource, Span
from panes.cql.types import Type
from panes.cql.windows.clause import WindowClause


@dataclass(frozen=True)
class StreamColumn:
    name: str
    type: Type

    def __str__(self) -> str:
        return f"{self.name} {self.type}"


StreamColumns = tuple[StreamColumn, ...]


def column_named(columns: StreamColumns, name: str) -> StreamColumn | None:
    """The column of that name, without case."""
    wanted = name.lower()
    return next((column for column in columns if column.name.lower() == wanted), None)


@dataclass(frozen=True)
class SchemaEntry:
    """A schema: named columns in order. A stream's anonymous schema has the name of the stream."""

    name: str
    columns: StreamColumns


@dataclass(frozen=True)
class StreamEntry:
    """A stream, and where its rows come from: `source`, or `query`, or neither yet."""

    name: str
    schema: SchemaEntry
    source: RawSource | None = None
    query: ResolvedQuery | None = None
    clauses: tuple[StreamClause, ...] = ()
    #: the column that is its event time, if that is known
    time: str | None = None

    def clause(self, kind: type[S]) -> S | None:
        """What it says by a clause, if it has it."""
        return next((clause for clause in self.clauses if isinstance(clause, kind)), None)

    @property
    def columns(self) -> StreamColumns:
        return self.schema.columns

    @property
    def bound(self) -> bool:
        return self.source is not None or self.query is not None


@dataclass(frozen=True)
class ResolvedInput:
    """What a select reads: a stream or another query under an alias, with its windows."""

    alias: str
    columns: StreamColumns
    origin: StreamEntry | ResolvedQuery
    windows: tuple[WindowClause, ...] = ()


@dataclass(frozen=True)
class ResolvedJoin:
    left: ResolvedSource
    right: ResolvedInput
    kind: JoinKind
    on: exp.Expr | None = None
    using: tuple[str, ...] = ()


ResolvedSource = ResolvedInput | ResolvedJoin


@dataclass(frozen=True)
class ResolvedOutput:
    """A column of a result: its name, what computes it, and its type."""

    name: str
    tree: exp.Expr
    type: Type
    span: Span | None = None


@dataclass(frozen=True)
class ResolvedOrder:
    tree: exp.Expr
    descending: bool = False
    nulls_first: bool | None = None


@dataclass(frozen=True)
class ResolvedSelect:
    """`keys` are what GROUP BY names (a window each), `parts` what PARTITIONED BY names (groups in a window)."""

    outputs: tuple[ResolvedOutput, ...]
    source: ResolvedSource
    where: exp.Expr | None = None
    keys: tuple[ResolvedOutput, ...] = ()
    parts: tuple[exp.Column, ...] = ()
    having: exp.Expr | None = None
    order_by: tuple[ResolvedOrder, ...] = ()
    limit: int | None = None
    distinct: bool = False
    aggregated: bool = False
    clauses: tuple[QueryClause, ...] = ()

    @property
    def columns(self) -> StreamColumns:
        return tuple(StreamColumn(output.name, output.type) for output in self.outputs)

    @property
    def joined(self) -> bool:
        return isinstance(self.source, ResolvedJoin)

    @property
    def model(self) -> Model | None:
        return model_of(self.clauses)

    @property
    def windows(self) -> tuple[WindowClause, ...]:
        """The windows of its input; of a join those of its first side, which all sides share."""
        return inputs_of(self.source)[0].windows


@dataclass(frozen=True)
class ResolvedMerge:
    """The rows of all inputs, by position of their columns, under the names of the first."""

    inputs: tuple[StreamEntry, ...]
    columns: StreamColumns


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


def inputs_of(source: ResolvedSource) -> tuple[ResolvedInput, ...]:
    """What a select reads, from left to right."""
    return (*inputs_of(source.left), source.right) if isinstance(source, ResolvedJoin) else (source,)


def joins_of(source: ResolvedSource) -> tuple[ResolvedJoin, ...]:
    """Joins nest to the left: how each input after the first is joined."""
    return (*joins_of(source.left), source) if isinstance(source, ResolvedJoin) else ()


def streams_of(query: ResolvedQuery | StreamEntry) -> list[StreamEntry]:
    """The streams that a query names in its FROM, at any depth, in order."""
    if isinstance(query, StreamEntry):
        return [query]
    if isinstance(query, ResolvedMerge):
        return list(query.inputs)
    return [entry for one in inputs_of(query.source) for entry in streams_of(one.origin)]


@dataclass(frozen=True)
class QueryEntry:
    """A query that was started under a name, as `SHOW QUERIES` lists it."""

    name: str
    text: str
    target: str = ""


_E = TypeVar("_E", SchemaEntry, StreamEntry, QueryEntry)


class Register(Generic[_E]):
    """Entries by name, without case, in the order they were made."""

    def __init__(self, what: str) -> None:
        self.what = what
        self._entries: dict[str, _E] = {}

    def find(self, name: str) -> _E | None:
        return self._entries.get(name.lower())

    def get(self, name: str) -> _E:
        """The entry; QueryError with the nearest name if there is none."""
        found = self.find(name)
        if found is None:
            raise problem(f"there is no {self.what} {name!r}", did_you_mean(name, self.names))
        return found

    def add(self, entry: _E) -> None:
        if self.find(entry.name) is not None:
            raise problem(
                f"there is a {self.what} {entry.name!r} already",
                f"DROP {self.what.upper()} {entry.name} first, or choose another name",
            )
        self._entries[entry.name.lower()] = entry

    def put(self, entry: _E) -> None:
        """Replace an entry by one of the same name."""
        self._entries[entry.name.lower()] = entry

    def remove(self, name: str) -> None:
        self.get(name)
        del self._entries[name.lower()]

    @property
    def names(self) -> list[str]:
        return [entry.name for entry in self._entries.values()]

    def __iter__(self) -> Iterator[_E]:
        return iter(list(self._entries.values()))

    def __len__(self) -> int:
        return len(self._entries)

    def copy(self) -> Register[_E]:
        made: Register[_E] = Register(self.what)
        made._entries = dict(self._entries)
        return made


@dataclass(frozen=True)
class Catalog:
    """The registers of a session, and the data that the program gave it by name."""

    schemas: Register[SchemaEntry] = field(default_factory=lambda: Register[SchemaEntry]("schema"))
    streams: Register[StreamEntry] = field(default_factory=lambda: Register[StreamEntry]("stream"))
    queries: Register[QueryEntry] = field(default_factory=lambda: Register[QueryEntry]("query"))
    data: dict[str, Any] = field(default_factory=dict)

    def copy(self) -> Catalog:
        """A catalog to try statements on, without changing this one."""
        return replace(self, schemas=self.schemas.copy(), streams=self.streams.copy(), queries=self.queries.copy())
