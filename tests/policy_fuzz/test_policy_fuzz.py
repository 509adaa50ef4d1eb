"""A short run of the policy fuzz in the suite: programs of fixed seeds."""

from __future__ import annotations

import time

import pytest

from tests.fuzz.seeds import SEEDS
from tests.policies import oracle
from tests.policy_fuzz.generate import generate
from tests.policy_fuzz.run import check_seed
from tests.policy_fuzz.show import minimised, program_code

SECONDS = 3.0


@pytest.mark.parametrize("seed", SEEDS)
def test_library_agrees_with_oracle(seed: int) -> None:
    check_seed(seed)  # may compile
    stop, done, reason = time.perf_counter() + SECONDS, 0, None
    while reason is None and (time.perf_counter() < stop or done < 20):
        reason = check_seed(seed + done)
        done += 1
    print(f"{done} programs from seed {seed}")
    if reason is not None:
        small, why = minimised(generate(seed + done - 1), reason, seconds=SECONDS)
        pytest.fail(f"seed {seed + done - 1}: {reason}\n{why}\n{program_code(small)}", pytrace=False)


def test_a_wrong_answer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fuzz sees a library that is wrong: here the oracle's time eviction is inclusive."""
    right = oracle.TimeEviction.evict
    monkeypatch.setattr(oracle.TimeEviction, "evict", lambda self, now, size: right(self, now + 1, size))
    assert any(check_seed(seed) is not None for seed in range(300))
