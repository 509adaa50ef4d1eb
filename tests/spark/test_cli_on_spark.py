"""`panes run` on Spark: what is there, only what is new, and what comes while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from panes.cli.engine import Engine, Runner
from panes.cli.main import app
from panes.cql.session import QueryRows, Session

MAKE = """
CREATE STREAM trades (symbol STRING, price BIGINT, ts TIMESTAMP) SOURCE FILE ('trades') WATERMARK 0 sec ON ts;
"""
TOTALS = "SELECT symbol, sum(price) AS total FROM trades [SIZE 1 min ON ts] GROUP BY symbol;"
TABLE = "symbol  total\n------  -----\n"


def test_run_on_spark(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trades").mkdir()
    (tmp_path / "trades" / "1.csv").write_text("A,10,2020-01-01 00:00:10\nB,20,2020-01-01 00:00:20\n")
    (tmp_path / "app.cql").write_text(MAKE + TOTALS)
    (tmp_path / "zoned.json").write_text('{"ts": "2020-01-01T00:00:10.500Z"}\n{"ts": "2020-01-01T00:00:20"}\n')

    def panes(*arguments: str) -> Any:
        done = CliRunner().invoke(app, list(arguments))
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done

    # what is there, as a table, with what is still open at the end
    done = panes("run", "app.cql")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith(TABLE)
    assert sorted(done.stdout.splitlines()[2:]) == ["A          10", "B          20"]

    text = "CREATE STREAM zoned (ts TIMESTAMP) SOURCE FILE ('zoned.json'); SELECT ts FROM zoned"
    assert panes("run", "-e", text).stdout.splitlines()[2:] == ["2020-01-01 00:00:10.500", "2020-01-01 00:00:20"]

    # the same query as a batch into files that Spark writes
    done = panes("run", "app.cql", "--format", "parquet", "--output", "all")
    assert (done.exit_code, done.stderr) == (0, "Spark wrote all\n")
    assert {tuple(row) for row in spark.read.parquet(str(tmp_path / "all")).collect()} == {("A", 10), ("B", 20)}
    assert panes("run", "app.cql", "--format", "parquet", "--output", "all").exit_code == 1  # nothing is replaced

    # with a checkpoint, each run takes what is new, and a window is given when a later row closes it
    going_on = ("run", "app.cql", "--checkpoint", "state", "--format", "csv")
    done = panes(*going_on)
    assert (done.exit_code, done.stdout) == (0, "symbol,total\n")
    (tmp_path / "trades" / "2.csv").write_text("A,5,2020-01-01 00:00:30\nA,1,2020-01-01 00:02:00\n")
    done = panes(*going_on)
    assert sorted(done.stdout.splitlines()) == ['"A",15', '"B",20', "symbol,total"]

    # without an end: tables come while the query runs, and it stops when nobody asks for more
    session = Session(runner="spark", streaming=True, folder=tmp_path)
    answers = list(session.run(f"{MAKE} SELECT symbol, price FROM trades WHERE price >= 5"))
    assert isinstance(answers[-1], QueryRows)
    work = Engine(Runner.spark, continuous=True).start(answers[-1].query, 1)
    tables = work.tables()
    seen: set[str] = set()
    while len(seen) < 2:
        seen |= set(next(tables)["symbol"].to_pylist())
    while "batch" not in work.facts():
        next(tables)
    tables.close()  # type: ignore[attr-defined]
    assert not spark.streams.active

    # the plan that Spark gets, and errors without stacks
    assert "Spark" in panes("explain", "app.cql", "--runner", "spark").stdout
    (tmp_path / "trades" / "3.parquet").write_bytes(b"no parquet")
    text = "CREATE STREAM s (a BIGINT) SOURCE FILE ('trades/3.parquet'); SELECT a FROM s"
    done = panes("run", "-e", text)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("Spark: ")
    assert "Traceback" not in done.stderr
    assert "\tat " not in done.stderr
