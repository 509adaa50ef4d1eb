"""Throughput experiments of the general stream slicing paper, scaled down (S-39, 40, 43, 44, 45, 47).

Each has the claims of the paper (SPEC group R) that its figures test. "Non-slicing" techniques are tuple
buffer, aggregate tree and buckets. The paper replicates its data (2,000 and 100 updates/s) to higher rates;
here it is 100,000 rows/s of event time, in batches of 100,000.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

import panes as pn
from bench import data
from bench.contenders import ENGINE, Contender, engine, rival
from bench.harness import Claim, Lab, Point, Workload
from bench.rivals import (
    AggregateBuckets,
    AggregateTree,
    Cutty,
    Pairs,
    Query,
    Session,
    TupleBuckets,
    TupleBuffer,
)
from bench.workloads.common import EVENT_RATE, best_of, concurrent, value, values

NON_SLICING = (TupleBuffer, AggregateTree, AggregateBuckets)
NON_SLICING_NAMES = tuple(t.name for t in (*NON_SLICING, TupleBuckets))


def in_order(lab: Lab) -> None:
    stream = data.steady(lab.rows(4_000_000, 300_000), rate=EVENT_RATE, distinct=84_232)
    for n in lab.pick((1, 10, 20, 100, 500, 1000), (1, 100)):
        queries = concurrent(n)
        contenders = [engine(queries, "sum"), *(rival(t, queries, "sum") for t in (Pairs, Cutty))]
        contenders += [rival(t, queries, "sum", eager=True, name=f"{t.name}, eager") for t in (Pairs, Cutty)]
        contenders += [rival(t, queries, "sum") for t in NON_SLICING]
        lab.throughput(stream.batches(), contenders, params={"windows": n})


def with_session(lab: Lab) -> None:
    sets = {"football": data.football, "machine": data.machine}
    for name, make in sets.items():
        stream = data.late(make(lab.rows(4_000_000, 300_000), rate=EVENT_RATE))
        for n in lab.pick((1, 20, 100, 1000), (20,)):
            queries = [*concurrent(n), Session(1000)]
            contenders = [engine(queries, "sum", delay=stream.delay)]
            contenders += [rival(t, queries, "sum", ooo=True) for t in NON_SLICING]
            lab.throughput(stream.batches(), contenders, params={"data": name, "windows": n})


def disorder(lab: Lab) -> None:
    stream = data.steady(lab.rows(4_000_000, 300_000), rate=EVENT_RATE, distinct=84_232)
    queries = concurrent(20)
    shares = [(share, 0, 2000) for share in lab.pick((0.0, 0.2, 0.5, 0.8, 1.0), (0.0, 0.8))]
    delays = [(0.2, a, b) for a, b in lab.pick(((0, 20), (0, 200), (0, 5000), (3000, 5000)), ((0, 20), (0, 5000)))]
    for share, least, most in shares + delays:
        fed = data.late(stream, share=share, least=least, most=most)
        contenders = [engine(queries, "sum", delay=most)]
        contenders += [rival(t, queries, "sum", ooo=True) for t in NON_SLICING]
        params = {"late %": int(share * 100), "delay ms": f"{least}..{most}"}
        lab.throughput(fed.batches(), contenders, params=params)


class SumWithoutInvert(pn.UserAggregate):
    """A sum that does not say it can be inverted, so that removing a row means folding again (SPEC S-44)."""

    commutative = True
    state: ClassVar = {"total": "double"}

    def lift_segments(self, columns: Any, offsets: np.ndarray) -> tuple[np.ndarray]:
        return (self._sums(columns[0], offsets),)

    def fold_segments(self, partials: Any, offsets: np.ndarray) -> tuple[np.ndarray]:
        return (self._sums(partials[0], offsets),)

    def lower_segments(self, partials: Any) -> np.ndarray:
        return partials[0]

    @staticmethod
    def _sums(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        sums = np.add.reduceat(np.append(values, 0.0), offsets[:-1])
        return np.where(np.diff(offsets) > 0, sums, 0.0)


#: what the paper's figure 13 compares, as aggregates of Panes
FUNCTIONS_OF_PAPER: dict[str, Any] = {
    "count": "count(*)",
    "sum": "sum(v)",
    "sum without invert": SumWithoutInvert("v"),
    "avg": "avg(v)",
    "stddev": "stddev(v)",
    "min": "min(v)",
    "max": "max(v)",
    "min count": "min_count(v)",
    "max count": "max_count(v)",
    "arg min": "arg_min(v, ts)",
    "arg max": "arg_max(v, ts)",
    "m4": "m4(v)",
    "median": "median(v)",
    "90-percentile": "quantile(v, 0.9)",
}


def functions(lab: Lab) -> None:
    names = lab.pick(tuple(FUNCTIONS_OF_PAPER), ("sum", "min", "median"))
    stream = data.late(data.steady(lab.rows(4_000_000, 300_000), rate=EVENT_RATE, distinct=84_232))
    batches = stream.batches()
    for measure, unit in (("time", 1000), ("rows", EVENT_RATE)):
        queries = concurrent(20, measure, unit)
        for name in names:
            chosen = engine(queries, {"x": FUNCTIONS_OF_PAPER[name]}, delay=stream.delay)
            lab.throughput(batches, [chosen], params={"measure": measure, "aggregate": name})


def medians(lab: Lab) -> None:
    for name, make in {"football": data.football, "machine": data.machine}.items():
        stream = data.late(make(lab.rows(4_000_000, 300_000), rate=EVENT_RATE))
        for n in lab.pick((1, 20, 100), (20,)):
            queries = concurrent(n)
            contenders = [engine(queries, "median", delay=stream.delay)]
            contenders += [rival(t, queries, "median", ooo=True) for t in (TupleBuffer, TupleBuckets)]
            lab.throughput(stream.batches(), contenders, params={"data": name, "windows": n})


def measures(lab: Lab) -> None:
    stream = data.late(data.steady(lab.rows(4_000_000, 300_000), rate=EVENT_RATE, distinct=84_232))
    for measure, unit in (("time", 1000), ("rows", EVENT_RATE)):
        for n in lab.pick((1, 10, 40, 100, 1000), (1, 100)):
            queries: list[Query] = concurrent(n, measure, unit)
            contenders: list[Contender] = [
                engine(queries, "sum", delay=stream.delay),
                rival(TupleBuffer, queries, "sum", ooo=True),
                rival(AggregateBuckets, queries, "sum", ooo=True),
            ]
            lab.throughput(stream.batches(), contenders, params={"measure": measure, "windows": n})


def _flat_and_fast(points: list[Point]) -> tuple[bool, str]:
    rates = values(points, ENGINE)
    return min(rates) > 1e6 and max(rates) / min(
        rates
    ) < 2, f"{min(rates) / 1e6:.3g} to {max(rates) / 1e6:.3g} M rows/s"


def _ten_times_the_rest(points: list[Point]) -> tuple[bool, str]:
    ratios = []
    for point in points:
        if point.contender == ENGINE:
            ratios.append(point.value / best_of(points, NON_SLICING_NAMES, **point.params))
    return max(ratios) >= 10, f"{min(ratios):.3g}x to {max(ratios):.3g}x the best technique without slices"


def _robust(points: list[Point]) -> tuple[bool, str]:
    rates = [p.value for p in points if p.contender == ENGINE and p.params["late %"] > 0]
    return max(rates) / min(rates) < 2, f"{min(rates) / 1e6:.3g} to {max(rates) / 1e6:.3g} M rows/s over all disorder"


def _holistic_is_slower(points: list[Point]) -> tuple[bool, str]:
    on_time = {
        p.params["aggregate"]: p.value for p in points if p.contender == ENGINE and p.params["measure"] == "time"
    }
    holistic = [on_time[n] for n in ("median", "90-percentile") if n in on_time]
    others = [rate for name, rate in on_time.items() if name not in ("median", "90-percentile")]
    return max(holistic) < min(
        others
    ), f"holistic {max(holistic) / 1e6:.3g} M, others from {min(others) / 1e6:.3g} M rows/s"


def _few_values_are_faster(points: list[Point]) -> tuple[bool, str]:
    football, machine = (value(points, ENGINE, data=d, windows=20) for d in ("football", "machine"))
    return machine > football, f"37 values {machine / 1e6:.3g} M, 84,232 values {football / 1e6:.3g} M rows/s"


def _rows_beat_the_buffer(points: list[Point]) -> tuple[bool, str]:
    most = max(p.params["windows"] for p in points)
    ratio = value(points, ENGINE, measure="rows", windows=most) / value(
        points, TupleBuffer.name, measure="rows", windows=most
    )
    return ratio >= 10, f"{ratio:.3g}x the tuple buffer at {most} windows"


WORKLOADS = (
    Workload(
        "s39-in-order", "in order, 1 to 1,000 concurrent tumbling windows", in_order, x="windows",
        claims=(
            Claim("R-11", "slicing does millions of rows/s, flat in the number of windows", _flat_and_fast),
            Claim("R-10", "slicing is up to 10 times better than the alternatives", _ten_times_the_rest),
        ),
    ),
    Workload(
        "s40-session", "tumbling windows and a session of 1 s, 20 % late", with_session, x="windows",
        claims=(Claim("R-12", "slicing is about ten times the best other technique", _ten_times_the_rest),),
    ),
    Workload(
        "s43-disorder", "20 windows, share of late rows and their delay", disorder,
        claims=(Claim("R-15", "throughput does not depend on late rows or their delay", _robust),),
    ),
    Workload(
        "s44-functions", "aggregates over 20 time or row windows, 20 % late", functions,
        claims=(Claim("R-16", "holistic aggregates are slower than all others", _holistic_is_slower),),
    ),
    Workload(
        "s45-median", "median, 84,232 and 37 distinct values, 20 % late", medians, x="windows",
        claims=(
            Claim("R-17", "slices beat buckets and tuple buffer by far", _ten_times_the_rest),
            Claim("R-17", "few distinct values are faster than many", _few_values_are_faster),
        ),
    ),
    Workload(
        "s47-measures", "time and row measures, 1 to 1,000 windows, 20 % late", measures, x="windows",
        claims=(Claim("R-19", "row windows are ten times the tuple buffer", _rows_beat_the_buffer),),
    ),
)  # fmt: skip
