"""The shrinker: what it cuts is still a program, and it never loses a failure."""

from __future__ import annotations

import pytest

from tests.fuzz import shrink
from tests.fuzz.programs import Program, generate
from tests.fuzz.run import oracle_of


def with_changes(count: int) -> list[Program]:
    found = (generate(seed) for seed in range(10_000))
    changed = (p for p in found if any(step[0] == "remove" for step in p.steps))
    return [next(changed) for _ in range(count)]


def test_every_cut_is_a_program() -> None:
    for program in with_changes(5):
        for candidate in shrink.cuts(program):
            oracle = oracle_of(candidate)
            for name, *arguments in candidate.steps:
                if name in ("add", "remove"):
                    getattr(oracle, name)(*arguments)
                    assert oracle.windows


def test_a_failing_shrinker_keeps_the_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(program: Program) -> str:
        raise KeyError("a18")

    monkeypatch.setattr(shrink, "failure", broken)
    program = generate(1)
    assert shrink.minimised(program, "step 0 (push): wrong") == (
        program,
        "not made smaller, the shrinker failed: KeyError: 'a18'",
    )


def test_a_failure_shrinks_to_one_of_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs with fewer than two rows raise elsewhere: that is another failure."""
    monkeypatch.setattr(
        shrink, "failure", lambda p: "step 0 (push): wrong" if len(p.rows) > 1 else "KeyError at a.py:1: x"
    )
    small, note = shrink.minimised(generate(3), "step 4 (push): wrong", seconds=20)
    assert (len(small.rows), len(small.windows), note) == (2, 1, "")
