"""Runs the `panes` command in this process, in a folder of its own with a small stream."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from panes.cli.main import app

TRADES = "A,10,1\nB,20,2\nA,30,3\nA,40,4\nB,50,5\n"
MAKE = "CREATE STREAM trades (symbol STRING, price BIGINT, ts BIGINT) SOURCE FILE ('trades.csv');"
TOTALS = "SELECT symbol, sum(price) AS total FROM trades [SIZE 4 ON ts] GROUP BY symbol ORDER BY symbol;"

Panes = Callable[..., Any]


@pytest.fixture
def panes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Panes:
    """`panes("run", "-", stdin=...)` gives exit_code, stdout and stderr; the current folder is empty but for data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "trades.csv").write_text(TRADES)
    (tmp_path / "app.cql").write_text(f"{MAKE}\n{TOTALS}\n")

    def invoke(*arguments: str, stdin: str | None = None) -> Any:
        result = CliRunner().invoke(app, list(arguments), input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke
