"""Size and slide on different measures: all nine pairs of event time, rows and a column, by hand and by the oracle."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import panes as pn
from panes.errors import DataError, QueryError
from tests.fuzz.code import window_code
from tests.fuzz.engine import build_window
from tests.oracle.oracle import Oracle

SCHEMA = {"ts": "bigint", "m": "double", "m2": "bigint", "id": "bigint"}
# time, kilometres: the last two rows come at one instant
ROWS = [
    {"ts": t, "m": m, "m2": int(m * 3), "id": i}
    for i, (t, m) in enumerate([(0, 0.0), (1, 1.0), (3, 1.5), (4, 4.0), (4, 4.5), (9, 5.0), (9, 8.0)])
]


def query(window: Any, *, key: str | None = None) -> Any:
    schema = SCHEMA if key is None else {**SCHEMA, key: "string"}
    stream = pn.stream(None, schema=schema, time="ts", key=key)
    return stream.window(w=window).agg(ids=pn.collect_list("id"))


def ids(window: Any) -> list[list[int]]:
    op = query(window).operator()
    return [r["ids"] for out in (op.push(ROWS), op.finish()) for r in out.rows()]


# which measures size and slide are on, the window, and the rows of each of its windows
CASES: list[tuple[str, Any, list[list[int]]]] = [
    ("time, rows", pn.sliding(3, every=pn.rows(2)), [[0, 1], [2, 3], [5]]),
    ("column, rows", pn.sliding(3, on="m", every=pn.rows(2)), [[0, 1], [2, 3], [3, 4, 5]]),
    ("rows, rows", pn.sliding(pn.rows(3), every=pn.rows(2), align="end"), [[0, 1], [1, 2, 3], [3, 4, 5]]),
    ("time, column", pn.sliding(3, every=2, every_on="m"), [[1, 2], [5], [5, 6]]),
    ("column, column", pn.sliding(3, every=4, on="m", align="end"), [[1, 2], [5]]),
    ("rows, column", pn.sliding(pn.rows(2), every=2, on="m"), [[1, 2], [4, 5], [5, 6]]),
    ("time, time", pn.sliding(5, every=4, align="end"), [[0, 1, 2], [2, 3, 4], [5, 6]]),
    ("column, time", pn.sliding(2, on="m", every="4 ms"), [[0, 1, 2], [3, 4], [6]]),
    ("rows, time", pn.sliding(pn.rows(2), every=4), [[1, 2], [3, 4], [5, 6]]),
    ("two columns", pn.sliding(3, on="m2", every=2, every_on="m"), [[1, 2], [4, 5], [6]]),
    ("half of a whole number", pn.sliding(2.5, on="m2", every=pn.rows(3)), [[1, 2], [4, 5]]),
    ("partial", pn.sliding(3, every=pn.rows(2), partial=True), [[0, 1], [2, 3], [5], [5, 6]]),
    ("partial rows", pn.sliding(pn.rows(2), every=pn.rows(3), align="end", partial=True), [[1, 2], [4, 5], [5, 6]]),
    ("partial tumbling", pn.tumbling(pn.rows(3), partial=True), [[0, 1, 2], [3, 4, 5], [6]]),
    # SPEC
    ("last 3 every 1", pn.sliding(pn.rows(3), every=pn.rows(1), align="end"),
     [[0], [0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 6]]),
    ("last 2 every 2", pn.tumbling(pn.rows(2)), [[0, 1], [2, 3], [4, 5]]),
    ("last 2 every 4", pn.sliding(pn.rows(2), every=pn.rows(4), align="end"), [[2, 3]]),
]  # fmt: skip


@pytest.mark.parametrize(("window", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_windows_on_two_measures_hold_the_rows_worked_out_by_hand(window: Any, expected: list[list[int]]) -> None:
    assert ids(window) == expected


def test_bounds_say_where_a_window_lies() -> None:
    """Times of the size if it is time, else the first row's time and the tick; positions always."""
    names = ("window_start", "window_end", "window_from", "window_to")

    def bounds(window: Any) -> list[Any]:
        op = query(window).operator()
        return [tuple(r[n] for n in names) for r in op.push(ROWS).rows()]

    assert bounds(pn.sliding(3, every=pn.rows(3))) == [(1, 4, 1, 3), (7, 10, 5, 6)]
    assert bounds(pn.sliding(2, on="m", every="4 ms")) == [(0, 4, 0, 3), (4, 8, 3, 5)]
    assert bounds(pn.sliding(pn.rows(2), every=pn.rows(3), align="end")) == [(1, None, 1, 3), (4, None, 4, 6)]


