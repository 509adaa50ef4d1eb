"""A late row among slices: for windows that count rows an add and an inverse per slice, and what it did to edges.

Where every window counts rows, slices keep their positions when a row comes in between: from its slice on, each
takes the row before it and gives its last one to the next (SPEC S-17, K-19). No row is looked at again but those
that move, if all aggregates can take a row out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from panes.aggregates.base import Cells
from panes.slicing.lane import Agg, Rows
from panes.slicing.rows.slice_table import SliceTable
from panes.slicing.window_set import WindowSet

Array = np.ndarray


def can_take_out(aggs: Sequence[Agg]) -> bool:
    """Whether all aggregates can be had again without one of their rows, whatever its place among them."""
    bounds = [a.bound for a in aggs]
    return all(b.laws.invertible and b.laws.commutative and b.empties for b in bounds)


class Shift:
    """One late row of a key, with slices that lie at fixed positions."""

    def __init__(self, slices: SliceTable, slot: int, rows: Rows, at: int, first: int) -> None:
        """`rows` of the key are in order, with the new one `at` its place; the first of them has position `first`."""
        self._rows, self._at, self._first = rows, at, first
        self.position = first + at
        self.total = first + len(rows) - 1  # rows of the key before this one came
        self._lo, self._hi = (int(i) for i in slices.slot.searchsorted([slot, slot + 1]))
        self._slices, self._slot = slices, slot
        self._mine = slices.take(np.arange(self._lo, self._hi))

    def holds(self, windows: WindowSet) -> bool:
        """Whether slices are there of all windows that the row changes."""
        needed = windows.horizon(self.position)
        held = int(self._mine.pos[0]) if len(self._mine) else self.total
        return held <= needed or needed >= self.total

    def slices(self, windows: WindowSet, aggs: Sequence[Agg]) -> tuple[SliceTable, int]:
        """The slices of all keys with the row among them, and how many took or gave one."""
        mine, position, total = self._mine, self.position, self.total
        behind = self._at if position == total else int(self._old(np.array([total - 1]))[0])  # the last row, now
        grows = len(mine) > 0 and not len(windows.edges(total - 1, total))
        touched = np.flatnonzero(mine.stop > position)
        if grows and not len(touched):
            touched = np.array([len(mine) - 1])
        changed = mine.take(touched)
        comes = np.where(changed.pos <= position, self._at, self._old(changed.pos - 1))
        leaves = self._old(changed.stop[: len(touched) - grows] - 1)
        times = self._rows.times
        first = np.where(changed.pos == position, times[self._at], times[comes])
        first = np.where(changed.pos < position, changed.first[0], first)
        last = np.where(changed.stop - 1 == position, times[self._at], times[self._old(changed.stop - 2)])
        count = changed.rows.copy()
        if grows:
            last[-1], count[-1] = times[behind], count[-1] + 1
        cells = tuple(self._moved(agg, held, comes, leaves) for agg, held in zip(aggs, changed.cells))
        parts = [
            self._slices.take(np.arange(self._lo)),
            mine.take(np.arange(len(mine) - len(touched))),
            replace(changed, rows=count, first=(first,), last=(last,), cells=cells),
        ]
        if not grows:
            parts.append(self._new(aggs, behind))
        parts.append(self._slices.take(np.arange(self._hi, len(self._slices))))
        return SliceTable.concat(parts), len(touched)

    def _old(self, positions: Array) -> Array:
        """Where among the rows those are that had these positions before."""
        index = positions - self._first
        return np.clip(index + (index >= self._at), 0, len(self._rows) - 1)

    def _lifted(self, agg: Agg, index: Array) -> Cells:
        return agg.bound.lift(self._rows.inputs(agg.inputs).take(index), np.arange(len(index) + 1))

    def _moved(self, agg: Agg, held: Cells, comes: Array, leaves: Array) -> Cells:
        """Each slice with the row that comes and without the one that leaves; the last may give none."""
        if not len(comes):
            return held
        more = agg.bound.merge(held, self._lifted(agg, comes))
        if not len(leaves):
            return more
        less = agg.bound.invert(more.take(np.arange(len(leaves))), self._lifted(agg, leaves))
        return Cells.concat([less, more.take(np.arange(len(leaves), len(comes)))])

    def _new(self, aggs: Sequence[Agg], row: int) -> SliceTable:
        one, time = np.array([row]), (self._rows.times[row : row + 1],)
        cells = tuple(self._lifted(agg, one) for agg in aggs)
        return SliceTable(np.array([self._slot]), np.array([self.total]), np.ones(1, np.int64), time, time, cells)


def edge_changes(before: Array, after: Array, position: int, total: int) -> tuple[int, int, int]:
    """(splits, merges, moves) that a row made of slices which came in at `position` of `total` rows of its key.

    Slices are given by the positions of their first rows. An edge that lies between other rows than before, at the same
    position, has let a row pass: that is a move. A slice that begins with the last row is new and cuts none.
    """
    low = max(before.min(initial=0), after.min(initial=0))  # slices before that are no longer held by one of both
    now = set(after[after > low].tolist())
    was = {edge: edge + (edge >= position) for edge in before[before > low].tolist()}
    gained = now - was.keys() - set(was.values()) - {total}
    lost = [edge for edge, with_its_row in was.items() if edge not in now and with_its_row not in now]
    moves = [edge for edge, with_its_row in was.items() if edge in now and with_its_row not in now]
    return len(gained), len(lost), len(moves)
