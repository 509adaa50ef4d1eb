"""Every worked example of SPEC groups C, S and W, on the oracle and on the engine (see README.md here)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fuzz.engine import Engine
from tests.fuzz.programs import Program
from tests.oracle.oracle import Oracle, Result

HERE = Path(__file__).parent
#: of C-07, S-11 and on: raise it with every example, so that none is dropped unseen
EXAMPLES = 23

#: a runner answers push, advance and finish with results
Runner = Callable[[Program], Any]


def load(pattern: str) -> list[dict[str, Any]]:
    return [example for path in sorted(HERE.glob(pattern)) for example in yaml.safe_load(path.read_text())]


def program_of(example: dict[str, Any]) -> Program:
    columns = example["columns"]
    types = {c: example.get("types", {}).get(c, "double") for c in columns if c != "ts"}
    return Program(
        seed=0,
        time_unit=None,
        keys=tuple(example.get("keys", ())),
        watermark=example.get("watermark"),
        lateness=example.get("lateness"),
        windows={label: tuple(spec) for label, spec in example["windows"].items()},
        aggregates=tuple(tuple(spec) for spec in example["aggregates"].values()),
        types=types,
    )


def on_oracle(program: Program) -> Oracle:
    return Oracle(
        program.windows,
        program.aggregates,
        keys=program.keys,
        watermark=program.watermark,
        lateness=program.lateness,
        strict=True,
    )


def shown(result: Result, names: Iterable[str]) -> dict[str, Any]:
    fields = {
        "window": result.window,
        "start": result.start,
        "end": result.end,
        "from": result.lo,
        "to": result.hi,
    }
    values = dict(zip(names, result.values, strict=True))
    return {**fields, **values, "revision": result.revision, "void": result.void, "key": list(result.key)}


def agrees(wanted: dict[str, Any], got: dict[str, Any]) -> bool:
    return all(same(value, got[name]) for name, value in {"revision": 0, "void": False, **wanted}.items())


def same(wanted: Any, got: Any) -> bool:
    if isinstance(wanted, float) and isinstance(got, (int, float)):
        return math.isclose(wanted, got, rel_tol=1e-12)
    return bool(wanted == got)


TRANSCRIPTS = load("examples_*.yaml")


@pytest.mark.parametrize("runner", [on_oracle, Engine], ids=["oracle", "engine"])
@pytest.mark.parametrize("example", TRANSCRIPTS, ids=[e["id"] for e in TRANSCRIPTS])
def test_worked_examples_give_their_results_step_by_step(example: dict[str, Any], runner: Runner) -> None:
    if runner is on_oracle and "oracle" not in example.get("runs_on", ["oracle", "engine"]):
        pytest.skip("the window is a user's own: worked out by hand, not by the oracle")
    running = runner(program_of(example))
    for number, step in enumerate(example["steps"]):
        if "push" in step:
            results = running.push([dict(zip(example["columns"], row, strict=True)) for row in step["push"]])
        elif "advance" in step:
            results = running.advance(step["advance"])
        else:
            results = running.finish()
        got = [shown(r, example["aggregates"]) for r in results]
        left = list(got)
        for wanted in step["expect"]:
            match = next((g for g in left if agrees(wanted, g)), None)
            assert match is not None, f"{example['id']} step {number}: no {wanted} in {got}"
            left.remove(match)
        assert not left, f"{example['id']} step {number}: more than expected: {left}"


def test_no_worked_example_is_lost_or_twice() -> None:
    assert len(TRANSCRIPTS) == EXAMPLES
    assert len({e["id"] for e in TRANSCRIPTS}) == EXAMPLES
