"""A failing program as code that repeats it, and made small: fewer rows, batches and policies."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator

from tests.policy_fuzz.generate import Program
from tests.policy_fuzz.run import failure


def program_code(program: Program) -> str:
    lines = [f"# seed {program.seed}, thread={program.thread}, end={program.end}, batches end at {program.cuts}"]
    lines += [f"{name} = {_shown(policies)}" for name, policies in program.policies.items()]
    lines += ["rows = [", *(f"    {row}," for row in program.rows), "]"]
    return "\n".join(lines)


def _shown(policies: list) -> str:
    def text(policy: object) -> str:
        if isinstance(policy, tuple):
            return f"({', '.join(map(text, policy))},)"
        return f"{type(policy).__name__}({vars(policy)})" if hasattr(policy, "notify") else repr(policy)

    return f"[{', '.join(map(text, policies))}]"


def smaller(program: Program) -> Iterator[Program]:
    for i in range(len(program.rows)):
        less = copy.deepcopy(program)
        del less.rows[i]
        less.cuts = sorted({c - (c > i) for c in less.cuts if 0 < c - (c > i) < len(less.rows)})
        yield less
    for i in range(len(program.cuts)):
        less = copy.deepcopy(program)
        del less.cuts[i]
        yield less
    for name, policies in program.policies.items():
        for i, policy in enumerate(policies):
            for other in [q for q in policy[1:] if isinstance(q, tuple)]:
                less = copy.deepcopy(program)
                getattr(less, name)[i] = other
                yield less
            less = copy.deepcopy(program)
            del getattr(less, name)[i]
            if (less.trigger or less.central_trigger) and (less.evict or less.central_evict):
                yield less


def minimised(program: Program, reason: str, *, seconds: float) -> tuple[Program, str]:
    """The smallest program found that still fails, and how."""
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop:
        for less in smaller(program):
            why = failure(less)
            if why is not None and "QueryError" not in why:
                program, reason = less, why
                break
            if time.perf_counter() > stop:
                return program, reason
        else:
            break
    return program, reason
