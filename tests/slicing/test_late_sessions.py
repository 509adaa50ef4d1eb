"""Late rows of sessions: they find the few sessions they touch among many, and results are those from scratch."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest

import panes as pn
from panes.errors import DataError
from panes.slicing.partials.session_order import ByEnd, SessionOrder
from tests.oracle.oracle import Oracle

SCHEMA = {"ts": "bigint", "k": "string", "v": "bigint"}
GAP = 3


def rows(rng: Random, low: int, high: int, n: int) -> list[dict[str, Any]]:
    return [{"ts": rng.randint(low, high), "k": rng.choice("aab"), "v": rng.randint(-9, 9)} for _ in range(n)]


def shown(results: Any, keyed: bool) -> Counter[tuple[Any, ...]]:
    names = ("window", "window_start", "window_end", "revision", "void", "total", "most")
    return Counter((r["k"] if keyed else None, *(r[n] for n in names)) for r in results)


@pytest.mark.parametrize("seed", range(60))
def test_among_many_sessions_corrections_are_what_the_oracle_gives(seed: int) -> None:
    """There are many more sessions than rows that come behind, so that they are looked for one by one."""
    rng = Random(seed)
    keyed, lateness = rng.random() < 0.6, rng.choice((150, 400, 5000))
    options: dict[str, Any] = {"watermark": "manual", "lateness": lateness}
    oracle = Oracle({"s": ("session", GAP)}, [("sum", "v"), ("max", "v")], keys=["k"] if keyed else [], **options)
    stream = pn.stream(time="ts", schema=SCHEMA, key="k" if keyed else None, **options)
    query = stream.window(s=pn.session(GAP)).agg(total="sum(v)", most="max(v)")
    op, watermark = query.operator(), 0
    for _ in range(25):
        behind = rows(rng, watermark - rng.choice((10, 100, 600)), watermark, rng.randint(0, 3))
        batch = [*behind, *rows(rng, watermark + 1, watermark + 60, rng.randint(0, 12))]
        rng.shuffle(batch)
        if watermark > 0 and rng.random() < 0.3:  # a call that fails leaves nothing behind
            bad = {"ts": watermark - 120, "k": "a", "v": 2**63 - 1}
            with pytest.raises(DataError, match="64-bit integer"):
                op.push([*batch, bad, bad])
        given, wanted = list(op.push(batch)), oracle.push(batch)
        watermark += rng.randint(0, 80)
        given += list(op.advance(watermark))
        wanted += oracle.advance(watermark)
        if rng.random() < 0.1:
            op = query.operator(restore=op.snapshot())
        assert shown(given, keyed) == Counter(
            (r.key[0] if keyed else None, r.window, r.start, r.end, r.revision, r.void, *r.values) for r in wanted
        )


def test_the_order_of_sessions_is_kept_while_they_come_and_go() -> None:
    rng = Random(5)
    wanted: dict[int, list[int]] = {0: [0, 2], 1: [], 2: [1]}
    order = SessionOrder(np.array([0, 0, 2]), np.array([0, 2, 1]))
    for number in range(10, 400):
        slot = rng.randrange(3)
        if rng.random() < 0.5 or not wanted[slot]:
            order.opened(np.array([slot]), np.array([number]))
            wanted[slot].append(number)
        else:
            order.dropped(np.array([slot]))
            del wanted[slot][0]
        if rng.random() < 0.3:
            assert order.of(slot).newest(1000) == wanted[slot]


def test_sessions_are_taken_by_when_they_end_whatever_the_order_they_came_in() -> None:
    rng = Random(6)
    queue, waiting, now = ByEnd(), {}, 0
    for number in range(500):
        end = now + rng.randint(0, 50)
        waiting[number] = end
        queue.add(np.array([end]), np.array([number]))
        if rng.random() < 0.2:
            now += rng.randint(0, 20)
            due = sorted(n for n, e in waiting.items() if e < now)
            assert queue.take(now).tolist() == due
            for n in due:
                del waiting[n]
