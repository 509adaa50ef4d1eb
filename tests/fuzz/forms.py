"""Every pair of forms of a window: as it is written, and as the table of normal forms binds it, must give the same.

`python -m tests.fuzz.forms --programs N --seed S --jobs 1`, or `--budget 10m`. A program is a window of a line of
`FORMS`, maybe beside others, and calls of an operator: batches of rows in and out of order, watermarks, snapshots into
a fresh operator, windows that come and go. It runs twice, without the table and with it; where one window has several
spellings (policies in general form, brackets of CQL), each of them runs. `FAMILIES` has a line for every line of the
table, so that a new form without one fails.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

import panes as pn
from panes.policies import active, any_of, count, largest, tumble
from panes.policies import time as by_time
from panes.policies.policy import PolicyMachine
from panes.slicing.rows import key_borders
from panes.units import TimeDomain
from panes.windows.base import KeyBorders
from panes.windows.normal_form import FORMS, normal_form
from tests.fuzz.command import Fuzz, parser, run_fuzz, shown

AGGREGATES = {"n": "count(*)", "total": "sum(v)", "all": "collect_list(v)", "mid": "median(v)", "low": "min(v)"}
#: what both runs must agree on beside results
COUNTS = ("rows_in", "rows_used", "rows_corrected", "results", "rows_late", "late_by_reason", "late_by_window", "keys")

Row = dict[str, int]
Call = tuple[str, Any]


@dataclass(frozen=True)
class Program:
    """Spellings of one window, the first as the table expects it; the calls of an operator, and how it is made."""

    form: str
    spellings: tuple[Any, ...]
    stream: dict[str, Any]
    aggregates: dict[str, str]
    beside: dict[str, Any]
    calls: tuple[Call, ...]
    compiled: bool  # loops are compiled for however few windows


def policies_of_time(rng: Random) -> tuple[Any, ...]:
    every, size, end = rng.choice((1, 2, 3, 5, 8)), rng.choice((1, 2, 3, 5, 8, 16)), rng.random() < 0.7
    given: dict[str, Any] = {}
    if rng.random() < 0.4:
        given["delay"] = rng.randint(-4, 9)
    if rng.random() < 0.3:
        given["start"] = rng.randint(-20, 40)
    trigger, evict = by_time(every, **given), by_time(size)
    general = pn.policy(trigger=any_of(trigger), evict=largest(evict), end=end)
    return pn.policy(trigger=trigger, evict=evict, end=end), general


def policies_of_count(rng: Random) -> tuple[Any, ...]:
    every, size, end = rng.choice((1, 2, 3, 5)), rng.choice((1, 2, 3, 5, 7)), rng.random() < 0.7
    trigger = count(every, start=rng.choice((None, None, -2, every - 1)))
    evict = count(size, start=rng.choice((None, None, -1)))
    general = pn.policy(trigger=any_of(trigger), evict=largest(evict), end=end)
    return pn.policy(trigger=trigger, evict=evict, end=end), general


def tumbling_policies(rng: Random) -> tuple[Any, ...]:
    size, end = rng.choice((1, 2, 3, 5, 9)), rng.random() < 0.7
    if rng.random() < 0.4:
        trigger: Any = count(size, start=rng.choice((None, None, -3, size - 1)))
        return pn.policy(trigger=trigger, end=end), pn.policy(trigger=trigger, evict=largest(tumble()), end=end)
    trigger = by_time(size, delay=rng.choice((None, -4, 3)), start=rng.choice((None, None, -20, 40)))
    general = pn.policy(trigger=any_of(trigger), evict=active(tumble()), end=end)
    return pn.policy(trigger=trigger, end=end), general


def policies(rng: Random) -> tuple[Any, ...]:
    return rng.choice((policies_of_time, policies_of_count))(rng)


def rows_at_rows(rng: Random) -> tuple[Any, ...]:
    offset = pn.rows(rng.randint(1, 4)) if rng.random() < 0.2 else None
    window = pn.sliding(
        pn.rows(rng.choice((1, 2, 3, 5, 7))), every=pn.rows(rng.choice((1, 2, 3, 5))), align="end", offset=offset,
        partial=rng.random() < 0.6,
    )  # fmt: skip
    return (pn.on_change(window),) if rng.random() < 0.1 else (window,)


#: name of a line of the table -> windows that it is about
FAMILIES: dict[str, Callable[[Random], tuple[Any, ...]]] = {
    "the last n rows at every m-th row": rows_at_rows,
    "policies of count and count, or of time and time": policies,
    "a policy of count or of time, tumbling": tumbling_policies,
}
#: windows that share slices with the one in question
OTHERS: tuple[Callable[[], Any], ...] = (
    lambda: pn.tumbling(4),
    lambda: pn.tumbling(pn.rows(3)),
    lambda: pn.session(3),
    lambda: pn.sliding(pn.rows(4), every=3),
    lambda: pn.sliding(6, every=pn.rows(2)),
    lambda: pn.policy(trigger=count(2)),
)


def generate(seed: int) -> Program:
    rng = Random(seed)
    form = rng.choice(sorted(FAMILIES))
    spellings = FAMILIES[form](rng)
    watermark = rng.choice((None, None, 3, "manual"))
    lateness = rng.choice((None, None, 0, 4, 30)) if watermark is not None else None
    stream: dict[str, Any] = {"watermark": watermark, "lateness": lateness}
    if rng.random() < 0.75:
        stream["key"] = "k"
    names = rng.sample(sorted(AGGREGATES), rng.randint(1, 3))
    beside = {f"other{i}": rng.choice(OTHERS)() for i in range(rng.choice((0, 0, 0, 1, 2)))}
    rows = _rows(rng, in_order=watermark is None)
    calls: list[Call] = []
    added, there = rng.random() < 0.2, False
    if added and not beside:
        beside = {"other0": rng.choice(OTHERS)()}
    while rows:
        size = rng.choice((1, 1, 2, 5, 20, 60))
        batch, rows = rows[:size], rows[size:]
        calls.append(("push", batch))
        if watermark == "manual" and rng.random() < 0.6:
            calls.append(("advance", max(row["ts"] for row in batch) - rng.choice((0, 0, 2, 9))))
        if added and not there and rng.random() < 0.4:
            calls.append(("add", "w"))
            there = True
        if rng.random() < 0.15:
            calls.append(("snapshot", rng.random() < 0.3))
    if added and not there:
        calls.append(("add", "w"))
    calls.append(("finish", None))
    aggregates = {n: AGGREGATES[n] for n in names}
    return Program(form, spellings, stream, aggregates, beside, tuple(calls), rng.random() < 0.5)


def _rows(rng: Random, *, in_order: bool) -> list[Row]:
    keys, step, shake = rng.choice((1, 2, 5)), rng.choice((0, 1, 2, 6, 30)), rng.choice((0, 2, 12))
    at, found = rng.choice((0, 0, -25, 1000)), []
    for number in range(rng.choice((1, 5, 20, 80, 200))):
        at += rng.randint(0, step)
        late = 0 if in_order else rng.randint(0, shake)
        found.append({"ts": at - late, "k": rng.randrange(keys), "v": number})
    return found


@contextmanager
def as_written() -> Iterator[None]:
    """Windows are bound to the kind that they were written for."""
    known = list(FORMS)
    FORMS.clear()
    try:
        yield
    finally:
        FORMS[:] = known


@contextmanager
def loops(*, compiled: bool) -> Iterator[None]:
    """Loops are compiled also for few windows, or as they are."""
    known = key_borders.use_kernels
    if compiled:
        key_borders.use_kernels = lambda rows: rows > 0
    try:
        yield
    finally:
        key_borders.use_kernels = known


def run(program: Program, window: Any) -> list[Any]:
    """What every call gives, then the rows that came late and the counts."""
    declared = program.beside if ("add", "w") in program.calls else {**program.beside, "w": window}
    schema = {"ts": "bigint", "k": "bigint", "v": "bigint"}
    query = pn.stream(None, schema=schema, time="ts", **program.stream).window(**declared).agg(**program.aggregates)
    op = query.operator()
    found: list[Any] = []
    for name, argument in program.calls:
        if name == "push":
            found.append(_given(op.push(list(argument))))
        elif name == "advance":
            found.append(_given(op.advance(argument)))
        elif name == "add":
            op.add(argument, window)
        elif name == "snapshot":
            parts = [op.snapshot()] if not argument else [op.snapshot(key_groups=range(a, a + 64)) for a in (0, 64)]
            op = query.operator(restore=parts)
        else:
            found.append(_given(op.finish()))
    metrics = op.metrics
    found.append(op.late.to_pylist())
    found.append({name: metrics[name] for name in COUNTS})
    return found


def _given(result: Any) -> list[dict[str, Any]]:
    """Results in the order in which they are given; which key comes first at one end is nobody's promise."""
    rows = result.to_arrow().to_pylist()
    return sorted(
        rows,
        key=lambda r: (
            not r.get("void", False),
            r["window_end"] is None,
            r["window_end"] or 0,
            r.get("k", 0),
            r["window"],
            r["window_start"] is None,
            r["window_start"] or 0,
            r.get("window_to") or 0,
            r["revision"],
        ),
    )


