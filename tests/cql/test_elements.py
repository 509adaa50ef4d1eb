"""Elements of lists and maps, casts with `::`, formats of times: the same in CQL and in Python expressions."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

import panes as pn
from panes.errors import PanesError

DATA = pa.table(
    {
        "t": [1, 2, 11],
        "s": ["1", "2", "3"],
        "ts": pa.array([datetime(2024, 1, 1, 1), datetime(2024, 1, 1, 2), datetime(2024, 1, 2, 3)], pa.timestamp("us")),
        "v": pa.array([[1, 2], [3, 4], [5, None]], pa.list_(pa.int32())),
        "m": pa.array([[("a", 1)], [("b", 2)], [("a", 3)]], pa.map_(pa.string(), pa.int32())),
    }
)
VALUES: dict[str, list[Any]] = {
    "v[1]": [2, 4, None],
    "v[0] + 1": [2, 4, 6],
    "v[t % 2]": [2, 3, None],
    "m['a']": [1, None, 3],
    "size(v)": [2, 2, 2],
    "size(m)": [1, 1, 1],
    "array_contains(v, 3)": [False, True, None],
    "s::int * 2": [2, 4, 6],
    "(s::int + 1)::string": ["2", "3", "4"],
    "extract(hour FROM ts)": [1, 2, 3],
    "extract(dow FROM ts)": [2, 2, 3],
    "date_format(ts, 'dd.MM.yyyy HH:mm')": ["01.01.2024 01:00", "01.01.2024 02:00", "02.01.2024 03:00"],
    "unix_seconds(to_timestamp(concat('0', s, '/24'), 'MM/yy'))": [1704067200, 1706745600, 1709251200],
    "to_date(concat(s, '.5.2024'), 'd.M.yyyy') = date '2024-05-02'": [False, True, False],
}


@pytest.mark.parametrize("text", VALUES)
def test_expressions_in_both_languages(text: str) -> None:
    assert pn.stream(DATA, time="t").select(x=text).to_arrow().column("x").to_pylist() == VALUES[text]
    assert pn.sql(f"SELECT {text} AS x FROM data", {"data": DATA}).to_arrow().column("x").to_pylist() == VALUES[text]


def test_text_that_looks_like_a_function_inside_is_text() -> None:
    text = "concat('PX_nothing(', lower('PX_LOWER('), s)"
    found = pn.stream(DATA, time="t").select(x=text).to_arrow().column("x").to_pylist()
    assert found == [f"PX_nothing(px_lower({n}" for n in (1, 2, 3)]


def test_in_aggregates_groups_and_conditions() -> None:
    query = pn.sql(
        "SELECT m['a'] AS a, sum(v[0])::double AS x FROM data [SIZE 10 ON t] WHERE size(v) = 2 GROUP BY m['a']",
        {"data": DATA},
    )
    assert query.to_arrow().to_pylist() == [{"a": 1, "x": 1.0}, {"a": None, "x": 3.0}, {"a": 3, "x": 5.0}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("v[2]", r"there is no element \[2\] in a list of 2: the first is \[0\]"),
        ("v[-1]", r"there is no element \[-1\]"),
        ("s[0]", "takes an element of a list, or the value of a key of a map"),
        ("to_timestamp(s, 'yyyy')", "to_timestamp: '1' does not have the format yyyy"),
        ("element_at(v, 0)", r"element_at: no element 0 is in a list of 2: the first is 1, the last -1"),
        ("element_at(v, 3)", "element_at: no element 3"),
        ("date_part('century', t)", "there is no such field"),
        ("repeat(s, 1000000000)", "repeat: the times may be 1,000,000 at most"),
        ("rpad(s, 2000000000)", "rpad: the length may be 1,000,000 at most"),
        ("repeat(s, t * 1000000)", "repeat: the text may have 1000000 characters"),
        ("replace(repeat('a', 100000), 'a', repeat(s, 10000))", "replace: the text may have 1000000 characters"),
        ("regexp_replace(repeat('a', 500000), 'a', 'xyz')", "regexp_replace: the text may have 1000000 characters"),
        (f"regexp_replace(repeat('a', 500000), '(a+)', '{'$1' * 99}')", "regexp_replace: the text may have 1000000 c"),
    ],
)
def test_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(PanesError, match=message):
        pn.stream(DATA, time="t").select(x=text).to_arrow()
    with pytest.raises(PanesError, match=message):
        pn.sql(f"SELECT {text} AS x FROM data", {"data": DATA}).to_arrow()


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("replace(repeat('ab', 500000), 'ab', 'cd')", 1_000_000),
        ("replace(repeat('ab', 400000), 'ab', '')", 0),
        ("replace(concat(repeat('b', 900000), 'a'), 'a', repeat('c', 1000))", 901_000),
        ("replace(repeat('b', 900000), '', 'cc')", 900_000),
        ("regexp_replace(repeat('ab', 500000), 'a|b', 'c')", 1_000_000),
        ("regexp_replace(repeat('ab', 400000), '(a)(b)', '$2$1')", 800_000),
        ("regexp_replace(concat(repeat('b', 900000), 'a'), 'a', 'xyz')", 900_003),
    ],
)
def test_text_of_the_longest_length_is_made(text: str, length: int) -> None:
    assert pn.stream(DATA, time="t").select(n=f"length({text})").to_arrow()["n"].to_pylist() == [length] * 3
