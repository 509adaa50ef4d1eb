"""Keys that nothing is held of are forgotten, where nothing depends on having seen them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import panes as pn
from panes.slicing import idle_keys

BATCHES, PER_BATCH = 100, 10_000
AT_ONCE = -(10**9)  # spare keys so few that idle ones are forgotten after every call


def operator(*, key: str = "bigint", emit_empty: bool = False, lateness: int | None = None, **windows: Any) -> Any:
    schema = {"k": key, "ts": "bigint", "v": "bigint"}
    stream = pn.stream(None, schema=schema, time="ts", key="k", watermark=0, lateness=lateness)
    return stream.window(**windows, emit_empty=emit_empty).agg(n="count(*)", s="sum(v)").operator()


def batch(keys: Any, time: int) -> pa.Table:
    return pa.table({"k": keys, "ts": np.full(len(keys), time), "v": np.ones(len(keys), np.int64)})


@pytest.mark.parametrize(
    ("window", "copies"),
    [(pn.tumbling(10), 1), (pn.sliding(40, every=10), 4), (pn.session(15), 1)],
    ids=["tumbling", "sliding", "session"],
)
def test_a_million_keys_that_come_once_do_not_stay(window: Any, copies: int) -> None:
    op = operator(w=window)
    given, keys, sizes = 0, [], []
    for i in range(BATCHES):
        given += op.push(batch(np.arange(i * PER_BATCH, (i + 1) * PER_BATCH), 10 * i)).table["n"].to_numpy().sum()
        keys.append(op.metrics["keys"])
        if i % 20 == 19:
            sizes.append(op.metrics["bytes"] + len(op.snapshot()))
    assert max(keys) <= 20 * PER_BATCH  # keys of at most 5 batches are in windows not yet due
    assert max(sizes[1:]) < 4 * min(sizes[1:])
    given += op.finish().table["n"].to_numpy().sum()
    assert given == copies * BATCHES * PER_BATCH


@pytest.mark.parametrize("lateness", [None, 20])
def test_keys_that_come_back_count_on(monkeypatch: pytest.MonkeyPatch, lateness: int | None) -> None:
    monkeypatch.setattr(idle_keys, "SPARE", AT_ONCE)
    op = operator(key="string", lateness=lateness, w=pn.tumbling(10), s=pn.session(3))
    op.push(batch(["a", "b", "c", "d"], 1))
    op.push(batch(["b", "x"], 12))
    held = op.metrics["keys"]
    again = list(op.push(batch(["a", "b"], 100)).rows())
    assert held == (4 + 1 if lateness else 2)
    assert {(r["k"], r["window"], r["window_start"], r["n"]) for r in again} == {
        ("b", "w", 10, 1), ("x", "w", 10, 1), ("b", "s", 12, 1), ("x", "s", 12, 1),
    }  # fmt: skip
    assert op.metrics["keys"] == 2
    last = list(op.finish().rows())
    assert {(r["k"], r["window"], r["n"]) for r in last} == {("a", "w", 1), ("b", "w", 1), ("a", "s", 1), ("b", "s", 1)}


@pytest.mark.parametrize("options", [{"emit_empty": True, "w": pn.tumbling(10)}, {"w": pn.tumbling(pn.rows(2))}])
def test_keys_stay_where_having_seen_them_matters(monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]) -> None:
    monkeypatch.setattr(idle_keys, "SPARE", AT_ONCE)
    op = operator(key="string", **options)
    op.push(batch(["a", "b", "c", "d"], 1))
    op.push(batch(["e"], 100))
    assert op.metrics["keys"] == 5


@pytest.mark.parametrize(("agg", "store"), [("sum(v)", "lazy"), ("sum(v)", "eager"), ("median(v)", "auto")])
@pytest.mark.parametrize("lateness", [None, 30])
@pytest.mark.parametrize("with_sessions", [False, True])
def test_many_keys_that_drift_give_the_same(
    monkeypatch: pytest.MonkeyPatch, agg: str, store: str, lateness: int | None, with_sessions: bool
) -> None:
    rng = np.random.default_rng(5)
    batches = []
    for i in range(25):
        keys, times = rng.integers(20 * i, 20 * i + 100, 150), 10 * i + rng.integers(0, 12, 150)
        batches.append(pa.table({"k": keys, "ts": times, "v": rng.integers(0, 100, 150)}))

    def run(spare: int) -> tuple[list[list[str]], int]:
        monkeypatch.setattr(idle_keys, "SPARE", spare)
        schema = {"k": "bigint", "ts": "bigint", "v": "bigint"}
        stream = pn.stream(None, schema=schema, time="ts", key="k", watermark=10, lateness=lateness)
        windows: dict[str, Any] = {"long": pn.sliding(60, every=3), "short": pn.tumbling(10)}
        if with_sessions:
            windows["s"] = pn.session(7)
        op = stream.window(**windows).agg(x=agg).operator(store=store)
        calls = [op.push(b) for b in batches]
        held = op.metrics["keys"]
        calls.append(op.finish())
        return [sorted(map(repr, c.rows())) for c in calls], held

    (ours, few), (theirs, all_keys) = run(AT_ONCE), run(10**12)
    assert ours == theirs
    assert few < all_keys / 2
