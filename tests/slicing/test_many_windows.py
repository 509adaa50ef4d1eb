"""Many windows at once over the dense store: however they are folded, each is what its rows give one by one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import panes as pn
from panes.aggregates.base import BoundAggregate, Cells
from panes.slicing.partials import row_fold
from panes.slicing.partials.dense_store import DenseStore
from panes.windows.codec import window_to_json

AGGS = {"total": "sum(v)", "high": "max(v)", "mean": "avg(v)", "spread": "stddev(v)"}
SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.int64()), ("v", pa.int64())])


def _bound() -> list[BoundAggregate]:
    query = pn.stream(None, schema=SCHEMA, time="t", key="k", watermark="manual").window(w=pn.tumbling(10))
    return [a.bound for a in query.agg(**AGGS)._plan.operator_spec().aggs]


def _store(rng: np.random.Generator, slices: int, keys: int, kind: str) -> tuple[DenseStore, np.ndarray]:
    """A store whose cells hold one row each, some none; and which hold one."""
    aggs = _bound()
    store = DenseStore(aggs, keyed=True, store=kind)
    store.open(np.arange(slices), slices)
    present = rng.random(slices * keys) < 0.7
    cells = []
    for agg in aggs:
        one = agg.empty(slices * keys)
        fields = [np.where(present, rng.integers(1, 1000, len(present)), f).astype(f.dtype) for f in one.fields]
        cells.append(Cells(tuple(fields)))
    store.add_block(np.arange(slices), keys, present.astype(np.uint8), cells)
    return store, present.reshape(slices, keys)


@pytest.mark.parametrize("kind", ["lazy", "eager"])
@pytest.mark.parametrize(
    ("slices", "keys", "windows"), [(40, 3, 30), (40, 70, 400), (300, 20, 1500), (60, 600, 50), (5, 100, 17)]
)
def test_windows_folded_together_are_those_folded_alone(slices: int, keys: int, windows: int, kind: str) -> None:
    rng = np.random.default_rng(slices * keys)
    store, present = _store(rng, slices, keys, kind)
    hi = np.sort(rng.integers(1, slices + 1, windows))
    lo = (hi - rng.integers(1, slices + 1, windows)).clip(0)
    found = store.answer(lo, hi, lo)
    at = 0
    for i in range(windows):
        one = store.answer(lo[i : i + 1], hi[i : i + 1], lo[i : i + 1])
        assert one.slots.tolist() == np.flatnonzero(present[lo[i] : hi[i]].any(axis=0)).tolist()
        assert found.counts[i] == len(one)
        assert found.slots[at : at + len(one)].tolist() == one.slots.tolist()
        for many, single in zip(found.values, one.values):
            got, wanted = many.slice(at, len(one)).to_pylist(), single.to_pylist()
            assert got == pytest.approx(wanted, rel=1e-9, nan_ok=True)
        at += len(one)
    assert at == len(found)


@pytest.mark.parametrize("seed", range(20))
def test_folding_together_keeps_the_order_of_rows(seed: int) -> None:
    """Bit for bit, in chains of windows that grow out of each other too: sums of floats depend on the order."""
    rng = np.random.default_rng(seed)
    grows = [False, *(rng.random(60) < 0.6)]
    lengths = rng.integers(1, 9, len(grows))
    plan = row_fold.Plan(rng.integers(0, 50, lengths.sum()), np.concatenate(([0], np.cumsum(lengths))), grows)
    field = rng.normal(0, 1, (50, 7)) * 10.0 ** rng.integers(-8, 8, (50, 7))
    alone, together = np.empty((len(grows), 7)), np.empty((len(grows), 7))
    row_fold._fold_one_by_one(np.add, field, plan, alone)
    row_fold._fold_together(np.add, field, plan, together)
    assert alone.tobytes() == together.tobytes()


def test_a_query_binds_and_writes_its_windows_once() -> None:
    """Operators of all key groups of a worker are made of one spec; a thousand windows take a tenth of a second."""
    windows = {f"w{i}": pn.tumbling(10 + i) for i in range(5)}
    query = pn.stream(None, schema=SCHEMA, time="t", key="k", watermark="manual").window(**windows).agg(n="count(*)")
    spec = query._plan.operator_spec()
    assert spec.bound_windows is spec.bound_windows
    assert spec.written_windows == {label: window_to_json(window) for label, window in windows.items()}


def test_bytes_filled_are_near_those_of_a_snapshot() -> None:
    """Memory has room for twice the slices, twice the keys and a tree above them; a snapshot has not."""
    query = pn.stream(None, schema=SCHEMA, time="t", key="k", watermark="manual")
    op = query.window(**{f"w{i}": pn.tumbling(100 + i) for i in range(50)}).agg(s="sum(v)", m="max(v)").operator()
    n = 20_000
    op.push(pa.table({"t": np.arange(n) % 1000, "k": np.arange(n) % 33, "v": np.arange(n)}, SCHEMA))
    op.advance(500)
    filled, size = op.metrics["bytes_filled"], len(op.snapshot())
    assert 0.5 * size < filled < 1.5 * size
    assert op.metrics["bytes"] > 1.5 * size
