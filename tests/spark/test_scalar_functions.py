"""Every scalar function of the allow-list on Spark itself, in its own SQL, against the embedded runner.

Rows hold nulls, NaN, infinities, the largest and smallest numbers and times, text outside of ASCII. What the embedded
runner gives must be what Spark gives; where it raises, Spark must raise, too. Exceptions are listed with their reason.
"""

from __future__ import annotations

import math
from datetime import datetime, timezone
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from panes.errors import PanesError
from panes.plan.expressions import Scope
from panes.plan.functions import SCALAR_FUNCTIONS
from panes.plan.scalars import Scalars

pytestmark = pytest.mark.xdist_group("spark")

NAN, INF = math.nan, math.inf
TIMES = [
    datetime(2024, 2, 29, 13, 45, 56, 789123), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2000, 1, 31), None,
    datetime(9999, 12, 31, 23, 59, 59, 999999), datetime(1, 1, 1), datetime(1582, 10, 15), datetime(2025, 12, 29, 1),
    datetime(1900, 3, 1, 0, 0, 1, 500_000),
]  # fmt: skip
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "n": (pa.int32(), list(range(9))),
    "i": (pa.int32(), [7, -7, 0, None, 2**31 - 1, -(2**31), 1, 3, 12]),
    "b": (pa.int64(), [2**53 + 1, -(2**62), 0, None, 2**63 - 1, -(2**63), 1, 1_700_000_000, 65]),
    "tiny": (pa.int8(), [-1, 127, 0, None, 127, -128, 1, 2, 5]),
    "d": (pa.float64(), [2.7, -2.5, NAN, None, 1.7976931348623157e308, -INF, INF, -0.0, 0.5]),
    "f": (pa.float32(), [1.5, -0.0, INF, None, 3.4028235e38, -INF, NAN, 0.1, 1e-30]),
    "s": (
        pa.string(),
        ["Hello", "  a,b,c ", "", None, "héß😀x", "12", "a\tb\n", "2024-02-29", "AbC%_\\"],
    ),
    "ts": (pa.timestamp("us", "UTC"), [t and t.replace(tzinfo=timezone.utc) for t in TIMES]),
    "ntz": (pa.timestamp("us"), TIMES),
    "day": (pa.date32(), [t and t.date() for t in TIMES]),
    "yes": (pa.bool_(), [True, False, None, None, True, False, True, False, True]),
    "dec": (
        pa.decimal128(10, 2),
        [None if t is None else Decimal(t) for t in
         ("1.25", "-9.99", "0", None, "99999999.99", "-99999999.99", "0.01", "2.50", "0.50")],
    ),
    "v": (pa.list_(pa.int32()), [[1, 2, 3], [], [None, 5], None, [2**31 - 1], [-1], [7, 7], [0], [1, None, 3]]),
    "w": (pa.list_(pa.string()), [["a", "b"], [], [None], None, ["", "x"], ["é"], ["a"], ["b", "b"], ["z"]]),
    "m": (
        pa.map_(pa.string(), pa.int32()),
        [[("a", 1), ("b", 2)], [], [("a", None)], None, [("", 5)], [("b", 0)], [("a", 7)], [("A", 1)], [("a", 3)]],
    ),
    "part": (
        pa.struct([pa.field("x", pa.int32())]),
        [{"x": 3}, {"x": None}, None, None, {"x": 2**31 - 1}, {"x": 0}, {"x": 1}, {"x": 2}, {"x": 5}],
    ),
}  # fmt: skip
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in COLUMNS.items()])
TABLE = pa.table([pa.array(values, kind) for kind, values in COLUMNS.values()], schema=SCHEMA)
ROWS = range(TABLE.num_rows)

#: One expression per line.
TEXTS = (Path(__file__).parent / "scalar_functions.txt").read_text(encoding="utf-8").splitlines()

