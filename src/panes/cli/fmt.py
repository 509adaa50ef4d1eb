"""`panes fmt`: CQL files laid out in one way."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from panes.cli.check import as_text
from panes.cli.programs import FAILED, read_file


def fmt(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="CQL files; - is stdin, written to stdout.")],
    check: Annotated[bool, typer.Option("--check", help="Change nothing; tell which files would change.")] = False,
    width: Annotated[int, typer.Option(min=20, help="How long lines may be, as far as possible.")] = 100,
) -> None:
    """Lay out CQL files in one way.

    Keywords become capitals, short statements stand on one line, long ones have a line per clause. Files are
    changed in place; comments stay, and the meaning is the same. A file with an error is left as it is. The
    exit code is 1 if a file can't be read as CQL or, with --check, if one would change.

    \b
    Examples:
        panes fmt app.cql lib/*.cql
        panes fmt --check *.cql
        panes fmt - < app.cql
    """
    from panes.cql.errors import CqlError
    from panes.cql.printing import format_text

    failed = False
    for file in files:
        program = read_file(file)
        try:
            text = format_text(program.text, width)
        except CqlError as error:
            typer.echo(as_text(program.name, error), err=True)
            failed = True
            continue
        same = text == program.text
        if check:
            if not same:
                typer.echo(f"{program.name} would change", err=True)
                failed = True
        elif file == "-":
            typer.echo(text, nl=False)
        elif not same:
            Path(file).write_text(text, encoding="utf-8", newline="\n")
            typer.echo(f"{program.name} changed", err=True)
    if failed:
        raise typer.Exit(FAILED)
