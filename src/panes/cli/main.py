"""The `panes` command: one Typer app, one function per subcommand.

Heavy modules are imported inside the functions, so that `panes version` and `--help` answer at once.
"""

from __future__ import annotations

import typer

from panes.cli.bench import bench

app = typer.Typer(
    name="panes",
    help="Windows over streams: any number, any kind, one set of slices.",
    no_args_is_help=True,
    add_completion=False,
)


@app.callback()
def root() -> None:
    """Windows over streams: any number, any kind, one set of slices."""


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
