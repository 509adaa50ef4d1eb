"""Relations over the rows of windows: clauses against plain Python, aggregates against `agg(...)`."""

from __future__ import annotations

import datetime as dt
import math
import pickle
import random
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import panes as pn
from panes.aggregates.pairs import FUNCTIONS as PAIRS
from panes.aggregates.registry import names as aggregate_names
from panes.errors import DataError, ExpressionError, QueryError

ITEMS = [("A", 10), ("B", 20), ("A", 30), ("A", 40), ("B", 50), ("B", 60)]
ROWS = [{"t": t, "k": k, "q": q} for t, (k, q) in enumerate(ITEMS)]
TWO = pn.tumbling(pn.rows(2))
NO_WINDOW = {"window", "window_start", "window_end", "window_from", "window_to", "revision"}


def stream(rows: Any = ROWS, **options: Any) -> Any:
    return pn.stream(rows, time="t", **options)


def values(query: Any) -> list[tuple[Any, ...]]:
    return [tuple(v for n, v in row.items() if n not in NO_WINDOW) for row in query.rows()]


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        ({"entries": ["k", "q"]}, [(k, q) for k, q in ITEMS]),
        ({"entries": "q * 2"}, [(20,), (40,), (60,), (80,), (100,), (120,)]),
        ({"entries": ["k"], "distinct": True}, [("A",), ("B",), ("A",), ("B",)]),
        ({"entries": ["q"], "order_by": "q DESC"}, [(20,), (10,), (40,), (30,), (60,), (50,)]),
        ({"entries": ["q"], "order_by": ["q DESC"], "limit": 1}, [(20,), (40,), (60,)]),
        ({"entries": ["q"], "limit": 1}, [(10,), (30,), (50,)]),
        ({"entries": ["q"], "limit": 0}, []),
        ({"entries": ["q"], "where": "q > 20 and k = 'A'"}, [(30,), (40,)]),
        ({"entries": {"k": "k", "a": "avg(q)"}, "group_by": "k"}, [("A", 10.0), ("B", 20.0), ("A", 35.0), ("B", 55.0)]),
        ({"entries": {"n": "count(*)"}, "where": "q > 30"}, [(1,), (2,)]),
        ({"entries": {"k": "k", "n": "count(*)"}, "group_by": "k", "having": "n > 1"}, [("A", 2), ("B", 2)]),
        ({"entries": {"k": "k"}, "group_by": "k", "having": "sum(q) < 30"}, [("A",), ("B",)]),
        ({"entries": {"k": "k"}, "group_by": "k", "order_by": "sum(q) DESC"}, [("B",), ("A",), ("A",), ("B",)]),
        ({"entries": {"x": "lower(k)", "s": "sum(q) + 1"}, "group_by": "lower(k)", "order_by": "s DESC"},
         [("b", 21), ("a", 11), ("a", 71), ("b", 111)]),
        ({"entries": {"x": "q % 20", "n": "count(*)"}, "group_by": "x"},
         [(10, 1), (0, 1), (10, 1), (0, 1), (10, 1), (0, 1)]),
        ({"entries": {"at": "window_from", "q": "q"}, "where": "window_from + q > 43"}, [(4, 50), (4, 60)]),
        ({"entries": {"q": "-q"}, "order_by": "q"}, [(-20,), (-10,), (-40,), (-30,), (-60,), (-50,)]),
        ({"entries": ["s.q"], "alias": "s", "where": "S.K = 'B'"}, [(20,), (50,), (60,)]),
        ({"entries": {"m": "max(q) filter (where k = 'A')"}}, [(10,), (40,), (None,)]),
        ({"entries": {"x": "lower((k))"}, "group_by": "lower(k)"}, [("a",), ("b",), ("a",), ("b",)]),
        ({"entries": {"x": "(q + (1)) % 2"}, "distinct": True, "order_by": "(q + 1) % 2"}, [(1,), (1,), (1,)]),
        ({"entries": {"one": "1"}, "group_by": "k"}, [(1,), (1,), (1,), (1,)]),
    ],
)  # fmt: skip
def test_clauses_of_a_relation_give_what_sql_gives(clauses: Mapping[str, Any], expected: list[tuple[Any, ...]]) -> None:
    assert values(stream().window(TWO).relation(**clauses)) == expected


def test_trees_do_as_well_as_text() -> None:
    from panes.plan.expressions import parse

    clauses = {"group_by": [parse("k")], "having": parse("sum(q) > 20"), "where": parse("q < 60")}
    query = stream().window(TWO).relation({"k": parse("k"), "s": parse("sum(q)")}, **clauses)
    assert values(query) == [("A", 70), ("B", 50)]


