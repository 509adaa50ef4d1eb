"""Errors in the middle of calls: an operator that fails must be as one that never saw the call.

Two operators run the same random program. One of them is struck now and then: at a random line of Panes' own code, in
the middle of a push, an advance, a finish or a change of windows, an error is raised, as an overflow, a failing cast,
user code or a lack of memory would. Then the same call is made again, on both. Every result, in its order, every
counter and every late row must be the same. Half of the programs have aggregates of a user's own which change the
partials that they are given; what these give must be what built-in aggregates give.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import panes
from panes.errors import OperatorClosed, PanesError
from panes.policies import specs
from panes.slicing.operator import SliceOperator
from panes.windows.base import ALWAYS
from tests.fuzz.command import Fuzz, parser, run_fuzz, shown
from tests.fuzz.engine import Engine
from tests.fuzz.faults import exception_text
from tests.fuzz.programs import Program, generate
from tests.fuzz.user_aggregates import OWN
from tests.oracle.oracle import Result
from tests.policies.describe import window as policy_window
from tests.policy_fuzz.generate import generate as generate_policies
from tests.policy_fuzz.run import MOST_FAKES, SCHEMA

SOURCE = str(Path(panes.__file__).parent)
#: What takes changes back, and what happens once a call has succeeded.
SPARED = tuple(
    str(Path(SOURCE) / name) for name in ("state/journal.py", "slicing/idle_keys.py", "runners/local/past.py")
)
SPARED_FUNCTIONS = {
    "all_or_nothing", "_all_or_nothing", "_take_back", "push", "advance", "finish", "add", "remove",
}  # fmt: skip
#: Counters that say how much work was done, not what came of it.
WORK = {"combines", "bytes", "plans", "reduce_before", "reduce_at_end", "buffered"}


class Struck(Exception):
    """The error that is raised."""


class Striker:
    """Raises `Struck` at the line number `after` that Panes runs, counted from the beginning of the call."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith(SOURCE) or any(f.f_code.co_filename in SPARED for f in islice(callers(frame), 12)):
            return None
        return self.line

    def line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line" and frame.f_code.co_name not in SPARED_FUNCTIONS:
            self.left -= 1
            if self.left == 0:
                raise Struck(f"{frame.f_code.co_filename.removeprefix(SOURCE)}:{frame.f_lineno}")
        return self.line


def callers(frame: FrameType | None) -> Iterator[FrameType]:
    """The frame, who called it, and so on."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def struck(call: Callable[[], Any], after: int) -> tuple[bool, Any]:
    """(whether it was struck, what the call gave if not)."""
    before = sys.gettrace()
    sys.settrace(Striker(after))
    try:
        return False, call()
    except (Struck, PanesError) as error:
        if not isinstance(error, Struck) and Struck.__name__ not in str(error):
            raise  # DuckDB tells in words of its own what happened in a function that it called
        return True, error
    finally:
        sys.settrace(before)


def lines_of(rng: random.Random) -> int:
    """How many lines to run before striking: often few, sometimes most of a call."""
    return int(10 ** rng.uniform(0, 3.7))


def state_of(op: Any) -> dict[str, Any]:
    """What is known of an operator from outside."""
    metrics = {name: value for name, value in op.metrics.items() if name not in WORK}
    return {**metrics, "late": op.late.to_pylist(), "windows": list(op.windows)}


def with_own(program: Program, rng: random.Random) -> Program:
    """The same with aggregates that change what they are given, each before a built-in one that gives the same."""
    own = rng.sample(sorted(OWN), rng.randint(1, len(OWN))) if rng.random() < 0.5 else []
    pairs = [(name, "id") for one in own for name in (one, OWN[one][1])]
    return replace(program, aggregates=(*program.aggregates, *pairs))


def own_differs(program: Program, results: list[Result]) -> str | None:
    """What an aggregate of the user's own gave that the built-in one after it did not."""
    for i, (name, *_) in enumerate(program.aggregates):
        for result in [r for r in results if r.window not in program.own] if name in OWN else []:
            if result.values[i] != result.values[i + 1]:
                return f"{name} gives {result.values[i]}, not {result.values[i + 1]}"
    return None


