"""Values of rows given as dicts: taken exactly, or refused by column, row, value and reason; never changed silently."""

from __future__ import annotations

import math
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import panes as pn
from panes.errors import DataError

BERLIN = timezone(timedelta(hours=2))
NOON = datetime(2024, 1, 1, 12)
NAN, INF = math.nan, math.inf
LIST, STRUCT = pa.list_(pa.int64()), pa.struct({"x": pa.int64(), "y": pa.float32()})
MAP = pa.map_(pa.string(), pa.int64())
NANOS = pa.timestamp("ns")

#: type, value, what the column then holds
TAKEN: list[tuple[Any, Any, Any]] = [
    ("boolean", True, True),
    ("boolean", np.bool_(False), False),
    ("bigint", 2.0, 2),
    ("bigint", Decimal("2.00"), 2),
    ("bigint", np.int8(3), 3),
    ("bigint", np.uint64(3), 3),
    ("bigint", np.float32(3), 3),
    ("bigint", Fraction(6, 3), 2),
    ("bigint", 2**63 - 1, 2**63 - 1),
    ("bigint", -(2**63), -(2**63)),
    ("bigint", None, None),
    ("bigint", pd.NA, None),
    ("tinyint", -128, -128),
    ("float", 0.1, float(np.float32(0.1))),
    ("float", INF, INF),
    ("float", 2**24, 2.0**24),
    ("float", 3.4e38, float(np.float32(3.4e38))),
    ("double", 2**53, 2.0**53),
    ("double", 2**60, 2.0**60),
    ("double", Decimal("0.1"), 0.1),
    ("double", -INF, -INF),
    ("double", np.float16(0.5), 0.5),
    ("decimal(10, 2)", 1, Decimal("1.00")),
    ("decimal(10, 2)", 1.5, Decimal("1.50")),
    ("decimal(10, 2)", 0.1, Decimal("0.10")),
    ("decimal(10, 2)", Decimal("1.500"), Decimal("1.50")),
    ("decimal(38, 0)", 10**38 - 1, Decimal(10**38 - 1)),
    ("string", "x", "x"),
    ("binary", b"x", b"x"),
    ("binary", bytearray(b"x"), b"x"),
    ("date", date(2024, 1, 1), date(2024, 1, 1)),
    ("date", datetime(2024, 1, 1), date(2024, 1, 1)),
    ("date", pd.Timestamp(2024, 1, 1), date(2024, 1, 1)),
    ("date", "2024-01-01", date(2024, 1, 1)),
    ("date", pd.NaT, None),
    ("timestamp", NOON, NOON),
    ("timestamp", NOON.replace(tzinfo=BERLIN), NOON - timedelta(hours=2)),
    ("timestamp", date(2024, 1, 1), datetime(2024, 1, 1)),
    ("timestamp", "2024-01-01T12:00:00+02:00", NOON - timedelta(hours=2)),
    ("timestamp", np.datetime64("2024-01-01T12", "ns"), NOON),
    ("timestamp", pd.Timestamp(NOON), NOON),
    ("timestamp", pd.NaT, None),
    ("timestamp", np.datetime64("NaT"), None),
    ("timestamp_ltz", NOON, NOON.replace(tzinfo=timezone.utc)),
    ("timestamp[s]", NOON, NOON),
    (NANOS, pd.Timestamp("2024-01-01T00:00:00.000000001"), pd.Timestamp("2024-01-01T00:00:00.000000001")),
    (pa.duration("s"), timedelta(seconds=3), timedelta(seconds=3)),
    (pa.time32("s"), time(1, 2, 3), time(1, 2, 3)),
    (LIST, [1, 2.0, None], [1, 2, None]),
    (LIST, (1, 2), [1, 2]),
    (LIST, np.array([1, 2]), [1, 2]),
    (STRUCT, {"x": 1, "z": 5}, {"x": 1, "y": None}),
    (MAP, {"a": 1}, [("a", 1)]),
    (MAP, [("a", 1.0)], [("a", 1)]),
]

