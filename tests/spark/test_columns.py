"""Expressions as Spark Columns: the value and the type that the embedded engine gives, for every function there is."""

from __future__ import annotations

import math
import re
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import panes as pn
from panes.connectors.spark_types import storable
from panes.errors import ExpressionError, QueryError
from panes.plan.expressions import Expression, Scope
from panes.plan.functions import SCALAR_FUNCTIONS
from panes.plan.scalars import Scalars
from panes.runners.spark.columns import ColumnBuilder, NoColumn

pytestmark = pytest.mark.xdist_group("spark")

SCHEMA = pa.schema(
    {
        "i": pa.int32(),
        "b": pa.int64(),
        "tiny": pa.int8(),
        "zero": pa.int32(),
        "d": pa.float64(),
        "f": pa.float32(),
        "S": pa.string(),
        "ts": pa.timestamp("us", tz="UTC"),
        "ntz": pa.timestamp("us"),
        "day": pa.date32(),
        "yes": pa.bool_(),
        "dec": pa.decimal128(10, 2),
        "my col": pa.int64(),
        "part": pa.struct([pa.field("x", pa.int32())]),
        "v": pa.list_(pa.int32()),
        "m": pa.map_(pa.string(), pa.int32()),
    }
)
LEAP = datetime(2024, 2, 29, 13, 45, 56, 789123)
NAN, INF = float("nan"), float("inf")
OLD = datetime(1969, 12, 31, 23, 59, 59, 999_999)
NAMES = ("i", "b", "tiny", "zero", "d", "f", "S", "ts", "ntz", "day", "yes", "dec", "part")
VALUES: list[tuple[Any, ...]] = [
    (7, 2**53 + 1, -1, 0, 2.7, 1.5, "Hello", LEAP, LEAP, LEAP.date(), True, Decimal("1.25"), {"x": 3}),
    (-7, -(2**62), 127, 2, -2.5, -0.0, "  a,b,c ", OLD, OLD, OLD.date(), False, Decimal("-9.99"), {"x": None}),
    (0, 0, 0, 0, NAN, INF, "", datetime(2000, 1, 31), datetime(2023, 1, 1), date(2023, 1, 1), None, Decimal(0), None),
    (None,) * len(NAMES),
    (2**31 - 10, 3, 5, -3, 1e20, 0.1, "hELLo l+x", datetime(1900, 3, 1, 0, 0, 1), datetime(2025, 12, 29, 1),
     date(2025, 12, 29), True, Decimal("12345678.90"), {"x": 1}),
]  # fmt: skip
LISTS = [[1, 2], [], [None], None, [7, None, 5]]
MAPS = [[("a", 1), ("Hello", 2)], [], [("a", None)], None, [("b", 3)]]
ROWS = [
    {**dict(zip(NAMES, values)), "my col": number, "v": LISTS[number], "m": MAPS[number]}
    for number, values in enumerate(VALUES)
]
TABLE = pa.Table.from_pylist(ROWS, schema=SCHEMA)

