"""One program through the public API on a real Spark: `to_spark()` on a streaming and on a static frame."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute
from pyspark.errors import StreamingQueryException

import panes as pn
from panes.runners.spark.frames import frame_of
from panes.runners.spark.runner import STRATEGIES
from panes.runners.spark.strategies.card import StrategyJob
from panes.runners.spark.strategies.key_groups import KEY_GROUPS
from tests.fuzz.code import query_code
from tests.fuzz.engine import NAMES, Engine
from tests.fuzz_spark.cuts import Move, SparkJob, job_of, random_moves, ticks_of, watermarks
from tests.fuzz_spark.reference import Late, Reference, compare
from tests.oracle.oracle import Result

#: so often a query is started again where the machine was too busy to start a process
ATTEMPTS = 20


def single(seed: int) -> SparkJob | None:
    """The program in a few micro-batches; None if its time is in units that no frame of Spark has."""
    job = job_of(seed)
    if job.program.time_unit not in (None, "us"):
        return None
    moves = random_moves(job.program.rows, Random(seed), most=4)
    data = [replace(m, lost=False) for m in moves if m.rows]
    return replace(job, moves=data, embedded=0, keep_late=True, groups=max(job.groups, 2))


def query_over(frame: Any, job: SparkJob) -> Any:
    """The query of a program with a frame as its data."""
    code = query_code(job.program)
    schema = code.index("None, schema="), code.index("}, time=") + 1
    return eval(f"{code[: schema[0]]}frame{code[schema[1] :]}", {**NAMES, "frame": frame})


def check_single(spark: Any, seed: int, folder: Path) -> str | None:
    """What differs from the embedded operator, streaming or static; None: nothing."""
    job = single(seed)
    if job is None or not job.moves:
        return None
    return check_stream(spark, job, folder) or check_static(spark, job)


def check_stream(spark: Any, job: SparkJob, folder: Path) -> str | None:
    source = pn.testing.MicroBatches(spark, schema=job.schema, partitions=2, folder=folder / "input")
    frame = query_over(source.frame, job).to_spark(
        late=True, key_groups=job.groups, close="at once" if job.at_once else None
    )
    reference = Reference(job, beginning=job.time.beginning)
    marks = [ticks_of(millis, job.time) for millis in watermarks([*job.moves, Move()], job.time)]
    restarts = [i for i, move in enumerate(job.moves) if move.restart and i]
    edges = [0, *restarts, len(job.moves)]
    for first, end in itertools.pairwise(edges):
        for move in job.moves[first:end]:
            source.add(job.table(move.rows))
        got, got_late = given(job, collect(frame, folder / "checkpoint"))
        steps = [*zip(job.moves[first:end], marks[first:end]), (Move(), marks[end])]
        want = [r for move, mark in steps for r in reference.step(move, mark)]
        wrong = compare(job, [want], [got], [reference.take_late()], [got_late])
        if wrong is not None:
            return f"streaming, batches {first} to {end}: {wrong}"
    return None


def check_static(spark: Any, job: SparkJob) -> str | None:
    """With every strategy that can run the program."""
    rows = [row for move in job.moves for row in move.rows]
    query = query_over(spark.createDataFrame(job.table(rows)), job)
    reference = Reference(job)
    want = [*reference.step(Move((rows,)), None), *reference.engine.finish()]
    want_late = reference.take_late()
    for strategy in applicable(query):
        late = strategy == KEY_GROUPS.name
        table = query.to_spark(late=late, key_groups=job.groups, strategy=strategy).toArrow()
        got, got_late = given(job, [table])
        wrong = compare(job, [want], [got], [want_late] if late else [], [got_late] if late else [])
        if wrong is not None:
            return f"static, {strategy}: {wrong}"
    return None


def applicable(query: Any) -> list[str]:
    """Names of the strategies that can run a query over a static frame."""
    job = StrategyJob(query._plan, frame_of(query._node.source))
    return [strategy.name for strategy in STRATEGIES if strategy.refuses(job) is None]


def given(job: SparkJob, tables: list[pa.Table]) -> tuple[list[Result], list[Late]]:
    """Results and late rows of a frame with both."""
    engine = Engine(job.program)
    results: list[Result] = []
    late: list[Late] = []
    for table in tables:
        if "late_reason" not in table.column_names:
            results += engine.results(table)
            continue
        is_late = table["late_reason"].is_valid()
        results += engine.results(table.filter(pa.compute.invert(is_late)))
        missed = table.filter(is_late)
        pairs = zip(missed["late_row"].to_pylist(), missed["late_reason"].to_pylist(), strict=True)
        late += [(row["id"], reason) for row, reason in pairs]
    return results, late


def collect(frame: Any, checkpoint: Path) -> list[pa.Table]:
    """Run over all that is there; each micro-batch's rows once."""
    found: dict[int, pa.Table] = {}

    def keep(batch: Any, number: int) -> None:
        found[number] = batch.toArrow()

    writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint))
    for attempt in range(ATTEMPTS):
        try:
            writer.trigger(availableNow=True).start().awaitTermination()
            break
        except StreamingQueryException as error:
            # Spark gives a new Python process 10 s to start; a machine that is too busy for that has failed nothing
            if "connect back" not in str(error) or attempt == ATTEMPTS - 1:
                raise
            time.sleep(attempt)
    return [found[number] for number in sorted(found)]
