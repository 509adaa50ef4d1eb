"""Tokens as the formatter sees them: their spelling, the space before them, and the comments between them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from sqlglot.tokens import Token, TokenType

from panes.cql.clauses import STREAM_CLAUSES
from panes.cql.dialect import RESERVED
from panes.cql.grammar.queries import CLAUSES
from panes.cql.grammar.statements import PHASES
from panes.cql.grammar.windows import OPTIONS
from panes.cql.lexing import StatementTokens
from panes.cql.windows import KINDS

#: Words that are written in capitals where they are not names.
KEYWORDS = RESERVED | frozenset(
    [
        *STREAM_CLAUSES,
        *(word for kind in KINDS.values() for word in kind.keywords()),
        *(word for option in OPTIONS for text in option.spellings for word in text.split()),
        *(word for text in CLAUSES for word in text.split()),
        *PHASES,
        *"""
        SCHEMA STREAM EXTENDS SOURCE FILE SOCKET CONSOLE START
        ASC DESC NULLS FIRST LAST TUPLE BATCH DRIVEN EARLY CLOCK
        EXPLAIN SHOW STREAMS SCHEMAS QUERIES DESCRIBE DROP QUERY
        TABLE TUMBLE HOP DESCRIPTOR CAST TRY_CAST INTERVAL ESCAPE DIV FILTER DISTINCT TIMESTAMP DATE DATETIME
        """.split(),
    ]
)
#: Keywords that read like the name of a function before a parenthesis.
_CALLS = frozenset({"TUMBLE", "HOP", "CUMULATE", "DESCRIPTOR", "TABLE", "CAST", "TRY_CAST", "LEFT", "RIGHT"})
_COMMENT = re.compile(r"--[^\n\r]*|/\*.*?\*/", re.DOTALL)
_TIGHT_BEFORE = frozenset({")", "]", ",", ".", ";"})
_TIGHT_AFTER = frozenset({"(", "[", "."})
_SIGNS = frozenset({"-", "+", "~", "!"})
_VALUES = (TokenType.STRING, TokenType.NUMBER, TokenType.IDENTIFIER)


@dataclass(frozen=True)
class Comment:
    """A comment, and whether it begins a line of its own, with an empty line above it."""

    text: str
    own_line: bool
    after_blank: bool

    @property
    def ends_line(self) -> bool:
        return self.text.startswith("--") or "\n" in self.text


@dataclass
class Atom:
    """One token: what to write, and what stands between it and the one before."""

    text: str
    kind: TokenType | None
    keyword: bool
    named: bool = False
    tight: bool = False
    after_blank: bool = False
    #: comments on lines of their own above it, and those behind it on its line
    above: list[Comment] = field(default_factory=list)
    behind: list[Comment] = field(default_factory=list)

    @property
    def ends_line(self) -> bool:
        return bool(self.behind) and any(comment.ends_line for comment in self.behind)


def atoms_of(text: str, piece: StatementTokens, begin: int, names: set[int], calls: set[int]) -> list[Atom]:
    """The tokens of a statement; `begin` is where the text after the statement before it begins.

    `names` and `calls` are the places of tokens that are names, and names of functions.
    """
    found: list[Atom] = []
    for token in piece.tokens:
        atom = _atom(text, token, names, calls)
        comments, atom.after_blank = gap(text, begin, token.start, at_start=not found and begin == 0)
        while found and comments and not comments[0].own_line:
            found[-1].behind.append(comments.pop(0))
        atom.above = comments
        _place(found, atom)
        begin = token.end + 1
    return found


def gap(text: str, start: int, end: int, *, at_start: bool = False) -> tuple[list[Comment], bool]:
    """The comments in text[start:end], and whether an empty line is before what follows."""
    if start >= end or text[start:end] == " ":
        return [], False
    comments: list[Comment] = []
    place = start
    for match in _COMMENT.finditer(text, start, end):
        newlines = text.count("\n", place, match.start())
        lines = [line.rstrip() for line in match[0].split("\n")]
        # what stands behind a comment on a line of its own is not behind a token
        own_line = newlines > 0 or (comments[-1].own_line if comments else at_start)
        comments.append(Comment("\n".join(lines), own_line, newlines > 1))
        place = match.end()
    return comments, text.count("\n", place, end) > 1


def _atom(text: str, token: Token, names: set[int], calls: set[int]) -> Atom:
    written = text[token.start : token.end + 1]
    named = token.start in names
    if token.token_type in _VALUES:
        return Atom(written, token.token_type, False, named)
    if named or token.start in calls:
        return Atom(written, token.token_type, False, named)
    parts = written.upper().split()
    keyword = all(part in KEYWORDS for part in parts)
    return Atom(" ".join(parts) if keyword else written, token.token_type, keyword)


def _place(before: list[Atom], atom: Atom) -> None:
    """Add an atom, deciding whether a space is before it. Signs of two tokens, and .5, become one atom."""
    last = before[-1] if before else None
    if last is not None and not last.behind and not atom.above:
        pair = last.text + atom.text
        if pair in ("<<", ">>") or (atom.kind == TokenType.NUMBER and _is_point(before)):
            last.text, last.kind = pair, atom.kind
            return
    if atom.kind == TokenType.NUMBER and last is not None and last.text == "(" and len(before) > 1 and before[-2].named:
        # a type: DECIMAL(10, 2)
        last.tight = True
    atom.tight = last is None or (not last.behind and _is_tight(before, last, atom))
    before.append(atom)


def _is_tight(before: list[Atom], last: Atom, atom: Atom) -> bool:
    if atom.text == "." and not _has_fields(last):
        # the point of .5
        return last.text in _TIGHT_AFTER or (last.text in _SIGNS and _is_sign(before))
    if atom.text in _TIGHT_BEFORE or last.text in _TIGHT_AFTER:
        return True
    if last.text in _SIGNS and _is_sign(before):
        return atom.text != last.text
    if atom.text != "(":
        return False
    if last.keyword:
        return last.text in _CALLS
    return last.kind is not None and last.text[-1:] not in "'\"" and not last.named and _is_word(last)


def _is_point(before: list[Atom]) -> bool:
    """Whether the last atom is the point that a number begins with, as .5 does."""
    return before[-1].text == "." and (len(before) < 2 or not _has_fields(before[-2]))


def _has_fields(atom: Atom) -> bool:
    """Whether a point behind the atom leads to a field of it."""
    return atom.kind not in (TokenType.NUMBER, TokenType.STRING) and not atom.keyword and _is_operand(atom)


def _is_sign(before: list[Atom]) -> bool:
    """Whether the last atom is a sign of what follows, not an operator between two operands."""
    return before[-1].text in ("~", "!") or len(before) < 2 or not _is_operand(before[-2])


def _is_operand(atom: Atom) -> bool:
    if atom.kind in _VALUES or atom.text in (")", "]", "END", "*"):
        return True
    return _is_word(atom) and not atom.keyword


def _is_word(atom: Atom) -> bool:
    return atom.text[:1].isalpha() or atom.text[:1] in "_`"