EXPRESSIONS = """
    i + 1; i - b; tiny + 1; tiny * 2; i * 2L; b + 0.5; d + i; d * f; f + f; dec + 1; dec * 2; dec - dec; dec * dec
    -i; -d; i / 2; i / zero; d / zero; d / 0.0; dec / 3; 1 / 0; i div 2; b div zero; b div 3; i % 4; b % zero; d % 2
    d % 0; dec % 1; mod(i, 4); i & 3; i | 8; i ^ 1; ~i; b & 255; ~tiny; bit_count(i); bit_count(b); bit_count(tiny)
    i = 7; i <> 7; i != zero; i < d; d > 2; d >= f; i <= zero; i <=> zero; not (i <=> b); i = null; S = 'Hello'
    d = d; d > 1e300; f = 0; dec > 1; dec = 1.25; dec < d; yes = true; yes and i > 0; yes or i > 0; not yes
    i in (1, 7); i not in (1, 7); i in (1, null); S in ('Hello', ''); i between 0 and 9; d not between 0 and 9
    S like 'H%'; S like '%l_o'; S ilike 'h%'; S not like '%l%'; S like 'H!%%' escape '!'
    S like '%a,b!_%' escape '!'; yes is true; yes is not false; i is null; i is not null; isnull(i); isnotnull(i)
    isnan(d); isnan(f); abs(i); abs(d); abs(dec); ceil(d); ceil(i); ceil(dec); ceiling(f); floor(d); floor(f)
    floor(dec); round(d); round(d, 2); round(f, 1); round(dec, 1); round(i, -1); round(2.675D, 2); round(d, -19)
    round(2.345, 2); round(-0.5D); sqrt(d); sqrt(i); sqrt(dec); cbrt(d); cbrt(8); exp(f - f); exp(1); ln(d)
    ln(zero); log(i); log(2, 8); log(10, i); log2(i); log10(b); pow(i, 2); power(d, 0.5); sign(d); signum(i)
    sign(dec); sin(i); cos(i); tan(i); asin(i); asin(0.5); acos(0.5); acos(2); atan(d); atan2(i, 2); degrees(i)
    radians(i); pi(); greatest(i, zero, 3); least(i, zero, 3); greatest(d, f); least(d, 1); greatest(S, 'M')
    greatest(i, null); coalesce(i, 1); coalesce(d, i); nvl(i, 5); ifnull(S, 'none'); nullif(i, 7); nullif(S, '')
    nullif(d, d); nvl2(i, 1, 2); if(yes, 'a', 'b'); if(i > 0, i, d)
    case when i > 3 then 'big' when i < 0 then 'neg' else 'small' end; case i when 7 then 1 end
    case when i > 3 then 1 else 2.5 end; case when yes then d end; case when i > 0 then null else 4 end; upper(S)
    ucase(S); lower(S); lcase(S); length(S); char_length(S); character_length(S); trim(S); ltrim(S); rtrim(S)
    trim(both 'Ho' from S); substring(S, 2, 3); substr(S, 3); substring(S, 1, 0); left(S, 2); right(S, 2)
    right(S, 0); left(S, 99); concat(S, '-', i); concat(S, null); concat(day, ntz); concat_ws('-', S, i, 'b')
    S || 'x'; S || i; S || dec; concat(yes, 1); replace(S, 'l', 'L'); replace(S, 'l', ''); reverse(S); repeat(S, 2)
    replace(S, '', 'x'); replace(S, 'lo', 'long'); regexp_replace(S, 'l', 'long')
    repeat(S, zero); lpad(S, 7, '*'); rpad(S, 3, 'xy'); lpad(S, 9); instr(S, 'l'); locate('l', S); locate('l', S, 4)
    position('l' in S); startswith(S, 'He'); endswith(S, 'lo'); contains(S, 'ell'); split_part(S, ',', 2)
    split_part(S, ',', 1); split_part(S, ',', 9); regexp_replace(S, 'l+', 'L'); regexp_replace(S, '[a-c]', '')
    regexp_extract(S, '(H)(e)', 2); regexp_extract(S, '[a-z]+', 0); regexp_like(S, 'l+'); S rlike '^H.*o$'
    translate(S, 'lo', 'x'); ascii(S); chr(65); char(97); md5(S); levenshtein(S, 'Hallo'); year(ts); quarter(ts)
    month(ts); day(ts); dayofmonth(ts); hour(ts); minute(ts); second(ts); dayofweek(ts); weekday(ts); dayofyear(ts)
    weekofyear(ts); year(ntz); hour(ntz); second(ntz); dayofweek(ntz); weekofyear(ntz); year(day); month(day)
    weekday(day); dayofyear(day); date_trunc('hour', ts); date_trunc('week', ts); date_trunc('month', ntz)
    date_trunc('year', ntz); date_trunc('minute', ts); date_trunc('day', ts); date_trunc('quarter', ntz)
    date_trunc('second', ts); to_date(ts); to_date(ntz); to_date('2024-02-29'); date_add(ts, 1)
    date_add(day, i % 9); date_sub(ntz, 29); datediff(ts, '2024-01-01'); datediff(day, ntz); last_day(ts)
    last_day(day); add_months(ts, 12); add_months(day, 1); make_date(2024, 1, 2); unix_seconds(ts); unix_millis(ts)
    unix_micros(ts); unix_seconds(ntz); unix_micros(ntz); timestamp_seconds(60); timestamp_seconds(i % 100)
    timestamp_millis(1500); timestamp_micros(b % 1000); ts + interval 1 hour; ntz - interval 3 day
    ts + interval 1 month; ntz - interval 1 year; day + interval 1 day; ts - interval 90 second; ts > '2024-02-01'
    ts < timestamp '2024-03-01 00:00:00'; ntz >= '2000-01-01'; day = '2023-01-01'; day > date '2024-01-01'; ts = ts
    cast(d as int) between -3 and 3 or d is null; cast(least(d, 100) as int); cast(f * 2 as bigint) = 3
    cast(dec as int); cast(i as tinyint) is null; cast('12' as int); try_cast('x' as int); cast(i as string)
    cast(yes as int); cast(yes as string); cast(i as boolean); cast(i as double); cast(i as float); cast(d as float)
    cast(f as double); cast(i as decimal(12, 2)); cast(dec as double); cast(dec as string); cast(day as string)
    cast(ts as bigint); cast(ts as double); cast(ts as date); cast(ntz as date); cast(day as timestamp)
    cast(ntz as string); i::double; 2L * i; cast('2024-02-29 12:00:00' as timestamp); cast(b as decimal(20, 0))
    try_cast(b as int); try_cast(i as tinyint); `my col` + 1; my col; part.x + 1; part.x; (i); 1; null; 'it\\'s'
    v[1]; v[abs(tiny) % 2]; m['a']; m[S]; part['x']; size(v); size(m); array_contains(v, 2); array_contains(v, i)
    element_at(v, 1); element_at(v, -1); element_at(m, 'a'); date_part('week', ntz); date_part('second', ts)
    try_to_timestamp('29/2/24', 'd/M/yy'); try_to_timestamp('30/2/24', 'd/M/yy'); try_to_timestamp(ts)
    extract(year from ts); extract(week from ntz); extract(dow from day); extract(second from ts)
    extract(dow_iso from ts); to_timestamp('2024-02-29 12:00:00'); to_timestamp('29/2/24 1:05 PM', 'd/M/yy h:mm a')
    to_timestamp('2024-02-29 10:11:12.5', 'yyyy-MM-dd HH:mm:ss.SSS'); to_date('29.02.2024', 'dd.MM.yyyy')
    date_format(ts, 'yyyy-MM-dd HH:mm:ss.SSS'); date_format(day, 'EEEE, d MMM yy'); date_format(ntz, 'hh:mm a')
    1e3; 1.50; true; i + i * 2 - (i - 1); (i + 1) / (zero + 3)
"""
#: Where one engine refuses values of these rows and the other need not: only the rows that both can do.
ONLY: dict[str, list[int]] = {
    "tiny * 2": [0, 2, 3, 4],
    "tiny + 1": [0, 2, 3, 4],
    "dec * dec": [0, 1, 2, 3],
    "cast(f * 2 as bigint) = 3": [0, 1, 3, 4],
    "ceil(d)": [0, 1, 2, 3],
    "floor(d)": [0, 1, 2, 3],
    "ceiling(f)": [0, 1, 3, 4],
    "floor(f)": [0, 1, 3, 4],
    "v[1]": [0, 3, 4],
    "v[abs(tiny) % 2]": [0, 3, 4],
    "element_at(v, 1)": [0, 2, 3, 4],
    "element_at(v, -1)": [0, 2, 3, 4],
    "cast(least(d, 100) as int)": [0, 1, 3, 4],
    "cast(d as int) between -3 and 3 or d is null": [0, 1, 3],
    "cast(i as tinyint) is null": [0, 1, 2, 3],
    "i + i * 2 - (i - 1)": [0, 1, 2, 3],
    "sin(i)": [0, 1, 2, 3],
    "cos(i)": [0, 1, 2, 3],
    "tan(i)": [0, 1, 2, 3],
}
TEXTS = [text.strip() for line in EXPRESSIONS.splitlines() for text in line.split(";") if text.strip()]
#: Functions that are only in the texts that are compared with Spark's own SQL are tried with those.
_FURTHER = [name for name in SCALAR_FUNCTIONS if f"{name}(" not in EXPRESSIONS]
_LINES = (Path(__file__).parent / "scalar_functions.txt").read_text(encoding="utf-8").splitlines()
TEXTS += [re.sub(r"\bs\b", "S", line) for line in _LINES if any(f"{name}(" in line for name in _FURTHER)]


