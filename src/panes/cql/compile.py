"""A resolved query to the streams and queries that the Python API builds, and to nothing else.

In: what `resolve` gives. Out: a `Stream` (row by row) or a `Query` (windows). One rule per kind of select
(SPEC Q-24): without windows here, with windows and joins in `compile_select`.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp

from panes.api.stream import Query, Stream, stream
from panes.api.together import merge
from panes.clock import is_clock
from panes.cql.catalog import (
    Catalog,
    ResolvedInput,
    ResolvedJoin,
    ResolvedMerge,
    ResolvedOutput,
    ResolvedQuery,
    ResolvedSelect,
    StreamEntry,
    column_named,
)
from panes.cql.clauses import STREAM_CLAUSES, StreamClause, Watermark, options_of
from panes.cql.compile_select import compile_join, compile_windowed
from panes.cql.lengths import duration, seconds_of
from panes.cql.sources import Settings, open_stream, plan_of_data
from panes.cql.timing import by_clock as runs_by_clock
from panes.cql.timing import end_in_time, hides_end, known_time, known_times
from panes.cql.tree import Quantity
from panes.errors import QueryError
from panes.plan.arrival import arrival
from panes.plan.expressions import text_of
from panes.plan.graph import Node, ReadNode

Built = Stream | Query


def compile_query(query: ResolvedQuery, catalog: Catalog, settings: Settings) -> Built:
    """The stream or query that a resolved query means."""
    return Compiler(catalog, settings).query(query)


@dataclass(frozen=True)
class Compiler:
    """Builds queries over the streams of a catalog."""

    catalog: Catalog
    settings: Settings

    def query(self, query: ResolvedQuery) -> Built:
        if isinstance(query, ResolvedMerge):
            return self._merge(query, known_time(query))
        if isinstance(query.source, ResolvedJoin):
            return compile_join(self, query)
        if query.source.windows:
            return compile_windowed(self, query)
        return self._flow(query)

    def stream(self, source: ResolvedInput, time: str | None, *, by_clock: bool = False) -> Stream:
        """The rows of an input with exactly its columns, on the time that its windows need (None: arrival)."""
        origin = source.origin
        if isinstance(origin, StreamEntry):
            origin = self.catalog.streams.find(origin.name) or origin
        made = self._rows(origin, time, by_clock or runs_by_clock(source))
        return made if tuple(made._plan.columns) == _names(source) else made.select(*_names(source))

    def _flow(self, query: ResolvedSelect) -> Stream:
        assert isinstance(query.source, ResolvedInput)
        time = known_time(query.source.origin)
        renamed = {o.name for o in query.outputs if not _is(o.tree, o.name)}
        if time in renamed:
            time = None  # another column takes its name
        made = self.stream(query.source, time, by_clock="window_end" in renamed)
        if query.where is not None:
            made = made.where(text_of(query.where))
        return select_rows(made, query.outputs)

    def _rows(self, origin: StreamEntry | ResolvedQuery, time: str | None, by_clock: bool = False) -> Stream:
        """Rows on a column; without one as they come, which is by the clock if they must be stamped."""
        if isinstance(origin, ResolvedMerge):
            return self._merge(origin, time)
        if isinstance(origin, ResolvedSelect):
            return self._over(self.query(origin), origin, time, by_clock)
        if origin.query is not None:
            # streams that are merged are merged by the time that is asked for
            if isinstance(origin.query, ResolvedMerge) and time is not None:
                inner: Built = self._merge(origin.query, time)
            else:
                inner = self.query(origin.query)
            of_sources = " and ".join(word for word, kind in STREAM_CLAUSES.items() if kind.of_sources)
            if any(clause.of_sources for clause in origin.clauses):
                raise QueryError(f"{origin.name}: {of_sources} are for streams with a SOURCE; this one has a query")
            return self._over(inner, origin.query, time, by_clock, origin.clauses)
        if origin.source is None:
            raise QueryError(f"{origin.name} has no source yet: bind it with INSERT INTO {origin.name} ...")
        given = open_stream(origin, self.catalog, self.settings)
        plan = None if time is None else plan_of_data(self.catalog, origin, time)
        options: dict[str, Any] = {} if plan is None else options_of(plan)
        for clause in origin.clauses:
            options |= clause.option if clause.holds_on(time) else {}
        if time is None:
            return stream(given, time=arrival(clock=self.settings.clock), **options)
        if is_clock(self.settings.clock):
            options["clock"] = self.settings.clock
        return stream(_own(given, time), time=time, **options)

    def _over(
        self,
        inner: Built,
        query: ResolvedQuery,
        time: str | None,
        by_clock: bool,
        clauses: tuple[StreamClause, ...] = (),
    ) -> Stream:
        """What a query gives, as rows to read: on one of its columns, or in the order they come."""
        options = {name: value for clause in clauses for name, value in clause.option.items()}
        delay = _delay(query, self.catalog, time) if time is not None and "watermark" not in options else None
        if delay is not None:
            options["watermark"] = duration(delay)
        if isinstance(inner, Stream):
            if time is None:
                return inner.with_time(arrival(clock=self.settings.clock))
            return inner.with_time(time, **options)
        if time is not None:
            return inner.stream(time=time, **options)
        if not by_clock and isinstance(query, ResolvedSelect) and end_in_time(query) and not hides_end(query):
            return inner.stream()
        return inner.stream(time=arrival(clock=self.settings.clock))

    def _merge(self, query: ResolvedMerge, time: str | None) -> Stream:
        names = [c.name for c in query.columns]
        sides = []
        for entry in query.inputs:
            side = None if time is None else column_named(entry.columns, time)
            current = self.catalog.streams.find(entry.name) or entry
            made = self._rows(current, None if side is None else side.name, by_clock=time is None)
            if list(made._plan.columns) != names:
                made = made.select(**dict(zip(names, made._plan.columns, strict=True)))
                if time is not None:
                    made = made.with_time(time)
            sides.append(made)
        return merge(*sides)


def select_rows(made: Stream, outputs: tuple[ResolvedOutput, ...]) -> Stream:
    """The columns of a select, in its order."""
    same = [o.name for o in outputs if _is(o.tree, o.name) and o.name in made._plan.columns]
    new = {o.name: text_of(o.tree) for o in outputs if o.name not in same}
    chosen = made.select(*same, **new)
    return chosen if not same or not new else chosen.select(*(o.name for o in outputs))


def _delay(query: ResolvedQuery, catalog: Catalog, time: str | None) -> Quantity | None:
    """How much disorder to wait for in what a query gives: that of the streams it reads row by row."""
    if isinstance(query, ResolvedMerge):
        delays = [_entry_delay(entry, catalog, time) for entry in query.inputs]
        known = [d for d in delays if d is not None]
        return max(known, key=seconds_of) if known else None
    if (
        time is None
        or time not in known_times(query)
        or not isinstance(query.source, ResolvedInput)
        or query.source.windows
    ):
        return None
    origin = query.source.origin
    inside = known_time(origin)
    if isinstance(origin, StreamEntry):
        return _entry_delay(origin, catalog, inside)
    return _delay(origin, catalog, inside)


def _entry_delay(entry: StreamEntry, catalog: Catalog, time: str | None) -> Quantity | None:
    entry = catalog.streams.find(entry.name) or entry
    watermark = entry.clause(Watermark)
    if watermark is not None:
        known = entry.time
        return watermark.length if known is None or (time is not None and known.lower() == time.lower()) else None
    return None if entry.query is None else _delay(entry.query, catalog, known_time(entry.query))


def _own(node: Node, time: str) -> Node:
    """Rows whose time column may be read as another type without changing it for other queries."""
    kind = node.schema.field(time).type
    if kind == pa.int64() or pa.types.is_timestamp(kind) or not isinstance(node, ReadNode):
        return node
    return ReadNode.of(copy.copy(node.data))


def _names(source: ResolvedInput) -> tuple[str, ...]:
    return tuple(c.name for c in source.columns)


def _is(tree: exp.Expr, name: str | None) -> bool:
    return isinstance(tree, exp.Column) and tree.name == name
