"""Random programs for the partial lane, and the two ways to run them: through the lane and through the oracle.

A program is windows, aggregates, and steps: rows, watermarks, dumps and loads. Values are small integers (and
nulls), so that sums are exact whatever the order.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from panes import aggregates
from panes.aggregates.base import Column
from panes.aggregates.columns import column_from_arrow
from panes.slicing.keys import KeyDirectory
from panes.slicing.lane import Agg, Arriving, Results, RowBatch, RunningWindow
from panes.slicing.partials.partial_lane import PartialLane
from panes.windows.anchored import Cumulating, FixedWindow, LandmarkWindows
from panes.windows.base import ALWAYS, TIME, Bound
from panes.windows.periodic import Periodic
from panes.windows.session import SessionScan
from tests.oracle.oracle import Oracle

Spec = tuple[Any, ...]


def bound_window(spec: Spec) -> Bound:
    """The bound window of an oracle's spec."""
    kind, *args = spec
    if kind == "tumbling":
        return Periodic(TIME, size=args[0], slide=args[0], offset=args[1] if len(args) > 1 else 0)
    if kind == "sliding":
        return Periodic(TIME, size=args[0], slide=args[1], offset=args[2] if len(args) > 2 else 0)
    if kind == "cumulate":
        return Cumulating(TIME, step=args[0], size=args[1])
    if kind == "landmark":
        return LandmarkWindows(TIME, start=args[0], every=args[1])
    if kind == "fixed":
        return FixedWindow(TIME, start=args[0], end=args[1])
    if kind == "session":
        return SessionScan(TIME, gap=args[0])
    if kind == "session_by":
        return SessionScan(TIME, gap_column=args[0], columns=(args[0],))
    raise ValueError(kind)


def bound_aggregate(spec: Spec) -> Agg:
    name, *args = spec
    if name == "count_rows":
        return Agg("n", (), aggregates.count().bind([]))
    return Agg(name, (args[0],), getattr(aggregates, name)(args[0]).bind([pa.int64()]))


@dataclass
class Program:
    windows: dict[str, Spec]
    aggregates: list[Spec]
    keyed: bool
    lateness: int | None
    store: str = "auto"
    steps: list[tuple[Any, ...]] = field(default_factory=list)


def random_window(rng: random.Random) -> Spec:
    kinds = ["tumbling", "sliding", "session"] * 2 + ["cumulate", "landmark", "fixed", "session_by"]
    kind = rng.choice(kinds)
    if kind == "tumbling":
        return (kind, rng.randint(1, 12), rng.randint(-5, 5))
    if kind == "sliding":
        return (kind, rng.randint(1, 20), rng.randint(1, 12), rng.randint(-5, 5))
    if kind == "cumulate":
        step = rng.randint(1, 4)
        return (kind, step, step * rng.randint(1, 5))
    if kind == "landmark":
        return (kind, rng.randint(-20, 60), rng.randint(1, 9))
    if kind == "fixed":
        start = rng.randint(-20, 60)
        return (kind, start, start + rng.randint(1, 30))
    if kind == "session":
        return (kind, rng.randint(1, 8))
    return (kind, "g")


def random_program(rng: random.Random) -> Program:
    windows = {f"w{i}": random_window(rng) for i in range(rng.randint(1, 4))}
    wanted: list[Spec] = [("sum", "v"), ("count_rows",)]
    if rng.random() < 0.5:
        wanted += rng.sample([("min", "v"), ("max", "v"), ("avg", "v"), ("count", "v")], 2)
    if rng.random() < 0.3:
        wanted.append(rng.choice([("median", "v"), ("count_distinct", "v")]))
    keyed = rng.random() < 0.6
    program = Program(windows, wanted, keyed, rng.choice([None, None, 0, 5, 30]), rng.choice(["auto", "lazy", "eager"]))
    keys = rng.choice([1, 3, 80]) if keyed else 1
    at = rng.randint(-50, 50)
    spread = rng.choice([0, 3, 30])
    watermark = None
    for _ in range(rng.randint(1, 12)):
        step = rng.random()
        if step < 0.55:
            rows = []
            for _ in range(rng.choice([1, 3, 10, 60])):
                at += rng.choice([0, 0, 1, 1, 2, 7]) if rng.random() < 0.97 else rng.choice([100, 10**6, 10**12])
                value = None if rng.random() < 0.1 else rng.randint(-9, 9)
                late = rng.randint(0, spread)
                rows.append((rng.randrange(keys), at - late, value, rng.choice([0, 1, 3, 6])))
            program.steps.append(("rows", rows))
        elif step < 0.9:
            watermark = at - rng.randint(0, 10)
            program.steps.append(("advance", watermark))
        else:
            program.steps.append(("move", rng.randint(1, 3)))
    if rng.random() < 0.8:
        program.steps.append(("finish",))
    return program


