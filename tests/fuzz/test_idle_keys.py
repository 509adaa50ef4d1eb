"""When keys are forgotten must not matter: programs whose keys come and go, with idle ones forgotten at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from panes.slicing import idle_keys
from panes.slicing.keys import KeyDirectory
from tests.fuzz.programs import Data, Program, generate
from tests.fuzz.run import failure
from tests.oracle.oracle import IN_ORDER, ROW_BY_ROW

PROGRAMS = 600
AT_ONCE = -(10**9)


def forgets(program: Program) -> bool:
    """Whether an operator of this program may forget keys."""
    added = (step[2] for step in program.steps if step[0] == "add")
    specs = (*program.windows.values(), *program.aggregates, *added)
    return bool(program.keys) and not program.emit_empty and not {s[0] for s in specs} & {*ROW_BY_ROW, *IN_ORDER}


def drifting(program: Program) -> Program:
    """The same program with other keys from time to time, of which some come back."""

    def moved(row: Data) -> Data:
        if row["ts"] is None or row["k"] is None:
            return row
        return {**row, "k": f"{row['k']}{row['id'] // 4 % 5}"}

    steps = [(s[0], [moved(r) for r in s[1]]) if s[0] == "push" else s for s in program.steps]
    return replace(program, steps=steps)


def test_forgetting_idle_keys_changes_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten = 0
    compact = KeyDirectory.compact

    def counted(keys: KeyDirectory, keep: np.ndarray) -> Any:
        nonlocal forgotten
        forgotten += len(keys) - len(keep)
        return compact(keys, keep)

    monkeypatch.setattr(KeyDirectory, "compact", counted)
    monkeypatch.setattr(idle_keys, "SPARE", AT_ONCE)
    for seed in range(51_000, 51_000 + PROGRAMS):
        program = generate(seed)
        if forgets(program):
            assert failure(drifting(program)) is None, f"seed {seed}"
    assert forgotten > PROGRAMS / 3
