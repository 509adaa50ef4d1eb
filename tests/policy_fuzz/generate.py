"""A random policy window and rows for it, from a seed. Small numbers everywhere, so that policies meet each other."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.policy_fuzz.users import GapTrigger, HalfOnFake, Leaves, SumTrigger

NAN = float("nan")
#: pauses so long that nobody may walk from border to border: a century of seconds, of microseconds
FAR = (3_155_760_000, 3_155_760_000_000_000)


@dataclass
class Program:
    """Policies as tuples (tests/policies/oracle.py), rows as dicts, and how rows are cut into batches."""

    seed: int
    trigger: list = field(default_factory=list)
    evict: list = field(default_factory=list)
    central_trigger: list = field(default_factory=list)
    central_evict: list = field(default_factory=list)
    end: bool = True
    thread: bool = False
    rows: list = field(default_factory=list)
    cuts: list = field(default_factory=list)
    keys: int = 1

    @property
    def policies(self) -> dict[str, list]:
        return {n: getattr(self, n) for n in ("trigger", "evict", "central_trigger", "central_evict")}


def generate(seed: int) -> Program:
    rng = random.Random(seed)
    program = Program(seed)
    central = rng.random() < 0.4
    user = rng.random() < 0.3
    program.keys = rng.choice((1, 2, 3, 5)) if central or rng.random() < 0.3 else 1
    program.thread = rng.random() < 0.15
    clock = "central" if central else "own"
    make = Maker(rng, user, program.thread)
    make.thread = program.thread and clock == "own"
    if not central or rng.random() < 0.5:
        program.trigger = make.triggers(fewest=0 if central else 1)
        program.evict = make.evictions(fewest=0 if central else 1)
    if central:
        make.thread = program.thread
        program.central_trigger = make.triggers(fewest=0 if program.trigger else 1)
        program.central_evict = make.evictions(fewest=0 if program.evict else 1)
        if program.thread and any_timer(program.trigger):
            program.trigger = [("count", {"size": rng.randint(1, 5)})]
        if not program.central_trigger and not program.central_evict:
            program.central_evict = [("count", {"size": rng.randint(1, 9)})]
    if not (any_timer(program.trigger) or any_timer(program.central_trigger)):
        program.thread = False
    program.end = rng.random() < 0.7
    program.rows = rows(rng, program.keys)
    n = len(program.rows)
    program.cuts = sorted(rng.sample(range(1, n), min(rng.choice((0, 1, 2, 5)), n - 1))) if n > 1 else []
    return program


def any_timer(policies: list) -> bool:
    return any(p[0] == "time" or any_timer([q for q in p[1:] if isinstance(q, tuple)]) for p in policies)


def rows(rng: random.Random, keys: int) -> list[dict]:
    n = rng.choice((0, 1, 3, 8, 15, 30))
    far = rng.choice(FAR) if rng.random() < 0.15 else 0
    step = rng.choice((0, 1, 2, 6))
    t, made = rng.randint(-3, 5), []
    for _ in range(n):
        v = float(rng.randint(-4, 8)) if rng.random() < 0.95 else NAN
        made.append({"t": t, "k": rng.randrange(keys), "v": v, "w": rng.randint(0, 5), "m": rng.choice("abc")})
        t += rng.randint(0, step) + (rng.randint(0, 15) if rng.random() < 0.1 else 0)
        t += far + rng.randint(0, 99) if far and rng.random() < 0.2 else 0
    return made


class Maker:
    def __init__(self, rng: random.Random, user: bool, thread: bool) -> None:
        self.rng, self.user, self.thread = rng, user, thread

    def triggers(self, fewest: int) -> list:
        return [self.trigger(0) for _ in range(max(fewest, self.rng.choice((0, 1, 1, 1, 2, 3))))]

    def evictions(self, fewest: int) -> list:
        return [self.eviction(0) for _ in range(max(fewest, self.rng.choice((0, 1, 1, 1, 2))))]

    def trigger(self, depth: int) -> tuple:
        rng = self.rng
        kind = rng.choice(("count", "count", "time", "time", "delta", "punctuation", "user", "many"))
        if kind == "many" and depth < 3:
            nested = [self.trigger(depth + 1) for _ in range(rng.randint(0, 3))]
            return (rng.choice(("any_of", "all_of", "exactly_one_of")), *nested)
        if kind == "user" and self.user:
            gap = GapTrigger(rng.randint(0, 6), rng.randint(1, 2), rng.choice(("", "tick", "row")))
            return ("user", rng.choice((SumTrigger(rng.randint(1, 20)), gap)))
        if kind == "time":
            return ("time", self.time_trigger())
        if kind == "delta":
            return self.delta_trigger()
        if kind == "punctuation":
            return ("punctuation", {"sample": rng.choice("abz"), "on": "m"})
        options = {"size": rng.randint(1, 6)}
        if rng.random() < 0.3:
            options["start"] = rng.randint(-5, 5)
        return ("count", options)

    def time_trigger(self) -> dict:
        rng = self.rng
        options: dict = {"z": rng.randint(1, 8)}
        if rng.random() < 0.3:
            options["delay"] = rng.randint(1, 9)
        if rng.random() < 0.2:
            options["start"] = rng.randint(-6, 12)
        if self.thread:
            options["thread"] = True
        elif rng.random() < 0.15:
            options["border_on_row"] = True
        elif rng.random() < 0.15:
            options["active"] = False
        return options

    def delta(self) -> dict:
        rng = self.rng
        on = rng.choice((("v",), ("w",), ("v", "w")))
        return {"threshold": rng.randint(0, 6), "on": on, "function": "euclidean"} | (
            {"function": "cosine", "threshold": rng.choice((0, 0.5, 1))} if rng.random() < 0.2 else {}
        )

    def delta_trigger(self) -> tuple:
        options = self.delta()
        if self.rng.random() < 0.6:
            options["start"] = tuple(float(self.rng.randint(-2, 5)) for _ in options["on"])
        return ("delta", options)

    def eviction(self, depth: int) -> tuple:
        rng = self.rng
        kind = rng.choice(
            ("count", "count", "time", "time", "delta", "punctuation", "tumble", "user", "many", "active")
        )
        if kind == "many" and depth < 3:
            nested = [self.eviction(depth + 1) for _ in range(rng.randint(0, 3))]
            return (rng.choice(("largest", "smallest", "total", "first_of")), *nested)
        if kind == "user" and self.user:
            return ("user", rng.choice((Leaves(rng.randint(1, 5)), HalfOnFake(rng.randint(0, 4)))))
        if kind == "active":
            inner = rng.choice((("tumble",), ("count", {"size": rng.randint(1, 5)})))
            if depth or rng.random() < 0.5:
                inner = rng.choice((
                    ("time", {"z": rng.randint(1, 12), "active": rng.random() < 0.5}),
                    ("delta", self.delta()),
                    ("punctuation", {"sample": rng.choice("abz"), "on": "m"}),
                ))  # fmt: skip
            if self.user and rng.random() < 0.3:
                inner = ("user", Leaves(rng.randint(1, 4)))
            return ("active", inner)
        if kind == "time":
            return ("time", {"z": rng.randint(1, 12), **({"active": False} if rng.random() < 0.15 else {})})
        if kind == "delta":
            return ("delta", self.delta())
        if kind == "punctuation":
            return ("punctuation", {"sample": rng.choice("abz"), "on": "m"})
        if kind == "tumble":
            return ("tumble",)
        options = {"size": rng.randint(1, 8)}
        if rng.random() < 0.2:
            options["delete"] = rng.randint(1, 10)
        if rng.random() < 0.2:
            options["start"] = rng.randint(-4, 6)
        return ("count", options)
