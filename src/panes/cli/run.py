"""`panes run`: runs the statements of a CQL file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from panes.cli.check import as_text, find_errors
from panes.cli.engine import Engine, Runner
from panes.cli.programs import FAILED, Program, one_line, read_program, reported, wrong_usage
from panes.cli.sinks import Format, format_of

if TYPE_CHECKING:
    from panes.cli.delivery import Delivery
    from panes.cql.parse import Located
    from panes.cql.session import Table


def run(
    file: Annotated[str | None, typer.Argument(metavar="FILE|-", help="A CQL file; - is stdin.")] = None,
    text: Annotated[str | None, typer.Option("-e", metavar="TEXT", help="CQL text instead of a file.")] = None,
    runner: Annotated[Runner, typer.Option(help="Spark, or this process.")] = Runner.spark,
    continuous: Annotated[
        bool,
        typer.Option(
            "--continuous/--once",
            help="Go on as files come, until Ctrl-C (Spark); or take what is there and end.",
        ),
    ] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Where Spark keeps how far it is; a run with the same one goes on where the last ended."
        ),
    ] = None,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Of Spark: local[2], or a cluster; else all cores here.")
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting of Spark; may be given several times.")
    ] = None,
    form: Annotated[
        Format | None, typer.Option("--format", help="How results are written; else what --output ends with, or table.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="PATH", help="A file for the results; on Spark a folder. Else stdout.")
    ] = None,
    rows: Annotated[
        int, typer.Option(min=0, help="How many rows of a table stay on the screen in the end; 0: all.")
    ] = 40,
    folder: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where relative paths in the program start; else the current one."),
    ] = None,
) -> None:
    """Run the statements of a CQL file and show what its queries give.

    All statements are checked before the first one runs. Each SELECT gives a table, which grows while it runs
    in a terminal; INSERT INTO FILE ('path') writes a file instead.

    \b
    Examples:
        panes run app.cql --runner local
        panes run app.cql --runner local --format csv > results.csv
        panes run app.cql --checkpoint state --output results --format parquet
        panes run app.cql --continuous --master 'local[2]'
        echo "SHOW STREAMS" | panes run - --runner local

    Without --checkpoint, files are read whole, and windows that are open at the end are given as they are. With
    one, Spark reads what is new since the last run and keeps windows open for the next; --continuous does so
    until Ctrl-C. Several queries write files with their numbers: results-1.csv, results-2.csv.

    Exit codes: 0 fine, 1 the program or its data has errors, 2 wrong usage, 130 stopped with Ctrl-C.
    """
    program = read_program(file, text)
    engine = Engine(runner, folder, master, _settings(conf or []), checkpoint, continuous)
    _check_engine(engine)
    written = _format(form, output)
    with reported():
        errors = find_errors(program.text)
        for error in errors:
            typer.echo(as_text(program.name, error), err=True)
        if errors:
            raise typer.Exit(FAILED)
        try:
            _run(program, engine, written, output, rows or None)
        except KeyboardInterrupt:
            if not continuous:
                raise
            typer.echo("stopped", err=True)  # the usual end of what has none


def _run(program: Program, engine: Engine, form: Format, output: Path | None, most: int | None) -> None:
    from panes.cli.delivery import Delivery, ProgramQuery
    from panes.cql import tree
    from panes.cql.parse import parse
    from panes.cql.session import Notice, QueryRows

    statements = parse(program.text)
    own = [s for s in statements if isinstance(s.statement, tree.Select | tree.Merge)]
    live = form is Format.table and sys.stdout.isatty()
    delivery = Delivery(engine, form, output, live, most, several=len(own) > 1)
    session = engine.session()
    jobs: list[ProgramQuery] = []
    spoken = False
    for located in statements:
        answer = session.execute(located)
        if isinstance(answer, Notice):
            if sys.stderr.isatty():
                typer.echo(answer.text, err=True)
            continue
        if isinstance(answer, QueryRows):
            jobs.append(ProgramQuery(answer, len(jobs) + 1, _title(located, delivery)))
            if engine.continuous:
                continue
        if spoken and form is Format.table:
            typer.echo()
        spoken = True
        if isinstance(answer, QueryRows):
            delivery.run(jobs[-1:])
        else:
            print_answer(answer, sys.stdout if form is Format.table else sys.stderr)
    if engine.continuous and jobs:
        delivery.run(jobs)


def _title(located: Located, delivery: Delivery) -> str:
    return one_line(located.source) if delivery.several else ""


def print_answer(answer: Table, out: TextIO) -> None:
    """What SHOW, DESCRIBE or EXPLAIN tell; an explanation as it is."""
    from panes.cli.tables import PrintedTable

    if answer.columns == ("plan",):
        out.write("".join(f"{line}\n" for (line,) in answer.rows))
        return
    table = PrintedTable(answer.columns, [False] * len(answer.columns), out)
    table.add(list(row) for row in answer.rows)
    table.close()


def _settings(conf: list[str]) -> dict[str, str]:
    wrong = [setting for setting in conf if "=" not in setting]
    if wrong:
        wrong_usage(f"--conf {wrong[0]}: write it as NAME=VALUE")
    return dict(setting.split("=", 1) for setting in conf)


def _check_engine(engine: Engine) -> None:
    if engine.on_spark:
        return
    for option, given in (
        ("--checkpoint", engine.checkpoint),
        ("--continuous", engine.continuous),
        ("--master", engine.master),
        ("--conf", engine.settings),
    ):
        if given:
            wrong_usage(f"{option} is for Spark; --runner local reads what is there, and sockets until they close")


def _format(form: Format | None, output: Path | None) -> Format:
    if output is None:
        if form is Format.parquet:
            wrong_usage("--format parquet needs --output: it can't be written to a screen")
        return form or Format.table
    found = form or format_of(str(output))
    if found is None:
        wrong_usage(f"--output {output}: as what? Give --format csv, json or parquet, or such a suffix")
    if found is Format.table:
        wrong_usage("--format table is for the screen; with --output give csv, json or parquet")
    return found
