"""Sessions: sources of all kinds, phases, answers, and data that the program gives."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

import panes as pn
from panes.cql.errors import CqlError
from panes.cql.parse import parse
from panes.cql.session import QueryRows, Session

DECLARED = "CREATE STREAM s (symbol String, price Double, n Int) SOURCE "


def rows(session: Session, text: str) -> list[dict[str, Any]]:
    answer = list(session.run(text))[-1]
    assert isinstance(answer, QueryRows)
    return answer.query.to_arrow().to_pylist()


@pytest.mark.parametrize(
    ("name", "content", "arguments"),
    [
        ("a.csv", "symbol,price,n\nA,1.5,1\nB,2.5,2\n", "'a.csv'"),
        ("b.csv", "A,1.5,1\nB,2.5,2\n", "'b.csv'"),
        ("c.txt", "A;1.5;1\nB;2.5;2", "'c.txt', ';'"),
        ("d.jsonl", '{"symbol":"A","price":1.5,"n":1}\n{"n":2,"price":2.5,"symbol":"B"}\n', "'*.jsonl'"),
    ],
)
def test_files_of_every_form_give_the_same_rows(tmp_path: Path, name: str, content: str, arguments: str) -> None:
    (tmp_path / name).write_text(content)
    found = rows(Session(folder=tmp_path), f"{DECLARED} FILE ({arguments}); SELECT * FROM s")
    assert found == [{"symbol": "A", "price": 1.5, "n": 1}, {"symbol": "B", "price": 2.5, "n": 2}]


def test_parquet_by_name_of_column(tmp_path: Path) -> None:
    table = pa.table({"N": [1], "Price": [1.5], "other": [0], "SYMBOL": ["A"]})
    pyarrow.parquet.write_table(table, tmp_path / "p.parquet")
    found = rows(Session(folder=tmp_path), f"{DECLARED} FILE ('p.parquet'); SELECT * FROM s")
    assert found == [{"symbol": "A", "price": 1.5, "n": 1}]


def test_bad_lines_are_kept_aside(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("A,1.5,1\nB,cheap,2\nC,2.5\nD,3.5,4\n")
    session = Session(folder=tmp_path)
    (_, answer) = session.run(f"{DECLARED} FILE ('a.csv'); SELECT symbol, sum(n) AS n FROM s [SIZE 2] GROUP BY symbol")
    assert isinstance(answer, QueryRows)
    assert answer.query.to_arrow().to_pylist() == [{"symbol": "A", "n": 1}, {"symbol": "D", "n": 4}]
    assert answer.query.late.num_rows == 2


def test_a_file_that_is_missing_is_an_error_of_the_query_not_of_the_stream(tmp_path: Path) -> None:
    session = Session(folder=tmp_path)
    session.execute(f"{DECLARED} FILE ('none.csv')")
    with pytest.raises(pn.errors.DataError, match="no such file"):
        session.execute("SELECT * FROM s")


def test_a_socket_gives_its_lines_as_rows() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def send() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"A;1.5;1\nB;2.5;2\n")

        thread = threading.Thread(target=send)
        thread.start()
        found = rows(
            Session(timeout=10), f"{DECLARED} SOCKET ('127.0.0.1', {port}, ';'); SELECT sum(n) AS n FROM s [SIZE 2]"
        )
        thread.join()
    assert found == [{"n": 3}]


TABLE = {"ts": [1, 2, 3], "k": ["a", "b", "a"], "v": [1.0, 2.0, 4.0]}


@pytest.mark.parametrize(
    "data",
    [
        pd.DataFrame(TABLE),
        pa.table(TABLE),
        TABLE,
        [dict(zip(TABLE, row, strict=True)) for row in zip(*TABLE.values(), strict=True)],
        pn.stream(TABLE, time="ts", watermark=2),
        pn.stream(TABLE, time="ts").where("v > 0"),
    ],
    ids=["pandas", "arrow", "columns", "rows", "stream", "stream with a condition"],
)
def test_data_of_the_program(data: Any) -> None:
    query = pn.sql("SELECT k, sum(v) AS s FROM trades [SIZE 10 ON ts] GROUP BY k", {"Trades": data})
    assert sorted(map(repr, query.to_arrow().to_pylist())) == ["{'k': 'a', 's': 5.0}", "{'k': 'b', 's': 2.0}"]


def test_a_stream_of_the_program_keeps_its_order() -> None:
    """Windows on rows run on the event time that a stream is known to have."""
    given = pn.stream({"ts": [2, 1, 3], "v": [20, 10, 30]}, time="ts", watermark=5)
    query = pn.sql("SELECT collect_list(v) AS w FROM s [SIZE 3]", {"s": given})
    assert query.to_arrow().to_pylist() == [{"w": [10, 20, 30]}]


def test_the_same_as_the_python_api() -> None:
    made = pn.sql("SELECT k, sum(v) AS s FROM t [SIZE 2 ON ts] WHERE v > 1 GROUP BY k", {"t": TABLE})
    own = pn.stream(TABLE, time="ts", key="k").where("v > 1").window(window=pn.tumbling(2)).agg(s="sum(v)")
    assert isinstance(made, type(own))
    assert made._plan.windows == own._plan.windows
    assert made._plan.identity == own._plan.identity
    assert made.to_arrow().equals(own.select("k", "s").to_arrow())


def test_phases_can_be_printed_and_change_nothing() -> None:
    session = Session({"cars": [{"plate": 1, "price": 2}]})
    text = "select count(price) from (select plate, price from cars [size 1]) as c"
    assert session.phase(text, "parse") == "SELECT count(price) FROM (SELECT plate, price FROM cars [SIZE 1]) AS c"
    assert session.phase(text, "rewrite") == "SELECT count(price) FROM (SELECT plate, price FROM cars) [SIZE 1] AS c"
    resolved = session.phase(text, "resolve")
    assert "count(price) Long = COUNT(price)" in resolved
    assert "stream cars" in resolved
    assert "tumbling(rows(1), partial=True)" in session.phase(text, "compile")
    made = session.phase("create stream s (a Int)", "resolve")
    assert made.startswith("stream s (a Int)")
    assert not len(session.catalog.streams)


def test_check_finds_errors_without_opening_anything() -> None:
    session = Session()
    good, bad = parse("CREATE STREAM s (a Int) SOURCE FILE ('/nowhere/x.csv'); SELECT b FROM s")
    session.check(good)
    with pytest.raises(CqlError, match="there is no column 'b'"):
        session.check(bad)


def test_insert_into_file_names_the_file() -> None:
    answer = Session({"t": TABLE}).execute("INSERT INTO FILE ('out.csv') SELECT k FROM t")
    assert isinstance(answer, QueryRows)
    assert (answer.sink, answer.path, answer.name) == ("file", "out.csv", "query_1")


def test_char_to_byte_only_if_it_fits() -> None:
    text = """
        CREATE STREAM s (c Char) SOURCE STREAM ('given');
        CREATE STREAM t (b Byte) AS SELECT c FROM s;
        SELECT b FROM t
    """
    assert pn.sql(text, {"given": ["a"]}).to_arrow().to_pylist() == [{"b": 97}]
    with pytest.raises(pn.errors.DataError):
        pn.sql(text, {"given": [("é",)]}).to_arrow()


def test_sql_without_a_query() -> None:
    with pytest.raises(pn.errors.QueryError, match="no SELECT"):
        pn.sql("CREATE SCHEMA a (x Int)")


@pytest.mark.parametrize("name", ["self", "emit_empty", "window", "progress"])
def test_columns_may_have_names_of_python_arguments(name: str) -> None:
    data = {"t": [{name: 1, "ts": 1}]}
    assert pn.sql(f"SELECT {name} + 1 AS {name} FROM t", data).to_arrow().to_pylist() == [{name: 2}]
    found = pn.sql(f"SELECT sum({name}) AS self FROM t [SIZE 2 ON ts]", data).to_arrow().to_pylist()
    assert found == [{"self": 1}]


#: Streams that late rows may correct, each with the windows that it is asked for.
CORRECTABLE = {
    "declared": ("late [SIZE 10 ON ts]", True),
    "on rows": ("late [SIZE 2]", True),
    "by the clock": ("late [SIZE 10 sec]", False),
    "without LATENESS": ("plain [SIZE 10 ON ts]", False),
    "one side of a join": ("plain [SIZE 10 ON ts] AS a JOIN late [SIZE 10 ON ts] AS b USING (ts)", True),
    "rows of a subquery": ("(SELECT ts FROM late) [SIZE 10 ON ts] AS q", False),
    "derived": ("derived [SIZE 10 ON ts]", True),
    "merged": ("both [SIZE 10 ON ts]", False),
    "given by the program": ("mine [SIZE 10 ON ts]", True),
}


@pytest.mark.parametrize("name", CORRECTABLE)
def test_void_is_known_where_late_rows_correct_results(name: str) -> None:
    rows = [{"ts": 1}, {"ts": 12}, {"ts": 3}, {"ts": 30}]
    session = Session({"rows": rows, "mine": pn.stream(rows, time="ts", watermark=0, lateness=10)}, clock=lambda: 0)
    script = """
        CREATE STREAM late (ts Int) SOURCE STREAM ('rows') WATERMARK 0 ON ts LATENESS 10;
        CREATE STREAM plain (ts Int) SOURCE STREAM ('rows') WATERMARK 0 ON ts;
        CREATE STREAM derived (ts Int) AS SELECT ts FROM plain WATERMARK 0 ON ts LATENESS 10;
        CREATE STREAM both AS MERGE late, plain;
    """
    list(session.run(script))
    source, known = CORRECTABLE[name]
    if known:
        (answer,) = session.run(f"SELECT void, count(*) AS n FROM {source}")
        assert isinstance(answer, QueryRows)
        assert set(answer.query.to_arrow()["void"].to_pylist()) == {False}
    else:
        with pytest.raises(CqlError, match="have no void"):
            session.check(parse(f"SELECT void, count(*) AS n FROM {source}")[0])


def test_answers_are_found_by_their_names_of_before_with_a_warning() -> None:
    from panes.cql import session

    with pytest.warns(DeprecationWarning, match="Rows is now QueryRows"):
        assert session.Rows is QueryRows
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = session.Nothing
