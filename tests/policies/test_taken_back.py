"""A policy window of one key gives up rows in place; a call that fails in between has them back."""

from __future__ import annotations

import random
from typing import Any

import pytest

import panes as pn
from panes.policies import arena
from panes.policies.built_in import BuiltInPolicies
from tests.fuzz.errors import never_calm, struck

p = pn.policies
WINDOWS: dict[str, Any] = {
    "pair": pn.policy(evict=p.time(7), trigger=p.time(3)),
    "general": pn.policy(evict=p.largest(p.time(7)), trigger=p.any_of(p.time(3))),
    "time by count": pn.policy(evict=p.time(7), trigger=p.count(4)),
    "delta": pn.policy(evict=p.delta(5, on="v"), trigger=p.count(3)),
}


def small_programs_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """And give up rows."""
    monkeypatch.setattr(BuiltInPolicies, "spare", 5)
    monkeypatch.setattr(BuiltInPolicies, "few", 0)
    monkeypatch.setattr(BuiltInPolicies, "small", 0)


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("seed", range(25))
def test_rows_that_were_given_up_come_back_with_a_call_that_fails(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_programs_are_compiled(monkeypatch)
    rng = random.Random(seed)
    stream = pn.stream(None, schema={"ts": "bigint", "v": "double"}, time="ts")
    query = stream.window(w=WINDOWS[name]).agg(x="max(v)", n="count(*)")
    with never_calm():
        calm, victim = query.operator(), query.operator()
        time = 0
        for _ in range(12):
            rows = []
            for _ in range(rng.randint(1, 15)):
                time += rng.choice((0, 1, 1, 2, 9))
                rows.append({"ts": time, "v": float(rng.randint(0, 50))})
            while rng.random() < 0.7 and struck(lambda: victim.push(rows), int(10 ** rng.uniform(1.5, 3.2)))[0]:  # noqa: B023
                pass
            fresh = query.operator(restore=victim.snapshot())
            if victim.metrics["rows_in"] < calm.metrics["rows_in"] + len(rows):
                # what was struck is as it was: it goes on, as does what is restored from it
                assert list(fresh.push(rows).rows()) == (given := list(victim.push(rows).rows()))
                assert list(calm.push(rows).rows()) == given
            else:
                calm.push(rows)
            assert victim.metrics == calm.metrics
        assert list(victim.finish().rows()) == list(calm.finish().rows())


def test_that_happens_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    small_programs_are_compiled(monkeypatch)
    monkeypatch.setattr(arena.Arena, "_hold", lambda *_: pytest.fail("rows were copied to fresh arrays"))
    stream = pn.stream(None, schema={"ts": "bigint", "v": "double"}, time="ts")
    op = stream.window(w=WINDOWS["pair"]).agg(x="max(v)").operator()
    for first in range(0, 200, 20):
        op.push({"ts": list(range(first, first + 20)), "v": [1.0] * 20})
