"""Statements in words: resolved ones and catalog entries for EXPLAIN, SHOW and DESCRIBE, and notes on those written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from panes.cql import tree
from panes.cql.catalog import (
    Catalog,
    Resolved,
    ResolvedInput,
    ResolvedJoin,
    ResolvedMerge,
    ResolvedQuery,
    ResolvedSink,
    ResolvedSource,
    SchemaEntry,
    StreamEntry,
    streams_of,
)
from panes.cql.expressions import SelectNames
from panes.cql.sources import stream_of_data
from panes.cql.timing import known_time, time_of
from panes.cql.tree import Join, Reference, Select, SourceFile, SourceSocket, SourceStream, Span, Statement, SubqueryRef
from panes.cql.windows.clause import WindowClause


def describe(name: str, catalog: Catalog) -> tuple[tuple[str, str, str], ...] | None:
    """Columns of a stream or schema, with what is known of each."""
    entry = catalog.streams.find(name) or stream_of_data(catalog, name)
    if entry is None:
        schema = catalog.schemas.find(name)
        return None if schema is None else tuple((c.name, str(c.type), "") for c in schema.columns)
    time = known_time(entry)
    return tuple((c.name, str(c.type), "event time" if c.name == time else "") for c in entry.columns)


def source_text(entry: StreamEntry) -> str:
    """Where a stream's rows come from."""
    source = entry.source
    if isinstance(source, SourceFile):
        return f"file {source.path}"
    if isinstance(source, SourceSocket):
        return f"socket {source.host}:{source.port}"
    if isinstance(source, SourceStream):
        return f"data {source.name}"
    if entry.query is None:
        return "none yet"
    return f"derived from {', '.join(dict.fromkeys(s.name for s in streams_of(entry.query)))}"


def resolved_text(resolved: Resolved) -> str:
    """What `resolve` found, line by line."""
    if isinstance(resolved, SchemaEntry):
        return f"schema {resolved.name} ({', '.join(map(str, resolved.columns))})"
    if isinstance(resolved, tuple):
        return "\n".join(map(resolved_text, resolved))
    if isinstance(resolved, StreamEntry):
        head = f"stream {resolved.name} ({', '.join(map(str, resolved.columns))})"
        if resolved.query is None:
            return f"{head}\n  source {source_text(resolved)}{_silence(resolved)}"
        return f"{head}\n{_indented(_query(resolved.query))}"
    if isinstance(resolved, ResolvedSink):
        return (
            f"into {resolved.sink}{f' {resolved.path}' if resolved.path else ''}\n{_indented(_query(resolved.query))}"
        )
    return _query(resolved)


def _silence(entry: StreamEntry) -> str:
    said = (clause for clause in entry.clauses if clause.of_sources)
    return "".join(f"\n  {clause.word.lower()} {clause.length.cql()}" for clause in said)


def _query(query: ResolvedQuery) -> str:
    if isinstance(query, ResolvedMerge):
        return f"merge {', '.join(e.name for e in query.inputs)}"
    text = SelectNames.of(query.source).text
    lines = ["select", *(f"  {o.name} {o.type} = {text(o.tree)}" for o in query.outputs)]
    lines.append("from")
    lines.append(_indented(_source(query.source)))
    for word, found in (
        ("where", query.where),
        ("having", query.having),
    ):
        if found is not None:
            lines.append(f"{word} {text(found)}")
    if query.keys:
        lines.append(f"a window per {', '.join(text(k.tree) for k in query.keys)}")
    if query.parts:
        lines.append(f"groups inside of each window by {', '.join(map(text, query.parts))}")
    for order in query.order_by:
        lines.append(f"order by {text(order.tree)}{' descending' if order.descending else ''}")
    if query.limit is not None:
        lines.append(f"limit {query.limit}")
    if query.distinct:
        lines.append("distinct")
    lines += [clause.said() for clause in query.clauses]
    return "\n".join(lines)


def _source(source: ResolvedSource) -> str:
    if isinstance(source, ResolvedJoin):
        head = f"{source.kind} join"
        if source.on is not None:
            head += f" on {SelectNames.of(source).text(source.on)}"
        if source.using:
            head += f" using {', '.join(source.using)}"
        return f"{head}\n{_indented(_source(source.left))}\n{_indented(_source(source.right))}"
    lines = [f"{_named(source)}"]
    if not isinstance(source.origin, StreamEntry):
        lines.append(_indented(_query(source.origin)))
    if source.windows:
        lines.append(f"  time {time_of(source) or 'of arrival'}")
        lines += [f"  window {w.cql()}" for w in source.windows]
    return "\n".join(lines)


def _named(source: ResolvedInput) -> str:
    if not isinstance(source.origin, StreamEntry):
        return f"subquery {source.alias}".rstrip()
    name = source.origin.name
    return f"stream {name}" if source.alias == name else f"stream {name} as {source.alias}"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


@dataclass(frozen=True)
class Note:
    """What is right, but may not be what was meant."""

    short: str
    hint: str
    span: Span | None


def notes_on(statement: Statement) -> Iterator[Note]:
    """The notes on a statement as it is written."""
    if isinstance(statement, tree.Explain):
        yield from notes_on(statement.statement)
    query = statement if isinstance(statement, Select) else getattr(statement, "query", None)
    if isinstance(query, Select):
        for window in _windows(query.source):
            note = window.note()
            if note is not None:
                yield Note(*note, window.span)


def _windows(source: Reference) -> Iterator[WindowClause]:
    if isinstance(source, Join):
        yield from _windows(source.left)
        yield from _windows(source.right)
        return
    yield from source.windows
    if isinstance(source, SubqueryRef):
        yield from _windows(source.query.source)