def test_the_window_is_told_and_keys_are_given_once() -> None:
    rows = [{"t": i, "k": i % 2, "v": i} for i in range(4)]
    windows = stream(rows, key="k").window(w=pn.tumbling(2))
    query = windows.relation(["window_end", "k", "v"])
    assert query.to_arrow().column_names == ["k", "window", "window_start", "window_end", "v", "revision"]
    assert [(r["k"], r["window_end"], r["v"]) for r in query.rows()] == [(0, 2, 0), (1, 2, 1), (0, 4, 2), (1, 4, 3)]
    grouped = (
        stream(rows, key="k").window(w=pn.tumbling(2)).relation({"k": "k", "e": "window_end + k", "n": "count(*)"})
    )
    assert [(r["k"], r["e"], r["n"]) for r in grouped.rows()] == [(0, 2, 1), (1, 3, 1), (0, 4, 1), (1, 5, 1)]


def test_aggregates_over_nothing_are_given_with_emit_empty_only() -> None:
    entries = {"n": "count(*)", "m": "max(q)", "l": "collect_list(q)"}
    windows = stream().window(pn.tumbling(2))
    assert values(windows.relation(entries, where="q > 30")) == [(1, 40, [40]), (2, 60, [50, 60])]
    every = stream().window(pn.tumbling(2), emit_empty=True).relation(entries, where="q > 30")
    assert values(every) == [(0, None, []), (1, 40, [40]), (2, 60, [50, 60])]


def test_nulls_and_nan_as_in_spark() -> None:
    rows = [{"t": i, "x": x} for i, x in enumerate([None, float("nan"), 1.0, None, -0.0, 0.0, float("nan")])]
    query = stream(rows).window(pn.tumbling(10))
    assert repr(values(query.relation("x", order_by="x"))) == (
        "[(None,), (None,), (-0.0,), (0.0,), (1.0,), (nan,), (nan,)]"
    )
    assert repr(values(query.relation("x", order_by="x DESC", limit=2))) == "[(nan,), (nan,)]"
    groups = values(query.relation({"x": "x", "n": "count(*)"}, group_by="x", order_by="x"))
    assert repr(groups) in ("[(None, 2), (-0.0, 2), (1.0, 1), (nan, 2)]", "[(None, 2), (0.0, 2), (1.0, 1), (nan, 2)]")
    assert len(values(query.relation("x", distinct=True))) == 4


TYPES: Mapping[str, Any] = {
    "int": (pa.int64(), lambda r: r.randint(-3, 3)),
    "small": (pa.int8(), lambda r: r.randint(-128, 127)),
    "float": (pa.float64(), lambda r: r.choice([0.5, -1.5, 2.0, -0.0, 0.0, math.nan, math.inf])),
    "single": (pa.float32(), lambda r: r.choice([0.5, -1.5, 2.0])),
    "decimal": (pa.decimal128(8, 2), lambda r: Decimal(r.randint(-300, 300)) / 100),
    "text": (pa.string(), lambda r: r.choice(["a", "b", "é", ""])),
    "bool": (pa.bool_(), lambda r: r.random() < 0.5),
    "date": (pa.date32(), lambda r: dt.date(2024, 1, r.randint(1, 5))),
    "time": (pa.timestamp("us"), lambda r: dt.datetime(2024, 1, 1, r.randint(0, 5))),
    "nanos": (pa.timestamp("ns"), lambda r: r.randint(0, 3)),
    "zoned": (pa.timestamp("us", "Europe/Rome"), lambda r: r.randint(0, 3)),
}
ARGUMENTS = {
    "arg_min": "x, y", "arg_max": "x, y", "min_by": "x, y", "max_by": "x, y", "argmin": "x, y", "argmax": "x, y",
    **dict.fromkeys(("quantile", "percentile", "percentile_cont", "percentile_disc"), "x, 0.3"),
    **dict.fromkeys(("percentile_approx", "approx_percentile"), "x, 0.3"),
    **dict.fromkeys(PAIRS, "x, y"), "histogram_numeric": "x, 3",
    "quantiles": "x, array(0.1, 0.5, 1)", "string_agg": "x, '-'", "listagg": "x",
}  # fmt: skip


