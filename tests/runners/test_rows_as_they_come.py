"""The loop of a consumer, `for row in pn.stream(generator, ...)....rows()`: results come as soon as they are due."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import panes as pn
from panes.errors import DataError

SCHEMA = {"t": "bigint", "v": "bigint"}


def _given(make: Callable[[Iterator[dict[str, Any]]], Any], rows: list[dict[str, Any]]) -> list[tuple[int, Any]]:
    """For each result, how many rows had been asked for when it came."""
    asked = 0

    def feed() -> Iterator[dict[str, Any]]:
        nonlocal asked
        for row in rows:
            asked += 1
            yield row

    return [(asked, row) for row in make(feed()).rows()]


ROWS = [{"t": t, "v": t} for t in (1, 2, 9, 11, 12, 25)]
TUMBLING = [(4, 12), (6, 23), (6, 25)]


def _windows(stream: Any) -> Any:
    return stream.window(pn.tumbling(10)).agg(s="sum(v)")


def _sums(found: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
    return [(asked, row["s"]) for asked, row in found]


def test_results_of_a_generator_come_as_they_are_due() -> None:
    assert _sums(_given(lambda data: _windows(pn.stream(data, time="t")), ROWS)) == TUMBLING


def test_with_a_schema_and_a_condition() -> None:
    def make(data: Any) -> Any:
        return _windows(pn.stream(data, time="t", schema=SCHEMA).where("v > 0").with_columns(w="v + 1"))

    assert _sums(_given(make, ROWS)) == TUMBLING


def test_rows_of_a_stream_without_windows_come_at_once() -> None:
    found = _given(lambda data: pn.stream(data, time="t").select(w="v * 2"), ROWS)
    assert [asked for asked, _ in found] == [1, 2, 3, 4, 5, 6]
    assert [row["w"] for _, row in found] == [2, 4, 18, 22, 24, 50]


def test_windows_over_windows_and_over_computed_keys() -> None:
    def nested(data: Any) -> Any:
        inner = pn.stream(data, time="t").window(pn.tumbling(10)).agg(s="sum(v)")
        return inner.stream().window(pn.tumbling(20)).agg(s="sum(s)")

    assert _sums(_given(nested, [*ROWS, {"t": 31, "v": 31}, {"t": 45, "v": 1}])) == [(6, 12), (8, 48), (8, 32)]

    def keyed(data: Any) -> Any:
        return _windows(pn.stream(data, time="t").with_columns(k="v % 2").key_by("k"))

    assert [asked for asked, _ in _given(keyed, ROWS)] == [4, 4, 6, 6, 6]


def test_cql_over_a_generator() -> None:
    def make(data: Any) -> Any:
        return pn.sql("SELECT sum(v) AS s FROM data [SIZE 10 ON t]", {"data": data})

    assert [asked for asked, _ in _given(make, ROWS)] == [4, 6, 6]


def test_an_endless_generator_can_be_followed() -> None:
    def forever() -> Iterator[dict[str, Any]]:
        t = 0
        while True:
            yield {"t": t, "v": 1}
            t += 1

    results = _windows(pn.stream(forever(), time="t")).rows()
    assert [next(results)["s"] for _ in range(3)] == [10, 10, 10]


def test_one_dict_filled_again_and_again() -> None:
    def feed() -> Iterator[dict[str, Any]]:
        row = {"t": 0, "v": 0}
        for t in range(25):
            row["t"] = row["v"] = t
            yield row

    for query in (_windows(pn.stream(feed(), time="t")), _windows(pn.stream(feed(), time="t", schema=SCHEMA))):
        assert query.to_arrow().column("s").to_pylist() == [45, 145, 110]
    assert [row["s"] for row in _windows(pn.stream(feed(), time="t")).rows()] == [45, 145, 110]


def test_a_bad_row_is_named_by_its_number_and_results_before_it_are_given() -> None:
    rows = [{"t": t, "v": 1} for t in range(25)] + [{"t": 25, "v": 1.5}]
    results = _windows(pn.stream(iter(rows), time="t", schema=SCHEMA)).rows()
    assert [next(results)["s"] for _ in range(2)] == [10, 10]
    with pytest.raises(DataError, match=r"column 'v' must be int64; row 26 has 1\.5"):
        next(results)


def test_all_results_at_once_after_results_one_by_one() -> None:
    class Rows:
        def __iter__(self) -> Iterator[dict[str, Any]]:
            return iter(ROWS)

    query = _windows(pn.stream(Rows(), time="t"))
    assert [row["s"] for row in query.rows()] == query.to_arrow().column("s").to_pylist() == [12, 23, 25]
