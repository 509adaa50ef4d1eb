"""One program on the library and on the oracle: None if they agree, else what differs.

Machines are driven as the slicer drives them: rows grouped by key, cut into batches, with state copied, written and
read between some of them. Built-in policies run in plain loops and in compiled ones, in general form and as pairs.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import panes as pn
from panes.errors import DataError
from panes.policies import specs
from panes.policies.built_in import BuiltInPolicies
from panes.policies.interpreted import Interpreted
from panes.state.entries import SlotMap, dump_banks, load_banks
from panes.state.pickles import trusting
from panes.units import TimeDomain
from panes.windows.base import NEVER, KeyRuns, Running
from tests.fuzz.faults import exception_text
from tests.policies import oracle
from tests.policies.describe import window
from tests.policy_fuzz.generate import Program, generate

DOMAIN = TimeDomain("ms", integer=True)
COLUMNS = ("v", "w", "m")
SCHEMA = {"t": "bigint", "k": "bigint", "v": "double", "w": "bigint", "m": "string", "n": "bigint"}
#: one program in so many runs as a query, which takes twenty times as long
QUERIES = 20
BuiltInPolicies.spare = 5  # so that small programs give up rows, too
#: timer ticks that are too many here, so that those without end are refused soon; other programs have far fewer
MOST_FAKES = 20_000
Found = list[tuple[int, tuple[int, ...], Any]]


def check_seed(seed: int) -> str | None:
    return failure(generate(seed))


def failure(program: Program) -> str | None:
    """Like `check`, with an exception of the library as a failure too."""
    most, specs.MOST_FAKES = specs.MOST_FAKES, MOST_FAKES
    try:
        return check(program)
    except Exception as error:
        return exception_text(error)
    finally:
        specs.MOST_FAKES = most


def check(program: Program) -> str | None:
    sides = (program.trigger, program.evict, program.central_trigger, program.central_evict)
    try:
        want: Found | None = oracle.run(program.rows, *sides, end=program.end, thread=program.thread)
    except oracle.Endless:
        want = None
    machine = window(**program.policies, end=program.end).bind(DOMAIN)
    for name in ways_of(machine):
        rng = random.Random(program.seed)
        fresh = lambda n=name: started(machine, n, program.seed)  # noqa: E731
        if want is None:
            wrong = not_refused(fresh(), program, rng, fresh)
        else:
            got, wrong = drive(fresh(), program, rng, fresh)
            if wrong is None:
                wrong = difference(want, got, program)
        if wrong is not None:
            return f"{name}: {wrong}"
    if program.seed % QUERIES == 0 and program.rows and want is not None:
        wrong = query_difference(program, want)
        if wrong is not None:
            return f"query: {wrong}"
    return None


def not_refused(running: Running, program: Program, rng: random.Random, fresh: Any) -> str | None:
    """A fault unless results without end are refused by the names of triggers."""
    try:
        got, _ = drive(running, program, rng, fresh)
    except DataError as error:
        return None if "there would be more than ten million" in str(error) else f"refused with {error}"
    return f"should be refused, gives {len(got)} windows"


def query_difference(program: Program, want: Found) -> str | None:
    """The whole engine: a query beside another window, rows pushed in batches, snapshots between some of them."""
    rng = random.Random(program.seed)
    stream = pn.stream(None, schema=SCHEMA, time="t", key="k")
    windows = {"p": window(**program.policies, end=program.end)}
    if rng.random() < 0.5:
        windows["other"] = pn.tumbling(pn.rows(2))
    # lists are as large as their rows, so their slices are those of rows; sums alone allow all plans
    lists = {"rows": pn.collect_list("n")} if rng.random() < 0.3 else {}
    query = stream.window(**windows).agg(**lists, total="sum(w)", first="min(n)", last="max(n)", count="count(*)")
    seen: dict[int, int] = {}
    rows = []
    for row in program.rows:
        rows.append({**row, "n": seen.get(row["k"], 0)})
        seen[row["k"]] = seen.get(row["k"], 0) + 1
    op, results = query.operator(), []
    for first, last in zip([0, *program.cuts], [*program.cuts, len(rows)]):
        results += op.push(rows[first:last]).rows()
        if rng.random() < 0.3:
            op = query.operator(restore=op.snapshot(), trusted=True)
    results += op.finish().rows()
    found = [r for r in results if r["window"] == "p"]
    if any(r["count"] != r["last"] - r["first"] + 1 for r in found):
        return f"rows that are not in a row: {found}"
    got = [(r["k"], tuple(range(r["first"], r["last"] + 1)), r["window_end"], r["total"]) for r in found]
    if lists and [tuple(r["rows"]) for r in found] != [rows for _, rows, _, _ in got]:
        return f"lists of other rows: {found}"
    weights: dict[int, list[int]] = {}
    for row in rows:
        weights.setdefault(row["k"], []).append(row["w"])
    expected = [(k, held, when, sum(weights[k][i] for i in held)) for k, held, when in want]
    order = {w: i for i, w in enumerate(sorted({w for _, _, w, _ in expected} - {None}))}
    by = lambda r: (r[0], order.get(r[2], 10**9), r[1])  # noqa: E731
    if sorted(got, key=by) != sorted(expected, key=by):
        return f"should be {sorted(expected, key=by)}, is {sorted(got, key=by)}"
    return None


def ways_of(machine: Any) -> tuple[str, ...]:
    """How a machine can be run."""
    if machine.interpreted:
        return ("python",)
    lonely = BuiltInPolicies(machine, reduces=True).alone is not None
    alone = ("plain, alone", "compiled, alone", "alone, compiled on the way") if lonely else ()
    return ("plain", "compiled", "compiled on the way", *alone)


def started(machine: Any, way: str, seed: int) -> Running:
    """A machine before its first row."""
    if way == "python":
        return Interpreted(machine, reduces=True)
    made = BuiltInPolicies(machine, reduces=True, general="alone" not in way)
    made.few = made.small = (seed * 7) % 40 if "on the way" in way else 0 if "compiled" in way else 10**9
    return made


def drive(running: Running, program: Program, rng: random.Random, fresh: Any) -> tuple[Found, str | None]:
    """Windows found in batches; and a fault in cuts, if there is one."""
    got: Found = []
    slots = {}
    seen: dict[int, int] = {}
    sliced: dict[int, set[int]] = {}
    central = bool(program.central_trigger or program.central_evict)
    for first, last in zip([0, *program.cuts], [*program.cuts, len(program.rows)]):
        batch = program.rows[first:last]
        if not batch:
            continue
        owner = np.array([slots.setdefault(r["k"], len(slots)) for r in batch], np.int64)
        runs = key_runs(batch, owner, seen)
        scanned = running.take(runs)
        note_cuts(runs, scanned.cuts, sliced)
        for slot, n in zip(*np.unique(owner, return_counts=True)):
            seen[int(slot)] = seen.get(int(slot), 0) + int(n)
        closed = [scanned.closed, running.advance(batch[-1]["t"])]
        for c in closed:
            found = list(zip(c.slots.tolist(), c.start_pos.tolist(), c.stop_pos.tolist(), c.end.tolist()))
            got += found
            for slot, lo, hi, _ in found:
                if not {lo, hi} <= sliced.get(slot, set()) | {0, seen[slot]}:
                    return [], f"the window {lo}..{hi} of slot {slot} is not made of whole slices"
        whole = np.arange(len(slots))
        action = rng.random()
        if action < 0.2:
            running = turned_round(turned_round(running, whole, fresh), whole, fresh)
        elif action < 0.4:
            running = running.select(whole)
        elif action < 0.5 and not central and len(slots) > 1:
            mine = np.array(sorted(rng.sample(range(len(slots)), 1)))
            running.put(mine, running.select(mine))
    end = running.finish()
    got += zip(end.slots.tolist(), end.start_pos.tolist(), end.stop_pos.tolist(), end.end.tolist())
    names = {slot: key for key, slot in slots.items()}
    for slot, lo in zip(end.slots.tolist(), end.start_pos.tolist()):
        if not running.ends_in_rows and lo not in sliced.get(slot, set()) | {0}:
            return [], f"the last window from {lo} of slot {slot} is not made of whole slices"
    return [(names[s], tuple(range(lo, hi)), None if when == NEVER else when) for s, lo, hi, when in got], None


def turned_round(running: Running, whole: np.ndarray, fresh: Any) -> Running:
    """The state after a dump and a load that turns slots round."""
    tables = dump_banks(running.banks(), whole)
    again = fresh()
    with trusting(True):
        load_banks(again.banks(), tables, SlotMap(whole, whole[::-1]))
    again.check(whole)
    return again


def key_runs(batch: list[dict], owner: np.ndarray, seen: dict[int, int]) -> KeyRuns:
    order = owner.argsort(kind="stable")
    sorted_ = owner[order]
    changes = np.flatnonzero(sorted_[1:] != sorted_[:-1]) + 1
    offsets = np.concatenate(([0], changes, [len(batch)]))
    slots = sorted_[offsets[:-1]]
    rows = [batch[i] for i in order]
    columns = {c: np.array([r[c] for r in rows], object if c == "m" else float) for c in COLUMNS}
    times = np.array([r["t"] for r in rows], np.int64)
    first = np.array([seen.get(int(s), 0) for s in slots], np.int64)
    return KeyRuns(slots, offsets, first, times, columns, None if (order[1:] > order[:-1]).all() else order)


def note_cuts(runs: KeyRuns, cuts: np.ndarray, sliced: dict[int, set[int]]) -> None:
    positions = runs.positions()
    owner = runs.slots.repeat(np.diff(runs.offsets))
    for i in cuts.tolist():
        sliced.setdefault(int(owner[i]), set()).add(int(positions[i]))


def difference(want: Found, got: Found, program: Program) -> str | None:
    by_key: dict[Any, list] = {}
    for key, positions, when in want:
        by_key.setdefault(key, []).append((positions, when))
    mine: dict[Any, list] = {}
    for key, positions, when in got:
        mine.setdefault(key, []).append((positions, when))
    for key in sorted({*by_key, *mine}):
        if by_key.get(key, []) != mine.get(key, []):
            return f"key {key}: should be {by_key.get(key, [])}, is {mine.get(key, [])}"
    return None
