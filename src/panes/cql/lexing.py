"""Text to pieces: one list of tokens per statement, within limits that keep every text quick to refuse.

sqlglot's tokenizer reads the tokens; before it come the limits, so that hostile text costs no time.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType

from panes.cql.dialect import Cql
from panes.cql.errors import CqlError, span_at

#: Characters in a text, and characters and tokens in one statement.
MAX_TEXT = 2_000_000
MAX_STATEMENT = 40_000
MAX_TOKENS = 2_000
MAX_NAME = 255
MAX_DIGITS = 100
#: Brackets inside brackets. Python's own stack ends at about 45 levels of an expression.
MAX_NESTING = 32
MAX_SUBQUERIES = 64
TOO_DEEP = "this is nested too deeply"
NESTING_RULE = f"{MAX_NESTING} levels of brackets and {MAX_SUBQUERIES} of queries are possible"

# Quoted text, comments and statement ends: what must be known to cut a text at the right semicolons.
_QUOTED = r"""'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*"|`[^`]*`|--[^\n\r]*|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/"""
_PARTS = re.compile(rf"""{_QUOTED}|(?P<open>['"`]|/\*)|(?P<end>;)""", re.DOTALL)
_TOKENS = re.compile(rf"""{_QUOTED}|\w+|[^\s\w]""", re.DOTALL)
_BRACKETS = re.compile(rf"""{_QUOTED}|(?P<open>[(\[{{])|(?P<close>[)\]}}])""", re.DOTALL)
#: A comment of that length is long.
_LONG = 100
_local = threading.local()
_SPACE = re.compile(r"[\s;]+")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
_OPENING = {TokenType.L_PAREN: ")", TokenType.L_BRACKET: "]", TokenType.L_BRACE: "}"}
_CLOSING = {TokenType.R_PAREN: ")", TokenType.R_BRACKET: "]", TokenType.R_BRACE: "}"}
_UNCLOSED = {"'": "text in single quotes", '"': "text in double quotes", "`": "a name in backquotes", "/*": "a comment"}


@dataclass(frozen=True)
class StatementTokens:
    """One statement of a text, from `start` to before its semicolon; its tokens are placed in the whole text."""

    start: int
    end: int
    tokens: list[Token]


def pieces(text: str) -> Iterator[StatementTokens | CqlError]:
    """The statements of a text in order; an error in the place of a statement that has no tokens."""
    try:
        _check_text(text)
    except CqlError as error:
        yield error
        return
    for start, end, unclosed in _cuts(text):
        try:
            tokens = _tokens(text, start, end, unclosed)
        except CqlError as error:
            yield error
        else:
            if tokens:
                yield StatementTokens(start, end, tokens)


def is_whole(text: str) -> bool:
    """Whether the last statement of a text has its semicolon; a shell waits for more lines until it has.

    >>> is_whole("SELECT a -- no;"), is_whole("SELECT ';'; -- yes")
    (False, True)
    """
    *_, (start, end, unclosed) = [(0, 0, None), *_cuts(text)]
    if end < len(text):
        return True
    rest = _PARTS.sub(lambda part: "" if part[0][:2] in ("--", "/*") else part[0], text[start:])
    return unclosed is None and not rest.strip()


def _check_text(text: str) -> None:
    if not isinstance(text, str):
        raise CqlError(f"CQL must be text; got {type(text).__name__}")
    if len(text) > MAX_TEXT:
        raise CqlError(f"a text may have {MAX_TEXT:,} characters; this one has {len(text):,}")
    wrong = _CONTROL.search(text)
    if wrong:
        at = wrong.start()
        what = "half of a surrogate pair" if "\ud800" <= wrong[0] <= "\udfff" else "a control character"
        short = f"{what} (U+{ord(wrong[0]):04X}) can't be part of CQL"
        raise CqlError(short, text=text, span=span_at(text, at, at + 1))


def _cuts(text: str) -> Iterator[tuple[int, int, int | None]]:
    """Where statements begin and end: at semicolons that are in no quotes and no comment.

    Where a quote or comment is opened and never closed, the rest of the text belongs to it.
    """
    start = _after_space(text, 0)
    while start < len(text):
        # no further than a statement may be long: what is refused for its length need not be read to its end
        limit = start + MAX_STATEMENT + 1
        part = _cut_after(text, start, limit)
        if part is None and limit < len(text):
            yield start, limit, None
            part = _cut_after(text, start, len(text))
        elif part is None or part["open"]:
            yield start, len(text), part and part.start()
        else:
            yield start, part.start(), None
        start = len(text) if part is None or part["open"] else _after_space(text, part.end())


def _cut_after(text: str, start: int, limit: int) -> re.Match[str] | None:
    """The semicolon that ends the statement at `start`, or the quote or comment that is never closed."""
    for part in _PARTS.finditer(text, start, limit):
        if part["end"] or (part["open"] and limit >= len(text)):
            return part
        if part["open"]:
            return None
    return None


def _after_space(text: str, start: int) -> int:
    found = _SPACE.match(text, start)
    return found.end() if found else start


