"""Joins of streams within windows, against nested loops."""

from __future__ import annotations

import datetime as dt
import pickle
import random
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest

import panes as pn
from panes.errors import ExpressionError, QueryError
from panes.runners.local.reading import ReadOptions, batches

Row = dict[str, Any]
L = {"time": "bigint", "k": "bigint", "x": "bigint"}
R = {"time": "bigint", "k": "bigint", "y": "string"}
CONDITIONS: Mapping[str, Any] = {
    "l.k = r.k": lambda a, b: None not in (a["k"], b["k"]) and a["k"] == b["k"],
    "l.k = r.k AND l.time < r.time": lambda a, b: (
        None not in (a["k"], b["k"]) and a["k"] == b["k"] and a["time"] < b["time"]
    ),
    "l.time <= r.time": lambda a, b: a["time"] <= b["time"],
    "l.k <=> r.k": lambda a, b: a["k"] == b["k"],
    "x % 2 = r.k OR y = 'a'": lambda a, b: (
        (None not in (a["x"], b["k"]) and a["x"] % 2 == b["k"]) or b["y"] == "a"
    ),
    "x > 2": lambda a, b: a["x"] is not None and a["x"] > 2,
    "y IS NULL": lambda a, b: b["y"] is None,
}  # fmt: skip


def left(rows: list[Row], **options: Any) -> Any:
    return pn.stream(rows, time="time", schema=L, **options)


def right(rows: list[Row], **options: Any) -> Any:
    return pn.stream(rows, time="time", schema=R, **options)


def joined_rows(query: Any) -> pa.Table:
    """The rows of all streams, as the windows of a join read them."""
    return pa.concat_tables(batches(query._node.source, ReadOptions()))


def random_rows(r: random.Random, column: str, choices: list[Any], n: int, span: int, disorder: int) -> list[Row]:
    times = sorted(r.randint(0, span) for _ in range(n))
    rows = [{"time": t, "k": r.choice([None, 0, 1, 2]), column: r.choice(choices)} for t in times]
    return sorted(rows, key=lambda row: row["time"] + r.randint(0, disorder))


def windows_of(rows: list[Row], size: int, every: int) -> set[int]:
    """Starts of the windows that hold a row."""
    return {s for row in rows for s in range(row["time"] - row["time"] % every, row["time"] - size, -every)}


def nested_loops(
    a: list[Row], b: list[Row], how: str, matches: Any, size: int, every: int
) -> Iterator[tuple[Any, ...]]:
    """(start, left row or None, right row or None), by window, left row, right row; unmatched right rows last."""
    a, b = (sorted(rows, key=lambda row: row["time"]) for rows in (a, b))
    for start in sorted(windows_of(a, size, every) | windows_of(b, size, every)):
        ours, theirs = ([r for r in rows if start <= r["time"] < start + size] for rows in (a, b))
        met = set()
        for one in ours:
            found = [i for i, other in enumerate(theirs) if matches(one, other)]
            met |= {*found}
            yield from ((start, one, theirs[i]) for i in found)
            if not found and how in ("left", "full"):
                yield start, one, None
        if how in ("right", "full"):
            yield from ((start, None, other) for i, other in enumerate(theirs) if i not in met)


def flat(triples: Iterator[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    def part(row: Row | None, names: Any) -> list[Any]:
        return [None if row is None else row[n] for n in names]

    return [(start, *part(one, L), *part(other, R)) for start, one, other in triples]


def given(query: Any) -> list[tuple[Any, ...]]:
    names = ["window_start", "l_time", "l_k", "x", "r_time", "r_k", "y"]
    return [tuple(row[n] for n in names) for row in query.rows()]


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "cross"])
@pytest.mark.parametrize("on", CONDITIONS)
@pytest.mark.parametrize("sizes", [(30, 25), (1, 6), (0, 9), (7, 0)], ids=str)
def test_joins_give_what_nested_loops_give(how: str, on: str, sizes: tuple[int, int]) -> None:
    r = random.Random(f"{how} {on} {sizes}")
    for size, every, disorder in ((5, 5, 0), (6, 2, 0), (6, 3, 4)):
        a = random_rows(r, "x", [None, 1, 2, 3, 4], sizes[0], 20, disorder)
        b = random_rows(r, "y", [None, "a", "b"], sizes[1], 24, disorder)
        wait = {"watermark": 5} if disorder else {}
        condition: dict[str, Any] = {} if how == "cross" else {"on": on}
        query = pn.join(left(a, **wait), right(b, **wait), window=pn.sliding(size, every=every), how=how, **condition)
        matches = (lambda one, other: True) if how == "cross" else CONDITIONS[on]
        assert given(query) == flat(nested_loops(a, b, how, matches, size, every))
        assert query.late.num_rows == 0


