"""Rows behind windows that their own batch has closed: one large batch gives what the same rows give one by one."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import panes as pn
from panes.slicing.partials import slices_behind

AGGREGATES = {
    "n": "count(*)",
    "x": "sum(v)",
    "low": "min(v)",
    "mean": "avg(v)",
    "all": "collect_list(v)",
    "middle": "median(v)",
}
WINDOWS: dict[str, dict[str, Any]] = {
    "tumbling": {"t": pn.tumbling(10)},
    "sliding": {"s": pn.sliding(60, every=5)},
    "several": {"t": pn.tumbling(7), "s": pn.sliding(30, every=10), "long": pn.sliding(200, every=20)},
    "with gaps": {"s": pn.sliding(5, every=20)},
    "beside sessions": {"s": pn.sliding(40, every=10), "session": pn.session(3)},
}


def rows(seed: int, keys: int) -> list[dict[str, Any]]:
    """Rows up to 80 behind the newest one, which moves on by 3 a row."""
    rng = random.Random(seed)
    times = [max(0, 3 * i - rng.choice((0, 0, 0, rng.randrange(80)))) for i in range(300)]
    return [{"ts": t, "k": rng.randrange(keys), "v": rng.randrange(100)} for t in times]


def results(windows: dict[str, Any], batches: list[list[dict[str, Any]]], delay: int, *, keyed: bool) -> list[str]:
    schema = {"ts": "bigint", "k": "bigint", "v": "bigint"}
    stream = pn.stream(None, schema=schema, time="ts", watermark=delay, key="k" if keyed else None)
    op = stream.window(**windows).agg(**AGGREGATES).operator()
    found = [row for batch in batches for row in op.push(pa.Table.from_pylist(batch)).rows()]
    found += op.finish().rows()
    kept = {name: op.metrics[name] for name in ("rows_used", "rows_late", "late_by_window")}
    return [*sorted(map(repr, found)), repr(kept)]


@pytest.mark.parametrize("keys", [0, 1, 5, 300])
@pytest.mark.parametrize("windows", WINDOWS)
def test_one_large_batch_gives_what_single_rows_give(windows: str, keys: int) -> None:
    for seed in range(3):
        sent, delay = rows(seed, max(keys, 1)), (0, 5, 30)[seed]
        alone = results(WINDOWS[windows], [[row] for row in sent], delay, keyed=keys > 0)
        together = results(WINDOWS[windows], [sent[:20], sent[20:]], delay, keyed=keys > 0)
        assert together == alone


@pytest.mark.parametrize("keys", [0, 5, 300])
def test_moments_and_keys_too_many_for_a_place_each(keys: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices_behind, "SMALL", 0)
    monkeypatch.setattr(slices_behind, "mostly_empty", lambda places, filled: True)
    sent = rows(7, max(keys, 1))
    for windows in WINDOWS.values():
        alone = results(windows, [[row] for row in sent], 0, keyed=keys > 0)
        assert results(windows, [sent], 0, keyed=keys > 0) == alone


def test_large_batches_are_answered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The way for many closed ends is the one that was tried above, and blocks of windows make no difference to it."""
    calls, given = [], slices_behind.give_with

    def give(*args: Any) -> Any:
        calls.append(args)
        return given(*args)

    monkeypatch.setattr(slices_behind, "give_with", give)
    monkeypatch.setattr(slices_behind, "_AT_ONCE", 7)
    sent = rows(9, 3)
    alone = results(WINDOWS["several"], [[row] for row in sent], 0, keyed=True)
    assert not calls
    assert results(WINDOWS["several"], [sent], 0, keyed=True) == alone
    assert calls
