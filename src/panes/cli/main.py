"""The `panes` command: one Typer app, one module per subcommand.

Heavy modules are imported inside the functions, so that `panes version` and `--help` answer at once.
"""

from __future__ import annotations

import typer

from panes.cli.bench import bench
from panes.cli.check import check
from panes.cli.explain import explain
from panes.cli.fmt import fmt
from panes.cli.run import run
from panes.cli.sql import sql

app = typer.Typer(
    name="panes",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def root() -> None:
    """Windows over streams: any number, any kind, one set of slices.

    A program in CQL, the query language, names streams and asks for windows over them:

    \b
        CREATE STREAM trades (symbol STRING, price DOUBLE, ts TIMESTAMP) SOURCE FILE ('trades/*.csv');
        SELECT symbol, avg(price) AS mean FROM trades [SIZE 10 min ON ts] GROUP BY symbol;

    `panes run app.cql` runs it, `panes sql` is a shell to try it in, `panes check` and `panes fmt` help to
    write it. Each command tells more with --help.
    """


app.command()(run)
app.command()(sql)
app.command()(explain)
app.command(no_args_is_help=True)(check)
app.command(no_args_is_help=True)(fmt)


@app.command()
def version() -> None:
    """The versions of Panes and of what it computes with."""
    import platform
    from importlib import metadata

    for name in ("panes", "numpy", "pyarrow", "numba", "sqlglot", "duckdb"):
        typer.echo(f"{name} {metadata.version(name)}")
    typer.echo(f"python {platform.python_version()}")


# Options belong to the benchmarks themselves; `panes bench --help` shows them.
app.command(add_help_option=False, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(bench)
