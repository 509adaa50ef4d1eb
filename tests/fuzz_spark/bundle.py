"""Hundreds of programs in one query of a real Spark (`together.py`), against the embedded operator."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from panes.runners.spark.group_operator import take
from panes.runners.spark.packing import PACKED, in_order, to_bytes, unpacked
from panes.runners.spark.strategies.key_groups import static_groups
from panes.windows.base import ALWAYS
from tests.fuzz.engine import Engine
from tests.fuzz_spark.cuts import Move, SparkJob, job_of, random_parts, ticks_of, watermarks
from tests.fuzz_spark.reference import Late, Reference, compare
from tests.fuzz_spark.together import LABELS, Given, Member, Pack, Together, by_query, member, micro_batch
from tests.oracle.oracle import Result

#: micro-batches of a bundle; the query is started again before some of them
BATCHES = 5


def bundled(seed: int) -> SparkJob:
    """A program in as many micro-batches as all programs of a bundle have."""
    job = job_of(seed)
    rng = Random(seed)
    rows = job.program.rows
    cuts = sorted(rng.randint(0, len(rows)) for _ in range(BATCHES - 1))
    pieces = [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)])]
    moves = [Move(random_parts(piece, rng)) for piece in pieces]
    return replace(job, moves=moves, embedded=0, groups=min(job.groups, 3))


def member_of(job: SparkJob) -> Member:
    marks = [ticks_of(millis, job.time) for millis in watermarks([*job.moves, Move()], job.time)]
    early = job.time if job.at_once else None
    return member(job.query, marks[1:], groups=job.groups, keep_late=job.keep_late, at_once=job.at_once, early=early)


class WholeGroup:
    """All rows of a key group at once, then the end: what a static frame does."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = members

    def run(self, packed: pa.Table) -> pa.Table:
        number = packed.column(0)[0].as_py() // LABELS
        places, chunks, rows = (packed.column(i).to_pylist() for i in (1, 2, 3))
        op = self._members[number].query.operator()
        given = pa.concat_tables([*take(op, unpacked(in_order(places, chunks, rows))), op.finish().table])
        late = to_bytes(op.take_late())
        return pa.table({"query": pa.array([number], pa.int32()), "results": [to_bytes(given)], "late": [late]})


#: results and late rows that a program must give
Wanted = tuple[list[Result], list[Late]]


class Bundle:
    """Programs that run together. `differences` has what is wrong, by seed."""

    def __init__(self, seeds: Sequence[int]) -> None:
        self.seeds = list(seeds)
        self.jobs = [bundled(seed) for seed in seeds]
        self.members = [member_of(job) for job in self.jobs]
        self.engines = [Engine(job.program) for job in self.jobs]
        self.differences: dict[int, str] = {}

    def input(self, number: int) -> pa.Table:
        return micro_batch(number, [[job.table(part) for part in job.moves[number].parts if part] for job in self.jobs])

    def stream(self, spark: Any, folder: Path, restarts: Sequence[int]) -> None:
        """Run as a streaming query that is started again before the micro-batches `restarts`."""
        running = Together(spark, self.members, folder)
        references = [Reference(job) for job in self.jobs]
        for first, end in itertools.pairwise([0, *sorted(set(restarts) - {0}), BATCHES]):
            given = running.run(self.input(number) for number in range(first, end))
            self._compare(f"batches {first} to {end}", given, self._steps(references, first, end))

    def _steps(self, references: list[Reference], first: int, end: int) -> list[Wanted]:
        """What programs give from one start of the query to the next; at the end the watermark is felt."""
        wanted = []
        for job, one, reference in zip(self.jobs, self.members, references):
            marks = one.clock.marks
            moves = [*((job.moves[i], marks[i]) for i in range(first, end)), (Move(), marks[end])]
            results = [r for move, mark in moves for r in reference.step(move, None if mark == ALWAYS else mark)]
            wanted.append((results, reference.take_late()))
        return wanted

    def static(self, spark: Any) -> None:
        """Run as a static frame."""
        rows = pa.concat_tables([self.input(number) for number in range(BATCHES)])
        members = [
            replace(m, packer=replace(m.packer, groups=static_groups(m.query.plan, m.groups), pulses=False))
            for m in self.members
        ]
        whole = WholeGroup(members)
        packed = spark.createDataFrame(rows).coalesce(2).mapInArrow(Pack(members), PACKED).groupBy("panes_group")
        found = packed.applyInArrow(lambda table: whole.run(table), "query int, results binary, late binary")
        wanted = []
        for job in self.jobs:
            reference = Reference(job)
            results = reference.step(Move(tuple([row] for row in job.program.rows)), None)
            results += reference.engine.finish()
            wanted.append((results, reference.take_late()))
        self._compare("static", by_query([found.toArrow()]), wanted)

    def _compare(self, when: str, found: Mapping[int, Given], wanted: list[Wanted]) -> None:
        for p, (seed, job, (want, want_late)) in enumerate(zip(self.seeds, self.jobs, wanted, strict=True)):
            given = found.get(p, Given())
            results = [r for table in given.results for r in self.engines[p].results(table)]
            late = [
                pair
                for table in given.late
                if "id" in table.column_names
                for pair in zip(table["id"].to_pylist(), table["reason"].to_pylist(), strict=True)
            ]
            wrong = compare(job, [want], [results], [want_late], [late])
            if wrong is not None:
                self.differences.setdefault(seed, f"{when}: {wrong}")


def check_bundle(spark: Any, seeds: Sequence[int], folder: Path) -> dict[int, str]:
    """Streaming with restarts and static; what differs from the embedded operator, by seed."""
    bundle = Bundle(seeds)
    restarts = [i for i in range(1, BATCHES) if Random(seeds[0] + i).random() < 0.4]
    bundle.stream(spark, folder, restarts)
    bundle.static(spark)
    return bundle.differences
