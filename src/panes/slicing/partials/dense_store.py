"""Partials as matrices [slices x keys], one per field: for aggregates of fixed size and keys that are mostly busy.

Out-of-order rows update their slice in place. *Lazy*: a window folds its slices. *Eager*: it folds a few
nodes of the tree above them. Windows that end together share what they have in common, and windows of
several queries over the same slices are answered once.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np
import pyarrow as pa

from panes.aggregates.base import BoundAggregate, Cells
from panes.aggregates.segments import segment_reduce
from panes.slicing.arrays import spread
from panes.slicing.key_index import use_kernels
from panes.slicing.partials.ring import Ring
from panes.slicing.partials.row_fold import Picks, Plan, picked, picks, plan, presence
from panes.slicing.partials.store import CELL_PLACE, CellList, Store, Tally, WindowAnswers, fold_equal
from panes.state.journal import Journal, Watched

Array = np.ndarray

#: Up to this many keys, and results, windows are answered by one gather over all windows and keys; beyond, row by row.
_FEW_KEYS = 64
_FEW_RESULTS = 1 << 14
#: Up to this many slices, or for more keys than this, slices are written one by one.
_FEW_SLICES = 4
_MANY_KEYS = 256
#: Up to this many windows, it does not pay to look for those over the same slices.
_FEW_WINDOWS = 64
#: Sums over all slices are shared by windows if there is one for so many slices.
_SHARED = 16
#: With `auto`, the tree is grown when windows are longer than this many slices and a call folds more cells than that.
_LONG = 16
_HEAVY = 1 << 14


class DenseStore(Store):
    """Cells in a `Ring`: row = slice, column = key slot."""

    dense = True

    def __init__(
        self,
        aggs: Sequence[BoundAggregate],
        *,
        keyed: bool,
        store: str,
        journal: Journal | None = None,
        tally: Tally | None = None,
    ) -> None:
        self._aggs = tuple(aggs)
        self._asked = tuple(enumerate(aggs))  # by their place: those that windows are answered with
        self._keyed = keyed
        self._store = store
        self._tally = tally or Tally()
        self._ring = Ring(aggs, columns=1, tree=store == "eager", journal=journal or Journal(), tally=self._tally)

    def begin(self) -> list[Watched]:
        self._ring.begin()
        return [self._ring]

    @property
    def name(self) -> str:
        return "dense, eager" if self._ring.tree else "dense, lazy"

    @property
    def nbytes(self) -> int:
        return self._ring.nbytes

    @property
    def nbytes_filled(self) -> int:
        return self.occupied * (CELL_PLACE + self._ring.cell_bytes)

    @property
    def places(self) -> int:
        return len(self._ring) * self._ring.width

    @property
    def occupied(self) -> int:
        return int(np.count_nonzero(self._ring.present[self._ring.rows(), : self._ring.width]))

    def open(self, fresh: Array, total: int) -> None:
        if len(fresh):
            self._ring.open(fresh, total)

    def drop(self, count: int) -> None:
        self._ring.drop(count)

    def merge(self, firsts: Array) -> None:
        held = self.cells(None)
        at = np.searchsorted(firsts, held.at, side="right") - 1
        self._ring.clear()
        self.open(np.arange(len(firsts)), len(firsts))
        self.add(fold_equal(CellList(at, held.slots, held.cells), self._aggs))

    def add(self, delta: CellList) -> None:
        ring = self._ring
        if len(delta):
            ring.widen(int(delta.slots.max()) + 1)
        ring.fill(ring.rows())
        where = ring.row(delta.at) * ring.columns + delta.slots
        ring.combine(where, 1, delta.cells)
        self._tally.combines += len(delta)
        ring.touch(np.unique(delta.at))

    def add_block(self, at: Array, keys: int, present: Array | None, cells: Sequence[Cells]) -> None:
        ring = self._ring
        ring.widen(keys)
        if keys <= _MANY_KEYS and len(at) > _FEW_SLICES:
            ring.write_all(ring.row(at), keys, 1 if present is None else present, cells)
            ring.touch(at)
            return
        for i, row in enumerate(ring.row(at).tolist()):
            part = slice(i * keys, (i + 1) * keys)
            block = cells if len(at) == 1 else [Cells(tuple([f[part] for f in c.fields])) for c in cells]
            ring.write(row, keys, 1 if present is None else present[part], block)
        ring.touch(at)

    def answer(self, lo: Array, hi: Array, news: Array) -> WindowAnswers:
        with np.errstate(invalid="ignore", over="ignore"):
            if not self._keyed:
                return self._answer_all(lo, hi)
            if self._is_few(lo):
                self._choose(lo, hi)
                return self._answer_few(lo, hi, news)
            start, end, which = _distinct(lo, hi)
            self._choose(start, end)
            return self._answer_many(start, end, which, self._news(lo, hi, news))

    def _choose(self, start: Array, end: Array) -> None:
        """Grow the tree if windows are long and many cells would be folded."""
        ring = self._ring
        if self._store != "auto" or ring.tree or len(start) * len(ring) * ring.width <= _HEAVY:
            return
        lengths = end - start
        if int(lengths.max()) > _LONG and int(lengths.sum()) * ring.width > _HEAVY:
            ring.grow_tree()

    def _answer_all(self, lo: Array, hi: Array) -> WindowAnswers:
        """Without keys: every window is one fold."""
        n = len(lo)
        lo, hi, which = _each_once(lo, hi)
        self._choose(lo, hi)
        if not self._ring.tree and hi[0] == hi[-1]:
            values = self._ending_together(lo, int(hi[0]))
        else:
            values = self._ranges(lo, hi)
        if which is not None:
            values = [v.take(pa.array(which)) for v in values]
        return WindowAnswers(np.ones(n, np.int64), np.zeros(n, np.int64), tuple(values))

    def _ranges(self, lo: Array, hi: Array) -> list[pa.Array]:
        """Windows over slices [lo, hi)."""
        rows, offsets = self._ring.cover(lo, hi)
        self._tally.combines += len(rows)
        if _SHARED * len(lo) < len(self._ring):
            return [agg.lower_ranges(self._ring.flat[a], rows, offsets) for a, agg in self._asked]
        slices = self._ring.rows()
        found = []
        for a, agg in self._asked:
            cells = self._ring.flat[a]
            if agg.ufuncs is None:
                found.append(agg.lower_ranges(cells, rows, offsets))
                continue
            fields = [
                # whole numbers can be added up once for all windows: what is too much is taken off without a trace
                _differences(field.take(slices), lo, hi)
                if ufunc is np.add and field.dtype == np.int64
                else segment_reduce(ufunc, field.take(rows), offsets, 0)
                for ufunc, field in zip(agg.ufuncs, cells.fields)
            ]
            found.append(agg.lower(Cells(tuple(fields))))
        return found

    def _ending_together(self, lo: Array, hi: int) -> list[pa.Array]:
        """Windows over the slices from lo[i] to one and the same end."""
        first = int(lo.min())
        rows = self._ring.row(np.arange(first, hi))
        self._tally.combines += len(rows)
        starts = lo - first
        flat = self._ring.flat
        return [agg.lower_endings(flat[a].take(rows), starts) for a, agg in self._asked]

    def _answer_few(self, lo: Array, hi: Array, news: Array) -> WindowAnswers:
        keys = self._ring.width
        chosen, cells = self._fold_few(lo, hi, news)
        values = tuple([agg.lower(folded) for (_, agg), folded in zip(self._asked, cells)])
        return WindowAnswers(np.bincount(chosen // keys, minlength=len(lo)), chosen % keys, values)

    def _fold_few(self, lo: Array, hi: Array, news: Array) -> tuple[Array, list[Cells]]:
        """All windows and keys by one gather: those with rows, as window * keys + key, and their partials."""
        index, offsets = self._index(lo, hi)
        if np.array_equal(news, lo):
            seen = self._seen(index, offsets)
        else:
            seen = self._seen(*self._index(news, hi))
        self._tally.combines += len(index)
        chosen = seen.nonzero()[0]
        found = [agg.fold(self._ring.flat[a].take(index), offsets) for a, agg in self._asked]
        return chosen, found if len(chosen) == len(seen) else [folded.take(chosen) for folded in found]

    def _index(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        """Flat indexes of the cells of each (range, key), and the offsets of these pairs among them."""
        rows, offsets = self._ring.cover(lo, hi)
        keys = self._ring.width
        owner = np.repeat(np.arange(len(lo)), keys)
        node, bounds = spread(offsets[:-1][owner], offsets[1:][owner])
        key = np.repeat(np.tile(np.arange(keys), len(lo)), np.diff(bounds))
        return rows[node] * self._ring.columns + key, bounds

    def _seen(self, index: Array, offsets: Array) -> Array:
        return _any(self._ring.present.reshape(-1)[index], offsets)

    def _news(self, lo: Array, hi: Array, news: Array) -> dict[int, Array]:
        """For windows that need rows in their last part: which keys have rows there."""
        which = (news != lo).nonzero()[0]
        if not len(which):
            return {}
        rows, offsets = self._ring.cover(news[which], hi[which])
        present = self._ring.present[:, : self._ring.width]
        return {
            w: np.bitwise_or.reduce(present[rows[a:b]], axis=0)
            for w, a, b in zip(which.tolist(), offsets[:-1].tolist(), offsets[1:].tolist())
        }

    def _answer_many(self, start: Array, end: Array, distinct: Array, news: dict[int, Array]) -> WindowAnswers:
        folds, asked = self._fold(start, end, distinct, news)
        values = [agg.lower(picked(self._ring, a, agg, folds, asked)) for a, agg in self._asked]
        return WindowAnswers(asked.counts, asked.slots, tuple(values))

    def only(self, which: Sequence[int]) -> DenseStore:
        view = copy(self)  # of the same ring
        view._asked = tuple((a, self._aggs[a]) for a in which)
        return view

    def partials(self, lo: Array, hi: Array) -> CellList:
        if not len(lo):
            return CellList(lo, lo, tuple(agg.empty(0) for agg in self._aggs))
        with np.errstate(invalid="ignore", over="ignore"):
            if self._is_few(lo):
                self._choose(lo, hi)
                chosen, few = self._fold_few(lo, hi, lo)
                return CellList(chosen // self._ring.width, chosen % self._ring.width, tuple(few))
            start, end, which = _distinct(lo, hi)
            self._choose(start, end)
            folds, asked = self._fold(start, end, which, {})
            cells = tuple(picked(self._ring, a, agg, folds, asked) for a, agg in enumerate(self._aggs))
        return CellList(np.repeat(np.arange(len(lo)), asked.counts), asked.slots, cells)

    def _is_few(self, lo: Array) -> bool:
        """Whether windows that begin here are best folded by one gather for all of them and all keys."""
        return self._ring.width <= _FEW_KEYS and len(lo) * self._ring.width <= _FEW_RESULTS

    def _fold(self, start: Array, end: Array, distinct: Array, news: dict[int, Array]) -> tuple[Plan, Picks]:
        """By row-wise merges: how, and what is asked for."""
        ring = self._ring
        folds = plan(ring, start, end)
        self._tally.combines += (len(folds.nodes) - folds.grows.count(False)) * ring.width
        return folds, picks(presence(ring, folds), distinct, news)

    def answer_one(self, slot: int, lo: Array, hi: Array) -> tuple[pa.Array, ...]:
        self._ring.widen(slot + 1)
        with np.errstate(invalid="ignore", over="ignore"):
            rows, offsets = self._ring.cover(lo, hi)
            index = rows * self._ring.columns + slot
            self._tally.combines += len(index)
            return tuple(agg.lower_ranges(self._ring.flat[a], index, offsets) for a, agg in self._asked)

    def holds(self, slot: int, lo: Array, hi: Array) -> Array:
        if slot >= self._ring.width:
            return np.zeros(len(lo), bool)
        at, offsets = spread(lo, hi)
        return _any(self._ring.present[self._ring.row(at), slot], offsets)

    def used_slots(self) -> Array:
        present = self._ring.present[self._ring.rows(), : self._ring.width]
        return np.bitwise_or.reduce(present, axis=0).nonzero()[0]

    def renumber(self, moved: Array) -> None:
        self._ring.keep(np.flatnonzero(moved[: self._ring.width] >= 0))

    def cells(self, slots: Array | None) -> CellList:
        rows = self._ring.rows()
        if slots is None:
            at, slot = np.nonzero(self._ring.present[rows, : self._ring.width])
        else:
            slots = slots[slots < self._ring.width]
            at, which = np.nonzero(self._ring.present[rows[:, None], slots])
            slot = slots[which]
        index = rows[at] * self._ring.columns + slot
        return CellList(at, slot, tuple(cells.take(index) for cells in self._ring.flat))


def _each_once(lo: Array, hi: Array) -> tuple[Array, Array, Array | None]:
    """Distinct ranges, and which of them each range is, None if all are; ranges lie by their ends."""
    if len(lo) <= _FEW_WINDOWS:
        return lo, hi, None
    if not use_kernels(len(lo)):
        return _distinct(lo, hi)
    from panes.slicing import kernels

    first, which = np.empty(len(lo), np.int64), np.empty(len(lo), np.int64)
    n = kernels.number_ranges(lo, hi, np.full(int(hi[-1]), -1), first, which)
    return (lo, hi, None) if n == len(lo) else (lo[first[:n]], hi[first[:n]], which)


def _distinct(lo: Array, hi: Array) -> tuple[Array, Array, Array]:
    """Distinct ranges, those that end together side by side, shortest first; and which of them each range is."""
    if len(lo) <= _FEW_WINDOWS:
        pairs = [*zip(hi.tolist(), (-lo).tolist())]
        number = {pair: i for i, pair in enumerate(sorted(set(pairs)))}
        table = np.array([*number])
        return -table[:, 1], table[:, 0], np.array([number[pair] for pair in pairs])
    order = np.lexsort((-lo, hi))
    start, end = lo[order], hi[order]
    new = np.ones(len(lo), bool)
    new[1:] = (start[1:] != start[:-1]) | (end[1:] != end[:-1])
    which = np.empty(len(lo), np.int64)
    which[order] = np.cumsum(new) - 1
    return start[new], end[new], which


def _differences(values: Array, lo: Array, hi: Array) -> Array:
    """Sums of whole numbers over ranges."""
    before = np.zeros(len(values) + 1, np.int64)
    values.cumsum(out=before[1:])
    return before.take(hi) - before.take(lo)


def _any(flags: Array, offsets: Array) -> Array:
    """Whether any flag of each segment is set; segments may be empty."""
    out = np.zeros(len(offsets) - 1, bool)
    filled = np.flatnonzero(offsets[1:] > offsets[:-1])
    if len(filled):
        out[filled] = np.bitwise_or.reduceat(flags, offsets[filled]) != 0
    return out
