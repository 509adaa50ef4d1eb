"""Row expressions: what they give (as in Spark), what they refuse, and that columns are never copied."""

from __future__ import annotations

import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from panes.errors import DataError, ExpressionError
from panes.plan.expressions import Scope
from panes.plan.scalars import Scalars

SCHEMA = pa.schema(
    {
        "i": pa.int32(),
        "neg": pa.int32(),
        "zero": pa.int32(),
        "d": pa.float64(),
        "nd": pa.float64(),
        "S": pa.string(),
        "blank": pa.string(),
        "ts": pa.timestamp("us"),
        "none": pa.int32(),
        "yes": pa.bool_(),
        "dec": pa.decimal128(10, 2),
        "my col": pa.int64(),
        "part": pa.struct({"x": pa.int32()}),
    }
)
ROW = {
    "i": 7,
    "neg": -7,
    "zero": 0,
    "d": 2.7,
    "nd": -2.7,
    "S": "Hello",
    "blank": " x ",
    "ts": datetime(2024, 2, 29, 13, 45, 56, 789000),  # a Thursday
    "none": None,
    "yes": True,
    "dec": Decimal("1.25"),
    "my col": 5,
    "part": {"x": 3},
}
TABLE = pa.Table.from_pylist([ROW], schema=SCHEMA)
NAN = float("nan")


def value(text: str) -> Any:
    return Scalars.of(Scope(SCHEMA), [text]).evaluate(TABLE)[text].to_pylist()[0]


#: text and the value that Spark gives it; division by zero and logarithms as in Spark without ANSI mode
VALUES: list[tuple[str, Any]] = [
    ("i + 1", 8),
    ("i * i - (i + neg) * 2", 49),
    ("i / 2", 3.5),
    ("i / zero", None),
    ("d / 0.0", None),
    ("7 div 2", 3),
    ("neg div 2", -3),
    ("i div zero", None),
    ("i % 4", 3),
    ("neg % 4", -3),
    ("mod(neg, 4)", -3),
    ("i % zero", None),
    ("d % 0", None),
    ("i % 4 * 2", 6),
    ("-i", -7),
    ("i & 3", 3),
    ("i | 8", 15),
    ("i ^ 1", 6),
    ("~i", -8),
    ("cast(d as int)", 2),
    ("cast(nd as bigint)", -2),
    ("cast(dec as int)", 1),
    ("cast('12' as int)", 12),
    ("try_cast(S as int)", None),
    ("cast(ts as bigint)", 1709214356),
    ("cast(ts as double)", 1709214356.789),
    ("cast(ts as date)", date(2024, 2, 29)),
    ("cast(i as string)", "7"),
    ("cast(yes as int)", 1),
    ("i::double", 7.0),
    ("cast(i as tinyint) * 100", 700),
    ("30000 + cast(i as smallint) * (5)", 30035),
    ("-30000 - cast(i as smallint) * 4000", -58000),
    ("cast(i as tinyint) + 3000000000", 3000000007),
    ("2L * i", 14),
    ("dec * 2", Decimal("2.50")),
    ("abs(neg)", 7),
    ("ceil(d)", 3),
    ("floor(nd)", -3),
    ("round(2.345, 2)", Decimal("2.35")),
    ("round(2.5D)", 3.0),
    ("sqrt(16)", 4.0),
    ("sqrt(nd)", NAN),
    ("asin(2)", NAN),
    ("ln(zero)", None),
    ("ln(1)", 0.0),
    ("log(2, 8)", 3.0),
    ("log10(100)", 2.0),
    ("log2(8)", 3.0),
    ("pow(2, 3)", 8.0),
    ("sign(neg)", -1.0),
    ("greatest(i, none, 3)", 7),
    ("least(i, none, 3)", 3),
    ("isnan(sqrt(nd))", True),
    ("coalesce(none, i)", 7),
    ("nvl(none, 1)", 1),
    ("nullif(i, 7)", None),
    ("if(yes, 'a', 'b')", "a"),
    ("nvl2(none, 1, 2)", 2),
    ("isnull(none)", True),
    ("isnotnull(none)", False),
    ("none is null and i is not null", True),
    ("i between 1 and 9", True),
    ("i in (1, 7)", True),
    ("i not in (1, 7)", False),
    ("i <=> none", False),
    ("i = none", None),
    ("i == 7 and not (i <> 7 or i != 7)", True),
    ("case when i > 3 then 'big' else 'small' end", "big"),
    ("case i when 7 then 1 end", 1),
    ("upper(S)", "HELLO"),
    ("lower(s)", "hello"),
    ("length(S)", 5),
    ("trim(blank)", "x"),
    ("substring(S, 2, 3)", "ell"),
    ("left(S, 2) || right(S, 1)", "Heo"),
    ("concat(S, '-', i)", "Hello-7"),
    ("concat(S, none)", None),
    ("concat_ws('-', S, 'b')", "Hello-b"),
    ("replace(S, 'l', 'L')", "HeLLo"),
    ("lpad(S, 7, '*')", "**Hello"),
    ("instr(S, 'l')", 3),
    ("locate('l', S, 4)", 4),
    ("startswith(S, 'He') and endswith(S, 'lo') and contains(S, 'ell')", True),
    ("S like 'H%'", True),
    ("S rlike 'l+'", True),
    ("regexp_replace(S, 'l', 'L')", "HeLLo"),
    ("regexp_extract(S, '(H)(e)', 2)", "e"),
    ("split_part('a,b,c', ',', 2)", "b"),
    ("'it\\'s'", "it's"),
    ('"double quotes are text"', "double quotes are text"),
    ("year(ts) * 10000 + month(ts) * 100 + day(ts)", 20240229),
    ("hour(ts) * 10000 + minute(ts) * 100 + second(ts)", 134556),
    ("quarter(ts)", 1),
    ("dayofyear(ts)", 60),
    ("weekofyear(ts)", 9),
    ("dayofweek(ts)", 5),
    ("weekday(ts)", 3),
    ("date_trunc('hour', ts)", datetime(2024, 2, 29, 13)),
    ("to_date(ts)", date(2024, 2, 29)),
    ("date_add(ts, 1)", date(2024, 3, 1)),
    ("date_sub(ts, 29)", date(2024, 1, 31)),
    ("datediff(ts, '2024-01-01')", 59),
    ("last_day(ts)", date(2024, 2, 29)),
    ("add_months(ts, 12)", date(2025, 2, 28)),
    ("make_date(2024, 1, 2)", date(2024, 1, 2)),
    ("unix_seconds(ts)", 1709214356),
    ("unix_millis(ts)", 1709214356789),
    ("timestamp_seconds(60)", datetime(1970, 1, 1, 0, 1)),
    ("timestamp_millis(1500)", datetime(1970, 1, 1, 0, 0, 1, 500000)),
    ("ts + interval 1 hour", datetime(2024, 2, 29, 14, 45, 56, 789000)),
    ("ts > '2024-02-01' and ts < timestamp '2024-03-01 00:00:00'", True),
    ("my col", 5),
    ("`my col` + 1", 6),
    ("part.x + 1", 4),
    ("I", 7),
    ("(i)", 7),
    ("1", 1),
    ("null", None),
]


