"""The harness: runs the contenders of a workload interleaved in one process on one core, and records points.

Flows in: batches and contenders from `workloads/`. Flows out: `Point`s, for tables, JSON and plots.

A run of a contender is cut when its time budget is spent: its rate is then that of the rows it did, and
the table says so. (A cut flatters techniques whose windows were not yet full.) Figures are medians over
repeats; in each repeat every contender runs once, then `numpy.sum` over the same value column. The end of
the stream, which gives all windows still open, is off the clock: it is no cost per row.
"""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

import numpy as np

from bench.contenders import ENGINE, Contender
from bench.data import Batch

T = TypeVar("T")

RATE = "rows/s"
SUM_PASS = "numpy.sum"


@dataclass(frozen=True)
class Goal:
    """What Panes must reach: a rate, and a cost per row in passes of `numpy.sum` over the value column."""

    rows_per_s: float | None = None
    sum_passes: float | None = None
    #: any other metric: at most / at least
    most: float | None = None
    least: float | None = None

    def met(self, value: float, sum_passes: float | None) -> bool:
        return not (
            (self.rows_per_s is not None and value < self.rows_per_s)
            or (self.sum_passes is not None and (sum_passes is None or sum_passes > self.sum_passes))
            or (self.most is not None and value > self.most)
            or (self.least is not None and value < self.least)
        )


@dataclass(frozen=True)
class Point:
    """One figure: of which workload and contender, under which parameters."""

    workload: str
    params: dict[str, Any]
    contender: str
    metric: str
    value: float
    goal: Goal | None = None
    #: cost per row in passes of numpy.sum, rows done, whether the input was cut, results, ...
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def met(self) -> bool | None:
        return None if self.goal is None else self.goal.met(self.value, self.extra.get("sum_passes"))

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "met": self.met}


@dataclass(frozen=True)
class Claim:
    """A statement of the literature (SPEC group R) or of the issue, and how to read it off the points."""

    id: str
    text: str
    #: (holds, the figures behind it)
    check: Callable[[list[Point]], tuple[bool, str]]


@dataclass(frozen=True)
class Workload:
    """A named experiment. `x` is the parameter that is swept, None for a plain comparison."""

    name: str
    title: str
    run: Callable[[Any], None]
    x: str | None = None
    claims: tuple[Claim, ...] = ()


@dataclass(frozen=True)
class Options:
    """How long and how large."""

    quick: bool = False
    rows: int | None = None
    repeat: int = 3
    clock: str = "wall"

    @property
    def budget(self) -> float:
        """Seconds that one run of one contender may take."""
        return 0.1 if self.quick else 1.5


@dataclass(frozen=True)
class Run:
    """One pass of one contender over (a part of) the input."""

    rows: int
    seconds: float
    wall: float
    cut: bool
    results_per_row: float  # before the end of the stream
    results: int
    checksum: float

    @property
    def rate(self) -> float:
        return self.rows / self.seconds


