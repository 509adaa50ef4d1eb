"""The state of a key group: whatever a worker remembers or forgets, it goes on from what the store says."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import panes as pn
from panes.errors import SnapshotMismatch
from panes.operators import count, sliding, time
from panes.runners.spark import group_state
from panes.runners.spark.event_time import EventTime
from panes.runners.spark.graph_query import LEAF, GraphQuery
from panes.runners.spark.group_operator import GroupQuery as WindowQuery
from panes.runners.spark.group_operator import PassedQuery, Runnable, run, used_columns
from panes.runners.spark.group_state import GroupState, OperatorCache
from panes.runners.spark.packing import to_bytes

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("v", pa.float64())])
SENT = SCHEMA.with_metadata({LEAF: b"0"})  # by the only frame that there is
WINDOWS: dict[str, dict[str, Any]] = {
    "slices": {"t": pn.tumbling(20), "s": pn.sliding(50, every=7)},
    "rows": {"c": pn.tumbling(pn.rows(5)), "x": pn.session(3)},
    "early": {"c": pn.tumbling(pn.rows(5)), "t": pn.tumbling(20)},
    "counts": {"c": pn.tumbling(pn.rows(5))},
    "parts": {"t": pn.tumbling(20), "s": pn.sliding(50, every=7)},
}


class Store:
    """What Spark keeps for one key group. A task works on a copy, which it commits or not."""

    def __init__(self) -> None:
        self.values: dict[Any, Any] = {}

    def getValue(self, key: Any) -> Any:
        return self.values.get(key)

    def updateValue(self, key: Any, value: Any) -> None:
        self.values[key] = value

    def removeKey(self, key: Any) -> None:
        del self.values[key]

    @property
    def bytes(self) -> int:
        return sum(len(text) for (number,), (text,) in self.values.items() if number >= 0)


def query(windows: str, **more: Any) -> Any:
    stream = pn.stream(None, schema=SCHEMA, time="ts", key="k", watermark="manual", **more)
    if windows == "operators":
        given = stream.dedupe("v", window=sliding(time("30 ms"))).sort("v", "k", window=sliding(count(9)))
        graph, _ = GraphQuery.of(given._node)
        return replace(graph, times=(EventTime(1, 1, 0, 0),))
    plan = stream.window(**WINDOWS[windows]).agg(n="count(*)", m="median(v)", l="last(v)")._plan
    # rows are up to 110 ahead of the watermark that comes after them
    early = EventTime(1, 1, 0, bound=110) if windows == "early" else None
    kind = PassedQuery if windows == "parts" else WindowQuery
    return kind(plan, used_columns(plan), at_once=early is not None, early=early)


def batch(rng: np.random.Generator, start: int, rows: int, keys: int = 7) -> pa.Table:
    times = rng.integers(start, start + 100, rows)
    return pa.table([times, rng.integers(0, keys, rows), rng.integers(0, 9, rows) * 1.0], schema=SENT)


def do_step(
    store: Store, asked: Runnable, watermark: int, rows: pa.Table | None, worker: OperatorCache
) -> list[pa.Table]:
    """What a task does with a group."""
    group_state.operator_cache = worker
    state = GroupState(store, asked, asked.facts(4))
    head = state.head()
    packed = [] if rows is None else [to_bytes(part) for part in (rows.slice(0, 10), rows.slice(10))]
    op = state.operator(head)
    came = asked.rows(packed)
    passed = asked.passed(watermark, came)
    given, before = state.step(head, op, passed, packed, came)
    state.save(head, op, passed, packed, before)
    return given.results


def shown(asked: Runnable, tables: list[pa.Table]) -> list[dict[str, Any]]:
    """What a micro-batch gives, whether it took one call or several."""
    given = asked.given(tables)
    return [] if given is None else given.to_pylist()


@pytest.fixture(autouse=True)
def _own_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_state, "operator_cache", OperatorCache())


@pytest.mark.parametrize("free", [0, 1 << 18])
@pytest.mark.parametrize("windows", ["slices", "rows", "early", "operators", "parts"])
@pytest.mark.parametrize("seed", range(3))
def test_failures_and_moves_change_nothing(windows: str, seed: int, free: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks that fail before or after they wrote, run twice, or land on workers that saw other batches."""
    monkeypatch.setattr(group_state, "_FREE", free)
    rng = np.random.default_rng(seed)
    asked = query(windows)
    plain = asked.operator()
    workers = [OperatorCache() for _ in range(3)]
    store = Store()
    for number in range(25):
        rows = None if rng.random() < 0.2 else batch(rng, number * 40, int(rng.integers(11, 60)))
        watermark = number * 40 - 50
        for _ in range(int(rng.integers(0, 3))):  # attempts that come to nothing
            do_step(copy.deepcopy(store), asked, watermark, rows, workers[rng.integers(3)])
        task = copy.deepcopy(store)
        found = do_step(task, asked, watermark, rows, workers[rng.integers(3)])
        store = task
        came = None if rows is None else asked.rows([to_bytes(rows)])
        expected = run(plain, asked.passed(watermark, came), came).results
        assert shown(asked, found) == shown(asked, expected)
        if rng.random() < 0.1:
            workers[rng.integers(3)].clear()