@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
def test_using_gives_one_column(how: str) -> None:
    r = random.Random(how)
    a = random_rows(r, "x", [None, 1, 2, 3, 4], 30, 20, 0)
    b = random_rows(r, "y", [None, "a", "b"], 30, 20, 0)
    query = pn.join(left(a), right(b), window=pn.tumbling(5), how=how, using="k", entries=["k", "x", "y"])
    expected = [
        (start, (one or other)["k"], one and one["x"], other and other["y"])
        for start, one, other in nested_loops(a, b, how, CONDITIONS["l.k = r.k"], 5, 5)
    ]
    assert [(q["window_start"], q["k"], q["x"], q["y"]) for q in query.rows()] == expected
    assert query.to_arrow().column_names[3:-1] == ["k", "x", "y"]
    every = pn.join(left(a), right(b), window=pn.tumbling(5), how=how, using=["k", "time"])
    assert every.to_arrow().column_names[3:-1] == ["k", "time", "x", "y"]


def test_groups_of_pairs_against_nested_loops() -> None:
    r = random.Random(5)
    a = random_rows(r, "x", [None, 1, 2, 3, 4], 40, 20, 0)
    b = random_rows(r, "y", [None, "a", "b"], 40, 20, 0)
    query = pn.join(
        left(a), right(b), window=pn.tumbling(5), on="l.k = r.k",
        entries={"y": "y", "n": "count(*)", "s": "sum(x)", "l": "collect_list(x)"}, group_by="y",
        having="n > 2", where="x IS NULL OR x < 4",
    )  # fmt: skip
    groups: dict[Any, list[Any]] = {}
    for start, one, other in nested_loops(a, b, "inner", CONDITIONS["l.k = r.k"], 5, 5):
        if one["x"] is None or one["x"] < 4:
            groups.setdefault((start, other["y"]), []).append(one["x"])
    expected = []
    for (start, y), xs in sorted(groups.items(), key=lambda item: (item[0][0], item[0][1] or "")):
        there = [x for x in xs if x is not None]
        if len(xs) > 2:
            expected.append((start, y, len(xs), sum(there) if there else None, there))
    assert [(q["window_start"], q["y"], q["n"], q["s"], q["l"]) for q in query.rows()] == expected


def test_spec_q18_cross_join() -> None:
    one = pn.stream([{"time": 0, "price": 10.0}, {"time": 1, "price": 20.0}], time="time")
    two = pn.stream([{"time": t, "quantity": t + 1} for t in range(3)], time="time")
    entries = {"m": "max(s1.price)", "a": "avg(s2.quantity)", "n": "count(*)"}
    query = pn.join(one, two, window=pn.tumbling(3), how="cross", names=("s1", "s2"), entries=entries)
    assert [(r["m"], r["a"], r["n"]) for r in query.rows()] == [(20.0, 2.0, 6)]


def test_spec_q18_inner_join() -> None:
    one = pn.stream([{"time": 1}, {"time": 2}], time="time")
    two = pn.stream([{"time": 2}, {"time": 2}], time="time")
    query = pn.join(one, two, window=pn.tumbling(3), on="l.time = r.time")
    assert [(r["l_time"], r["r_time"]) for r in query.rows()] == [(2, 2), (2, 2)]


def test_streams_with_keys_are_joined_key_by_key() -> None:
    a = [{"time": t, "k": t % 2, "x": t} for t in range(6)]
    b = [{"time": t, "k": t % 3 % 2, "y": str(t)} for t in range(6)]
    query = pn.join(
        left(a, key="k"), right(b, key="k"), window=pn.tumbling(6), entries={"n": "count(*)", "s": "sum(x)"}
    )
    assert [(r["k"], r["n"], r["s"]) for r in query.rows()] == [(0, 12, 24), (1, 6, 18)]
    rows = pn.join(left(a, key="k"), right(b, key="k"), window=pn.tumbling(6), on="l.time = r.time", entries="*")
    assert rows.to_arrow().column_names == [
        "k", "window", "window_start", "window_end", "l_time", "x", "r_time", "y", "revision"
    ]  # fmt: skip
    assert [(r["k"], r["x"], r["y"]) for r in rows.rows()] == [(0, 0, "0"), (0, 2, "2"), (1, 1, "1")]


