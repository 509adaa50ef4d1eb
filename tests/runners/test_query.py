"""Queries run in this process, from data to results, late rows and pictures."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import panes as pn
from panes.errors import DataError, QueryError

ROWS = [
    {"ts": 1, "k": "a", "price": 10.0, "qty": 2},
    {"ts": 4, "k": "b", "price": 20.0, "qty": 1},
    {"ts": 9, "k": "a", "price": 12.0, "qty": 6},
    {"ts": 12, "k": "a", "price": 11.0, "qty": 4},
    {"ts": 27, "k": "b", "price": 21.0, "qty": 3},
]
SCHEMA = {"ts": "bigint", "k": "string", "price": "double", "qty": "bigint"}
VWAP = "sum(price * qty) / sum(qty)"


def bars(data: Any, **options: Any) -> pn.Query:
    return (
        pn.stream(data, **{"time": "ts", "key": "k", **options})
        .window(bar=pn.tumbling(10))
        .agg(vwap=VWAP, n="count(*)")
    )


EXPECTED = [("a", 0, 11.5, 2), ("b", 0, 20.0, 1), ("a", 10, 11.0, 1), ("b", 20, 21.0, 1)]


def found(rows: Any) -> list[tuple[Any, ...]]:
    return sorted(((r["k"], r["window_start"], r["vwap"], r["n"]) for r in rows), key=lambda r: (r[1], r[0]))


DATA = {
    "list of dicts": ROWS,
    "dict of columns": {name: [row[name] for row in ROWS] for name in SCHEMA},
    "pandas": pd.DataFrame(ROWS),
    "polars": pl.DataFrame(ROWS),
    "arrow": pa.Table.from_pylist(ROWS),
    "iterator of dicts": iter(ROWS),
    "iterator of frames": iter([pd.DataFrame(ROWS[:2]), pd.DataFrame(ROWS[2:])]),
}


@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
def test_data_in_memory(data: Any) -> None:
    assert found(bars(data).rows()) == EXPECTED


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_files_in_a_folder_are_one_stream(tmp_path: Path, suffix: str) -> None:
    frame = pd.DataFrame(ROWS)
    for i, part in enumerate((frame[:2], frame[2:])):
        path = tmp_path / f"{i}.{suffix}"
        if suffix == "csv":
            part.to_csv(path, index=False)
        elif suffix == "jsonl":
            part.to_json(path, orient="records", lines=True)
        else:
            pq.write_table(pa.Table.from_pandas(part, preserve_index=False), path)
    query = bars(f"{tmp_path}/*.{suffix}")
    assert found(query.rows()) == EXPECTED
    assert found(query.to_arrow().to_pylist()) == EXPECTED


def test_every_output_gives_the_same_results() -> None:
    query = bars(ROWS)
    table = query.to_arrow()
    assert table.column_names == ["k", "window", "window_start", "window_end", "vwap", "n", "revision"]
    assert query.to_pandas().equals(table.to_pandas())
    assert query.to_polars().equals(pl.from_arrow(table))
    assert list(query.rows()) == table.to_pylist()


def test_pushed_rows_give_the_same() -> None:
    operator = bars(None, schema=SCHEMA).operator()
    rows = [row for each in ROWS for row in operator.push(each).rows()]
    rows += operator.finish().rows()
    assert found(rows) == EXPECTED


def test_rows_come_as_soon_as_they_are_due() -> None:
    read = []

    def feed() -> Iterator[dict[str, list[int]]]:
        for i in range(0, 1000, 10):
            read.append(i)
            yield {"ts": [i, i + 5], "v": [1, 1]}

    results = pn.stream(feed(), time="ts").window(t=pn.tumbling(10)).agg(n="count(*)").rows()
    assert next(results)["n"] == 2
    assert len(read) <= 3


def test_where_select_and_derived_columns() -> None:
    query = (
        pn.stream(ROWS, time="ts", key="k")
        .with_columns(value="price * qty")
        .where("value > 15 and k = 'a'")
        .with_columns(double="value * 2")
        .select("double")
        .window(t=pn.tumbling(10))
        .agg(total="sum(double)", n="count(*)")
    )
    assert [(r["window_start"], r["total"], r["n"]) for r in query.rows()] == [(0, 184.0, 2), (10, 88.0, 1)]


def test_late_rows_have_reasons() -> None:
    rows = [{"ts": t, "v": 1} for t in (1, 20, 2, None, 21)]
    query = pn.stream(rows, time="ts").window(t=pn.tumbling(10)).agg(n="count(*)")
    with pytest.raises(QueryError, match="after a run"):
        _ = query.metrics
    query.to_arrow()
    assert sorted(query.late["reason"].to_pylist()) == ["null time", "too late"]
    assert query.late.column_names == ["ts", "v", "reason"]
    metrics = query.metrics
    assert (metrics["rows_in"], metrics["rows_used"], metrics["rows_late"]) == (5, 3, 2)


def test_unreadable_lines_are_late_rows_too(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"ts": 1, "v": 1}\nnonsense\n{"ts": 20, "v": 1}\n{"ts": 2, "v": 1}\n', "utf-8")
    query = pn.stream(path, time="ts", schema={"ts": "bigint", "v": "bigint"})
    query = query.window(t=pn.tumbling(10)).agg(n="count(*)")
    assert [r["n"] for r in query.rows()] == [1, 1]
    late = query.late.to_pylist()
    assert late[0] == {"ts": 2, "v": 1, "reason": "too late"}
    assert late[1]["ts"] is None
    assert late[1]["reason"].startswith("malformed line")
    assert late[1]["reason"].endswith("nonsense")
    assert query.metrics["rows_rejected"] == 1


def test_rows_of_a_socket_are_counted() -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall("".join(json.dumps(row) + "\n" for row in ROWS).encode() + b"oops\n")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with listener:
        query = bars(pn.socket_source(listener.getsockname()[1], schema=SCHEMA))
        assert found(query.rows()) == EXPECTED
    thread.join(5)
    assert query.late["reason"].to_pylist()[0].endswith("oops")


def test_an_iterator_runs_once() -> None:
    query = bars(iter(ROWS))
    query.to_arrow()
    with pytest.raises(DataError, match="only once"):
        query.to_arrow()


def test_times_written_as_text_are_read() -> None:
    rows = [{"ts": "2025-03-03 09:30:01", "v": 1.0}, {"ts": "2025-03-03 09:31:05", "v": 2.0}]
    query = pn.stream(rows, time="ts").window(bar=pn.tumbling("1 min")).agg(v="max(v)")
    assert [r["window_start"] for r in query.rows()] == [
        datetime(2025, 3, 3, 9, 30),
        datetime(2025, 3, 3, 9, 31),
    ]


def test_unnamed_windows_and_aggregates() -> None:
    query = pn.stream(ROWS, time="ts").window(pn.tumbling(100)).agg("count(*)", pn.max("qty"))
    (row,) = query.rows()
    assert row["window"] == "tumbling(100)"
    assert row["count(*)"] == 5
    assert row["max(qty)"] == 6


def test_a_query_over_no_rows_gives_its_schema() -> None:
    table = bars([], schema=SCHEMA).to_arrow()
    assert table.num_rows == 0
    assert table.schema.field("vwap").type == pa.float64()
    assert list(bars([], schema=SCHEMA).rows()) == []


def test_values_that_overflow_name_the_expression() -> None:
    rows = [{"ts": 1, "a": 2**62}]
    query = pn.stream(rows, time="ts").window(t=pn.tumbling(10)).agg(x="sum(a * 4)")
    with pytest.raises(DataError, match=r"a \* 4"):
        query.to_arrow()


def test_corrections_of_computed_outputs() -> None:
    schema = {"ts": "bigint", "v": "double"}
    query = pn.stream(None, schema=schema, time="ts", lateness=20).window(s=pn.session(3))
    operator = query.agg(mean="coalesce(sum(v) / count(*), -1)").operator()
    operator.push([{"ts": 1, "v": 1.0}, {"ts": 6, "v": 3.0}, {"ts": 20, "v": 9.0}])
    rows = list(operator.push([{"ts": 4, "v": 5.0}]).rows())
    voids = [r for r in rows if r["void"]]
    assert voids
    assert all(r["mean"] is None for r in voids)
    assert [r["mean"] for r in rows if not r["void"]] == [3.0]


def test_a_query_draws_itself_as_png_and_html(tmp_path: Path) -> None:
    times = np.arange(0, 60_000, 10)
    times = times - np.random.default_rng(3).integers(0, 500, len(times))
    data = pa.table({"ts": pa.array(times, pa.timestamp("ms")), "k": ["a", "b"] * 3000, "v": times})
    query = (
        pn.stream(data, time="ts", key="k", watermark="400 ms", lateness="50 ms")
        .window(bar=pn.tumbling("1 s"), fast=pn.sliding("2 s", every="100 ms"), visit=pn.session("30 ms"))
        .agg(n="count(*)", v="max(v)")
    )
    for name in ("x.png", "x.html"):
        query.plot(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 10_000
    assert query.plot().texts[0].get_text().startswith("n = count(*), v = max(v) over 3 windows")
    with pytest.raises(QueryError, match="must end in"):
        query.plot("x.gif")


def test_explain_names_the_windows() -> None:
    text = str(bars(None, schema=SCHEMA).explain())
    assert "tumbling(10)" in text
    assert "bar" in text
