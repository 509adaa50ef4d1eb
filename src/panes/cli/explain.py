"""`panes explain`: what each phase makes of the statements of a program."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from panes.cli.engine import Engine, Runner
from panes.cli.programs import fail, one_line, read_program, reported

if TYPE_CHECKING:
    from panes.cql.parse import Located
    from panes.cql.session import Session


class Phase(str, Enum):
    parse = "parse"
    rewrite = "rewrite"
    resolve = "resolve"
    compile = "compile"


def explain(
    file: Annotated[str | None, typer.Argument(metavar="FILE|-", help="A CQL file; - is stdin.")] = None,
    text: Annotated[str | None, typer.Option("-e", metavar="TEXT", help="CQL text instead of a file.")] = None,
    phase: Annotated[Phase, typer.Option(help="The phase whose result is printed.")] = Phase.compile,
    runner: Annotated[Runner, typer.Option(help="For the plan: where the query would run.")] = Runner.local,
    folder: Annotated[Path | None, typer.Option(help="Where relative paths start; else the current one.")] = None,
) -> None:
    """Show what each statement becomes, without running it.

    A statement goes through four phases. parse: its text as it was understood. rewrite: simpler, with windows
    lifted out of subqueries and constants computed. resolve: every name, type and key that was found. compile:
    the plan, with the strategy that was chosen and why; for this one the data must be there, as its files are
    looked up.

    \b
    Examples:
        panes explain app.cql
        panes explain app.cql --phase resolve
        panes explain --phase rewrite -e "SELECT 1 + 2 AS three FROM (SELECT * FROM s [SIZE 3])"
    """
    program = read_program(file, text)
    with reported():
        from panes.cql.parse import parse

        engine = Engine(runner, folder=folder)
        statements = parse(program.text)
        session = engine.session()
        for number, located in enumerate(statements):
            if number:
                typer.echo()
            if len(statements) > 1:
                typer.echo(f"-- line {located.span.line}: {one_line(located.source)}")
            typer.echo(_phase(session, located, phase))
        if not statements:
            fail(f"{program.name} has no statements")


def _phase(session: Session, located: Located, phase: Phase) -> str:
    said = session.phase(located, phase.value)
    if phase in (Phase.resolve, Phase.compile):
        session.check(located)  # the statements behind it may use what it makes
    return said