def test_ten_tenths_are_one() -> None:
    """Values of floats are compared to as many digits as sizes have: 0.2 is not above 0.3 - 0.1."""
    rows = [{"ts": i, "m": round(i * 0.1, 1), "m2": 0, "id": i} for i in range(20)]
    op = query(pn.sliding(0.1, on="m", every=pn.rows(1))).operator()
    assert [r["ids"] for r in op.push(rows).rows()] == [[i] for i in range(20)]


#: all pairs of measures, and the other new kinds, as the oracle reads them
SPECS = [
    *(
        ("mixed", a, 7, b, 3, partial)
        for a in ("time", "rows", "m", "m2")
        for b in ("time", "rows", "m", "m2")
        if a != b or a == "rows"
        for partial in ((False, True) if b == "rows" else (False,))
    ),
    ("ticking", "rows", 7, "time", 3),
    ("ticking", "m", 2, "time", 2),
    ("per_instant", "rows", 5, 3, True),
    ("per_instant", "time", 5, 2, False),
    ("first_row", 6, 4),
    ("whole_and_rest", 7),
    ("on_change", "sliding", 9, 2, 0),
    ("on_change", "first_row", 8, 1),
]


def long_stream(seed: int) -> list[dict[str, Any]]:
    rng = Random(seed)
    rows, now, km = [], 0, 0.0
    for i in range(700):
        now += rng.choice((0, 0, 1, 1, 2, 9))
        km += rng.choice((0.0, 0.5, 0.5, 2.0))
        rows.append({"ts": now, "m": km, "m2": int(km // 2), "id": i, "k": rng.choice("ABC")})
    return rows


@pytest.mark.parametrize("spec", SPECS, ids=window_code)
def test_batches_of_any_size_and_snapshots_give_what_the_oracle_gives(spec: Any) -> None:
    """Long batches too: slices are forgotten while such a batch is worked on."""
    rows = long_stream(1)
    oracle = Oracle({"w": spec}, [("collect_list", "id")], keys=["k"])
    expected = sorted(
        (r.key[0], r.start, r.end, r.lo, r.hi, *r.values) for r in [*oracle.push(rows), *oracle.finish()]
    )  # fmt: skip
    assert len(expected) > 20
    running = query(build_window(spec), key="k")
    for size, restarts in ((1, False), (97, True), (700, False)):
        op = running.operator()
        found = []
        for at in range(0, len(rows), size):
            found += op.push(rows[at : at + size]).rows()
            if restarts:
                parts = [op.snapshot(key_groups=range(50)), op.snapshot(key_groups=range(50, 128))]
                op = running.operator(restore=parts)
        found += op.finish().rows()
        names = ("k", "window_start", "window_end", "window_from", "window_to", "ids")
        assert sorted(tuple(r.get(n) for n in names) for r in found) == expected, size


def test_snapshots_with_several_columns_keep_them_apart() -> None:
    stream = pn.stream(None, schema={"ts": "bigint", "z": "double", "a": "bigint"}, time="ts")
    running = stream.window(z=pn.tumbling(2, on="z"), a=pn.tumbling(2, on="a")).agg(n="count(*)")
    op = running.operator()
    op.push([{"ts": 0, "z": 0.5, "a": 40}])
    op = running.operator(restore=op.snapshot())
    results = [*op.push([{"ts": 1, "z": 1.0, "a": 41}]).rows(), *op.finish().rows()]
    assert sorted((r["window"], r["window_from"], r["n"]) for r in results) == [("a", 40, 2), ("z", 0, 2)]
    assert len(op.late) == 0


def test_explain_names_both_measures() -> None:
    text = str(query(pn.sliding(3, on="m", every=pn.rows(2))).explain())
    assert "on m, ends on row count" in text


def test_a_running_operator_needs_columns_that_it_knows() -> None:
    op = query(pn.sliding(pn.rows(2), every=2, on="m")).operator()
    op.push(ROWS[:2])
    with pytest.raises(pn.errors.QueryError, match="on the column 'm2', which no window"):
        op.add("more", pn.sliding(2, on="m2", every=pn.rows(2)))
    with pytest.raises(pn.errors.QueryError, match="since the first row, which no window"):
        op.add("more", pn.tumbling(5, offset="first row"))
    op.add("more", pn.sliding(2, every=pn.rows(1)))
    results = [r for r in op.push(ROWS[2:]).rows() if r["window"] == "more"]
    # the first row after it was added lies 2 after the one before, and so on
    assert [r["ids"] for r in results] == [[2], [2, 3], [2, 3, 4], [5], [5, 6]]


def at_every_tick(window: Any, batches: list[list[dict[str, Any]]], **options: Any) -> list[list[Any]]:
    op = pn.stream(batches[0], time="ts", watermark="0 ms", **options).window(w=window).agg(ids="collect_list(id)")
    running = op.operator()
    given = [running.push(batch) for batch in batches] + [running.finish()]
    return [[(*(r[n] for n in options.get("key", ())), r["window_end"], r["ids"]) for r in g.rows()] for g in given]


def test_unchanged_ticks_are_given_up_to_the_watermark_and_then_to_the_last_row() -> None:
    batches = [[{"ts": 1, "id": 1}], [{"ts": 12, "id": 2}]]
    every = pn.sliding(pn.rows(2), every="5 ms", unchanged=True)
    assert at_every_tick(every, batches) == [[], [(5, [1]), (10, [1])], [(15, [1, 2])]]
    assert at_every_tick(pn.sliding(pn.rows(2), every="5 ms"), batches) == [[], [(5, [1])], [(15, [1, 2])]]


def test_unchanged_ticks_of_a_key_go_as_far_as_the_last_row_of_any() -> None:
    batches = [[{"ts": 1, "id": 1, "k": "a"}, {"ts": 3, "id": 2, "k": "b"}, {"ts": 11, "id": 3, "k": "b"}]]
    every = pn.sliding(pn.rows(2), every="5 ms", unchanged=True)
    pushed, end = at_every_tick(every, batches, key=["k"])
    assert sorted(pushed) == [("a", 5, [1]), ("a", 10, [1]), ("b", 5, [2]), ("b", 10, [2])]
    assert sorted(end) == [("a", 15, [1]), ("b", 15, [2, 3])]


def test_too_many_unchanged_ticks_are_refused_by_name() -> None:
    batches = [[{"ts": 1, "id": 1}], [{"ts": 10**12, "id": 2}]]
    with pytest.raises(DataError, match="unchanged=True would give more than 50000000 windows"):
        at_every_tick(pn.sliding(pn.rows(2), every="5 ms", unchanged=True), batches)


def test_late_rows_correct_unchanged_ticks() -> None:
    rows = [{"ts": 1, "id": 1}, {"ts": 12, "id": 2}, {"ts": 7, "id": 3}]
    window = pn.sliding(pn.rows(1), every="5 ms", unchanged=True)
    query = pn.stream(rows, time="ts", watermark="0 ms", lateness="1 s").window(w=window).agg(ids="collect_list(id)")
    found = sorted((r["window_end"], r["window_start"], r["revision"], r["ids"]) for r in query.rows())
    # what was [1, 10) at 10 is [7, 10) after the late row: one is withdrawn, and one is new
    assert found == [(5, 1, 0, [1]), (10, 1, 0, [1]), (10, 1, 1, None), (10, 7, 0, [3]), (15, 12, 0, [2])]


def test_unchanged_ticks_on_a_column_of_a_stream_with_lateness_are_refused() -> None:
    stream = pn.stream([{"ts": 1, "m": 1}], time="ts", lateness="1 s")
    with pytest.raises(QueryError, match="say unchanged=False"):
        stream.window(pn.sliding(pn.rows(1), every=5, on="m", unchanged=True)).agg(n="count(*)")
