"""Reads what is typed or piped into the shell, a whole statement or command at a time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

import typer

if TYPE_CHECKING:
    from panes.cli.shell import Reader
    from panes.cql.session import Session

PROMPT = "panes> "
MORE = "  ...> "


def open_reader(session: Callable[[], Session], interactive: bool) -> Reader:
    """For a terminal with history and completion, if prompt_toolkit is there; else line by line."""
    if not interactive:
        return LineReader(sys.stdin, prompts=False)
    try:
        from panes.cli.prompt import PromptReader
    except ModuleNotFoundError as error:
        if error.name != "prompt_toolkit":
            raise
        typer.echo("For history and completion: pip install 'panes[shell]'", err=True)
        return LineReader(sys.stdin, prompts=True)
    return PromptReader(session)


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
