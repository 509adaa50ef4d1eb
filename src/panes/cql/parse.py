"""Text to statements: the first phase. What it gives is checked for nothing but its grammar.

>>> (found,) = parse("MERGE a, b")
>>> found.statement.streams[0].text
'a'
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from panes.cql.errors import CqlError, Lines
from panes.cql.grammar.statements import Statements, continues
from panes.cql.grammar.words import Stop
from panes.cql.lexing import Piece, pieces
from panes.cql.tree import Span, Split, Statement

#: `parse_all` gives up after that many errors.
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


def parse(text: str) -> tuple[Located, ...]:
    """All statements of a text; raises the first CqlError."""
    found = []
    for item in _items(text):
        if isinstance(item, CqlError):
            raise item
        found.append(item)
    return tuple(found)


def parse_one(text: str) -> Statement:
    """The one statement of a text."""
    found = parse(text)
    if len(found) != 1:
        raise CqlError(f"expected one statement, found {len(found)}")
    return found[0].statement


def parse_all(text: str) -> tuple[tuple[Located, ...], tuple[CqlError, ...]]:
    """All statements that can be read, and all errors: after one, reading goes on behind the next semicolon."""
    found, errors = [], []
    for item in _items(text):
        if isinstance(item, CqlError):
            errors.append(item)
            if len(errors) == MAX_ERRORS:
                break
        else:
            found.append(item)
    return tuple(found), tuple(errors)


def _items(text: str) -> Iterator[Located | CqlError]:
    """Statements and errors in the order of the text. A split takes in its clauses behind semicolons."""
    waiting: Located | None = None
    reader: Statements | None = None
    for piece in pieces(text):
        if isinstance(piece, CqlError):
            item: Located | CqlError = piece
        else:
            reader = reader or Statements(text, Lines(text))
            if waiting and isinstance(waiting.statement, Split) and continues(waiting.statement, piece.tokens):
                item = _read(reader, piece, waiting)
                if isinstance(item, Located):
                    waiting = item
                    continue
            else:
                item = _read(reader, piece, None)
        if waiting:
            yield waiting
            waiting = None
        if isinstance(item, Located) and isinstance(item.statement, Split):
            waiting = item
        else:
            yield item
    if waiting:
        yield waiting


def _read(reader: Statements, piece: Piece, split: Located | None) -> Located | CqlError:
    before = split.statement if split and isinstance(split.statement, Split) else None
    try:
        statement = read_piece(reader, piece, before)
    except CqlError as error:
        return error
    first = split.span.start if split and before else piece.tokens[0].start
    return Located(statement, reader.lines.span(first, piece.tokens[-1].end + 1), reader.sql)


def read_piece(reader: Statements, piece: Piece, split: Split | None) -> Statement:
    """The statement that the tokens of a piece are, or `split` with the further clauses that they are."""
    try:
        return reader.more_of(split, piece.tokens) if split else reader.whole(piece.tokens)
    except Stop as stop:
        error = stop.error
    except RecursionError:
        span = reader.span(piece.tokens[0], piece.tokens[0])
        error = CqlError("this statement is nested too deeply", text=reader.sql, span=span)
    # raised out here, so that an error does not drag the stack of the parser along
    raise error
