"""Random programs as Spark runs them: a short form of `make fuzz-spark`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.code import program_code
from tests.fuzz.seeds import SEEDS
from tests.fuzz_spark.bundle import check_bundle
from tests.fuzz_spark.cuts import job_of
from tests.fuzz_spark.single import check_single
from tests.fuzz_spark.workers import check

SECONDS = 6.0
PROGRAMS = 300
BUNDLE = 60
#: of different kinds: sessions, row counts, lateness, timestamps, several keys
SINGLE = (3, 11, 42)


def said(seed: int, reason: str) -> str:
    return f"seed {seed}: {reason}\n{program_code(job_of(seed).program)}"


@pytest.mark.parametrize("first", SEEDS)
def test_code_of_the_workers(first: int) -> None:
    stop = time.perf_counter() + SECONDS
    done = 0
    for seed in range(first, first + PROGRAMS):
        reason = check(job_of(seed), seed)
        if reason is not None:
            pytest.fail(said(seed, reason), pytrace=False)
        done += 1
        if time.perf_counter() > stop:
            break
    print(f"{done} programs from seed {first}")
    assert done >= 5, "too slow to say anything"


def test_many_programs_in_one_query(spark: Any, tmp_path: Path) -> None:
    first = SEEDS[-1]
    found = check_bundle(spark, range(first, first + BUNDLE), tmp_path)
    assert not found, "\n".join(said(seed, reason) for seed, reason in found.items())


@pytest.mark.parametrize("seed", SINGLE)
def test_one_program_through_the_public_api(seed: int, spark: Any, tmp_path: Path) -> None:
    reason = check_single(spark, seed, tmp_path)
    assert reason is None, said(seed, reason)
