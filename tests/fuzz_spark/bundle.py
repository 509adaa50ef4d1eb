"""Hundreds of programs in one query of a real Spark: its scheduler, shuffle, state store, timers, checkpoints.

A stateful micro-batch costs half a second however little is in it, so programs share them. A row of the input is
a program's number and some of its rows; packing and processing pass it to the code of that program. What is not
Spark's own here is only the clock: after micro-batch i Spark's watermark is i seconds, and each program reads
that as the watermark which its own rows have made by then.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import panes as pn
from panes.runners.spark.group_operator import GroupQuery, take, used_columns
from panes.runners.spark.packing import PACKED, Packer, from_bytes, in_order, to_bytes, unpacked
from panes.runners.spark.processor import GIVEN, GroupProcessor
from panes.runners.spark.strategies.key_groups import static_groups
from panes.windows.base import ALWAYS, NEVER
from tests.fuzz.engine import Engine
from tests.fuzz_spark.cuts import Move, SparkJob, job_of, random_parts, ticks_of, watermarks
from tests.fuzz_spark.reference import Late, Reference, compare
from tests.fuzz_spark.single import collect
from tests.oracle.oracle import Result

#: micro-batches of a bundle; the query is started again before some of them
BATCHES = 5
#: labels of a program's key groups lie in a range of their own
LABELS = 1_000_000
#: a watermark that no row is behind
BEFORE_ALL = -(2**60)
INPUT = pa.schema([("program", pa.int32()), ("rows", pa.binary()), ("at", pa.timestamp("us", "UTC"))])


@dataclass(frozen=True)
class Clock:
    """Stands in for EventTime: Spark's watermark counts micro-batches, `marks[i]` is that of i batches in ticks."""

    marks: tuple[int, ...]

    def watermark(self, millis: int) -> int:
        return self.marks[millis // 1000] if millis > 0 else ALWAYS

    def millis(self, tick: int) -> int:
        at = next((i for i, mark in enumerate(self.marks) if mark >= tick), None)
        return 10**9 if tick >= NEVER or at is None else at * 1000


@dataclass(frozen=True)
class Part:
    """What workers know of a program."""

    packer: Packer
    query: GroupQuery
    clock: Clock
    groups: int
    keep_late: bool


def bundled(seed: int) -> SparkJob:
    """A program in as many micro-batches as all programs of a bundle have."""
    job = job_of(seed)
    rng = Random(seed)
    rows = job.program.rows
    cuts = sorted(rng.randint(0, len(rows)) for _ in range(BATCHES - 1))
    pieces = [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)])]
    moves = [Move(random_parts(piece, rng)) for piece in pieces]
    return replace(job, moves=moves, embedded=0, groups=min(job.groups, 3))


def marks(job: SparkJob) -> tuple[int, ...]:
    """The watermark after 0, 1, 2, ... micro-batches, in ticks. Spark's has begun with the first of them."""
    found = [ticks_of(millis, job.time) for millis in watermarks([*job.moves, Move()], job.time)]
    return (ALWAYS, *(BEFORE_ALL if tick is None else tick for tick in found[1:]))


def part_of(job: SparkJob) -> Part:
    plan = job.query._plan
    columns = tuple(plan.stream.schema.names) if job.keep_late else used_columns(plan)
    packer = Packer(plan.stream, columns, job.groups)
    return Part(packer, GroupQuery(plan, columns), Clock(marks(job)), job.groups, job.keep_late)


class Pack:
    """Rows of many programs to packed rows of their key groups."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        first = 1000 * (0 if context is None else context.partitionId())
        seen = 0
        for batch in batches:
            for number, data in zip(batch["program"].to_pylist(), batch["rows"].to_pylist()):
                for packed in self._parts[number].packer(iter(from_bytes(data).to_batches())):
                    labels = pa.array([label + number * LABELS for label in packed[0].to_pylist()], pa.int32())
                    places = pa.array([first + seen] * packed.num_rows, pa.int32())
                    seen += 1
                    yield pa.RecordBatch.from_arrays([labels, places, *packed.columns[2:]], schema=packed.schema)


class Shared:
    """A handle for many processors: Spark lets a variable be asked for only once."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._known: dict[str, Any] = {}

    def getValueState(self, name: str, schema: str) -> Any:
        return self._known.setdefault(name, None) or self._new(name, self._handle.getValueState(name, schema))

    def getMapState(self, name: str, key: str, value: str) -> Any:
        return self._known.setdefault(name, None) or self._new(name, self._handle.getMapState(name, key, value))

    def _new(self, name: str, state: Any) -> Any:
        self._known[name] = state
        return state

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handle, name)


class BundleProcessor(StatefulProcessor):
    """Hands every call to the processor of its program."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._processors = [GroupProcessor(p.query, p.clock, p.groups, keep_late=p.keep_late) for p in parts]

    def init(self, handle: Any) -> None:
        shared = Shared(handle)
        # the variables must be there before the first row comes
        self._processors[0].init(shared)
        self._shared: Any = shared
        self._begun = {0}

    def _of(self, key: Any) -> tuple[int, GroupProcessor]:
        number = int(key[0]) // LABELS
        if number not in self._begun:
            self._processors[number].init(self._shared)
            self._begun.add(number)
        return number, self._processors[number]

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        number, processor = self._of(key)
        for frame in processor.handleInputRows(key, rows, timerValues):
            yield frame.assign(program=number)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        number, processor = self._of(key)
        for frame in processor.handleExpiredTimer(key, timerValues, expiredTimerInfo):
            yield frame.assign(program=number)

    def close(self) -> None:
        """Nothing is open."""


class WholeGroup:
    """All rows of a key group at once, then the end: what a static frame does."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts

    def run(self, packed: pa.Table) -> pa.Table:
        number = packed.column(0)[0].as_py() // LABELS
        places, chunks, rows = (packed.column(i).to_pylist() for i in (1, 2, 3))
        op = self._parts[number].query.operator()
        given = [*take(op, unpacked(in_order(places, chunks, rows))), op.finish().table]
        late = op.take_late()
        return pa.table(
            {"program": pa.array([number], pa.int32()), "results": [_joined(given)], "late": [to_bytes(late)]}
        )


