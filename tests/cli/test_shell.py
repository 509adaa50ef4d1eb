r"""`panes sql`: piped statements, commands, completion, and the prompt with keys pressed by the test."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from panes.cli.prompt import NameCompleter, PromptReader, history_file
from panes.cli.reading import LineReader, is_finished, suggestions
from panes.cli.shell import open_reader
from panes.cli.shell_help import COMMANDS, TOPICS, help_text
from panes.cql.errors import CqlError
from panes.cql.parse import parse
from panes.cql.session import Session
from tests.cli.conftest import MAKE, TOTALS, Panes

ROWS = "symbol  total\n------  -----\nA          40\nB          20\nA          40\nB          50\n(4 rows)\n"


def test_piped_statements_of_many_lines(panes: Panes) -> None:
    done = panes("sql", stdin=f"{MAKE}\n{TOTALS.replace(' ', chr(10))}\n")
    assert (done.exit_code, done.stdout, done.stderr) == (0, f"stream trades created\n{ROWS}", "")


def test_an_error_does_not_stop_the_statements_behind_it(panes: Panes) -> None:
    done = panes("sql", stdin=f"{MAKE}\nSELECT nothing FROM trades;\nSELEC;\n\\nothing\n{TOTALS}\n")
    assert (done.exit_code, done.stdout) == (1, f"stream trades created\n{ROWS}")
    assert "there is no column 'nothing'" in done.stderr
    assert "there is no command \\nothing" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_last_statement_needs_no_semicolon_in_a_pipe(panes: Panes) -> None:
    assert panes("sql", stdin="SHOW QUERIES").stdout.startswith("query  target  text")


def test_a_split_goes_on_behind_its_semicolons(panes: Panes) -> None:
    split = "ON trades INSERT INTO a SELECT price WHERE price < 25;\nINSERT INTO b SELECT price WHERE price > 25;\n"
    done = panes("sql", stdin=f"{MAKE}\n{split}SELECT price FROM a;\n")
    assert (
        done.stdout
        == "stream trades created\nstream a created, stream b created\nprice\n-----\n   10\n   20\n(2 rows)\n"
    )


def test_backslash_commands_are_carried_out(panes: Panes, tmp_path: Path) -> None:
    (tmp_path / "make.cql").write_text(MAKE)
    done = panes(
        "sql", stdin="\\i make.cql\n\\d\n\\d trades\n\\timing\nSHOW STREAMS;\n\\timing off\n\\h\n\\q\nSHOW SCHEMAS;\n"
    )
    assert done.exit_code == 0, done.stderr
    assert done.stdout.count("file trades.csv") == 2
    assert "price   Long" in done.stdout
    assert "timing is on" in done.stdout
    assert done.stdout.count(" ms\n") == 1
    assert "\\i FILE" in done.stdout
    assert done.stdout.count("schema  columns") == 1  # of \d; nothing behind \q


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("\\i", "needs the name of a file"),
        ("\\i no.cql", "no.cql"),
        ("\\i bad.cql", "expected CREATE"),
        ("\\d nowhere", "nowhere"),
        ("\\timing maybe", "on or off"),
        ("\\h nothing", "there is no help for nothing"),
    ],
)
def test_commands_that_cannot_be_carried_out(panes: Panes, tmp_path: Path, typed: str, said: str) -> None:
    (tmp_path / "bad.cql").write_text("SELCT 1")
    done = panes("sql", stdin=f"{typed}\n")
    assert done.exit_code == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_insert_into_a_file(panes: Panes, tmp_path: Path) -> None:
    done = panes("sql", stdin=f"{MAKE} INSERT INTO FILE ('out.csv') {TOTALS} SHOW QUERIES;\n")
    assert done.stderr == "wrote 4 rows to out.csv\n"
    assert "query_1" in done.stdout
    assert (tmp_path / "out.csv").is_file()


@pytest.mark.parametrize("topic", TOPICS)
def test_every_example_of_the_help_can_be_read(topic: str) -> None:
    for example in TOPICS[topic].examples:
        assert len(parse(example)) == 1
    assert all(f"  {example};" in help_text(topic.lower()) for example in TOPICS[topic].examples)


def test_help_lists_functions_and_commands() -> None:
    assert "approx_count_distinct" in help_text("functions")
    assert all(command in help_text() for command in COMMANDS)
    with pytest.raises(CqlError, match="did you mean 'SELECT'"):
        help_text("selct")


@pytest.mark.parametrize(
    ("text", "finished"),
    [
        ("", True),
        ("\\d", True),
        ("SELECT a", False),
        ("SELECT a\nFROM t;", True),
        ("SELECT ';'", False),
        ("SELECT a -- ;", False),
        ("SELECT a; -- so", True),
        ("/* ;", False),
        ("ON t INSERT INTO a SELECT * WHERE b;", False),
        ("ON t INSERT INTO a SELECT * WHERE b;\n", True),
    ],
)
def test_when_a_statement_is_finished(text: str, finished: bool) -> None:
    assert is_finished(text) is finished


def test_lines_are_read_as_they_come() -> None:
    reader = LineReader(io.StringIO("\n-- note\nSHOW\nSTREAMS;\n\\d\nSHOW"), prompts=False)
    assert [reader.read() for _ in range(4)] == ["-- note\n", "SHOW\nSTREAMS;\n", "\\d\n", "SHOW"]
    assert reader.read() is None


@pytest.fixture(scope="module")
def session() -> Session:
    made = Session({"orders": [{"id": 1, "qty": 2}]})
    list(made.run("CREATE STREAM trades (symbol STRING, price DOUBLE, ts TIMESTAMP); CREATE SCHEMA tick (a INT)"))
    return made


@pytest.mark.parametrize(
    ("before", "wanted", "unwanted"),
    [
        ("", "SELECT CREATE", "FROM price"),
        ("sel", "select", "SELECT show"),
        ("SELECT * FROM ", "trades orders", "price avg SELECT"),
        ("SELECT pri", "price", "prices symbol"),
        ("SELECT a", "avg abs as", "price"),
        ("SELECT  FROM trades [SIZE 10 ", "EVERY ON sec min ts", "avg qty"),
        ("SELECT trades.", "price symbol", "qty avg"),
        ("SELECT x FROM orders [SIZE 3] AS o WHERE o.", "id qty", "price"),
        ("CREATE ", "STREAM SCHEMA", "QUERY"),
        ("CREATE STREAM s (a ", "STRING DOUBLE TIMESTAMP", ""),
        ("SHOW ", "STREAMS SCHEMAS QUERIES", "STREAM"),
        ("DESCRIBE tr", "trades", "orders"),
        ("SHOW STREAMS; SELECT wind", "window window_start", "SHOW"),
        ("SELECT 'pri", "", "price"),
        ("\\", "\\d \\h \\i \\q \\timing", "SELECT"),
        ("\\d ", "trades orders tick", "\\d"),
        ("\\h sel", "SELECT", "SHOW"),
    ],
)
def test_completion_suggests_what_fits_here_only(session: Session, before: str, wanted: str, unwanted: str) -> None:
    found = [s.text for s in suggestions(before, lambda: session)]
    assert set(wanted.split()) <= set(found)
    assert not set(unwanted.split()) & set(found)


def test_completion_suggests_files_of_a_folder(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "apps").mkdir()
    (tmp_path / "apps" / "one.cql").touch()
    assert [s.text for s in suggestions("\\i ap", lambda: session)] == ["apps/"]
    assert [(s.text, s.length) for s in suggestions("\\i apps/o", lambda: session)] == [("one.cql", 1)]


@pytest.fixture
def keyboard(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A prompt, and a pipe to press keys with."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        yield PromptReader(lambda: session), keys


def test_the_prompt_waits_for_the_semicolon(keyboard: Any) -> None:
    reader, keys = keyboard
    keys.send_text("SELECT price\rFROM trades;\r\\d trades\r\x04")
    assert [reader.read() for _ in range(3)] == ["SELECT price\nFROM trades;", "\\d trades", None]


def test_the_prompt_completes(session: Session) -> None:
    (found,) = NameCompleter(lambda: session).get_completions(Document("DESCRIBE tra"), CompleteEvent())
    assert (found.text, found.start_position, found.display_meta_text) == ("trades", -3, "stream")


def test_the_prompt_remembers(keyboard: Any, tmp_path: Path) -> None:
    reader, keys = keyboard
    keys.send_text("DESCRIBE trades;\r")
    assert reader.read() == "DESCRIBE trades;"
    assert history_file() == tmp_path / "panes" / "history"
    assert "+DESCRIBE trades;" in history_file().read_text()
    assert history_file().stat().st_mode & 0o077 == 0


def test_ctrl_c_drops_what_is_typed(keyboard: Any) -> None:
    reader, keys = keyboard
    keys.send_text("SELECT pri\x03SHOW STREAMS;\r")
    with pytest.raises(KeyboardInterrupt):
        reader.read()
    assert reader.read() == "SHOW STREAMS;"


def test_without_prompt_toolkit_lines_are_read(session: Session, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setitem(sys.modules, "prompt_toolkit", None)
    monkeypatch.delitem(sys.modules, "panes.cli.prompt")
    monkeypatch.setattr("sys.stdin", io.StringIO("SHOW\nSTREAMS;\n"))
    reader = open_reader(lambda: session, interactive=True)
    assert reader.read() == "SHOW\nSTREAMS;\n"
    assert reader.read() is None
    said = capsys.readouterr()
    assert said.out == "panes>   ...> panes> "
    assert "pip install 'panes[shell]'" in said.err
