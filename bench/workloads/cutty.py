"""The experiments of the Cutty chapter (SPEC W-17..W-19), scaled down: reduce calls, partials, throughput.

Data like DEBS 2012: 100 Hz, one of the three energy values (each costs the same), 20 binary sensors.
Ranges and slides are the original ones: 20,000..80,000 and 1,000..20,000 rows, multiples of 10.
Calls are counted with rows fed in stretches no longer than the smallest slide, so that the partials stored
at a time are those of the algorithms and not of the batch.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bench import data
from bench.contenders import ENGINE, Contender, RivalRunner, engine
from bench.harness import Claim, Lab, Point, Workload
from bench.rivals import FUNCTIONS, AggregateTree, Cutty, Marked, Pairs, Periodic, Query, TupleBuffer
from bench.workloads.common import value

CALLS, UPDATES, MERGES, PARTIALS = "reduce calls", "update calls", "merge calls", "partials stored"
RA = "tree over rows (RA)"
NAIVE = "rows of each window (naive)"
TECHNIQUES: dict[str, Any] = {
    "cutty": partial(Cutty, eager=True),
    "cutty, lazy": Cutty,
    "pairs+": partial(Pairs, eager=True),
    "pairs": Pairs,
    RA: partial(AggregateTree, each=True),
}
STRETCH = 1000  # rows per push while calls are counted


def _random_queries(n: int) -> list[Query]:
    rng = np.random.default_rng(n)
    return [Periodic(int(rng.integers(2000, 8001)) * 10, int(rng.integers(100, 2001)) * 10, "rows") for _ in range(n)]


def _count_calls(lab: Lab, name: str, technique: Any, queries: list[Query], stream: data.Stream, params: Any) -> None:
    held = technique(queries, FUNCTIONS["avg"])
    for lo in range(0, len(stream), STRETCH):
        held.push(stream.times[lo : lo + STRETCH], stream.values[lo : lo + STRETCH])
        held.advance(int(stream.times[min(lo + STRETCH, len(stream)) - 1]))
    counters = held.counters
    lab.record(name, CALLS, counters.update + counters.merge, params=params)
    lab.record(name, UPDATES, counters.update, params=params)
    lab.record(name, MERGES, counters.merge, params=params)
    lab.record(name, PARTIALS, counters.max_partials + (1 if "tree" in name else 0), params=params)


def _start(technique: Any, queries: list[Query]) -> RivalRunner:
    return RivalRunner(technique(queries, FUNCTIONS["avg"]))


def periodic(lab: Lab) -> None:
    stream = data.energy(lab.rows(1_000_000, 120_000), sensors=0)
    for n in lab.pick((1, 5, 10, 20, 50, 100), (1, 100)):
        queries = _random_queries(n)
        params = {"queries": n}
        contenders = [engine(queries, "avg")]
        contenders += [Contender(name, partial(_start, t, queries)) for name, t in TECHNIQUES.items()]
        contenders.append(Contender(NAIVE, partial(_start, TupleBuffer, queries)))
        lab.throughput(stream.batches(), contenders, params=params)
        for name, technique in TECHNIQUES.items():
            _count_calls(lab, name, technique, queries, stream, params)


def non_periodic(lab: Lab) -> None:
    """A window per stretch between two changes of a sensor; queries draw sensors by how often they change."""
    stream = data.energy(lab.rows(200_000, 20_000), sensors=20)
    changes = [np.flatnonzero(np.diff(state)) + 1 for state in stream.extra.values()]
    often = np.array([max(1, len(c)) for c in changes], float)
    for n in lab.pick((1, 10, 40), (10,)):
        drawn = np.random.default_rng(n).choice(len(changes), n, p=often / often.sum())
        queries: list[Query] = [
            Marked(tuple(changes[i].tolist()), (*changes[i][1:].tolist(), len(stream))) for i in drawn
        ]
        params = {"queries": n}
        chosen = {name: TECHNIQUES[name] for name in ("cutty", RA)}
        contenders = [Contender(name, partial(_start, t, queries)) for name, t in chosen.items()]
        sensors = [f"s{i}" for i in drawn]
        contenders.insert(0, _punctuated(sensors))
        lab.throughput(_with_changes(stream).batches(), contenders, params=params)
        for name, technique in chosen.items():
            _count_calls(lab, name, technique, queries, stream, params)


def _with_changes(stream: data.Stream) -> data.Stream:
    """Sensor columns as "changed at this row", which is what opens a window."""
    extra = {name: np.concatenate(([False], np.diff(state) != 0)) for name, state in stream.extra.items()}
    return data.Stream(stream.times, stream.values, extra=extra)


def _punctuated(sensors: list[str]) -> Contender:
    """Panes: one punctuated window per query, opened by each change of its sensor."""
    from bench.contenders import EngineRunner

    def start() -> EngineRunner:
        import panes as pn

        columns = {f"s{i}": "boolean" for i in range(20)}
        stream = pn.stream(None, schema={"ts": "bigint", "v": "double", **columns}, time="ts", watermark=None)
        windows: dict[str, Any] = {f"w{i}": pn.punctuated(begin=sensor) for i, sensor in enumerate(sensors)}
        return EngineRunner(stream.window(**windows).agg(x="avg(v)").operator())

    return Contender(ENGINE, start)


def _most(points: list[Point]) -> int:
    return max(p.params["queries"] for p in points)


def _store_calls(points: list[Point], contender: str, n: int) -> float:
    """Calls beyond the one per row that all slicing techniques have in common."""
    rows = next(p.extra["rows"] for p in points if p.contender == contender and "rows" in p.extra)
    return max(1, value(points, contender, CALLS, queries=n) - rows)


def _half_the_calls(points: list[Point]) -> tuple[bool, str]:
    n = _most(points)
    calls = _store_calls(points, "cutty", n) / _store_calls(points, "pairs+", n)
    rate = value(points, "cutty", queries=n) / value(points, "pairs+", queries=n)
    return (
        calls <= 0.6 and rate >= 2,
        f"{calls:.2f} of the store calls, {rate:.2f}x the throughput, {n} queries",
    )


def _fewer_than_tree(points: list[Point]) -> tuple[bool, str]:
    counts = sorted({p.params["queries"] for p in points})
    ratios = [value(points, RA, CALLS, queries=n) / _store_calls(points, "cutty", n) for n in counts]
    said = ", ".join(f"{ratio:,.0f}x at {n}" for n, ratio in zip(counts, ratios))
    return max(ratios) >= 1000, f"store calls fewer by {said}"


def _tree_against_naive(points: list[Point]) -> tuple[bool, str]:
    counts = sorted({p.params["queries"] for p in points})
    ratios = {n: value(points, RA, queries=n) / value(points, NAIVE, queries=n) for n in counts}
    said = ", ".join(f"{ratio:.2g}x at {n}" for n, ratio in ratios.items())
    return all((ratio > 1) == (n > 10) for n, ratio in ratios.items()), f"tree against naive {said}"


def _cheap_queries(points: list[Point]) -> tuple[bool, str]:
    n = _most(points)
    loss = {
        name: value(points, name, queries=1) / value(points, name, queries=n) for name in ("cutty", "pairs+", ENGINE)
    }
    said = ", ".join(f"{name} {ratio:.3g}x" for name, ratio in loss.items())
    return all(ratio <= 6 for ratio in loss.values()), f"slower at {n} queries: {said}"


def _eager_memory(points: list[Point]) -> tuple[bool, str]:
    n = _most(points)
    space = value(points, "cutty", PARTIALS, queries=n) / value(points, "cutty, lazy", PARTIALS, queries=n)
    calls = value(points, "cutty, lazy", MERGES, queries=n) / value(points, "cutty", MERGES, queries=n)
    return 1.5 <= space <= 4.1 and calls >= 10, f"{space:.2f}x the partials, {calls:.3g}x fewer merge calls"


def _partials(points: list[Point]) -> tuple[bool, str]:
    n = _most(points)
    kept = {name: value(points, name, PARTIALS, queries=n) for name in ("cutty", "pairs", "pairs+")}
    said = ", ".join(f"{name} {count:,.0f}" for name, count in kept.items())
    return kept["cutty"] <= 2.1 * kept["pairs"] and kept["pairs+"] >= 1.5 * kept["cutty"], said


def _who_dominates(points: list[Point]) -> tuple[bool, str]:
    n = _most(points)
    merge = value(points, "cutty", MERGES, queries=n)
    update = _store_calls(points, "cutty", n) - merge
    tree_merge, tree_update = value(points, RA, MERGES, queries=n), value(points, RA, UPDATES, queries=n)
    said = f"merge/update: cutty {merge:,.0f}/{update:,.0f}, tree {tree_merge:,.0f}/{tree_update:,.0f}"
    return merge > update and tree_update > tree_merge, said


def _sessions_beat_tree(points: list[Point]) -> tuple[bool, str]:
    n = _most(points)
    rate = value(points, "cutty", queries=n) / value(points, RA, queries=n)
    calls = value(points, RA, CALLS, queries=n) / value(points, "cutty", CALLS, queries=n)
    return rate >= 10, f"{rate:.3g}x the throughput, {calls:.3g}x fewer calls"


WORKLOADS = (
    Workload(
        "w18-periodic", "rolling average, random row windows, 1 to 100 queries", periodic, x="queries",
        claims=(
            Claim("R-28", "Cutty: half the reduce calls and twice the throughput of Pairs+", _half_the_calls),
            Claim("R-29", "Cutty: a thousand times fewer calls than a tree over rows", _fewer_than_tree),
            Claim("R-29", "the tree over rows beats naive only above 10 queries", _tree_against_naive),
            Claim("R-30", "100 times more queries cost at most 6 times", _cheap_queries),
            Claim("R-31", "eager: twice the partials, a tenth of the merges", _eager_memory),
            Claim("R-32", "Cutty eager keeps what Pairs keeps; Pairs+ keeps twice that", _partials),
            Claim("R-33", "merges dominate in Cutty, updates in the tree over rows", _who_dominates),
        ),
    ),
    Workload(
        "w19-sensors", "windows between changes of sensors, 1 to 40 queries", non_periodic, x="queries",
        claims=(Claim("R-34", "Cutty is orders of magnitude above a tree over rows", _sessions_beat_tree),),
    ),
)  # fmt: skip
