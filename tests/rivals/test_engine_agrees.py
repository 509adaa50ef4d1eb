"""The engine gives what the rival techniques give, on random periodic programs and sessions (SPEC C-09)."""

from __future__ import annotations

import pytest

from bench.contenders import EngineResults
from bench.rivals import Naive, Results
from tests.rivals.programs import Program, random_program


def run_engine(program: Program) -> list[tuple[int, int, int, float]]:
    engine = EngineResults(program.queries, program.function.name, delay=program.delay)
    out = []
    for times, values, watermark in program.feed():
        out += [engine.push(times, values), engine.advance(watermark)]
    out.append(engine.finish())
    return Results.concat(out).rows()


@pytest.mark.parametrize("disorder", [False, True], ids=["in order", "out of order"])
@pytest.mark.parametrize("function", ["sum", "avg", "min", "max", "median", "first", "last"])
@pytest.mark.parametrize(("measure", "sessions"), [("time", False), ("time", True), ("rows", False)])
def test_the_engine_agrees_with_the_naive_technique(
    measure: str, function: str, disorder: bool, sessions: bool
) -> None:
    for seed in range(100, 106):
        program = random_program(seed, measure=measure, function=function, disorder=disorder, sessions=sessions)
        want = program.run(Naive(program.queries, program.function, ooo=program.ooo)).rows()
        assert run_engine(program) == want, seed
