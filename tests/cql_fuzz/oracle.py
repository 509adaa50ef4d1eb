"""The oracle of CQL: statements interpreted over lists of rows, slowly and in the obvious way.

It reads the tree that the generator made (`panes.cql.tree`, with terms for expressions), not what the parser read,
and shares nothing with the library but the classes of that tree. Windows and aggregates are those of tests/oracle.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from panes.cql import tree
from panes.cql.clauses import Watermark, model_of
from panes.cql.tree import Join, Merge, Name, Select, SelectItem, StreamRef, SubqueryRef
from panes.cql.windows.clause import WindowClause
from panes.cql.windows.content import SessionClause
from tests.cql_fuzz.evaluate import Scope, known_by, ticks_of, value_of
from tests.cql_fuzz.feeds import Answer, Feed, advanced, time_of, timed
from tests.cql_fuzz.oracle_names import (
    as_datetime,
    as_declared,
    expanded,
    is_aggregated,
    is_bare,
    is_column,
    is_pseudo,
    liftable,
    name_of,
    named,
    ordered_by,
    renamed,
    scopes_of,
    typed,
    under,
    without_windows,
)
from tests.cql_fuzz.oracle_windows import GAP, columns_that_advance, computed, kind_of, modelled, spec_of, ticks
from tests.cql_fuzz.terms import Term
from tests.oracle.aggregates import order
from tests.oracle.oracle import IN_ORDER, ROW_BY_ROW
from tests.oracle.windows import INFINITY, Row, due_windows, ticking

#: kinds of windows that have an end, by which their results are in order
ORDERED = {"sliding", "cumulate", "landmark", "fixed", "fixed_band"}
#: kinds of windows whose end is a time
TIMED = ORDERED | {"session", "session_by"}
#: where a result stands, what it is ordered by, and its values
Found = tuple[Any, list[Any], tuple[Any, ...]]


@dataclass
class World:
    """What statements have made so far: data by name, schemas, streams; `ticks`: times of arrival, if they differ."""

    data: dict[str, Feed]
    schemas: dict[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    streams: dict[str, Any] = field(default_factory=dict)
    ticks: list[int] | None = None

    # --- statements ---

    def make(self, statement: Any) -> None:
        """A statement that makes something."""
        if isinstance(statement, tree.CreateSchema):
            parent = () if statement.extends is None else self.schemas[statement.extends.text.lower()]
            self.schemas[statement.name.text.lower()] = (*parent, *self._columns(statement.definition))
        elif isinstance(statement, tree.CreateStream):
            self.streams[statement.name.text.lower()] = statement
        elif isinstance(statement, tree.Insert):
            name = statement.target.text.lower()
            self.streams[name] = replace(self.streams[name], query=statement.query)
        elif isinstance(statement, tree.Split):
            for c in statement.clauses:
                select = Select(c.entries, StreamRef(statement.source), c.where)
                known = self.streams.get(c.target.text.lower())
                made = replace(known, query=select) if known else tree.CreateStream(c.target, None, query=select)
                self.streams[c.target.text.lower()] = made

    def _columns(self, definition: Any) -> tuple[tuple[str, str], ...]:
        if isinstance(definition, Name):
            return self.schemas[definition.text.lower()]
        return tuple((a.name.text, a.type.text.lower()) for a in definition)

    def feed(self, name: str, time: str | None = None) -> Feed:
        """The rows of a stream; where streams are merged, by `time` if it is known or asked for."""
        made = self.streams.get(name.lower())
        if made is None:
            return self.data[name.lower()]
        declared = None if made.schema is None else self._columns(made.schema)
        if made.query is None:
            given = self.data[made.source.name.lower()]
            feed = Feed(declared or given.columns, given.rows)
        else:
            merged = isinstance(made.query, Merge)
            feed = self._merge(made.query, time) if merged else self.query(made.query)
            if declared is not None:
                feed = as_declared(feed, declared)
        watermark = next((clause for clause in made.clauses if isinstance(clause, Watermark)), None)
        if watermark is not None:
            on = None if watermark.on is None else watermark.on.text.lower()
            feed = replace(feed, delay=watermark.length, time=on or feed.time, also=() if on else feed.also)
        return feed

    # --- queries ---

    def query(self, query: Any) -> Answer:
        if isinstance(query, Merge):
            return self._merge(query)
        if isinstance(query.source, Join):
            from tests.cql_fuzz.oracle_joins import join

            return join(self, query)
        feed, windows, scopes = self.read(query.source)
        kept = [s for s in scopes if query.where is None or value_of(query.where, s) is True]
        if windows:
            return self._windowed(query, feed, windows, kept)
        return self._flow(query, feed, kept)

    def _merge(self, query: Merge, asked: str | None = None) -> Answer:
        """In the order of the largest time that each side has reached; sides in order where it is the same."""
        feeds = [self.feed(name.text) for name in query.streams]
        first, *others = feeds
        times = [t for t in first.times if all(t in f.times for f in others)]
        known = next(iter(times), None)
        time = asked or known
        placed = []
        for feed in feeds:
            top = -INFINITY
            for row in feed.rows:
                now = None if time is None else ticks_of(row[[n.lower() for n in feed.names].index(time)])
                top = top if now is None else max(top, now)
                placed.append((top, row))
        placed.sort(key=lambda item: item[0])
        delays = [f.delay for f in feeds if f.delay is not None and (f.time is None or time in f.times)]
        delay = max(delays, key=lambda d: ticks(d, False)) if delays else None
        return Answer(feeds[0].columns, tuple(row for _, row in placed), known, delay, tuple(times[1:]))

    def read(self, source: StreamRef | SubqueryRef) -> tuple[Feed, tuple[WindowClause, ...], list[Scope]]:
        """What a reference gives: its rows, the windows on them, and rows as scopes under its alias."""
        windows = source.windows
        if isinstance(source, StreamRef):
            feed = self.feed(source.name.text)
            feed = self.feed(source.name.text, time_of(feed, windows)) if windows else feed
            prefixes = [source.name.text.lower()]
        else:
            inner = source.query
            lifted = liftable(inner)
            if lifted:
                windows = tuple(renamed(w, inner) for w in lifted)
                inner = without_windows(inner)
            feed = self.query(inner)
            prefixes = []
        if source.alias is not None:
            prefixes.append(source.alias.text.lower())
        return feed, windows, scopes_of(feed, prefixes)

    def _flow(self, query: Select, feed: Feed, scopes: list[Scope]) -> Answer:
        entries = expanded(query.entries, feed.names)
        rows = tuple(tuple(value_of(e.expression, s) for e in entries) for s in scopes)
        times = [name_of(e).lower() for e in entries if any(is_column(e.expression, t) for t in feed.times)]
        delay = feed.delay if times else None
        return Answer(typed(entries, rows, feed), rows, next(iter(times), None), delay, tuple(times[1:]))

    # --- windows ---

    def _windowed(self, query: Select, feed: Feed, windows: tuple[WindowClause, ...], scopes: list[Scope]) -> Answer:
        entries = expanded(query.entries, feed.names)
        found: list[Found] = []
        time = time_of(feed, windows)
        for place, window in enumerate(windows):
            inside = [s for s in scopes if window.where is None or value_of(window.where, s) is True]
            label = window.label.text if window.label is not None else f"w{place + 1}" if place else "window"
            alike = tuple(w for w in windows if w.where == window.where)
            per_key = self._per_key(query, feed, alike, inside, time)
            spec = modelled(window, spec_of(window, time, feed.whole(time)), model_of(query.clauses))
            if spec[0] in (*ROW_BY_ROW, *IN_ORDER):  # rows are seen in order: none behind the watermark
                specs = [spec_of(w, time, feed.whole(time)) for w in alike]
                advancing = set().union(*(columns_that_advance(s) for s in specs))
                per_key = [advanced([r for r in rows if r.time >= r.after], advancing) for rows in per_key]
            last = max((r.time for rows in per_key for r in rows), default=0)
            for rows in per_key:
                found += self._of_key(query, entries, feed, window, time, rows, label, last)
        if is_aggregated(query) and query.limit is None:
            found = in_order(found, query)  # across keys, too
        found.sort(key=lambda item: item[0])
        rows = tuple(row for _, _, row in found)
        ends = [name_of(e).lower() for e in entries if is_column(e.expression, "window_end") and is_bare(e.expression)]
        kinds = {kind_of(w, time, feed.whole(time)) for w in windows}
        known = ends if kinds <= TIMED else []
        exact = bool(query.order_by) and kinds <= ORDERED and len(windows) == 1
        exact = exact and not (query.group_by and (query.limit is not None or not is_aggregated(query)))
        # ORDER BY can't tell lists apart, and the order of groups that are alike otherwise is not said
        exact = exact and not any(isinstance(value, list) for row in rows for value in row)
        made = Answer(typed(entries, rows, feed, windows), rows, next(iter(known), None), exact=exact)
        return replace(made, also=tuple(known[1:]))

    def _per_key(
        self, query: Select, feed: Feed, windows: tuple[WindowClause, ...], scopes: list[Scope], time: str | None
    ) -> list[list[Row]]:
        """The rows that have a time, in event order, apart by GROUP BY."""
        kept = timed(feed, windows, scopes, time, self.ticks)
        gaps = [w for w in windows if isinstance(w, SessionClause) and isinstance(w.gap, Term)]
        kept = [r for r in kept if all((computed(w, r.data)[GAP] or 0) >= 0 for w in gaps)]
        kept = [r for r in kept if all(computed(w, r.data)[GAP] is not None for w in gaps)]
        keys = [k for k in (named(k, query, feed.names) for k in query.group_by) if not is_pseudo(k, feed)]
        # keys in the order in which they were met, be it by a late row
        met = [s for s in scopes if time is None or s[time] is not None]
        groups: dict[Any, list[Row]] = {tuple(known_by(value_of(k, s)) for k in keys): [] for s in met}
        for row in kept:
            groups[tuple(known_by(value_of(k, row.data)) for k in keys)].append(row)
        return list(groups.values())

    def _of_key(
        self,
        query: Select,
        entries: list[SelectItem],
        feed: Feed,
        window: WindowClause,
        time: str | None,
        rows: list[Row],
        label: str,
        last: int,
    ) -> list[Found]:
        """`last`: the time of the last row of any key."""
        whole = feed.whole(time)
        seen = [r._replace(data={**r.data, **computed(window, r.data)}) for r in rows]
        found = []
        spec = modelled(window, spec_of(window, time, whole), model_of(query.clauses))
        if spec[0] == "ticking":  # those on a column have nothing by which to tell one from the next
            due = ticking(seen, INFINITY, *spec[1:], end=(last // spec[4] + 1) * spec[4])
        else:
            due = list(due_windows(spec, seen, INFINITY).items())
        for (start, end, lo, hi), held in due:
            about = {
                "window": label,
                "window_start": start if whole else as_datetime(start),
                "window_end": end if whole else as_datetime(end),
            }
            about |= {} if lo is None else {"window_from": lo, "window_to": hi}
            # a bare name is that of the window; a column of that name has the alias before it
            scopes = [{**r.data, **under(about, r.data)} for r in held]
            place = (INFINITY if end is None else end, INFINITY if hi is None else hi)
            found += [(place, by, row) for by, row in relation(query, entries, feed, window, scopes)]
        return found


def relation(
    query: Select, entries: list[SelectItem], feed: Feed, window: WindowClause, scopes: list[Scope]
) -> list[Any]:
    """What a select says about the rows of one window."""
    if not is_aggregated(query):
        parts = [(s, None) for s in scopes]
    else:
        groups: dict[Any, list[Scope]] = {}
        for s in scopes:
            groups.setdefault(tuple(known_by(s[p.text.lower()]) for p in window.partitioned), []).append(s)
        parts = [(rows[0], rows) for rows in groups.values()]
    return computed_rows(query, entries, feed.names, parts)


def computed_rows(query: Select, entries: list[SelectItem], names: list[str], parts: list[Any]) -> list[Any]:
    """HAVING, the columns, DISTINCT, ORDER BY and LIMIT over rows or groups of rows: (scope, rows or None)."""
    found: list[Found] = []
    for scope, rows in parts:
        if query.having is not None and value_of(named(query.having, query, names), scope, rows) is not True:
            continue
        values = tuple(value_of(e.expression, scope, rows) for e in entries)
        by = [value_of(ordered_by(i.expression, query), scope, rows) for i in query.order_by]
        found.append((None, by, values))
    if query.distinct:
        found = list({known_by(tuple(item[2])): item for item in reversed(found)}.values())[::-1]
    return [item[1:] for item in in_order(found, query)[: query.limit]]


def in_order(found: list[Found], query: Select) -> list[Found]:
    """By ORDER BY; without a word on nulls they are the smallest values."""
    for place in reversed(range(len(query.order_by))):
        item = query.order_by[place]
        first = item.nulls_first if item.nulls_first is not None else not item.descending
        known = [f for f in found if f[1][place] is not None]
        nulls = [f for f in found if f[1][place] is None]
        known.sort(key=lambda f: order(f[1][place]), reverse=item.descending)
        found = nulls + known if first else known + nulls
    return found
