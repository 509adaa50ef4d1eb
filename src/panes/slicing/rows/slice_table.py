"""Slices of many keys as parallel columns, sorted by (slot, position).

A slice is a run of consecutive rows of one key: where it lies (position, time and other measures of its
first and last row) and one partial per aggregate. Every window of the row lane is a range of this table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from panes.aggregates.base import Cells, Ragged
from panes.slicing import arrays
from panes.slicing.key_index import use_kernels
from panes.slicing.lane import Agg, RowBatch
from panes.windows.base import KeyRuns

Array = np.ndarray
#: Slots and values of slices are searched as one number if it stays below this.
_LONG = 2**62


@dataclass(frozen=True)
class SliceTable:
    """Parallel columns, one entry per slice."""

    slot: Array  # int64
    pos: Array  # int64: position of the first row within its key
    rows: Array  # int64: number of rows
    first: tuple[Array, ...]  # per dimension (event time first, then column measures): value at the first row
    last: tuple[Array, ...]  # the same at the last row
    cells: tuple[Cells, ...]  # one per aggregate

    def __len__(self) -> int:
        return len(self.slot)

    @property
    def nbytes(self) -> int:
        columns = (self.slot, self.pos, self.rows, *self.first, *self.last)
        return sum(c.nbytes for c in columns) + sum(c.nbytes for c in self.cells)

    @property
    def stop(self) -> Array:
        return self.pos + self.rows

    def slots(self) -> Array:
        """The keys that have slices."""
        slot = self.slot
        if not len(slot) or slot[0] == slot[-1]:
            return slot[:1]
        last = np.ones(len(slot), bool)
        np.not_equal(slot[1:], slot[:-1], out=last[:-1])
        return slot[last]

    def ends(self, dimension: int) -> Array:
        """The values at the first and last rows of all slices, sorted."""
        both = np.concatenate((self.first[dimension], self.last[dimension]))
        both.sort()
        return both

    def take(self, index: Array) -> SliceTable:
        if index.dtype == bool:
            index = index.nonzero()[0]
        return SliceTable(
            self.slot.take(index),
            self.pos.take(index),
            self.rows.take(index),
            tuple(d.take(index) for d in self.first),
            tuple(d.take(index) for d in self.last),
            tuple(c.take(index) for c in self.cells),
        )

    def of_slots(self, slots: Array) -> SliceTable:
        """The slices of these keys (sorted), renumbered 0, 1, ..."""
        index, offsets = arrays.spread(self.slot.searchsorted(slots), self.slot.searchsorted(slots, side="right"))
        return self.take(index).with_slots(np.arange(len(slots)).repeat(np.diff(offsets)))

    def put(self, slots: Array, part: SliceTable) -> SliceTable:
        """With what `of_slots` gave, possibly moved on, in the place of these keys' slices."""
        both = SliceTable.concat([self.take(~np.isin(self.slot, slots)), part.with_slots(slots[part.slot])])
        return both.take(np.argsort(both.slot, kind="stable"))

    def with_slots(self, slot: Array) -> SliceTable:
        return replace(self, slot=slot)

    @staticmethod
    def concat(parts: Sequence[SliceTable]) -> SliceTable:
        """Parts end to end; the caller restores the order by slot if slots interleave."""
        parts = [p for p in parts if len(p)] or [parts[0]]
        if len(parts) == 1:
            return parts[0]
        dims = range(len(parts[0].first))
        return SliceTable(
            np.concatenate([p.slot for p in parts]),
            np.concatenate([p.pos for p in parts]),
            np.concatenate([p.rows for p in parts]),
            tuple(np.concatenate([p.first[d] for p in parts]) for d in dims),
            tuple(np.concatenate([p.last[d] for p in parts]) for d in dims),
            tuple(Cells.concat([p.cells[a] for p in parts]) for a in range(len(parts[0].cells))),
        )

    def joined(self, first: Array, aggs: Sequence[Agg]) -> SliceTable:
        """Slices from first[i] up to first[i + 1], all of one key, become one (first[0] is 0)."""
        offsets = np.append(first, len(self))
        return SliceTable(
            self.slot[first],
            self.pos[first],
            np.add.reduceat(self.rows, first),
            tuple(d[first] for d in self.first),
            tuple(d[offsets[1:] - 1] for d in self.last),
            tuple(a.bound.fold(cells, offsets) for a, cells in zip(aggs, self.cells)),
        )

    def append(self, newer: SliceTable) -> SliceTable:
        """Slices that come after all slices of their keys; both sides sorted by slot."""
        if not len(self):
            return newer
        if not len(newer):
            return self
        if self.slot[-1] > newer.slot[0] and use_kernels(len(self) + len(newer)):
            return _interleaved(self, newer)
        both = SliceTable.concat([self, newer])
        if self.slot[-1] <= newer.slot[0]:
            return both
        return both.take(both.slot.argsort(kind="stable"))


