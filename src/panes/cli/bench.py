"""`panes bench`: hands over to the benchmarks of the checkout that this Panes was installed from.

The benchmarks and their rival techniques are no part of the package. They run in a process of their own, with
one thread per library, because their figures are per core.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import typer


def checkout() -> Path | None:
    """The folder with `bench/` beside `src/panes`, if Panes runs from a checkout."""
    root = Path(__file__).resolve().parents[3]
    return root if (root / "bench" / "__main__.py").is_file() and (root / "src" / "panes").is_dir() else None


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
