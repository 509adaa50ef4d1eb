"""What a job must give: the embedded operator, driven by micro-batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from panes.runners.spark.group_operator import GroupQuery
from panes.windows.base import ALWAYS
from tests.fuzz.compare import difference, show
from tests.fuzz.engine import Engine
from tests.fuzz_spark.cuts import Move, SparkJob, ticks_of, watermarks
from tests.oracle.oracle import Result

#: (id of the row, reason) of a late row
Late = tuple[Any, str]


class Reference:
    """The embedded operator: push the rows of a batch, then advance to its watermark. Where windows are given at once
    it is the other way round."""

    def __init__(self, job: SparkJob, blob: bytes | None = None, *, beginning: int = ALWAYS) -> None:
        """`beginning`: where event time is before the first rows come."""
        self.job = job
        self.beginning = ALWAYS if job.at_once else beginning
        self.engine = Engine(replace(job.program, watermark="manual"))
        if blob is not None:
            # the public API restores the query with the watermark that it had
            plan = job.query._plan
            self.engine.op = GroupQuery(plan, tuple(plan.stream.schema.names)).operator([blob])

    def step(self, move: Move, watermark: int | None) -> list[Result]:
        if self.job.at_once:
            return self._reach(watermark) + self._take(move)
        begun = self._reach(self.beginning) if move.rows else []  # without rows nobody is called
        return begun + self._take(move) + self._reach(watermark)

    def _reach(self, watermark: int | None) -> list[Result]:
        if watermark is None or watermark <= self.engine.op.watermark:
            return []
        return self.engine.advance(watermark)

    def _take(self, move: Move) -> list[Result]:
        return self.engine.results(self.engine.op.push(self.job.table(move.rows))) if move.rows else []

    def take_late(self) -> list[Late]:
        table = self.engine.op.take_late()
        return list(zip(table["id"].to_pylist(), table["reason"].to_pylist(), strict=True))


def snapshot_before(job: SparkJob) -> bytes | None:
    """The state with which Spark begins: that of an embedded run of the query over the first rows."""
    if not job.embedded:
        return None
    engine = Engine(job.program)
    for move in job.moves[: job.embedded]:
        engine.push(move.rows)
    return bytes(engine.op.snapshot())


def embedded(job: SparkJob, blob: bytes | None) -> tuple[list[list[Result]], list[list[Late]]]:
    """Results and late rows of each move that Spark does."""
    reference = Reference(job, blob, beginning=job.time.beginning)
    reference.take_late()
    results, late = [], []
    moves = job.moves[job.embedded :]
    for move, millis in zip(moves, watermarks(moves, job.time), strict=True):
        results.append(reference.step(move, ticks_of(millis, job.time)))
        late.append(reference.take_late())
    return results, late


def compare(
    job: SparkJob, want: list[list[Result]], got: list[list[Result]], want_late: list[list[Late]], got_late: Any
) -> str | None:
    """None, or the first micro-batch that differs and how."""
    if job.at_once:
        wrong = _out_of_time(want, got)
        if wrong is not None:
            return wrong
        want, got, want_late, got_late = ([_together(steps)] for steps in (want, got, want_late, got_late))
    for number, (wanted, found) in enumerate(zip(want, got, strict=True)):
        wrong = difference(wanted, found, job.program.aggregates, job.program.own)
        if wrong:
            return f"step {number} of {len(want)}: {wrong}"
    if job.keep_late:
        for number, (wanted, found) in enumerate(zip(want_late, got_late, strict=True)):
            if Counter(wanted) != Counter(found):
                return f"ledger of step {number}: should hold {wanted}, holds {found}"
    return None


def _together(steps: Iterable[list[Any]]) -> list[Any]:
    return [each for step in steps for each in step]


def _out_of_time(want: list[list[Result]], got: list[list[Result]]) -> str | None:
    """Results come with the micro-batch of the rows that close their windows, or with the next, which the embedded
    operator gives them in."""
    steps = {result[:8]: number for number, results in enumerate(want) for result in results}
    for number, results in enumerate(got):
        for result in results:
            due = steps.get(result[:8], number)
            if not due - 1 <= number <= due:
                return f"step {number}: {show(result[:8])} is due in step {due}"
    return None
