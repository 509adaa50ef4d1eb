"""Cumulate, landmark and fixed windows against their definitions."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone

import pytest

from panes.errors import QueryError
from panes.units import TimeDomain, rows
from panes.windows import cumulate, fixed, fixed_band, landmark
from panes.windows.base import ALWAYS, NEVER, ROWS, ContextFree

MS = TimeDomain("ms", integer=True)
FAR = 400


def check(window: ContextFree, windows: list[tuple[float, float]], rng: random.Random, all_of: bool = True) -> None:
    """Compare the protocol with the plain list of all windows near 0."""
    order = sorted(windows, key=lambda w: (w[1], w[0]))
    for _ in range(40):
        lo = rng.randint(-100, 100)
        hi = lo + rng.randint(0, 60)
        due = [w for w in order if lo < w[1] <= hi]
        assert list(zip(*(a.tolist() for a in window.ending(lo, hi)), strict=True)) == due
        assert window.edges(lo, hi).tolist() == sorted({e for w in windows for e in w if lo < e <= hi})
        held = [w for w in order if w[0] <= lo < w[1] and (all_of or w[1] <= lo + window.reach)]
        assert list(zip(*(a.tolist() for a in window.containing(lo)), strict=True)) == held
        later = [w[0] for w in windows if w[1] > lo]
        assert window.horizon(lo) == (min(later) if later else NEVER)


@pytest.mark.parametrize("seed", range(30))
def test_cumulating_windows_grow_by_their_step(seed: int) -> None:
    rng = random.Random(seed)
    step, times, on_rows = rng.randint(1, 7), rng.randint(1, 6), rng.random() < 0.4
    size, offset = step * times, rng.randint(1, 9)
    if on_rows:
        window = cumulate(rows(step), max=rows(size), offset=rows(offset)).bind(MS)
        assert window.measure == ROWS
    else:
        window = cumulate(step, max=size, offset=offset).bind(MS)
    first = offset % size
    windows = [(first + k * size, first + k * size + i * step) for k in range(-FAR, FAR) for i in range(1, times + 1)]
    check(window, [w for w in windows if w[0] >= 0 or not on_rows], rng)


def test_cumulate_with_exact_decimals() -> None:
    window = cumulate(0.1, max=0.3, on="km").bind(MS)
    assert window.ending(0, 0.6)[0].tolist() == [0, 0, 0, 0.3, 0.3, 0.3]
    assert window.ending(0, 0.6)[1].tolist() == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]


@pytest.mark.parametrize("seed", range(30))
def test_landmark_windows_end_at_every_step(seed: int) -> None:
    rng = random.Random(seed)
    start, every = rng.randint(-50, 50), rng.randint(1, 12)
    window = landmark(start, every=every).bind(MS)
    assert window.fresh == every
    check(window, [(start, start + i * every) for i in range(1, FAR)], rng, all_of=False)


def test_landmark_of_q33() -> None:
    hours = TimeDomain("s")
    window = landmark("2015-01-01T01:00", every="1 hour").bind(hours)
    starts, ends = window.ending(hours.point("2015-01-01"), hours.point("2015-01-01T04:00"))
    assert [hours.to_datetime(e).hour for e in ends.tolist()] == [2, 3, 4]
    assert {hours.to_datetime(s).hour for s in starts.tolist()} == {1}


@pytest.mark.parametrize("seed", range(20))
def test_a_fixed_window_is_one_stretch(seed: int) -> None:
    rng = random.Random(seed)
    start = rng.randint(-50, 50)
    end = start + rng.randint(1, 60)
    check(fixed(start, end).bind(MS), [(start, end)], rng)
    assert fixed_band(start, size=end - start).bind(MS) == fixed(start, end).bind(MS)


def test_points_may_be_written_in_many_ways() -> None:
    us = TimeDomain("us")
    same = [
        "2015-01-01T12:00Z",
        "2015-01-01 13:00:00+01:00",
        datetime(2015, 1, 1, 12),
        datetime(2015, 1, 1, 14, tzinfo=timezone(timedelta(hours=2))),
        1420113600000000,
    ]
    assert len({fixed_band(s, size="2 hours").bind(us) for s in same}) == 1


def test_anchored_windows_end_at_the_largest_time() -> None:
    for window in (landmark(0, every=100).bind(MS), cumulate(10, max=100).bind(MS)):
        assert window.horizon(NEVER) == NEVER
        assert window.ending(NEVER - 150, NEVER)[1].tolist()[-1] == NEVER - 1
        starts, ends = window.containing(NEVER - 3)
        assert (starts <= NEVER - 3).all()
        assert ends.tolist() == [NEVER - 1]
    assert cumulate(10, max=100).bind(MS).horizon(ALWAYS) == ALWAYS + 1
    with pytest.raises(QueryError, match="out of the range"):
        fixed_band(2**62, size=2**62).bind(MS)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cumulate(4, max=10).bind(MS), "multiple of step=4"),
        (lambda: cumulate("1 s", max=rows(3)).bind(MS), "one measure"),
        (lambda: cumulate("0 s", max="1 s"), "step='0 s' must be positive"),
        (lambda: landmark("yesterday", every="1 s"), "no ISO date"),
        (lambda: landmark("2024-02-30", every="1 s"), "no valid date"),
        (lambda: landmark(None, every="1 s"), "start=None is not a point"),
        (lambda: landmark("2024-02-03T00:00:00.5", every="1 s").bind(TimeDomain("s")), "between two ticks"),
        (lambda: landmark(-1, every=rows(3)).bind(MS), "must be a position"),
        (lambda: fixed(5, 5).bind(MS), "must lie after"),
        (lambda: fixed(10**30, 10**31).bind(MS), "out of the range"),
        (lambda: fixed(-(2**62), 2**62).bind(MS), "too far from start"),
        (lambda: fixed("2024-01-01", "2024-01-02", on="km").bind(MS), "must be a number"),
    ],
)
def test_misuse_of_anchored_windows_is_refused(make, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        make()


@pytest.mark.parametrize(
    "text",
    [
        'cumulate("1 hour", max="1 day")',
        'landmark("2024-01-01", every="1 hour")',
        "landmark(100, every=rows(5))",
        'fixed(1.5, 2, on="km")',
        'fixed_band("2024-01-01", size="2 hours")',
    ],
)
def test_repr_is_code(text: str) -> None:
    names = {
        "cumulate": cumulate,
        "landmark": landmark,
        "fixed": fixed,
        "fixed_band": fixed_band,
        "rows": rows,
    }
    assert repr(eval(text, names)) == text