def test_one_side_far_ahead_makes_nothing_late() -> None:
    """Sources are read in large batches; the watermark is that of the slower side."""
    a = [{"time": t, "k": 0, "x": t} for t in range(0, 300_000, 2)]
    b = [{"time": t, "k": 0, "y": "a"} for t in range(0, 300_000, 1000)]
    query = pn.join(left(a), right(b), window=pn.tumbling(1000), on="l.time = r.time", entries={"n": "count(*)"})
    assert query.to_arrow().column("n").to_pylist() == [1] * 300
    assert query.late.num_rows == 0


def test_rows_left_out_before_the_join_and_new_columns() -> None:
    a = left([{"time": t, "k": 0, "x": t} for t in range(6)]).where("x % 2 = 0").with_columns(z="x * 10")
    b = right([{"time": t, "k": 0, "y": str(t)} for t in range(6)]).select("y")
    query = pn.join(a, b, window=pn.tumbling(3), on="l.time = r.time", entries=["z", "y"])
    assert [(r["z"], r["y"]) for r in query.rows()] == [(0, "0"), (20, "2"), (40, "4")]
    everything = pn.join(a, b, window=pn.tumbling(3), on="l.time = r.time")
    assert everything.to_arrow().column_names[3:-1] == ["time", "k", "x", "z", "y"]


def test_times_of_different_units() -> None:
    start = dt.datetime(2024, 1, 1)
    a = pa.table({"ts": pa.array([start], pa.timestamp("s")), "x": [1]})
    b = pa.table({"at": pa.array([start + dt.timedelta(milliseconds=1)], pa.timestamp("ms")), "y": [2]})
    query = pn.join(
        pn.stream(a, time="ts", watermark="2 s"), pn.stream(b, time="at"), window=pn.tumbling("1 s"), how="cross"
    )
    assert query._plan.stream.watermark == 2000
    assert [(r["x"], r["y"], r["ts"]) for r in query.rows()] == [(1, 2, start)]
    assert query.to_arrow().schema.field("ts").type == pa.timestamp("s")


def test_several_windows_sessions_and_a_stream_with_itself() -> None:
    s = left([{"time": t, "k": 0, "x": t} for t in (0, 1, 5, 6, 7)])
    windows = {"fast": pn.tumbling(5), "visit": pn.session(1)}
    query = pn.join(s, s, window=windows, on="a.x < b.x", names=("a", "b"), entries={"n": "count(*)"})
    assert sorted((r["window"], r["window_start"], r["n"]) for r in query.rows()) == [
        ("fast", 0, 1), ("fast", 5, 3), ("visit", 0, 1), ("visit", 5, 3)
    ]  # fmt: skip


def test_a_join_takes_three_streams() -> None:
    from panes.api.together import join_streams
    from panes.plan.clauses import RelationClauses
    from panes.plan.together import JoinClause

    def numbers(name: str, *values: int) -> tuple[str, Any]:
        return name, pn.stream([{"time": i, "id": v, name: v * 10} for i, v in enumerate(values)], time="time")

    streams = [numbers("a", 1, 2), numbers("b", 2, 3), numbers("c", 1, 3, 4)]
    clauses = [JoinClause("full", using=("id",)), JoinClause("left", using=("id",))]
    query = join_streams(streams, clauses, pn.tumbling(10), RelationClauses(["id", "a.a", "b.b", "c.c"], order_by="id"))
    assert [(r["id"], r["a"], r["b"], r["c"]) for r in query.rows()] == [
        (1, 10, None, 10), (2, 20, 20, None), (3, None, 30, 30)
    ]  # fmt: skip
    late = [JoinClause("inner", on="a.id = c.id"), JoinClause("inner", using=("id",))]
    with pytest.raises(ExpressionError, match="joined only later"):
        join_streams(streams, late, pn.tumbling(10), RelationClauses())


