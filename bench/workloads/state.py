"""Experiments of the slicing paper on state: memory, latency, splits, a dashboard (S-41, 42, 46, 48)."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from bench import data
from bench.contenders import ENGINE, EngineRunner, RivalRunner, panes_operator
from bench.harness import CORES, RATE, Claim, Lab, Point, Workload, one_core
from bench.rivals import (
    FUNCTIONS,
    AggregateBuckets,
    AggregateTree,
    Pairs,
    Periodic,
    TupleBuckets,
    TupleBuffer,
)
from bench.workloads.common import concurrent, value, values

BYTES = "bytes of state"
SECONDS = "seconds"
STEP = 500  # windows asked for at a time before the clock starts


def memory_model(lab: Lab) -> None:
    """One sliding window as long as the stream, so that nothing may leave; its slide sets the slices."""
    rows_fixed, slices_fixed = (50_000, 500) if not lab.options.quick else (5_000, 50)
    points = [("slices", n, rows_fixed, n) for n in lab.pick((10, 100, 1000), (10, 100))]
    points += [("rows", n, n, slices_fixed) for n in lab.pick((1_000, 10_000, 100_000), (1_000, 10_000))]
    for measure in ("time", "rows"):
        for varied, x, rows, slices in points:
            stream = data.late(data.steady(rows, rate=1000), most=1000)
            span = rows if measure == "rows" else int(stream.times.max()) - data.EPOCH + 1
            slide = max(1, span // slices)
            # The last windows must still be open at the end, with all their rows.
            queries = [Periodic(slide * slices * 2, slide, measure)]
            params = {"measure": measure, "varied": varied, "x": x}
            batches = stream.batches(10_000)
            operator = panes_operator(queries, "sum", delay=stream.delay)
            for batch in batches:
                operator.push(batch.arrow)
            lab.record(ENGINE, BYTES, operator.metrics["bytes"], params=params)
            for technique in (TupleBuffer, AggregateTree, AggregateBuckets, TupleBuckets):
                if technique is AggregateBuckets and measure == "rows":
                    continue  # rows must be kept when numbers of rows change
                if technique is TupleBuckets and measure == "time":
                    continue
                held = technique(queries, FUNCTIONS["sum"], ooo=True)
                for batch in batches:
                    held.push(batch.times, batch.values)
                    held.advance(batch.watermark)
                lab.record(technique.name, BYTES, held.bytes, params=params)


def latency(lab: Lab) -> None:
    """Time from the watermark to one more result, over a window of n slices (or rows: one row per slice).

    The windows that lead up to it are n as well, and for a median each costs its n entries: it stops at 10,000.
    """
    for function in ("sum", "median"):
        for n in lab.pick((10, 100, 1_000, 10_000, 100_000), (10, 1_000)):
            if function == "median" and n > 10_000:
                continue
            queries = [Periodic(n, 1)]
            turns = 30 if function == "sum" else 10
            times = np.arange(n + turns + 1)
            values_ = np.random.default_rng(1).integers(0, 1000, len(times)).astype(float)
            operator = panes_operator(queries, function, watermark="manual")
            batch = pa.RecordBatch.from_pydict({"ts": times, "v": values_})
            _time_results(lab, ENGINE, function, n, turns, partial(operator.push, batch), operator.advance)
            rivals: list[tuple[str, Any]] = [(TupleBuffer.name, TupleBuffer)]
            if function == "sum":
                rivals += [
                    (AggregateTree.name, AggregateTree),
                    ("pairs", Pairs),
                    ("pairs, eager", lambda q, f, ooo: Pairs(q, f, eager=True)),
                ]
                if n <= 1_000:
                    rivals.append((AggregateBuckets.name, AggregateBuckets))
            for name, technique in rivals:
                ooo = technique in (TupleBuffer, AggregateTree, AggregateBuckets)
                held = technique(queries, FUNCTIONS[function], ooo=ooo)
                if ooo:
                    _time_results(lab, name, function, n, turns, partial(held.push, times, values_), held.advance)
                else:
                    _time_in_order(lab, name, function, n, turns, held, times, values_)


def _time_results(
    lab: Lab,
    name: str,
    function: str,
    n: int,
    turns: int,
    fill: Callable[[], Any],
    advance: Callable[[int], Any],
) -> None:
    fill()
    for watermark in range(STEP, n + STEP, STEP):
        advance(min(watermark, n))
    spent = []
    for i in range(1, turns):
        began = time.perf_counter()
        advance(n + i)
        spent.append(time.perf_counter() - began)
    lab.record(name, SECONDS, statistics.median(spent), params={"aggregate": function, "entries": n})


def _time_in_order(
    lab: Lab, name: str, function: str, n: int, turns: int, held: Any, times: np.ndarray, values_: np.ndarray
) -> None:
    """Techniques that take rows in order only: each row is its own watermark, so rows come one at a time."""
    held.push(times[:n], values_[:n])
    held.advance(n)
    spent = []
    for i in range(n, n + turns):
        held.push(times[i : i + 1], values_[i : i + 1])
        began = time.perf_counter()
        held.advance(i + 1)
        spent.append(time.perf_counter() - began)
    lab.record(name, SECONDS, statistics.median(spent), params={"aggregate": function, "entries": n})


def splits(lab: Lab) -> None:
    """What a split costs: both halves of a slice are folded again from its rows."""
    from panes.aggregates.base import Column, Inputs
    from panes.aggregates.registry import by_name

    for function in ("sum", "median"):
        bound = by_name(function)("v").bind([pa.float64()])
        for n in lab.pick((100, 1_000, 10_000, 100_000, 1_000_000), (10_000, 300_000)):
            rng = np.random.default_rng(1)
            column = Column(rng.integers(0, 84_232, n).astype(float), None, pa.float64())
            rows = Inputs((column,), np.arange(n), np.arange(n), n)
            offsets = np.array([0, n // 2, n])
            bound.lift(rows, offsets)
            spent = []
            for _ in range(max(3, min(200, 200_000 // n))):
                began = time.perf_counter()
                bound.lift(rows, offsets)
                spent.append(time.perf_counter() - began)
            lab.record(ENGINE, SECONDS, statistics.median(spent), params={"aggregate": function, "rows": n})


def dashboard(lab: Lab) -> None:
    """M4 over 80 windows (zoom levels) in each process, one process per core."""
    rows = lab.rows(5_000_000, 300_000)
    most = min(2, len(CORES))
    with multiprocessing.get_context("spawn").Pool(most) as pool:  # processes take long to start: the same ones for all
        for contender in (ENGINE, AggregateBuckets.name):
            for processes in range(1, most + 1):
                jobs = [(contender, rows, lab.options.budget, core) for core in CORES[:processes]]
                rates = pool.starmap(_dashboard_instance, jobs, chunksize=1)
                lab.record(contender, RATE, sum(rates), params={"processes": processes}, rows=rows)


def _dashboard_instance(contender: str, rows: int, budget: float, core: int) -> float:
    """Rows per second of one instance on its own core."""
    one_core(core)
    queries = concurrent(80)
    batches = data.steady(rows, rate=100_000, distinct=84_232).batches()

    def start() -> EngineRunner | RivalRunner:
        if contender == ENGINE:
            return EngineRunner(panes_operator(queries, "m4"))
        return RivalRunner(AggregateBuckets(queries, FUNCTIONS["m4"]))

    start().step(batches[0])
    runner, done, began = start(), 0, time.perf_counter()
    for batch in batches:
        runner.step(batch)
        done += len(batch)
        if time.perf_counter() - began > budget:
            break
    return done / (time.perf_counter() - began)


def _independent_of_rows(points: list[Point]) -> tuple[bool, str]:
    held = values(points, ENGINE, BYTES, measure="time", varied="rows")
    # Arrays that hold slices grow by doubling, so one doubling is no dependence on rows.
    return max(held) <= 2 * min(held), f"{min(held):,.0f} to {max(held):,.0f} bytes while rows grow 100 times"


def _latencies(points: list[Point]) -> tuple[bool, str]:
    most = max(p.params["entries"] for p in points)
    mine = value(points, ENGINE, SECONDS, aggregate="sum", entries=most)
    return mine <= 1e-3, f"{mine * 1e6:.3g} µs over {most:,} slices"


def _linear(points: list[Point]) -> tuple[bool, str]:
    sizes = sorted({p.params["rows"] for p in points})[-2:]
    small, large = (value(points, ENGINE, SECONDS, aggregate="sum", rows=n) for n in sizes)
    growth = (large / small) / (sizes[1] / sizes[0])
    return 0.2 < growth < 5, f"{growth:.2g} times linear between {sizes[0]:,} and {sizes[1]:,} rows"


def _dashboard_ratio(points: list[Point]) -> tuple[bool, str]:
    ratio = value(points, ENGINE, processes=1) / value(points, AggregateBuckets.name, processes=1)
    return ratio >= 10, f"{ratio:.3g}x buckets"


def _scales(points: list[Point]) -> tuple[bool, str]:
    ratio = value(points, ENGINE, processes=2) / value(points, ENGINE, processes=1)
    return ratio > 1.5, f"two processes {ratio:.2f}x one"


WORKLOADS = (
    Workload(
        "s41-memory", "bytes of state, 50,000 rows or 500 slices fixed", memory_model, x="x",
        claims=(Claim("R-13", "memory of time windows does not depend on rows", _independent_of_rows),),
    ),
    Workload(
        "s42-latency", "time from watermark to result over n stored entries", latency, x="entries",
        claims=(Claim("R-14", "a result over 100,000 slices comes within 1 ms", _latencies),),
    ),
    Workload(
        "s46-splits", "time to fold a slice again after a split", splits, x="rows",
        claims=(Claim("R-18", "a split costs time linear in the rows of the slice", _linear),),
    ),
    Workload(
        "s48-dashboard", "M4 over 80 windows, one and two processes", dashboard,
        claims=(
            Claim("R-20", "slices are about ten times buckets", _dashboard_ratio),
            Claim("R-20", "throughput grows with the processes", _scales),
        ),
    ),
)  # fmt: skip