#: type, value, the reason for which it is refused
REFUSED: list[tuple[Any, Any, str]] = [
    ("boolean", 1, "not a truth value"),
    ("boolean", "true", "not a truth value"),
    ("bigint", 2.9, "not a whole number"),
    ("bigint", Decimal("2.9"), "not a whole number"),
    ("bigint", Fraction(1, 2), "not a whole number"),
    ("bigint", np.float16(0.5), "not a whole number"),
    ("bigint", NAN, "not a whole number"),
    ("bigint", INF, "not a whole number"),
    ("bigint", True, "not a number"),
    ("bigint", np.bool_(True), "not a number"),
    ("bigint", "3", "not a number"),
    ("bigint", np.datetime64("2024-01-01", "ns"), "not a number"),
    ("bigint", np.timedelta64(1, "s"), "not a number"),
    ("bigint", 2**63, "out of range"),
    ("bigint", -(2**63) - 1, "out of range"),
    ("bigint", 1e300, "out of range"),
    ("tinyint", 128, "out of range"),
    (pa.uint8(), -1, "out of range"),
    ("float", 1e300, "out of the range of float"),
    ("float", -1e39, "out of the range of float"),
    ("float", 2**24 + 1, "the nearest one is 16777216"),
    ("float", True, "not a number"),
    ("double", 2**53 + 1, "the nearest one is 9007199254740992"),
    ("double", 10**400, "out of the range of double"),
    ("double", Decimal("1e400"), "out of the range of double"),
    ("double", True, "not a number"),
    ("double", "1.5", "not a number"),
    ("decimal(10, 2)", Decimal("1.234"), "more than 2 digits after the point"),
    ("decimal(10, 2)", 2.999, "more than 2 digits after the point"),
    ("decimal(10, 2)", 10**8, "more than 8 digits before the point"),
    ("decimal(10, 2)", Decimal("NaN"), "not a number"),
    ("decimal(10, 2)", INF, "not a number"),
    ("decimal(10, 2)", True, "not a decimal number"),
    ("string", b"x", "not text"),
    ("string", 3, "not text"),
    ("string", "\ud800", "half a character"),
    ("binary", "x", "not bytes"),
    ("date", NOON, "time of day"),
    ("date", datetime(2024, 1, 1, tzinfo=BERLIN), "time zone"),
    ("date", 3, "not a date"),
    ("date", 3.7, "not a date"),
    ("date", "2024-01-01T05:00", "not a date|time of day"),
    ("timestamp", 3, "not a time"),
    ("timestamp", 3.5, "not a time"),
    ("timestamp", "yesterday", "not a time"),
    ("timestamp", np.datetime64("2024-01-01T00:00:00.000000001"), "between two ticks of us"),
    ("timestamp", pd.Timestamp("2024-01-01T00:00:00.000000001"), "between two ticks of us"),
    ("timestamp", "2024-01-01T00:00:00.000000001", "not a time|two ticks"),
    ("timestamp[s]", NOON.replace(microsecond=1), "between two ticks of s"),
    (NANOS, datetime(1, 1, 1), "out of the range"),
    (pa.duration("s"), timedelta(microseconds=1), "not a whole number of s"),
    (pa.duration("s"), 3, "not a duration"),
    (pa.time32("s"), time(1, 2, 3, 4), "between two ticks of s"),
    (LIST, [1, 2.5], r"element 1, 2\.5: it is not a whole number"),
    (LIST, "ab", "not a list"),
    (LIST, {1, 2}, "not a list"),
    (STRUCT, {"x": 1.5}, r"field 'x', 1\.5: it is not a whole number"),
    (STRUCT, {"y": 1e300}, "out of the range of float"),
    (STRUCT, (1, 2), "not a dict"),
    (MAP, {"a": 1.5}, r"the value of 'a', 1\.5"),
    (MAP, {1: 1}, "key 1"),
]  # fmt: skip

#: A type that fits, so that the odd value is not the first
USUAL: dict[Any, Any] = {"bigint": 1, "double": 0.5, "float": 0.5, "timestamp": NOON, "string": "a"}


def _from_list(kind: Any, rows: list[dict[str, Any]]) -> Any:
    return pn.stream(rows, time="t", schema={"t": "bigint", "v": kind})


def _from_iterator(kind: Any, rows: list[dict[str, Any]]) -> Any:
    return pn.stream(iter(rows), time="t", schema={"t": "bigint", "v": kind})


def _pushed(kind: Any, rows: list[dict[str, Any]]) -> list[Any]:
    stream = pn.stream(None, time="t", schema={"t": "bigint", "v": kind})
    operator = stream.window(pn.tumbling(100)).relation("v").operator()
    for row in rows:
        operator.push(row)
    return [row["v"] for row in operator.finish().table.to_pylist()]


