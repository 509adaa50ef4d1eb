"""A program of the engine's generator, cut into what Spark would see: micro-batches, partitions, key groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random
from typing import Any

import pyarrow as pa

from panes.runners.spark.event_time import EventTime
from panes.windows.base import ALWAYS
from tests.fuzz.engine import ARROW, build_query
from tests.fuzz.programs import Data, Program, generate

#: bounds of a watermark, in the ticks of a program whose own is not used
BOUNDS = (0, 0, 1, 2, 3, 5, 8)


@dataclass(frozen=True)
class Move:
    """A micro-batch: the rows of each input partition (none: only the watermark moves)."""

    parts: tuple[list[Data], ...] = ()
    restart: bool = False  # the query is stopped before, and starts from its checkpoint
    lost: bool = False  # the batch is done once without being committed, and then again

    @property
    def rows(self) -> list[Data]:
        return [row for part in self.parts for row in part]


@dataclass(frozen=True)
class SparkJob:
    """How a program runs on Spark. Plain data made from the program and one integer."""

    program: Program
    moves: Sequence[Move]
    groups: int
    keep_late: bool
    embedded: int  # so many moves are done embedded; Spark starts from the snapshot
    log_bytes: int  # what is logged before a snapshot is written
    piece_bytes: int
    at_once: bool  # event time passes with the rows of a key group

    @cached_property
    def query(self) -> Any:
        return build_query(self.program)

    @cached_property
    def time(self) -> EventTime:
        return EventTime.of(self.query._plan.stream)

    @cached_property
    def schema(self) -> pa.Schema:
        unit = self.program.time_unit
        ts = pa.int64() if unit is None else pa.timestamp(unit)
        types = {"ts": ts, **{c: ARROW[t] for c, t in self.program.types.items()}}
        return pa.schema([("id", pa.int64()), *types.items()])

    def table(self, rows: list[Data]) -> pa.Table:
        return pa.table([pa.array([row[f.name] for row in rows], f.type) for f in self.schema], schema=self.schema)


def watermarks(moves: Sequence[Move], time: EventTime) -> list[int]:
    """Spark's watermark in each of the moves, in milliseconds: that of the rows before it."""
    now, found = 0, []
    for move in moves:
        found.append(now)
        ticks = [row["ts"] for row in move.rows if row["ts"] is not None]
        if ticks:
            now = max(now, max(ticks) * time.up // time.down + time.shift - time.bound)
    return found


def ticks_of(millis: int, time: EventTime) -> int | None:
    """The watermark as the embedded operator is told it; None: there is none yet."""
    ticks = time.watermark(millis)
    return None if ticks <= ALWAYS else ticks


def adapted(program: Program, rng: Random) -> Program:
    """The program with a watermark that Spark can make, without changes of windows."""
    watermark = program.watermark
    if watermark == "manual":
        scale = 1000 if any(isinstance(a, int) and a >= 1000 for s in program.windows.values() for a in s) else 1
        watermark = rng.choice(BOUNDS) * scale
    rows = [step for step in program.steps if step[0] == "push"]
    unit = "us" if program.time_unit == "ns" else program.time_unit
    return replace(program, watermark=watermark, time_unit=unit, steps=rows)


def spark_job(program: Program, seed: int) -> SparkJob:
    """Cut a program at random; the same seed cuts it alike."""
    rng = Random(seed * 2 + 1)
    program = adapted(program, rng)
    at_once = Random(seed).random() < 0.4
    if at_once:  # each key group's time passes by its own rows, so that moments of early results differ
        program = replace(program, early=None)
    moves = random_moves(program.rows, rng)
    return SparkJob(
        program=program,
        moves=moves,
        groups=rng.choice((1, 2, 3, 16)) if program.keys else rng.choice((1, 4)),
        keep_late=rng.random() < 0.7,
        embedded=rng.randrange(len(moves)) if rng.random() < 0.15 else 0,
        log_bytes=rng.choice((0, 10_000, 1 << 18)),
        piece_bytes=rng.choice((500, 1 << 20)),
        at_once=at_once,
    )


def job_of(seed: int) -> SparkJob:
    return spark_job(generate(seed), seed)


def random_moves(rows: list[Data], rng: Random, *, most: int = 8) -> list[Move]:
    """Rows in order, cut into micro-batches; a last one without rows, so that the watermark is felt."""
    cuts = sorted(rng.randint(0, len(rows)) for _ in range(rng.randint(0, most - 1)))
    pieces = [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)])]
    moves: list[Move] = []
    for piece in pieces:
        restart, lost = rng.random() < 0.2, rng.random() < 0.15
        moves.append(Move(random_parts(piece, rng), restart, lost) if piece else Move((), restart, lost))
        if rng.random() < 0.2:
            moves.append(Move())
    return [*moves, Move()]


def random_parts(rows: list[Data], rng: Random) -> tuple[list[Data], ...]:
    inner = sorted(rng.randint(0, len(rows)) for _ in range(rng.choice((0, 0, 1, 2))))
    return tuple(rows[a:b] for a, b in zip([0, *inner], [*inner, len(rows)]))
