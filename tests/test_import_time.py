"""`import panes` stays light: heavy libraries load when they are first needed, not before."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("numba", "duckdb", "sqlglot", "pandas", "polars", "matplotlib", "rich", "typer", "pyspark")


def loaded_after(code: str) -> set[str]:
    """Top-level modules that a fresh interpreter holds after running `code`."""
    script = f"{code}\nimport sys\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_import_loads_nothing_heavy() -> None:
    loaded = loaded_after("import panes")
    assert "panes" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_describing_windows_loads_nothing_heavy() -> None:
    loaded = loaded_after("import panes as pn\npn.tumbling('1 min'), pn.session('30 s'), pn.rows(3)")
    assert loaded.isdisjoint(HEAVY)
