"""Parts of a state by key group: an operator holds the groups of its parts, and refuses rows of others."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

import panes as pn
from panes.errors import DataError, QueryError, SnapshotMismatch

KEYS = [f"key {i}" for i in range(20)]
LEFT, RIGHT = range(64), range(64, 128)
WINDOWS: dict[str, dict[str, Any]] = {
    "slices": {"w": pn.tumbling(10), "x": pn.session(3)},
    "rows": {"w": pn.tumbling(pn.rows(3)), "p": pn.policy(evict=pn.policies.count(3), trigger=pn.policies.count(2))},
    "measures": {"w": pn.tumbling(50, on="v")},
}


def query(windows: str = "slices", **options: Any) -> Any:
    options = {"key": "k", "watermark": 5, **options}
    stream = pn.stream(None, schema={"ts": "bigint", "k": "string", "v": "bigint"}, time="ts", **options)
    return stream.window(**WINDOWS[windows]).agg(s="sum(v)", l="last(v)")


def rows(start: int, stop: int) -> list[dict[str, Any]]:
    return [{"ts": t - t * 7 % 4, "k": KEYS[t * 13 % 20], "v": t} for t in range(start, stop)]


def halves(asked: Any, operator: Any) -> list[Any]:
    return [asked.operator(restore=operator.snapshot(key_groups=groups)) for groups in (LEFT, RIGHT)]


def of(asked: Any, batch: list[dict[str, Any]], groups: range) -> list[dict[str, Any]]:
    return [row for row in batch if asked.key_group(row["k"]) in groups]


def test_a_part_refuses_keys_of_other_groups_and_stays_as_it_was() -> None:
    asked = query()
    whole = asked.operator()
    whole.push(rows(0, 40))
    left, _ = halves(asked, whole)
    before = left.snapshot()
    foreign = next(key for key in KEYS if asked.key_group(key) in RIGHT)
    mine = next(key for key in KEYS if asked.key_group(key) in LEFT)
    batch = [{"ts": 50, "k": mine, "v": 1}, {"ts": 50, "k": foreign, "v": 1}]
    said = (
        rf"row 1 of the batch has the key k='{foreign}' of key group {asked.key_group(foreign)};.* key groups 0\.\.63"
    )
    with pytest.raises(DataError, match=said):
        left.push(batch)
    with pytest.raises(DataError, match="key group"):
        left.push(batch[1])  # a single row is not held back first
    assert left.snapshot() == before
    left.push(batch[0])


@pytest.mark.parametrize("lateness", [None, 20])
@pytest.mark.parametrize("windows", WINDOWS)
def test_halves_that_went_on_apart_are_put_together(windows: str, lateness: int | None) -> None:
    """No row is lost, however far each half has come."""
    asked = query(windows, lateness=lateness)
    whole = asked.operator()
    expected = [*whole.push(rows(0, 40)).rows()]
    found = [*expected]
    parts = halves(asked, whole)
    for at in range(40, 80, 10):
        batch = rows(at, at + 10)
        expected += whole.push(batch).rows()
        for part, groups in zip(parts, (LEFT, RIGHT)):
            found += part.push(of(asked, batch, groups)).rows()
    for part in parts:  # where the other would be by itself
        found += part.advance(whole.watermark).rows()
    again = asked.operator(restore=[part.snapshot() for part in parts])
    found += again.push(rows(80, 100)).rows()
    expected += whole.push(rows(80, 100)).rows()
    found += again.finish().rows()
    expected += whole.finish().rows()
    assert sorted(map(str, found)) == sorted(map(str, expected))
    assert again.metrics["rows_in"] == whole.metrics["rows_in"] == 100
    assert again.metrics["rows_used"] + again.metrics["rows_late"] == 100


def test_a_half_that_is_behind_is_brought_to_the_watermark_of_the_other() -> None:
    asked = query(watermark="manual")
    whole = asked.operator()
    whole.push(rows(0, 40))
    left, right = halves(asked, whole)
    given = [*left.advance(25).rows()]
    again = asked.operator(restore=[left.snapshot(), right.snapshot()])
    assert again.watermark == 25
    expected = [*whole.advance(25).rows(), *whole.finish().rows()]
    assert sorted(map(str, [*given, *again.finish().rows()])) == sorted(map(str, expected))


def test_the_snapshot_of_a_part_is_a_part() -> None:
    asked = query()
    whole = asked.operator()
    whole.push(rows(0, 40))
    left, right = halves(asked, whole)
    again = asked.operator(restore=left.snapshot())
    with pytest.raises(DataError, match=r"holds the key groups 0\.\.63"):
        again.push(rows(40, 60))
    with pytest.raises(QueryError, match=r"range\(32, 96\).* holds the key groups 0\.\.63"):
        left.snapshot(key_groups=range(32, 96))
    quarter = left.snapshot(key_groups=range(32, 64))
    apart = asked.operator(restore=[quarter, right.snapshot()])
    with pytest.raises(DataError, match=r"key groups 32\.\.127"):
        apart.push(rows(40, 60))
    together = asked.operator(restore=[left.snapshot(key_groups=range(32)), right.snapshot(), quarter])
    together.push(rows(40, 60))
    assert together.metrics["keys"] == 20
    assert together.metrics["rows_in"] == 60


def test_parts_that_hold_one_group_twice_are_refused() -> None:
    asked = query()
    whole = asked.operator()
    whole.push(rows(0, 40))
    with pytest.raises(SnapshotMismatch, match="two parts hold key group 32"):
        asked.operator(restore=[whole.snapshot(key_groups=range(64)), whole.snapshot(key_groups=range(32, 128))])


@pytest.mark.parametrize("groups", [range(0), range(64, 64), range(-1, 5), range(129), range(0, 64, 2), 3])
def test_ranges_that_are_none_are_refused(groups: Any) -> None:
    with pytest.raises(QueryError, match="key_groups"):
        query().operator().snapshot(key_groups=groups)


def test_without_a_key_all_rows_are_in_group_0() -> None:
    asked = query(key=None)
    whole = asked.operator()
    whole.push(rows(0, 40))
    assert asked.key_group() == 0
    left, right = halves(asked, whole)
    left.push(rows(40, 50))
    with pytest.raises(DataError, match=r"all rows are in key group 0; this operator holds 64\.\.127"):
        right.push(rows(40, 50))
    assert asked.operator(restore=[left.snapshot(), right.snapshot()]).metrics["rows_in"] == 50


def test_key_group_takes_values_in_order_or_by_name() -> None:
    asked = query()
    assert asked.key_group("PAN") == asked.key_group(k="PAN") == asked.operator().key_group("PAN")
    assert all(0 <= asked.key_group(key) < 128 for key in [*KEYS, None, ""])
    schema = {"ts": "bigint", "d": "date", "n": "int"}
    two = pn.stream(None, schema=schema, time="ts", key=["d", "n"]).window(pn.tumbling(5)).agg("count(*)")
    day = date(2024, 5, 6)
    assert two.key_group(day, 3) == two.key_group(n=3, d=day)
    operator = two.operator()
    operator.push([{"ts": 1, "d": day, "n": 3}])
    group = two.key_group(day, 3)
    assert two.operator(restore=operator.snapshot(key_groups=range(group, group + 1))).metrics["keys"] == 1


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda q: q.key_group(), r"got 0 values: the key of this stream is k"),
        (lambda q: q.key_group("a", "b"), r"got 2 values"),
        (lambda q: q.key_group(symbol="a"), r"key_group\(symbol\): the key of this stream is k"),
        (lambda q: q.key_group("a", k="a"), r"by position or by name, not both"),
        (lambda q: q.key_group(3), r"key_group\(k=3\): the key column 'k' is string"),
    ],
)
def test_keys_that_are_none_are_refused(call: Callable[[Any], int], said: str) -> None:
    with pytest.raises(QueryError, match=said):
        call(query())


def test_a_part_without_the_rows_of_a_stream_without_key_gives_nothing() -> None:
    whole = pn.stream(None, schema={"t": "bigint"}, time="t").window(pn.tumbling(100)).agg(n="count(*)")
    op = whole.operator()
    op.push([{"t": t} for t in range(5)])
    parts = [whole.operator(restore=op.snapshot(key_groups=g)) for g in (range(64), range(64, 128))]
    assert [[row["n"] for row in part.finish()] for part in parts] == [[5], []]


def test_key_group_takes_a_key_exactly_or_not_at_all() -> None:
    keyed = pn.stream(None, schema={"t": "bigint", "k": "bigint"}, time="t", key="k")
    asked = keyed.window(pn.tumbling(100)).agg(n="count(*)")
    assert asked.key_group(2.0) == asked.key_group(2)
    with pytest.raises(QueryError, match="not a whole number"):
        asked.key_group(2.9)
