"""A short fuzz run in the test suite: programs of fixed seeds."""

from __future__ import annotations

import time

import pytest

from tests.fuzz.code import program_code
from tests.fuzz.programs import generate
from tests.fuzz.run import failure
from tests.fuzz.seeds import SEEDS
from tests.fuzz.shrink import minimised

PROGRAMS = 1500
SECONDS = 8.0


@pytest.mark.parametrize("seed", SEEDS)
def test_engine_agrees_with_oracle(seed: int) -> None:
    stop = time.perf_counter() + SECONDS
    done = 0
    for program_seed in range(seed, seed + PROGRAMS):
        reason = failure(generate(program_seed))
        if reason is not None:
            small, note = minimised(generate(program_seed), reason, seconds=SECONDS)
            pytest.fail(f"seed {program_seed}: {reason}\n{note}\n{program_code(small)}", pytrace=False)
        done += 1
        if time.perf_counter() > stop:
            break
    print(f"{done} programs from seed {seed}")
    assert done >= 20, "too slow to say anything"