def _embedded(text: str, table: pa.Table = TABLE) -> pa.ChunkedArray:
    return Scalars.of(Scope(SCHEMA), [text]).evaluate(table)[text]


def _expression(text: str) -> Expression:
    return Scope(SCHEMA).scalar(text)


@pytest.fixture(scope="module")
def native(spark: Any) -> Any:
    """Text and rows -> the values and the type that Spark gives."""
    from pyspark.sql import functions as F

    frame = spark.createDataFrame(TABLE).withColumn("ntz", F.col("ntz").cast("timestamp_ntz")).repartition(1)
    frame = frame.sortWithinPartitions("`my col`").cache()
    builder = ColumnBuilder(SCHEMA, lambda name: F.col(f"`{name}`"))
    together = [t for t in TEXTS if t not in ONLY]
    columns = [builder.column(_expression(text)).alias(f"e{n}") for n, text in enumerate(together)]
    found = dict(zip(together, frame.select(*columns).toArrow().columns, strict=True))

    def values(text: str) -> pa.ChunkedArray:
        if text in found:
            return found[text]
        few = frame.filter(F.col("`my col`").isin(ONLY.get(text, list(range(len(ROWS))))))
        return few.select(builder.column(_expression(text)).alias("e")).toArrow().column(0)

    return values


