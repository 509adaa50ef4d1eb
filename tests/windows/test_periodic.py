"""Periodic windows: worked examples, brute force, exact decimals, and the limits of int64."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from panes.errors import DataError, QueryError
from panes.units import TimeDomain, rows
from panes.windows import on_change, once_per_instant, sliding, tumbling
from panes.windows.base import ALWAYS, NEVER, ROWS, TIME, LookBack, Measure
from panes.windows.grid import PeriodicFamily
from panes.windows.periodic import Periodic

MS = TimeDomain("ms", integer=True)
COLUMN = Measure("column", "km")


def brute(window: Periodic, span: int) -> list[tuple[int, int]]:
    """All windows that could touch [-span, span]."""
    reach = (span + window.size) // window.slide + 3
    every = [(window.offset + k * window.slide) for k in range(-reach, reach)]
    windows = [(s, s + window.size) for s in every]
    return [w for w in windows if w[0] >= 0] if window.measure.kind == "rows" else windows


def pairs(answer: tuple[np.ndarray, np.ndarray]) -> list[tuple[int, int]]:
    return list(zip(answer[0].tolist(), answer[1].tolist(), strict=True))


def test_next_edge_of_s28() -> None:
    window = tumbling(5).bind(MS)
    assert [int(window.edges(t, t + 5)[0]) for t in (0, 4, 5, 7)] == [5, 5, 10, 10]


def test_edges_of_s36() -> None:
    window = sliding(10, every=4).bind(MS)
    assert window.edges(-1, 12).tolist() == [0, 2, 4, 6, 8, 10, 12]
    assert sorted({s for s, _ in pairs(window.ending(9, 30))}) == [0, 4, 8, 12, 16, 20]


@pytest.mark.parametrize("seed", range(60))
def test_against_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    measure = rng.choice([TIME, ROWS, COLUMN])
    window = Periodic(measure, size=rng.randint(1, 12), slide=rng.randint(1, 12), offset=rng.randint(0, 11))
    window = Periodic(measure, size=window.size, slide=window.slide, offset=window.offset % window.slide)
    windows = brute(window, 60)
    for _ in range(40):
        lo = rng.randint(-40, 40)
        hi = lo + rng.randint(0, 30)
        due = sorted((w for w in windows if lo < w[1] <= hi), key=lambda w: (w[1], w[0]))
        assert pairs(window.ending(lo, hi)) == due
        edges = sorted({e for w in windows for e in w if lo < e <= hi})
        assert window.edges(lo, hi).tolist() == edges
        held = sorted((w for w in windows if w[0] <= lo < w[1]), key=lambda w: (w[1], w[0]))
        assert pairs(window.containing(lo)) == held
        assert window.horizon(lo) == min(w[0] for w in windows if w[1] > lo)
        assert all(lo < e <= lo + window.reach for _, e in held)


@pytest.mark.parametrize("seed", range(40))
def test_family_equals_its_members(seed: int) -> None:
    rng = random.Random(seed)
    measure = rng.choice([TIME, ROWS, COLUMN])
    scale = rng.choice([1, 1, 0.1]) if measure == COLUMN else 1
    members = [
        Periodic(
            measure,
            size=rng.randint(1, 20) * scale,
            slide=rng.randint(1, 20) * scale,
            offset=rng.randint(0, 30) * scale,
        )
        for _ in range(rng.randint(1, 12))
    ]
    family = PeriodicFamily(members)
    for base in (0, -1000, 2**62 // 10 if scale == 1 else 10**6, 2**63 - 40 if scale == 1 else 0):
        lo = base + rng.randint(-20, 20) * scale
        hi = lo + rng.randint(0, 60) * scale
        edges = np.unique(np.concatenate([m.edges(lo, hi) for m in members]))
        assert family.edges(lo, hi).tolist() == pytest.approx(edges.tolist())
        which, starts, ends = family.ending(lo, hi)
        single = sorted((e, i, s) for i, m in enumerate(members) for s, e in pairs(m.ending(lo, hi)))
        assert list(zip(ends.tolist(), which.tolist(), starts.tolist(), strict=True)) == single
        assert family.horizon(lo) == min(m.horizon(lo) for m in members)


def test_family_on_rows_keeps_edges_that_start_earlier() -> None:
    """Ends from 20 on in steps of 3 don't cover starts at 2, 8, 14."""
    members = [Periodic(ROWS, size=20, slide=3), Periodic(ROWS, size=6, slide=6, offset=2)]
    expected = np.unique(np.concatenate([m.edges(-1, 30) for m in members]))
    assert {2, 8, 14} <= set(expected.tolist())
    assert PeriodicFamily(members).edges(-1, 30).tolist() == expected.tolist()


