"""What is typed or piped into the shell, a whole statement or command at a time, and what could be typed next."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import typer

from panes.cli.shell_help import COMMANDS, TOPICS

if TYPE_CHECKING:
    from panes.cql.session import Session


PROMPT = "panes> "
MORE = "  ...> "


def is_finished(text: str) -> bool:
    """Whether what was typed can be run, or more lines must follow."""
    from panes.cql.lexing import is_whole

    if not text.strip() or text.lstrip().startswith("\\"):
        return True
    return is_whole(text) and not (ends_with_split(text) and not text.endswith("\n"))


def ends_with_split(text: str) -> bool:
    """Whether further clauses of the last statement may follow behind its semicolon."""
    from panes.cql.parse import parse_all
    from panes.cql.tree import Split

    statements, errors = parse_all(text)
    return bool(statements) and not errors and isinstance(statements[-1].statement, Split)


class LineReader:
    """Lines of a file or pipe. A statement is given as soon as its semicolon is there."""

    def __init__(self, lines: TextIO, *, prompts: bool) -> None:
        self._lines = lines
        self._prompts = prompts
        self._kept: str | None = None  # a line that belongs to the next statement

    def read(self) -> str | None:
        text = ""
        while True:
            line = self._next(MORE if text else PROMPT)
            if not line:
                return text if text.strip() else None
            if text and ends_with_split(text) and not _is_clause(line):
                self._kept = line
                return text
            text += line
            if text.strip() and is_finished(text.rstrip("\n")):
                return text
            if not text.strip():
                text = ""

    def _next(self, prompt: str) -> str:
        if self._kept is not None:
            line, self._kept = self._kept, None
            return line
        if self._prompts:
            typer.echo(prompt, nl=False)
        return self._lines.readline()


def _is_clause(line: str) -> bool:
    return not line.strip() or line.split()[0].upper() == "INSERT" or line.startswith((" ", "\t"))


#: What may follow certain words, as far as it is not streams, columns or functions.
_AFTER = {
    "CREATE": "STREAM SCHEMA",
    "DROP": "STREAM SCHEMA QUERY",
    "SHOW": "STREAMS SCHEMAS QUERIES",
    "SOURCE": "FILE SOCKET STREAM",
    "EXPLAIN": "PARSE REWRITE RESOLVE COMPILE SELECT MERGE CREATE INSERT",
    "EVALUATE": "TUPLE TIME BATCH",
    "INSERT": "INTO",
    "GROUP": "BY",
    "ORDER": "BY",
    "PARTITIONED": "BY",
}
_STREAMS_AFTER = {"FROM", "JOIN", "MERGE", "INTO", "DESCRIBE", "DESC", "STREAM", "TABLE", "ON"}
_STATEMENTS = "CREATE SELECT MERGE INSERT ON EXPLAIN SHOW DESCRIBE DROP"
_CLAUSES = """
    SELECT DISTINCT FROM WHERE GROUP ORDER BY HAVING LIMIT AS ON USING JOIN CROSS INNER LEFT RIGHT FULL AND OR NOT IN
    BETWEEN LIKE RLIKE IS NULL TRUE FALSE CASE WHEN THEN ELSE END CAST INTERVAL ASC DESC DRIVEN
    SOURCE EXTENDS STREAM SCHEMA CONSOLE FILE TUMBLE HOP CUMULATE SESSION TABLE
    DESCRIPTOR
    """
_IN_WINDOW = """
    SIZE EVERY ON SESSION LANDMARK FIXED BAND DELTA PUNCTUATED THRESHOLD CUMULATE POLICY MAX TO BEGIN UNTIL OFFSET
    ALIGN START END CHANGE AT TIME ZONE PARTITIONED BY WHERE AS
    """
_PSEUDO = ("window", "window_start", "window_end")
_QUOTED = re.compile(r"'[^']*'?|--[^\n]*|/\*.*?(\*/|$)", re.DOTALL)
_WORD = re.compile(r"[\w.]*$")


@dataclass(frozen=True)
class Suggestion:
    """`text` instead of the last `length` characters."""

    text: str
    length: int
    kind: str


def suggestions(before: str, session: Callable[[], Session]) -> list[Suggestion]:
    """What could stand at the cursor, given the text before it; those that fit what is typed of a word."""
    if before.lstrip().startswith("\\"):
        return list(_command(before.lstrip(), session))
    statement = before[_statement_start(before) :]
    bare = _QUOTED.sub(lambda found: " " * len(found[0]), statement)
    if len(bare.rstrip()) < len(statement.rstrip()) and statement.count("'") % 2:
        return []  # inside of quotes
    word = (_WORD.search(bare) or [""])[0]
    words = re.findall(r"[\w.]+|[^\w\s]", bare[: len(bare) - len(word)])
    found = _named(word, words, bare, session())
    part = word.rpartition(".")[2]
    return [Suggestion(_cased(text, part), len(part), kind) for text, kind in _unique(found, part)]


def _named(word: str, words: list[str], bare: str, session: Session) -> Iterator[tuple[str, str]]:
    from panes.cql.clauses import QUERY_CLAUSES, STREAM_CLAUSES

    last = words[-1].upper() if words else ""
    if "." in word:
        yield from _columns_of(word.rpartition(".")[0], bare, session)
        return
    if not words:
        yield from _keywords(_STATEMENTS)
        return
    if last in _AFTER:
        yield from _keywords(_AFTER[last])
    in_window = bare.count("[") > bare.count("]")
    if last in _STREAMS_AFTER and not in_window and not (last == "ON" and len(words) > 1):
        yield from ((name, "stream") for name in _streams(session))
    if last in _AFTER or last in ("FROM", "JOIN", "MERGE", "DESCRIBE"):
        return
    if in_window:
        yield from _keywords(_IN_WINDOW)
    yield from _columns(bare, session)
    if not in_window:
        yield from ((name, "column of windows") for name in _PSEUDO)
        yield from _keywords(" ".join((_CLAUSES, *STREAM_CLAUSES, *QUERY_CLAUSES)))
        yield from _functions()
    if words[0].upper() == "CREATE":
        from panes.cql.types import NAMED

        yield from ((name.upper(), "type") for name in (*NAMED, "Timestamp"))
    if re.fullmatch(r"\d+", last):
        from panes.cql.lengths import UNITS

        yield from ((name, "unit") for name in UNITS)


def _command(line: str, session: Callable[[], Session]) -> Iterator[Suggestion]:
    word, space, rest = line.partition(" ")
    if not space:
        abouts = {command.split()[0]: about for command, about in reversed(COMMANDS.items())}
        yield from (Suggestion(n, len(word), about) for n, about in reversed(abouts.items()) if n.startswith(word))
    elif word == "\\d":
        names_of = [*_streams(session()), *session().catalog.schemas.names]
        yield from (Suggestion(t, len(rest), k) for t, k in _unique(((n, "stream") for n in names_of), rest))
    elif word in ("\\h", "\\?"):
        topics = ((name, "topic") for name in (*TOPICS, "FUNCTIONS"))
        yield from (Suggestion(text, len(rest), kind) for text, kind in _unique(topics, rest))
    elif word == "\\i":
        folder, _, start = rest.rpartition(os.sep)
        place = Path(folder + os.sep if rest.startswith(os.sep) else folder or ".").expanduser()
        for path in sorted(place.glob(f"{start}*")) if place.is_dir() else ():
            yield Suggestion(path.name + (os.sep if path.is_dir() else ""), len(start), "file")


def _statement_start(text: str) -> int:
    from panes.cql.lexing import pieces

    ends = [piece.end for piece in pieces(text) if hasattr(piece, "end") and text[piece.end : piece.end + 1] == ";"]
    return ends[-1] + 1 if ends else 0


def _keywords(words: str) -> Iterator[tuple[str, str]]:
    return ((word, "keyword") for word in words.split())


def _functions() -> Iterator[tuple[str, str]]:
    from panes.aggregates.registry import names
    from panes.plan.functions import SCALAR_FUNCTIONS

    yield from ((name, "aggregate") for name in names())
    yield from ((name, "function") for name in sorted(SCALAR_FUNCTIONS))


def _streams(session: Session) -> list[str]:
    return list(dict.fromkeys([*session.catalog.streams.names, *session.catalog.data]))


def _columns(bare: str, session: Session) -> Iterator[tuple[str, str]]:
    """Columns of the streams that the statement names, or of all if it names none yet."""
    known = _streams(session)
    named = {word.lower() for word in re.findall(r"\w+", bare)}
    wanted = [name for name in known if name.lower() in named] or known
    for name in wanted:
        yield from _described(name, session)


def _columns_of(qualifier: str, bare: str, session: Session) -> Iterator[tuple[str, str]]:
    """`t.` stands for the stream itself, or for one that has this alias somewhere in the statement."""
    known = {name.lower(): name for name in _streams(session)}
    aliased = re.search(rf"(\w+)\s*(?:\[[^\]]*\]\s*)*(?:AS\s+)?\b{re.escape(qualifier)}\b", bare, re.IGNORECASE)
    name = known.get(qualifier.lower()) or (known.get(aliased[1].lower()) if aliased else None)
    if name is not None:
        yield from _described(name, session)


def _described(name: str, session: Session) -> Iterator[tuple[str, str]]:
    from panes.cql.describe import describe

    yield from ((column, f"{kind}, {name}") for column, kind, _ in describe(name, session.catalog) or ())


def _unique(found: Iterable[tuple[str, str]], part: str) -> list[tuple[str, str]]:
    kinds: dict[str, str] = {}
    for text, kind in found:
        if text.lower().startswith(part.lower()):
            kinds.setdefault(text, kind)
    return list(kinds.items())


def _cased(text: str, part: str) -> str:
    """Keywords in the case that was begun: `sel` becomes `select`, `Sel` and nothing at all `SELECT`."""
    return text.lower() if text.isupper() and part and part.islower() else text
