"""`panes run` in this process: tables, formats, files, errors and exit codes."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.cli.conftest import MAKE, TOTALS, Panes

TABLE = """\
symbol  total
------  -----
A          40
B          20
A          40
B          50
"""
LOCAL = ("--runner", "local")


def test_results_as_a_table(panes: Panes) -> None:
    done = panes("run", "app.cql", *LOCAL)
    assert (done.exit_code, done.stdout, done.stderr) == (0, TABLE, "")


def test_a_program_from_stdin_or_the_command_line(panes: Panes) -> None:
    assert panes("run", "-", *LOCAL, stdin=f"{MAKE}{TOTALS}").stdout == TABLE
    assert panes("run", "-e", f"{MAKE}{TOTALS}", *LOCAL).stdout == TABLE


def test_several_queries_say_which_is_which(panes: Panes) -> None:
    second = "SELECT max(price) AS high FROM trades [SIZE 10 ON ts]"
    done = panes("run", "-e", f"{MAKE} {TOTALS} {second}; SHOW STREAMS", *LOCAL)
    shown = (
        "stream  columns                             source\n"
        "------  ----------------------------------  ---------------\n"
        "trades  symbol String, price Long, ts Long  file trades.csv\n"
    )
    assert done.stdout == f"> {TOTALS[:87]}...\n{TABLE}\n> {second}\nhigh\n----\n  50\n\n{shown}"


def test_csv_and_json_on_stdout(panes: Panes) -> None:
    assert panes("run", "app.cql", *LOCAL, "--format", "csv").stdout == 'symbol,total\n"A",40\n"B",20\n"A",40\n"B",50\n'
    lines = panes("run", "app.cql", *LOCAL, "--format", "json").stdout.splitlines()
    assert [json.loads(line) for line in lines][:2] == [{"symbol": "A", "total": 40}, {"symbol": "B", "total": 20}]


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl", "out.parquet"])
def test_files_by_their_suffix(panes: Panes, tmp_path: Path, name: str) -> None:
    done = panes("run", "app.cql", *LOCAL, "--output", name)
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", f"wrote 4 rows to {name}\n")
    if name.endswith("parquet"):
        assert pa.parquet.read_table(tmp_path / name).to_pydict() == {
            "symbol": ["A", "B", "A", "B"],
            "total": [40, 20, 40, 50],
        }
    else:
        assert len((tmp_path / name).read_text().splitlines()) == (5 if name.endswith("csv") else 4)


def test_files_of_several_queries_are_numbered(panes: Panes, tmp_path: Path) -> None:
    panes("run", "-e", f"{MAKE}{TOTALS}{TOTALS}", *LOCAL, "--output", "out.csv")
    assert sorted(p.name for p in tmp_path.glob("out*")) == ["out-1.csv", "out-2.csv"]


def test_insert_into_a_file_and_onto_the_console(panes: Panes, tmp_path: Path) -> None:
    text = f"{MAKE} INSERT INTO FILE ('high.json') {TOTALS} INSERT INTO CONSOLE {TOTALS}"
    done = panes("run", "-e", text, *LOCAL)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.endswith(TABLE)
    assert len((tmp_path / "high.json").read_text().splitlines()) == 4


def test_a_query_may_replace_the_file_that_it_reads(panes: Panes, tmp_path: Path) -> None:
    panes("run", "-e", f"{MAKE} INSERT INTO FILE ('trades.csv') SELECT symbol, price, ts FROM trades", *LOCAL)
    assert (
        tmp_path / "trades.csv"
    ).read_text() == 'symbol,price,ts\n"A",10,1\n"B",20,2\n"A",30,3\n"A",40,4\n"B",50,5\n'


def test_a_file_stays_if_the_query_fails(panes: Panes, tmp_path: Path) -> None:
    cut_off = gzip.compress("".join(f"{n}\n" for n in range(100_000)).encode())[:-1000]
    (tmp_path / "bad.csv.gz").write_bytes(cut_off)
    (tmp_path / "out.csv").write_text("as it was")
    text = "CREATE STREAM s (a BIGINT) SOURCE FILE ('bad.csv.gz'); SELECT a FROM s"
    done = panes("run", "-e", text, *LOCAL, "--output", "out.csv")
    assert done.exit_code == 1
    assert (tmp_path / "out.csv").read_text() == "as it was"
    assert sorted(p.name for p in tmp_path.iterdir() if "out" in p.name) == ["out.csv"]


def test_relative_paths_start_at_the_folder(panes: Panes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert panes("run", "../app.cql", *LOCAL).exit_code == 1
    assert panes("run", "../app.cql", *LOCAL, "--folder", "..").stdout == TABLE


def test_all_errors_are_told_before_anything_runs(panes: Panes) -> None:
    done = panes("run", "-e", f"{MAKE}\n{TOTALS}\nSELECT pric FROM trades;\nSELECT FROM trades", *LOCAL)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "-e:3:8: there is no column 'pric'" in done.stderr
    assert "did you mean 'price'?" in done.stderr
    assert "-e:4:8: " in done.stderr
    assert "Traceback" not in done.stderr


def test_data_that_is_not_there(panes: Panes) -> None:
    done = panes("run", "-e", "CREATE STREAM s (a INT) SOURCE FILE ('no.csv'); SELECT a FROM s", *LOCAL)
    assert done.exit_code == 1
    assert "no.csv" in done.stderr
    assert "Traceback" not in done.stderr


def test_lines_that_cannot_be_read_are_counted(panes: Panes, tmp_path: Path) -> None:
    (tmp_path / "trades.csv").write_text("A,10,1\nB,x,2\n")
    done = panes("run", "app.cql", *LOCAL)
    assert done.exit_code == 0
    assert done.stderr == "1 row or line is in no result: late, or not to be read\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Give a FILE"),
        (("app.cql", "-e", "SHOW STREAMS"), "not both"),
        (("no.cql",), "no.cql can't be read"),
        (("app.cql", *LOCAL, "--continuous"), "--continuous is for Spark"),
        (("app.cql", *LOCAL, "--checkpoint", "x"), "--checkpoint is for Spark"),
        (("app.cql", *LOCAL, "--master", "local[2]"), "--master is for Spark"),
        (("app.cql", "--conf", "x"), "NAME=VALUE"),
        (("app.cql", "--format", "parquet"), "needs --output"),
        (("app.cql", "--output", "x"), "as what?"),
        (("app.cql", "--output", "x", "--format", "table"), "for the screen"),
        (("app.cql", "--format", "xml"), "xml"),
        (("app.cql", "--runner", "flink"), "flink"),
    ],
)
def test_wrong_usage_is_said_and_ends_with_2(panes: Panes, arguments: tuple[str, ...], said: str) -> None:
    done = panes("run", *arguments)
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stdout == ""


def test_a_reader_that_has_seen_enough(panes: Panes, tmp_path: Path) -> None:
    (tmp_path / "many.csv").write_text("".join(f"{n}\n" for n in range(100_000)))
    text = "CREATE STREAM s (a BIGINT) SOURCE FILE ('many.csv'); SELECT a FROM s"
    command = [sys.executable, "-c", "from panes.cli.main import app; app()", "run", *LOCAL, "-e", text]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline().strip() == b"a"
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 0


def test_the_example_runs(panes: Panes) -> None:
    root = Path(__file__).parents[2]
    done = panes("run", str(root / "examples" / "wikipedia.cql"), *LOCAL, "--folder", str(root))
    assert (done.exit_code, done.stderr) == (0, "")
    assert "2015-09-12 06:00:00  11099  2646833" in done.stdout
    assert panes("fmt", "--check", str(root / "examples" / "wikipedia.cql")).exit_code == 0
