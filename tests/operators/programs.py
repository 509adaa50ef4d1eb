"""Configurations and data for operators, and ways to run them: at once, in pieces, across snapshots."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import panes as pn
from panes.operators import (
    Clause,
    count,
    delta,
    partition_age,
    partition_count,
    punct,
    sliding,
    time,
    tumbling,
    tuple_count,
)
from tests.operators.oracle import Config

POLICIES = ("count", "delta", "time")
#: The 4 tumbling and 9 sliding combinations of eviction and trigger.
COMBINATIONS: tuple[tuple[str, str | None], ...] = (
    *((evict, None) for evict in (*POLICIES, "punct")),
    *((evict, trigger) for evict in POLICIES for trigger in POLICIES),
)
#: Ways to partition, as the literature counts them: not, or with one of three bounds.
PARTITIONS = (None, "count", "tuples", "age")

SCHEMA = {"ts": "bigint", "k": "string", "v": "bigint", "x": "bigint", "g": "string", "m": "bigint", "n": "bigint"}


def policy(kind: str, size: int) -> Any:
    """Ticks are seconds."""
    if kind == "delta":
        return delta("v", size)
    return {"count": count, "time": lambda s: time(f"{s} s"), "punct": lambda _: punct()}[kind](size)


def clause(config: Config) -> Clause:
    options: dict[str, Any] = {}
    if isinstance(config.partitions, tuple):
        kind, size = config.partitions
        made = {"count": partition_count, "tuples": tuple_count, "age": lambda s: partition_age(f"{s} s")}[kind](size)
        options = {"partition_evict": made, "select": config.select}
    if config.trigger is None:
        return tumbling(policy(*config.evict), **options)
    return sliding(policy(*config.evict), every=policy(*config.trigger), **options)


def random_config(rng: random.Random, evict: str, trigger: str | None, partitions: str | None) -> Config:
    sizes = {"count": rng.choice((1, 2, 3, 5)), "delta": rng.choice((0, 1, 3, 6)), "time": rng.choice((1, 2, 4, 7))}
    every = None if trigger is None else (trigger, sizes[trigger] if trigger != evict else rng.choice((1, 2, 3)))
    bound: Any = partitions
    if partitions in ("count", "tuples", "age"):
        bound = (partitions, rng.choice((1, 2, 3, 4)))
    return Config((evict, sizes.get(evict, 0)), every, bound, rng.choice(("lru", "lru", "lfu", "oldest")))


def random_rows(rng: random.Random, n: int, *, marks: float = 0.0) -> list[tuple[int, dict[str, Any] | None]]:
    """Rows in order of time, with a `v` that never falls, and punctuations in between."""
    out: list[tuple[int, dict[str, Any] | None]] = []
    now, v = rng.randrange(-5, 20), rng.randrange(5)
    for i in range(n):
        now += rng.choice((0, 0, 1, 1, 2, 5))
        v += rng.choice((0, 1, 1, 2, 4))
        x = rng.randrange(6)
        row = {"ts": now, "k": rng.choice("abcd"), "v": v, "x": x, "g": rng.choice("pq"), "m": x % 3, "n": i}
        out.append((now, row))
        while rng.random() < marks:
            out.append((now, None))
    return out


def stream(config: Config, data: Any = None, **options: Any) -> Any:
    key = "k" if config.keyed else None
    return pn.stream(data, schema=SCHEMA, time="ts", key=key, time_unit="s", **options)


def pieces(rng: random.Random, n: int) -> Iterator[tuple[int, int]]:
    """Cuts of 0..n at random; some are empty."""
    at = 0
    while at < n:
        end = min(n, at + rng.choice((0, 1, 2, 5, 12)))
        yield at, end
        at = end


class Pushed:
    """Pushes rows to a stream's operator and writes down what it gives, with "|" for punctuations."""

    def __init__(self, made: Any, mechanism: str = "auto") -> None:
        self._made = made
        self.operator = made.operator(mechanism=mechanism)
        self.out: list[Any] = []

    def restart(self) -> None:
        """A snapshot, and a new operator from it."""
        self.operator = self._made.operator(restore=self.operator.snapshot())

    def run(self, events: list[tuple[int, int, Any]], cut: random.Random | None, *, restarts: bool) -> list[Any]:
        """Events (time, port, row or None) in random pieces; `cut` None: as large as ports and punctuations allow."""
        at = 0
        limits = pieces(cut, len(events)) if cut is not None else iter([(0, len(events))])
        for start, end in limits:
            at = start
            while at < end:
                port = events[at][1]
                stop = at
                while stop < end and events[stop][1] == port and events[stop][2] is not None:
                    stop += 1
                if stop > at:
                    self._note(self.operator.push([row for _, _, row in events[at:stop]], port))
                else:
                    self._note(self.operator.advance(events[at][0]))
                    self._note(self.operator.punctuate(port))
                    stop = at + 1
                at = stop
            if restarts and cut is not None and cut.random() < 0.4:
                self.restart()
        self._note(self.operator.finish())
        return self.out

    def _note(self, result: Any) -> None:
        rows = list(result.rows())
        marks = list(result.punctuations)
        for i in range(len(rows) + 1):
            self.out += ["|"] * sum(m == i for m in marks)
            if i < len(rows):
                self.out.append(rows[i])


def flat(out: list[Any], *names: str) -> list[Any]:
    """Rows as tuples of some columns (one column: its values), punctuations as they are."""
    found = [row if row == "|" else tuple(row[name] for name in names) for row in out]
    return found if len(names) > 1 else [row if row == "|" else row[0] for row in found]
