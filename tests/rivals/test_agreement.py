"""All techniques give the same windows with the same values (SPEC C-09), and refuse what they can't do."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from bench.rivals import (
    FUNCTIONS,
    AggregateBuckets,
    AggregateTree,
    Cutty,
    Naive,
    NotApplicable,
    Pairs,
    Panes,
    Periodic,
    Rival,
    Session,
    TupleBuckets,
    TupleBuffer,
)
from tests.rivals.programs import Program, random_program

TECHNIQUES: dict[str, Callable[..., Rival]] = {
    "tuple buffer": TupleBuffer,
    "aggregate tree": AggregateTree,
    "aggregate tree, path by path": partial(AggregateTree, each=True),
    "aggregate buckets": AggregateBuckets,
    "tuple buckets": TupleBuckets,
    "panes": Panes,
    "panes, eager": partial(Panes, eager=True),
    "pairs": Pairs,
    "pairs, eager": partial(Pairs, eager=True),
    "cutty": Cutty,
    "cutty, eager": partial(Cutty, eager=True),
}
IN_ORDER_ONLY = {name for name in TECHNIQUES if name.startswith(("panes", "pairs", "cutty"))}
KEEPS_ROWS = {"tuple buffer", "tuple buckets"}
SEEDS = 12


def applicable(measure: str, function: str, disorder: bool, sessions: bool) -> set[str]:
    """Which techniques must be able to do it; written down here so that none drops out unseen."""
    able = set(TECHNIQUES)
    if disorder:
        able -= IN_ORDER_ONLY
    if function == "median":
        able &= KEEPS_ROWS
    if disorder and not FUNCTIONS[function].commutative:
        able -= {"aggregate buckets"}
    if sessions:
        able -= IN_ORDER_ONLY | {"tuple buckets"}
    return able


def by_definition(program: Program) -> list[tuple[int, int, int, float]]:
    """Periodic windows straight from their definition, with plain Python numbers."""
    rows = sorted(zip(program.times.tolist(), range(len(program.times)), program.values.tolist()))
    fold = {"sum": sum, "avg": lambda v: sum(v) / len(v), "min": min, "max": max}
    fold["median"] = statistics.median
    out = []
    for number, query in enumerate(program.queries):
        assert isinstance(query, Periodic)
        places = [t for t, _, _ in rows] if query.measure == "time" else list(range(len(rows)))
        lowest = places[0] // query.slide * query.slide - (query.size // query.slide + 1) * query.slide
        for start in range(lowest, places[-1] + 1, query.slide):
            held = [v for place, (_, _, v) in zip(places, rows) if start <= place < start + query.size]
            complete = query.measure == "time" or (start >= 0 and len(held) == query.size)
            if held and complete:
                out.append((number, start, start + query.size, fold[program.function.name](held)))
    return sorted(out)


@pytest.mark.parametrize("measure", ["time", "rows"])
@pytest.mark.parametrize("function", ["sum", "avg", "min", "max", "median"])
def test_naive_is_the_definition(measure: str, function: str) -> None:
    for seed in range(4):
        program = random_program(seed, measure=measure, function=function, disorder=bool(seed % 2))
        got = program.run(Naive(program.queries, program.function, ooo=program.ooo)).rows()
        assert got == by_definition(program)


@pytest.mark.parametrize("disorder", [False, True], ids=["in order", "out of order"])
@pytest.mark.parametrize("function", ["sum", "avg", "min", "max", "median", "first", "m4"])
@pytest.mark.parametrize(("measure", "sessions"), [("time", False), ("time", True), ("rows", False)])
def test_all_techniques_that_apply_agree_with_the_naive_one(
    measure: str, function: str, disorder: bool, sessions: bool
) -> None:
    able = applicable(measure, function, disorder, sessions)
    for seed in range(SEEDS):
        program = random_program(seed, measure=measure, function=function, disorder=disorder, sessions=sessions)
        want = program.run(Naive(program.queries, program.function, ooo=program.ooo)).rows()
        assert want, "a program without windows shows nothing"
        for name, technique in TECHNIQUES.items():
            if name in able:
                rival = technique(program.queries, program.function, ooo=program.ooo)
                assert program.run(rival).rows() == want, (name, seed)
            else:
                with pytest.raises(NotApplicable):
                    technique(program.queries, program.function, ooo=program.ooo)


@pytest.mark.parametrize("technique", [Panes, Pairs, Cutty])
def test_rows_out_of_order_are_refused(technique: type[Rival]) -> None:
    rival = technique([Periodic(4, 2)], FUNCTIONS["sum"])
    rival.push(np.array([1, 5]), np.ones(2))
    with pytest.raises(NotApplicable, match="event-time order"):
        rival.push(np.array([4]), np.ones(1))
    with pytest.raises(NotApplicable, match="ooo=True"):
        technique([Periodic(4, 2)], FUNCTIONS["sum"], ooo=True)


def test_rows_before_the_watermark_are_refused() -> None:
    rival = TupleBuffer([Periodic(4, 2)], FUNCTIONS["sum"], ooo=True)
    rival.push(np.array([10]), np.ones(1))
    rival.advance(8)
    with pytest.raises(ValueError, match="before the watermark 8"):
        rival.push(np.array([7]), np.ones(1))


def test_measures_do_not_mix() -> None:
    with pytest.raises(NotApplicable, match="one measure"):
        Naive([Periodic(4, 2), Periodic(4, 2, "rows")], FUNCTIONS["sum"])
    with pytest.raises(NotApplicable, match="periodic"):
        Pairs([Session(3)], FUNCTIONS["sum"])