def _values(make: Callable[..., Any]) -> Callable[[Any, list[dict[str, Any]]], list[Any]]:
    return lambda kind, rows: make(kind, rows).to_arrow().column("v").to_pylist()


WAYS = {"list": _values(_from_list), "iterator": _values(_from_iterator), "single rows": _pushed}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("kind", "value", "expected"), TAKEN, ids=lambda x: repr(x)[:40])
def test_a_value_that_fits_exactly_is_taken(way: str, kind: Any, value: Any, expected: Any) -> None:
    first = USUAL.get(kind)
    found = WAYS[way](kind, [{"t": 0, "v": first}, {"t": 1, "v": value}])
    assert found[1] == expected
    assert type(found[1]) is type(expected)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("kind", "value", "reason"), REFUSED, ids=lambda x: repr(x)[:40])
def test_a_value_that_would_change_is_refused_by_name(way: str, kind: Any, value: Any, reason: str) -> None:
    rows = [{"t": 0, "v": USUAL.get(kind)}, {"t": 1, "v": value}]
    row = 1 if way == "single rows" else 2
    with pytest.raises(DataError, match=rf"^column 'v' must be [^;]+; row {row} has .*: .*({reason})"):
        WAYS[way](kind, rows)


def test_the_error_shows_the_value() -> None:
    with pytest.raises(DataError, match=r"column 'v' must be int64; row 3 has 2\.9: it is not a whole number"):
        _from_list("bigint", [{"t": 0, "v": 1}, {"t": 1, "v": 2}, {"t": 2, "v": 2.9}])


def test_rows_of_an_iterator_are_counted_from_its_beginning() -> None:
    rows = ({"t": i, "v": i if i < 20_000 else 0.5} for i in range(30_000))
    with pytest.raises(DataError, match=r"row 20,001 has 0\.5"):
        _from_iterator("bigint", rows).to_arrow()


def test_a_single_row_is_refused_at_once_and_the_rows_before_it_stay() -> None:
    stream = pn.stream(None, time="t", schema={"t": "bigint", "v": "bigint", "d": "double", "s": "string"})
    operator = stream.window(pn.tumbling(10)).agg(n="sum(v)").operator()
    operator.push({"t": 1, "v": 1, "d": 1, "s": "a"})
    for odd in ({"v": 2**63}, {"v": 1.5}, {"d": 2**53 + 1}, {"s": "\ud800"}, {"t": 2**63}):
        operator.push({"t": 1, "v": 2.0, "d": 1.0, "s": "ä"})
        with pytest.raises(DataError, match=next(iter(odd))):
            operator.push({"t": 2, "v": 3, "d": 1, "s": "b", **odd})
    assert operator.finish().table.to_pylist()[0]["n"] == 11


def test_a_dict_that_is_filled_again_after_a_push_leaves_rows_before_alone() -> None:
    operator = (
        pn.stream(None, time="t", schema={"t": "bigint", "v": "bigint"})
        .window(pn.tumbling(10))
        .agg("sum(v)")
        .operator()
    )
    row = {"t": 0, "v": 0}
    for i in range(5):
        row["t"], row["v"] = i, i
        operator.push(row)
    assert operator.finish().table.to_pylist()[0]["sum(v)"] == 10


@pytest.mark.parametrize("make", [MappingProxyType, OrderedDict, lambda row: defaultdict(int, row)])
def test_other_mappings_are_rows_too(make: Callable[[dict[str, Any]], Any]) -> None:
    rows = [make({"t": 0, "v": 1}), make({"t": 1})]
    assert _from_list("bigint", rows).to_arrow().column("v").to_pylist() == [1, None]


@pytest.mark.parametrize(
    ("given", "kind"), [([1e300], "float"), ([2.999], "decimal(10, 2)"), ([[1e300]], pa.list_(pa.float32()))]
)
def test_columns_are_as_exact_as_rows(given: list[Any], kind: Any) -> None:
    with pytest.raises(DataError, match="column 'v' must be"):
        pn.stream(pa.table({"t": [0], "v": given}), time="t", schema={"t": "bigint", "v": kind})


def test_elements_of_lists_keep_their_kind() -> None:
    with pytest.raises(DataError, match="without guessing"):
        pn.stream(pa.table({"t": [0], "v": [[1]]}), time="t", schema={"t": "bigint", "v": pa.list_(pa.string())})
