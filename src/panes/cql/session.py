"""A session: statements run one after the other, what they make is remembered.

    session = Session({"trades": frame})
    for answer in session.run("SELECT symbol, avg(price) FROM trades [SIZE 10 min ON ts] GROUP BY symbol"):
        print(answer.query.to_pandas())

Each statement goes through the phases parse, rewrite, resolve and compile; `phase` prints what one of them gives.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from panes.cql import tree
from panes.cql.catalog import (
    Catalog,
    QueryEntry,
    Resolved,
    ResolvedMerge,
    ResolvedSelect,
    ResolvedSink,
    SchemaEntry,
    StreamEntry,
    streams_of,
)
from panes.cql.compile import Built, compile_query
from panes.cql.describe import describe, resolved_text, source_text
from panes.cql.errors import CqlError, did_you_mean, problem
from panes.cql.parse import Located, only_one, parse
from panes.cql.resolve import resolve
from panes.cql.rewrite import rewrite
from panes.cql.sources import Runner, Settings, UserData
from panes.cql.tree import PHASES, Phase, Statement
from panes.errors import ExpressionError, QueryError


@dataclass(frozen=True)
class Notice:
    """A statement was carried out; `text` says what came of it."""

    text: str


@dataclass(frozen=True)
class QueryRows:
    """A query, not run yet: whoever asked decides where its rows go. `sink` is what INSERT INTO named."""

    query: Built
    name: str = ""
    sink: Literal["file", "console"] | None = None
    path: str | None = None


@dataclass(frozen=True)
class Table:
    """What SHOW, DESCRIBE and EXPLAIN tell."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


Answer = Notice | QueryRows | Table


