"""Data that the program gives a session by name: `streams={"trades": frame}`.

A name is a stream by itself, with the columns the data has; `SOURCE STREAM('name')` reads it under declared
ones. Frames and tables are matched by the names of columns, tuples and single values by position (SPEC Q-08).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panes.connectors.sources import open_data
from panes.cql.catalog import Catalog, Column, Columns, Problem, SchemaEntry, StreamEntry
from panes.cql.errors import did_you_mean
from panes.cql.tree import NamedSource
from panes.cql.types import type_of
from panes.errors import QueryError
from panes.plan.graph import FitNode, Node

if TYPE_CHECKING:
    from panes.plan.query import StreamPlan


class Given:
    """Data under a name, opened when it is first asked for."""

    def __init__(self, name: str, data: Any) -> None:
        self.name = name
        self.data = data
        #: opened data; rows without names of their own have those of the columns they were asked for as
        self._nodes: dict[Columns | None, Node] = {}

    @property
    def time(self) -> str | None:
        """The event time, if the data is a stream that has one among the columns it shows."""
        from panes.api.stream import Stream

        if isinstance(self.data, Stream):
            plan = self.data._plan
            return plan.time if plan.time in plan.columns else None
        return None

    @property
    def columns(self) -> Columns:
        return tuple(Column(f.name, type_of(f.type)) for f in self._open(None).schema)

    def rows(self, columns: Columns) -> Node:
        """The data as rows of `columns`."""
        node = self._open(columns)
        wanted = pa.schema([(c.name, c.type.arrow) for c in columns])
        return node if node.schema.equals(wanted) else fitted(node, wanted, self.name)

    def _open(self, columns: Columns | None) -> Node:
        key = columns if _is_positional(self.data) else None
        if key not in self._nodes:
            self._nodes[key] = _opened(self.name, self.data, columns)
        return self._nodes[key]


def given_stream(catalog: Catalog, name: str) -> StreamEntry | None:
    """The stream that data is by itself, without a CREATE STREAM."""
    found = find_given(catalog, name)
    if found is None:
        return None
    schema = SchemaEntry(found.name, found.columns)
    return StreamEntry(found.name, schema, NamedSource(found.name), time=found.time)


def find_given(catalog: Catalog, name: str) -> Given | None:
    wanted = name.lower()
    return next((given for key, given in catalog.data.items() if key.lower() == wanted), None)


def given_plan(catalog: Catalog, entry: StreamEntry, time: str) -> StreamPlan | None:
    """What a stream of the program says of its rows, where `entry` reads one and on the same time."""
    from panes.api.stream import Stream

    found = find_given(catalog, entry.source.name) if isinstance(entry.source, NamedSource) else None
    if found is None or not isinstance(found.data, Stream) or found.time != time:
        return None
    return found.data._plan


def _opened(name: str, data: Any, columns: Columns | None) -> Node:
    from panes.api.stream import Query, Stream

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


def _rows(name: str, data: Any, columns: Columns | None) -> Any:
    """Tuples, single values and objects with attributes as dicts; anything else as it is."""
    first = data[0]
    if not isinstance(first, tuple | list | int | float | bool | str) and not hasattr(first, "__dict__"):
        return data
    if hasattr(first, "_asdict"):
        return [row._asdict() for row in data]
    if hasattr(first, "__dict__") and not hasattr(first, "__arrow_c_stream__") and not hasattr(first, "__array__"):
        return [vars(row) for row in data]
    if columns is None:
        raise Problem(
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


def fitted(node: Node, schema: pa.Schema, name: str) -> Node:
    """Rows with the columns that a stream declares: found without case, in order, of the declared types."""
    return FitNode.of(node, schema, columns_found(schema, node.schema.names, name))


def columns_found(schema: pa.Schema, names: Sequence[str], data: str) -> dict[str, str]:
    """Declared column -> the column of the data that it is: of the same name, else of the same but for case."""
    found = {}
    by_lower = {column.lower(): column for column in reversed(names)}
    for column in schema.names:
        there = column if column in names else by_lower.get(column.lower())
        if there is None:
            raise Problem(f"the data {data!r} has no column {column!r}", did_you_mean(column, names))
        found[column] = there
    return found
