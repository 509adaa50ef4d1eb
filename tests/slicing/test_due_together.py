"""What is found for many windows in one step is what is found for each alone, to the last bit of a float."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import panes as pn
from panes.aggregates.base import BoundAggregate, Cells, Ragged
from panes.slicing.lane import RunningWindow
from panes.slicing.partials import dense_store, ring
from panes.slicing.partials.cells import CellTable
from panes.slicing.partials.dense_store import DenseStore
from panes.slicing.partials.slices import EdgeCache
from panes.slicing.partials.time_windows import Spans, TimeWindows
from panes.slicing.rows import range_fold, slice_table
from panes.slicing.rows.slice_table import SliceTable
from panes.state.journal import Journal
from panes.windows.base import Regular

SCHEMA = pa.schema([("t", pa.int64()), ("v", pa.float64()), ("i", pa.int64())])
SUMS = {"n": "count(*)", "total": "sum(v)", "whole": "sum(i)", "mean": "avg(v)"}
OTHERS = {"low": "min(v)", "high": "max(i)", "spread": "stddev(v)"}


def _bound(aggs: dict[str, str]) -> list[BoundAggregate]:
    query = pn.stream(None, schema=SCHEMA, time="t").window(w=pn.tumbling(10)).agg(**aggs)
    return [a.bound for a in query._plan.operator_spec().aggs]


def _cells(rng: np.random.Generator, agg: BoundAggregate, n: int) -> Cells:
    """Partials whose sums depend on the order in which they are added."""
    values, whole = rng.normal(size=n) * 10.0 ** rng.integers(-9, 9, n), rng.integers(1, 1 << 20, n)
    return Cells(tuple((values if f.dtype.kind == "f" else whole).astype(f.dtype) for f in agg.empty(1).fields))


def _bits(arrays: tuple[pa.Array, ...]) -> list[object]:
    return [[x.hex() if isinstance(x, float) else x for x in array.to_pylist()] for array in arrays]


@pytest.mark.parametrize("aggs", [SUMS, OTHERS, {**SUMS, **OTHERS}], ids=["sums", "others", "both"])
@pytest.mark.parametrize("seed", range(4))
def test_windows_of_one_call_are_those_of_many_calls(
    aggs: dict[str, str], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    bound, slices, windows = _bound(aggs), int(rng.integers(2, 400)), 500
    stores = []
    for _ in range(2):
        store = DenseStore(bound, keyed=False, store="eager")
        store.open(np.arange(slices), slices)
        cells = [_cells(np.random.default_rng(seed), agg, slices) for agg in bound]
        store.add_block(np.arange(slices), 1, None, cells)
        stores.append(store)
    lo = rng.integers(0, slices, windows)
    hi = rng.integers(lo + 1, slices + 1)
    order = np.argsort(hi, kind="stable")
    lo, hi = lo[order], hi[order]
    for part in (dense_store, ring):
        monkeypatch.setattr(part, "use_kernels", lambda rows: True)
    found = stores[0].answer(lo, hi, lo)
    for part in (dense_store, ring):
        monkeypatch.setattr(part, "use_kernels", lambda rows: False)
    alone = [stores[1].answer(a, b, a).values for a, b in zip(lo.reshape(-1, 1), hi.reshape(-1, 1))]
    assert found.counts.tolist() == [1] * windows
    assert _bits(found.values) == _bits(tuple(pa.concat_arrays(column) for column in zip(*alone)))


def test_nodes_of_the_tree_are_computed_again_after_a_slice_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring, "use_kernels", lambda rows: True)
    bound = _bound({"n": "count(*)"})
    store = DenseStore(bound, keyed=False, store="eager")
    store.open(np.arange(100), 100)
    store.add_block(np.arange(100), 1, None, [Cells((np.ones(100, np.int64),))])
    lo, hi = np.arange(50), np.full(50, 90)
    assert store.partials(lo, hi).cells[0].fields[0].tolist() == [90 - a for a in range(50)]
    store.add_block(np.array([60, 61, 62, 63, 64]), 1, None, [Cells((np.ones(5, np.int64),))])
    assert store.partials(lo, hi).cells[0].fields[0].tolist() == [95 - a for a in range(50)]


def _windows(rng: np.random.Generator, n: int) -> list[Regular]:
    grain = int(rng.integers(1, 30))
    bound = []
    for _ in range(n):
        slide = grain * int(rng.integers(1, 40))
        window = pn.sliding(slide * int(rng.integers(1, 4)), every=slide, offset=grain * int(rng.integers(0, 5)))
        query = pn.stream(None, schema=SCHEMA, time="t").window(w=window).agg(n="count(*)")
        bound.append(query._plan.operator_spec().bound_windows["w"])
    assert all(isinstance(w, Regular) for w in bound)
    return bound


@pytest.mark.parametrize("seed", range(10))
def test_edges_listed_while_time_goes_on_are_those_listed_at_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    windows = _windows(rng, int(rng.integers(1, 8)))
    cache = EdgeCache(windows)
    if seed % 2:
        cache.freeze(np.array([5, 300]), np.array([37, 311]))
    at = 0
    for _ in range(40):
        lo = max(at - int(rng.integers(0, 200)), 0)
        hi = lo + int(rng.integers(0, 5000))
        fresh = EdgeCache(windows)
        fresh.freeze(*cache.frozen)
        assert cache.between(lo, hi, 10_000).tolist() == fresh.between(lo, hi, 10_000).tolist()
        at = hi + int(rng.integers(0, 100)) + (1_000_000 if rng.random() < 0.1 else 0)


@pytest.mark.parametrize("seed", range(10))
def test_windows_looked_up_are_those_searched_for(seed: int) -> None:
    rng = np.random.default_rng(seed)
    windows = _windows(rng, 30)
    found = TimeWindows([RunningWindow(str(i), i, w) for i, w in enumerate(windows)])
    slices = np.unique(rng.integers(-500, 1500, int(rng.integers(1, 300))))  # anywhere, as those that were frozen
    spans = found.all_ending(int(slices[0]), int(slices[-1]) + 5_000)
    assert len(spans) > 256
    assert (np.diff(spans.end) >= 0).all()
    lo, hi = found.positions(slices, spans)
    assert lo.tolist() == np.searchsorted(slices, spans.start).tolist()
    assert hi.tolist() == np.searchsorted(slices, spans.end).tolist()
    few = Spans(spans.number[:3], spans.start[:3], spans.end[:3])
    assert [a.tolist() for a in found.positions(slices, few)] == [lo[:3].tolist(), hi[:3].tolist()]


@pytest.mark.parametrize("seed", range(5))
def test_sums_over_short_ranges_are_those_of_numpy(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    bound = _bound(SUMS)
    cells = [_cells(rng, agg, 300) for agg in bound]
    lo = rng.integers(0, 292, 1000)
    hi = lo + rng.integers(0, 9, 1000)
    results = []
    for compiled in (True, False):
        monkeypatch.setattr(range_fold, "use_kernels", lambda rows: compiled)  # noqa: B023
        results.append(_bits(range_fold.lower_ranges(bound, cells, lo, hi, store="lazy")[0]))
    assert results[0] == results[1]


def _table(rng: np.random.Generator, slots: np.ndarray, first_pos: int) -> SliceTable:
    n = len(slots)
    lists = rng.integers(0, 3, n)
    ragged = Ragged(np.concatenate(([0], np.cumsum(lists))), rng.random(int(lists.sum())))
    return SliceTable(
        slots, first_pos + np.arange(n), rng.integers(1, 5, n), (rng.integers(0, 99, n), rng.random(n)),
        (rng.integers(0, 99, n), rng.random(n)),
        (Cells((rng.random(n), rng.integers(0, 9, n))), Cells((rng.random(n) < 0.5,)), Cells((ragged,))),
    )  # fmt: skip


def _columns(table: SliceTable) -> list[list[object]]:
    lists = table.cells[2].fields[0]
    plain = (table.slot, table.pos, table.rows, *table.first, *table.last, *table.cells[0].fields)
    found = [column.tolist() for column in (*plain, *table.cells[1].fields)]
    return [*found, [part.tolist() for part in np.split(lists.values, lists.offsets[1:-1])]]


@pytest.mark.parametrize("seed", range(10))
def test_new_slices_come_after_those_of_their_key_compiled_or_not(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    older = _table(rng, np.sort(rng.integers(0, 12, 40)), 0)
    newer = _table(rng, np.sort(rng.integers(0, 12, 60)), 1000)
    joined = []
    for compiled in (True, False):
        monkeypatch.setattr(slice_table, "use_kernels", lambda rows: compiled)  # noqa: B023
        joined.append(older.append(newer))
    assert _columns(joined[0]) == _columns(joined[1])
    assert (np.diff(joined[0].slot) >= 0).all()
    assert len(joined[0]) == 100


@pytest.mark.parametrize("fails", [False, True], ids=["kept", "taken back"])
def test_a_table_of_cells_is_a_list_of_cells(fails: bool) -> None:
    """Its end is written anew and its front dropped, at random; a call that fails leaves it as it was."""
    rng = np.random.default_rng(7)
    journal = Journal()

    def cells(n: int) -> Cells:
        offsets = np.concatenate(([0], np.cumsum(rng.integers(0, 4, n))))
        values = rng.integers(0, 1000, int(offsets[-1]))
        return Cells((rng.random(n), Ragged(offsets, values), Ragged(offsets.copy(), values.astype(float))))

    def shown(held: Cells) -> list[tuple[object, ...]]:
        number, *lists = held.fields
        parts = [[p.tolist() for p in np.split(f.values, f.offsets[1:-1])] if len(number) else [] for f in lists]
        return list(zip(number.tolist(), *parts))

    table = CellTable(cells(0), journal)
    model: list[tuple[object, ...]] = []
    for _ in range(200):
        before = list(model)
        journal.begin()
        journal.watch(table.begin())
        for _ in range(int(rng.integers(1, 4))):
            if rng.random() < 0.4:
                count = int(rng.integers(0, len(model) + 1))
                table.drop(count)
                del model[:count]
            else:
                first, more = int(rng.integers(len(model) // 2, len(model) + 1)), cells(int(rng.integers(0, 30)))
                table.put(first, more)
                model[first:] = shown(more)
            assert shown(table.view()) == model
        if fails and rng.random() < 0.5:
            journal.rewind()
            model = before
        else:
            journal.commit()
        assert shown(table.view()) == model


def test_batches_make_no_difference_to_windows_that_are_due_together() -> None:
    rng = np.random.default_rng(3)
    n = 6_000
    rows = pa.table({"t": np.arange(n) // 2, "v": rng.integers(0, 1 << 20, n) / 16, "i": rng.integers(-9, 9, n)})
    found = []
    for size in (n, 2_500, 100):
        windows = {f"w{i}": pn.tumbling(100 + 2 * i) for i in range(300)}
        op = pn.stream(None, schema=SCHEMA, time="t").window(**windows).agg(**SUMS, **OTHERS).operator()
        parts = [op.push(rows.slice(first, size)).to_arrow() for first in range(0, n, size)]
        found.append(pa.concat_tables([*parts, op.finish().to_arrow()]).to_pylist())
    close = [[{**row, "spread": None} for row in each] for each in found]
    assert close[0] == close[1] == close[2]
