"""Random programs: a stream, its windows and aggregates, and the calls made on its operator.

A program is plain data made from one integer, so that a failure is one number; it can also be cut down and
printed (see shrink.py). Values are small multiples of 0.25, so that sums are exact in any order.

Half of the programs are small, with few windows, rows and calls: they say sooner what is wrong, and are easy
to read. The others are as large as it takes for windows to meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random
from typing import Any

from tests.fuzz.specs import (
    ADDED,
    ADDED_AFRESH,
    ADDED_IN_ORDER,
    GIVEN_EARLY,
    Maker,
    Spec,
    random_aggregates,
    random_windows,
)

SECONDS_OF_CALENDARS = (1_711_670_400, 1_729_814_400, 1_710_028_800, -18_489_600)  # near DST changes
BASES = (0, 0, 0, 0, -7, -1000, 10**9 + 7, 1_700_000_000_123)

Step = tuple[Any, ...]
Data = dict[str, Any]


@dataclass(frozen=True)
class Program:
    """`steps` are ("push", rows), ("advance", ticks), ("snapshot",), ("add", label, spec), ("remove", label),
    ("finish",). `time_unit` is None for an integer time column, else the unit of a timestamp column."""

    seed: int
    time_unit: str | None
    keys: tuple[str, ...]
    watermark: int | str | None
    lateness: int | None
    windows: dict[str, Spec]
    aggregates: tuple[Spec, ...]
    types: dict[str, str]
    steps: Sequence[Step] = field(default=())
    emit_empty: bool = False
    early: int | None = None
    #: ticks between rows that follow each other
    scale: int = 1
    #: aggregates of windows that have some of their own, by label: of those declared, and of those that are added
    own: dict[str, tuple[Spec, ...]] = field(default_factory=dict)

    @property
    def rows(self) -> list[Data]:
        return [row for step in self.steps if step[0] == "push" for row in step[1]]


def columns_of(spec: Spec) -> list[str]:
    """Names of the columns that a window or an aggregate reads."""
    return [a for a in spec[1:] if isinstance(a, str) and a in COLUMN_TYPES]


COLUMN_TYPES = {
    "k": "string",
    "k2": "bigint",
    "v": "double",
    "w": "bigint",
    "s": "string",
    "p": "double",
    "d": "double",
    "m": "double",
    "m2": "double",
    "c": "decimal(10, 2)",
    "g": "bigint",
    "b": "boolean",
    "e": "boolean",
}


def generate(seed: int) -> Program:
    rng = Random(seed)
    with_calendar = rng.random() < 0.02
    time_unit: str | None
    if with_calendar:
        base, scale, time_unit = rng.choice(SECONDS_OF_CALENDARS), 21_600, "s"
    else:
        base, scale = rng.choice(BASES), 1 if rng.random() < 0.9 else 1000
        time_unit = rng.choice(("ms", "us", "ns")) if rng.random() < 0.1 else None
    small = rng.random() < 0.5
    windows = {f"w{i}": s for i, s in enumerate(random_windows(rng, scale, base, with_calendar, small))}
    aggregates = tuple(random_aggregates(rng, small))
    keys = rng.choice(((), (), ("k",), ("k",), ("k", "k2")))
    lateness = rng.randint(0, 20) * scale if rng.random() < 0.5 else None
    watermark = rng.choice((None, "manual", 0, 1, 2, 3, 5, 8) if lateness is None else (None, None, "manual", 0, 1, 3))
    if isinstance(watermark, int):
        watermark *= scale
    used = [c for spec in (*windows.values(), *aggregates) for c in columns_of(spec)]
    # with changes of windows: how often there is one, and columns for those that are added
    changes = 0.15 if rng.random() < 0.12 else 0.0
    settled = watermark is None and lateness is None
    more = ("b", "d", "e") if changes and watermark is None else ()
    types = {c: t for c, t in COLUMN_TYPES.items() if c in used or c in keys or c in more}
    emit_empty = rng.random() < (0.3 if changes else 0.06)
    if "m" in types and rng.random() < 0.5:
        types["m"] = "bigint"
    rows = random_rows(rng, base, scale, types, lateness, 12 if small else 37)
    early = random_early(Random(-1 - seed), windows, scale)
    afresh, in_order = watermark is None and early is None, settled and early is None
    added = [*ADDED, *(ADDED_AFRESH if afresh else ()), *(ADDED_IN_ORDER if in_order else ())]
    steps = random_steps(rng, rows, base, scale, watermark, windows, small, changes, added)
    own = random_own(Random(-2 - seed), windows, steps, types)
    return Program(
        seed, time_unit, keys, watermark, lateness, windows, aggregates, types, steps, emit_empty, early, scale, own
    )


def random_own(
    rng: Random, windows: dict[str, Spec], steps: Sequence[Step], types: dict[str, str]
) -> dict[str, tuple[Spec, ...]]:
    """Aggregates of their own for some windows, of columns that there are; the first one gives those of the query."""
    added = [step[1] for step in steps if step[0] == "add"]
    if rng.random() > (0.7 if added else 0.15):
        return {}
    found = {}
    for label in [*list(windows)[1:], *added]:
        chosen = [a for a in random_aggregates(rng, small=False) if set(columns_of(a)) <= types.keys()]
        if rng.random() < 0.7:
            found[label] = tuple(dict.fromkeys(chosen)) or (("count_rows",),)
    return found


def random_early(rng: Random, windows: dict[str, Spec], scale: int) -> int | None:
    """How often windows are given that have not closed, if they can be."""
    possible = all(spec[0] in GIVEN_EARLY for spec in windows.values())
    return rng.choice((1, 2, 3, 5, 10)) * scale if possible and rng.random() < 0.4 else None


def random_rows(
    rng: Random, base: int, scale: int, types: dict[str, str], lateness: int | None, most: int
) -> list[Data]:
    random = rng.random
    nulls = random() < 0.4
    disorder = rng.choice((0.0, 0.2, 0.2, 0.5) if lateness is None else (0.0, 0.2, 0.4, 0.6))
    # some are behind by more than any window is long, others touch windows of which some are closed and some open
    furthest = rng.choice((1, 3, 6, 12, 12, 40))
    jumps = rng.choice(((1,), (0, 1, 1, 2), (0, 1, 1, 1, 2, 3, 5, 12), (0, 0, 0, 1)))
    with_nan = random() < 0.03
    makers = {c: MAKE[c] for c in types if c not in ("m", "m2")}
    # a correction may come between rows whose order is settled, so there the measure mostly follows time alone
    measure_of_time = lateness is not None and rng.random() < 0.7
    rows: list[Data] = []
    now = base + int(random() * 4) * scale
    for i in range(3 + int(random() ** 1.5 * (most - 3))):
        now += rng.choice(jumps) * scale
        at: int | None = now
        if disorder and random() < disorder:
            at = now - int(random() * (furthest + 1)) * scale
        if rows and random() < 0.04:
            rows.append({**rows[-1], "id": i})
            continue
        row: Data = {"id": i, "ts": at}
        for c, make in makers.items():
            row[c] = make(random)
        for c in ("m", "m2"):
            if c in types:
                row[c] = measure(random, at if at is not None else now, base, scale, types[c], measure_of_time)
        if "m2" in types:
            row["m2"] *= 0.5
        if "g" in row:
            row["g"] *= scale
        if nulls:
            for c in row:
                if random() < 0.06 and c != "id" and c != "p":
                    row[c] = None
            if "g" in row and random() < 0.03:
                row["g"] = -1
        if with_nan and "v" in row and random() < 0.2:
            row["v"] = float("nan")
        rows.append(row)
    return rows


#: how a column's value is made; random() is the only source
MAKE: dict[str, Any] = {
    "k": lambda random: "ABC"[int(random() * 3)],
    "k2": lambda random: int(random() * 2),
    "v": lambda random: int(random() * 40 - 12) * 0.25,
    "w": lambda random: int(random() * 12) - 4,
    "s": lambda random: "abcde"[int(random() * 5)],
    "p": lambda random: int(random() * 12 + 1) * 0.25,
    "d": lambda random: int(random() * 16 - 4) * 0.5,
    "c": lambda random: Decimal(int(random() * 4000) - 1000) / 100,
    "g": lambda random: int(random() * 7),
    "b": lambda random: random() < 0.3,
    "e": lambda random: random() < 0.25,
}


def measure(random: Any, at: int, base: int, scale: int, type_: str, of_time: bool) -> float:
    """A value that advances with time; now and then one that goes back, where that has one meaning only."""
    ticks = (at - base) // scale
    value = ticks * 0.5
    if not of_time and random() < 0.1:
        value = (ticks - int(random() * 6)) * 0.5
    return value if type_ == "double" else int(value // 1)


def random_steps(
    rng: Random,
    rows: list[Data],
    base: int,
    scale: int,
    watermark: int | str | None,
    windows: dict[str, Spec],
    small: bool,
    changes: float,
    added: Sequence[Maker],
) -> list[Step]:
    random = rng.random
    # the rows of a small program come in one or two batches
    largest = 2 * len(rows) if small else rng.choice((1, 5, 12, 40, 40, 40))
    moves = 0.6 if watermark == "manual" else 0.04
    snapshots = rng.choice((0.0, 0.0, 0.1, 0.3))
    running = dict(windows)
    steps: list[Step] = []
    done = 0
    now = base
    while done < len(rows):
        size = 0 if random() < 0.05 else 1 + int(random() * largest)
        batch = rows[done : done + size]
        done += len(batch)
        steps.append(("push", batch))
        now = max([now, *(r["ts"] for r in batch if r["ts"] is not None)])
        if random() < moves:
            steps.append(("advance", now + int(random() * 10 - 6) * scale))
        if random() < snapshots:
            steps.append(("snapshot",))
        if changes and random() < changes:
            # the rule for a measure holds as long as a window on it is there, so those stay
            removable = [label for label, spec in running.items() if "m" not in spec and "m2" not in spec]
            if len(running) > 1 and removable and random() < 0.4:
                label = rng.choice(removable)
                del running[label]
                steps.append(("remove", label))
            else:
                label = f"a{len(steps)}"
                running[label] = rng.choice(added)(rng, scale, base)
                steps.append(("add", label, running[label]))
    if random() < 0.95:
        steps.append(("finish",))
    return steps