@pytest.mark.parametrize("text", TEXTS)
def test_same_value_and_type_as_embedded(native: Any, text: str) -> None:
    expected = _embedded(text, TABLE.take(ONLY[text]) if text in ONLY else TABLE)
    found = native(text)
    if not pa.types.is_null(expected.type):
        assert found.type == storable(expected.type)
        found = found.cast(expected.type)
    for one, other in zip(found.to_pylist(), expected.to_pylist(), strict=True):
        assert _same(one, other), f"{text}: Spark gives {found.to_pylist()}, the engine {expected.to_pylist()}"


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return (
            (math.isnan(one) and math.isnan(other))
            or one == other
            or math.isclose(one, other, rel_tol=1e-14, abs_tol=1e-12)
        )
    return bool(one == other)


def test_every_function_of_the_allow_list_is_in_the_table() -> None:
    missing = [name for name in SCALAR_FUNCTIONS if not any(f"{name}(" in text for text in TEXTS)]
    assert missing == []


@pytest.mark.parametrize("text", ["i * 1000000000", "tiny + tiny", "b * 4", "cast(b as int)", "-(b * 2)", "abs(b * 2)"])
def test_integers_that_overflow_are_errors(native: Any, text: str) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match=r"OVERFLOW|overflow|out of range"):
        native(text)


@pytest.mark.parametrize(
    "text",
    [
        "replace(repeat('a', 100000), 'a', repeat('b', 10000))",
        "regexp_replace(repeat('a', 500000), 'a', 'xyz')",
        "repeat('ab', 1000 * 1000)",
    ],
)
def test_text_that_would_fill_the_memory_is_refused(native: Any, text: str) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match=rf"{text.partition('(')[0]}: the text may have 1000000 characters"):
        native(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("cast(d as string)", "another way"),
        ("S || d", "another way"),
        ("cast(S as int)", "refuses other text"),
        ("S > 3", "cast it"),
        ("substring(S, 0, 2)", "at least 1"),
        ("left(S, i)", "must be written"),
        ("regexp_like(S, '(?i)h')", "another way"),
        ("regexp_replace(S, '(l)', '\\\\1')", "references"),
        ("ts + interval '1 day 2 hours'", "one unit"),
        ("cast(b as decimal(38, 0)) * dec", "38 digits"),
        ("d div 2", "only integers"),
    ],
)
def test_what_differs_between_engines_is_refused(spark: Any, text: str, reason: str) -> None:
    from pyspark.sql import functions as F

    with pytest.raises(NoColumn, match=reason):
        ColumnBuilder(SCHEMA, lambda name: F.col(f"`{name}`")).column(_expression(text))


def test_a_column_where_sql_text_belongs_is_refused_with_its_text(spark: Any) -> None:
    from pyspark.sql import functions as F

    stream = pn.stream([{"ts": 1, "v": 2}], time="ts")
    with pytest.raises(QueryError, match=r"is a Column of Spark; write it as SQL text: agg\(total='sum\(v\)'\)"):
        stream.window(pn.tumbling(3)).agg(F.sum("v"))
    with pytest.raises(QueryError, match=r"agg\(most='max\(v\)'\)"):
        stream.window(pn.tumbling(3)).agg(F.max("v").alias("most"))
    with pytest.raises(ExpressionError, match="must be SQL text; got a Column of Spark"):
        stream.where(F.col("v") > 3)
