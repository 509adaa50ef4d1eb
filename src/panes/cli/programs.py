"""What all subcommands share: where a program comes from, how its errors are told, and exit codes.

0: fine. 1: the program has errors, or its data. 2: wrong usage. 130: stopped with Ctrl-C.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import typer

from panes.errors import PanesError

FAILED = 1
WRONG_USAGE = 2
STOPPED = 130


@dataclass(frozen=True)
class Program:
    """CQL text, and what it is called in messages."""

    name: str
    text: str


def wrong_usage(message: str) -> NoReturn:
    """Give up because of how the command was called."""
    typer.echo(f"panes: {message}", err=True)
    raise typer.Exit(WRONG_USAGE)


def read_program(file: str | None, text: str | None) -> Program:
    """The text of a FILE, of stdin (`-`), or what was given with -e; exactly one of them."""
    if text is not None and file is not None:
        wrong_usage("give a FILE or -e TEXT, not both")
    if text is not None:
        return Program("-e", text)
    if file is None:
        wrong_usage("what should be read? Give a FILE, - for stdin, or -e TEXT")
    return read_file(file)


def read_file(file: str) -> Program:
    """A file, or stdin for `-`, as text."""
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        wrong_usage(f"{file} can't be read: {error.strerror or error}")
    name = "stdin" if file == "-" else file
    try:
        return Program(name, data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        fail(f"{name} is no text in UTF-8: {error.reason} at byte {error.start}")


def one_line(text: str, width: int = 90) -> str:
    """Text on one line, cut where it is too long."""
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 3]}..."


def fail(message: str) -> NoReturn:
    """Give up because of the program or its data."""
    typer.echo(message, err=True)
    raise typer.Exit(FAILED)


@contextmanager
def reported() -> Iterator[None]:
    """Errors of the library and of files as text on stderr, without a traceback, and an exit code."""
    try:
        yield
    except PanesError as error:
        fail(str(error))
    except BrokenPipeError:
        # whoever reads has seen enough, as `head` does; what is still buffered must go somewhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        fail(f"{where}{error.strerror or error}")
    except KeyboardInterrupt:
        typer.echo("stopped", err=True)
        raise typer.Exit(STOPPED) from None