#: What is another way on purpose, and why.
OTHERWISE = {
    "d / 0.0": "dividing by zero gives null, where Spark raises",
    "1 / 0": "dividing by zero gives null, where Spark raises",
    "d % 0": "dividing by zero gives null, where Spark raises",
    "i div tiny": "dividing by zero gives null, where Spark raises",
    "dec / 3": "/ gives doubles, and decimals with six digits in Spark",
    "levenshtein(s, 'Hallo')": "text outside of ASCII is refused",
    "levenshtein(s, '')": "text outside of ASCII is refused",
    "levenshtein(s, null)": "text outside of ASCII is refused",
    "regexp_replace(s, '', 'x')": "Spark cuts characters beyond 16 bits in two",
    "regexp_extract(s, '(', 0)": "the pattern is refused for null, too",
    "cast('1d' as double)": "numbers have no letter behind them",
    **dict.fromkeys(
        ("cast(b as timestamp)", "timestamp_micros(b)", "timestamp_seconds(d)", "date_add(day, i)"),
        "times and dates beyond the range of their type are refused, where Spark gives some other one",
    ),
}
#: Refused when the query is built; Spark raises in a row, or gives null in all.
REFUSED = {
    "split_part(s, ',', 0)": "may not be 0",
    "regexp_extract(s, 'l', 1)": r"has 0 group\(s\), not 1",
    "date_trunc('nonsense', ts)": "there is no unit 'nonsense'",
    "regexp_replace(s, 'l', '$')": "need a number or sign",
    "regexp_replace(s, 'l', 'x', 2)": "regexp_replace takes 3 arguments",
    "ceil(d, 1)": "ceil takes 1 argument",
    "levenshtein(s, 'a', 3)": "levenshtein takes 2 arguments",
    "concat_ws(',', w)": "lists can't be joined",
    "date_format(ts, 'yyyy-QQ')": "has 'QQ', which can't be written",
    "date_format(ts, s)": "must be written as text",
    "to_timestamp(s, 'EEEE')": "has 'EEEE', which can't be read",
    "to_timestamp(s, 'hh:mm')": "both 'h' and 'a'",
    "extract(century from ts)": "there is no such field",
    "size(i)": "size takes a list or a map",
    "i[0]": "takes an element of a list",
    "element_at(i, 1)": "element_at takes a list and a whole number, or a map and a key",
    "element_at(v, 1.5)": "element_at takes a list and a whole number, or a map and a key",
    "element_at(v, null)": "element_at takes a list and a whole number, or a map and a key",
    "element_at(v, 'a')": "element_at takes a list and a whole number, or a map and a key",
    "date_part('century', ts)": "there is no such field",
    "date_part(s, ts)": "must be written as text",
    "try_to_timestamp(s, s)": "must be written as text",
    "repeat(s, 1000000000)": "repeat: the times may be 1,000,000 at most",
    "rpad(s, 2000000000, 'x')": "rpad: the length may be 1,000,000 at most",
    "lpad(s, 2000000000)": "lpad: the length may be 1,000,000 at most",
}
_RAISED = object()


@cache
def _embedded(text: str) -> tuple[Any, ...]:
    """The value for each row, `_RAISED` where there is none."""
    scalars = Scalars.of(Scope(SCHEMA), [text])
    try:
        return tuple(_listed(scalars.evaluate(TABLE)[text]))
    except PanesError:
        return tuple(_one(scalars, text, row) for row in ROWS)


def _listed(column: pa.ChunkedArray) -> list[Any]:
    """Values in Python; times as numbers, since some are in years that Python has not."""
    if pa.types.is_timestamp(column.type):
        micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist()
        return [None if t is None else ("time", t) for t in micros]
    if pa.types.is_date32(column.type):
        return [None if t is None else ("date", t) for t in column.cast(pa.int32()).to_pylist()]
    return column.to_pylist()


def _one(scalars: Scalars, text: str, row: int) -> Any:
    try:
        return _listed(scalars.evaluate(TABLE.slice(row, 1))[text])[0]
    except PanesError:
        return _RAISED


