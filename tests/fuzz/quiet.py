"""A program on a stream that goes quiet: rows come by a clock, and in between nothing does for a while (`idle`).

The oracle reads the rule literally: when the silence before a row (or before the end) has lasted as long as `idle`,
the watermark is what the last row left plus the time that has passed.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

import pyarrow as pa

from panes.testing import FakeClock
from tests.fuzz.code import query_code
from tests.fuzz.compare import difference, ledger_difference
from tests.fuzz.engine import NAMES, Engine
from tests.fuzz.programs import Data, Program
from tests.oracle.oracle import INFINITY, Oracle, Result

#: Microseconds in a tick of event time; an integer column counts milliseconds.
MICROS = {None: 1000, "s": 1_000_000, "ms": 1000, "us": 1}
#: One program of so many goes quiet, if it can.
SHARE = 16


class Quiet(NamedTuple):
    """How long, in ticks, nothing comes before each row and before the end; and how long is long enough."""

    before: list[int]
    idle: int


def silences(program: Program) -> Quiet | None:
    """When nothing comes in this program; None: it never goes quiet."""
    calls = {step[0] for step in program.steps}
    rng = Random(-2 - program.seed)
    if rng.random() * SHARE > 1 or program.watermark == "manual" or program.time_unit not in MICROS:
        return None
    if calls & {"add", "remove"} or "finish" not in calls:
        return None
    scale = program.scale
    idle = rng.choice((1, 3, 8, 20)) * scale
    share = rng.choice((0.05, 0.2, 0.5))
    lengths = (idle - 1, idle, idle, 2 * idle, 5 * idle, idle + 7 * scale)
    before = [rng.choice(lengths) if rng.random() < share else 0 for _ in range(len(program.rows) + 1)]
    return Quiet(before, idle)


def played(program: Program, quiet: Quiet, clock: FakeClock) -> Iterator[Data]:
    """The rows as they come."""
    unit, micros = program.time_unit, MICROS[program.time_unit]
    for row, ticks in zip([*program.rows, None], quiet.before, strict=True):
        clock.advance(ticks * micros)
        if row is not None:
            yield row if unit is None else {**row, "ts": pa.scalar(row["ts"], pa.timestamp(unit)).as_py()}


def wanted(program: Program, quiet: Quiet, oracle: Oracle) -> list[Result]:
    """What the rule says."""
    found: list[Result] = []
    for row, ticks in zip([*program.rows, None], quiet.before, strict=True):
        if ticks >= quiet.idle and oracle.watermark > -INFINITY:
            found += oracle.advance(oracle.watermark + ticks)
        found += oracle.finish() if row is None else oracle.push([row])
    return found


def check_quiet(program: Program, quiet: Quiet, oracle: Oracle) -> str | None:
    """None, or how a run by the clock differs from the rule."""
    clock = FakeClock()
    idle = f"{quiet.idle * MICROS[program.time_unit]} us"
    text = query_code(program, data="rows", idle=repr(idle), clock="clock")
    rows = played(program, quiet, clock)
    query = eval(text, {**NAMES, "rows": rows, "clock": clock})
    engine = Engine(program)
    got = engine.results(query.to_arrow())
    wrong = difference(wanted(program, quiet, oracle), got, program.aggregates, program.own)
    wrong = wrong or ledger_difference(oracle, *engine.account(query))
    return None if wrong is None else f"going quiet ({quiet}): {wrong}"
