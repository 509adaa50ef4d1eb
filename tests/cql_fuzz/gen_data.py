"""Random schemas and rows: small numbers with nulls, duplicates and ties, times in order or nearly so."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

from tests.cql_fuzz.programs import Columns

START = datetime(2015, 1, 1)
_TYPES = ("int", "int", "long", "double", "double", "float", "string", "string", "boolean", "short", "byte")


def columns(rng: random.Random) -> Columns:
    """A time, most often, then a column that advances, a key and values."""
    found: list[tuple[str, str]] = []
    if rng.random() < 0.85:
        found.append(("ts", rng.choice(("long", "long", "int", "datetime"))))
    if rng.random() < 0.3:
        found.append(("m", rng.choice(("double", "long"))))
    if rng.random() < 0.8:
        found.append(("k", rng.choice(("string", "string", "int", "boolean"))))
    for name in rng.sample(("v", "w", "x", "price"), rng.randint(1, 3)):
        found.append((name, rng.choice(_TYPES)))
    rng.shuffle(found)
    return tuple(found)


def rows(rng: random.Random, schema: Columns, *, disorder: int = 0, null_times: bool = False) -> Any:
    """`disorder`: by how much times may go back."""
    number = 0 if rng.random() < 0.04 else rng.randint(1, 22)
    made = []
    now, far = rng.randint(0, 5), 0.0
    step = rng.choice((1, 3, 6))
    nulls = rng.choice((0.0, 0.0, 0.15, 0.4))
    for _ in range(number):
        now += rng.choice((0, 0, 1, step, rng.randint(0, 2 * step)))
        far += rng.choice((0, 0.5, 1, 2))
        row = []
        for name, kind in schema:
            if name == "ts":
                at = max(0, now - rng.randint(0, disorder)) if disorder else now
                missing = null_times and rng.random() < 0.1
                row.append(None if missing else START + timedelta(seconds=at) if kind == "datetime" else at)
            elif name == "m":
                row.append(far if kind == "double" else int(far))
            else:
                row.append(None if rng.random() < nulls else value(rng, name, kind))
        made.append(tuple(row))
    return tuple(made)


def value(rng: random.Random, name: str, kind: str) -> Any:
    if kind == "string":
        return rng.choice(("a", "b", "ab", "B", ""))
    if kind == "boolean":
        return rng.random() < 0.5
    if kind in ("double", "float"):
        return rng.randint(-4, 20) / 2
    return rng.randint(0, 2) if name == "k" else rng.randint(-3, 9)