def test_a_late_row_of_either_side_corrects_the_join() -> None:
    a = pn.stream(None, schema=L, time="time", watermark=0, lateness=100)
    b = pn.stream(None, schema=R, time="time", watermark=0)
    op = pn.join(a, b, window=pn.tumbling(10), how="left", on="l.k = r.k", entries=["x", "y"]).operator()
    first = op.push(
        [
            {"panes_side": 0, "panes_time": 1, "l__time": 1, "l__k": 1, "l__x": 5},
            {"panes_side": 0, "panes_time": 30, "l__time": 30, "l__k": 1, "l__x": 6},
        ]
    )
    assert [(r["x"], r["y"], r["revision"]) for r in first] == [(5, None, 0)]
    late = op.push([{"panes_side": 1, "panes_time": 2, "r__time": 2, "r__k": 1, "r__y": "a"}])
    assert [(r["x"], r["y"], r["revision"], r["void"]) for r in late] == [(5, "a", 1, False)]
    later = op.push([{"panes_side": 1, "panes_time": 2, "r__time": 2, "r__k": 1, "r__y": "b"}])
    assert [(r["x"], r["y"], r["revision"]) for r in later] == [(5, "a", 2), (5, "b", 2)]


@pytest.mark.parametrize("size", [1, 5, 100])
def test_snapshots_between_batches_change_nothing(size: int) -> None:
    r = random.Random(9)
    a = random_rows(r, "x", [None, 1, 2, 3], 40, 30, 4)
    b = random_rows(r, "y", [None, "a"], 40, 30, 4)
    query = pn.join(
        left(a, watermark=5), right(b, watermark=5), window=pn.sliding(6, every=2), how="full", on="l.k = r.k"
    )
    rows = joined_rows(query).to_pylist()
    op, parts = query.operator(), []
    for start in range(0, len(rows), size):
        parts.append(op.push(rows[start : start + size]).table)
        op = query.operator(restore=op.snapshot())
    parts.append(op.finish().table)
    assert pa.concat_tables(parts).to_pylist() == query.to_arrow().to_pylist()


def test_the_result_of_a_join_can_be_worked_on() -> None:
    a = [{"time": t, "k": t % 2, "x": t} for t in range(6)]
    b = [{"time": t, "k": 0, "y": "a"} for t in range(6)]
    query = pn.join(left(a), right(b), window=pn.tumbling(3), on="l.time = r.time", entries=["x", "y"])
    again = query.where("x > 1").select("x").to_arrow()
    assert again.to_pylist() == [{"x": x} for x in (2, 3, 4, 5)]


def test_what_spark_runs_in_its_workers_gives_the_same() -> None:
    """No session: the operator of a key group, and the steps over its results in the types that Spark has."""
    from dataclasses import replace

    from panes.connectors.spark_types import storable_schema
    from panes.runners.spark.flows import ResultMapper
    from panes.runners.spark.group_operator import GroupQuery, used_columns

    r = random.Random(2)
    a = random_rows(r, "x", [None, 1, 2, 3], 30, 20, 0)
    b = random_rows(r, "y", [None, "a"], 30, 20, 0)
    query = pn.join(left(a), right(b), window=pn.sliding(6, every=3), how="full", on="l.k = r.k")
    plan = query._plan
    bare = replace(plan, steps=())
    worker: GroupQuery = pickle.loads(pickle.dumps(GroupQuery(bare, used_columns(bare))))
    op = worker.operator()
    rows = joined_rows(query).select(worker.columns)
    results = pa.concat_tables([op.push(rows).table, op.finish().table])
    as_stored = results.cast(storable_schema(results.schema))
    steps: ResultMapper = pickle.loads(
        pickle.dumps(ResultMapper.of_steps(plan.steps, plan.given.schema, pa.schema([])))
    )
    given_there = pa.Table.from_batches(list(steps(as_stored.to_batches(max_chunksize=2))), steps.schema)
    assert given_there.to_pylist() == query.to_arrow().to_pylist() != []


