"""The smallest things of the grammar: keywords, names, numbers, lengths, and errors that say what was expected.

Words of other SQLs that CQL has not are answered by what to write instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from sqlglot.errors import ErrorLevel, ParseError
from sqlglot.tokens import Token, TokenType

from panes.cql.dialect import RESERVED, Cql
from panes.cql.errors import CqlError, SpanMaker
from panes.cql.lengths import UNITS, length_of, number_of, unit_of
from panes.cql.tree import Name, Quantity, Span
from panes.plan.hints import nearest

T = TypeVar("T")
_Parser: Any = Cql.Parser
_DIALECT: Any = Cql()
_QUOTED = frozenset({TokenType.STRING, TokenType.NUMBER, TokenType.IDENTIFIER})
#: Tokens that are no keyword, whatever they read.
_NO_WORD = _QUOTED | {TokenType.SENTINEL}

# What people bring along from other SQLs, and what to write here instead.
_SLIDING = "[SIZE 10 min EVERY 1 min ON ts]"
_MERGE = (
    "rows of several streams are put together by MERGE a, b; a query becomes a stream by CREATE STREAM a AS SELECT ..."
)
_SLIDE = "the slide is called EVERY: [SIZE 10 min EVERY 1 min ON ts]"
_STREAM = "write CREATE STREAM name (column Type, ...) SOURCE ..., or CREATE STREAM name AS SELECT ..."
_OVER = (
    "the window in brackets behind the stream takes its place: SELECT k, sum(v) FROM t [SIZE 10 EVERY 1] GROUP BY k; "
    "lag(v) is first(v) in [SIZE 2 EVERY 1]"
)

#: Words where a statement can't go on: what to write instead.
_HABITS = {
    "OVER": _OVER,
    "UNION": _MERGE,
    "INTERSECT": "rows that two streams share are found by a join of the same windows: a [SIZE ...] JOIN b [SIZE ...]",
    "EXCEPT": "rows without a partner are those of a LEFT JOIN with null on the other side",
    "TABLE": _STREAM,
    "VIEW": _STREAM,
    "SLIDE": _SLIDE,
    "HOP": f"write {_SLIDING}; as in Flink: FROM HOP(TABLE t, DESCRIPTOR(ts), slide, size)",
    "ADVANCE": _SLIDE,
    "TUMBLE": "write [SIZE 10 min ON ts]; as in Flink: FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTES)",
    "TUMBLING": "write [SIZE 10 min ON ts]",
    "SLIDING": f"write {_SLIDING}",
    "HOPPING": f"write {_SLIDING}",
    "RANGE": f"a length of time is written {_SLIDING}",
    "ROWS": "a number of rows is written [SIZE 100], or [SIZE 100 EVERY 10]",
}

#: Words at the start of a statement: what to write instead.
STATEMENTS = {"WITH": "name the query first: CREATE STREAM a AS SELECT ...; then SELECT ... FROM a"}
#: Words behind CREATE: what to write instead.
CREATED = {
    "OR": "nothing is replaced in place: write DROP STREAM name; then CREATE STREAM name ...",
    **dict.fromkeys(("TEMP", "TEMPORARY", "EXTERNAL", "MATERIALIZED", "GLOBAL"), _STREAM),
}
#: Words behind DROP: what to write instead.
DROPPED = dict.fromkeys(
    ("TABLE", "VIEW", "TEMP", "TEMPORARY", "EXTERNAL", "MATERIALIZED"), "write DROP STREAM name, or DROP SCHEMA name"
)


class Stop(ParseError):
    """Ends the reading of a statement. A ParseError, so that sqlglot's own attempts can go back from it."""

    def __init__(self, error: CqlError) -> None:
        super().__init__(error.short)
        self.error = error


