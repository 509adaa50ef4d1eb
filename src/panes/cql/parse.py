"""Text to statements: the first phase. What it gives is checked for nothing but its grammar.

>>> (found,) = parse("MERGE a, b")
>>> found.statement.streams[0].text
'a'
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from panes.cql.errors import CqlError, SpanMaker
from panes.cql.grammar.statements import StatementReader, continues
from panes.cql.grammar.words import Stop
from panes.cql.lexing import StatementTokens, pieces
from panes.cql.tree import Span, Split, Statement

#: `parse_all` gives up after that many errors, if not told otherwise.
MAX_ERRORS = 100


@dataclass(frozen=True)
class Located:
    """A statement and where it stands: `text` is the whole text that its spans are places of."""

    statement: Statement
    span: Span
    text: str

    @property
    def source(self) -> str:
        """The statement as written."""
        return self.text[self.span.start : self.span.end]


@dataclass(frozen=True)
class Read:
    """What a piece of a text is: a statement, or more clauses of the split before it, which is given anew."""

    piece: StatementTokens
    located: Located
    more: bool = False


class Reading:
    """A text, read statement by statement."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._reader = StatementReader(text, SpanMaker(text))

    @property
    def name_places(self) -> set[int]:
        """Where names begin, as far as the text has been read."""
        return self._reader.name_places

    @property
    def call_places(self) -> set[int]:
        """Where calls of functions begin, as far as the text has been read."""
        return self._reader.call_places

    def items(self) -> Iterator[Read | CqlError]:
        """Statements and errors in the order of the text."""
        before: Located | None = None
        for piece in pieces(self._text):
            item: Read | CqlError
            try:
                if isinstance(piece, CqlError):
                    raise piece
                split = before.statement if before and isinstance(before.statement, Split) else None
                if before and split and continues(split, piece.tokens):
                    item = Read(piece, self._located(piece, split, before.span.start), more=True)
                else:
                    item = Read(piece, self._located(piece, None, piece.tokens[0].start))
            except CqlError as error:
                item = error
            before = None if isinstance(item, CqlError) else item.located
            yield item

    def _located(self, piece: StatementTokens, split: Split | None, start: int) -> Located:
        statement = self._statement(piece, split)
        return Located(statement, self._reader.lines.span(start, piece.tokens[-1].end + 1), self._text)

    def _statement(self, piece: StatementTokens, split: Split | None) -> Statement:
        try:
            return self._reader.more_of(split, piece.tokens) if split else self._reader.whole(piece.tokens)
        except Stop as stop:
            error = stop.error
        except RecursionError:
            span = self._reader.span(piece.tokens[0], piece.tokens[0])
            error = CqlError("this statement is nested too deeply", text=self._text, span=span)
        # raised out here, so that an error does not drag the stack of the parser along
        raise error


def parse(text: str) -> tuple[Located, ...]:
    """All statements of a text; raises the first CqlError."""
    found, errors = parse_all(text, most_errors=1)
    if errors:
        raise errors[0]
    return found


def only_one(text: str) -> Located:
    """The one statement of a text, and where it stands."""
    found = parse(text)
    if len(found) != 1:
        raise CqlError(f"expected one statement, found {len(found)}")
    return found[0]


def parse_one(text: str) -> Statement:
    """The one statement of a text."""
    return only_one(text).statement


def parse_all(text: str, most_errors: int = MAX_ERRORS) -> tuple[tuple[Located, ...], tuple[CqlError, ...]]:
    """All statements that can be read, and all errors: after one, reading goes on behind the next semicolon."""
    found, errors = [], []
    for item in joined(Reading(text).items()):
        if isinstance(item, CqlError):
            errors.append(item)
            if len(errors) == most_errors:
                break
        else:
            found.append(item)
    return tuple(found), tuple(errors)


def joined(items: Iterable[Read | CqlError]) -> Iterator[Located | CqlError]:
    """Statements and errors in the order of the text. A split takes in its clauses behind semicolons."""
    waiting: Located | None = None
    for item in items:
        if waiting and not (isinstance(item, Read) and item.more):
            yield waiting
        waiting = item.located if isinstance(item, Read) else None
        if isinstance(item, CqlError):
            yield item
    if waiting:
        yield waiting
