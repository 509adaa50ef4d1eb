"""Late rows of windows that count rows: an add and an inverse per slice, and the same results as from scratch."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest

import panes as pn
from panes.slicing.rows.corrections import edge_changes
from tests.oracle.oracle import Oracle

SCHEMA = {"ts": "bigint", "k": "string", "v": "bigint"}


def windows(rng: Random) -> dict[str, tuple[Any, ...]]:
    made = {}
    for i in range(rng.randint(1, 3)):
        kind = rng.choice(("rows", "rows", "whole_and_rest"))
        size = rng.randint(1, 7)
        made[f"w{i}"] = ("whole_and_rest", size) if kind == "whole_and_rest" else ("rows", size, rng.randint(1, 9))
    return made


def window(spec: tuple[Any, ...]) -> Any:
    if spec[0] == "whole_and_rest":
        return pn.tumbling(pn.rows(spec[1]), partial=True)
    return pn.sliding(pn.rows(spec[1]), every=pn.rows(spec[2]))


def shown(results: Any) -> Counter[tuple[Any, ...]]:
    names = ("window", "window_start", "window_end", "window_from", "window_to", "revision", "void", "a", "b")
    return Counter((r.get("k"), *(r[n] for n in names)) for r in results)


@pytest.mark.parametrize("function", ["sum", "max"])
@pytest.mark.parametrize("seed", range(120))
def test_corrections_are_what_the_oracle_gives(seed: int, function: str) -> None:
    """Sums take a row out of a slice; of a maximum the rows are looked at again."""
    rng = Random(seed)
    specs, keyed = windows(rng), rng.random() < 0.6
    lateness = rng.choice((3, 20, 1000))
    oracle = Oracle(
        specs, [(function, "v"), ("count_rows",)], keys=["k"] if keyed else [], watermark="manual", lateness=lateness
    )
    stream = pn.stream(time="ts", schema=SCHEMA, key="k" if keyed else None, watermark="manual", lateness=lateness)
    query = stream.window(**{label: window(spec) for label, spec in specs.items()}).agg(
        a=f"{function}(v)", b="count(*)"
    )
    op = query.operator()
    watermark = 0
    for _ in range(rng.randint(5, 40)):
        batch = [
            {"ts": rng.randint(max(0, watermark - 30), watermark + 15), "k": rng.choice("ab"), "v": rng.randint(-9, 9)}
            for _ in range(rng.randint(1, 5))
        ]
        given, wanted = list(op.push(batch)), oracle.push(batch)
        if rng.random() < 0.6:
            watermark += rng.randint(0, 12)
            given += list(op.advance(watermark))
            wanted += oracle.advance(watermark)
        if rng.random() < 0.1:
            op = query.operator(restore=op.snapshot())
        expected = Counter(
            (r.key[0] if keyed else None, r.window, r.start, r.end, r.lo, r.hi, r.revision, r.void, *r.values)
            for r in wanted
        )
        assert shown(given) == expected
    assert (op.lanes[0].live.counting is not None) == (function == "sum")


class CountedSum(pn.UserAggregate):
    """A sum that counts the rows it looks at, and those it takes out."""

    commutative = True
    invertible = True
    skip_nulls = False
    looked = 0
    taken = 0

    def lift(self, v: int) -> int:
        type(self).looked += 1
        return v

    def combine(self, a: int, b: int) -> int:
        return a + b

    def invert(self, a: int, b: int) -> int:
        type(self).taken += 1
        return a - b

    def lower(self, a: int) -> int:
        return a


def test_a_late_row_is_an_add_and_an_inverse_per_slice() -> None:
    stream = pn.stream(time="ts", schema=SCHEMA, watermark="manual", lateness=10_000)
    op = stream.window(w=pn.tumbling(pn.rows(100))).agg(total=CountedSum("v")).operator()
    op.push([{"ts": t, "k": "a", "v": t} for t in range(0, 2000, 2)])
    op.advance(2000)
    CountedSum.looked = CountedSum.taken = 0
    updates = op.metrics["updates"]
    given = op.push([{"ts": 1001, "k": "a", "v": 7}]).to_arrow().to_pylist()
    assert [r["window_from"] for r in given] == [500, 600, 700, 800, 900]
    assert given[0]["total"] == sum(range(1000, 1200, 2)) - 1198 + 7
    assert CountedSum.taken == 5  # each of the five slices from its own on gives a row to the next
    assert CountedSum.looked <= 11  # and takes one; the last one begins a slice
    assert op.metrics["updates"] - updates == 5
    assert op.metrics["splits"] == op.metrics["merges"] == 0


class CountedMax(pn.UserAggregate):
    """A maximum that counts the rows it looks at."""

    commutative = True
    looked = 0

    def lift(self, v: int) -> int:
        type(self).looked += 1
        return v

    def combine(self, a: int, b: int) -> int:
        return max(a, b)

    def lower(self, a: int) -> int:
        return a


def test_without_an_inverse_only_rows_of_windows_that_change_are_looked_at() -> None:
    stream = pn.stream(time="ts", schema=SCHEMA, watermark="manual", lateness=10_000)
    op = stream.window(w=pn.tumbling(pn.rows(100))).agg(most=CountedMax("v")).operator()
    op.push([{"ts": t, "k": "a", "v": t} for t in range(0, 4000, 2)])
    op.advance(4000)
    CountedMax.looked = 0
    given = op.push([{"ts": 3501, "k": "a", "v": 7000}]).to_arrow().to_pylist()
    assert [r["most"] for r in given] == [7000, 3796, 3996]
    assert CountedMax.looked == 301  # of 2,001 that are kept


def test_slices_of_the_past_are_forgotten_when_no_row_can_be_that_late() -> None:
    stream = pn.stream(time="ts", schema=SCHEMA, watermark=0, lateness=100)
    op = stream.window(w=pn.tumbling(pn.rows(5))).agg(total="sum(v)").operator()
    held = []
    for first in range(0, 5000, 50):
        op.push([{"ts": t, "k": "a", "v": 1} for t in range(first, first + 50)])
        op.push([{"ts": first, "k": "a", "v": 1}])
        held.append(op.metrics["slices"])
    assert max(held) <= 2 * 200 // 5
    op.add("more", pn.tumbling(pn.rows(3)))
    assert op.metrics["slices"] <= 2


def test_a_window_of_nulls_alone_is_null_again() -> None:
    class Sum(CountedSum):
        skip_nulls = True

    stream = pn.stream(time="ts", schema=SCHEMA, watermark="manual", lateness=100)
    query = stream.window(w=pn.tumbling(pn.rows(2))).agg(own=Sum("v"), built_in="sum(v)")
    op = query.operator()
    op.push([{"ts": 2, "k": "a", "v": None}, {"ts": 3, "k": "a", "v": 5}])
    op.advance(10)
    (given,) = op.push([{"ts": 1, "k": "a", "v": None}])
    assert (given["own"], given["built_in"]) == (None, None)


def test_without_an_inverse_the_rows_are_looked_at_again() -> None:
    stream = pn.stream(time="ts", schema=SCHEMA, watermark="manual", lateness=10_000)
    op = stream.window(w=pn.tumbling(pn.rows(100))).agg(most="max(v)").operator()
    op.push([{"ts": t, "k": "a", "v": t} for t in range(0, 2000, 2)])
    op.advance(2000)
    given = op.push([{"ts": 1001, "k": "a", "v": 7000}]).to_arrow().to_pylist()
    assert [r["most"] for r in given] == [7000, 1396, 1596, 1796, 1996]
    assert op.metrics["splits"] == op.metrics["merges"] == 0
    assert op.lanes[0].live.counting is None


@pytest.mark.parametrize(
    ("before", "after", "position", "total", "found"),
    [
        ([0, 5], [0, 3, 6], 3, 8, (1, 0, 0)),  # a window begins at the row that came
        ([0, 3, 5], [0, 6], 2, 8, (0, 1, 0)),  # the row closed a pause
        ([0, 5, 10], [0, 5, 10], 2, 12, (0, 0, 2)),  # windows count rows
        ([0, 5, 10], [0, 5, 10, 15], 2, 15, (0, 0, 2)),  # and the last row begins a slice
        ([0, 5], [0, 6], 2, 8, (0, 0, 0)),  # an edge between the same rows
        ([0, 1, 2], [0, 1, 2, 3], 1, 3, (0, 0, 0)),  # every row is a slice
    ],
)
def test_what_a_row_does_to_edges(
    before: list[int], after: list[int], position: int, total: int, found: tuple[int, int, int]
) -> None:
    assert edge_changes(np.array(before), np.array(after), position, total) == found


def test_a_late_punctuation_splits_a_slice() -> None:
    stream = pn.stream(time="ts", schema={"ts": "bigint", "b": "boolean"}, watermark="manual", lateness=100)
    op = stream.window(w=pn.punctuated(begin="b")).agg(n="count(*)").operator()
    op.push([{"ts": t, "b": t in (1, 9)} for t in (1, 3, 7, 9)])
    op.advance(8)
    op.push([{"ts": 5, "b": True}])
    assert (op.metrics["splits"], op.metrics["merges"]) == (1, 0)


def test_sessions_that_grow_together_are_a_merge() -> None:
    op = pn.stream(time="ts", schema=SCHEMA, watermark=20).window(s=pn.session(3)).agg(n="count(*)").operator()
    op.push([{"ts": 0, "k": "a", "v": 1}, {"ts": 6, "k": "a", "v": 1}])
    op.push([{"ts": 3, "k": "a", "v": 1}])
    assert (op.metrics["splits"], op.metrics["merges"], op.metrics["updates"]) == (0, 1, 1)


def test_rows_for_a_slice_that_is_there_are_an_update() -> None:
    op = pn.stream(time="ts", schema=SCHEMA).window(t=pn.tumbling(10)).agg(n="count(*)").operator()
    for batch in ([1, 2], [3, 12], [13]):
        op.push([{"ts": t, "k": "a", "v": 1} for t in batch])
    op.finish()
    assert op.metrics["updates"] == 2
