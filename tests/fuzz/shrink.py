"""Make a failing program small: drop windows, aggregates, steps, rows and columns while it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.fuzz.programs import Program, columns_of

Fails = Callable[[Program], bool]


def shrink(program: Program, fails: Fails, *, tries: int = 3000) -> Program:
    """The smallest program found by greedy cuts; `fails(program)` must be true."""
    left = tries
    smaller = True
    while smaller and left > 0:
        smaller = False
        for candidate in cuts(program):
            left -= 1
            if left <= 0:
                break
            if fails(candidate):
                program, smaller = candidate, True
                break
    return program


def cuts(program: Program) -> Iterator[Program]:
    """Programs with one thing less, the largest cuts first."""
    steps = list(program.steps)
    size = len(steps) // 2
    while size:
        for at in range(0, len(steps), size):
            yield replace(program, steps=steps[:at] + steps[at + size :])
        size //= 2
    if len(program.windows) > 1:
        for label in program.windows:
            if not any(s[0] == "remove" and s[1] == label for s in steps):
                yield replace(program, windows={k: v for k, v in program.windows.items() if k != label})
    if len(program.aggregates) > 1:
        for i in range(len(program.aggregates)):
            yield replace(program, aggregates=program.aggregates[:i] + program.aggregates[i + 1 :])
    if program.keys:
        yield replace(program, keys=())
    if program.lateness:
        yield replace(program, lateness=None)
    for number, step in enumerate(steps):
        if step[0] == "push":
            for i in range(len(step[1])):
                less = ("push", step[1][:i] + step[1][i + 1 :])
                yield replace(program, steps=[*steps[:number], less, *steps[number + 1 :]])
    yield from without_unused_columns(program)
    for number in range(len(steps) - 1):
        if steps[number][0] == steps[number + 1][0] == "push":
            joined = ("push", [*steps[number][1], *steps[number + 1][1]])
            yield replace(program, steps=[*steps[:number], joined, *steps[number + 2 :]])


def without_unused_columns(program: Program) -> Iterator[Program]:
    added = [s[2] for s in program.steps if s[0] == "add"]
    used = {c for spec in (*program.windows.values(), *program.aggregates, *added) for c in columns_of(spec)}
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
