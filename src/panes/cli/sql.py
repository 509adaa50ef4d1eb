"""`panes sql`: a shell for CQL, for people at a terminal and for programs that pipe statements in."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from panes.cli.engine import Engine, Runner
from panes.cli.programs import FAILED, reported


def sql(
    runner: Annotated[Runner, typer.Option(help="This process, or Spark.")] = Runner.local,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Of Spark: local[2], or a cluster; else all cores here.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where relative paths start; else the current folder.")
    ] = None,
) -> None:
    r"""Type CQL statements and see what they give, as it comes.

    A statement may have many lines; it ends with a semicolon. Streams and schemas are kept until you leave. Tab
    completes keywords, streams, columns and functions; up and down bring back what you typed, also next time.
    Ctrl-C stops the query that runs, or drops what you are typing, but does not end the shell.

    {b}
    In the shell:
        \d          all streams and schemas        \h          help
        \d NAME     the columns of one             \h SELECT   help for a statement
        \i FILE     run the statements of a file   \timing     say how long each takes
        \q          leave; so does Ctrl-D

    {b}
    Examples:
        panes sql
        panes sql --runner spark --master 'local[2]'
        panes sql < app.cql

    Piped statements run one by one. One that has an error does not stop the others, but the exit code is then 1.
    """
    with reported():
        from panes.cli.reading import open_reader
        from panes.cli.shell import Shell

        shell = Shell(Engine(runner, folder=folder, master=master))
        interactive = sys.stdin.isatty()
        failed = shell.talk(open_reader(shell.session, interactive), interactive=interactive)
        if failed and not interactive:
            raise typer.Exit(FAILED)


# click keeps the line breaks of a paragraph that begins with this sign, which a raw string can't hold
sql.__doc__ = (sql.__doc__ or "").replace("{b}", "\b")