def bound(window: Any) -> Any:
    """The normal form of a window on a stream of whole numbers."""
    return normal_form(window.bind(TimeDomain("ms", integer=True)))


def check(program: Program) -> str | None:
    """None, or where two forms differ."""
    first = program.spellings[0]
    if isinstance(bound(first), PolicyMachine) or not isinstance(bound(first), KeyBorders):
        return f"{first!r} is not brought to its normal form"
    with as_written():
        wanted = run(program, first)
    for window in program.spellings:
        with loops(compiled=program.compiled):
            got = run(program, window)
        if got != wanted:
            at = next(i for i, (a, b) in enumerate(zip(wanted, got)) if a != b)
            return f"{window!r} as bound differs from {first!r} as written, at {at}:\n{got[at]}\n{wanted[at]}"
    return None


def check_seed(seed: int) -> str | None:
    return check(generate(seed))


def smaller(program: Program, seconds: float) -> Program:
    """The same failure with fewer calls."""
    import time
    from dataclasses import replace

    stop, at = time.perf_counter() + seconds, 0
    while at < len(program.calls) and time.perf_counter() < stop:
        name, argument = program.calls[at]
        tries: Sequence[tuple[Call, ...]] = [()] if name not in ("finish", "add") else []
        if name == "push" and len(argument) > 1:
            tries = [(), (("push", argument[::2]),), (("push", argument[1:]),), (("push", argument[:-1]),)]
        for instead in tries:
            less = replace(program, calls=(*program.calls[:at], *instead, *program.calls[at + 1 :]))
            if check(less) is not None:
                program = less
                break
        else:
            at += 1
    return program


FUZZ = Fuzz(
    "fuzz of forms",
    "forms",
    lambda found: shown(found, lambda seed: repr(generate(seed))),
    lambda found: shown(found, lambda seed: repr(smaller(generate(seed), 30.0))),
)


def main() -> int:
    usage = parser("tests.fuzz.forms", __doc__, "out/fuzz/forms-SEED.txt")
    return run_fuzz(FUZZ, usage.parse_args(), usage, check=check_seed)


if __name__ == "__main__":
    sys.exit(main())
