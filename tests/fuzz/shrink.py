"""Make a failing program small: drop windows, aggregates, steps, rows and columns while it still fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tests.fuzz.programs import Program, Step, columns_of
from tests.fuzz.run import failure

Fails = Callable[[Program], bool]


def minimised(program: Program, reason: str, *, seconds: float = 60.0) -> tuple[Program, str]:
    """The smallest program found that fails alike, and a note if it is the whole one after all."""
    try:
        small = shrink(program, lambda p: alike(reason, failure(p)), seconds=seconds)
        if failure(small) is None:
            return program, "it failed once and does not when it is repeated"
    except Exception as error:
        return program, f"not made smaller, the shrinker failed: {type(error).__name__}: {error}"
    return small, ""


def alike(reason: str, other: str | None) -> bool:
    """Whether two failures may have one cause: both wrong results, or both an exception of the same place."""
    return other is not None and raised_at(reason) == raised_at(other)


def raised_at(reason: str) -> str:
    return "" if reason.startswith(("step", "ledger", "rows in")) else reason.partition(": ")[0]


def shrink(program: Program, fails: Fails, *, tries: int = 3000, seconds: float = 60.0) -> Program:
    """The smallest program found by greedy cuts; `fails(program)` must be true."""
    stop = time.monotonic() + seconds
    left = tries
    smaller = True
    while smaller:
        smaller = False
        for candidate in cuts(program):
            left -= 1
            if left <= 0 or time.monotonic() > stop:
                return program
            if fails(candidate):
                program, smaller = candidate, True
                break
    return program


def cuts(program: Program) -> Iterator[Program]:
    """Programs with one thing less, the largest cuts first."""
    for candidate in all_cuts(program):
        yield replace(candidate, steps=mended(candidate))


def mended(program: Program) -> list[Step]:
    """Steps without those that remove a window which is not there (any more), or the last one."""
    running = set(program.windows)
    kept: list[Step] = []
    for step in program.steps:
        if step[0] == "add":
            running.add(step[1])
        elif step[0] == "remove":
            if step[1] not in running or len(running) == 1:
                continue
            running.remove(step[1])
        kept.append(step)
    return kept


def all_cuts(program: Program) -> Iterator[Program]:
    steps = list(program.steps)
    size = len(steps) // 2
    while size:
        for at in range(0, len(steps), size):
            yield replace(program, steps=steps[:at] + steps[at + size :])
        size //= 2
    if len(program.windows) > 1:
        for label in program.windows:
            windows = {k: v for k, v in program.windows.items() if k != label}
            if not windows.keys() <= program.own.keys():  # some window gives what the query gives
                yield replace(program, windows=windows)
    if len(program.aggregates) > 1:
        for i in range(len(program.aggregates)):
            yield replace(program, aggregates=program.aggregates[:i] + program.aggregates[i + 1 :])
    for label, own in program.own.items():
        others = {k: v for k, v in program.own.items() if k != label}
        yield replace(program, own=others)
        if len(own) > 1:
            yield from (replace(program, own={**others, label: own[:i] + own[i + 1 :]}) for i in range(len(own)))
    if program.keys:
        yield replace(program, keys=())
    if program.lateness:
        yield replace(program, lateness=None)
    yield from with_fewer_rows(program, steps)
    yield from without_unused_columns(program)
    for number in range(len(steps) - 1):
        if steps[number][0] == steps[number + 1][0] == "push":
            joined = ("push", [*steps[number][1], *steps[number + 1][1]])
            yield replace(program, steps=[*steps[:number], joined, *steps[number + 2 :]])


def with_fewer_rows(program: Program, steps: Sequence[Step]) -> Iterator[Program]:
    """Halves of batches first, single rows last."""
    longest = max((len(step[1]) for step in steps if step[0] == "push"), default=0)
    size = longest // 2 or longest
    while size:
        for number, step in enumerate(steps):
            if step[0] == "push":
                for at in range(0, len(step[1]), size):
                    less = ("push", step[1][:at] + step[1][at + size :])
                    yield replace(program, steps=[*steps[:number], less, *steps[number + 1 :]])
        size //= 2


def without_unused_columns(program: Program) -> Iterator[Program]:
    added = [s[2] for s in program.steps if s[0] == "add"]
    own = [spec for specs in program.own.values() for spec in specs]
    used = {c for spec in (*program.windows.values(), *program.aggregates, *added, *own) for c in columns_of(spec)}
    unused = [c for c in program.types if c not in used and c not in program.keys]
    if unused:
        types = {c: t for c, t in program.types.items() if c not in unused}
        steps = [
            ("push", [{c: v for c, v in row.items() if c not in unused} for row in step[1]])
            if step[0] == "push"
            else step
            for step in program.steps
        ]
        yield replace(program, types=types, steps=steps)
