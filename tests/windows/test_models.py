"""The execution models of stream engines (SPEC Q-40..Q-44), with the numbers printed there.

Tuple-driven is how windows are by themselves. Time-driven engines look at a window once per instant
(`once_per_instant`), count their periods from the first row (`offset="first row"`) and speak only when the
content has changed (`on_change`).
"""

from __future__ import annotations

from typing import Any

import pytest

import panes as pn
from panes.units import TimeDomain
from panes.windows.codec import window_from_json, window_to_json

Pairs = list[tuple[int, int]]

# (time, value)
BASIC: Pairs = [(1, 1), (2, 10), (2, 20), (3, 100)]
CONSTRUCTION: Pairs = [(10 + i, 10 * (i + 1)) for i in range(7)]
EVALUATION: Pairs = [(30, 10), (31, 20), (36, 30)]
GRANULARITY: Pairs = [(10, 10), (10, 20), (11, 30), (12, 40), (12, 50), (12, 60), (12, 70), (13, 80)]

ONE_ROW = pn.tumbling(pn.rows(1))
SIZE_5 = pn.sliding(5, every=1)

# what is given while rows come, and what the end of the stream adds
CASES: list[tuple[str, Pairs, Any, list[float], list[float]]] = [
    ("Q-41 tuple", BASIC, ONE_ROW, [1, 10, 20, 100], []),
    ("Q-41 time", BASIC, pn.once_per_instant(ONE_ROW), [1, 20], [100]),
    ("Q-42 Flink", CONSTRUCTION, pn.tumbling(3), [15, 40], [65]),
    ("Q-42 Flink, first end after 12", CONSTRUCTION, pn.tumbling(3, offset=1), [20, 50], [70]),
    ("Q-42 Oracle", CONSTRUCTION, pn.tumbling(3, offset="first row"), [20, 50], [70]),
    ("Q-43 Flink", EVALUATION, SIZE_5, [10, 15, 15, 15, 15, 20], [30] * 5),
    ("Q-43 Oracle, Coral8", EVALUATION, pn.on_change(SIZE_5), [10, 15, 20], [30]),
    ("Q-44 Flink, Coral8", GRANULARITY, ONE_ROW, [10, 20, 30, 40, 50, 60, 70, 80], []),
    ("Q-44 Oracle", GRANULARITY, pn.once_per_instant(ONE_ROW), [20, 30, 70], [80]),
]
NAMES = [case[0] for case in CASES]


def query(window: Any, **options: Any) -> Any:
    schema = {"t": "bigint", "value": "double", "k": "string"}
    return pn.stream(None, schema=schema, time="t", **options).window(w=window).agg(avg="avg(value)")


def rows(pairs: Pairs, key: str = "a") -> list[dict[str, Any]]:
    return [{"t": t, "value": float(v), "k": key} for t, v in pairs]


def averages(out: Any) -> list[float]:
    return [r["avg"] for r in out.rows()]


@pytest.mark.parametrize(("pairs", "window", "expected", "at_end"), [c[1:] for c in CASES], ids=NAMES)
@pytest.mark.parametrize("size", [1, 2, 100])
def test_numbers_of_the_source(
    pairs: Pairs, window: Any, expected: list[float], at_end: list[float], size: int
) -> None:
    op = query(window).operator()
    batches = [rows(pairs)[i : i + size] for i in range(0, len(pairs), size)]
    assert [a for batch in batches for a in averages(op.push(batch))] == expected
    assert averages(op.finish()) == at_end


@pytest.mark.parametrize(("pairs", "window", "expected", "at_end"), [c[1:] for c in CASES], ids=NAMES)
def test_every_key_by_itself_out_of_order_and_across_snapshots(
    pairs: Pairs, window: Any, expected: list[float], at_end: list[float]
) -> None:
    """A second key has the same windows from its own first row on; instants come in reverse."""
    running = query(window, key="k", watermark=5000)
    shift = 1000 if "first row" in repr(window) else 999  # a multiple of the slide only where it must be
    mixed = [*rows([(t + shift, v) for t, v in pairs], "b"), *rows(pairs)]
    instants = sorted({r["t"] for r in mixed}, reverse=True)
    op = running.operator()
    for instant in instants:
        op.push([r for r in mixed if r["t"] == instant])
        op = running.operator(restore=op.snapshot(), trusted=True)
    found = list(op.finish().rows())
    assert [r["avg"] for r in found if r["k"] == "a"] == expected + at_end
    assert [r["avg"] for r in found if r["k"] == "b"] == expected + at_end