def _joined(tables: list[pa.Table]) -> bytes:
    return to_bytes(pa.concat_tables(tables))


#: results and late rows of one program
Given = tuple[list[Result], list[Late]]


class Bundle:
    """Programs that run together. `differences` has what is wrong, by seed."""

    def __init__(self, seeds: Sequence[int]) -> None:
        self.seeds = list(seeds)
        self.jobs = [bundled(seed) for seed in seeds]
        self.parts = [part_of(job) for job in self.jobs]
        self.engines = [Engine(job.program) for job in self.jobs]
        self.differences: dict[int, str] = {}

    def input(self, number: int) -> pa.Table:
        """Micro-batch `number` of all programs, and a row that moves the watermark."""
        rows = [
            {"program": p, "rows": to_bytes(job.table(part)), "at": None}
            for p, job in enumerate(self.jobs)
            for part in job.moves[number].parts
            if part
        ]
        empty = to_bytes(self.jobs[0].table([]))
        rows.append({"program": 0, "rows": empty, "at": (number + 1) * 1_000_000})
        columns = {f.name: pa.array([row[f.name] for row in rows], f.type) for f in INPUT}
        return pa.table(columns, schema=INPUT)

    def stream(self, spark: Any, folder: Path, restarts: Sequence[int]) -> None:
        """Run as a streaming query that is started again before the micro-batches `restarts`."""
        source = pn.testing.MicroBatches(spark, schema=INPUT, partitions=2, folder=folder / "input")
        marked = source.frame.withWatermark("at", "0 milliseconds")
        given = (
            marked.mapInArrow(Pack(self.parts), PACKED)
            .groupBy("panes_group")
            .transformWithStateInPandas(
                BundleProcessor(self.parts),
                outputStructType=f"{GIVEN}, program int",
                outputMode="append",
                timeMode="EventTime",
            )
            .select("program", "results", "late")
        )
        edges = [0, *sorted(set(restarts) - {0}), BATCHES]
        references = [Reference(job) for job in self.jobs]
        for first, end in itertools.pairwise(edges):
            for number in range(first, end):
                source.add(self.input(number))
            self._compare(
                f"batches {first} to {end}",
                _rows(collect(given, folder / "checkpoint")),
                self._steps(references, first, end),
            )

    def _steps(self, references: list[Reference], first: int, end: int) -> list[Given]:
        """What programs give from one start of the query to the next; at the end the watermark is felt."""
        wanted = []
        for job, part, reference in zip(self.jobs, self.parts, references):
            moves = [*((job.moves[i], part.clock.marks[i]) for i in range(first, end)), (Move(), part.clock.marks[end])]
            results = [r for move, mark in moves for r in reference.step(move, None if mark == ALWAYS else mark)]
            wanted.append((results, reference.take_late()))
        return wanted

    def static(self, spark: Any) -> None:
        """Run as a static frame."""
        rows = pa.concat_tables([self.input(number) for number in range(BATCHES)])
        parts = [replace(p, packer=replace(p.packer, groups=static_groups(p.query.plan, p.groups))) for p in self.parts]
        whole = WholeGroup(parts)
        frame = spark.createDataFrame(rows).coalesce(2)
        packed = frame.mapInArrow(Pack(parts), PACKED).groupBy("panes_group")
        found = packed.applyInArrow(lambda table: whole.run(table), "program int, results binary, late binary")
        wanted = []
        for job in self.jobs:
            reference = Reference(job)
            results = reference.step(Move(tuple([row] for row in job.program.rows)), None)
            results += reference.engine.finish()
            wanted.append((results, reference.take_late()))
        self._compare("static", _rows([found.toArrow()]), wanted)

    def _compare(self, when: str, rows: list[dict[str, Any]], wanted: list[Given]) -> None:
        results: dict[int, list[Result]] = defaultdict(list)
        late: dict[int, list[Late]] = defaultdict(list)
        for row in rows:
            if row["results"] is not None:
                results[row["program"]] += self.engines[row["program"]]._results(from_bytes(row["results"]))
            if row["late"] is not None:
                table = from_bytes(row["late"])
                if "id" in table.column_names:
                    pairs = zip(table["id"].to_pylist(), table["reason"].to_pylist(), strict=True)
                    late[row["program"]] += pairs
        for p, (seed, job, (want, want_late)) in enumerate(zip(self.seeds, self.jobs, wanted, strict=True)):
            wrong = compare(job, [want], [results[p]], [want_late], [late[p]])
            if wrong is not None:
                self.differences.setdefault(seed, f"{when}: {wrong}")


def _rows(tables: list[pa.Table]) -> list[dict[str, Any]]:
    return [row for table in tables for row in table.to_pylist()]


def check_bundle(spark: Any, seeds: Sequence[int], folder: Path) -> dict[int, str]:
    """Streaming with restarts and static; what differs from the embedded operator, by seed."""
    bundle = Bundle(seeds)
    restarts = [i for i in range(1, BATCHES) if Random(seeds[0] + i).random() < 0.4]
    bundle.stream(spark, folder, restarts)
    bundle.static(spark)
    return bundle.differences
