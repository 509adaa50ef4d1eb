"""Outputs of a query: split into distinct aggregates and what is computed from them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import panes as pn
from panes.errors import ExpressionError, QueryError
from panes.plan.aggregation import Aggregation, compile_aggregates
from panes.plan.expressions import Scope

SCHEMA = pa.schema(
    {"price": pa.float64(), "qty": pa.int64(), "sym": pa.string(), "ts": pa.timestamp("us"), "ok": pa.bool_()}
)


def compiled(**outputs: Any) -> Aggregation:
    return compile_aggregates(outputs, Scope(SCHEMA))


def names(aggregation: Aggregation) -> list[str]:
    return [agg.name for agg in aggregation.aggs]


def test_single_aggregates_keep_the_names_of_their_outputs() -> None:
    aggregation = compiled(total="sum(price)", n="count(*)", p90=pn.quantile("price", 0.9))
    assert names(aggregation) == ["total", "n", "p90"]
    assert aggregation.direct
    assert [agg.inputs for agg in aggregation.aggs] == [("price",), (), ("price",)]


def test_equal_aggregates_are_computed_once() -> None:
    aggregation = compiled(
        vwap="sum(price*qty)/sum(qty)",
        volume=pn.sum("QTY"),
        again="SUM( price * qty ) + 1",
        mean="avg(price)",
    )
    assert names(aggregation) == ["sum(price * qty)", "sum(qty)", "avg(price)"]
    assert not aggregation.direct
    assert {k: str(v) for k, v in aggregation.post.types.items()} == {
        "vwap": "double",
        "volume": "int64",
        "again": "double",
        "mean": "double",
    }


def test_finish_puts_outputs_in_the_place_of_aggregates() -> None:
    aggregation = compiled(vwap="sum(price * qty) / sum(qty)", n="count(*)", some="coalesce(sum(qty), 0)")
    table = pa.table(
        {
            "key": ["a", "b", "c"],
            "sum(price * qty)": [6.0, 1.0, None],
            "sum(qty)": [2, 0, None],
            "count(*)": [5, 6, None],
            "revision": [0, 0, 1],
            "void": [False, False, True],
        }
    )
    assert aggregation.finish(table).to_pylist() == [
        {"key": "a", "vwap": 3.0, "n": 5, "some": 2, "revision": 0, "void": False},
        {"key": "b", "vwap": None, "n": 6, "some": 0, "revision": 0, "void": False},
        {"key": "c", "vwap": None, "n": None, "some": None, "revision": 1, "void": True},
    ]


@pytest.mark.parametrize(
    ("text", "name", "inputs"),
    [
        ("count(distinct sym)", "count_distinct(sym)", ("sym",)),
        ("count(1)", "count(1)", ("1",)),
        ("max(distinct qty)", "max(qty)", ("qty",)),
        ("sum(distinct qty)", "sum(DISTINCT qty)", ("qty",)),
        ("count(distinct qty, price)", "count(DISTINCT qty, price)", ("qty", "price")),
        ("string_agg(distinct sym, '|')", "string_agg(DISTINCT sym, separator='|')", ("sym",)),
        ("percentile_cont(0.25) within group (order by qty)", "quantile(qty, p=0.25)", ("qty",)),
        ("percentile_cont(0.25) within group (order by qty desc)", "quantile(qty, p=0.75)", ("qty",)),
        ("percentile_disc(0.1) within group (order by sym)", "quantile(sym, p=0.1, method='disc')", ("sym",)),
        ("mode() within group (order by sym)", "mode(sym)", ("sym",)),
        ("listagg(distinct sym, '+') within group (order by sym)", "string_agg(DISTINCT sym, separator='+')", ("sym",)),
        (
            "listagg(sym, ';') within group (order by qty desc)",
            "string_agg(sym, ';') WITHIN GROUP (ORDER BY qty DESC NULLS LAST)",
            ("sym", "qty"),
        ),
        ("any(ok)", "bool_or(ok)", ("ok",)),
        ("some(qty > 1)", "bool_or(qty > 1)", ("qty > 1",)),
        ("corr(qty, 1)", "corr(qty, 1)", ("qty", "1")),
        ("any_value(sym, true)", "any_value(sym)", ("sym",)),
        ("mode(sym, true)", "mode(sym)", ("sym",)),
        (
            "avg(distinct qty) filter (where ok)",
            "avg(DISTINCT CASE WHEN ok THEN qty END)",
            ("CASE WHEN ok THEN qty END",),
        ),
        ("median(price)", "median(price)", ("price",)),
        ("percentile(price, 0.9)", "quantile(price, p=0.9)", ("price",)),
        ("percentile(price, array(0.5, 0.9))", "quantiles(price, ps=(0.5, 0.9))", ("price",)),
        ("max_by(sym, price)", "arg_max(sym, price)", ("sym", "price")),
        ("string_agg(sym, '|')", "string_agg(sym, separator='|')", ("sym",)),
        ("first(sym, true)", "first(sym)", ("sym",)),
        ("last(sym) ignore nulls", "last(sym)", ("sym",)),
        ("stddev_pop(price)", "stddev(price, population=True)", ("price",)),
        ("sum(qty) filter (where ok)", "sum(CASE WHEN ok THEN qty END)", ("CASE WHEN ok THEN qty END",)),
        (
            "count(*) filter (where qty > 2)",
            "count(CASE WHEN qty > 2 THEN 1 END)",
            ("CASE WHEN qty > 2 THEN 1 END",),
        ),
    ],
)
def test_a_call_is_the_aggregate_it_names(text: str, name: str, inputs: tuple[str, ...]) -> None:
    aggregation = compiled(x=text, y=f"({text})")
    assert names(aggregation) == [name]
    assert aggregation.aggs[0].inputs == inputs


def test_filters_over_derived_columns() -> None:
    scope = Scope(SCHEMA)
    scope = Scope(SCHEMA, derived={"big": scope.scalar("price * qty > 9")}, visible=("sym", "big"))
    aggregation = compile_aggregates({"x": "max_by(sym, sym) filter (where big and big)"}, scope)
    big = "(price * qty > 9)"
    assert aggregation.aggs[0].inputs == (f"CASE WHEN {big} AND {big} THEN sym END",) * 2


def test_functions_over_aggregates() -> None:
    aggregation = compiled(x="isnull(sum(qty)) or count(*) > 1")
    assert aggregation.post.types["x"] == pa.bool_()


REFUSED = [
    ("sum(sum(qty))", "sum is inside sum, at character 5.*nested"),
    ("price + sum(qty)", "price must be inside an aggregate, at character 1"),
    ("price", "price must be inside an aggregate"),
    ("summ(qty)", "no function 'summ' at character 1 .*did you mean 'sum'"),
    ("sum(prcie)", "no column 'prcie' at character 5 .*did you mean 'price'"),
    ("1 + 1", "holds no aggregate"),
    ("sum()", "sum needs an argument"),
    ("count()", "count needs an argument"),
    ("sum(*)", r"\* can't be used"),
    ("sum(qty, price)", "sum takes 1 argument, not 2"),
    ("sum(distinct *)", "name the columns"),
    ("sum(qty) within group (order by qty)", "sum can't have WITHIN GROUP, at character 1 .*listagg"),
    ("percentile_disc(0.5) within group (order by qty desc)", "without DESC"),
    ("percentile_cont(0.5, 0.6) within group (order by qty)", "takes one number"),
    ("listagg(sym) within group (order by qty, sym)", "orders by one expression, not 2"),
    ("listagg(distinct sym) within group (order by qty)", "ordered by x itself"),
    ("first(qty, false)", "always skips nulls"),
    ("sum(qty) over ()", "OVER"),
    ("(select sum(qty))", "subquery"),
    ("foo(sum(qty))", "no function 'foo'"),
    ("sum(foo(qty))", "no function 'foo' at character 5"),
    ("quantile(price)", "quantile takes 2 or 3 arguments, not 1"),
    ("quantile(price, 2)", "between 0 and 1"),
    ("sum(sym)", "sum.*string"),
    ("upper(sum(qty))", "can't be computed"),
    ("avg(price) filter (where pric > 1)", "no column 'pric'"),
    ("avg(price) filter (where max(price) > 1)", "max is inside|max is an aggregate"),
    ("sum(lag(qty))", "no function 'lag' at character 5 .*is first\\(v\\) in window"),
    ("lag(qty)", "no function 'lag' at character 1 .*is first\\(v\\) in window"),
    ("max(ts) > now()", "no function 'now' at character 11 .*a replay would give other results"),
    ("max(ts) > current_timestamp", "no column 'current_timestamp' .*a replay would give other results"),
    ("sum(qty) over (partition by sym)", "OVER .the windows of the query take its place"),
    ("row_number() over (order by qty)", "OVER .the windows of the query take its place"),
    ("count(*) filter (where qty)", r"FILTER \(WHERE qty\) must be a condition.*int64"),
    ("sum(qty) filter (where sym)", r"FILTER \(WHERE sym\) must be a condition.*string"),
    ("listagg(sym, qty)", "separator of listagg must be written as text.*got qty at character 1"),
    ("listagg(sym, null)", "separator of listagg must be written as text.*got NULL"),
    ("listagg(sym, 3)", "separator of string_agg must be written as text.*got 3"),
    ("listagg(sym, qty) within group (order by ts)", "separator of listagg must be written as text"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=[text for text, _ in REFUSED])
def test_what_is_no_aggregate_is_refused(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        compiled(x=text)


def test_objects_are_checked_too() -> None:
    with pytest.raises(ExpressionError, match=r"p=quantile.*no column 'prcie'"):
        compiled(p=pn.quantile("prcie", 0.9))
    with pytest.raises(QueryError, match="must be SQL text"):
        compiled(p=3)


def test_an_error_has_the_piece_it_is_about_and_a_hint() -> None:
    with pytest.raises(ExpressionError) as raised:
        compiled(total="sum(price) + summ(qty)")
    error = raised.value
    assert str(error) == "there is no function 'summ' at character 14 of 'sum(price) + summ(qty)'; did you mean 'sum'?"
    assert (error.told(str), error.hint) == ("there is no function 'summ'", "did you mean 'sum'?")
    assert error.piece.sql() == "SUMM(qty)"
