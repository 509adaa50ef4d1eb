"""What is wrong with a text: where, the piece underlined, and what would be right.

Every error of the language is a `CqlError`, from the first sign that can't be read to the rule that a
resolved query breaks:

    line 1, column 15: there is no stream 'trdes'
      SELECT a FROM trdes [SIZE 3]
                    ^^^^^
      did you mean 'trades'?
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from panes.cql.tree import Span
from panes.cql.types import type_of
from panes.errors import ExpressionError, QueryError
from panes.plan.hints import nearest
from panes.plan.written import place_of

#: How much of a long line is shown around the piece that is underlined.
_SHOWN = 100


class CqlError(QueryError):
    """Text that can't be read, or a statement that breaks a rule of the language.

    `short` is the message alone; `span` is the piece of `text` that it is about; `hints` are the lines below
    it: what was expected, the nearest name, the rule.

    >>> print(CqlError("there is no stream 'b'", text="MERGE a, b", span=span_at("MERGE a, b", 9, 10)))
    line 1, column 10: there is no stream 'b'
      MERGE a, b
               ^
    """

    def __init__(
        self, short: str, *, text: str | None = None, span: Span | None = None, hints: Iterable[str] = ()
    ) -> None:
        self.short = short
        self.text = text
        self.span = span
        self.hints = tuple(hint for hint in hints if hint)
        super().__init__("\n".join(self._lines()))

    @classmethod
    def of(cls, error: QueryError, text: str | None, span: Span | None) -> CqlError:
        """An error of the layers below, about a piece of the text."""
        if isinstance(error, ExpressionError):
            return cls(error.told(lambda kind: type_of(kind).name), text=text, span=span, hints=[error.hint])
        return cls(str(error), text=text, span=span)

    def _lines(self) -> list[str]:
        below = [f"  {hint}" for hint in self.hints]
        if self.span is None:
            return [self.short, *below]
        first = f"line {self.span.line}, column {self.span.column}: {self.short}"
        if self.text is None:
            return [first, *below]
        return [first, *underlined(self.text, self.span), *below]


def problem(what: str, hint: str = "") -> ExpressionError:
    """A name that can't be used, and what would be right. Where it stands in the text is for others to say."""
    return ExpressionError(what, after=f"; {hint}" if hint else "", hint=hint)


def span_at(text: str, start: int, end: int) -> Span:
    """The span of text[start:end], with its line and column counted from 1."""
    begin = text.rfind("\n", 0, start) + 1
    return Span(start, end, text.count("\n", 0, start) + 1, start - begin + 1)


class SpanMaker:
    """Makes many spans of one text, quickly if they come about in order."""

    def __init__(self, text: str) -> None:
        self._text = text
        #: how far lines have been counted: a place, its line, and where that line begins
        self._place, self._line, self._begin = 0, 1, 0

    def span(self, start: int, end: int) -> Span:
        if start < self._begin:
            return span_at(self._text, start, end)
        count = self._text.count("\n", self._place, start)
        if count:
            self._line += count
            self._begin = self._text.rfind("\n", self._place, start) + 1
        self._place = max(self._place, start)
        return Span(start, end, self._line, start - self._begin + 1)


def span_of(node: exp.Expr, text: str) -> Span | None:
    """The piece of `text` that an expression was read from, as far as the parser has kept it."""
    place = place_of(node)
    return None if place is None else span_at(text, *place)


def underlined(text: str, span: Span) -> list[str]:
    """The line of the text where `span` begins, and a line of ^ below the piece."""
    begin = text.rfind("\n", 0, span.start) + 1
    end = text.find("\n", begin)
    line = text[begin:] if end < 0 else text[begin:end]
    at = span.start - begin
    length = max(1, min(span.end, begin + len(line)) - span.start)
    left = max(0, at - _SHOWN // 2) if len(line) > _SHOWN else 0
    piece = line[left : left + _SHOWN]
    before, after = "..." if left else "", "..." if left + _SHOWN < len(line) else ""
    marks = min(length, max(1, len(piece) - (at - left)))
    shown = "".join(c if c.isprintable() else " " for c in piece)
    return [f"  {before}{shown}{after}".rstrip(), "  " + " " * (len(before) + at - left) + "^" * marks]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint with the nearest known name: "did you mean 'price'?", or nothing."""
    name = nearest(word, known)
    return f"did you mean {name!r}?" if name else ""
