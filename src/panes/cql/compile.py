"""A resolved query to the streams and queries that the Python API builds, and to nothing else.

In: what `resolve` gives. Out: a `Stream` (row by row) or a `Query` (windows). One rule per kind of select
(SPEC Q-24): without windows here, with windows in `compile_select`, joins in `compile_joins`.
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
from panes.cql.catalog import Catalog, StreamEntry
from panes.cql.compile_windows import duration
from panes.cql.given import given_plan
from panes.cql.resolved import Input, Joined, Output, ResolvedMerge, ResolvedQuery, ResolvedSelect
from panes.cql.sources import Settings, open_stream
from panes.cql.timing import end_in_time, hides_end, known_time, known_times, measures
from panes.cql.tree import Duration
from panes.errors import QueryError
from panes.plan.arrival import arrival
from panes.plan.expressions import text_of
from panes.plan.graph import Node, ReadNode
from panes.plan.silence import span

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
        if isinstance(query.source, Joined):
            from panes.cql.compile_joins import compile_join

            return compile_join(self, query)
        if query.source.windows:
            from panes.cql.compile_select import compile_windowed

            return compile_windowed(self, query)
        return self._flow(query)

    def stream(self, source: Input, time: str | None, *, by_clock: bool = False) -> Stream:
        """The rows of an input with exactly its columns, on the time that its windows need (None: arrival)."""
        origin = source.origin
        if isinstance(origin, StreamEntry):
            origin = self.catalog.streams.find(origin.name) or origin
        by_clock = by_clock or any(m.kind == "system" for w in source.windows for m in measures(w))
        made = self._rows(origin, time, by_clock)
        return made if tuple(made._plan.columns) == _names(source) else made.select(*_names(source))

    # --- row by row ---

    def _flow(self, query: ResolvedSelect) -> Stream:
        assert isinstance(query.source, Input)
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
            if origin.idle is not None or origin.timeout is not None:
                raise QueryError(f"{origin.name}: IDLE and TIMEOUT are for streams with a SOURCE; this one has a query")
            own = origin.watermark
            return self._over(inner, origin.query, time, by_clock, own.delay if own else None, origin.lateness)
        if origin.source is None:
            raise QueryError(f"{origin.name} has no source yet: bind it with INSERT INTO {origin.name} ...")
        given = open_stream(origin, self.catalog, self.settings)
        if time is None:
            timeout = None if origin.timeout is None else duration(origin.timeout)
            return stream(given, time=arrival(clock=self.settings.clock), timeout=timeout)
        delay = origin.watermark.delay if origin.watermark is not None and origin.time in (None, time) else None
        options = self._given_options(origin, time)
        if delay is not None:
            options["watermark"] = duration(delay)
        if origin.lateness is not None:
            options["lateness"] = duration(origin.lateness)
        for word, length in (("idle", origin.idle), ("timeout", origin.timeout)):
            if length is not None:
                options[word] = duration(length)
        if is_clock(self.settings.clock):
            options["clock"] = self.settings.clock
        return stream(_own(given, time), time=time, **options)

    def _given_options(self, entry: StreamEntry, time: str) -> dict[str, Any]:
        """What a stream of the program says of its time, if it is the same time."""
        plan = given_plan(self.catalog, entry, time)
        if plan is None:
            return {}
        unit = plan.domain.unit
        options: dict[str, Any] = {"time_unit": unit} if plan.domain.integer else {}
        options["keep_late"] = plan.keep_late
        if plan.silence.idle is not None:
            options["idle"] = span(plan.silence.idle)
        if plan.silence.clock is not None:
            options["clock"] = plan.silence.clock
        for name, ticks in (("watermark", plan.watermark), ("lateness", plan.lateness)):
            if isinstance(ticks, int):
                options[name] = ticks if plan.domain.integer else f"{ticks} {unit}"
        return options

    def _over(
        self,
        inner: Built,
        query: ResolvedQuery,
        time: str | None,
        by_clock: bool,
        delay: Duration | None = None,
        lateness: Duration | None = None,
    ) -> Stream:
        """What a query gives, as rows to read: on one of its columns, or in the order they come."""
        if delay is None and time is not None:
            delay = _delay(query, self.catalog, time)
        options = {
            "watermark": None if delay is None or time is None else duration(delay),
            "lateness": None if lateness is None or time is None else duration(lateness),
        }
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
            side = next((c.name for c in entry.columns if time is not None and c.name.lower() == time.lower()), None)
            made = self._rows(self.catalog.streams.find(entry.name) or entry, side, by_clock=time is None)
            if list(made._plan.columns) != names:
                made = made.select(**dict(zip(names, made._plan.columns, strict=True)))
                if time is not None:
                    made = made.with_time(time)
            sides.append(made)
        return merge(*sides)


def select_rows(made: Stream, outputs: tuple[Output, ...]) -> Stream:
    """The columns of a select, in its order."""
    same = [o.name for o in outputs if _is(o.tree, o.name) and o.name in made._plan.columns]
    new = {o.name: text_of(o.tree) for o in outputs if o.name not in same}
    chosen = made.select(*same, **new)
    return chosen if not same or not new else chosen.select(*(o.name for o in outputs))


def _delay(query: ResolvedQuery, catalog: Catalog, time: str | None) -> Duration | None:
    """How much disorder to wait for in what a query gives: that of the streams it reads row by row."""
    if isinstance(query, ResolvedMerge):
        delays = [_entry_delay(entry, catalog, time) for entry in query.inputs]
        known = [d for d in delays if d is not None]
        return max(known, key=lambda d: _seconds(d)) if known else None
    if time is None or time not in known_times(query) or not isinstance(query.source, Input) or query.source.windows:
        return None
    origin = query.source.origin
    inside = known_time(origin)
    if isinstance(origin, StreamEntry):
        return _entry_delay(origin, catalog, inside)
    return _delay(origin, catalog, inside)


def _entry_delay(entry: StreamEntry, catalog: Catalog, time: str | None) -> Duration | None:
    entry = catalog.streams.find(entry.name) or entry
    if entry.watermark is not None:
        known = entry.time
        return entry.watermark.delay if known is None or (time is not None and known.lower() == time.lower()) else None
    return None if entry.query is None else _delay(entry.query, catalog, known_time(entry.query))


def _seconds(delay: Duration) -> float:
    from panes.units import Duration as Exact
    from panes.units import parse_duration

    if delay.unit is None:
        return float(delay.number)
    found = parse_duration(str(duration(delay)))
    return found.nanos / 1e9 if isinstance(found, Exact) else float(found.count)


def _own(node: Node, time: str) -> Node:
    """Rows whose time column may be read as another type without changing it for other queries."""
    kind = node.schema.field(time).type
    if kind == pa.int64() or pa.types.is_timestamp(kind) or not isinstance(node, ReadNode):
        return node
    return ReadNode.of(copy.copy(node.data))


def _names(source: Input) -> tuple[str, ...]:
    return tuple(c.name for c in source.columns)


def _is(tree: exp.Expr, name: str | None) -> bool:
    return isinstance(tree, exp.Column) and tree.name == name
