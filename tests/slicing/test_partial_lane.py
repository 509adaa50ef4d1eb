"""Random programs through the partial lane and through the oracle: the same results, call by call."""

from __future__ import annotations

import random

import pytest

from panes.slicing import key_index
from tests.slicing.lane_programs import Program, random_program, run_lane, run_oracle


def check(program: Program, seed: int) -> None:
    got, want = run_lane(program), run_oracle(program)
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        assert a == b, f"seed {seed}, step {i} {program.steps[i][0]}: extra {a - b}, missing {b - a}"


@pytest.mark.parametrize("block", range(6))
def test_lane_agrees_with_the_oracle(block: int) -> None:
    for seed in range(1000 * block, 1000 * block + 30):
        check(random_program(random.Random(seed)), seed)


@pytest.mark.parametrize("block", range(3))
def test_compiled_loops_agree_with_the_oracle(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_index, "LARGE", 1)
    for seed in range(1000 * block + 500, 1000 * block + 520):
        check(random_program(random.Random(seed)), seed)


@pytest.mark.parametrize("seed", range(6))
def test_large_batches_agree_with_the_oracle(seed: int) -> None:
    """Batches above the threshold of the compiled loops, keys enough for row-wise answers."""
    rng = random.Random(seed)
    keys = [1, 5, 300][seed % 3]
    program = Program(
        {"s": ("sliding", 300, 50), "t": ("tumbling", 70), "e": ("session", 9), "c": ("cumulate", 100, 400)},
        [("sum", "v"), ("count_rows",), ("max", "v"), *([("median", "v")] if seed == 3 else [])],
        keyed=keys > 1,
        lateness=None,
    )
    if seed >= 3:
        del program.windows["e"]
    at = 0
    for _ in range(3):
        rows = []
        for _ in range(2500):
            at += rng.random() < 0.3
            rows.append((rng.randrange(keys), at - rng.randrange(40) * (seed % 2), rng.randint(-9, 9), 1))
        program.steps += [("rows", rows), ("advance", at - 40)]
    program.steps.append(("finish",))
    check(program, seed)
