"""The `panes` command: one Typer app and its subcommands.

Heavy modules are imported inside the functions, so that `panes version` and `--help` answer at once.

`panes bench` hands over to the benchmarks of the checkout that this Panes was installed from. They and their rival
techniques are no part of the package. They run in a process of their own, with one thread per library, because their
figures are per core.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import typer

from panes.cli.check import check, explain, fmt
from panes.cli.run import run
from panes.cli.shell import sql

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


def checkout() -> Path | None:
    """The folder with `bench/` beside `src/panes`, if Panes runs from a checkout."""
    root = Path(__file__).resolve().parents[3]
    return root if (root / "bench" / "__main__.py").is_file() and (root / "src" / "panes").is_dir() else None


# Options belong to the benchmarks themselves; `panes bench --help` shows them.
@app.command(add_help_option=False, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def bench(context: typer.Context) -> None:
    """Measure Panes against rival techniques (from a checkout only); `panes bench --help` for its options."""
    root = checkout()
    if root is None:
        typer.echo(
            "panes bench: the benchmarks are not part of the installed package, they run from a checkout. "
            "Clone the repository, run `make setup` there, then `.venv/bin/panes bench`.",
            err=True,
        )
        raise typer.Exit(2)
    command = [sys.executable, "-c", _RUN, str(root), *context.args]
    raise typer.Exit(subprocess.run(command, check=False).returncode)


# Not `-m bench`: that needs the checkout as working folder, and a relative `--out` is the user's.
_RUN = """
import sys
sys.path.insert(0, sys.argv.pop(1))
sys.argv[0] = "panes bench"
from bench.__main__ import app
app(prog_name="panes bench")
"""
