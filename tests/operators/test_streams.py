"""Operators in queries: chained, with windows on what they give, merged by time, explained, on data of all kinds."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import panes as pn
from panes.errors import QueryError, SnapshotMismatch
from panes.operators import count, delta, sliding, time, tumbling


def trades(n: int = 12) -> Any:
    rows = [{"ts": t, "symbol": "AB"[t % 2], "price": 10 + (t * 7) % 5} for t in range(n)]
    return pn.stream(rows, time="ts", time_unit="s")


def test_operators_chain_and_windows_go_on_top() -> None:
    deduped = trades().dedupe("price", window=sliding(count(3)))
    smooth = deduped.key_by("symbol").aggregate(window=sliding(count(2), every=count(1)), mean="avg(price)")
    ordered = smooth.sort("mean", "symbol", window=tumbling(count(3)))
    hours = ordered.window(pn.tumbling("4 s")).agg(n="count(*)", most="max(mean)")
    assert sum(row["n"] for row in hours.rows()) == len(list(smooth.rows()))
    assert [row["window_start"] for row in hours.rows()] == sorted(row["window_start"] for row in hours.rows())


def test_a_relational_join_of_what_operators_give() -> None:
    a = trades().dedupe("symbol", window=tumbling(count(4))).select("ts", "symbol")
    b = trades().select("ts", "price")
    joined = pn.join(a, b, window=pn.tumbling(2), on="l.ts = r.ts", entries={"s": "symbol", "p": "price"})
    assert [(row["s"], row["p"]) for row in joined.rows()] == [
        (row["symbol"], next(r["price"] for r in trades().rows() if r["ts"] == row["ts"])) for row in a.rows()
    ]


def test_a_sorted_stream_is_in_order() -> None:
    rows = [{"ts": t, "v": t} for t in (3, 1, 2, 6, 4, 5, 9, 7, 8)]
    disordered = pn.stream(rows, time="ts", watermark=10)
    ordered = disordered.sort("ts", window=sliding(count(3)))
    assert [row["ts"] for row in ordered.rows()] == list(range(1, 10))
    windows = ordered.window(pn.tumbling(pn.rows(3))).agg(first="min(v)", last="max(v)")
    assert [(row["first"], row["last"]) for row in windows.rows()] == [(1, 3), (4, 6), (7, 9)]
    assert windows.metrics["rows_late"] == 0


def test_time_of_results_can_be_used_and_shown() -> None:
    counts = trades().aggregate(window=tumbling(count(4)), n="count(*)")
    assert counts.to_arrow().column_names == ["n"]
    assert counts.select("result_time", "n").to_arrow().to_pylist() == [{"result_time": t, "n": 4} for t in (3, 7, 11)]
    again = counts.sort("n", window=tumbling(count(2))).select("result_time")
    assert [row["result_time"] for row in again.rows()] == [7, 7, 11]


def test_streams_are_merged_by_the_time_they_have_reached() -> None:
    a = pn.stream([{"ts": t, "a": t} for t in (0, 5, 3, 10)], time="ts", time_unit="s")
    b = pn.stream([{"ts": t, "b": t} for t in (5, 6)], time="ts", time_unit="s")
    pairs = a.match(b, window=sliding(count(1)), entries=["a", "b", "l.ts"]).select("a", "b", "result_time")
    # 3 comes when 5 has been reached, and still before the 5 of b; 10 comes after 6
    assert [tuple(row.values()) for row in pairs.rows()] == [(3, 5, 5), (3, 6, 6), (10, 6, 10)]


def test_timestamps_of_two_units_are_joined_in_the_finer_one() -> None:
    start = dt.datetime(2024, 1, 1)
    seconds = [{"ts": start + dt.timedelta(seconds=s), "a": s} for s in (0, 2)]
    millis = [{"ts": start + dt.timedelta(milliseconds=m), "b": m} for m in (1500, 2500)]
    a = pn.stream(pa.Table.from_pylist(seconds, pa.schema([("ts", pa.timestamp("s")), ("a", pa.int64())])), time="ts")
    b = pn.stream(pa.Table.from_pylist(millis, pa.schema([("ts", pa.timestamp("ms")), ("b", pa.int64())])), time="ts")
    found = a.match(b, window=sliding(time("1 s")), entries=["a", "b"]).select("a", "b", "result_time")
    assert found.to_arrow().schema.field("result_time").type == pa.timestamp("ms")
    assert [(row["a"], row["b"]) for row in found.rows()] == [(2, 1500), (2, 2500)]


def test_deltas_of_times_and_decimals() -> None:
    start = dt.datetime(1969, 12, 31, 23, 59, 50)
    rows = [{"ts": start + dt.timedelta(seconds=s), "d": Decimal(s) / 10, "v": s} for s in (0, 4, 11, 12, 30)]
    stream = pn.stream(rows, time="ts")
    for window in (tumbling(delta("ts", "10 s")), tumbling(delta("d", 1))):
        made = stream.aggregate(window=window, partial=True, w="string_agg(cast(v as string), ',')")
        assert [row["w"] for row in made.rows()] == ["0,4", "11,12", "30"]
    for window in (sliding(delta("ts", "10 s")), sliding(delta("d", 1))):
        found = stream.match(stream, window=window, on="l.v < r.v", entries={"l": "l.v", "r": "r.v"})
        assert [(row["l"], row["r"]) for row in found.rows()] == [(0, 4), (4, 11), (4, 12), (11, 12)]


def test_null_and_nan_in_keys_and_values() -> None:
    nan = float("nan")
    rows = [{"ts": i, "k": k, "x": x} for i, (k, x) in enumerate([(None, nan), (None, nan), (nan, None), (nan, None)])]
    schema = {"ts": "bigint", "k": "double", "x": "double"}
    stream = pn.stream(rows, schema=schema, time="ts")
    assert len(stream.dedupe("k", window=sliding(count(9))).to_arrow()) == 2
    assert len(stream.dedupe("x", window=sliding(count(9))).to_arrow()) == 2
    by_key = stream.key_by("k").aggregate(window=tumbling(count(2)), n="count(*)")
    assert by_key.to_arrow()["n"].to_pylist() == [2, 2]
    pairs = stream.match(stream, window=sliding(count(9)), using="x")
    assert len(pairs.to_arrow()) == 4  # NaN is equal to itself, null to nothing
    nulls = stream.match(stream, window=sliding(count(9)), on="l.x <=> r.x")
    assert len(nulls.to_arrow()) == 8
    sorted_ = stream.sort("x DESC NULLS LAST", "ts DESC", window=tumbling(count(4))).to_arrow()
    assert sorted_["ts"].to_pylist() == [1, 0, 3, 2]


@pytest.mark.parametrize(
    ("on", "indexed"),
    [
        ("l.id = r.id", ["l__id = r__id"]),
        ("r.id = l.id AND l.v > r.v", ["l__id = r__id"]),
        ("(l.id = r.id AND l.v + 1 = r.v * 2) AND l.s LIKE 'a%'", ["l__id = r__id", "l__v + 1 = r__v * 2"]),
        ("l.id = r.f", ["CAST"]),
        ("l.id = r.id OR l.v = r.v", []),
        ("l.s = r.id", []),
        ("l.id <=> r.id", []),
        ("l.id = l.v AND r.v > 0", []),
    ],
)
def test_equality_parts_are_found_and_indexed(on: str, indexed: list[str]) -> None:
    rows = [{"ts": i, "id": i % 3, "v": i, "s": str(i), "f": float(i % 3)} for i in range(6)]
    stream = pn.stream(rows, time="ts")
    made = stream.match(stream, window=sliding(count(4)), on=on, entries={"l": "l.ts", "r": "r.ts"})
    text = str(made.explain())
    assert text.count("(indexed)") == len(indexed)
    assert all(part in text for part in indexed)

    def pairs(made: Any) -> list[tuple[int, int]]:
        return [(row["l"], row["r"]) for row in made.rows()]

    every = stream.match(stream, window=sliding(count(4)), entries="*").where(_outside(on)).select(l="l_ts", r="r_ts")
    assert pairs(made) == pairs(every)


def _outside(on: str) -> str:
    return on.replace("l.", "l_").replace("r.", "r_")


def test_only_candidates_of_the_index_are_looked_at() -> None:
    rows = [{"ts": i, "id": i % 10, "v": i} for i in range(100)]
    operator = (
        pn.stream(rows, time="ts")
        .match(pn.stream(rows, time="ts"), window=sliding(count(50)), on="l.id = r.id AND l.v <> r.v")
        .operator()
    )
    operator.push(rows, "left")
    operator.push(rows, "right")
    assert operator.metrics["candidates"] == 500  # the last 50 rows of left have each id 5 times
    assert operator.metrics["rows_held"] == 100


def test_a_function_as_predicate_sees_rows_by_their_own_names() -> None:
    def near(left: dict[str, Any], right: dict[str, Any]) -> bool | None:
        return None if left["price"] == 12 else abs(left["price"] - right["price"]) == 1

    window = sliding(count(3))
    found = trades().match(trades(), window=window, on=near, entries={"a": "l.price", "b": "r.price"})
    wanted = trades().match(
        trades(),
        window=window,
        on="l.price <> 12 AND abs(l.price - r.price) = 1",
        entries={"a": "l.price", "b": "r.price"},
    )
    assert found.to_arrow() == wanted.to_arrow()
    assert len(found.to_arrow())
    both = trades().match(trades(), window=window, on=near, using="symbol", entries={"a": "l.price", "b": "r.price"})
    assert 0 < len(both.to_arrow()) < len(found.to_arrow())


def test_rows_without_a_partner_as_streams_of_their_own() -> None:
    a = pn.stream([{"ts": t, "id": t} for t in (1, 2, 3)], time="ts", time_unit="s")
    b = pn.stream([{"ts": t, "id": t} for t in (2, 9)], time="ts", time_unit="s")
    matched = a.match_apart(b, window=sliding(time("2 s")), using="id")
    assert [row["id"] for row in matched.matches.rows()] == [2]
    assert [(row["ts"], row["id"]) for row in matched.left.rows()] == [(1, 1), (3, 3)]
    assert [row["result_time"] for row in matched.left.select("result_time").rows()] == [4, 6]
    assert [row["id"] for row in matched.right.rows()] == [9]
    only_left = a.match_apart(b, window=sliding(time("2 s")), using="id", how="left")
    assert [row["id"] for row in only_left.left.rows()] == [1, 3]
    assert list(only_left.right.rows()) == []
    late = matched.left.window(pn.tumbling("5 s")).agg(n="count(*)")
    assert [(row["window_start"], row["n"]) for row in late.rows()] == [(0, 1), (5, 1)]


def test_columns_of_the_result() -> None:
    a = pn.stream([{"ts": 1, "id": 1, "x": 2}], time="ts", key="id")
    b = pn.stream([{"ts": 1, "id": 1, "x": 3}], time="ts", key="id")
    window = sliding(count(1))
    assert a.match(b, window=window).to_arrow().column_names == ["id", "l_ts", "l_x", "r_ts", "r_x"]
    named = a.match(b, window=window, names=("a", "b"), entries=["id", "b.x", "a.x + b.x"])
    assert list(named.rows()) == [{"id": 1, "x": 3, "a.x + b.x": 5}]
    full = a.key_by().match(b.key_by(), window=window, on="l.x = r.x", how="full").to_arrow()
    assert full.to_pylist() == [
        {"l_ts": 1, "l_id": 1, "l_x": 2, "r_ts": None, "r_id": None, "r_x": None},
        {"l_ts": None, "l_id": None, "l_x": None, "r_ts": 1, "r_id": 1, "r_x": 3},
    ]


def test_a_bare_number_of_time_is_ticks_where_time_is_a_number() -> None:
    """As in pn.tumbling(3): whatever unit the ticks have."""
    for unit in ("s", "ms", "us"):
        stream = pn.stream([{"ts": t, "v": t} for t in range(9)], time="ts", time_unit=unit)
        made = stream.aggregate(window=tumbling(time(3)), vs=pn.collect_list("v"))
        same = stream.aggregate(window=tumbling(time(f"3 {unit}")), vs=pn.collect_list("v"))
        assert [row["vs"] for row in made.rows()] == [row["vs"] for row in same.rows()] == [[0, 1, 2], [3, 4, 5]]
    aged = sliding(count(2), every=count(1), partition_evict=pn.operators.partition_age(3))
    rows = [{"ts": 0, "k": 1}, {"ts": 3, "k": 2}, {"ts": 4, "k": 1}]
    counts = pn.stream(rows, time="ts", time_unit="s", key="k").aggregate(window=aged, partial=True, n="count(*)")
    assert [row["n"] for row in counts.rows()] == [1, 1, 1]


@pytest.mark.parametrize("cut", [1, 2, 3, 99])
def test_as_of_ties_are_included_however_streams_are_cut(cut: int) -> None:
    """The newest quote of each trade: with the quotes of its own time, or before it."""

    def batches(*rows: Any) -> Any:
        whole = pa.table({"ts": [t for t, _ in rows], "v": [v for _, v in rows]})
        made = iter([whole.slice(i, cut) for i in range(0, len(whole), cut)])
        return pn.stream(made, schema=whole.schema, time="ts")

    def pairs(ties: str, *, turned: bool = False) -> list[tuple[int, int]]:
        trades = batches((1, 10), (2, 20), (2, 21), (5, 50), (7, 70))
        quotes = batches((0, 0), (2, 1), (2, 2), (5, 3), (6, 4), (7, 5))
        window = (sliding(count(0)), sliding(count(1)))
        if turned:
            made = quotes.match(trades, window=window[::-1], ties=ties, entries={"t": "r.v", "q": "l.v"})
        else:
            made = trades.match(quotes, window=window, ties=ties, entries={"t": "l.v", "q": "r.v"})
        return [(row["t"], row["q"]) for row in made.rows()]

    for turned in (False, True):
        assert pairs("include", turned=turned) == [(10, 0), (20, 2), (21, 2), (50, 3), (70, 5)]
        assert pairs("exclude", turned=turned) == [(10, 0), (20, 0), (21, 0), (50, 2), (70, 4)]


def test_a_snapshot_of_other_ties_is_refused() -> None:
    s = pn.stream(None, schema={"ts": "bigint", "v": "bigint"}, time="ts")
    window = (sliding(count(0)), sliding(count(1)))
    taken = s.match(s, window=window, ties="include").operator().snapshot()
    with pytest.raises(SnapshotMismatch):
        s.match(s, window=window).operator(restore=taken)
    assert "ties included" in str(s.match(s, window=window, ties="include").explain())


def test_where_and_computed_columns_of_the_inputs() -> None:
    big = trades().with_columns(double="price * 2").where("price > 11").select("ts", "double")
    made = big.sort("double DESC", window=tumbling(count(3)))
    wanted = [row["price"] * 2 for row in trades().rows() if row["price"] > 11]
    assert sorted(row["double"] for row in made.rows()) == sorted(wanted)
    matched = big.match(big, window=sliding(count(2)), on="l.double = r.double + 2", entries=["l.double"])
    assert "l__double = r__double + 2 (indexed)" in str(matched.explain())


def test_a_stream_without_data_says_what_to_do() -> None:
    empty = pn.stream(None, schema={"ts": "bigint", "v": "bigint"}, time="ts")
    made = empty.sort("v", window=tumbling(count(2)))
    with pytest.raises(QueryError, match=r"push rows to stream.operator\(\)"):
        made.to_arrow()
    operator = made.operator()
    assert not operator.push([{"ts": 1, "v": 2}])
    assert [row["v"] for row in operator.push([{"ts": 2, "v": 1}])] == [1, 2]