def test_a_step_writes_its_rows_and_not_the_state() -> None:
    rng = np.random.default_rng(1)
    asked, store, worker = query("slices"), Store(), OperatorCache()
    do_step(store, asked, 0, batch(rng, 0, 400_000, keys=50_000), worker)
    large = store.bytes
    assert large > 1 << 20
    state = GroupState(store, asked, asked.facts(4))
    for number in range(3):
        do_step(store, asked, 0, batch(rng, 0, 500, keys=500), worker)
        assert store.bytes - large < 50_000 * (number + 1)
    assert len(state.head().steps) >= 3


def test_state_stays_bounded() -> None:
    """Many small steps, and steps without rows, are folded into a snapshot in the end."""
    rng = np.random.default_rng(1)
    asked, store, worker = query("slices"), Store(), OperatorCache()
    for number in range(300):
        do_step(store, asked, number * 10, batch(rng, number * 10, 20) if number % 2 else None, worker)
    assert store.bytes < 1 << 19
    assert len(GroupState(store, asked, asked.facts(4)).head().steps) < 100


def test_rows_that_wait_are_written_once() -> None:
    """Rows that wait for the watermark are kept as they came: the snapshot is of the moment before."""
    rng = np.random.default_rng(1)
    asked, store, worker = query("counts"), Store(), OperatorCache()
    for number in range(4):
        rows = batch(rng, number * 100, 200_000)
        known = {*store.values}
        do_step(store, asked, number * 100 - 1, rows, worker)
        written = sum(len(text) for n, (text,) in store.values.items() if n not in known)
        packed = len(to_bytes(rows))
        assert packed < written < 1.5 * packed  # base64, and little else
        assert store.bytes < 5 * packed
    worker.clear()
    assert do_step(store, asked, 399, None, worker)


def test_another_query_is_refused_by_name() -> None:
    rng = np.random.default_rng(1)
    store, worker = Store(), OperatorCache()
    do_step(store, query("rows"), 0, batch(rng, 0, 50), worker)
    with pytest.raises(SnapshotMismatch, match=r"windows was .*session.*, is .*sliding.*new checkpoint"):
        do_step(store, query("slices"), 0, batch(rng, 0, 50), worker)
    with pytest.raises(SnapshotMismatch, match=r"lateness was None, is 5"):
        do_step(store, query("rows", lateness=5), 0, batch(rng, 0, 50), worker)
    with pytest.raises(SnapshotMismatch, match=r"operator 1: operator was None, is 'Dedupe'"):
        do_step(store, query("operators"), 0, batch(rng, 0, 50), worker)


def test_workers_keep_operators_within_a_limit() -> None:
    rng = np.random.default_rng(1)
    asked, worker = query("rows"), OperatorCache(limit=1 << 20)
    for number in range(12):
        do_step(Store(), asked, 0, batch(rng, number, 5_000), worker)
        assert worker._bytes <= 1 << 20
    assert 1 <= len(worker) < 12


def test_workers_keep_no_more_than_their_share_of_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unlimited, limited = tmp_path / "memory.max", tmp_path / "memory.limit_in_bytes"
    monkeypatch.setattr(group_state, "_CONTAINER_LIMITS", (unlimited, limited))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 16 << 18}  # 16 GiB
    monkeypatch.setattr("os.sysconf", pages.__getitem__)
    assert OperatorCache()._limit == 4 << 30
    unlimited.write_text("max\n")
    limited.write_text(f"{8 << 30}\n")
    assert OperatorCache()._limit == 2 << 30
    limited.write_text("1000000\n")
    assert OperatorCache()._limit == 1 << 28