@pytest.fixture(scope="module")
def frame(spark: Any) -> Any:
    from pyspark.sql import functions as F

    frame = spark.createDataFrame(TABLE).withColumn("ntz", F.col("ntz").cast("timestamp_ntz")).repartition(1)
    return frame.sortWithinPartitions("n").cache()


@pytest.fixture(scope="module")
def on_spark(frame: Any) -> dict[str, list[Any]]:
    """What Spark gives in the rows in which the embedded runner gives something; all texts in few jobs."""
    found: dict[str, list[Any]] = {}
    texts = [text for text in TEXTS if text not in OTHERWISE and any(v is not _RAISED for v in _embedded(text))]
    for start in range(0, len(texts), 60):
        found |= _values(frame, texts[start : start + 60])
    return found


def _values(frame: Any, texts: list[str]) -> dict[str, Any]:
    """Halved until those that raise stand alone, and have the error as their value."""
    from pyspark.errors import PySparkException

    try:
        table = frame.selectExpr(*(f"{_where_given(text)} AS e{i}" for i, text in enumerate(texts))).toArrow()
    except PySparkException as error:
        if len(texts) == 1:
            return {texts[0]: str(error)[:300]}
        half = len(texts) // 2
        return {**_values(frame, texts[:half]), **_values(frame, texts[half:])}
    return {text: _listed(column) for text, column in zip(texts, table.columns, strict=True)}


def _where_given(text: str) -> str:
    given = _embedded(text)
    if _RAISED not in given:
        return f"({text})"
    return f"CASE WHEN n IN ({', '.join(str(row) for row in ROWS if given[row] is not _RAISED)}) THEN {text} END"


@pytest.mark.parametrize("text", [text for text in TEXTS if text not in OTHERWISE])
def test_the_same_as_spark_itself(frame: Any, on_spark: dict[str, list[Any]], text: str) -> None:
    from pyspark.errors import PySparkException

    expected = _embedded(text)
    if text in on_spark:
        assert isinstance(on_spark[text], list), f"Spark raises where the engine gives {expected}: {on_spark[text]}"
        wrong = {
            row: (given, value)
            for row, (given, value) in enumerate(zip(on_spark[text], expected, strict=True))
            if value is not _RAISED and not _same(given, value)
        }
        assert not wrong, f"row: (Spark, embedded) {wrong}"
    raised = next((row for row in ROWS if expected[row] is _RAISED), None)
    if raised is not None:
        with pytest.raises(PySparkException):
            frame.filter(f"n = {raised}").selectExpr(f"{text} AS e").toArrow()


@pytest.mark.parametrize("text", REFUSED)
def test_what_can_not_be_the_same_is_refused_by_name(text: str) -> None:
    with pytest.raises(PanesError, match=REFUSED[text]):
        Scalars.of(Scope(SCHEMA), [text])


def test_every_function_of_the_allow_list_is_compared() -> None:
    compared = [text for text in TEXTS if text not in OTHERWISE]
    assert [name for name in SCALAR_FUNCTIONS if not any(f"{name}(" in text for text in compared)] == []


@pytest.mark.parametrize("text", ["repeat(s, i)", "lpad(s, i, 'x')", "rpad(s, b)"])
def test_text_that_would_fill_the_memory_is_refused_where_the_length_is_computed(text: str) -> None:
    table = TABLE.slice(4, 1)  # with the largest numbers
    with pytest.raises(PanesError, match=f"{text[:4]}.*1000000"):
        Scalars.of(Scope(SCHEMA), [text]).evaluate(table)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(_same(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, float) or isinstance(other, float):
        if one is None or other is None:
            return False
        a, b = float(one), float(other)
        return (math.isnan(a) and math.isnan(b)) or a == b or math.isclose(a, b, rel_tol=1e-12)
    if isinstance(one, int | Decimal) and isinstance(other, int | Decimal):
        return one == other
    return type(one) is type(other) and one == other
