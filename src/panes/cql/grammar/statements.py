"""Statements: CREATE, INSERT, splits, and questions about the session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from sqlglot.tokens import Token, TokenType

from panes.cql import tree
from panes.cql.clauses import STREAM_CLAUSES
from panes.cql.grammar.queries import QueryReader
from panes.cql.grammar.words import CREATED, DROPPED, STATEMENTS

PHASES = {phase.upper(): phase for phase in tree.PHASES}
_SHOWN: dict[str, Literal["streams", "schemas", "queries"]] = {
    "STREAMS": "streams",
    "SCHEMAS": "schemas",
    "QUERIES": "queries",
}
_DROPPED: dict[str, Literal["stream", "schema", "query"]] = {"STREAM": "stream", "SCHEMA": "schema", "QUERY": "query"}
#: Words that may follow the name of a stream that is made, so that they are no schema.
_STREAM_PARTS = ("AS", "SOURCE", *STREAM_CLAUSES)


class StatementReader(QueryReader):
    """The whole grammar. `statement` reads one statement, which must be all that `tokens` hold."""

    def whole(self, tokens: list[Token]) -> tree.Statement:
        self.open(tokens)
        self.could_follow = ()
        statement = self._statement()
        self._expect_end()
        return statement

    def more_of(self, split: tree.Split, tokens: list[Token]) -> tree.Split:
        """`split` with the clauses of a piece behind its semicolon."""
        self.open(tokens)
        clauses = self._split_clauses()
        self._expect_end()
        return replace(split, clauses=(*split.clauses, *clauses))

    def _expect_end(self) -> None:
        if self._curr:
            self.fail_expecting(*self.could_follow, "';'")

    def _statement(self) -> tree.Statement:
        readers: dict[str, Callable[[], tree.Statement]] = {
            "CREATE": self._create,
            "SELECT": self.select,
            "MERGE": self.merge,
            "INSERT": self._insert,
            "ON": self._split,
            "EXPLAIN": self._explain,
            "SHOW": self._show,
            "DESCRIBE": self._describe,
            "DESC": self._describe,
            "DROP": self._drop,
        }
        read = readers.get(self.word)
        if read is not None:
            return read()
        if self.at_sign(TokenType.L_PAREN):
            return self.query()
        return self.fail_expecting(*(word for word in readers if word != "DESC"), habits=STATEMENTS)

    def _create(self) -> tree.Statement:
        self.expect("CREATE")
        if self.take("SCHEMA"):
            return self._create_schema()
        if self.take("STREAM"):
            return self._create_stream()
        return self.fail_expecting("SCHEMA", "STREAM", habits=CREATED)

    def _create_schema(self) -> tree.CreateSchema:
        name = self.name("a name for the schema")
        if self.at("EXTENDS") and self._next and self._next.text.upper() != "EXTENDS":
            self.fail("expected columns before EXTENDS", "write CREATE SCHEMA name (column type, ...) EXTENDS parent")
        definition = self._schema()
        return tree.CreateSchema(name, definition, self.name("a schema") if self.take("EXTENDS") else None)

    def _schema(self) -> tree.Name | tree.ColumnDefinitions:
        """`(a INT, b STRING)`, or the name of a schema."""
        if self.at_sign(TokenType.L_PAREN):
            return self.in_parentheses(lambda: self.listing(self._attribute))
        return self.name("a schema, or columns in parentheses")

    def _attribute(self) -> tree.ColumnDefinition:
        return tree.ColumnDefinition(self.name("a column"), self._type())

    def _type(self) -> tree.Name:
        """`INT`, `DECIMAL(10, 2)`, `String(25)`, `TIMESTAMP[ns]`"""
        first = self._curr
        name = self.name("a type")
        if self.take_sign(TokenType.L_BRACKET):
            unit = self.name("a unit such as ns")
            self.expect_sign(TokenType.R_BRACKET, "]")
            return tree.Name(f"{name.text}[{unit.text}]", self.span(first))
        if not self.at_sign(TokenType.L_PAREN):
            return name
        sizes = self.in_parentheses(lambda: self.listing(lambda: self.integer("a number")))
        return tree.Name(f"{name.text}({', '.join(map(str, sizes))})", self.span(first))

    def _create_stream(self) -> tree.CreateStream:
        name = self.name("a name for the stream")
        has_schema = bool(self._curr) and self.word not in _STREAM_PARTS
        parts: dict[str, Any] = {}
        schema = self._schema() if has_schema else None
        while (word := self.word) in _STREAM_PARTS:
            field = "query" if word == "AS" else word.lower()
            if field in parts:
                self.fail(f"{word} is there already")
            if field in ("query", "source") and ("query" in parts or "source" in parts):
                self.fail(f"{word} can't follow: a stream has one source, AS or SOURCE")
            self.take(word)
            parts[field] = self._stream_part(word)
        if schema is None and "query" not in parts:
            self.fail_expecting("a schema", "'('", "AS")
        self.could_follow = tuple(word for word in _STREAM_PARTS if word.lower() not in parts)
        clauses = tuple(parts[word.lower()] for word in STREAM_CLAUSES if word.lower() in parts)
        return tree.CreateStream(name, schema, parts.get("source"), parts.get("query"), clauses)

    def _stream_part(self, word: str) -> Any:
        if word == "AS":
            return self.query()
        return self._source_of_stream() if word == "SOURCE" else STREAM_CLAUSES[word].read(self)

    def _source_of_stream(self) -> tree.RawSource:
        kinds: dict[str, Callable[[], tree.RawSource]] = {
            "FILE": self._file,
            "SOCKET": self._socket,
            "STREAM": self._named,
        }
        for word, read in kinds.items():
            if self.take(word):
                return self.in_parentheses(read)
        return self.fail_expecting(*kinds)

    def _file(self) -> tree.SourceFile:
        return tree.SourceFile(self.text("a path"), self._delimiter())

    def _socket(self) -> tree.SourceSocket:
        host = self.text("a host")
        self.expect_sign(TokenType.COMMA, ",")
        return tree.SourceSocket(host, self.integer("a port, a number"), self._delimiter())

    def _named(self) -> tree.SourceStream:
        return tree.SourceStream(self.text("a name"))

    def _delimiter(self) -> str | None:
        return self.text("a delimiter") if self.take_sign(TokenType.COMMA) else None

    def _insert(self) -> tree.Statement:
        self.expect("INSERT")
        self.expect("INTO")
        if self.at("FILE") and self._next.token_type == TokenType.L_PAREN:
            self.take("FILE")
            path = self.in_parentheses(lambda: self.text("a path"))
            return tree.InsertSink("file", path, self._inserted())
        if self.take("CONSOLE"):
            return tree.InsertSink("console", None, self._inserted())
        return tree.Insert(self.name("a stream, FILE (...) or CONSOLE"), self._inserted())

    def _inserted(self) -> Any:
        self.take("AS")
        return self.query()

    def _split(self) -> tree.Split:
        self.expect("ON")
        source = self.name("a stream")
        return tree.Split(source, self._split_clauses())

    def _split_clauses(self) -> tuple[tree.SplitClause, ...]:
        clauses = [self._split_clause()]
        while self.at("INSERT"):
            clauses.append(self._split_clause())
        self.could_follow = ("INSERT",)
        return tuple(clauses)

    def _split_clause(self) -> tree.SplitClause:
        self.expect("INSERT")
        self.expect("INTO")
        target = self.name("a stream")
        self.take("AS")
        self.expect("SELECT")
        entries = self.entries()
        stream = self.name("a stream") if self.take("FROM") else None
        if not self.take("WHERE"):
            self.fail_expecting("WHERE")
        return tree.SplitClause(target, entries, self.condition(), stream)

    def _explain(self) -> tree.Explain:
        self.expect("EXPLAIN")
        phase = next((phase for word, phase in PHASES.items() if self.take(word)), None)
        if self.at("EXPLAIN"):
            self.fail("EXPLAIN is there already")
        return tree.Explain(self._statement(), phase)

    def _show(self) -> tree.Show:
        self.expect("SHOW")
        for word, what in _SHOWN.items():
            if self.take(word):
                return tree.Show(what)
        return self.fail_expecting(*_SHOWN)

    def _describe(self) -> tree.Describe:
        self.expect("DESC" if self.at("DESC") else "DESCRIBE")
        return tree.Describe(self.name("a stream or a schema"))

    def _drop(self) -> tree.Drop:
        self.expect("DROP")
        for word, what in _DROPPED.items():
            if self.take(word):
                return tree.Drop(what, self.name())
        return self.fail_expecting(*_DROPPED, habits=DROPPED)


def continues(split: tree.Split, tokens: list[Token]) -> bool:
    """Whether a statement behind a split is one more clause of it.

    It is if it can't stand alone, having no FROM, or reads plainly from the very stream of the split.
    """
    if not tokens or tokens[0].token_type != TokenType.INSERT:
        return False
    depth, selects = 0, False
    for place, token in enumerate(tokens):
        if token.token_type in (TokenType.L_PAREN, TokenType.L_BRACKET):
            depth += 1
        elif token.token_type in (TokenType.R_PAREN, TokenType.R_BRACKET):
            depth -= 1
        elif depth == 0 and token.text.upper() == "MERGE":
            return False
        elif depth == 0 and token.token_type == TokenType.SELECT:
            selects = True
        elif depth == 0 and token.token_type == TokenType.FROM:
            rest = tokens[place + 1 : place + 3]
            same = bool(rest) and rest[0].text.lower() == split.source.text.lower()
            return same and len(rest) == 2 and rest[1].token_type == TokenType.WHERE
    return selects  # a query in parentheses stands alone