def _tokens(text: str, start: int, end: int, unclosed: int | None) -> list[Token]:
    if unclosed is not None:
        mark = text[unclosed : unclosed + 2]
        what = _UNCLOSED.get(mark) or _UNCLOSED[mark[0]]
        span = span_at(text, unclosed, unclosed + 1)
        raise CqlError(f"{what} begins here and does not end", text=text, span=span)
    _check_size(text, start, end)
    _check_depth(text, start, end)
    try:
        tokens: list[Token] = _tokenizer().tokenize(_quick_to_read(text[start:end]))
    except SqlglotError as error:
        raise CqlError("this can't be read", text=text, span=span_at(text, start, end)) from error
    if start:
        for token in tokens:
            token.start += start
            token.end += start
    _check_tokens(text, tokens)
    return tokens


def _tokenizer() -> Any:
    """This thread's: to make one takes as long as to read five tokens."""
    found = getattr(_local, "tokenizer", None)
    if found is None:
        found = _local.tokenizer = Cql.Tokenizer(dialect=Cql())
    return found


def _check_size(text: str, start: int, end: int) -> None:
    """Refuse long statements before sqlglot reads their tokens, which takes ten microseconds for each."""
    if end - start > MAX_STATEMENT:
        short = f"a statement may have {MAX_STATEMENT:,} characters; this one has more"
        raise CqlError(short, text=text, span=span_at(text, start, start + 20))
    if end - start <= MAX_TOKENS:
        return
    for count, part in enumerate(_TOKENS.finditer(text, start, end)):
        if count == MAX_TOKENS:
            span = span_at(text, part.start(), part.end())
            raise CqlError(f"a statement may have {MAX_TOKENS:,} words and signs", text=text, span=span)


def _check_depth(text: str, start: int, end: int) -> None:
    """Refuse brackets that are far too deep before their tokens are read; `_check_tokens` knows the exact limit."""
    most = MAX_NESTING + 2 + MAX_SUBQUERIES
    if sum(text.count(sign, start, end) for sign in "([{") <= most:
        return
    depth = 0
    for part in _BRACKETS.finditer(text, start, end):
        depth += 1 if part["open"] else -1 if part["close"] else 0
        if depth > most:
            raise CqlError(TOO_DEEP, text=text, span=span_at(text, part.start(), part.end()), hints=[NESTING_RULE])


def _quick_to_read(text: str) -> str:
    """The text with long comments blackened: sqlglot goes through them sign by sign, but not through letters."""
    if len(text) < 2 * _LONG or ("--" not in text and "/*" not in text):
        return text
    return _TOKENS.sub(_blackened, text)


def _blackened(part: re.Match[str]) -> str:
    found: str = part[0]
    if len(found) < _LONG or found[:2] not in ("--", "/*"):
        return found
    ending = "*/" if found[:2] == "/*" else ""
    return found[:2] + "x" * (len(found) - 2 - len(ending)) + ending


def _check_tokens(text: str, tokens: list[Token]) -> None:
    """Refuse brackets that are too deep to parse, or don't match, and text that nothing could hold."""
    opened: list[tuple[Token, bool]] = []
    subqueries = 0
    for token, following in zip(tokens, [*tokens[1:], None]):
        kind = token.token_type
        if kind in _OPENING:
            is_query = following is not None and following.token_type == TokenType.SELECT
            opened.append((token, is_query))
            subqueries += is_query
            # two more than in an expression, for the brackets of windows and of table functions around it
            if len(opened) - subqueries > MAX_NESTING + 2 or subqueries > MAX_SUBQUERIES:
                raise _at(text, token, TOO_DEEP, NESTING_RULE)
        elif kind in _CLOSING:
            if not opened:
                raise _at(text, token, f"'{token.text}' closes nothing")
            opening, is_query = opened.pop()
            subqueries -= is_query
            if _OPENING[opening.token_type] != _CLOSING[kind]:
                where = span_at(text, opening.start, opening.end)
                wanted = _OPENING[opening.token_type]
                raise _at(
                    text,
                    token,
                    f"expected '{wanted}', found '{token.text}'",
                    f"it would close '{opening.text}' at line {where.line}, column {where.column}",
                )
        elif kind == TokenType.STRING:
            if following is not None and following.token_type == TokenType.STRING:
                raise _at(text, following, "two texts can't stand side by side", "to join them, write ||")
            if _CONTROL.search(token.text):
                raise _at(text, token, "a control character can't be part of text, not even when it is escaped")
        elif kind == TokenType.NUMBER:
            if not _is_number(token.text):
                raise _at(text, token, "this number is too large, or not complete")
        elif len(token.text) > MAX_NAME:
            raise _at(text, token, f"a name may have {MAX_NAME} characters")
    if opened:
        opening = opened[-1][0]
        raise _at(text, opening, f"'{opening.text}' is not closed", f"expected '{_OPENING[opening.token_type]}'")


def _at(text: str, token: Any, short: str, *hints: str) -> CqlError:
    return CqlError(short, text=text, span=span_at(text, token.start, token.end + 1), hints=hints)


def _is_number(text: str) -> bool:
    """Whether digits are a number, which 1e and 1e999 are not for Python."""
    if len(text) > MAX_DIGITS:
        return False
    try:
        return float(text) != float("inf")
    except ValueError:
        return False
