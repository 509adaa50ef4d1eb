"""`panes check`, `panes fmt` and `panes explain`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import MAKE, TOTALS, Panes

WRONG = f"""\
{MAKE}
CREATE STREAM broken (a NUMBR);
SELECT pric FROM trades;
SELECT a FROM broken;
CREATE STREAM next AS SELECT a FROM broken;
SELECT * FROM next;
SELECT FROM trades;
{TOTALS}
"""


def test_check_is_silent_when_all_is_well(panes: Panes) -> None:
    done = panes("check", "app.cql")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")


def test_check_tells_all_errors_but_not_those_that_follow(panes: Panes) -> None:
    done = panes("check", "-", stdin=WRONG)
    assert done.exit_code == 1
    places = [line.split(": ")[0] for line in done.stderr.splitlines() if line.startswith("stdin:")]
    assert places == ["stdin:2:25", "stdin:3:8", "stdin:7:8"]


def test_check_needs_no_data(panes: Panes) -> None:
    text = (
        "CREATE STREAM s (a INT) SOURCE FILE ('no.csv'); INSERT INTO FILE ('x.csv') SELECT a FROM s; DROP QUERY query_1"
    )
    assert panes("check", "-", stdin=text).exit_code == 0


SLIDES = """
create stream s (ts timestamp, v int) source file ('s.csv');
select sum(v) as v from s [size 10 min every 3 min on ts];
select sum(v) as v from s [size 10 min every 3 min on ts align start as ten] [size 9 every 3 as nine];
select sum(v) as v from s [size 1 hour every 10 min on ts];
select sum(v) as v from hop(table s, descriptor(ts), interval '3' minutes, interval '10' minutes);
create stream d as select sum(v) as v from (select * from s) [size 5 every 2] as x;
"""


def test_check_notes_sizes_that_are_no_multiple_of_the_slide(panes: Panes) -> None:
    done = panes("check", "-", stdin=SLIDES)
    assert done.exit_code == 0
    first = [line for line in done.stderr.splitlines() if ": note: " in line]
    assert first == [
        "stdin:3:27: note: windows of 10 min every 3 min end at every slide, and 10 min is not a multiple of 3 min",
        "stdin:7:62: note: windows of 5 every 2 end at every slide, and 5 is not a multiple of 2",
    ]
    assert "write ALIGN START for windows that start there" in done.stderr
    found = json.loads(panes("check", "--json", "-", stdin=SLIDES).stdout)
    assert [(f["severity"], f["line"]) for f in found] == [("note", 3), ("note", 7)]


def test_check_tells_errors_as_json_for_editors(panes: Panes) -> None:
    done = panes("check", "--json", "-", "app.cql", stdin=WRONG)
    assert done.exit_code == 1
    errors = json.loads(done.stdout)
    assert errors[1] == {
        "file": "stdin",
        "line": 3,
        "column": 8,
        "end_line": 3,
        "end_column": 12,
        "severity": "error",
        "message": "there is no column 'pric'",
        "hints": ["did you mean 'price'?"],
    }
    assert json.loads(panes("check", "--json", "app.cql").stdout) == []


@pytest.mark.parametrize("command", ["check", "fmt"])
def test_a_file_that_is_not_there_is_wrong_usage(panes: Panes, command: str) -> None:
    assert panes(command, "no.cql").exit_code == 2


def test_a_file_that_is_no_text(panes: Panes, tmp_path: Path) -> None:
    (tmp_path / "app.cql").write_bytes(b"SELECT \xff")
    done = panes("check", "app.cql")
    assert done.exit_code == 1
    assert "UTF-8" in done.stderr


def test_fmt_lays_files_out_in_place(panes: Panes, tmp_path: Path) -> None:
    (tmp_path / "app.cql").write_text("select a,b from t[size 3];-- why\n")
    assert panes("fmt", "--check", "app.cql").exit_code == 1
    done = panes("fmt", "app.cql")
    assert (done.exit_code, done.stderr) == (0, "app.cql changed\n")
    assert (tmp_path / "app.cql").read_text() == "SELECT a, b FROM t [SIZE 3]; -- why\n"
    assert panes("fmt", "--check", "app.cql").exit_code == 0
    assert panes("fmt", "app.cql").stderr == ""


def test_fmt_from_stdin_to_stdout(panes: Panes) -> None:
    assert panes("fmt", "-", stdin="show   streams").stdout.rstrip() in ("SHOW STREAMS", "SHOW STREAMS;")


def test_fmt_leaves_files_with_errors(panes: Panes, tmp_path: Path) -> None:
    (tmp_path / "bad.cql").write_text("selct 1")
    (tmp_path / "good.cql").write_text("show   streams;")
    done = panes("fmt", "bad.cql", "good.cql")
    assert done.exit_code == 1
    assert "bad.cql:1:1" in done.stderr
    assert (tmp_path / "bad.cql").read_text() == "selct 1"
    assert (tmp_path / "good.cql").read_text() == "SHOW STREAMS;\n"


@pytest.mark.parametrize(
    ("phase", "said"),
    [
        ("parse", "SELECT symbol, sum(price) AS total FROM trades"),
        ("rewrite", "SELECT symbol, sum(price) AS total FROM trades"),
        ("resolve", "a window per symbol"),
        ("compile", "Strategy"),
    ],
)
def test_explain_shows_what_each_phase_gives(panes: Panes, phase: str, said: str) -> None:
    done = panes("explain", "app.cql", "--phase", phase)
    assert done.exit_code == 0, done.stderr
    assert said in done.stdout
    assert "-- line 2: SELECT symbol" in done.stdout


def test_explain_takes_text_instead_of_a_file(panes: Panes) -> None:
    done = panes("explain", "-e", "SELECT 1 + 2 AS three FROM s", "--phase", "rewrite")
    assert done.stdout.startswith("SELECT 3 AS three")


def test_explain_tells_errors(panes: Panes) -> None:
    done = panes("explain", "-e", "SELECT a FROM nowhere")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "nowhere" in done.stderr


@pytest.mark.parametrize("command", ["", "run", "sql", "explain", "check", "fmt", "version"])
def test_help_tells_enough_to_learn_from(panes: Panes, command: str) -> None:
    done = panes(*([command] if command else []), "--help")
    assert done.exit_code == 0
    if command not in ("", "version"):
        assert "Examples:" in done.stdout
        assert f"\n    panes {command}" in done.stdout or f"\n      panes {command}" in done.stdout
        assert "{b}" not in done.stdout