ROW = [{"time": 1, "k": 1, "x": 1}]
OTHER = [{"time": 1, "k": 1, "y": "a"}]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"how": "outer", "on": "l.k = r.k"}, "how='outer': there are inner"),
        ({"how": "cross", "on": "l.k = r.k"}, "neither on= nor using="),
        ({"on": "l.k = r.k", "using": "k"}, "not both"),
        ({}, "needs on="),
        ({"on": "l.k = r.nothing"}, "r has no column 'nothing'"),
        ({"on": "l.k = s.k"}, "there is no stream 's'"),
        ({"on": "k = 1"}, "'k' is ambiguous"),
        ({"on": "l.k"}, "must be a condition"),
        ({"on": "sum(l.k) = 1"}, "sum is an aggregate"),
        ({"using": "x"}, "r has no column 'x'"),
        ({"using": "z"}, "l has no column 'z'"),
        ({"on": "l.k = r.k", "entries": "time"}, "'time' is ambiguous"),
        ({"on": "l.k = r.k", "entries": "q.*"}, "no stream 'q'"),
        ({"on": "l.k = r.k", "entries": ["l.k", "r.k"]}, "two columns are named 'k'"),
        ({"on": "l.k = r.k", "window": pn.tumbling(pn.rows(3))}, "must be on time alone"),
        ({"on": "l.k = r.k", "window": pn.tumbling(3, on="x")}, "."),
        ({"on": "l.k = r.k", "window": 3}, "must be a window"),
        ({"on": "l.k = r.k", "names": ("a", "A")}, "a name of its own"),
        ({"on": "l.k = r.k", "names": "lr"}, "two names"),
    ],
)  # fmt: skip
def test_wrong_options_of_a_join_are_refused(options: Mapping[str, Any], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        pn.join(left(ROW), right(OTHER), **{"window": pn.tumbling(3), **options})


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        (left(ROW), ROW, "argument 2 must be a stream"),
        (left(ROW, key="k"), right(OTHER), "the same keys"),
        (left(ROW), right(OTHER, time_unit="s"), "of one kind"),
        (left(ROW), pn.stream([{"at": dt.datetime(2024, 1, 1)}], time="at"), "of one kind"),
        (left(ROW, watermark="manual"), right(OTHER), "watermark='manual'"),
        (left(ROW), pn.stream(None, schema=R, time="time"), "one stream has data"),
    ],
)  # fmt: skip
def test_streams_that_do_not_go_together(one: Any, other: Any, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        pn.join(one, other, window=pn.tumbling(3), how="cross")


def results_of_windows() -> pn.Stream:
    rows = [{"ts": 1, "v": 1}, {"ts": 4, "v": 2}, {"ts": 12, "v": 5}]
    bars = pn.stream(rows, time="ts").window(pn.tumbling(5)).agg(s="sum(v)")
    return bars.select("window_start", "window_end", "s").stream(time="window_end")


def test_bounds_in_entries_of_a_join_are_those_of_its_window() -> None:
    bars = results_of_windows()
    other = pn.stream([{"ts": 3, "x": 3}, {"ts": 8, "x": 9}], time="ts")
    joined = pn.join(
        bars,
        other,
        window=pn.tumbling(20),
        how="full",
        on="l.s = r.x",
        entries={"start": "window_start", "inside": "l.window_start", "s": "l.s", "x": "r.x"},
    )
    found = sorted((row["start"], row["inside"] or 0, row["s"] or 0, row["x"] or 0) for row in joined.rows())
    assert found == [(0, 0, 0, 9), (0, 0, 3, 3), (0, 10, 5, 0)]


def test_all_columns_of_a_join_have_names_beside_those_of_its_window() -> None:
    bars = results_of_windows()
    joined = pn.join(bars, pn.stream([{"ts": 3, "x": 3}], time="ts"), window=pn.tumbling(20), on="l.s = r.x")
    (row,) = joined.rows()
    assert (row["window_end"], row["l_window_start"], row["l_window_end"], row["s"]) == (20, 0, 5, 3)


def test_bounds_in_entries_of_a_relation_are_those_of_its_window() -> None:
    windowed = results_of_windows().window(pn.tumbling(20))
    rows = windowed.relation({"end": "window_end", "inside": "t.window_end", "s": "s"}, alias="t").rows()
    assert [(row["end"], row["inside"], row["s"]) for row in rows] == [(20, 5, 3), (20, 15, 5)]
    groups = windowed.relation({"end": "window_end", "last": "max(window_end)"}).rows()
    assert [(row["end"], row["last"]) for row in groups] == [(20, 15)]


def test_values_that_can_not_be_computed_are_told_by_the_names_of_the_streams() -> None:
    joined = pn.join(
        left([{"time": 1, "k": 1, "x": 1}]),
        right([{"time": 1, "k": 1, "y": "b"}]),
        window=pn.tumbling(5),
        on="l.k = r.k",
        entries={"n": "CAST(r.y AS INT)"},
    )
    with pytest.raises(pn.errors.DataError, match=r"l\.k = r\.k; .*r\.y"):
        joined.to_arrow()