def random_table(kind: str, seed: int) -> pa.Table:
    type, draw = TYPES[kind]
    r = random.Random(f"{kind} {seed}")
    n = 60
    column = pa.array([None if r.random() < 0.2 else draw(r) for _ in range(n)], type)
    by = pa.array([None if r.random() < 0.2 else r.randint(0, 4) for _ in range(n)], pa.int64())
    return pa.table({"t": pa.array(sorted(r.randint(0, 30) for _ in range(n))), "x": column, "y": by})


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) or a == b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return bool(a == b)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", aggregate_names())
def test_aggregates_mean_the_same_as_in_agg(name: str, kind: str) -> None:
    text = f"{name}({ARGUMENTS.get(name, 'x')})"
    windows = stream(random_table(kind, 1)).window(pn.sliding(4, every=2))
    try:
        expected = windows.agg(v=text).to_arrow()
    except QueryError:
        with pytest.raises(QueryError):
            windows.relation({"v": text})
        return
    if pa.types.is_duration(expected.schema.field("v").type):
        with pytest.raises(QueryError, match="gives a duration"):
            windows.relation({"v": text})
        return
    given = windows.relation({"v": text}).to_arrow()
    assert given.schema == expected.schema
    pairs = list(zip(given.column("v").to_pylist(), expected.column("v").to_pylist(), strict=True))
    assert [p for p in pairs if not same(*p)] == []


def test_integer_sums_are_exact_and_overflow_names_the_sum() -> None:
    big = 2**62
    rows = [{"t": 0, "v": big}, {"t": 1, "v": big - 1}, {"t": 2, "v": -5}, {"t": 10, "v": big}, {"t": 11, "v": big}]
    query = stream(rows[:3]).window(pn.tumbling(10)).relation({"s": "sum(v)"})
    assert values(query) == [(2**63 - 6,)]
    with pytest.raises(DataError, match=r"sum\(v\)"):
        stream(rows).window(pn.tumbling(10)).relation({"s": "sum(v)"}).to_arrow()


def test_types_of_plain_columns_survive() -> None:
    types = {name: type for name, (type, _) in TYPES.items()}
    table = pa.table({"t": pa.array([1]), **{name: pa.nulls(1, type) for name, type in types.items()}})
    windows = stream(table).window(pn.tumbling(10))
    for query in (windows.relation("*"), windows.relation("*", where="t > 0"), windows.relation("*", distinct=True)):
        assert {n: query.to_arrow().schema.field(n).type for n in types} == types


