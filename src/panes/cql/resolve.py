"""Names, types and rules: a statement as written to one in which everything is known.

In: a rewritten statement and the catalog, which stays as it is. Out: a `Resolved`: entries to put into the
catalog, or a query to compile. Whatever breaks a rule raises CqlError where it stands in the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from panes.cql import tree
from panes.cql.catalog import (
    Catalog,
    Resolved,
    ResolvedInput,
    ResolvedMerge,
    ResolvedOutput,
    ResolvedQuery,
    ResolvedSelect,
    ResolvedSink,
    SchemaEntry,
    StreamColumn,
    StreamColumns,
    StreamEntry,
    column_named,
    streams_of,
)
from panes.cql.clauses import StreamClause, Watermark
from panes.cql.errors import CqlError, did_you_mean
from panes.cql.resolve_select import SelectResolver
from panes.cql.tree import ColumnDefinition, Name, Statement
from panes.cql.types import NAMED, conversion, converts, type_named
from panes.errors import ExpressionError
from panes.plan.expressions import column_node, text_of


def resolve(statement: Statement, catalog: Catalog, text: str = "") -> Resolved:
    """What a statement that makes or asks something means; `text` is what its spans are places in."""
    return _Resolver(catalog, text).statement(statement)


class _Resolver(SelectResolver):
    """Statements other than SELECT, which `SelectResolver` knows."""

    def statement(self, node: Statement) -> Resolved:
        if isinstance(node, tree.CreateSchema):
            return self._create_schema(node)
        if isinstance(node, tree.CreateStream):
            return self._create_stream(node)
        if isinstance(node, tree.Select | tree.Merge):
            query = self._query(node)
            self._check_bound(query)
            return query
        if isinstance(node, tree.Insert):
            return self._insert(node)
        if isinstance(node, tree.InsertSink):
            query = self._query(node.query)
            self._check_bound(query)
            return ResolvedSink(node.sink, node.path, query)
        if isinstance(node, tree.Split):
            return self._split(node)
        raise CqlError(f"{type(node).__name__} is not a statement that makes or asks something")

    def _create_schema(self, node: tree.CreateSchema) -> SchemaEntry:
        columns = self._columns(node.definition)
        if node.extends is not None:
            # the parent's columns first, then the new ones (SPEC Q-06)
            columns = (*self._schema(node.extends).columns, *columns)
            self._check_names(columns, node.definition if isinstance(node.definition, tuple) else ())
        if self.catalog.schemas.find(node.name.text) is not None:
            self.fail(f"there is a schema {node.name.text!r} already", node.name, "DROP it first, or rename this one")
        return SchemaEntry(node.name.text, columns)

    def _create_stream(self, node: tree.CreateStream) -> StreamEntry:
        name = node.name.text
        if self.catalog.streams.find(name) is not None:
            self.fail(f"there is a stream {name!r} already", node.name, "DROP it first, or rename this one")
        query = None if node.query is None else self._query(node.query)
        if query is not None and self._reads(query, name):
            self.fail(f"{name} can't read itself", node.name, "a stream is derived from others")
        if node.schema is None:
            if query is None:
                self.fail(f"the stream {name!r} has no schema", node.name, "write (column Type, ...), or AS SELECT ...")
            schema = SchemaEntry(name, query.columns)
        elif isinstance(node.schema, Name):
            schema = self._schema(node.schema)
        else:
            schema = SchemaEntry(name, self._columns(node.schema))
        if query is not None:
            query = self._filled(query, schema.columns, name, node.query, node.name)
        time = self._event_time(node, schema.columns)
        if isinstance(node.source, tree.SourceStream) and node.source.name.lower() not in self._given():
            # it may be given later, but a name that is nearly one of those given is a slip
            near = did_you_mean(node.source.name, self.catalog.data)
            if near:
                self.fail(f"no data was given under the name {node.source.name!r}", node.name, near)
        clauses = tuple(self._stream_clause(clause, node, time) for clause in node.clauses)
        return StreamEntry(name, schema, node.source, query, clauses, None if time is None else time.name)

    def _stream_clause(self, clause: StreamClause, node: tree.CreateStream, time: StreamColumn | None) -> StreamClause:
        if clause.of_sources and node.query is not None:
            hint = "give it to the streams that this one reads"
            self.fail(f"{clause.word} is for streams with a SOURCE", node.name, hint)
        if isinstance(clause, Watermark) and clause.on is not None and time is not None:
            clause = replace(clause, on=Name(time.name, clause.on.span))

        def refuse(message: str, hint: str) -> NoReturn:
            self.fail(message, node.name, hint)

        return clause.resolved(None if time is None else time.type.arrow, refuse)

    def _given(self) -> set[str]:
        return {name.lower() for name in self.catalog.data}

    def _event_time(self, node: tree.CreateStream, columns: StreamColumns) -> StreamColumn | None:
        on = next((clause.on for clause in node.clauses if isinstance(clause, Watermark)), None)
        if on is None:
            return None
        found = column_named(columns, on.text)
        if found is None:
            hint = did_you_mean(on.text, [c.name for c in columns])
            self.fail(f"WATERMARK ... ON {on.text}: {node.name.text} has no column {on.text!r}", on, hint)
        self.check_time(found, on, "WATERMARK ... ON")
        return found

    def _schema(self, name: Name) -> SchemaEntry:
        try:
            return self.catalog.schemas.get(name.text)
        except ExpressionError as error:
            raise CqlError.of(error, self.text or None, name.span) from error

    def _columns(self, definition: Name | Sequence[ColumnDefinition]) -> StreamColumns:
        if isinstance(definition, Name):
            return self._schema(definition).columns
        columns = []
        for attribute in definition:
            found = type_named(attribute.type.text)
            if found is None:
                hint = did_you_mean(attribute.type.text, NAMED) or f"there are: {', '.join(NAMED)}"
                self.fail(f"there is no type {attribute.type.text!r}", attribute.type, hint)
            columns.append(StreamColumn(attribute.name.text, found))
        self._check_names(columns, definition)
        return tuple(columns)

    def _check_names(self, columns: Sequence[StreamColumn], written: Sequence[ColumnDefinition]) -> None:
        seen: set[str] = set()
        for place, column in enumerate(columns):
            if column.name.lower() in seen:
                at = [a.name for a in written if a.name.text.lower() == column.name.lower()]
                self.fail(f"there are two columns named {column.name!r}; case does not count", at[-1] if at else place)
            seen.add(column.name.lower())

    def _query(self, node: tree.Select | tree.Merge) -> ResolvedQuery:
        return self._merge(node) if isinstance(node, tree.Merge) else self.select(node)

    def _merge(self, node: tree.Merge) -> ResolvedMerge:
        if len(node.streams) < 2:
            self.fail("MERGE needs two or more streams", node.streams[0] if node.streams else None)
        inputs = [self.stream(name) for name in node.streams]
        first = inputs[0]
        for entry, name in zip(inputs[1:], node.streams[1:], strict=True):
            difference = _difference(first.columns, entry.columns)
            if difference:
                self.fail(
                    f"{entry.name} and {first.name} can't be merged: {difference}",
                    name,
                    "MERGE takes streams of the same schema; use SELECT to make them alike",
                )
        return ResolvedMerge(tuple(inputs), first.columns)

    def _insert(self, node: tree.Insert) -> StreamEntry:
        target = self.stream(node.target)
        query = self._query(node.query)
        if self._reads(query, target.name):
            self.fail(f"{target.name} can't read itself", node.target, "INSERT INTO binds a stream to others")
        return self._bind(target, query, node.query, node.target)

    def _bind(self, target: StreamEntry, query: ResolvedQuery, written: object, name: Name) -> StreamEntry:
        if target.bound:
            self.fail(
                f"{target.name} has a source already",
                name,
                "INSERT INTO binds a stream that was created without one; use MERGE to read several",
            )
        return replace(target, query=self._filled(query, target.columns, target.name, written, name))

    def _split(self, node: tree.Split) -> tuple[StreamEntry, ...]:
        source = self.stream(node.source)
        made: dict[str, StreamEntry] = {}
        for clause in node.clauses:
            if clause.stream is not None and clause.stream.text.lower() != source.name.lower():
                self.fail(
                    f"this part of the split reads {clause.stream.text}, but the split is ON {source.name}",
                    clause.stream,
                    "every part reads the stream that is split; leave FROM out",
                )
            select = tree.Select(clause.entries, tree.StreamRef(node.source), clause.where)
            query = self.select(select)
            name = clause.target.text
            if name.lower() == source.name.lower():
                self.fail(f"{source.name} can't be split into itself", clause.target)
            if name.lower() in made:
                self.fail(f"two parts of the split go to {name}", clause.target, "give each a stream of its own")
            known = self.catalog.streams.find(name)
            if known is None:
                made[name.lower()] = StreamEntry(name, SchemaEntry(name, query.columns), query=query)
            else:
                if self._reads(query, known.name):
                    self.fail(f"{known.name} can't read itself", clause.target)
                made[name.lower()] = self._bind(known, query, select, clause.target)
        return tuple(made.values())

    def _filled(
        self, query: ResolvedQuery, wanted: StreamColumns, name: str, written: object, at: Name
    ) -> ResolvedQuery:
        """A query whose columns are those of the stream that it fills: by position, converted where implied."""
        given = query.columns
        if len(given) != len(wanted):
            self.fail(
                f"{name} has {len(wanted)} column(s), and the query gives {len(given)}",
                at,
                f"{name} is ({', '.join(map(str, wanted))})",
            )
        if isinstance(query, ResolvedMerge):
            if given == wanted:
                return query
            inner = ResolvedInput(name, given, query)
            query = ResolvedSelect(tuple(ResolvedOutput(c.name, column_node(c.name), c.type) for c in given), inner)
        entries = written.entries if isinstance(written, tree.Select) else ()
        outputs: list[ResolvedOutput] = []
        for place, (output, column) in enumerate(zip(query.outputs, wanted, strict=True)):
            if not converts(output.type, column.type):
                spot = entries[place].expression if len(entries) == len(wanted) else at
                self.fail(
                    f"column {place + 1} of {name} is {column}, and {output.type} does not become {column.type} "
                    "by itself",
                    spot,
                    "write CAST(... AS ...) if it should",
                )
            made = conversion(output.tree, output.type, column.type)
            outputs.append(ResolvedOutput(column.name, made, column.type, output.span))
        if query.distinct:
            # distinct rows are ordered by what they hold
            changed = {text_of(old.tree): new.tree for old, new in zip(query.outputs, outputs, strict=True)}
            order = tuple(replace(o, tree=changed.get(text_of(o.tree), o.tree)) for o in query.order_by)
            query = replace(query, order_by=order)
        return replace(query, outputs=tuple(outputs))

    def _reads(self, query: ResolvedQuery, name: str) -> bool:
        """Whether a query reads the stream `name`, itself or through streams derived from it."""
        return any(
            entry.name.lower() == name.lower() or (entry.query is not None and self._reads(entry.query, name))
            for entry in map(self._current, streams_of(query))
        )

    def _check_bound(self, query: ResolvedQuery) -> None:
        for entry in map(self._current, streams_of(query)):
            if not entry.bound:
                self.fail(
                    f"{entry.name} has no source yet, so it can't be queried",
                    self.places.get(entry.name.lower()),
                    f"bind it: INSERT INTO {entry.name} SELECT ..., or create it with SOURCE ...",
                )
            if entry.query is not None:
                self._check_bound(entry.query)

    def _current(self, entry: StreamEntry) -> StreamEntry:
        """The entry as it is now: it may have been bound since."""
        return self.catalog.streams.find(entry.name) or entry


def _difference(left: StreamColumns, right: StreamColumns) -> str:
    if len(left) != len(right):
        return f"{len(left)} columns against {len(right)}"
    for one, other in zip(left, right, strict=True):
        if one.name.lower() != other.name.lower() or one.type != other.type:
            return f"{one} against {other}"
    return ""
