"""A short run of the CQL fuzz in the suite: programs of fixed seeds."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.cql_fuzz.generate import generate
from tests.cql_fuzz.mutate import check_mutated
from tests.cql_fuzz.run import check_seed
from tests.cql_fuzz.show import program_code
from tests.cql_fuzz.shrink import minimised
from tests.fuzz.seeds import SEEDS

SECONDS = 3.0


def run_for(check: Callable[[int], str | None], seed: int) -> tuple[int, int, str | None]:
    """(programs done, the last seed, why it failed)"""
    stop = time.perf_counter() + SECONDS
    done = 0
    reason = None
    while reason is None and (time.perf_counter() < stop or done < 5):
        reason = check(seed + done)
        done += 1
    print(f"{done} programs from seed {seed}")
    return done, seed + done - 1, reason


@pytest.mark.parametrize("seed", SEEDS)
def test_library_agrees_with_oracle(seed: int) -> None:
    _, seed, reason = run_for(check_seed, seed)
    if reason is not None:
        small, why = minimised(generate(seed), reason, seconds=SECONDS)
        pytest.fail(f"seed {seed}: {reason}\n{why}\n{program_code(small)}", pytrace=False)


@pytest.mark.parametrize("seed", SEEDS)
def test_wrong_programs_are_refused(seed: int) -> None:
    _, seed, reason = run_for(check_mutated, seed)
    if reason is not None:
        pytest.fail(f"seed {seed}: {reason}", pytrace=False)


def test_a_wrong_answer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fuzz sees a library that is wrong: here counts are off by one."""
    from tests.oracle.aggregates import OF_VALUES

    right = OF_VALUES["count"]
    monkeypatch.setitem(OF_VALUES, "count", lambda values: right(values) + 1)
    failing = next(seed for seed in range(200) if check_seed(seed) is not None)
    small, why = minimised(generate(failing), check_seed(failing) or "", seconds=1)
    assert "missing" in why or "should be" in why
    assert len(small.statements) <= len(generate(failing).statements)
