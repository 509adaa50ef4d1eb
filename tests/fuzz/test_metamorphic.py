"""What must not matter: how rows are batched, their order within the watermark, snapshots, key groups.

No oracle here: the engine is compared with itself, on programs of the same generator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from panes.slicing.keys import KEY_GROUPS
from tests.fuzz.compare import difference
from tests.fuzz.engine import Engine
from tests.fuzz.programs import Data, Program, Step, generate
from tests.oracle.oracle import Result

SEEDS = range(0, 60, 30)
PER_TEST = 30


def programs(first: int) -> list[Program]:
    """Programs without snapshots and changes of windows: those are what the tests put in."""
    made = []
    for seed in range(first, first + PER_TEST):
        program = generate(seed)
        steps = [s for s in program.steps if s[0] in ("push", "advance", "finish")]
        made.append(replace(program, steps=steps))
    return made


def run(program: Program, steps: Sequence[Step] | None = None) -> list[list[Result]]:
    """Results of each call; rows in, rows used and the ledger must add up at the end."""
    engine = Engine(program)
    calls = []
    for name, *arguments in program.steps if steps is None else steps:
        if name == "snapshot":
            engine.snapshot()
        elif name == "regroup":
            engine.op = engine.query.operator(
                restore=[engine.op.snapshot(key_groups=g) for g in arguments[0]], trusted=True
            )
        else:
            calls.append(getattr(engine, name)(*arguments))
    rows_in, rows_used, late, _ = engine.account()
    rows = [row for name, *rest in (program.steps if steps is None else steps) if name == "push" for row in rest[0]]
    assert rows_in == len(rows) == rows_used + len(late), f"seed {program.seed}"
    return calls


def together(steps: Sequence[Step], calls: list[list[Result]]) -> list[list[Result]]:
    """Results of neighbouring pushes joined, since another batching moves them between calls."""
    joined: list[list[Result]] = []
    before = ""
    for (name, *_), results in zip(steps, calls, strict=True):
        if name == before == "push":
            joined[-1] = joined[-1] + results
        else:
            joined.append(list(results))
        before = name
    return joined


def assert_same(program: Program, ours: list[list[Result]], theirs: list[list[Result]]) -> None:
    for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        wrong = difference(a, b, program.aggregates, program.own)
        assert wrong is None, f"seed {program.seed}, call {number}: {wrong}"


def rebatched(steps: Sequence[Step], rng: Random) -> list[Step]:
    """The same rows in batches of other sizes, empty ones among them."""
    out: list[Step] = []
    waiting: list[Data] = []

    def flush() -> None:
        rows = list(waiting)
        waiting.clear()
        while rows:
            size = rng.choice((0, 1, 1, 2, 5, len(rows)))
            out.append(("push", rows[:size]))
            rows = rows[size:]

    for step in steps:
        if step[0] == "push":
            waiting.extend(step[1])
        else:
            flush()
            out.append(step)
    flush()
    return out


@pytest.mark.parametrize("first", SEEDS)
def test_rebatching_changes_nothing(first: int) -> None:
    for program in programs(first):
        # a push of no rows alone would be a call of its own
        steps = [s for s in program.steps if s != ("push", [])]
        other = rebatched(steps, Random(program.seed))
        ours, theirs = together(steps, run(program, steps)), together(other, run(program, other))
        assert_same(program, ours, theirs)


@pytest.mark.parametrize("first", SEEDS)
def test_snapshots_change_nothing(first: int) -> None:
    for program in programs(first):
        steps: list[Step] = []
        for step in program.steps:
            steps += [("snapshot",), step]
        plain, with_snapshots = run(program), run(program, steps)
        assert_same(program, plain, with_snapshots)
        for a, b in zip(plain, with_snapshots, strict=True):
            assert Engine(program).in_parts or repr(a) == repr(b), f"seed {program.seed}: order of results"


@pytest.mark.parametrize("first", SEEDS)
def test_key_groups_split_and_merged_change_nothing(first: int) -> None:
    for program in programs(first):
        if not program.keys:
            continue
        rng = Random(program.seed)
        at = sorted({0, KEY_GROUPS, *(rng.randrange(KEY_GROUPS) for _ in range(rng.choice((1, 1, 3))))})
        parts = [range(lo, hi) for lo, hi in pairwise(at)]
        rng.shuffle(parts)
        steps: list[Step] = []
        for step in program.steps:
            steps += [("regroup", parts), step] if rng.random() < 0.4 else [step]
        assert_same(program, run(program), run(program, steps))


def shuffled(rows: list[Data], bound: int, rng: Random) -> list[Data]:
    """Each row moves back by at most `bound` of event time, so none gets late; equal times stay in order."""
    turn: dict[Any, float] = {}
    for row in rows:
        turn.setdefault(row["ts"], row["ts"] + rng.uniform(0, bound))
    return sorted(rows, key=lambda row: turn[row["ts"]])


@pytest.mark.parametrize("first", SEEDS)
def test_order_within_the_watermark_changes_nothing(first: int) -> None:
    for program in programs(first):
        if not isinstance(program.watermark, int) or program.watermark == 0:
            continue
        program = replace(program, early=None)  # how windows stand in between depends on which rows have come
        rows = sorted((r for r in program.rows if r["ts"] is not None), key=lambda r: r["ts"])
        other = shuffled(rows, program.watermark, Random(program.seed))
        ours = run(program, [("push", rows), ("finish",)])
        theirs = run(program, [("push", other), ("finish",)])
        # what is due by the last row is the same either way: its time is the same
        assert_same(program, ours, theirs)
