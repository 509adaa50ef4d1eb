"""Partials as one list of cells, sorted by (slice, key): for aggregates of any size, and for keys that come and go.

New partials wait in runs and are sorted in when a window asks, or when they have become many; only the end
of the list that they overlap is sorted again. Windows fold (or select from) all their cells: lazy.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np
import pyarrow as pa

from panes.aggregates.base import BoundAggregate, Cells
from panes.slicing.arrays import spread
from panes.slicing.partials.cells import Buffer, CellTable
from panes.slicing.partials.store import (
    CellList,
    Store,
    Tally,
    WindowAnswers,
    fold_equal,
    segments,
    stable_order_of_pairs,
)
from panes.state.journal import Journal, Replaced, Watched

Array = np.ndarray

_WAITING = 1 << 16


class SparseStore(Store):
    """Cells sorted by (slice number, slot). Slices are numbered on and on; `_base` is the number of the first."""

    dense = False
    replaced = Replaced("_base", "_places", "_cells", "_runs", "_waiting")

    name = "sparse, lazy"

    def __init__(
        self, aggs: Sequence[BoundAggregate], *, keyed: bool, journal: Journal | None = None, tally: Tally | None = None
    ) -> None:
        self._tally = tally or Tally()
        self._journal = journal or Journal()
        self._aggs = tuple(aggs)
        self._keyed = keyed
        self._base = 0
        self._clear()

    def _clear(self) -> None:
        #: the number of the slice of each cell, and its slot
        self._places = Buffer(self._journal, np.dtype(np.int64), np.dtype(np.int64))
        self._cells = [CellTable(a.empty(0), self._journal) for a in self._aggs]
        self._runs: list[CellList] = []
        self._waiting = 0

    def begin(self) -> list[Watched]:
        self._journal.keep_length(self._runs)
        self._places.begin()
        watched: list[Watched] = [self, self._places]
        for cells in self._cells:
            watched += cells.begin()
        return watched

    @property
    def places(self) -> int:
        return self.occupied

    @property
    def occupied(self) -> int:
        self._settle()
        return len(self._places.values)

    @property
    def nbytes(self) -> int:
        return self._places.nbytes + sum(c.nbytes for c in self._cells)

    @property
    def nbytes_filled(self) -> int:
        return self.nbytes

    def open(self, fresh: Array, total: int) -> None:
        if not len(fresh) or fresh[0] == total - len(fresh):
            return  # all at the end
        gaps = self._base + fresh - np.arange(len(fresh))  # numbers before which there is a new one
        self._places.add(np.searchsorted(gaps, self._places.values, side="right"))
        self._runs = [CellList(r.at + np.searchsorted(gaps, r.at, side="right"), r.slots, r.cells) for r in self._runs]

    def drop(self, count: int) -> None:
        self._settle(count)
        self._base += count
        gone = int(np.searchsorted(self._places.values, self._base))
        self._places.drop(gone)
        for cells in self._cells:
            cells.drop(gone)

    def merge(self, firsts: Array) -> None:
        held = self.cells(None)
        at = np.searchsorted(firsts, held.at, side="right") - 1
        self._clear()
        self.add(CellList(at, held.slots, held.cells))

    def add(self, delta: CellList) -> None:
        if not len(delta):
            return
        self._runs.append(CellList(delta.at + self._base, delta.slots, delta.cells))
        self._waiting += len(delta)
        if self._waiting > max(_WAITING, len(self._places.values)):
            self._settle()

    def add_block(self, at: Array, keys: int, present: Array | None, cells: Sequence[Cells]) -> None:
        if present is None and keys == 1:
            self.add(CellList(at, np.zeros(len(at), np.int64), tuple(cells)))
            return
        full = np.arange(len(at) * keys) if present is None else np.flatnonzero(present)
        self.add(CellList(at[full // keys], full % keys, tuple(c.take(full) for c in cells)))

    def _settle(self, before: int | None = None) -> None:
        """Sort waiting runs into the list; `before`: only what belongs to slices before this position."""
        runs, self._runs = self._runs, []
        if before is not None:
            runs, self._runs = _split(runs, self._base + before)
        self._waiting = sum(len(r) for r in self._runs)
        if not runs:
            return
        first = min(int(r.at.min()) for r in runs)
        at, slots = self._places.columns
        cut = int(np.searchsorted(at, first))
        if cut < len(at):
            tail = tuple([c.view().take(np.arange(cut, len(at))) for c in self._cells])
            runs.insert(0, CellList(at[cut:].copy(), slots[cut:].copy(), tail))
        together = CellList.concat(runs)
        settled = fold_equal(together, self._aggs)
        self._tally.combines += len(together) - len(settled)
        self._places.put(cut, settled.at, settled.slots)
        for table, cells in zip(self._cells, settled.cells):
            table.put(cut, cells)

    def answer(self, lo: Array, hi: Array, news: Array) -> WindowAnswers:
        if not self._keyed:
            self._settle(int(hi.max()))
            index, offsets = self._between(lo, hi)
            self._tally.combines += len(index)
            values = tuple(a.lower_ranges(c.view(), index, offsets) for a, c in zip(self._aggs, self._cells))
            return WindowAnswers(np.ones(len(lo), np.int64), np.zeros(len(lo), np.int64), values)
        index, slots, which, bounds = self._by_key(lo, hi)
        # cells of a key lie in order of their slices: the last one tells whether there is news
        fresh = np.flatnonzero(self._places.values[index[bounds[1:] - 1]] >= self._base + news[which])
        if len(fresh) < len(which):
            kept, kept_bounds = spread(bounds[fresh], bounds[fresh + 1])
            index, slots, which, bounds = index[kept], slots[kept], which[fresh], kept_bounds
        values = tuple(a.lower_ranges(c.view(), index, bounds) for a, c in zip(self._aggs, self._cells))
        return WindowAnswers(np.bincount(which, minlength=len(lo)), slots[bounds[:-1]], values)

    def only(self, which: Sequence[int]) -> SparseStore:
        self._settle()
        view = copy(self)
        view._aggs, view._cells = tuple(self._aggs[a] for a in which), [self._cells[a] for a in which]
        return view

    def partials(self, lo: Array, hi: Array) -> CellList:
        if not len(lo):
            return CellList(lo, lo, tuple(a.empty(0) for a in self._aggs))
        index, slots, which, bounds = self._by_key(lo, hi)
        cells = tuple(a.fold(c.view().take(index), bounds) for a, c in zip(self._aggs, self._cells))
        return CellList(which, slots[bounds[:-1]], cells)

    def _by_key(self, lo: Array, hi: Array) -> tuple[Array, Array, Array, Array]:
        """Cells of each range of slices key by key: their indexes and slots, and of each key in a range the number of
        the range, and where its cells begin among them (and where the last ones end)."""
        self._settle(int(hi.max()))
        index, offsets = self._between(lo, hi)
        self._tally.combines += len(index)
        owner = np.repeat(np.arange(len(lo)), np.diff(offsets))
        slots = self._places.columns[1][index]
        order = stable_order_of_pairs(owner, slots)
        index, owner, slots = index[order], owner[order], slots[order]
        bounds = segments(owner, slots)
        return index, slots, owner[bounds[:-1]], bounds

    def _between(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        """Indexes of the cells of each range of slices, and the offsets of the ranges among them."""
        at = self._places.values
        return spread(np.searchsorted(at, self._base + lo), np.searchsorted(at, self._base + hi))

    def answer_one(self, slot: int, lo: Array, hi: Array) -> tuple[pa.Array, ...]:
        mine, first, last = self._of_slot(slot, lo, hi)
        index, offsets = spread(first, last)
        self._tally.combines += len(index)
        return tuple(a.lower_ranges(c.view(), mine[index], offsets) for a, c in zip(self._aggs, self._cells))

    def holds(self, slot: int, lo: Array, hi: Array) -> Array:
        _, first, last = self._of_slot(slot, lo, hi)
        return last > first

    def _of_slot(self, slot: int, lo: Array, hi: Array) -> tuple[Array, Array, Array]:
        """Cells of one key, and the range of them that lies in each range of slices."""
        if not len(lo):
            return lo, lo, lo
        self._settle(int(hi.max()))
        at, slots = self._places.columns
        a, b = np.searchsorted(at, self._base + np.array([lo.min(), hi.max()])).tolist()
        mine = a + np.flatnonzero(slots[a:b] == slot)
        held = at[mine] - self._base
        return mine, np.searchsorted(held, lo), np.searchsorted(held, hi)

    def used_slots(self) -> Array:
        return np.unique(np.concatenate([self._places.columns[1], *(r.slots for r in self._runs)]))

    def renumber(self, moved: Array) -> None:
        slots = self._places.columns[1]
        slots[:] = moved[slots]
        self._runs = [CellList(r.at, moved[r.slots], r.cells) for r in self._runs]

    def cells(self, slots: Array | None) -> CellList:
        if slots is not None and len(slots) == 1:
            return self._cells_of(int(slots[0]))
        self._settle()
        index = np.arange(len(self._places.values))
        if slots is not None:
            index = np.flatnonzero(np.isin(self._places.columns[1], slots))
        return self._listed(index)

    def _listed(self, index: Array) -> CellList:
        at, slots = self._places.columns
        return CellList(at[index] - self._base, slots[index], tuple(c.view().take(index) for c in self._cells))

    def _cells_of(self, slot: int) -> CellList:
        """The cells of one key: found slice by slice by halves, so that other keys cost next to nothing."""
        at, slots = self._places.columns
        first = int(at[0]) if len(at) else 0
        edges = at.searchsorted(np.arange(first, int(at[-1]) + 2 if len(at) else first + 1))
        lo, hi = edges[:-1], edges[1:]
        while (lo < hi).any():
            middle = (lo + hi) // 2
            below = slots[np.minimum(middle, len(slots) - 1)] < slot
            lo, hi = np.where((lo < hi) & below, middle + 1, lo), np.where((lo < hi) & ~below, middle, hi)
        there = lo < edges[1:]
        parts = [self._listed(lo[there][slots[lo[there]] == slot])]
        for run in self._runs:
            mine = run.take(np.flatnonzero(run.slots == slot))
            parts.append(CellList(mine.at - self._base, mine.slots, mine.cells))
        return fold_equal(CellList.concat(parts), self._aggs)


def _split(runs: Sequence[CellList], limit: int) -> tuple[list[CellList], list[CellList]]:
    """What belongs to slices before a number, and the rest."""
    before, after = [], []
    for run in runs:
        if int(run.at.max()) < limit:
            before.append(run)
        elif int(run.at.min()) >= limit:
            after.append(run)
        else:
            before.append(run.take(np.flatnonzero(run.at < limit)))
            after.append(run.take(np.flatnonzero(run.at >= limit)))
    return before, after
