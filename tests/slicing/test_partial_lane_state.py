"""State of the partial lane as Arrow tables: whole, by key, split over lanes that go on apart, and together again."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from panes.errors import SnapshotMismatch
from panes.slicing.keys import KeyDirectory
from tests.slicing.lane_programs import LaneRunner, Program, random_program, run_oracle


class SplitRunner:
    """Keys by group over several lanes, each with a directory of its own; all see the same watermarks."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.whole = LaneRunner(program)
        self.parts: list[LaneRunner] = [self.whole]
        self.router = KeyDirectory([pa.int64()])

    def split(self, parts: int) -> None:
        """Gather the state of all lanes, then give each new lane its key groups."""
        dumps = []
        for runner in self.parts:
            slots = np.arange(len(runner.keys))
            groups = runner.keys.groups(slots) % parts
            dumps += [
                (part, runner.lane.dump(slots[groups == part]), runner.keys.dump(slots[groups == part]))
                for part in range(parts)
            ]
        fresh = []
        for part in range(parts):
            runner = LaneRunner(self.program)
            runner.watermark = self.parts[0].watermark
            for owner, tables, keys in dumps:
                if owner == part:
                    runner.lane.load(tables, runner.keys.load(keys))
            fresh.append(runner)
        self.parts = fresh

    def rows(self, rows: list[tuple[Any, ...]]) -> list[Any]:
        groups = self.router.groups(self.router.slots([pa.array([r[0] for r in rows])])) % len(self.parts)
        out: list[Any] = []
        for part, runner in enumerate(self.parts):
            out += runner.rows([r for r, g in zip(rows, groups.tolist()) if g == part])
        return out

    def advance(self, watermark: int) -> list[Any]:
        return [r for runner in self.parts for r in runner.advance(watermark)]

    def finish(self) -> list[Any]:
        return [r for runner in self.parts for r in runner.finish()]


@pytest.mark.parametrize("block", range(4))
def test_lanes_split_by_key_go_on_as_one(block: int) -> None:
    for seed in range(100 * block, 100 * block + 15):
        rng = random.Random(seed)
        program = random_program(rng)
        program.keyed = True
        runner = SplitRunner(program)
        for i, ((name, *args), want) in enumerate(zip(program.steps, run_oracle(program), strict=True)):
            if name == "move":
                runner.split(args[0])
                continue
            assert Counter(getattr(runner, name)(*args)) == want, f"seed {seed}, step {i}"
            if rng.random() < 0.3:
                runner.split(rng.randint(1, 3))


def test_a_dump_is_plain_arrow() -> None:
    runner = LaneRunner(Program({"t": ("tumbling", 9), "s": ("session", 3)}, [("sum", "v"), ("median", "v")], True, 10))
    runner.rows([(k, t, 1, 1) for t in range(20) for k in range(3)])
    runner.advance(15)
    runner.rows([(0, 7, 1, 1)])
    tables = runner.lane.dump(np.array([0, 2]))
    for name, table in tables.items():
        for field in table.schema:
            assert not pa.types.is_binary(field.type), (name, field.name)
            assert not pa.types.is_large_binary(field.type), (name, field.name)
        if "slot" in table.column_names:
            assert set(table["slot"].to_pylist()) <= {0, 2}
    assert tables["revisions"].num_rows == 1
    sink = pa.BufferOutputStream()
    for table in tables.values():
        pa.ipc.new_stream(sink, table.schema).write_table(table)


def test_parts_of_different_moments_are_refused() -> None:
    runner = LaneRunner(Program({"t": ("tumbling", 9)}, [("sum", "v")], True, None))
    runner.rows([(k, t, 1, 1) for t in range(20) for k in range(2)])
    first = runner.lane.dump(np.array([0]))
    runner.advance(12)
    second = runner.lane.dump(np.array([1]))
    lane = runner.new_lane()
    lane.load(first, np.array([0, 1]))
    with pytest.raises(SnapshotMismatch, match="different times"):
        lane.load(second, np.array([0, 1]))


def test_keys_that_hold_nothing_can_be_forgotten() -> None:
    runner = LaneRunner(Program({"t": ("tumbling", 10), "s": ("session", 3)}, [("sum", "v")], True, None))
    runner.rows([(k, k, 1, 1) for k in range(100)])
    runner.advance(95)
    used = runner.lane.used_slots()
    assert used.tolist() == list(range(90, 100))
    tables = runner.lane.dump(used)
    moved = runner.keys.compact(used)
    runner.lane = runner.new_lane()
    runner.lane.load(tables, moved)
    assert len(runner.keys) == 10
    found = runner.finish()
    assert sorted(r[0] for r in found if r[1] == "t") == list(range(90, 100))
