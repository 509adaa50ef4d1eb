"""Optimisations: counted costs against the formulas of SPEC P-61 and P-62, borders, hopping; results never change."""

from __future__ import annotations

import random
from math import gcd
from typing import Any

import pytest

import panes as pn
from panes.policies.borders import Borders
from panes.policies.live import LiveWindow

p = pn.policies
# size, slide, rows -> windows, borders, entries held, calls before, calls in all, with panes, naive
CHECKS = [
    (6, 2, 20, 8, 11, 3, 10, 26, 26, 40),
    (5, 2, 25, 11, 22, 5, 4, 42, 44, 44),
    (7, 3, 37, 11, 22, 5, 16, 54, 66, 66),
    (10, 3, 100, 31, 62, 7, 39, 213, 279, 279),
    (10, 4, 210, 51, 102, 5, 109, 307, 309, 459),
    (50, 21, 470, 21, 42, 5, 429, 507, 1029, 1029),
]


def formulas(size: int, slide: int, rows: int) -> dict[str, int]:
    k, windows = size // slide, (rows - size) // slide + 1
    even = size % slide == 0
    borders = windows + 1 + (size - slide) // slide if even else 2 * windows
    held = size // slide if even else 2 * k + 1
    before = rows - borders + 1
    total = windows * (held - 1) + before if even else windows * 2 * k + before - k * (k + 1)
    g = gcd(size, slide)
    panes = windows * (size // g - 1) + rows // g * (g - 1)
    return {
        "windows": windows, "borders": borders, "held": held, "before": before, "total": total, "panes": panes,
        "naive": (size - 1) * windows,
    }  # fmt: skip


@pytest.mark.parametrize("check", CHECKS, ids=[f"{c[0]}/{c[1]}" for c in CHECKS])
def test_formulas_are_those_of_spec(check: tuple[int, ...]) -> None:
    assert tuple(formulas(*check[:3]).values()) == check[3:]


def complete(size: int, slide: int) -> Any:
    """Only whole windows, as the formulas have it."""
    return pn.policy(evict=p.count(size), trigger=p.count(slide, start=slide - size), end=False)


@pytest.mark.parametrize("check", CHECKS, ids=[f"{c[0]}/{c[1]}" for c in CHECKS])
def test_costs_of_a_query(check: tuple[int, ...]) -> None:
    size, slide, rows = check[:3]
    want = formulas(size, slide, rows)
    query = (
        pn.stream([{"t": i, "v": i} for i in range(rows + 1)], time="t").window(w=complete(size, slide)).agg(m="max(v)")
    )
    for step in (1, 7, 1000):
        op, found = query.operator(), 0
        data = [{"t": i, "v": i} for i in range(rows + 1)]
        for at in range(0, len(data), step):
            found += len(op.push(data[at : at + step]))
        costs = op.metrics
        assert found == want["windows"]
        # The formulas know that no window ends after the last row. A stream goes on: it cuts where the k windows that
        # are open began, too, and the last windows are made of as many slices as all others.
        k = 0 if size % slide == 0 else size // slide
        assert costs["reduce_before"] == want["before"] - k
        assert costs["reduce_before"] + costs["reduce_at_end"] == want["total"] - k + k * (k + 1) // 2
        assert costs["buffered"] == want["held"]
        assert costs["network"] == 0


@pytest.mark.parametrize("check", CHECKS, ids=[f"{c[0]}/{c[1]}" for c in CHECKS])
def test_costs_over_python_objects(check: tuple[int, ...]) -> None:
    size, slide, rows = check[:3]
    want = formulas(size, slide, rows)
    borders = run_live(complete(size, slide), rows + 1, last=rows)
    naive = run_live(complete(size, slide), rows + 1, optimise=False)
    assert borders.results == naive.results
    assert borders.plan == "borders"
    assert borders.costs.reduce_before == want["before"]
    assert borders.costs.reduce_before + borders.costs.reduce_at_end == want["total"] <= want["panes"]
    assert borders.costs.buffered == want["held"]
    assert naive.costs.reduce_at_end == want["naive"]
    assert naive.costs.buffered == size


def run_live(policy: Any, rows: int, **options: Any) -> LiveWindow:
    window = LiveWindow(policy, reduce=max, value="v", time="t", **options)
    for i in range(rows):
        window.process({"t": i, "v": i * 7919 % 101})
    window.close()
    return window


def test_tumbling_holds_one_value() -> None:
    window = run_live(pn.policy(trigger=p.count(10)), 101)
    assert window.plan == "tumbling"
    assert (window.costs.reduce_before, window.costs.reduce_at_end, window.costs.buffered) == (90, 0, 1)


@pytest.mark.parametrize(
    ("size", "slide", "borders"),
    [(6, 2, [0, 2, 4, 6, 8]), (5, 2, [0, 2, 4, 5, 6, 7, 8]), (2, 5, [0, 2, 5, 7, 10, 12])],
)
def test_borders_are_where_windows_begin_or_end(size: int, slide: int, borders: list[int]) -> None:
    """As SPEC P-59, algorithm 1, tells; a slice begins at each but the first, where there is nothing yet."""
    known = Borders(False, size, slide, size)
    assert [at for at in range(1, borders[-1] + 1) if known.between(at - 1, at)] == borders[1:]


@pytest.mark.parametrize(("size", "slide", "skipped"), [(2, 3, [2, 5, 8, 11]), (2, 5, [2, 3, 4, 7, 8, 9, 12, 13])])
def test_rows_between_hopping_windows_are_skipped(size: int, slide: int, skipped: list[int]) -> None:
    test = Borders(False, size, slide, size)
    assert [at for at in range(skipped[-1] + 1) if test.is_skipped(at)] == skipped
    window = run_live(complete_hopping(size, slide), 40)
    assert window.results == run_live(complete_hopping(size, slide), 40, optimise=False).results
    assert window.costs.buffered <= 1


def complete_hopping(size: int, slide: int) -> Any:
    return pn.policy(evict=p.count(size), trigger=p.count(slide, start=slide - size), end=False)


def test_p63_fewer_calls_at_the_end() -> None:
    policy = pn.policy(evict=p.time(40), trigger=p.count(7))
    granular = run_live(policy, 500, granularity=5)
    plain = run_live(policy, 500)
    assert granular.plan == "granular"
    assert granular.results == plain.results
    assert granular.costs.reduce_at_end < plain.costs.reduce_at_end
    assert granular.costs.buffered > plain.costs.buffered


def costs(policy: Any, rows: int, **options: Any) -> tuple[str, int, int, int, int]:
    found = run_live(policy, rows, **options).metrics
    return found["plan"], found["reduce_before"], found["reduce_at_end"], found["buffered"], found["network"]


def test_what_each_buffer_costs_to_the_call() -> None:
    """Rows 0..9; results at rows 3, 6 and 9 over 3 rows or, kept longer, over 3, 5 and 5."""
    three, keep = p.count(3), p.count(5)
    assert costs(pn.policy(trigger=three, end=False), 10) == ("tumbling", 6, 0, 1, 0)
    assert costs(pn.policy(trigger=three, end=False), 10, optimise=False) == ("none", 0, 2 + 2 + 2, 3, 0)
    kept = pn.policy(trigger=three, evict=keep, end=False)
    assert costs(kept, 10, optimise=False) == ("none", 0, 2 + 4 + 4, 5, 0)
    # slices of rows 0, 1-2, 3, 4-5, 6, 7-8, 9: results are made of 2, 3 and 3
    assert costs(kept, 10) == ("borders", 3, 1 + 2 + 2, 4, 0)
    delta = pn.policy(trigger=three, evict=p.delta(1000, on="v"), end=False)
    # partials of 2 rows: held are 10 rows and 5 of them; results over 2, 3 and 5 of them
    assert costs(delta, 10, granularity=2) == ("granular", 5, 1 + 2 + 4, 15, 0)
    # a partial that has lost a row is given up, and its rows that are left are taken one by one
    assert costs(pn.policy(trigger=three, evict=p.largest(keep)), 9, granularity=4) == ("granular", 6, 0 + 3 + 1, 7, 0)
    # with the end of the stream, rows 5-9 of slices 4-5, 6, 7-8 and 9, each row that is held is kept beside the slices
    assert costs(pn.policy(trigger=three, evict=keep), 10) == ("borders", 3, 1 + 2 + 2 + 3, 4 + 5, 0)


@pytest.mark.parametrize("seed", range(60))
def test_every_buffer_gives_the_same_results(seed: int) -> None:
    """Random policies and rows: whatever the buffer, the same results, in the order of the rows."""
    rng = random.Random(seed)
    makers = [
        lambda: p.count(rng.randint(1, 9)),
        lambda: p.time(rng.randint(1, 9)),
    ]
    trigger, evict = rng.choice(makers)(), rng.choice(makers)()
    policy = pn.policy(trigger=trigger, evict=rng.choice((evict, None)), end=rng.random() < 0.5)
    rows, t = [], 0
    for i in range(60):
        t += rng.choice((0, 1, 1, 2, 9))
        rows.append({"t": t, "v": str(i)})
    found = []
    for options in ({}, {"optimise": False}, {"granularity": rng.randint(2, 6)}):
        window = LiveWindow(policy, reduce=lambda a, b: a + "," + b, value="v", time="t", **options)
        for row in rows:
            window.process(row)
        window.close()
        found.append(window.results)
    assert found[0] == found[1] == found[2]
