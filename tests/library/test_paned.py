"""SPEC G-28: the rewritten window gives what the plain sliding window gives, and holds far less."""

from __future__ import annotations

import random
import statistics
from typing import Any

import pyarrow as pa
import pytest

from examples.paned_aggregate import PanedAggregate, rewritten
from panes import aggregates
from panes.clock import FakeClock
from panes.errors import QueryError
from panes.policies.library import SlidingWindow, count, delta, time

SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.string()), ("v", pa.float64())])
AGGS: dict[str, Any] = {
    "n": aggregates.count(),
    "total": aggregates.sum("v"),
    "mean": aggregates.avg("v"),
    "least": aggregates.min("v"),
    "last": aggregates.last("v"),
    "middle": aggregates.median("v"),
}
Result = tuple[Any, int, bool, list[Any]]


def naive(values: list[float]) -> list[Any]:
    """Whole numbers in halves only, so that sums are exact in any order."""
    if not values:
        return [0, None, None, None, None, None]
    ordered = sorted(values)
    return [
        len(values),
        sum(values),
        sum(values) / len(values),
        ordered[0],
        values[-1],
        statistics.median(ordered),
    ]


def plain(size: int, slide: int, rows: list[tuple[int, Any, float]], until: int, keyed: bool) -> list[Result]:
    clock = FakeClock()
    window = SlidingWindow(evict=time(size), trigger=time(slide), partitioned=keyed, clock=clock)
    found: list[Result] = []
    window.on(
        "trigger",
        lambda key, w: found.append((key, clock.now(), w.is_full(key), naive([v for _, _, v in w.content(key)]))),
    )
    for row in rows:
        clock.advance_to(row[0])
        if keyed:
            window.insert(row, row[1])
        else:
            window.insert(row)
    clock.advance_to(until)
    return found


def lines(table: pa.Table) -> list[Result]:
    return [(r.get("k"), r["at"], r["full"], [r[name] for name in AGGS]) for r in table.to_pylist()]


@pytest.mark.parametrize("keyed", [False, True])
def test_the_same_results_also_for_empty_intervals(keyed: bool) -> None:
    rng = random.Random(f"paned {keyed}")
    results = empty = 0
    for _ in range(60):
        slide, k = rng.randint(1, 6), rng.randint(1, 5)
        now, rows = 0, []
        for _ in range(rng.randint(1, 40)):
            now += rng.choice((0, 0, 1, 2, rng.randint(0, 30)))
            rows.append((now, rng.choice("abc"), rng.randint(0, 20) / 2))
        until = now + 20

        def make(slide: int = slide, k: int = k) -> PanedAggregate:
            return PanedAggregate(
                SCHEMA, AGGS, evict=time(k * slide), trigger=time(slide), time="t", key=["k"] if keyed else []
            )

        paned, found, at = make(), [], 0
        while at < len(rows):
            step = rng.randint(1, 10)
            part = rows[at : at + step]
            at += step
            found += lines(paned.push(pa.table(dict(zip("tkv", zip(*part))), schema=SCHEMA)))
            if rng.random() < 0.3:
                again = make()
                again.restore(paned.snapshot())
                paned = again
        found += lines(paned.advance(until))
        assert found == plain(k * slide, slide, rows, until, keyed), (slide, k, rows)
        results += len(found)
        empty += sum(values[0] == 0 for _, _, _, values in found)
    assert results > 500
    assert empty > 100


def test_an_hour_every_minute_holds_sixty_partials_and_one_minute_of_tuples() -> None:
    minute = 60_000_000
    paned = PanedAggregate(SCHEMA, {"mean": aggregates.avg("v")}, evict=time("1 h"), trigger=time("1 min"), time="t")
    rows = 100 * 180  # a hundred per minute, for three hours
    times = [i * minute // 100 for i in range(rows)]
    out = paned.push(
        pa.table({"t": times, "k": ["a"] * rows, "v": [float(i // 100) for i in range(rows)]}, schema=SCHEMA)
    )
    assert paned.metrics == {"tuples": 100, "partials": 60}
    assert out.num_rows == 179
    assert out["mean"].to_pylist()[60:62] == [sum(range(1, 61)) / 60, sum(range(2, 62)) / 60]


def test_averages_of_averages_would_be_wrong() -> None:
    """X-10: intervals of different sizes count by their tuples."""
    paned = PanedAggregate(SCHEMA, {"mean": aggregates.avg("v")}, evict=time(20), trigger=time(10), time="t")
    rows = {"t": [0, 1, 2, 11], "k": ["a"] * 4, "v": [0.0, 0.0, 0.0, 8.0]}
    paned.push(pa.table(rows, schema=SCHEMA))
    assert paned.advance(20)["mean"].to_pylist() == [2.0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"evict": time(10), "trigger": time(3)}, "is no multiple of trigger"),
        ({"evict": count(10), "trigger": time(3)}, r"only time\(R\), time\(S\)"),
        ({"evict": time(10), "trigger": delta("v", 1)}, r"only time\(R\), time\(S\)"),
        ({"evict": time(10), "trigger": time(5), "aggs": {"s": aggregates.sum("x")}}, "s: 'x' is no column"),
    ],
)
def test_wrong_options_of_a_paned_aggregate_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(QueryError, match=said):
        PanedAggregate(SCHEMA, options.pop("aggs", AGGS), time="t", **options)


def test_the_example_of_the_specification() -> None:
    assert rewritten(time("1 h"), time("1 min")) == (time("1 min"), count(60), count(1))