def test_a_family_of_no_windows_has_no_edges() -> None:
    family = PeriodicFamily([])
    assert len(family.edges(0, 10)) == 0
    assert [len(a) for a in family.ending(0, 10)] == [0, 0, 0]
    assert family.horizon(0) == NEVER


@pytest.mark.parametrize("seed", range(20))
def test_edge_before_is_the_slice_start(seed: int) -> None:
    rng = np.random.default_rng(seed)
    members = [Periodic(TIME, size=int(a), slide=int(b), offset=int(c)) for a, b, c in rng.integers(1, 15, (3, 3))]
    values = rng.integers(-50, 50, 30)
    family = PeriodicFamily(members)
    edges = family.edges(-100, 60)
    expected = edges[np.searchsorted(edges, values, side="right") - 1]
    assert family.edge_before(values).tolist() == expected.tolist()
    one = members[0].edges(-100, 60)
    expected = one[np.searchsorted(one, values, side="right") - 1]
    assert members[0].edge_before(values).tolist() == expected.tolist()


def test_decimals_are_exact() -> None:
    window = sliding(0.3, every=0.1, on="km").bind(MS)
    assert window.edges(0, 1).tolist() == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    assert pairs(window.containing(0.3)) == [(0.1, 0.4), (0.2, 0.5), (0.3, 0.6)]
    assert window.columns == ("km",)
    tumble = tumbling(0.7, on="km").bind(MS)
    starts, ends = tumble.ending(-700, 700)
    assert (starts[1:] == ends[:-1]).all()
    values = np.array([-0.7, -0.1, 0.0, 0.7, 1.4, 2.1, 69.9999999])
    assert tumble.edge_before(values).tolist() == [-0.7, -0.7, 0.0, 0.7, 1.4, 2.1, 69.3]


@pytest.mark.parametrize("value", [math.inf, -math.inf, 1e300, -1e300, math.nan])
def test_values_without_edges_are_in_no_window(value: float) -> None:
    assert len(tumbling(0.5, on="km").bind(MS).containing(value)[0]) == 0
    assert len(tumbling(5, on="km").bind(MS).containing(value)[0]) == 0


def test_windows_at_the_limits_of_int64_hold_their_rows() -> None:
    window = sliding(100, every=40).bind(MS)
    for value in (NEVER - 2, NEVER - 30, ALWAYS + 1, ALWAYS + 30):
        starts, ends = window.containing(value)
        assert len(starts) in (2, 3)
        assert (starts <= value).all()
        assert (ends > value).all()
    assert window.horizon(NEVER) == NEVER
    assert window.horizon(ALWAYS) == ALWAYS + 1
    assert (window.ending(NEVER - 200, NEVER)[1] <= NEVER - 1).all()
    assert window.edges(NEVER - 200, NEVER)[-1] == NEVER - 1
    huge = tumbling(2**62).bind(MS)
    assert pairs(huge.ending(ALWAYS, NEVER)) == [
        (ALWAYS + 1, -(2**62)),
        (-(2**62), 0),
        (0, 2**62),
        (2**62, NEVER - 1),
    ]
    with pytest.raises(DataError, match="too short"):
        tumbling(1).bind(MS).ending(0, 2**40)