class Session:
    """What statements have made so far, and the data they can read.

    - `streams`: data by name: pandas, Arrow, lists, Spark DataFrames, streams. Each is a stream to query.
    - `runner`: "local" reads files in this process, "spark" lets Spark read them.
    - `clock`: microseconds since 1970 as a function, for arrival times; None: the clock of the machine.
    - `folder`: where relative paths of files start; None: the current folder.
    - `streaming`: on Spark, watch files as they come instead of reading those that are there.
    """

    def __init__(
        self,
        streams: Mapping[str, Any] | None = None,
        *,
        runner: Runner = "local",
        clock: Callable[[], int] | None = None,
        folder: str | Path | None = None,
        streaming: bool = False,
        timeout: float | None = None,
    ) -> None:
        if runner not in ("local", "spark"):
            raise QueryError(f"runner must be 'local' or 'spark'; got {runner!r}")
        self.catalog = Catalog()
        for name, data in (streams or {}).items():
            self.give(name, data)
        where = None if folder is None else Path(folder)
        self.settings = Settings(runner, clock, where, streaming, timeout)

    def give(self, name: str, data: Any) -> None:
        """Give the session data under a name; it can be queried by that name."""
        if not isinstance(name, str) or not name:
            raise QueryError(f"streams: names must be non-empty text; got {name!r}")
        if any(known.lower() == name.lower() and known != name for known in self.catalog.data):
            raise QueryError(f"streams: {name!r} differs from another name only in case, which does not count")
        self.catalog.data[name] = UserData(name, data)

    def run(self, text: str) -> Iterator[Answer]:
        """Every statement of a text, one after the other; what each comes to."""
        for located in parse(text):
            yield self.execute(located)

    def execute(self, statement: Located | Statement | str) -> Answer:
        """One statement."""
        located = _located(statement)
        return self._execute(located.statement, located)

    def phase(self, statement: Located | Statement | str, phase: Phase) -> str:
        """What a phase makes of a statement, as text. Nothing is changed."""
        located = _located(statement)
        return self._phase(located.statement, located, phase)

    def check(self, located: Located) -> None:
        """Go through all phases but the last and remember what the statement makes; nothing is opened."""
        node = located.statement
        if isinstance(node, tree.Explain):
            node = node.statement
        if isinstance(node, tree.Show | tree.Describe | tree.Drop):
            self._execute(node, located)
        else:
            resolved = self._resolved(node, located)
            if node is not located.statement:
                return
            if isinstance(resolved, ResolvedSink):
                self._new_query(located, resolved.target)
            else:
                self._remember(resolved)

    def _execute(self, node: Statement, located: Located) -> Answer:
        if isinstance(node, tree.Show):
            return self._show(node)
        if isinstance(node, tree.Describe):
            return self._describe(node, located.text)
        if isinstance(node, tree.Drop):
            return self._drop(node, located.text)
        if isinstance(node, tree.Explain):
            phase = node.phase or "compile"
            if phase not in PHASES:
                hints = [f"there are: {', '.join(PHASES)}"]
                raise CqlError(f"there is no phase {phase!r}", text=located.text, span=located.span, hints=hints)
            return _lines(self._phase(node.statement, located, phase))
        resolved = self._resolved(node, located)
        if isinstance(resolved, ResolvedSink):
            query = self._compiled(resolved.query, located)
            name = self._new_query(located, resolved.target)
            return QueryRows(query, name, resolved.sink, resolved.path)
        if isinstance(resolved, ResolvedSelect | ResolvedMerge):
            return QueryRows(self._compiled(resolved, located))
        return Notice(self._remember(resolved))

    def _resolved(self, node: Statement, located: Located) -> Resolved:
        text, whole = located.text, located.span
        try:
            return resolve(rewrite(node, text), self.catalog, text)
        except CqlError as error:
            if error.span is not None:
                raise
            raise CqlError(error.short, text=text, span=whole, hints=error.hints) from error
        except ExpressionError as error:
            raise CqlError.of(error, text, whole) from error
        except RecursionError:
            raise CqlError("this statement is nested too deeply", text=text, span=whole) from None

    def _compiled(self, resolved: ResolvedSelect | ResolvedMerge, located: Located) -> Built:
        try:
            return compile_query(resolved, self.catalog, self.settings)
        except RecursionError:
            raise CqlError("this statement is nested too deeply", text=located.text, span=located.span) from None
        except CqlError:
            raise
        except QueryError as error:
            raise CqlError.of(error, located.text, located.span) from error

    def _remember(self, resolved: Resolved) -> str:
        if isinstance(resolved, SchemaEntry):
            self.catalog.schemas.add(resolved)
            return f"schema {resolved.name} created"
        entries = resolved if isinstance(resolved, tuple) else (resolved,)
        said = []
        for entry in entries:
            if not isinstance(entry, StreamEntry):
                return ""
            known = self.catalog.streams.find(entry.name) is not None
            self.catalog.streams.put(entry)
            if not known and entry.schema.name == entry.name and self.catalog.schemas.find(entry.name) is None:
                # an anonymous schema has the stream's own name (SPEC Q-07)
                self.catalog.schemas.add(entry.schema)
            said.append(f"stream {entry.name} {'bound' if known else 'created'}")
        return ", ".join(said)

    def _new_query(self, located: Located, target: str) -> str:
        name = f"query_{len(self.catalog.queries) + 1}"
        while self.catalog.queries.find(name) is not None:
            name += "_"
        self.catalog.queries.add(QueryEntry(name, " ".join(located.source.split()), target))
        return name

    def _show(self, node: tree.Show) -> Table:
        if node.what == "schemas":
            rows = [(s.name, ", ".join(map(str, s.columns))) for s in self.catalog.schemas]
            return Table(("schema", "columns"), tuple(rows))
        if node.what == "queries":
            return Table(("query", "target", "text"), tuple((q.name, q.target, q.text) for q in self.catalog.queries))
        made = [(e.name, ", ".join(map(str, e.columns)), source_text(e)) for e in self.catalog.streams]
        known = {name.lower() for name, *_ in made}
        for given in self.catalog.data.values():
            if given.name.lower() not in known:
                made.append((given.name, ", ".join(map(str, given.columns)), "given by the program"))
        return Table(("stream", "columns", "source"), tuple(made))

    def _describe(self, node: tree.Describe, text: str) -> Table:
        found = describe(node.name.text, self.catalog)
        if found is None:
            known = [*self.catalog.streams.names, *self.catalog.schemas.names, *self.catalog.data]
            raise CqlError(
                f"there is no stream or schema {node.name.text!r}",
                text=text or None,
                span=node.name.span,
                hints=[did_you_mean(node.name.text, known)],
            )
        return Table(("column", "type", "note"), found)

    def _drop(self, node: tree.Drop, text: str) -> Notice:
        register: Any = {
            "stream": self.catalog.streams,
            "schema": self.catalog.schemas,
            "query": self.catalog.queries,
        }[node.what]
        try:
            entry = register.get(node.name.text)
            if node.what == "stream":
                self._check_unused(entry)
            register.remove(node.name.text)
        except ExpressionError as error:
            raise CqlError.of(error, text or None, node.name.span) from error
        if node.what == "stream":
            own = self.catalog.schemas.find(entry.name)
            if own is not None and own is entry.schema:
                self.catalog.schemas.remove(entry.name)
        return Notice(f"{node.what} {entry.name} dropped")

    def _check_unused(self, entry: StreamEntry) -> None:
        for other in self.catalog.streams:
            if other.query is not None and any(s.name == entry.name for s in streams_of(other.query)):
                raise problem(f"{other.name} reads {entry.name}", f"DROP STREAM {other.name} first")

    def _phase(self, node: Statement, located: Located, phase: Phase) -> str:
        if phase not in PHASES:
            raise QueryError(f"phase must be one of {', '.join(PHASES)}; got {phase!r}")
        if isinstance(node, tree.Explain):
            node = node.statement
        if phase == "parse":
            return node.cql()
        simpler = rewrite(node, located.text)
        if phase == "rewrite":
            return simpler.cql()
        if isinstance(node, tree.Show | tree.Describe | tree.Drop):
            return node.cql()
        resolved = self._resolved(node, located)
        if phase == "resolve":
            return resolved_text(resolved)
        query = resolved.query if isinstance(resolved, ResolvedSink | StreamEntry) else resolved
        if isinstance(query, ResolvedSelect | ResolvedMerge):
            return str(compile_query(query, self.catalog, self.settings).explain())
        return resolved_text(resolved)


