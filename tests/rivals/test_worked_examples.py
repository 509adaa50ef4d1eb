"""Worked examples and cost formulas of the literature, as SPEC groups S and W give them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench.rivals import (
    FUNCTIONS,
    AggregateBuckets,
    AggregateTree,
    Cutty,
    Marked,
    Pairs,
    Panes,
    Periodic,
    Rival,
    TupleBuckets,
    TupleBuffer,
)
from bench.rivals.base import Results, WindowSet
from bench.rivals.pairs import pair
from bench.rivals.panes import pane_length

SUM = FUNCTIONS["sum"]
TWO_UDWS = [Periodic(4, 2, "rows"), Periodic(5, 3, "rows")]


def feed_one_by_one(rival: Rival, rows: int) -> list[Results]:
    """Records 0..rows-1 with their own number as time and value; what each advance gave."""
    given = []
    for i in range(rows):
        rival.push(np.array([i]), np.array([float(i)]))
        given.append(rival.advance(i))
    return given


def test_markers_of_user_windows_are_those_of_the_example() -> None:
    windows = WindowSet(TWO_UDWS)
    query, start, end = windows.ending(0, 100, latest=12)
    order = np.lexsort((query, start))  # window ids follow the records, then the queries
    begins: dict[int, list[int]] = {}
    ends: dict[int, list[int]] = {}
    for number, window in enumerate(order.tolist(), start=1):
        begins.setdefault(int(start[window]), []).append(number)
        ends.setdefault(int(end[window]), []).append(number)
    assert begins == {0: [1, 2], 2: [3], 3: [4], 4: [5], 6: [6, 7], 8: [8], 9: [9], 10: [10], 12: [11, 12]}
    assert {k: v for k, v in ends.items() if k <= 12} == {
        4: [1], 5: [2], 6: [3], 8: [4, 5], 10: [6], 11: [7], 12: [8],
    }  # fmt: skip


@pytest.mark.parametrize("eager", [False, True])
def test_w09_sums_and_stored_partials(eager: bool) -> None:
    rival = Cutty(TWO_UDWS, SUM, eager=eager)
    stored = []
    given = []
    for i in range(13):
        rival.push(np.array([i]), np.array([float(i)]))
        given.append(rival.advance(i))
        stored.append(len(rival.store))
    rows = Results.concat(given).rows()
    of_a = [v for q, _, _, v in rows if q == 0]
    of_b = [v for q, _, _, v in rows if q == 1]
    assert of_a[:5] == [6, 14, 22, 30, 38]  # w1, w3, w5, w6, w8
    assert of_b[:3] == [10, 25, 40]  # w2, w4, w7
    assert max(stored) <= 3


def test_slices_have_the_lengths_of_the_example() -> None:
    assert pane_length([Periodic(9, 6)]) == 3
    assert pane_length([Periodic(10, 3)]) == 1
    assert pair(Periodic(10, 3)) == (2, 1)
    assert pair(Periodic(9, 6)) == (3, 3)
    assert pair(Periodic(6, 3)) == (3,)


@pytest.mark.parametrize(("technique", "slices"), [(Panes, 10), (Pairs, 7), (Cutty, 4)])
def test_w12a_slices_per_window(technique: type[Rival], slices: int) -> None:
    """In the steady state: the first windows of pairs have no ends of older windows inside them."""
    rival = technique([Periodic(10, 3, "rows")], SUM)
    merges = []
    for i in range(300):
        before = rival.counters.merge
        rival.push(np.array([i]), np.ones(1))
        if len(rival.advance(i)):
            merges.append(rival.counters.merge - before)
    assert len(merges) == 97
    assert set(merges[3:]) == {slices}


@pytest.mark.parametrize(("size", "slide"), [(10, 3), (9, 6), (12, 4), (5, 9), (30, 1), (29, 7), (7, 7)])
def test_w13_stored_slices_are_bounded_by_active_windows(size: int, slide: int) -> None:
    """For windows that end in the order in which they begin: those of one query."""
    cutty, pairs = (technique([Periodic(size, slide, "rows")], SUM) for technique in (Cutty, Pairs))
    for i in range(200):
        for rival in (cutty, pairs):
            rival.push(np.array([i]), np.ones(1))
            rival.advance(i)
        active = len(cutty.windows.ending(i + 1, 10**6, latest=i)[0])
        assert len(cutty.store) <= active
        assert len(pairs.store) <= 2 * active


def test_w14_higher_order_partials() -> None:
    windows = Marked(starts=(0, 0, 2, 5, 7), ends=(5, 6, 8, 11, 12))  # s[1,5], s[1,6], s[3,8], ...
    rival = Cutty([windows], SUM)
    given = [r.rows() for r in feed_one_by_one(rival, 8)]
    assert given[4] == [(0, 0, 5, 10.0)]
    assert given[5] == [(0, 0, 6, 15.0)]
    assert given[7] == [(0, 2, 8, 27.0)]
    # s[1,5] = [1,2] + [3,5]; s[1,6] = [1,2] + [3,5] + [6,6]; s[3,8] = [3,5] + [6,7] + [8,8]
    assert rival.counters.merge == 2 + 3 + 3
    assert rival.starts.tolist() == [5]  # what is left for s[6,11]; the slice from s8 is open
    assert rival.open_start == 7


def test_w15_measures_share_slices_through_records() -> None:
    """Vehicle reports: 10 s every 6 s and 10 km every 5 km, both as begins and ends at records."""
    rng = np.random.default_rng(3)
    seconds = np.cumsum(rng.integers(1, 4, 60))
    km = np.cumsum(rng.integers(0, 3, 60))
    queries = [_at_records(seconds, size=10, slide=6), _at_records(km, size=10, slide=5)]
    rival = Cutty(queries, SUM)
    values = rng.integers(0, 50, 60).astype(float)
    rival.push(np.arange(60), values)
    got = Results.concat([rival.advance(59), rival.finish()]).rows()
    want = [(q, a, b, values[a:b].sum()) for q, m in enumerate(queries) for a, b in zip(m.starts, m.ends) if a < b]
    assert got == sorted(want)


def _at_records(measure: np.ndarray, *, size: int, slide: int) -> Marked:
    starts = np.arange(0, int(measure[-1]) - size, slide)
    return Marked(
        tuple(np.searchsorted(measure, starts).tolist()),
        tuple(np.searchsorted(measure, starts + size).tolist()),
    )


# SPEC W-16, lazy stores: partials kept, and entries read per window.
LAZY_COSTS = {
    Cutty: lambda r, s: (math.ceil(r / s) + 1, math.ceil(r / s) + 1),
    Pairs: lambda r, s: (math.ceil(2 * r / s), math.ceil(2 * r / s)),
    Panes: lambda r, s: (r // math.gcd(r, s), r // math.gcd(r, s)),
}


@pytest.mark.parametrize(("size", "slide"), [(10, 3), (9, 6), (12, 4), (100, 7), (64, 1), (30, 30)])
@pytest.mark.parametrize("technique", LAZY_COSTS)
def test_lazy_aggregation_costs_no_more_than_the_formula(technique: type[Rival], size: int, slide: int) -> None:
    rival = technique([Periodic(size, slide, "rows")], SUM)
    rows = 6 * size
    windows = sum(len(r) for r in feed_one_by_one(rival, rows))
    space, lookup = LAZY_COSTS[technique](size, slide)
    assert rival.counters.max_partials <= space
    assert rival.counters.merge <= lookup * windows
    assert rival.counters.update == rows  # one combine per row


@pytest.mark.parametrize(("size", "slide"), [(100, 7), (64, 1), (256, 16)])
@pytest.mark.parametrize(("technique", "factor"), [(Cutty, 1), (Pairs, 2)])
def test_eager_aggregation_costs_no_more_than_the_formula(
    technique: type[Rival], factor: int, size: int, slide: int
) -> None:
    rival = technique([Periodic(size, slide, "rows")], SUM, eager=True)
    rows = 8 * size
    windows = sum(len(r) for r in feed_one_by_one(rival, rows))
    depth = (
        math.log2(factor * math.ceil(size / slide)) + 2
    )  # the array is the next power of two, filled to a third at least
    assert rival.counters.merge <= (2 * depth + 1) * windows
    # A slice costs its path when it is added and again when it leaves.
    assert rival.counters.update <= rows * (1 + 2 * factor * (depth + 1) / slide)


def test_w16_tree_over_records_costs_log_of_the_range() -> None:
    size = 256
    rival = AggregateTree([Periodic(size, 16, "rows")], SUM, each=True)
    feed_one_by_one(rival, 4 * size)
    assert math.log2(size) <= rival.counters.update / (4 * size) <= 3 * math.log2(size)


def test_bytes_held_are_those_of_the_formulas() -> None:
    """Bytes held for n rows in s slices of w open windows, with nothing old enough to leave."""
    rows, size, slide = 400, 1000, 100
    queries = [Periodic(size, slide)]
    times = np.arange(rows)
    held = {}
    for technique in (TupleBuffer, AggregateTree, AggregateBuckets, TupleBuckets, Pairs):
        rival = technique(queries, SUM)
        rival.push(times, np.ones(rows))
        held[technique] = rival.bytes
    row, partial, bucket, start = 16, 8, 24, 8
    windows = [range(s, s + size) for s in range(slide - size, rows, slide)]
    in_windows = sum(len([t for t in times.tolist() if t in w]) for w in windows)
    closed = 3  # slices 0, 100, 200; the one from 300 is open
    assert held[TupleBuffer] == rows * row
    assert held[AggregateTree] == rows * row + (rows - 1) * partial
    assert held[AggregateBuckets] == len(windows) * (partial + bucket)
    assert held[TupleBuckets] == in_windows * row + len(windows) * bucket
    assert held[Pairs] == closed * (partial + start)


def test_s08_time_windows_do_not_grow_with_rows() -> None:
    def held(technique: type[Rival], rows: int) -> int:
        rival = technique([Periodic(1000, 100)], SUM)
        rival.push(np.linspace(0, 5000, rows).astype(np.int64), np.ones(rows))
        rival.advance(5000)
        return rival.bytes

    for technique in (AggregateBuckets, Pairs, Cutty, Panes):
        assert held(technique, 1_000) == held(technique, 20_000)
    for technique in (TupleBuffer, AggregateTree, TupleBuckets):
        assert held(technique, 20_000) > 10 * held(technique, 1_000)


def test_s11_combines_per_row() -> None:
    rival = AggregateBuckets([Periodic(20_000, 2_000)], SUM)
    rival.push(np.arange(0, 100_000, 50), np.ones(2_000))
    assert rival.counters.update == 10 * 2_000


def test_s30_a_late_row_merges_sessions() -> None:
    from bench.rivals import Session

    for technique in (TupleBuffer, AggregateTree, AggregateBuckets):
        rival = technique([Session(10)], SUM, ooo=True)
        rival.push(np.array([1, 5, 20, 25]), np.array([1.0, 5, 20, 25]))
        rival.push(np.array([12]), np.array([12.0]))
        assert rival.advance(35).rows() == []
        assert rival.advance(36).rows() == [(0, 1, 35, 63.0)]