class WordReader(_Parser):
    """A cursor over the tokens of one statement.

    `_curr`, `_next`, `_advance`, `_match` and the like are sqlglot's.
    """

    def __init__(self, text: str, lines: SpanMaker) -> None:
        super().__init__(error_level=ErrorLevel.IMMEDIATE, dialect=_DIALECT)
        self._whole = text
        self.lines = lines
        #: where in the text names begin, and calls of functions, as far as they have been read
        self.name_places: set[int] = set()
        self.call_places: set[int] = set()
        #: a stream's alias without AS that was just read: perhaps it is a misspelt keyword
        self._bare_alias: Token | None = None

    def open(self, tokens: list[Token]) -> None:
        """Start at the first of `tokens`."""
        self.reset()
        self._bare_alias = None
        self.sql = self._whole
        self._tokens = tokens
        self._tokens_size = len(tokens)
        self._index = -1
        self._advance()

    def span(self, first: Token, last: Token | None = None) -> Span:
        """From one token to another, or to the last one that was read."""
        end = last or self._prev
        return self.lines.span(first.start, max(end.end, first.end) + 1)

    def found(self) -> str:
        """What stands at the cursor, for messages."""
        if not self._curr:
            return "the end of the statement"
        return f"'{_shortened(self._whole[self._curr.start : self._curr.end + 1])}'"

    def fail(self, short: str, *hints: str, token: Token | None = None) -> NoReturn:
        """Give up with an error at `token`, or else at the cursor."""
        at = token or self._curr or self._prev
        span = self.span(at, at)
        if not token and not self._curr:
            # one place after the last token
            span = self.lines.span(self._prev.end + 1, self._prev.end + 2)
        raise Stop(CqlError(short, text=self._whole, span=span, hints=hints))

    def fail_expecting(self, *expected: str, habits: Mapping[str, str] | None = None) -> NoReturn:
        """Give up because none of `expected` is here; capitals are keywords, small letters describe.

        `habits`: what to write instead of words that others have in this place.
        """
        habit = (habits or {}).get(self.word) or _HABITS.get(self.word)
        if habit:
            self.fail(f"expected {listed(expected)}, found {self.found()}", habit)
        words = [e for e in expected if e.isupper()]
        for token in (self._bare_alias, self._curr):
            if token and token.token_type not in _QUOTED:
                near = nearest(token.text, words)
                if near and near.lower() != token.text.lower():
                    self.fail(
                        f"expected {listed(expected)}, found '{token.text}'", f"did you mean {near}?", token=token
                    )
        self.fail(f"expected {listed(expected)}, found {self.found()}")

    def raise_error(self, message: str, token: Any = None) -> NoReturn:
        """sqlglot's errors, in our words."""
        if "Required keyword" in message or "No expression" in message:
            self.fail(f"expected an expression, found {self.found()}")
        if message.startswith(("Expecting ", "Expected ")):
            self.fail(f"expected {message.split(' ', 1)[1]}, found {self.found()}")
        if "Unexpected token" in message:
            self.fail(f"{self.found()} is not expected here")
        self.fail(message.rstrip("."), token=token or None)

    @property
    def word(self) -> str:
        """What stands at the cursor if it can be a keyword, in capitals; else nothing."""
        token = self._curr
        return "" if token.token_type in _NO_WORD else token.text.upper()

    def at(self, *words: str) -> bool:
        """Whether the words follow, in any case."""
        if self.word != words[0]:
            return False
        following = self._tokens[self._index + 1 : self._index + len(words)]
        return len(words) == 1 or [t.text.upper() for t in following if t.token_type not in _NO_WORD] == [*words[1:]]

    def take(self, *words: str) -> bool:
        """Read the words if they follow."""
        if not self.at(*words):
            return False
        self._advance(len(words))
        return True

    def expect(self, *words: str) -> None:
        if not self.take(*words):
            self.fail_expecting(" ".join(words))

    def at_sign(self, kind: TokenType) -> bool:
        return bool(self._curr.token_type == kind)

    def take_sign(self, kind: TokenType) -> bool:
        return bool(self._match(kind))

    def expect_sign(self, kind: TokenType, sign: str) -> None:
        if not self._match(kind):
            self.fail_expecting(f"'{sign}'")

    def listing(self, read: Callable[[], T]) -> tuple[T, ...]:
        """One or more, with commas between them."""
        items = [read()]
        while self._match(TokenType.COMMA):
            items.append(read())
        return tuple(items)

    def in_parentheses(self, read: Callable[[], T]) -> T:
        self.expect_sign(TokenType.L_PAREN, "(")
        inner = read()
        self.expect_sign(TokenType.R_PAREN, ")")
        return inner

    def at_name(self) -> bool:
        token = self._curr
        if token.token_type == TokenType.IDENTIFIER:
            return bool(token.text)
        return bool(token) and token.text.upper() not in RESERVED and _is_word(token)

    def name(self, what: str = "a name") -> Name:
        if not self.at_name():
            if self._curr and self._curr.text.upper() in RESERVED and _is_word(self._curr):
                hint = f"{self._curr.text.upper()} is a keyword; as a name it is written in backquotes"
                self.fail(f"expected {what}, found {self.found()}", hint)
            self.fail_expecting(what)
        token = self._curr
        self._advance()
        self.name_places.add(token.start)
        return Name(token.text, self.span(token, token))

    def names(self, what: str = "a name") -> tuple[Name, ...]:
        return self.listing(lambda: self.name(what))

    def text(self, what: str) -> str:
        if self._curr.token_type != TokenType.STRING:
            self.fail_expecting(f"{what} in quotes")
        self._advance()
        return str(self._prev.text)

    def integer(self, what: str) -> int:
        token = self._curr
        if token.token_type != TokenType.NUMBER or not token.text.isdecimal():
            self.fail_expecting(what)
        if len(token.text) > 18:
            self.fail(f"{what} is too large: {_shortened(token.text)}")
        self._advance()
        return int(token.text)

    def number(self, what: str = "a number") -> int | float:
        """`10`, `1.5`, `.5`, `3E5`"""
        first = self._curr
        fraction = self._match(TokenType.DOT) and self._curr.token_type == TokenType.NUMBER
        token = self._curr
        if token.token_type != TokenType.NUMBER:
            self.fail_expecting(what)
        digits = f".{token.text}" if fraction else token.text
        self._advance()
        value = number_of(digits)
        if value is None:
            self.fail(f"{_shortened(digits)} is too large, or not a number", token=first)
        return value

    def at_number(self) -> bool:
        return self._curr.token_type == TokenType.NUMBER or (
            self._curr.token_type == TokenType.DOT and self._next.token_type == TokenType.NUMBER
        )

    def duration(self, what: str = "a length such as 10 or 5 min") -> Quantity:
        """`100`, `5 min`, `INTERVAL '10' MINUTES`, `'10 minutes'`: the unit in one spelling."""
        if self.take("INTERVAL"):
            return self._interval(what)
        if self._curr.token_type == TokenType.STRING:
            return self._spelled(what)
        number = self.number(what)
        unit = unit_of(self._curr.text) if self._curr.token_type == TokenType.VAR else None
        if unit:
            self._advance()
        return Quantity(number, unit)

    def _interval(self, what: str) -> Quantity:
        if self._curr.token_type == TokenType.STRING:
            if unit_of(self._next.text) and self._next.token_type == TokenType.VAR:
                token = self._curr
                self._advance(2)
                value = number_of(token.text.strip())
                if value is None:
                    self.fail(f"expected a number in quotes, found '{_shortened(token.text)}'", token=token)
                return Quantity(value, unit_of(self._prev.text))
            return self._spelled(what)
        length = self.duration(what)
        if length.unit is None:
            self.fail_expecting("a unit of time")
        return length

    def _spelled(self, what: str) -> Quantity:
        """`'10 minutes'` in quotes, as Spark writes lengths."""
        token = self._curr
        self._advance()
        length = length_of(token.text)
        if length is None:
            self.fail(
                f"expected {what}, found '{_shortened(token.text)}'",
                f"a length is a number and a unit: {', '.join(UNITS)}",
                token=token,
            )
        return length

    def signed_duration(self) -> Quantity:
        """A length that may lie before its origin: `-1 hour`"""
        negative = self._match(TokenType.DASH)
        length = self.duration()
        return Quantity(-length.number, length.unit) if negative else length


def listed(expected: tuple[str, ...]) -> str:
    """`A, B or C`"""
    *most, last = expected
    return f"{', '.join(most)} or {last}" if most else last


def _is_word(token: Token) -> bool:
    text = token.text
    return token.token_type not in _QUOTED and bool(text) and (text[0].isalpha() or text[0] == "_") and " " not in text


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."
