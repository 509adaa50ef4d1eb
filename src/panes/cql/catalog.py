"""What the statements so far have made: schemas, streams and named queries. Names are looked up without case.

A stream has columns and at most one origin: a raw source (file, socket, data of the program), a query that
derives it, or parts that splits have sent to it. A catalog is only a register; `session` decides what goes in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from panes.cql.errors import did_you_mean
from panes.cql.tree import Duration, RawSource, Watermark
from panes.cql.types import Type
from panes.errors import QueryError

if TYPE_CHECKING:
    from panes.cql.resolved import ResolvedQuery


class Problem(QueryError):
    """A name that can't be used; `hint` says what would be right. `resolve` adds where it stands in the text."""

    def __init__(self, short: str, hint: str = "") -> None:
        self.short, self.hint = short, hint
        super().__init__(f"{short}; {hint}" if hint else short)


@dataclass(frozen=True)
class Column:
    name: str
    type: Type

    def __str__(self) -> str:
        return f"{self.name} {self.type}"


Columns = tuple[Column, ...]


@dataclass(frozen=True)
class SchemaEntry:
    """A schema: named columns in order. A stream's anonymous schema has the name of the stream."""

    name: str
    columns: Columns


@dataclass(frozen=True)
class StreamEntry:
    """A stream, and where its rows come from: `source`, or `query`, or neither yet."""

    name: str
    schema: SchemaEntry
    source: RawSource | None = None
    query: ResolvedQuery | None = None
    watermark: Watermark | None = None
    lateness: Duration | None = None
    #: the column that is its event time, if that is known
    time: str | None = None
    #: what silence means: after so long the clock moves the watermark; after so long the stream has ended
    idle: Duration | None = None
    timeout: Duration | None = None

    @property
    def columns(self) -> Columns:
        return self.schema.columns

    @property
    def bound(self) -> bool:
        return self.source is not None or self.query is not None

    @property
    def origin(self) -> str:
        """Where its rows come from, in a word or two."""
        if self.query is not None:
            return "derived"
        return "none yet" if self.source is None else str(self.source)


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
            raise Problem(f"there is no {self.what} {name!r}", did_you_mean(name, self.names))
        return found

    def add(self, entry: _E) -> None:
        if self.find(entry.name) is not None:
            raise Problem(
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
