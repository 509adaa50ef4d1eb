"""The parts that commands are made of: writers, cells, live tables, masters and errors of Spark."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from panes.cli.engine import together
from panes.cli.on_spark import reason, start_spark
from panes.cli.sinks import Format, format_of, open_writer
from panes.cli.tables import LiveTables, PrintedTable, Seen, cell
from panes.errors import QueryError

MOMENT = dt.datetime(2020, 1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        (27.666666666666668, "27.6666666667"),
        (MOMENT, "2020-01-02 03:04:05"),
        (MOMENT.replace(microsecond=250_000), "2020-01-02 03:04:05.250"),
        (MOMENT.replace(microsecond=1), "2020-01-02 03:04:05.000001"),
        ("red\x1b[31m\n", "red\\x1b[31m\\n"),
        ("x" * 100, "x" * 57 + "..."),
        ([1, None], "[1, null]"),
        ({"a": [1]}, "{a: [1]}"),
    ],
)
def test_a_value_is_shown_on_one_line(value: Any, shown: str) -> None:
    assert cell(value) == shown


def test_printed_columns_widen_as_rows_come() -> None:
    out = io.StringIO()
    table = PrintedTable(["n", "name"], [True, False], out)
    table.add(iter([["1", "東京"]]))
    table.add(iter([["1000", "a"]]))
    table.close()
    assert out.getvalue() == "n  name\n-  ----\n1  東京\n1000  a\n"


def test_printed_names_without_rows() -> None:
    out = io.StringIO()
    PrintedTable(["a", "b"], [False, True], out).close()
    assert out.getvalue() == "a  b\n-  -\n"


TABLE = pa.table(
    {
        "f": [1.5, float("nan")],
        "s": ['a "quoted", text', None],
        "t": pa.array([MOMENT, None], pa.timestamp("us")),
        "l": [[1, 2], None],
        "d": pa.array([Decimal("1.10"), None], pa.decimal128(5, 2)),
        "b": [b"\xff", None],
    }
)


def written(form: Format, to: Path) -> bytes:
    writer = open_writer(form, TABLE.schema, to)
    writer.write(TABLE.slice(0, 1))
    writer.write(TABLE.slice(1, 1))
    writer.close()
    assert writer.rows == 2
    return to.read_bytes()


def test_json_has_what_json_can_say(tmp_path: Path) -> None:
    first, second = map(json.loads, written(Format.json, tmp_path / "x").splitlines())
    assert first == {
        "f": 1.5,
        "s": 'a "quoted", text',
        "t": "2020-01-02T03:04:05",
        "l": [1, 2],
        "d": "1.10",
        "b": "/w==",
    }
    assert set(second.values()) == {None}


def test_csv_quotes_text_and_writes_lists_as_json(tmp_path: Path) -> None:
    lines = written(Format.csv, tmp_path / "x").decode().splitlines()
    assert lines[0] == "f,s,t,l,d,b"
    assert lines[1] == '1.5,"a ""quoted"", text",2020-01-02 03:04:05.000000,"[1, 2]",1.10,"/w=="'


def test_parquet_keeps_the_schema(tmp_path: Path) -> None:
    from pyarrow import parquet

    written(Format.parquet, tmp_path / "x")
    assert parquet.read_table(tmp_path / "x").schema == TABLE.schema


def test_the_suffix_says_the_format_of_a_file() -> None:
    assert [format_of(p) for p in ("a.CSV", "a.jsonl", "a.pq", "a")] == [Format.csv, Format.json, Format.parquet, None]
    with pytest.raises(QueryError, match="not as table"):
        open_writer(Format.table, TABLE.schema, io.BytesIO())


def numbers(start: int, stop: int) -> pa.Table:
    return pa.table({"n": list(range(start, stop))})


@pytest.mark.parametrize("sizes", [[1] * 1000, [1000], [3, 997], [999, 1]])
def test_long_results_keep_their_first_and_last_rows(sizes: list[int]) -> None:
    seen = Seen("", numbers(0, 1).schema, most=10)
    at = 0
    for size in sizes:
        seen.add(numbers(at, at + size))
        at += size
    head, tail, between = seen.whole()
    assert [row[0] for row in head] == ["0", "1", "2", "3", "4"]
    assert [row[0] for row in tail] == ["995", "996", "997", "998", "999"]
    assert between == 990
    assert seen.newest(2) == [["998"], ["999"]]


def test_live_tables_stay_when_queries_have_ended() -> None:
    out = io.StringIO()
    seen = Seen("SELECT [bold]n", numbers(0, 1).schema, most=None)
    with LiveTables(Console(file=out, force_terminal=True, width=60, height=20), [seen]):
        seen.add(numbers(100, 130))
    last = out.getvalue().split("\x1b[2K")[-1]
    assert "SELECT [bold]n" in last
    assert all(str(n) in last for n in range(100, 130))
    assert "30 rows in" in last


def test_tables_of_several_queries_come_by_turns() -> None:
    short, long = [numbers(0, 1)], [numbers(1, 2), numbers(2, 3), numbers(3, 4)]
    turns = [(number, table["n"][0].as_py()) for number, table in together([iter(short), iter(long)])]
    assert turns == [(0, 0), (1, 1), (1, 2), (1, 3)]


@pytest.mark.parametrize(
    ("master", "options"),
    [
        (None, {}),
        ("local", {"cores": 1}),
        ("local[3]", {"cores": 3}),
        ("local[*]", {"cores": None}),
        ("spark://host:7077", {"settings": {"spark.master": "spark://host:7077", "a": "b"}}),
    ],
)
def test_a_master_becomes_options_of_the_session(
    monkeypatch: pytest.MonkeyPatch, master: str | None, options: dict[str, Any]
) -> None:
    monkeypatch.setattr("panes.runners.spark.session.spark", lambda **given: given)
    assert start_spark(master, {"a": "b"}) == {"settings": {"a": "b"}, **options}


@pytest.mark.parametrize("master", ["local[0]", "local[x]", "sc://host"])
def test_masters_that_cannot_be(master: str) -> None:
    with pytest.raises(QueryError, match="--master"):
        start_spark(master, {})


def test_reasons_of_spark_without_stacks() -> None:
    said = "[PATH_NOT_FOUND] Path does not exist.\n\tat org.apache.A(B.scala:1)\n\t... 3 more\n"
    assert reason(said) == "[PATH_NOT_FOUND] Path does not exist."
    worker = 'Job aborted\nTraceback (most recent call last):\n  File "x.py", line 1\npanes.errors.DataError: bad row\n'
    assert reason(worker) == "bad row"
