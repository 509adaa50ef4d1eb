"""One program on the engine and on the oracle: None if they agree, else what differs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.fuzz.compare import Began, Known, difference, ledger_difference, out_of_order, split_added, wrong_early
from tests.fuzz.engine import Engine
from tests.fuzz.faults import exception_text
from tests.fuzz.programs import Program
from tests.fuzz.quiet import check_quiet, silences
from tests.oracle.oracle import AFRESH, Oracle, Result


def oracle_of(program: Program, *, strict: bool = False) -> Oracle:
    return Oracle(
        program.windows,
        program.aggregates,
        keys=program.keys,
        watermark=program.watermark,
        lateness=program.lateness,
        emit_empty=program.emit_empty,
        early=program.early,
        own=program.own,
        strict=strict,
    )


def began_before(oracle: Oracle, label: str, spec: tuple[Any, ...]) -> Callable[[Result], bool]:
    """Whether a window of a label that was just added began before, among rows that may be gone."""
    if spec[0] in AFRESH:
        return lambda result: False
    if spec[0] in ("rows", "mixed"):
        now = oracle.rows_in
        return lambda result: result.lo < oracle.positions(result.key, now)
    sure = oracle.surely_from[label]
    return lambda result: result.start < sure


def check(program: Program) -> str | None:
    """Run `program` both ways, comparing call by call, then the ledger."""
    oracle = oracle_of(program)
    engine = Engine(program)
    early: Began = {}
    known: Known = {}
    for number, step in enumerate(program.steps):
        name = step[0]
        if name in ("add", "remove"):
            getattr(oracle, name)(*step[1:])
            getattr(engine, name)(*step[1:])
            if name == "add":
                early[step[1]] = began_before(oracle, step[1], step[2])
        elif name == "snapshot":
            engine.snapshot()
        else:
            given = getattr(engine, name)(*step[1:])
            got, got_early = split_added(given, early)
            for result in got_early if program.emit_empty else ():
                if result.final and not result.void and result.end is not None:
                    oracle.starts_warm(result.window, result.key, result.end)
            want, want_early = split_added(getattr(oracle, name)(*step[1:]), early)
            wrong = out_of_order(given)
            wrong = (
                wrong
                or difference(want, got, program.aggregates, program.own)
                or wrong_early(got_early, want_early, known, oracle)
            )
            if wrong:
                return f"step {number} ({name}): {wrong}"
            known |= {r[:6]: r.values for r in want_early}
    wrong = None
    if program.steps and program.steps[-1][0] == "finish":
        wrong = ledger_difference(oracle, *engine.account())
    quiet = silences(program)
    return wrong or (quiet and check_quiet(program, quiet, oracle_of(program)))


def failure(program: Program) -> str | None:
    """Like `check`, with an exception of the engine as a failure too."""
    try:
        return check(program)
    except Exception as error:
        return exception_text(error)