def _interleaved(older: SliceTable, newer: SliceTable) -> SliceTable:
    """The slices of each key, the older ones first."""
    from panes.slicing import kernels

    slots = newer.slots()
    old_stops, new_stops = (table.slot.searchsorted(slots, side="right") for table in (older, newer))

    def column(a: Array, b: Array) -> Array:
        if a.dtype != b.dtype or a.dtype.kind not in "iuf" or a.dtype.itemsize != 8:
            return np.concatenate((a, b)).take(order)
        out = arrays.empty(len(a) + len(b), a.dtype)
        kernels.interleave(a.view(np.int64), b.view(np.int64), old_stops, new_stops, out.view(np.int64))
        return out

    def cells(a: Cells, b: Cells) -> Cells:
        if any(isinstance(field, Ragged) for field in a.fields):
            return Cells.concat([a, b]).take(order)
        return Cells(tuple([column(x, y) for x, y in zip(a.fields, b.fields)]))

    order = column(np.arange(len(older)), np.arange(len(older), len(older) + len(newer)))
    return SliceTable(
        column(older.slot, newer.slot),
        column(older.pos, newer.pos),
        column(older.rows, newer.rows),
        tuple([column(a, b) for a, b in zip(older.first, newer.first)]),
        tuple([column(a, b) for a, b in zip(older.last, newer.last)]),
        tuple([cells(a, b) for a, b in zip(older.cells, newer.cells)]),
    )


def sliced(rows: RowBatch, runs: KeyRuns, values: tuple[Array, ...], cut: Array, aggs: Sequence[Agg]) -> SliceTable:
    """Rows of a release as slices, `cut` before some rows, and before the first of each key; `values` by dimension."""
    starts = cut.copy()
    starts[runs.offsets[:-1]] = True
    offsets = np.concatenate((starts.nonzero()[0], [len(rows)]))
    begin, final = offsets[:-1], offsets[1:] - 1
    owner = runs.offsets.searchsorted(begin, side="right") - 1
    return SliceTable(
        runs.slots[owner],
        begin + (runs.first_pos - runs.offsets[:-1])[owner],
        offsets[1:] - begin,
        tuple(v[begin] for v in values),
        tuple(v[final] for v in values),
        tuple(a.bound.lift(rows.inputs(a.inputs), offsets) for a in aggs),
    )


def go_on(table: SliceTable, new: SliceTable, slots: Array, aggs: Sequence[Agg]) -> tuple[SliceTable, SliceTable]:
    """The last slice of each of these keys and its first new one become one, the first of its new ones."""
    last = table.slot.searchsorted(slots, side="right") - 1
    head = new.slot.searchsorted(slots)
    old = table.take(last)
    place = np.arange(len(new))
    place[head] = len(new) + np.arange(len(slots))
    cells = tuple(
        Cells.concat([fresh, a.bound.merge(before, fresh.take(head))]).take(place)
        for a, before, fresh in zip(aggs, old.cells, new.cells)
    )
    pos, rows = new.pos.copy(), new.rows.copy()
    pos[head] = old.pos
    rows[head] += old.rows
    first = tuple(d.copy() for d in new.first)
    for ours, theirs in zip(first, old.first):
        ours[head] = theirs
    keep = np.ones(len(table), bool)
    keep[last] = False
    return table.take(keep), SliceTable(new.slot, pos, rows, first, new.last, cells)


class SliceIndex:
    """Finds slices by (slot, value) in one vectorised search, for one dimension of a sorted table.

    Slot and value become one integer, so that the whole table is one sorted column; a value that does not fit
    beside its slot is replaced by its rank.
    """

    def __init__(self, slot: Array, values: Array) -> None:
        self._single = len(slot) == 0 or slot[0] == slot[-1]
        self._slot = slot
        self._sorted: Array | None = None
        if self._single:
            self._values = values
            return
        if values.dtype.kind == "i":
            self._low, high = int(values.min()), int(values.max())
            self._span = high - self._low + 2
            if (int(slot[-1]) + 1) * self._span < _LONG:
                self._codes = slot * self._span + (values - self._low)
                return
        self._sorted = np.sort(values)
        self._span = len(values) + 1
        self._codes = slot * self._span + self._sorted.searchsorted(values)

    def at_or_after(self, slots: Array, values: Array) -> Array:
        """Index of the first slice of each slot whose value is >= the given one (the slot's end if none)."""
        if self._single:
            found = self._values.searchsorted(values)
            if len(self._slot) == 0:
                return found
            only = self._slot[0]
            return np.where(slots < only, 0, np.where(slots > only, len(self._slot), found))
        if self._sorted is not None:
            ranks = self._sorted.searchsorted(values)
        else:
            whole = values if values.dtype.kind == "i" else np.ceil(values)
            ranks = np.clip(whole, self._low, self._low + self._span - 1).astype(np.int64, copy=False) - self._low
        return self._codes.searchsorted(slots * self._span + ranks)
