"""Data that the program gives a session by name: `streams={"trades": frame}`.

A name is a stream by itself, with the columns the data has; `SOURCE STREAM('name')` reads it under declared
ones. Frames and tables are matched by the names of columns, tuples and single values by position (SPEC Q-08).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panes.cql.catalog import Catalog, Column, Columns, Problem, SchemaEntry, StreamEntry
from panes.cql.errors import did_you_mean
from panes.cql.tree import NamedSource
from panes.cql.types import type_of
from panes.errors import QueryError
from panes.plan.batches import conform
from panes.runners.local.derived import DerivedSource, explain_inputs, through
from panes.runners.local.listening import Beat
from panes.runners.local.rejects import Rejects
from panes.runners.local.source import Source
from panes.runners.local.sources import open_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from panes.plan.query import StreamPlan


class Given:
    """Data under a name, opened when it is first asked for."""

    def __init__(self, name: str, data: Any) -> None:
        self.name = name
        self.data = data
        #: opened sources; rows without names of their own have those of the columns they were asked for as
        self._sources: dict[Columns | None, Source] = {}

    @property
    def time(self) -> str | None:
        """The event time, if the data is a stream that has one among the columns it shows."""
        from panes.stream import Stream

        if isinstance(self.data, Stream):
            plan = self.data._plan
            return plan.time if plan.time in plan.columns else None
        return None

    @property
    def columns(self) -> Columns:
        return tuple(Column(f.name, type_of(f.type)) for f in self._open(None).schema)

    def source(self, columns: Columns) -> Source:
        """The data as rows of `columns`."""
        source = self._open(columns)
        wanted = pa.schema([(c.name, c.type.arrow) for c in columns])
        return source if source.schema.equals(wanted) else Fitted(source, wanted, self.name)

    def _open(self, columns: Columns | None) -> Source:
        key = columns if _is_positional(self.data) else None
        if key not in self._sources:
            self._sources[key] = _opened(self.name, self.data, columns)
        return self._sources[key]


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
    from panes.stream import Stream

    found = find_given(catalog, entry.source.name) if isinstance(entry.source, NamedSource) else None
    if found is None or not isinstance(found.data, Stream) or found.time != time:
        return None
    return found.data._plan


def _opened(name: str, data: Any, columns: Columns | None) -> Source:
    from panes.query import Query
    from panes.stream import Stream

    if isinstance(data, Query):
        data = data.stream()
    if isinstance(data, Stream):
        return data._flat(f"the stream {name!r}", data._plan.columns)._data(f"the stream {name!r}")
    if isinstance(data, list | tuple) and data and not isinstance(data[0], Mapping):
        data = _rows(name, data, columns)
    elif isinstance(data, list | tuple) and not data and columns is not None:
        return open_source(data, pa.schema([(c.name, c.type.arrow) for c in columns]))
    return open_source(data, None)


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


class Fitted(DerivedSource):
    """A source with the columns that a stream declares: found without case, in order, of the declared types."""

    def __init__(self, source: Source, schema: pa.Schema, name: str) -> None:
        super().__init__(schema, [source])
        self.rows = source.rows
        self._source = source
        self._from = columns_found(schema, source.schema.names, name)

    def derive(self, rejects: Rejects) -> Iterator[pa.Table | Beat]:
        return through(self._table, self._source.batches(rejects))

    def arrivals(self, rejects: Rejects) -> Iterator[Any]:
        self._begin()
        return through(self._fitted, self._source.arrivals(rejects))

    def _fitted(self, given: pa.Table | dict[str, Any]) -> pa.Table | dict[str, Any]:
        if isinstance(given, dict):
            return {name: given.get(there) for name, there in self._from.items()}
        return self._table(given)

    def _table(self, given: pa.Table) -> pa.Table:
        return conform(given.select(list(self._from.values())).rename_columns(list(self._from)), self.schema)

    def explain(self) -> tuple[str, ...]:
        return explain_inputs(self._source)

    def to_spark(self) -> DataFrame:
        from panes.runners.spark.fitting import fit
        from panes.runners.spark.source import frame_of

        return fit(frame_of(self._source), self._from, self.schema)

    def __str__(self) -> str:
        return str(self._source)


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
