"""What is said of CQL text without running it: `panes check`, `panes fmt` and `panes explain`.

`check` tells all errors of files at once, for people, editors and CI; `fmt` lays files out in one way; `explain` shows
what each phase makes of the statements of a program.
"""

from __future__ import annotations

import json
import re
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from panes.cli.engine import Engine, Runner
from panes.cli.programs import FAILED, fail, one_line, read_file, read_program, reported

if TYPE_CHECKING:
    from panes.cql.errors import CqlError
    from panes.cql.parse import Located
    from panes.cql.session import Session
    from panes.cql.tree import Name


#: How much a problem matters.
ERROR, NOTE = "error", "note"
#: Where a text names something that a statement makes.
_MADE = re.compile(r"\b(?:create\s+(?:stream|schema)|insert\s+into)\s+(`[^`]+`|\w+)", re.IGNORECASE)


def check(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="CQL files; - is stdin.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array on stdout, for editors.")] = False,
) -> None:
    """Tell all errors of CQL files at once.

    Reads every statement, finds its names and checks its types and rules. Nothing is run and no data is
    opened, so it works where the data is not. The exit code is 1 if there are errors, else 0.

    \b
    Examples:
        panes check app.cql
        panes check --json - < app.cql

    An error in text begins with file:line:column; in JSON it has file, line, column, end_line, end_column,
    severity, message and hints. Lines and columns are counted from 1; the end is one place after the last
    character. Notes, of severity "note", are about what is right but may not be what was meant: windows whose
    size is not a multiple of their slide. They don't change the exit code.
    """
    found, failed = [], False
    for file in files:
        program = read_file(file)
        errors = find_errors(program.text)
        failed = failed or bool(errors)
        told = [*((error, ERROR) for error in errors), *((note, NOTE) for note in find_notes(program.text))]
        told.sort(key=lambda item: item[0].span.start if item[0].span else 0)
        found += [(program.name, problem, severity) for problem, severity in told]
    if as_json:
        typer.echo(json.dumps([as_data(*item) for item in found], ensure_ascii=False, indent=2))
    else:
        for item in found:
            typer.echo(as_text(*item), err=True)
    if failed:
        raise typer.Exit(FAILED)


def find_errors(text: str) -> list[CqlError]:
    """All errors of a program in the order of the text, but not those that follow from others."""
    from panes.cql.parse import parse_all
    from panes.cql.session import Session
    from panes.errors import QueryError

    session = Session()
    statements, unread = parse_all(text)
    failed: list[tuple[Located, CqlError]] = []
    for located in statements:
        try:
            session.check(located)
        except QueryError as error:
            failed.append((located, _placed(error, located)))
    catalog = session.catalog
    known = {name.lower() for name in (*catalog.streams.names, *catalog.schemas.names)}
    missing = {name.strip("`").lower() for name in _MADE.findall(text)} - known
    found: list[CqlError] = [*unread, *(error for located, error in failed if not _follows(located, error, missing))]
    return sorted(found, key=lambda error: error.span.start if error.span else 0)


def find_notes(text: str) -> list[CqlError]:
    """What is to know of the statements that can be read, each with its place, as errors are."""
    from panes.cql.describe import notes_on
    from panes.cql.errors import CqlError
    from panes.cql.parse import parse_all

    statements, _ = parse_all(text)
    notes = (note for located in statements for note in notes_on(located.statement))
    return [CqlError(note.short, text=text, span=note.span, hints=[note.hint]) for note in notes]


def _placed(error: Exception, located: Located) -> CqlError:
    """The error with a place: that of its statement if it has none of its own."""
    from panes.cql.errors import CqlError

    if isinstance(error, CqlError):
        if error.span is not None:
            return error
        return CqlError(error.short, text=located.text, span=located.span, hints=error.hints)
    return CqlError(str(error), text=located.text, span=located.span)


def _follows(located: Located, error: CqlError, missing: set[str]) -> bool:
    """Whether an error is about a name that is only unknown because what makes it has an error of its own."""
    span = error.span
    if span is None or located.text[span.start : span.end].strip("`").lower() not in missing:
        return False
    return all(name.span != span for name in _made_by(located.statement))


def _made_by(statement: Any) -> list[Name]:
    from panes.cql import tree

    if isinstance(statement, tree.CreateSchema | tree.CreateStream):
        return [statement.name]
    if isinstance(statement, tree.Insert):
        return [statement.target]
    return [c.target for c in statement.clauses] if isinstance(statement, tree.Split) else []


def as_text(name: str, error: CqlError, severity: str = ERROR) -> str:
    """`app.cql:3:14: there is no stream 'a'`, then the line with the piece underlined, and hints."""
    below = str(error).splitlines()[1:]
    place = f"{name}:{error.span.line}:{error.span.column}" if error.span else name
    short = error.short if severity == ERROR else f"{severity}: {error.short}"
    return "\n".join([f"{place}: {short}", *below])


def as_data(name: str, error: CqlError, severity: str) -> dict[str, Any]:
    from panes.cql.errors import span_at

    data: dict[str, Any] = {"file": name, "line": 1, "column": 1, "end_line": 1, "end_column": 1}
    if error.span is not None:
        end = span_at(error.text or "", error.span.end, error.span.end)
        data |= {"line": error.span.line, "column": error.span.column, "end_line": end.line, "end_column": end.column}
    return data | {"severity": severity, "message": error.short, "hints": list(error.hints)}


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
    from panes.cql.layout import format_text

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