def check_program(seed: int) -> str | None:
    """A program of the engine's fuzz."""
    rng = random.Random(seed)
    program = with_own(generate(seed), random.Random(seed + 1))
    calm, victim = Engine(program), Engine(program, by_label=False)  # an error there is one after the call
    for number, step in enumerate(program.steps):
        name = step[0]
        places = []
        given = None
        if name != "snapshot":
            while rng.random() < 0.6:
                was, given = struck(lambda: getattr(victim, name)(*step[1:]), lines_of(rng))  # noqa: B023
                if not was:
                    break
                places.append(str(given))
            else:
                was, given = False, getattr(victim, name)(*step[1:])
        else:
            victim.snapshot()
        want = getattr(calm, name)(*step[1:])
        if name != "snapshot" and repr(want) != repr(given):
            return f"step {number} ({name}), struck at {places}: should be {want}, is {given}"
        if want and (wrong := own_differs(program, want)) is not None:
            return f"step {number} ({name}): {wrong}"
        if places and rng.random() < 0.5 and repr(state_of(victim.op)) != repr(state_of(calm.op)):
            return f"step {number} ({name}), struck at {places}: {state_of(calm.op)} became {state_of(victim.op)}"
    if repr(state_of(victim.op)) != repr(state_of(calm.op)):
        return f"at the end: {state_of(calm.op)} became {state_of(victim.op)}"
    return None


def check_policies(seed: int) -> str | None:
    """A program of the policies' fuzz, as a query beside another window."""
    program, rng = generate_policies(seed), random.Random(seed)
    stream = panes.stream(None, schema=SCHEMA, time="t", key="k")
    windows = {"p": policy_window(**program.policies, end=program.end), "other": panes.tumbling(panes.rows(2))}
    query = stream.window(**windows).agg(rows=panes.collect_list("n"), total="sum(w)")
    rows = [{**row, "n": i} for i, row in enumerate(program.rows)]
    calm, victim = query.operator(), query.operator()
    calls = [("push", rows[a:b]) for a, b in zip([0, *program.cuts], [*program.cuts, len(rows)])]
    for number, (name, *arguments) in enumerate([*calls, ("finish",)]):
        places = []
        while rng.random() < 0.6:
            was, given = struck(lambda: getattr(victim, name)(*arguments), lines_of(rng))  # noqa: B023
            if not was:
                break
            places.append(str(given))
        else:
            given = getattr(victim, name)(*arguments)
        want = list(getattr(calm, name)(*arguments).rows())
        if want != list(given.rows()):
            return f"call {number} ({name}), struck at {places}: should be {want}, is {list(given.rows())}"
    if repr(state_of(victim)) != repr(state_of(calm)):
        return f"at the end: {state_of(calm)} became {state_of(victim)}"
    return None


def never_calm() -> Any:
    """Operators take every call for one that may fail, also those that nothing but an interruption can stop."""
    always = property(lambda op: ALWAYS, lambda op, watermark: None)
    return mock.patch.object(SliceOperator, "_calm_until", always, create=True)


def check_seed(seed: int) -> str | None:
    """None, or how an operator that was struck differs from one that was not."""
    check = check_policies if seed % 4 == 3 else check_program
    try:
        if seed % 4 == 2:
            return check(seed)
        with never_calm(), mock.patch.object(specs, "MOST_FAKES", MOST_FAKES):
            return check(seed)
    except OperatorClosed as error:
        # an operator that was interrupted where it takes no care says so, whatever it is asked
        return None if seed % 4 == 2 and "interrupted halfway" in str(error) else exception_text(error)
    except PanesError as error:
        # a program that Panes refuses says nothing about errors in mid-call
        refused = "windows" in str(error) or "borders" in str(error)
        return None if check is check_policies and refused else exception_text(error)
    except Exception as error:
        return exception_text(error)


def main(arguments: list[str] | None = None) -> int:
    usage = parser("tests.fuzz.errors", __doc__, "out/fuzz/errors-SEED.txt")
    show = lambda found: shown(found, lambda seed: f"# python -m tests.fuzz.errors --seed {seed} --programs 1")  # noqa: E731
    fuzz = Fuzz("errors in mid-call", "errors", show, None, "programs, {} differences")
    return run_fuzz(fuzz, usage.parse_args(arguments), usage, check=check_seed)


if __name__ == "__main__":
    sys.exit(main())
