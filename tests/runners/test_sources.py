"""Everything that can be given as data, read into batches of one schema."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import panes as pn
from panes.connectors.lines import CsvLines, JsonLines, LineFormat
from panes.connectors.sources import open_source
from panes.errors import DataError, QueryError
from panes.plan.types import arrow_schema
from panes.runtime.rejects import Rejects

ROWS = [{"ts": 1, "k": "a", "v": 1.5}, {"ts": 2, "k": None, "v": None}, {"ts": 3, "k": "b", "v": 2.5}]
TABLE = pa.Table.from_pylist(ROWS)
COLUMNS = {"ts": [1, 2, 3], "k": ["a", None, "b"], "v": [1.5, None, 2.5]}


def read(data: Any, schema: Any = None) -> tuple[list[dict[str, Any]], Rejects]:
    rejects = Rejects()
    source = open_source(data, None if schema is None else arrow_schema(schema))
    tables = list(source.batches(rejects))
    assert all(table.schema == source.schema for table in tables)
    return [row for table in tables for row in table.to_pylist()], rejects


def rows(data: Any, schema: Any = None) -> list[dict[str, Any]]:
    return read(data, schema)[0]


IN_MEMORY = {
    "list of dicts": ROWS,
    "dict of columns": COLUMNS,
    "arrow table": TABLE,
    "arrow batch": TABLE.to_batches()[0],
    "arrow reader": pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches()),
    "pandas": TABLE.to_pandas(types_mapper=None),
    "pandas with time as index": TABLE.to_pandas().set_index("ts"),
    "polars": pl.from_arrow(TABLE),
    "polars lazy": pl.from_arrow(TABLE).lazy(),  # type: ignore[union-attr]
    "list of tables": [TABLE.slice(0, 1), TABLE.slice(1)],
    "generator of tables": (TABLE.slice(i, 1) for i in range(3)),
    "generator of dicts": (row for row in ROWS),
    "generator of lists": ([row] for row in ROWS),
    "generator of frames": (TABLE.slice(i, 2).to_pandas() for i in (0, 2)),
    "mixed list": [TABLE.slice(0, 1), pl.from_arrow(TABLE.slice(1, 1)), TABLE.slice(2).to_pandas()],
    "categories": TABLE.set_column(1, "k", TABLE["k"].dictionary_encode()),
    "large text": TABLE.set_column(1, "k", TABLE["k"].cast(pa.large_string())),
}


@pytest.mark.parametrize("data", IN_MEMORY.values(), ids=IN_MEMORY)
def test_data_in_memory_of_every_kind_gives_the_same_rows(data: Any) -> None:
    found = rows(data)
    assert [row["ts"] for row in found] == [1, 2, 3]
    assert [row["k"] for row in found] == ["a", None, "b"]
    assert [None if row["v"] != row["v"] else row["v"] for row in found] == [1.5, None, 2.5]


def test_an_iterator_can_be_read_once_and_says_so() -> None:
    source = open_source(iter([TABLE]), None)
    list(source.batches(Rejects()))
    with pytest.raises(DataError, match="only once"):
        source.batches(Rejects())
    again = open_source([TABLE], None)
    assert [sum(map(len, again.batches(Rejects()))) for _ in range(2)] == [3, 3]


def test_iterators_are_lazy() -> None:
    pulled = []

    def endless() -> Iterator[pa.Table]:
        for i in range(1_000_000):
            pulled.append(i)
            yield pa.table({"ts": [i]})

    batches = open_source(endless(), None).batches(Rejects())
    assert [next(batches)["ts"].to_pylist() for _ in range(3)] == [[0], [1], [2]]
    assert len(pulled) <= 4
    declared = open_source(endless(), arrow_schema({"ts": "bigint"}))
    assert declared.schema.names == ["ts"]
    assert len(pulled) <= 4


def test_large_tables_come_in_several_batches() -> None:
    table = pa.table({"ts": np.arange(300_000)})
    source = open_source(table, None)
    tables = list(source.batches(Rejects()))
    assert len(tables) > 1
    assert pa.concat_tables(tables).equals(table)
    assert source.rows == 300_000


SAFE = [
    (pa.table({"v": [1.0], "ts": pa.array([5], pa.int64())}), 5),  # another order
    (pa.table({"ts": pa.array([5], pa.int32()), "v": [1.0]}), 5),
    (pa.table({"ts": pa.array([5], pa.uint8()), "v": pa.array([1.0], pa.float32())}), 5),
    (pa.table({"ts": [5.0], "v": [1]}), 5),
    (pa.table({"ts": [5], "v": [1.0], "extra": [[1]]}), 5),
    (pa.table({"ts": pa.nulls(1), "v": [1.0]}), None),
    ([{"ts": 5}], 5),
    ({"ts": 5, "v": 1.0}, 5),
]


@pytest.mark.parametrize(("batch", "ts"), SAFE, ids=range(len(SAFE)))
def test_changes_between_batches_that_keep_every_value(batch: Any, ts: int | None) -> None:
    first = pa.table({"ts": pa.array([1], pa.int64()), "v": [0.5]})
    assert rows([first, batch])[1]["ts"] == ts


UNSAFE = [
    (pa.table({"ts": [5]}), "no column 'v'"),
    (pa.table({"ts": [5.5], "v": [1.0]}), "column 'ts'"),
    (pa.table({"ts": ["5"], "v": [1.0]}), "column 'ts' must be int64"),
    (pa.table({"ts": [True], "v": [1.0]}), "column 'ts'"),
    (pa.table({"ts": [datetime(2024, 1, 1)], "v": [1.0]}), "column 'ts'"),
    (pa.table({"ts": pa.array([2**63], pa.uint64()), "v": [1.0]}), "column 'ts'"),
    (pa.table({"ts": [1], "v": [[1.0]]}), "column 'v'"),
    ([{"ts": 5, "v": "x"}], "column 'v'"),
    ([{"ts": 5, "v": 1.0}, 7], "every row must be a dict"),
    (7, "must yield tables"),
    ({"ts": [1, 2], "v": [1.0]}, "same length"),
    (
        pa.Table.from_arrays([pa.array([1]), pa.array([1]), pa.array([1.0])], names=["ts", "ts", "v"]),
        "2 columns",
    ),
]


@pytest.mark.parametrize(("batch", "message"), UNSAFE, ids=range(len(UNSAFE)))
def test_changes_between_batches_that_do_not(batch: Any, message: str) -> None:
    first = pa.table({"ts": pa.array([1], pa.int64()), "v": [0.5]})
    with pytest.raises(DataError, match=message):
        rows([first, batch])


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (7, QueryError, "data must be"),
        ("nowhere/*.parquet", DataError, "no such file"),
        ([{"a": 1}, {"a": "x"}], DataError, "'a' mixes types"),
        (iter([]), DataError, "is empty"),
        ([3, 4], DataError, "must yield tables"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), QueryError, "two columns named 'a'|Duplicate"),
    ],
    ids=["number", "no file", "mixed types", "empty iterator", "list of numbers", "double column"],
)
def test_what_is_no_data(data: Any, error: type[Exception], message: str) -> None:
    with pytest.raises((error, QueryError, DataError), match=message):
        rows(data)


def test_declared_types_win() -> None:
    found = rows([{"ts": "2024-01-02T03:04:05Z", "v": 1}], {"ts": "timestamp", "v": "double"})
    assert found == [{"ts": datetime(2024, 1, 2, 3, 4, 5), "v": 1.0}]
    assert rows([{"ts": 1}], {"w": "double"}) == [{"ts": 1, "w": None}]
    with pytest.raises(DataError, match="'w'"):
        rows(pa.table({"ts": [1]}), {"w": "double"})
    assert open_source([], arrow_schema({"ts": "bigint"})).schema.names == ["ts"]


TIMES = {
    "2024-01-02": datetime(2024, 1, 2),
    "2024-01-02 03:04:05": datetime(2024, 1, 2, 3, 4, 5),
    "2024-01-02T03:04:05.123456": datetime(2024, 1, 2, 3, 4, 5, 123456),
    "2024-01-02T03:04:05Z": datetime(2024, 1, 2, 3, 4, 5),
    "2024-01-02T03:04:05+02:00": datetime(2024, 1, 2, 1, 4, 5),
    "2024-01-02 03:04-0130": datetime(2024, 1, 2, 4, 34),
}


@pytest.mark.parametrize(("text", "moment"), TIMES.items(), ids=TIMES)
def test_text_becomes_a_timestamp_where_one_is_declared(text: str, moment: datetime) -> None:
    assert rows([{"ts": text}, {"ts": None}], {"ts": "timestamp"}) == [{"ts": moment}, {"ts": None}]
    (zoned, _) = rows([{"ts": text}, {"ts": None}], {"ts": "timestamp_ltz"})
    assert zoned["ts"].replace(tzinfo=None) == moment


def write_csv(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "jsonl", "json", "json.gz", "parquet", "tsv"])
def test_files_of_every_kind_give_the_same_rows(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"rows.{suffix}"
    if suffix == "parquet":
        pq.write_table(TABLE, path)
    else:
        separator = "\t" if suffix == "tsv" else ","
        lines = [json.dumps(row) for row in ROWS]
        if "sv" in suffix:
            lines = [
                separator.join(COLUMNS),
                *(separator.join("" if x is None else str(x) for x in r.values()) for r in ROWS),
            ]
        text = "\n".join(lines).encode()
        path.write_bytes(gzip.compress(text) if suffix.endswith("gz") else text)
    assert rows(str(path)) == ROWS
    assert rows(path) == ROWS
    assert rows(str(tmp_path)) == ROWS


def test_globs_and_lists_are_read_in_order(tmp_path: Path) -> None:
    for i in (2, 0, 1):
        pq.write_table(TABLE.slice(i, 1), tmp_path / f"part-{i}.parquet")
    assert rows(f"{tmp_path}/part-*.parquet") == ROWS
    assert rows([f"{tmp_path}/part-2.parquet", f"{tmp_path}/part-0.parquet"]) == [ROWS[2], ROWS[0]]
    assert open_source(f"{tmp_path}/*.parquet", None).rows == 3


def test_csv_quotes_breaks_and_types(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "x.csv", 'ts,name,day,ok\n1,"a, ""b""\nc",2024-01-02,true\r\n2,,,false\n')
    assert rows(path, {"name": "string"}) == [
        {"ts": 1, "name": 'a, "b"\nc', "day": date(2024, 1, 2), "ok": True},
        {"ts": 2, "name": None, "day": None, "ok": False},
    ]


def test_bad_lines_of_files_are_kept_aside(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "x.csv", "ts,v\n1,1.5\n2,oops\n3\n4,2.5\n5,1,1\n")
    found, rejects = read(path, {"v": "double"})
    assert [row["ts"] for row in found] == [1, 4]
    assert rejects.count == 3
    assert [reason.rpartition(": ")[2] for reason in rejects.reasons] == ["2,oops", "3", "5,1,1"]


def test_of_bad_lines_of_files_the_newest_are_held_and_all_are_counted(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "x.csv", "ts,v\n1,1\n2,a\n3,b\n4,c\n5,5\n6,d\n")
    stream = pn.stream(path, schema={"ts": "bigint", "v": "bigint"}, time="ts", keep_late=2)
    query = stream.window(pn.tumbling(10)).agg(n="count(*)")
    assert [row["n"] for row in query.to_arrow().to_pylist()] == [2]
    assert query.metrics["rows_rejected"] == 4
    assert [row["reason"].rpartition(": ")[2] for row in query.late.to_pylist()] == ["4,c", "6,d"]


BAD_JSON = [
    "{bad",
    "null",
    "12",
    "[1]",
    '"text"',
    '{"ts": 1} {"ts": 2}',
    '{"ts": 1} null',
    '{"ts": "x"}',
    '{"ts": 1.5}',
    '{"v": true}',
    '{"ts": 99999999999999999999}',
    '{"k": 1}',
    '{"ts": 1, "ts": 2}',
]


@pytest.mark.parametrize("bad", BAD_JSON)
def test_bad_json_lines_never_stop_a_run(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(['{"ts": 1, "k": "a"}', bad, "", '{"ts": 2, "other": {"x": [1]}}', bad]), "utf-8")
    found, rejects = read(path, {"ts": "bigint", "k": "string", "v": "double"})
    assert [row["ts"] for row in found] == [1, 2]
    assert rejects.count == 2
    assert rejects.reasons[0].endswith(bad)


def test_bad_bytes_never_stop_a_run(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"k": "a"}\n{"k": "\xff"}\n\x00\n{"k": "b"}\n')
    found, rejects = read(path, {"k": "string"})
    assert [row["k"] for row in found] == ["a", "b"]
    assert rejects.count == 2


def test_many_lines_over_many_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("panes.connectors.lines.PIECE_BYTES", 1000)
    lines = [json.dumps({"ts": i, "k": "é" * (i % 7)}) for i in range(2000)]
    lines[500] = "{"
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(lines), "utf-8")
    found, rejects = read(path)
    assert [row["ts"] for row in found] == [i for i in range(2000) if i != 500]
    assert rejects.count == 1
    csv = write_csv(tmp_path / "x.csv", "ts,k\n" + "\n".join(f'{i},"a\n{i}"' for i in range(500)))
    assert [row["k"] for row in rows(csv)] == [f"a\n{i}" for i in range(500)]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.txt", "a", "format is not known"),
        ("x.csv", "", "no first line"),
        ("x.json", '[{"a": 1}]', "one object per line"),
        ("x.parquet", "no parquet", "no Parquet file"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = write_csv(tmp_path / name, text)
    with pytest.raises(DataError, match=message):
        rows(path)


def test_a_later_file_without_a_column_is_an_error_that_names_both(tmp_path: Path) -> None:
    write_csv(tmp_path / "1.csv", "ts,v\n1,2\n")
    write_csv(tmp_path / "2.csv", "ts,w\n1,2\n")
    with pytest.raises(DataError, match=r"2\.csv.*'v'"):
        rows(f"{tmp_path}/*.csv")


def test_decimals_keep_their_digits(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"p": 0.1}\n{"p": 12345678901234567.89}\n', "utf-8")
    found, _ = read(path, {"p": "decimal(20, 2)"})
    assert [str(row["p"]) for row in found] == ["0.10", "12345678901234567.89"]


def mutated(record: bytes, rng: np.random.Generator) -> bytes:
    """A line of text with some of its bytes replaced, taken out or doubled; never a line break."""
    pieces = [
        b"null",
        b"{",
        b"}",
        b"[",
        b'"',
        b",",
        b":",
        b"\\",
        b"\xff",
        b"\x00",
        b"1e999",
        b"NaN",
        b"{}",
        b" ",
    ]
    text = bytearray(record)
    for _ in range(rng.integers(0, 4)):
        at = int(rng.integers(0, len(text) + 1))
        text[at : at + int(rng.integers(0, 3))] = pieces[rng.integers(0, len(pieces))]
    return bytes(text) or b"x"


@pytest.mark.parametrize("form", [JsonLines(), CsvLines(["ts", "k", "v"])], ids=["json", "csv"])
def test_every_line_becomes_a_row_or_is_rejected(form: LineFormat) -> None:
    """Random damage neither stops a run nor loses or invents a row."""
    lines = {
        "JsonLines": [b'{"ts": 1, "k": "a", "v": 1.5, "x": [{"y": null}]}', b'{"v": null}', b"{}"],
        "CsvLines": [b"1,a,1.5", b'2,"b ""c""",', b",,"],
    }[type(form).__name__]
    schema = arrow_schema({"ts": "bigint", "k": "string", "v": "double"})
    rng = np.random.default_rng(11)
    for _ in range(150):
        records = [mutated(lines[rng.integers(0, 3)], rng) for _ in range(rng.integers(1, 12))]
        rejects = Rejects()
        table = form.parse(records, schema, rejects)
        table.validate(full=True)
        assert len(table) + rejects.count == len(records)
        alone = [form.parse([record], schema, Rejects()) for record in records]
        assert table.to_pylist() == pa.concat_tables(alone).to_pylist() or b"NaN" in b"".join(records)


def test_a_csv_file_that_mixes_line_ends_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "mixed.csv"
    path.write_bytes(b"t,v\r1,2\r3,4\n")
    with pytest.raises(DataError, match=r"mixed\.csv, line 1: lines end in CR here and in LF further on"):
        pn.stream(str(path), schema={"t": "bigint", "v": "bigint"}, time="t").window(pn.tumbling(10)).agg(
            n="count(*)"
        ).to_arrow()


def test_sql_keeps_as_many_late_rows_as_the_stream_says() -> None:
    late = pn.stream([{"t": t} for t in (1000, *range(50))], time="t", watermark=0, keep_late=5)
    query = pn.sql("SELECT window_end, count(*) AS n FROM s [SIZE 10 ON t]", {"s": late})
    query.to_arrow()
    assert (len(query.late), query.metrics["rows_late"]) == (5, 50)
