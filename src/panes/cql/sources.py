"""Where a stream's rows come from: the declaration of a raw source, opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pyarrow as pa

from panes.connectors.lines import CsvLines
from panes.connectors.sockets import SocketSource as Socket
from panes.cql.catalog import Catalog, Problem, StreamEntry
from panes.cql.errors import did_you_mean
from panes.cql.files import checked_delimiter, open_files
from panes.cql.given import find_given
from panes.cql.spark_files import spark_files
from panes.cql.tree import FileSource, NamedSource, RawSource, SocketSource
from panes.plan.graph import Node, ReadNode

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
        if isinstance(entry.source, NamedSource):
            settings.opened[place] = found
    return found


def _open(entry: StreamEntry, raw: RawSource, schema: pa.Schema, catalog: Catalog, settings: Settings) -> Node:
    if isinstance(raw, FileSource):
        if settings.runner == "spark":
            files = spark_files(raw.path, raw.delimiter, schema, settings.folder, streaming=settings.streaming)
            return ReadNode.of(files)
        return open_files(raw.path, raw.delimiter, schema, settings.folder)
    if isinstance(raw, SocketSource):
        form = CsvLines(schema.names, delimiter=checked_delimiter(raw.delimiter))
        # lines that can't be read are no rows, on Spark either: these may have no time to be missed
        lines = Socket(raw.host, raw.port, form, schema, wait=0.1, timeout=settings.timeout, drops_unreadable=True)
        return ReadNode.of(lines)
    given = find_given(catalog, raw.name)
    if given is None:
        hint = did_you_mean(raw.name, catalog.data) or f"give it to the session: streams={{{raw.name!r}: ...}}"
        raise Problem(f"no data was given under the name {raw.name!r}, which {entry.name} reads", hint)
    return given.rows(entry.columns)