class LaneRunner:
    """Runs steps through lanes: several after a move, each with some of the keys."""

    def __init__(self, program: Program, emit_empty: bool = False) -> None:
        self.program = program
        self.emit_empty = emit_empty
        self.numbers = {label: i for i, label in enumerate(program.windows)}
        self.queries = [
            RunningWindow(label, i, bound_window(program.windows[label])) for label, i in self.numbers.items()
        ]
        self.aggs = [bound_aggregate(a) for a in program.aggregates]
        self.keys = KeyDirectory([pa.int64()])
        self.lane = self.new_lane()
        self.watermark = ALWAYS
        self.seq = 0
        self.used = 0

    def new_lane(self) -> PartialLane:
        p = self.program
        return PartialLane(
            self.queries,
            self.aggs,
            lateness=p.lateness,
            keyed=p.keyed,
            store=p.store,
            emit_empty=self.emit_empty,
        )

    def rows(self, rows: list[tuple[Any, ...]]) -> list[Any]:
        batch = self.batch(rows)
        behind = np.flatnonzero(batch.times < self.watermark)
        if not len(behind):
            self.lane.add(batch)
            return []
        taken = self.lane.take(Arriving(batch, np.full(len(batch), self.watermark), behind, self.watermark))
        return [each for results in taken.results for each in self.shown(results)]

    def batch(self, rows: list[tuple[Any, ...]]) -> RowBatch:
        times = np.array([r[1] for r in rows], np.int64)
        columns: dict[str, Column] = {
            "v": column_from_arrow(pa.array([r[2] for r in rows], pa.int64())),
            "g": column_from_arrow(pa.array([r[3] for r in rows], pa.int64())),
        }
        slots = self.keys.slots([pa.array([r[0] for r in rows], pa.int64())]) if self.program.keyed else None
        self.seq += len(rows)
        in_order = bool(np.all(times[1:] >= times[:-1]))
        return RowBatch(slots, times, np.arange(self.seq - len(rows), self.seq), columns, in_order)

    def advance(self, watermark: int) -> list[Any]:
        if watermark <= self.watermark:
            return []
        due = self.lane.next_due(self.watermark)
        self.watermark = watermark
        found = self.shown(self.lane.advance(watermark))
        assert not found or due <= watermark, "a result came before next_due"
        return found

    def finish(self) -> list[Any]:
        return self.shown(self.lane.finish())

    def move(self, parts: int) -> None:
        """Dump the state in parts by key group, and load all of them into a new lane."""
        if not self.program.keyed:
            tables = self.lane.dump(np.arange(1))
            self.lane = self.new_lane()
            self.lane.load(tables, np.zeros(1, np.int64))
            return
        slots = np.arange(len(self.keys))
        groups = self.keys.groups(slots) % parts
        keys = KeyDirectory([pa.int64()])
        lane = self.new_lane()
        for part in range(parts):
            mine = slots[groups == part]
            lane.load(self.lane.dump(mine), keys.load(self.keys.dump(mine)))
        self.lane, self.keys = lane, keys

    def shown(self, results: Results) -> list[Any]:
        labels = {i: label for label, i in self.numbers.items()}
        keys = self.keys.key_columns(results.slots)[0].to_pylist() if self.program.keyed else [None] * len(results)
        values = list(zip(*(v.to_pylist() for v in results.values)))
        all = results.written()
        return [
            (keys[i], labels[int(all.query[i])], int(all.start[i]), int(all.end[i]),
             int(all.revision[i]), bool(all.void[i]), values[i])
            for i in range(len(results))
        ]  # fmt: skip


def run_lane(program: Program) -> list[Counter[Any]]:
    runner = LaneRunner(program)
    out = []
    for name, *args in program.steps:
        out.append(Counter(getattr(runner, name)(*args) or []))
    return out


def run_oracle(program: Program) -> list[Counter[Any]]:
    oracle = Oracle(
        program.windows, program.aggregates, keys=("k",) if program.keyed else (), watermark="manual",
        lateness=program.lateness,
    )  # fmt: skip
    out = []
    for name, *args in program.steps:
        found: list[Any] = []
        if name == "rows":
            found = oracle.push([{"k": k, "ts": t, "v": v, "g": g} for k, t, v, g in args[0]])
        elif name == "advance":
            found = oracle.advance(args[0])
        elif name == "finish":
            found = oracle.finish()
        out.append(
            Counter(
                (r.key[0] if r.key else None, r.window, r.start, r.end, r.revision, r.void, r.values) for r in found
            )
        )
    return out
