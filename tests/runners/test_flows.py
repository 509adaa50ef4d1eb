"""Streams without windows, streams by arrival, and streams made of other streams and queries."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import panes as pn
from panes.errors import ExpressionError, QueryError

ROWS = [
    {"ts": 0, "k": "a", "v": 1.0},
    {"ts": 400, "k": "b", "v": 2.0},
    {"ts": 1100, "k": "a", "v": 3.0},
    {"ts": 2500, "k": "b", "v": 4.0},
    {"ts": 2600, "k": "a", "v": None},
]


def stream(rows: Any = ROWS, **options: Any) -> Any:
    return pn.stream(rows, **{"time": "ts", **options})


def clock(*stamps: int) -> Callable[[], int]:
    return iter(stamps).__next__


def test_a_stream_runs_without_windows() -> None:
    assert stream().to_arrow().to_pylist() == ROWS
    assert list(stream().rows()) == ROWS
    assert stream().to_pandas()["k"].tolist() == ["a", "b", "a", "b", "a"]
    assert stream().to_polars()["ts"].to_list() == [0, 400, 1100, 2500, 2600]


def test_select_shows_its_columns_in_its_order() -> None:
    chosen = stream(key="k").where("v > 1").select("v", double="v * 2")
    assert chosen.to_arrow().to_pylist() == [{"v": v, "double": 2 * v} for v in (2.0, 3.0, 4.0)]
    # and windows still know time and key
    assert chosen.window(pn.tumbling("1 s")).agg(s="sum(double)").to_arrow()["k"].to_pylist() == ["b", "a", "b"]


def test_columns_after_select_are_shown_too() -> None:
    table = stream().select("v").with_columns(half="v / 2").to_arrow()
    assert table.column_names == ["v", "half"]
    assert stream().with_columns(half="v / 2").to_arrow().column_names == ["ts", "k", "v", "half"]
    assert stream().with_columns(v="v + 1").select("v").to_arrow()["v"].to_pylist() == [2.0, 3.0, 4.0, 5.0, None]


def test_a_later_select_is_the_one_that_counts() -> None:
    assert stream().select("k", "v").select("k").to_arrow().column_names == ["k"]
    with pytest.raises(QueryError, match="no column 'k'"):
        stream().select("v").select("k")


def test_no_rows_keep_their_columns() -> None:
    table = stream().where("v > 100").select(x="v + 1").to_arrow()
    assert table.schema == pa.schema([("x", pa.float64())])
    assert table.num_rows == 0


def test_lines_that_cannot_be_read_are_kept(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"ts": 1, "v": 2}\nnonsense\n{"ts": 2, "v": 3}\n')
    read = pn.stream(str(tmp_path / "rows.jsonl"), time="ts").select("v")
    with pytest.raises(QueryError, match="late is known after a run"):
        _ = read.late
    assert read.to_arrow()["v"].to_pylist() == [2, 3]
    assert read.late.num_rows == 1
    assert "nonsense" in read.late["reason"][0].as_py()


def test_a_stream_without_data_cannot_run() -> None:
    pushed = pn.stream(None, schema={"ts": "bigint"}, time="ts")
    for what in (pushed.to_arrow, pushed.rows, pushed.to_spark):
        with pytest.raises(QueryError, match="no data of its own"):
            what()
    with pytest.raises(QueryError, match=r"merge: stream 2: .*no data of its own"):
        pn.merge(stream([{"ts": 1}]), pushed)


def test_a_stream_explains_itself() -> None:
    text = str(stream(key="k").where("v > 1").select("k", double="v * 2").explain())
    for part in ("v > 1", "double = v * 2", "list of 5 rows"):
        assert part in text


def test_key_by_changes_the_key() -> None:
    by_k = stream().key_by("k").window(pn.tumbling("10 s")).agg(n="count(*)").to_arrow()
    assert by_k.select(["k", "n"]).to_pylist() == [{"k": "a", "n": 3}, {"k": "b", "n": 2}]
    none = stream(key="k").key_by().window(pn.tumbling("10 s")).agg(n="count(*)").to_arrow()
    assert none["n"].to_pylist() == [5]


def test_key_by_takes_computed_columns() -> None:
    coded = stream().where("v IS NOT NULL").with_columns(odd="cast(v as int) % 2").key_by("odd")
    found = coded.window(pn.tumbling("10 s")).agg(n="count(*)").to_arrow()
    assert found.select(["odd", "n"]).to_pylist() == [{"odd": 1, "n": 2}, {"odd": 0, "n": 2}]
    assert coded.to_arrow().column_names == ["ts", "k", "v", "odd"]
    with pytest.raises(QueryError, match="key='x': there is no such column"):
        stream().key_by("x")
    with pytest.raises(QueryError, match="key='k': there is no such column"):
        stream().select("v").key_by("k")


def test_with_time_changes_the_time() -> None:
    later = stream().with_columns(at="ts + 10000").with_time("at", time_unit="ms")
    windows = later.window(pn.tumbling("1 s")).agg(n="count(*)").to_arrow()
    assert windows["window_start"].to_pylist() == [10000, 11000, 12000]
    assert stream().with_time("ts", watermark="1 s")._plan.watermark == 1000


def test_arrival_stamps_rows() -> None:
    timed = pn.stream([{"v": 1}, {"v": 2}, {"v": 3}], time=pn.arrival(clock=clock(1_000_000, 3_000_000, 2_000_000)))
    assert timed.to_arrow().to_pylist() == [{"v": 1}, {"v": 2}, {"v": 3}]
    again = pn.stream([{"v": 1}, {"v": 2}, {"v": 3}], time=pn.arrival(clock=clock(1_000_000, 3_000_000, 2_000_000)))
    stamps = again.select("arrival_time").to_arrow()["arrival_time"].to_pylist()
    # the clock went back; time does not
    assert stamps == [datetime(1970, 1, 1, 0, 0, second) for second in (1, 3, 3)]


def test_windows_on_arrival() -> None:
    def rows() -> Iterator[dict[str, Any]]:
        yield from ({"v": v} for v in range(6))

    times = [0, 1, 2, 11, 12, 25]
    timed = pn.stream(rows(), schema={"v": "bigint"}, time=pn.arrival(clock=clock(*(t * 1_000_000 for t in times))))
    found = timed.window(pn.tumbling("10 s")).agg(s="sum(v)").to_arrow()
    assert found["s"].to_pylist() == [3, 7, 5]


def test_count_windows_on_arrival_are_in_the_order_of_rows() -> None:
    timed = pn.stream([{"v": v} for v in (5, 1, 4, 2)], time=pn.arrival())
    found = timed.window(pn.tumbling(pn.rows(2))).agg(l="collect_list(v)").to_arrow()
    assert found["l"].to_pylist() == [[5, 1], [4, 2]]


ARRIVALS: list[tuple[Callable[[], Any], str]] = [
    (lambda: pn.arrival(clock=3), "clock must be a function"),  # type: ignore[arg-type]
    (lambda: pn.stream([{"v": 1}], time=pn.arrival(), watermark="1 s"), "watermark='1 s': with time=pn.arrival"),
    (lambda: pn.stream([{"v": 1}], time=pn.arrival(), lateness="1 s"), "lateness='1 s': with time=pn.arrival"),
    (lambda: pn.stream([{"arrival_time": 1}], time=pn.arrival()), "a column 'arrival_time' already"),
    (lambda: pn.stream(None, schema={"v": "int"}, time=pn.arrival()), "time=pn.arrival.. needs data"),
    (lambda: pn.stream([{"v": 1}], time=3), "time must be the name of a column"),  # type: ignore[arg-type]
    (lambda: pn.stream([{"v": 1}], time=pn.arrival(clock=lambda: 1.5)).to_arrow(), "clock must give"),  # type: ignore[arg-type,return-value]
]


@pytest.mark.parametrize(("make", "message"), ARRIVALS, ids=[m for _, m in ARRIVALS])
def test_arrivals_that_cannot_be(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        make()


def counts(rows: Any = ROWS, **options: Any) -> Any:
    return stream(rows, key="k", **options).window(pn.tumbling("1 s")).agg(n="count(*)", s="sum(v)")


def test_windows_over_the_results_of_a_query() -> None:
    best = counts().stream().window(pn.tumbling("2 s")).agg(most="max(n)", rows="count(*)")
    # window_end 1000 (a, b), 2000 (a), 3000 (a, b): the second falls into [2000, 4000)
    assert best.to_arrow().select(["window_start", "most", "rows"]).to_pylist() == [
        {"window_start": 0, "most": 1, "rows": 2},
        {"window_start": 2000, "most": 1, "rows": 3},
    ]


def test_results_as_a_stream_keep_what_select_shows() -> None:
    shown = counts().select("k", total="s").stream()
    assert shown.to_arrow().column_names == ["k", "total"]
    # the time is there for windows, though it was not selected
    found = shown.window(pn.tumbling("10 s")).agg(all="sum(total)").to_arrow()
    assert found["all"].to_pylist() == [10.0]
    ordered = counts().order_by("s").select("k", total="s").select("total").stream()
    assert ordered.to_arrow().column_names == ["total"]
    assert ordered.window(pn.tumbling("10 s")).agg(n="count(*)").to_arrow()["n"].to_pylist() == [5]


def test_results_as_a_stream_with_another_time() -> None:
    found = counts().stream(time="window_start", key="k").window(pn.tumbling("5 s")).agg(n="sum(n)").to_arrow()
    assert found.select(["k", "n"]).to_pylist() == [{"k": "a", "n": 3}, {"k": "b", "n": 2}]


def test_late_rows_of_a_query_inside_are_not_lost() -> None:
    late = [{"ts": 5000, "k": "a", "v": 1.0}, {"ts": 100, "k": "late one", "v": 2.0}, {"ts": 9000, "k": "a", "v": 3.0}]
    nested = counts(late).stream().window(pn.tumbling("100 s")).agg(n="sum(n)")
    assert nested.to_arrow()["n"].to_pylist() == [2]
    assert nested.late.num_rows == 1
    assert "in a query inside" in nested.late["reason"][0].as_py()
    assert "late one" in nested.late["reason"][0].as_py()
    assert nested.metrics["rows_rejected"] == 1
    flat = counts(late).stream()
    flat.to_arrow()
    assert flat.late.num_rows == 1


def test_a_nested_query_explains_all_levels() -> None:
    nested = counts().where("n > 0").stream().where("n > 1").window(pn.tumbling("100 s")).agg(most="max(n)")
    text = str(nested.where("most > 7").explain())
    assert text.index("most > 7") < text.index("Input") < text.index('tumbling("1 s")') < text.index("n > 0")


def test_windows_over_windows_over_windows_add_up() -> None:
    first = counts().stream()
    second = first.window(pn.tumbling("1 s")).agg(n="sum(n)").stream()
    assert second.window(pn.tumbling("1 min")).agg(n="sum(n)").to_arrow()["n"].to_pylist() == [5]


def test_a_stream_of_results_that_cannot_be() -> None:
    with pytest.raises(QueryError, match=r"may be corrected \(lateness="):
        counts(watermark="1 s", lateness="1 s").stream()
    with pytest.raises(QueryError, match="time='end': there is no such column"):
        counts().stream(time="end")
    pushed = pn.stream(None, schema={"ts": "bigint"}, time="ts").window(pn.tumbling("1 s")).agg(n="count(*)")
    with pytest.raises(QueryError, match="no data of its own"):
        pushed.stream()
    with pytest.raises(ExpressionError, match="no column 'vv'"):
        counts().stream().where("vv > 1")


WINDOWS: list[Callable[[random.Random], Any]] = [
    lambda rng: pn.tumbling(rng.randint(1, 30)),
    lambda rng: pn.sliding(rng.randint(5, 40), every=rng.randint(1, 10)),
    lambda rng: pn.session(rng.randint(1, 9)),
    lambda rng: pn.tumbling(pn.rows(rng.randint(1, 5))),
    lambda rng: pn.delta(rng.randint(1, 5), on="v"),
    lambda rng: pn.threshold("v > 3"),
    lambda rng: pn.punctuated(begin="v = 3"),
    lambda rng: pn.punctuated(begin="v = 3", end="v = 5"),
    lambda rng: pn.cumulate(rng.choice([2, 5]), max=10),
]


@pytest.mark.parametrize("seed", range(25))
def test_results_come_in_order_so_none_is_late_in_the_next_query(seed: int) -> None:
    rng = random.Random(seed)
    wait, time, rows = rng.choice([None, None, 8]), 0, []
    for _ in range(rng.randint(0, 80)):
        time += rng.choice([0, 0, 1, 1, 2, 7, 30])
        at = max(0, time - (rng.randint(0, wait) if wait else 0))
        rows.append({"ts": at, "k": rng.choice("ab"), "v": rng.randint(0, 9)})
    size = rng.randint(1, 30)
    batches = [rows[i : i + size] for i in range(0, len(rows), size)]
    schema = {"ts": "bigint", "k": "string", "v": "bigint"}
    given = pn.stream(batches, schema=schema, time="ts", key=rng.choice(["k", None]), watermark=wait)
    windows = {f"w{i}": rng.choice(WINDOWS)(rng) for i in range(rng.randint(1, 3))}
    inner = given.window(**windows).agg(n="count(*)")
    ended = inner.where("window_end IS NOT NULL").to_arrow()
    outer = inner.stream().window(pn.tumbling(1_000_000)).agg(n="count(*)")
    assert sum(outer.to_arrow()["n"].to_pylist()) == ended.num_rows
    assert {r["reason"] for r in outer.late.to_pylist()} <= {"null time"}
