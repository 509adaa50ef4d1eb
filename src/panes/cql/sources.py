"""Where a stream's rows come from: data that the program gave, files, sockets.

Data is given by name: `streams={"trades": frame}`. A name is a stream by itself, with the columns the data has;
`SOURCE STREAM('name')` reads it under declared ones. Frames and tables are matched by the names of columns, tuples and
single values by position (SPEC Q-08).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from panes.api.stream import Query, Stream
from panes.connectors.lines import CsvLines
from panes.connectors.sockets import SocketSource
from panes.connectors.sources import open_data
from panes.cql.catalog import Catalog, SchemaEntry, StreamColumn, StreamColumns, StreamEntry
from panes.cql.errors import did_you_mean, problem
from panes.cql.files import checked_delimiter, fitted, open_files, spark_files
from panes.cql.tree import RawSource, SourceFile, SourceSocket, SourceStream
from panes.cql.types import type_of
from panes.errors import QueryError
from panes.plan.graph import Node, ReadNode

if TYPE_CHECKING:
    from panes.plan.query import StreamPlan

Runner = Literal["local", "spark"]


@dataclass(frozen=True)
class Settings:
    """What a session was told: where queries run, the clock of arrival times, where relative paths start."""

    runner: Runner = "local"
    clock: Callable[[], int] | None = None
    folder: Path | None = None
    #: on Spark: watch files as they come, or read those that are there
    streaming: bool = False
    #: how long a socket may be silent, in seconds
    timeout: float | None = None
    #: sources that can be read only once are shared by the queries of a session
    opened: dict[tuple[str, object], Node] = field(default_factory=dict, compare=False)


def open_stream(entry: StreamEntry, catalog: Catalog, settings: Settings) -> Node:
    """The rows of a base stream, with exactly its columns."""
    assert entry.source is not None
    place = (entry.name.lower(), entry.source)
    found = settings.opened.get(place)
    if found is None:
        schema = pa.schema([(c.name, c.type.arrow) for c in entry.columns])
        found = _open(entry, entry.source, schema, catalog, settings)
        if isinstance(entry.source, SourceStream):
            settings.opened[place] = found
    return found


def _open(entry: StreamEntry, raw: RawSource, schema: pa.Schema, catalog: Catalog, settings: Settings) -> Node:
    if isinstance(raw, SourceFile):
        if settings.runner == "spark":
            files = spark_files(raw.path, raw.delimiter, schema, settings.folder, streaming=settings.streaming)
            return ReadNode.of(files)
        return open_files(raw.path, raw.delimiter, schema, settings.folder)
    if isinstance(raw, SourceSocket):
        form = CsvLines(schema.names, delimiter=checked_delimiter(raw.delimiter))
        # lines that can't be read are no rows, on Spark either: these may have no time to be missed
        given_lines = SocketSource(
            raw.host, raw.port, form, schema, wait=0.1, timeout=settings.timeout, drops_unreadable=True
        )
        return ReadNode.of(given_lines)
    given = find_data(catalog, raw.name)
    if given is None:
        hint = did_you_mean(raw.name, catalog.data) or f"give it to the session: streams={{{raw.name!r}: ...}}"
        raise problem(f"no data was given under the name {raw.name!r}, which {entry.name} reads", hint)
    return given.rows(entry.columns)


class UserData:
    """Data under a name, opened when it is first asked for."""

    def __init__(self, name: str, data: Any) -> None:
        self.name = name
        self.data = data
        #: opened data; rows without names of their own have those of the columns they were asked for as
        self._nodes: dict[StreamColumns | None, Node] = {}

    @property
    def time(self) -> str | None:
        """The event time, if the data is a stream that has one among the columns it shows."""
        if isinstance(self.data, Stream):
            plan = self.data._plan
            return plan.time if plan.time in plan.columns else None
        return None

    @property
    def columns(self) -> StreamColumns:
        return tuple(StreamColumn(f.name, type_of(f.type)) for f in self._open(None).schema)

    def rows(self, columns: StreamColumns) -> Node:
        """The data as rows of `columns`."""
        node = self._open(columns)
        wanted = pa.schema([(c.name, c.type.arrow) for c in columns])
        return node if node.schema.equals(wanted) else fitted(node, wanted, self.name)

    def _open(self, columns: StreamColumns | None) -> Node:
        key = columns if _is_positional(self.data) else None
        if key not in self._nodes:
            self._nodes[key] = _opened(self.name, self.data, columns)
        return self._nodes[key]


def stream_of_data(catalog: Catalog, name: str) -> StreamEntry | None:
    """The stream that data is by itself, without a CREATE STREAM."""
    found = find_data(catalog, name)
    if found is None:
        return None
    schema = SchemaEntry(found.name, found.columns)
    return StreamEntry(found.name, schema, SourceStream(found.name), time=found.time)


def find_data(catalog: Catalog, name: str) -> UserData | None:
    wanted = name.lower()
    return next((given for key, given in catalog.data.items() if key.lower() == wanted), None)


def plan_of_data(catalog: Catalog, entry: StreamEntry, time: str) -> StreamPlan | None:
    """What a stream of the program says of its rows, where `entry` reads one and on the same time."""
    found = find_data(catalog, entry.source.name) if isinstance(entry.source, SourceStream) else None
    if found is None or not isinstance(found.data, Stream) or found.time != time:
        return None
    return found.data._plan


def _opened(name: str, data: Any, columns: StreamColumns | None) -> Node:
    if isinstance(data, Query):
        data = data.stream()
    if isinstance(data, Stream):
        return data._selected(f"the stream {name!r}", data._plan.columns)
    if isinstance(data, list | tuple) and data and not isinstance(data[0], Mapping):
        data = _rows(name, data, columns)
    elif isinstance(data, list | tuple) and not data and columns is not None:
        return open_data(data, pa.schema([(c.name, c.type.arrow) for c in columns]))
    return open_data(data, None)


def _is_positional(data: Any) -> bool:
    """Whether the columns of rows are known by their place alone: tuples, single values, or no rows at all."""
    if not isinstance(data, list | tuple):
        return False
    first = data[0] if data else ()
    return isinstance(first, tuple | list | int | float | bool | str) and not hasattr(first, "_asdict")


def _rows(name: str, data: Any, columns: StreamColumns | None) -> Any:
    """Tuples, single values and objects with attributes as dicts; anything else as it is."""
    first = data[0]
    if not isinstance(first, tuple | list | int | float | bool | str) and not hasattr(first, "__dict__"):
        return data
    if hasattr(first, "_asdict"):
        return [row._asdict() for row in data]
    if hasattr(first, "__dict__") and not hasattr(first, "__arrow_c_stream__") and not hasattr(first, "__array__"):
        return [vars(row) for row in data]
    if columns is None:
        raise problem(
            f"the rows of {name!r} have no names",
            f"name the columns: CREATE STREAM {name} (column Type, ...) SOURCE STREAM ('{name}')",
        )
    names = [c.name for c in columns]
    rows = [row if isinstance(row, tuple | list) else (row,) for row in data]
    for number, row in enumerate(rows):
        if len(row) != len(names):
            raise QueryError(
                f"row {number + 1} of {name!r} has {len(row)} value(s), and the stream has {len(names)} column(s)"
            )
    return [dict(zip(names, row, strict=True)) for row in rows]