class Lab:
    """What a workload sees: sizes to use, and ways to measure and record."""

    def __init__(self, workload: str, options: Options, log: Callable[[str], None] = lambda _: None) -> None:
        self.workload = workload
        self.options = options
        self.points: list[Point] = []
        self._log = log

    def rows(self, full: int, quick: int) -> int:
        """How many rows to generate: `--rows`, or the workload's own size."""
        return self.options.rows or (quick if self.options.quick else full)

    def pick(self, full: T, quick: T) -> T:
        return quick if self.options.quick else full

    def record(
        self, contender: str, metric: str, value: float, *, params: dict[str, Any] | None = None,
        goal: Goal | None = None, **extra: Any,
    ) -> None:  # fmt: skip
        self.points.append(Point(self.workload, params or {}, contender, metric, value, goal, extra))

    def throughput(
        self,
        batches: Sequence[Batch],
        contenders: Sequence[Contender],
        *,
        params: dict[str, Any] | None = None,
        goal: Goal | None = None,
        alike: bool = True,
    ) -> dict[str, Point]:
        """Rows per second of each contender over the batches, interleaved and repeated; `alike`: they must agree."""
        params = params or {}
        values = np.concatenate([b.values for b in batches])
        for contender in contenders:
            self._log(f"{self.workload} {params or ''}: warming up {contender.name}")
            runner = contender.start()
            runner.step(batches[0])
            runner.finish()
        runs: dict[str, list[Run]] = {c.name: [] for c in contenders}
        passes = []
        for repeat in range(self.options.repeat):
            for contender in contenders:
                self._log(f"{self.workload} {params or ''}: {contender.name}, repeat {repeat + 1}")
                runs[contender.name].append(self._run(contender, batches))
            passes.append(self._sum_pass(values))
        return self._points(runs, statistics.median(passes), params, goal, alike=alike)

    def _run(self, contender: Contender, batches: Sequence[Batch]) -> Run:
        runner = contender.start()
        outputs = []
        rows = 0
        gc.collect()
        clock = self.clock
        began, wall = clock(), time.perf_counter()
        for batch in batches:
            outputs.append(runner.step(batch))
            rows += len(batch)
            if clock() - began > self.options.budget:
                break
        seconds, wall = clock() - began, time.perf_counter() - wall
        cut = rows < sum(len(b) for b in batches)
        timely = runner.digest(outputs)[0]
        if not cut:
            outputs.append(runner.finish())
        return Run(rows, max(seconds, 1e-9), wall, cut, timely / rows, *runner.digest(outputs))

    def _sum_pass(self, values: np.ndarray) -> float:
        """Seconds per row of one `numpy.sum` over the whole column."""
        clock = self.clock
        turns = max(1, 2_000_000 // len(values))  # a clock tick must not matter on short columns
        began = clock()
        for _ in range(turns):
            values.sum()
        return max(clock() - began, 1e-9) / turns / len(values)

    @property
    def clock(self) -> Callable[[], float]:
        return time.perf_counter if self.options.clock == "wall" else time.process_time

    def _points(
        self, runs: dict[str, list[Run]], sum_pass: float, params: dict[str, Any], goal: Goal | None, *, alike: bool
    ) -> dict[str, Point]:
        whole = {name: done[0] for name, done in runs.items() if not any(r.cut for r in done)}
        digests = {(r.results, round(r.checksum, 3)) for r in whole.values()}
        out = {}
        for name, done in runs.items():
            rate = statistics.median(r.rate for r in done)
            extra = {
                "sum_passes": 1 / rate / sum_pass,
                "rows": done[0].rows,
                "cut": any(r.cut for r in done),
                "results": done[0].results,
                "results_per_row": done[0].results_per_row,
                "spread": max(r.rate for r in done) / min(r.rate for r in done),
                "busy": statistics.median(r.wall / r.seconds for r in done),
                "agree": len(digests) <= 1 if name in whole and alike else None,
            }
            point = Point(self.workload, params, name, RATE, rate, goal if name == ENGINE else None, extra)
            out[name] = point
            self.points.append(point)
        self.record(SUM_PASS, RATE, 1 / sum_pass, params=params, sum_passes=1.0)
        return out


#: The cores this process was given, before it pinned itself to one.
CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [*range(os.cpu_count() or 1)]


def one_core(core: int | None = None) -> int | None:
    """Pin this process to one core and Arrow to one thread; the core, or None where that can't be done."""
    import pyarrow as pa

    pa.set_cpu_count(1)
    if not hasattr(os, "sched_setaffinity"):
        return None
    core = CORES[-1] if core is None else core
    os.sched_setaffinity(0, {core})
    return core


def run(
    workloads: Sequence[Workload], options: Options, log: Callable[[str], None] = lambda _: None
) -> Iterator[tuple[Workload, list[Point], str | None]]:
    """Each workload's points; with the reason if it could not be run (the others still are)."""
    for workload in workloads:
        lab = Lab(workload.name, options, log)
        failure = None
        try:
            workload.run(lab)
        except Exception as error:  # one broken experiment must not hide the figures of the others
            failure = f"{type(error).__name__}: {error}"
        yield workload, lab.points, failure
