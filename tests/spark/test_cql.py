"""CQL on Spark: the statements of `tests/cql/statements` over DataFrames give what they give in this process.

All of them as static frames. Some as streams, where the end of the data is no end: what is given is
what the embedded runner gives before it.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import panes as pn
from panes.api.stream import Stream
from panes.cql.session import QueryRows, Session
from panes.errors import DataError, QueryError
from panes.plan.batches import to_table
from panes.runners.local.reading import ReadOptions, batches
from tests.cql.test_statements import cases, plain, run

CASES = {param.id: param.values for param in cases() if "rows" in param.values[0]}

#: Statements that static frames of Spark answer otherwise, and why.
NOT_STATIC = dict.fromkeys(
    ("clauses: watermark and late rows", "tried: a window that was given takes none"),
    "a static frame has no watermark, so no row of it is late",
)

#: Ways to put streams together: a stream of Spark takes 8 seconds, however few rows it has. All statements run as
#: streams by `python -m tests.spark.cql_all`.
STREAMED = (
    "clauses: several windows with predicates of their own",
    "clauses: a left join with a condition and an order",
    "clauses: a subquery of aggregates under a window",
    "windows: Q-15 system by system",
    "slides: ticks go as far as the last row of any key",
    # refused at once
    "found: results of windows that don't end in time are counted as they come",
    "found: windows that the end of the stream gives come after those that ended before it",
    "found: the end of a window is not that of a window further inside",
    "found: a column that a join is by is not the end of its window",
    "found: a column called window_end that is none",
)
#: What comes before the end where that can't be seen from outside: queries inside a stream.
BEFORE_THE_END = {"clauses: several windows with predicates of their own": [["all", 60], ["a", 40]]}
_NO_ORDER = "Spark's watermark passes results by the end of their window, and the outer windows go by another order"
#: Results of windows that are joined with others run as one step, in the order of their ends.
_JOINED = "found: a column that a join is by is not the end of its window"
#: Statements that can't be one streaming query of Spark, and why.
NOT_STREAMED = {
    "windows: Q-15 system by system": "Spark stamps rows of a stream, by micro-batch: no clock of the program is asked",
    **{name: _NO_ORDER for name in STREAMED if name.startswith("found: ") and name != _JOINED},
}


def params(names: Any, gaps: dict[str, str]) -> list[Any]:
    assert gaps.keys() <= set(names)
    return [
        pytest.param(
            *CASES[name],
            id=name,
            marks=[pytest.mark.xfail(strict=True, reason=gaps[name], raises=(AssertionError, QueryError))]
            if name in gaps
            else [],
        )
        for name in names
    ]


def tables_of(case: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """The streams of a case: tables where rows have names, else rows by position."""
    wanted = case.get("streams", {})
    named = wanted if isinstance(wanted, dict) else {name: name for name in wanted}
    found = {name: data[rows] if isinstance(rows, str) else rows for name, rows in named.items()}
    return {name: to_table(r) if r and isinstance(r[0], dict) else by_position(r) for name, r in found.items()}


def by_position(rows: list[Any]) -> list[Any]:
    return [tuple(row) if isinstance(row, list) else row for row in rows]


def query_of(case: dict[str, Any], streams: dict[str, Any], **options: Any) -> Any:
    ticks = iter(case.get("clock", []))
    clock = (lambda: next(ticks)) if "clock" in case else None
    last = run(Session(streams, clock=clock, **options), case)
    assert isinstance(last, QueryRows)
    return last.query


def values(table: pa.Table) -> list[Any]:
    return [[plain(value) for value in row.values()] for row in table.to_pylist()]


def bag(rows: list[Any]) -> Counter[str]:
    return Counter(map(repr, rows))


@pytest.mark.parametrize(("case", "data"), params(CASES, NOT_STATIC))
def test_statements_over_static_frames_give_what_is_written_down(
    spark: Any, case: dict[str, Any], data: dict[str, Any]
) -> None:
    frames = {
        name: rows if isinstance(rows, list) else spark.createDataFrame(rows).coalesce(1)
        for name, rows in tables_of(case, data).items()
    }
    table = query_of(case, frames, runner="spark").to_spark().toArrow()
    if "columns" in case:
        assert table.column_names == case["columns"]
    if "ORDER BY" in case["run"]:
        assert values(table) == case["rows"]
    else:  # a frame has no order
        assert bag(values(table)) == bag(case["rows"])


@pytest.mark.parametrize(("case", "data"), params(STREAMED, NOT_STREAMED))
def test_statements_over_streams_give_what_is_written_down(
    spark: Any, tmp_path: Path, request: pytest.FixtureRequest, case: dict[str, Any], data: dict[str, Any]
) -> None:
    check_stream(spark, tmp_path, request.node.callspec.id)


def check_stream(spark: Any, checkpoint: Path, name: str) -> None:
    case, data = CASES[name]
    tables = tables_of(case, data)
    halves = {name: [t.slice(0, t.num_rows // 2), t.slice(t.num_rows // 2)] for name, t in tables.items()}
    frames = {name: pn.testing.micro_batches(spark, parts) for name, parts in halves.items()}
    found: list[Any] = []
    stream_into(found, query_of(case, frames, runner="spark").to_spark(), checkpoint)
    expected = BEFORE_THE_END.get(name) or before_the_end(case, tables)
    if "ORDER BY" in case["run"]:
        assert found == expected
    else:
        assert bag(found) == bag(expected)


def stream_into(rows: list[Any], frame: Any, checkpoint: Path) -> None:
    writer = frame.writeStream.foreachBatch(lambda batch, _: rows.extend(values(batch.toArrow())))
    started = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    started.awaitTermination()


class NoMore(Exception):
    """The data has come to its end, the stream has not."""


def endless(table: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from table.to_batches()
    raise NoMore


def before_the_end(case: dict[str, Any], tables: dict[str, Any]) -> list[Any]:
    """What the embedded runner gives while rows come."""
    query = query_of(case, tables)
    if not isinstance(query, Stream):
        op = query.operator()
        return [row for batch in batches(query._node.source, ReadOptions()) for row in values(op.push(batch).table)]
    if len(tables) > 1:  # read side by side: the first to end would stop the others
        return values(query.to_arrow())
    found = []
    with contextlib.suppress(NoMore):
        for row in query_of(case, {name: endless(table) for name, table in tables.items()}).rows():
            found.append([plain(value) for value in row.values()])
    return found


# --- sources ---

DECLARED = "CREATE STREAM s (symbol String, price Double, n Int, at Datetime) SOURCE "
ROWS = [["A", 1.5, 1, "2024-01-01 00:00:01"], ["B", None, 2, "2024-01-01 00:00:02"]]
CSV = 'symbol,price,n,at\n"A",1.5,1,2024-01-01 00:00:01\nB,,2,2024-01-01T01:00:02+01:00\n'
JSON = """{"symbol":"A","price":1.5,"n":1,"at":"2024-01-01 00:00:01"}
{"n":2,"at":"2024-01-01T00:00:02Z","symbol":"B","more":0}
"""


def write_files(folder: Path) -> None:
    (folder / "a.csv").write_text(CSV)
    (folder / "b.txt").write_text(CSV.replace(",", ";"))
    (folder / "bad.csv").write_text(CSV + "C,cheap,3,2024-01-01\nD,1\n\n")
    (folder / "c.jsonl").write_text(JSON)
    at = pa.array([1_704_067_201, 1_704_067_202]).cast(pa.timestamp("s", "UTC")).cast(pa.timestamp("us", "UTC"))
    table = pa.table({"AT": at, "N": [1, 2], "more": [0, 0], "Price": pa.array([1.5, None]), "SYMBOL": ["A", "B"]})
    pyarrow.parquet.write_table(table, folder / "d.parquet")


FILES = ["'a.csv'", "'b.txt', ';'", "'bad.csv'", "'*.jsonl'", "'d.parquet'"]


@pytest.mark.parametrize("arguments", FILES)
def test_files_give_the_same_rows_on_both_runners(spark: Any, tmp_path: Path, arguments: str) -> None:
    write_files(tmp_path)
    text = f"{DECLARED} FILE ({arguments}); SELECT * FROM s"
    assert values(pn.sql(text, folder=tmp_path).to_arrow()) == ROWS
    assert values(pn.sql(text, folder=tmp_path, runner="spark").to_spark().toArrow()) == ROWS


def test_files_that_are_watched(spark: Any, tmp_path: Path) -> None:
    write_files(tmp_path)
    sources = [f"{DECLARED.replace(' s ', f' s{i} ')} FILE ({arguments});" for i, arguments in enumerate(FILES)]
    text = f"{' '.join(sources)} MERGE {', '.join(f's{i}' for i in range(len(FILES)))}"
    frame = pn.sql(text, folder=tmp_path, runner="spark", streaming=True).to_spark()
    assert frame.isStreaming
    found: list[Any] = []
    stream_into(found, frame, tmp_path / "checkpoint")
    assert bag(found) == bag(ROWS * len(FILES))


def test_files_that_are_missing(spark: Any, tmp_path: Path) -> None:
    for name in ("none.csv", "none.parquet"):
        query = pn.sql(f"{DECLARED} FILE ('{name}'); SELECT * FROM s", folder=tmp_path, runner="spark")
        with pytest.raises(DataError, match=r"none.* does not exist"):
            query.to_spark()


def test_declared_types_change_no_value(spark: Any) -> None:
    text = "CREATE STREAM s (n Int) SOURCE STREAM ('given'); SELECT n FROM s"
    frames = [spark.createDataFrame(pa.table({"N": [n]})) for n in (1.0, 1.5)]
    assert values(pn.sql(text, {"given": frames[0]}).to_spark().toArrow()) == [[1]]
    with pytest.raises(Exception, match="column 'n' must be int32"):
        pn.sql(text, {"given": frames[1]}).to_spark().toArrow()


def test_a_socket_gives_its_lines_as_rows(spark: Any, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def send() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"A;1.5;1;2024-01-01 00:00:01\nbad\nB;2.5;2;2024-01-01 00:00:02\n")

        thread = threading.Thread(target=send)
        thread.start()
        text = f"{DECLARED} SOCKET ('127.0.0.1', {server.getsockname()[1]}, ';'); SELECT sum(n) AS n FROM s [SIZE 2]"
        frame = pn.sql(text, runner="spark", timeout=20).to_spark()
        found: list[Any] = []
        stream_into(found, frame, tmp_path)
        thread.join()
    assert found == [[3]]


def test_streams_and_static_frames_are_not_merged(spark: Any) -> None:
    table = pa.table({"x": [1]})
    streams = {"a": spark.createDataFrame(table), "b": pn.testing.micro_batches(spark, [table])}
    with pytest.raises(QueryError, match="some are static"):
        pn.sql("MERGE a, b", streams, runner="spark").to_spark()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT l.n, r.n FROM a [SIZE 9 ON e] AS l JOIN b [SIZE 9 ON e] AS r ON l.e = r.e", [[1, 1], [1, 1], [1, 1]]),
        ("SELECT sum(n) AS n FROM ab [SIZE 9 ON e]", [[2], [4]]),
    ],
)
def test_streams_of_window_results_are_joined_and_merged(
    spark: Any, tmp_path: Path, text: str, expected: list[Any]
) -> None:
    """Windows [0, 9) have results that end at 3 and 6, and [27, 36) one; the row at 60 closes them."""
    streams = {"s": pn.testing.micro_batches(spark, [pa.table({"ts": [1, 4, 30, 60], "v": [1, 2, 3, 4]})])}
    inner = "SELECT window_end AS e, count(*) AS n FROM s [SIZE 3 ON ts]"
    made = f"CREATE STREAM a AS {inner}; CREATE STREAM b AS {inner}; CREATE STREAM ab AS MERGE a, b;"
    found: list[Any] = []
    stream_into(found, pn.sql(f"{made} {text}", streams, runner="spark").to_spark(), tmp_path)
    assert sorted(found) == expected


def test_statements_over_no_rows_give_none(spark: Any) -> None:
    text = "CREATE STREAM s (k String, v Int) SOURCE STREAM ('given'); SELECT sum(v) AS n FROM s [SIZE 2]"
    given: list[Any] = [[], spark.createDataFrame([], "k string, v int")]
    for data in given:
        assert pn.sql(text, {"given": data}, runner="spark").to_spark().toArrow().num_rows == 0