def sql(text: str, streams: Mapping[str, Any] | None = None, **options: Any) -> Built:
    """The stream or query that CQL text means: that of its last SELECT, MERGE or INSERT INTO a sink.

    `streams` gives data by name; `options` are those of `Session`: runner, clock, folder and so on.

    >>> ticks = [{"symbol": "A", "price": 10.0, "ts": 1}, {"symbol": "A", "price": 20.0, "ts": 2}]
    >>> query = sql("SELECT symbol, avg(price) AS mean FROM ticks [SIZE 5 ON ts] GROUP BY symbol", {"ticks": ticks})
    >>> list(query.rows())
    [{'symbol': 'A', 'mean': 15.0}]
    """
    if not isinstance(text, str):
        raise QueryError(f"sql() takes CQL text; got {type(text).__name__}")
    last: Built | None = None
    for answer in Session(streams, **options).run(text):
        if isinstance(answer, QueryRows):
            last = answer.query
    if last is None:
        raise QueryError(
            "sql(): the text has no SELECT or MERGE, so there is nothing to run; use panes.cql.session.Session"
        )
    return last


def _located(statement: Located | Statement | str) -> Located:
    if isinstance(statement, str | Located):
        return only_one(statement) if isinstance(statement, str) else statement
    return Located(statement, tree.Span(0, 0, 1, 1), "")


if not TYPE_CHECKING:  # type checkers shall see the names of now

    def __getattr__(name: str) -> Any:
        """What answers were called before: they are still found, with a warning, for one release."""
        renamed = {"Rows": QueryRows, "Said": Notice}
        if name not in renamed:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        warnings.warn(f"{__name__}.{name} is now {renamed[name].__name__}", DeprecationWarning, stacklevel=2)
        return renamed[name]


def _lines(text: str) -> Table:
    return Table(("plan",), tuple((line,) for line in text.splitlines()))
