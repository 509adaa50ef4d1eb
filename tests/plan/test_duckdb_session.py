"""What DuckDB says and gives: types are known without rows, and a statement that is kept reads what it is given."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from panes.errors import ExpressionError
from panes.plan import duckdb_session
from panes.plan.duckdb_session import arrow_types, run
from panes.plan.expressions import Scope
from panes.plan.scalars import Scalars

KINDS = [
    pa.null(), pa.bool_(), pa.int8(), pa.uint8(), pa.uint64(), pa.int64(), pa.float32(), pa.float64(),
    pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary(4),
    pa.date32(), pa.date64(), pa.time32("s"), pa.time64("us"), pa.time64("ns"),
    pa.timestamp("s"), pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("us", tz="UTC"),
    pa.timestamp("us", tz="Europe/Berlin"), pa.duration("us"), pa.month_day_nano_interval(),
    pa.decimal128(10, 2), pa.decimal128(38, 0), pa.list_(pa.int32()), pa.map_(pa.string(), pa.int32()),
    pa.struct([("a", pa.int32()), ("B c", pa.string())]), pa.dictionary(pa.int32(), pa.string()),
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_type_that_is_known_is_the_one_that_comes(kind: pa.DataType) -> None:
    texts = ["coalesce(x, x)", "x IS NULL", "nullif(x, x)"]
    scalars = Scalars.of(Scope(pa.schema([("x", kind)])), texts)
    for rows in (0, 2):
        found = scalars.evaluate(pa.table({"x": pa.nulls(rows, kind)}))
        assert {text: column.type for text, column in found.items()} == dict(scalars.types)


@pytest.mark.parametrize("time", range(2))
def test_a_type_that_duckdb_does_not_have(time: int) -> None:
    with pytest.raises(ExpressionError, match="values of type halffloat can't be computed with"):
        Scalars.of(Scope(pa.schema([("x", pa.float16())])), ["x IS NULL"])


def test_several_types_are_asked_for_at_once() -> None:
    assert arrow_types({"a": pa.int32(), "b": pa.string()}, ["a + a", "b || 'x'", "1"]) == [
        pa.int32(),
        pa.string(),
        pa.int32(),
    ]


def test_a_statement_reads_the_tables_of_each_run() -> None:
    sql = "SELECT a + b AS s FROM one JOIN two ON a = b"
    for numbers in ([1, 2], [2, 3, 4], [7]):
        tables = {"one": pa.table({"a": numbers}), "two": pa.table({"b": [2, 7]})}
        assert run(sql, tables)["s"].to_pylist() == [2 * n for n in numbers if n in (2, 7)]
    # a name in text is text
    sql = "SELECT 'one' AS s, 'it''s one' AS t, a FROM one WHERE a <> 'one'"
    assert run(sql, {"one": pa.table({"a": ["x", "one"]})}).to_pylist() == [{"s": "one", "t": "it's one", "a": "x"}]
    # the same names with other columns, and other names with the same columns
    assert run("SELECT c FROM one", {"one": pa.table({"c": ["x"]})})["c"].to_pylist() == ["x"]
    assert run("SELECT a FROM three", {"three": pa.table({"a": [5]})})["a"].to_pylist() == [5]


def test_statements_that_are_forgotten_are_bound_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb_session, "_MOST", 3)
    for _ in range(2):
        for number in range(10):
            name = f"c{number % 5}"
            found = run(f"SELECT {name} + {number} AS s FROM one", {"one": pa.table({name: [1]})})
            assert found["s"].to_pylist() == [1 + number]
            both = {"one": pa.table({name: [1]}), "two": pa.table({"x": pa.array([2], pa.decimal128(10, number))})}
            found = run(f"SELECT {name} + {number} AS s FROM one, two WHERE x = 2", both)
            assert found["s"].to_pylist() == [1 + number]
            assert arrow_types({name: pa.decimal128(10, number)}, [name]) == [pa.decimal128(10, number)]


def test_threads_have_statements_of_their_own() -> None:
    def answer(number: int) -> list[int]:
        return run("SELECT a * 2 AS s FROM one", {"one": pa.table({"a": [number] * 50})})["s"].to_pylist()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(answer, range(40))) == [[2 * n] * 50 for n in range(40)]


def test_a_run_that_fails_leaves_the_statement_usable() -> None:
    import duckdb

    sql = "SELECT CAST(a AS INTEGER) AS s FROM one"
    with pytest.raises(duckdb.Error):
        run(sql, {"one": pa.table({"a": ["x"]})})
    assert run(sql, {"one": pa.table({"a": ["3"]})})["s"].to_pylist() == [3]


def test_duckdb_never_writes_a_progress_bar_into_the_output() -> None:
    shown = duckdb_session.connection().execute("SELECT current_setting('enable_progress_bar')").fetchall()
    assert shown == [(False,)]