def test_a_late_row_before_the_first_moves_all_windows() -> None:
    op = query(pn.tumbling(3, offset="first row"), lateness=20).operator()
    op.push(rows([(10, 10), (11, 20), (14, 30)]))
    corrected = [(r["window_start"], r["avg"], r["revision"], r["void"]) for r in op.push(rows([(9, 40)])).rows()]
    assert sorted(corrected) == [(9, 70 / 3, 0, False), (10, None, 1, True)]


def test_a_late_row_can_make_a_window_the_same_as_the_one_before() -> None:
    """Windows [30, 35) and [31, 36) had the same rows until row 30 came."""
    op = query(pn.on_change(SIZE_5), lateness=20).operator()
    given = averages(op.push(rows([(31, 20), (37, 30)])))
    assert given == [20]
    corrected = [(r["window_end"], r["avg"], r["void"]) for r in op.push(rows([(30, 10)])).rows()]
    assert sorted(corrected, key=lambda r: r[0]) == [(31, 10, False), (32, 15, False), (36, 20, False)]


def test_an_empty_window_is_a_change_where_empty_ones_are_wanted() -> None:
    stream = pn.stream(None, schema={"t": "bigint"}, time="t")
    running = stream.window(w=pn.on_change(pn.tumbling(2)), emit_empty=True).agg(n="count(*)")
    out = running.operator().push([{"t": 0}, {"t": 9}, {"t": 10}])
    assert [(r["window_start"], r["n"]) for r in out.rows()] == [(0, 1), (2, 0), (8, 1)]


def test_once_per_instant_with_larger_slides() -> None:
    """Rows 2, 4 and 6 are due; 4 and 5 come at one instant, so the window there ends with 5."""
    pairs = [(1, 1), (2, 2), (3, 3), (4, 4), (4, 5), (5, 6), (6, 7)]
    window = pn.once_per_instant(pn.sliding(pn.rows(2), every=pn.rows(2), align="end", partial=True))
    op = query(window).operator()
    assert averages(op.push(rows(pairs))) == [1.5, 4.5, 5.5]
    assert averages(op.finish()) == [6.5]


@pytest.mark.parametrize(("items", "expected"), [("group by", [20, 35, 40]), ("partitioned by", [15, 35, 50])])
def test_the_end_of_the_stream_ends_a_count(items: str, expected: list[float]) -> None:
    """SPEC Q-17: windows of 2 per key, or of the whole stream."""
    data = [{"t": i, "k": k, "value": float(v)} for i, (k, v) in enumerate(zip("ABAAB", (10, 20, 30, 40, 50)))]
    running = query(pn.tumbling(pn.rows(2), partial=True), key="k" if items == "group by" else None)
    op = running.operator()
    assert sorted([*averages(op.push(data)), *averages(op.finish())]) == expected


@pytest.mark.parametrize("window", [c[2] for c in CASES], ids=NAMES)
def test_specs_can_be_written_and_read(window: Any) -> None:
    assert window_from_json(window_to_json(window)) == window
    assert eval(repr(window), {**vars(pn.windows), "rows": pn.rows}) == window
    assert isinstance(hash(window), int)


def test_windows_given_on_change_are_not_left_to_spark_alone() -> None:
    """Spark's own aggregation doesn't know which window came before."""
    columns = pytest.importorskip("panes.runners.spark.columns")
    native = pytest.importorskip("panes.runners.spark.strategies.native_windows")
    domain = TimeDomain("ms", integer=True)
    native.Ends.of(0, SIZE_5.bind(domain), native.Scale(1, 1))
    for window in (pn.on_change(SIZE_5), pn.tumbling(3, offset="first row"), pn.once_per_instant(ONE_ROW)):
        with pytest.raises(columns.NoColumn):
            native.Ends.of(0, window.bind(domain), native.Scale(1, 1))
