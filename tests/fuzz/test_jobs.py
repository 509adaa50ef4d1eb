"""The runner of the long fuzz: exact counts, crashes are failures with a seed, a run can go on later."""

from __future__ import annotations

import os

import pytest

from tests.fuzz.jobs import Failure, Order, Run


def crashing(seed: int) -> str | None:
    """Stands for a program: some are wrong, one kills its process."""
    if seed == 1030:
        os._exit(3)
    if seed == 1060:
        raise ValueError("no program")
    return "wrong" if seed == 1007 else None


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_program_runs_once_whatever_fails(jobs: int) -> None:
    found: list[Failure] = []
    run = Run(Order(1000, 90, jobs=jobs), found.append, check=crashing)
    run.run()
    assert run.done == 90
    assert {f.seed: f.reason for f in found} == {
        1007: "wrong",
        1030: "the process died with code 3",
        1060: "the fuzz itself failed: ValueError: no program",
    }
    assert [f.seed for f in found if f.crashed] == [1030]


def always_wrong(seed: int) -> str | None:
    return "wrong"


def test_a_stopped_run_goes_on_where_it_was() -> None:
    found: list[Failure] = []
    first = Run(Order(1000, 1000, jobs=1, failures=3), found.append, check=always_wrong)
    first.run()
    assert 3 <= first.done < 1000
    assert [f.seed for f in found] == list(range(1000, 1000 + first.done))
    found.clear()
    rest = Run(Order(1000, first.done + 10, start=first.done, jobs=1), found.append, check=always_wrong)
    rest.run()
    assert [f.seed for f in found] == list(range(1000 + first.done, 1000 + first.done + 10))