BAD = [
    (lambda: tumbling("0 s"), "size='0 s' must be positive"),
    (lambda: tumbling("-1 min"), "must be positive"),
    (lambda: tumbling(-3, on="km"), "size=-3 must be positive"),
    (lambda: tumbling(0), "size=0 must be positive"),
    (lambda: tumbling(math.inf, on="km"), "must be finite"),
    (lambda: tumbling(10**30), "too large"),
    (lambda: tumbling(True), "is not a size"),
    (lambda: tumbling(None), "is not a size"),
    (lambda: sliding("10 s", every="0 s"), "every='0 s' must be positive"),
    (lambda: rows(0), "must be positive"),
    (lambda: rows(2.5), "must be an integer"),
    (lambda: tumbling("10 s", on=3), "on=3 must be a column"),
    (lambda: tumbling("1 day", tz="Mars/Base"), "no known time zone"),
    (lambda: tumbling("10 s", on="km").bind(MS), "must be a number"),
    (lambda: tumbling(rows(3), on="km").bind(MS), "need no column"),
    (lambda: sliding("1 month", every=rows(5)).bind(MS), "varies in length"),
    (lambda: sliding("10 s", every=rows(5), on="km").bind(MS), "must be a number"),
    (lambda: sliding("10 s", every="5 s", every_on="km").bind(MS), "every='5 s' with every_on='km'"),
    (lambda: sliding(rows(3), every=5, on="km", every_on="l").bind(MS), "rows need no column"),
    (lambda: sliding("10 s", every=rows(5), align="middle"), 'must be "start" or "end"'),
    (lambda: sliding("10 s", every="3 s", partial=True).bind(MS), 'needs align="end"'),
    (lambda: sliding("10 s", every="3 s", partial=True, align="end").bind(MS), "for slides in rows"),
    (lambda: sliding(rows(5), every="3 s", partial=True).bind(MS), "for slides in rows"),
    (lambda: tumbling("10 s", partial=True).bind(MS), "for windows on rows"),
    (lambda: tumbling("10 s", offset="first row", partial=True).bind(MS), "for windows on rows"),
    (lambda: tumbling(rows(3), offset="first row").bind(MS), "on event time"),
    (lambda: tumbling("1 month", offset="first row").bind(MS), "of fixed length"),
    (lambda: sliding("10 s", every="3 s", unchanged=True).bind(MS), "on different measures"),
    (lambda: sliding("10 s", every=rows(3), unchanged=True).bind(MS), "on different measures"),
    (lambda: sliding(rows(3), every="3 s", unchanged=1), "must be True or False"),
    (lambda: sliding(rows(3), every="1 s", offset="first row").bind(MS), "on event time as well"),
    (lambda: on_change("1 s"), "takes a window"),
    (lambda: once_per_instant(tumbling("1 s")).bind(MS), "every n-th row"),
    (lambda: once_per_instant(sliding(rows(3), every=rows(2))).bind(MS), "every n-th row"),
    (lambda: tumbling("1 hour", tz="Europe/Berlin").bind(MS), "depend on a time zone"),
    (lambda: tumbling(10).bind(TimeDomain("us")), "has no unit"),
    (lambda: tumbling("100 ms").bind(TimeDomain("s")), "whole number of ticks"),
    (lambda: tumbling("1 us").bind(MS), "whole number of ticks"),
    (lambda: sliding(1e-12, every=1e9, on="km").bind(MS), "differ too much"),
]


@pytest.mark.parametrize(("make", "message"), BAD)
def test_misuse_of_periodic_windows_is_refused(make, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        make()


@pytest.mark.parametrize(
    "text",
    [
        'tumbling("10 s")',
        'tumbling("1 month", tz="Europe/Berlin")',
        'tumbling(5, on="odometer_km")',
        "tumbling(rows(3))",
        'sliding("10 min", every="5 s", offset="1 s")',
        'sliding(rows(10), every="5 s")',
        "sliding(rows(100), every=rows(10))",
        'sliding(rows(2), every=1.5, on="km")',
        'sliding("5 s", every=rows(10))',
        'sliding("5 s", every=2, every_on="km")',
        'sliding(5, every="1 min", on="km")',
        'sliding(5, every=2, on="km", every_on="litres")',
        'sliding(rows(3), every=rows(1), align="end", partial=True)',
        'tumbling("3 s", offset="first row")',
        "tumbling(rows(2), partial=True)",
    ],
)
def test_repr_is_code(text: str) -> None:
    spec = eval(text, {"tumbling": tumbling, "sliding": sliding, "rows": rows})
    assert repr(spec) == text
    assert eval(repr(spec), {"tumbling": tumbling, "sliding": sliding, "rows": rows}) == spec
    assert isinstance(hash(spec), int)


def test_last_rows_every_tick_is_a_count_back() -> None:
    bound = sliding(rows(10), every="5 s").bind(TimeDomain("us"))
    assert isinstance(bound, LookBack)
    assert (bound.measure, bound.back, bound.size) == (TIME, ROWS, 10)
    assert bound.ticks.edges(0, 10**7).tolist() == [5_000_000, 10_000_000]
    on_column = sliding(rows(10), every=5, on="km").bind(TimeDomain("us"))
    assert isinstance(on_column, LookBack)
    assert (on_column.measure, on_column.columns) == (COLUMN, ("km",))


def test_an_offset_moves_every_edge() -> None:
    assert tumbling("10 s", offset="-3 s").bind(TimeDomain("s")).edges(0, 20).tolist() == [7, 17]
    assert tumbling(rows(3), offset=rows(1)).bind(MS).edges(-1, 8).tolist() == [1, 4, 7]


@pytest.mark.parametrize("size", [1 / 3, math.pi, 1e-7, 1.7000000000000002, 123456.789])
def test_any_size_has_consistent_edges_far_out(size: float) -> None:
    window = tumbling(size, on="km").bind(MS)
    for value in (0.0, 1.0, -1.0, 5e3, 1e6, -1e6, size * 7, size * 2**40):
        starts, ends = window.containing(value)
        assert len(starts) == 1
        assert starts[0] <= value < ends[0]
        assert window.edges(starts[0], ends[0]).tolist() == ends.tolist()
        assert pairs(window.ending(value, ends[0])) == pairs((starts, ends))
        assert window.containing(ends[0])[0] == ends[0]
        assert window.horizon(value) == starts[0]