@pytest.mark.parametrize(
    ("clauses", "message"),
    [
        ({"entries": "nothing"}, "there is no column 'nothing'"),
        ({"entries": []}, "at least one column"),
        ({"entries": ["q", "q"]}, "two columns are named 'q'"),
        ({"entries": {"window_end": "q"}}, "'window_end' is a column of every result"),
        ({"entries": {"k": "k", "s": "sum(q)"}}, "k must be in group_by or inside an aggregate"),
        ({"entries": "*", "group_by": "k"}, "t must be in group_by"),
        ({"entries": "q", "having": "q > 1"}, "having needs group_by"),
        ({"entries": "q", "where": "q + 1"}, "where='q \\+ 1' must be a condition"),
        ({"entries": "q", "where": "sum(q) > 1"}, "sum is an aggregate"),
        ({"entries": {"n": "count(*) filter (where q)"}}, "FILTER \\(WHERE q\\) must be a condition"),
        ({"entries": {"n": "sum(q) over (partition by k)"}}, "OVER .the windows of the query take its place"),
        ({"entries": "sum(max(q))"}, "aggregates can't be nested"),
        ({"entries": "q", "limit": -1}, "limit must be"),
        ({"entries": "q", "limit": True}, "limit must be"),
        ({"entries": "q", "distinct": 1}, "distinct must be"),
        ({"entries": "k", "distinct": True, "order_by": "q"}, "only selected columns"),
        ({"entries": "q", "order_by": "1"}, "the same for every row"),
        ({"entries": "q", "group_by": "collect_list(q)"}, "aggregate"),
        ({"entries": "read_csv('x')"}, "no function 'read_csv'"),
        ({"entries": "(select 1)"}, "subquery"),
        ({"entries": pn.sum("q")}, "SQL text"),
        ({"entries": {"v": pn.sum("q")}}, "as SQL text"),
    ],
)  # fmt: skip
def test_wrong_clauses_of_a_relation_are_refused(clauses: Mapping[str, Any], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        stream().window(TWO).relation(**clauses)


def test_an_expression_that_fails_on_data_is_a_data_error() -> None:
    query = stream([{"t": 1, "s": "x"}]).window(pn.tumbling(2)).relation({"n": "cast(s as int)"})
    with pytest.raises(DataError, match="CAST"):
        query.to_arrow()


def test_text_is_only_ever_a_value() -> None:
    text = "'; DROP TABLE panes_0; --"
    rows = [{"t": 1, "s": text}]
    windows = stream(rows).window(pn.tumbling(2))
    assert values(windows.relation({"v": r"string_agg(s, '\' || x')"})) == [(text,)]
    assert values(windows.relation({'"; --': "upper(s)"})) == [(text.upper(),)]


def test_columns_that_differ_in_case_or_are_named_like_ours() -> None:
    rows = [{"t": 1, "a": 1, "A": 2, "w0": 3, "i0": 4, "panes_0": 5, "e0": 6, "p": 7}]
    query = (
        stream(rows)
        .window(pn.tumbling(2))
        .relation({"s": "a + A * 10 + w0 * 100 + i0 * 1000 + panes_0", "e0": "e0 + p"})
    )
    assert values(query) == [(1 + 20 + 300 + 4000 + 5, 13)]


SLIDING = pn.sliding(6, every=2)


@pytest.mark.parametrize("window", [SLIDING, pn.session(1), pn.tumbling(pn.rows(3))], ids=str)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_batches_and_snapshots_change_nothing(window: Any, size: int) -> None:
    r = random.Random(3)
    rows = [{"t": t + r.randint(-3, 3), "k": r.choice("ab"), "v": r.choice([None, 1, 2, 3])} for t in range(0, 60, 2)]
    query = stream(rows, watermark=6, key="k").window(window).relation(
        {"v": "v", "n": "count(*)", "l": "collect_list(t)"}, group_by="v", order_by=["n DESC", "v"], limit=2
    )  # fmt: skip
    expected = query.to_arrow()
    op, parts = query.operator(), []
    for start in range(0, len(rows), size):
        parts.append(op.push(rows[start : start + size]).table)
        op = query.operator(restore=op.snapshot())
    parts.append(op.finish().table)
    # windows of rows have no end in time: those of different keys come in no particular order
    assert by_key(pa.concat_tables(parts)) == by_key(expected) != []


def by_key(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: row["k"])


def test_late_rows_give_all_rows_of_the_window_again() -> None:
    query = stream(None, schema={"t": "bigint", "v": "bigint"}, watermark=0, lateness=100).window(pn.tumbling(10))
    op = query.relation("v", order_by="v").operator()
    assert op.push([{"t": 1, "v": 5}, {"t": 20, "v": 0}]).table.select(["v", "revision", "void"]).to_pylist() == [
        {"v": 5, "revision": 0, "void": False}
    ]
    assert [(r["v"], r["revision"], r["void"]) for r in op.push([{"t": 2, "v": 3}])] == [(3, 1, False), (5, 1, False)]


def test_a_window_that_has_no_rows_any_more_is_withdrawn() -> None:
    query = stream(None, schema={"t": "bigint", "v": "bigint"}, watermark=0, lateness=100).window(pn.tumbling(10))
    op = query.relation({"n": "count(*)"}, having="n < 2").operator()
    assert [(r["n"], r["void"]) for r in op.push([{"t": 1, "v": 5}, {"t": 20, "v": 0}])] == [(1, False)]
    assert [(r["n"], r["revision"], r["void"]) for r in op.push([{"t": 2, "v": 3}])] == [(None, 1, True)]


def test_sessions_that_merge_are_withdrawn() -> None:
    query = stream(None, schema={"t": "bigint", "v": "bigint"}, watermark=0, lateness=100).window(pn.session(2))
    op = query.relation("v").operator()
    op.push([{"t": 0, "v": 1}, {"t": 4, "v": 2}, {"t": 20, "v": 0}])
    given = [(r["window_start"], r["window_end"], r["v"], r["void"]) for r in op.push([{"t": 2, "v": 3}])]
    assert sorted(given, key=str) == sorted(
        [(0, 6, 1, False), (0, 6, 3, False), (0, 6, 2, False), (0, 2, None, True), (4, 6, None, True)], key=str
    )


def test_the_step_is_a_value_that_can_travel() -> None:
    query = stream().window(TWO).relation({"k": "k", "s": "sum(q)"}, group_by="k", order_by="s")
    step = query._plan.steps[0]
    again = pickle.loads(pickle.dumps(step))
    assert again.after == step.after
    from dataclasses import replace

    bare = replace(query._plan, steps=())
    collected = query._over(bare).to_arrow()
    assert again.apply(collected).equals(query.to_arrow())
    assert again.apply(collected.slice(0, 0)).schema == step.after.schema
    assert "order by s" in str(step)


def test_errors_say_where() -> None:
    with pytest.raises(ExpressionError, match="at character 5"):
        stream().window(TWO).relation("q + foo(q)")