@pytest.mark.parametrize(("text", "expected"), VALUES, ids=[text for text, _ in VALUES])
def test_an_expression_has_the_value_that_spark_gives(text: str, expected: Any) -> None:
    found = value(text)
    if isinstance(expected, float):
        assert found == pytest.approx(expected, nan_ok=True)
    else:
        assert found == expected


#: text, and what the message must say
REFUSED = [
    ("pric", "there is no column 'pric' at character 1"),
    ("neg + zerro", r"no column 'zerro' at character 7 .*did you mean 'zero'"),
    ("other.i", "no column 'other.i'"),
    ("uper(S)", "no function 'uper' at character 1 .*did you mean 'upper'"),
    ("i + sum(d)", "sum is an aggregate .*at character 5"),
    ("read_csv('x')", "no function 'read_csv'"),
    ("rand()", "no function 'rand' .*a replay would give other results"),
    ("now()", "no function 'now' .*Give the rows a column with their time"),
    ("lag(i)", "no function 'lag' .*is first"),
    ("current_timestamp()", "no function 'current_timestamp'"),
    ("current_date", "no column 'current_date' .*a replay would give other results"),
    ("(select 1)", "a subquery can't be used"),
    ("i in (select 1)", "a subquery can't be used"),
    ("exists(select 1)", "a subquery can't be used"),
    ("select i", "can't be read"),
    ("drop table rows", "can't be read"),
    ("1; drop table rows", "can't be read"),
    ("pragma version", "can't be read"),
    ("i, d", "can't be read"),
    ("i as j", "can't be read"),
    ("i +", "something is missing"),
    ("(i", "can't be read"),
    ("'open", "a quote is not closed"),
    ("", "must not be empty"),
    ("  ", "must not be empty"),
    ("-- nothing", "can't be read"),
    ("*", r"\* can't be used"),
    ("lag(i) over (order by i)", "no function 'lag'|OVER"),
    ("part[0]", "takes an element of a list, or the value of a key of a map"),
    ("?", "a placeholder"),
    ("abs(i, d)", "abs takes 1 argument, not 2"),
    ("ceil()", "ceil takes 1 argument, not 0"),
    ("weekday()", "weekday takes 1 argument, not 0"),
    ("cast(i as nonsense)", "can't be read"),
    ("S + 1", "can't be computed"),
    ("upper(i)", "can't be computed"),
    ("part.y", "can't be computed"),
    ("i " + "+ i" * 10_000, "characters"),
    ("(" * 4000 + "i" + ")" * 4000, "nested too deeply|can't be read"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=[text[:30] for text, _ in REFUSED])
def test_refused_when_the_query_is_built(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        Scalars.of(Scope(SCHEMA), [text])


@pytest.mark.parametrize("text", [None, 3, b"i"])
def test_what_is_not_text_is_refused(text: Any) -> None:
    with pytest.raises(ExpressionError, match="must be SQL text"):
        Scope(SCHEMA).scalar(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [("cast(S as int)", "CAST"), ("2147483647 + i", "2147483647 \\+ i"), ("i * 1000000000", "i \\*")],
)
def test_bad_values_are_data_errors_that_name_the_expression(text: str, message: str) -> None:
    scalars = Scalars.of(Scope(SCHEMA), ["i + 1", text])
    with pytest.raises(DataError, match=message):
        scalars.evaluate(TABLE)


def test_names_that_differ_in_case_only_must_be_exact() -> None:
    schema = pa.schema({"a": pa.int64(), "A": pa.int64()})
    table = pa.table({"a": [1], "A": [2]})
    assert Scalars.of(Scope(schema), ["A - a"]).evaluate(table)["A - a"].to_pylist() == [1]
    other = pa.schema({"Ab": pa.int64(), "aB": pa.int64()})
    with pytest.raises(ExpressionError, match="ambiguous"):
        Scope(other).scalar("ab + 1")


def test_plain_columns_are_not_copied_and_need_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    scalars = Scalars.of(Scope(SCHEMA), ["i", "(d)"])
    monkeypatch.setattr("panes.plan.duckdb_session.connection", lambda: pytest.fail("DuckDB was asked"))
    found = scalars.evaluate(TABLE)
    assert found["i"].chunk(0).buffers()[1].address == TABLE["i"].chunk(0).buffers()[1].address
    assert found["(d)"].to_pylist() == [2.7]


def test_equal_expressions_are_computed_once() -> None:
    scalars = Scalars.of(Scope(SCHEMA), ["i*2", "i * 2", "I*2"])
    assert len(set(scalars.sql.values())) == 1
    assert {c.to_pylist()[0] for c in scalars.evaluate(TABLE).values()} == {14}


def test_types_are_known_without_rows() -> None:
    types = Scalars.of(Scope(SCHEMA), ["i", "i / 2", "upper(S)", "i > 2", "ts"]).types
    assert list(types.values()) == [pa.int32(), pa.float64(), pa.string(), pa.bool_(), pa.timestamp("us")]


def test_rows_keep_their_order_over_many_chunks() -> None:
    n = 300_000
    table = pa.concat_tables([pa.table({"x": range(k, k + n // 3)}) for k in range(0, n, n // 3)])
    scalars = Scalars.of(Scope(table.schema), ["x + 1", "1"])
    found = scalars.evaluate(table)
    assert found["x + 1"].to_pylist() == list(range(1, n + 1))
    assert len(found["1"]) == n


def test_expressions_over_no_rows_give_no_values() -> None:
    found = Scalars.of(Scope(SCHEMA), ["i + 1", "i"]).evaluate(TABLE.slice(0, 0))
    assert [len(column) for column in found.values()] == [0, 0]


def test_derived_columns_are_written_out() -> None:
    scope = Scope(SCHEMA)
    outer = Scope(SCHEMA, derived={"total": scope.scalar("i + 1")}, visible=("i", "total"))
    assert Scalars.of(outer, ["total * 2"]).evaluate(TABLE)["total * 2"].to_pylist() == [16]
    with pytest.raises(ExpressionError, match="no column 'd'"):
        outer.scalar("d + 1")


def test_sets_grow_travel_and_work_in_threads() -> None:
    scalars = Scalars.of(Scope(SCHEMA), ["i + 1"])
    assert scalars.including(["i + 1"]) is scalars
    more = pickle.loads(pickle.dumps(scalars.including(["d * 2"])))
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: more.evaluate(TABLE)["d * 2"].to_pylist(), range(16)))
    assert results == [[5.4]] * 16


def test_the_engine_is_closed_off() -> None:
    import duckdb

    from panes.plan.duckdb_session import connection

    for sql in (
        "SELECT * FROM read_csv('/etc/hostname')",
        "INSTALL httpfs",
        "SET threads = 4",
        "ATTACH '/tmp/x.db'",
    ):
        with pytest.raises(duckdb.Error):
            connection().execute(sql)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cast(s as int)", "the expression 'CAST(s AS INT)' failed: 'x' is not a whole number of 32 bits"),
        ("cast(s as date)", "'x' is not a date"),
        ("cast(s as decimal(4, 2))", "'x' is not a decimal of 4 digits, 2 of them behind the point"),
        ("cast(n as tinyint)", "3000000000 does not fit into a whole number of 8 bits"),
        ("n * n * n", "does not fit into a whole number of 64 bits"),
    ],
)
def test_values_that_fail_are_told_in_plain_words(text: str, message: str) -> None:
    table = pa.table({"s": ["x"], "n": [3_000_000_000]})
    with pytest.raises(DataError, match=re.escape(message)):
        Scalars.of(Scope(table.schema), [text]).evaluate(table)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("replace(s, 'x')", ""),
        ("datediff(days, t, t)", 0),
        ("datediff('dayofyear', t, t)", 0),
        ("try_cast(l as int)", None),
    ],
)
def test_calls_that_keep_working(text: str, value: Any) -> None:
    table = pa.table({"s": ["x"], "t": [datetime(2020, 1, 1)], "l": [[1]]})
    assert Scalars.of(Scope(table.schema), [text]).evaluate(table)[text].to_pylist() == [value]
