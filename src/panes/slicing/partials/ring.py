"""Rows of partials in a ring, with a tree of partials above them.

A row belongs to a slice and has one column per key, in one matrix per field. Rows of slices that are needed
no more are used again for new ones. The tree is optional: node j of level l joins slices j << l up to
(j + 1) << l, is computed when it is first asked for, and again after a slice below it changed (SPEC W-11).
Slices are numbered on and on, so that nodes keep their place while slices come and go.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from panes.aggregates.base import BoundAggregate, Cells
from panes.slicing.arrays import empty, spread
from panes.slicing.key_index import use_kernels
from panes.slicing.partials.store import Tally
from panes.state.journal import Journal, Replaced

Array = np.ndarray

_ROWS = 16
#: From this many columns on, rows are combined one by one, in place rather than through copies, and there are no more
#: of them than slices need.
_WIDE = 4096
_WIDE_ROWS = 2
#: To cover a range is as much work as this many rows of a compiled loop, which is not worth it for few ranges, nor, if
#: Numba is still to be imported, before many were covered.
_WORTH = 32
_FEW = 8


class Ring:
    """`present` and `fields` are matrices: rows are slices (then nodes), columns are key slots."""

    replaced = Replaced(
        "tree",
        "width",
        "columns",
        "present",
        "fields",
        "flat",
        "_base",
        "_n",
        "_rows",
        "_blank",
        "_valid",
        "_held_before",
    )

    def __init__(
        self, aggs: Sequence[BoundAggregate], *, columns: int, tree: bool, journal: Journal, tally: Tally
    ) -> None:
        self._tally = tally
        self._journal = journal
        self._held_before: tuple[int, int] | None = None
        self.tree = tree
        self.width = columns  # columns in use
        self._aggs = tuple(aggs)
        self._sums = all(ufunc is np.add for a in self._aggs for ufunc in a.ufuncs or (None,))
        self._identity = [a.empty(1).fields for a in self._aggs]
        self._covered = 0  # ranges so far
        self._base = 0  # number of the first slice
        self._n = 0
        self._allocate(_ROWS, columns)

    def __len__(self) -> int:
        return self._n

    def begin(self) -> None:
        """A call begins: what rows hold now can be had back."""
        self._held_before = self._base, self._n
        if self.tree:
            self._journal.undo_by(self._nodes_are_old)

    def _nodes_are_old(self) -> None:
        self._valid[:] = bytes(len(self._valid))

    def _keep_dropped(self, rows: Array) -> None:
        """New slices get these rows: where slices dropped in this call were, their content is kept."""
        if self._held_before is None or not self._journal.is_open:
            return
        base, n = self._held_before
        if base == self._base:
            return
        rows = rows[(rows - base) & (self._rows - 1) < n]
        if len(rows):
            self._keep_rows(rows)
            self._journal.keep(self._blank, rows)

    def _keep_rows(self, rows: Array) -> None:
        for matrix in (self.present, *(f for fields in self.fields for f in fields)):
            self._journal.keep(matrix, rows)

    def _allocate(self, rows: int, columns: int) -> None:
        self._rows, self.columns = rows, columns
        #: where slices were when the call began, if these matrices were there by then
        self._held_before = None
        height = 2 * rows if self.tree else rows
        # Memory is not touched before a row is used: fresh pages are dear.
        self.present = np.empty((height, columns), np.uint8)
        self.fields = [
            tuple(np.empty((height, columns), none.dtype) for none in identity) for identity in self._identity
        ]
        #: all partials of each aggregate; that of (row, slot) is number row * columns + slot
        self.flat = [Cells(tuple([f.reshape(-1) for f in fields])) for fields in self.fields]
        self._blank = np.zeros(rows, bool)  # rows of new slices: their content is that of an old one
        self._valid = bytearray(2 * rows)  # nodes that are up to date; bytes, since most are looked at one by one

    @property
    def nbytes(self) -> int:
        return self.present.nbytes + sum(f.nbytes for fields in self.fields for f in fields)

    @property
    def cell_bytes(self) -> int:
        """Bytes of the partials of one slice and key."""
        return sum(none.dtype.itemsize for identity in self._identity for none in identity)

    def row(self, at: Array) -> Array:
        """Rows of slices at these positions."""
        return (self._base + at) & (self._rows - 1)

    def rows(self) -> Array:
        return self.row(np.arange(self._n))

    def widen(self, columns: int) -> None:
        """Have columns for slots 0..columns-1."""
        if columns > self.columns:
            rows = self._rows if columns < _WIDE else min(self._rows, max(_WIDE_ROWS, 1 << self._n.bit_length()))
            self._move(rows, max(columns, 2 * self.columns))
        if columns > self.width:
            self._fill(self.rows(), slice(self.width, columns))
            if self.tree:
                nodes = np.flatnonzero(np.frombuffer(self._valid, np.uint8))
                self._fill(nodes, slice(self.width, columns))
            self.width = columns

    def grow_tree(self) -> None:
        self.tree = True
        self._move(self._rows, self.columns)

    def open(self, fresh: Array, total: int) -> None:
        """New slices lie at these positions; there are now `total`."""
        if total > self._rows:
            self._move(1 << (total - 1).bit_length(), self.columns)
        first = int(fresh[0])
        if first < self._n:
            moved = np.ones(total - first, bool)
            moved[fresh - first] = False
            source, target = self.row(np.arange(first, self._n)), self.row(first + np.flatnonzero(moved))
            all_from_here = self.row(np.arange(first, total))
            self._keep_rows(all_from_here)
            self._journal.keep(self._blank, all_from_here)
            for matrix in (self.present, self._blank, *(f for fields in self.fields for f in fields)):
                matrix[target] = matrix[source]
        self._n = total
        rows = self.row(fresh)
        self._keep_dropped(rows)  # of rows that were no slice's nobody looks at what they hold
        self._blank[rows] = True
        if self.tree:
            self.touch(np.arange(first, total))

    def drop(self, count: int) -> None:
        self._base += count
        self._n -= count
        if self._rows > 16 * _ROWS and 8 * self._n < self._rows:
            self._move(self._rows // 4, self.columns)

    def clear(self) -> None:
        """Drop all slices."""
        self._base += self._n
        self._n = 0

    def _move(self, rows: int, columns: int) -> None:
        """Everything into matrices of another size."""
        old, present, fields, blank = self.rows(), self.present, self.fields, self._blank
        self._allocate(rows, columns)
        self._blank[self.rows()] = blank[old]
        width = self.width
        pairs = [(self.present, present)]
        pairs += [pair for targets, sources in zip(self.fields, fields) for pair in zip(targets, sources)]
        if width < 256:
            for target, source in pairs:
                target[self.rows(), :width] = source[old, :width]
            return
        for to, at in zip(self.rows().tolist(), old.tolist()):  # row by row: no copy of it all on the way
            for target, source in pairs:
                target[to, :width] = source[at, :width]

    def keep(self, columns: Array) -> None:
        """Only these columns stay (at least one does), moved together; nodes are computed anew."""
        present, fields, blank = self.present, self.fields, self._blank
        n, self.width = len(columns), max(len(columns), 1)
        self._allocate(self._rows, self.width)
        self._blank = blank
        pairs = [(self.present, present)]
        pairs += [pair for targets, sources in zip(self.fields, fields) for pair in zip(targets, sources)]
        for row in self.rows().tolist():
            for target, source in pairs:
                target[row, :n] = source[row, columns]
        self._fill(self.rows(), slice(n, self.width))

    def fill(self, rows: Array) -> None:
        """Make new rows among these hold nothing."""
        rows = rows[self._blank[rows]]
        if len(rows):
            self._fill(rows, slice(self.width))
            self._journal.keep(self._blank, rows)
            self._blank[rows] = False

    def _fill(self, rows: Array, columns: slice) -> None:
        self.present[rows, columns] = 0
        for fields, identity in zip(self.fields, self._identity):
            for field, none in zip(fields, identity):
                field[rows, columns] = none[0]

    def write_all(self, rows: Array, width: int, present: Any, cells: Sequence[Cells]) -> None:
        """Combine cells of columns 0..width-1 into several rows, given row by row."""
        where = (rows[:, None] * self.columns + np.arange(width)).reshape(-1)
        if width == self.width and self._blank[rows].all():
            self._journal.saw(self._blank, rows, True)
            self._blank[rows] = False
            self.present.reshape(-1)[where] = present
            for held, cell in zip(self.flat, cells):
                for field, value in zip(held.fields, cell.fields):
                    field[where] = value
            return
        self.fill(rows)
        self._tally.combines += len(where)
        self.combine(where, present, cells)

    def combine(self, where: Array, present: object, cells: Sequence[Cells]) -> None:
        """Combine cells into those at these flat places."""
        journal, flags = self._journal, self.present.reshape(-1)
        before = flags[where]
        journal.saw(flags, where, before)
        flags[where] = before | present
        for agg, held, cell in zip(self._aggs, self.flat, cells):
            old = held.take(where)
            merged = agg.merge(old, cell)
            for field, was, value in zip(held.fields, old.fields, merged.fields):
                journal.saw(field, where, was)
                field[where] = value

    def write(self, row: int, width: int, present: Any, cells: Sequence[Cells]) -> None:
        """Combine cells of columns 0..width-1 into one row."""
        if self._blank[row]:
            if width < self.width:
                self._fill(np.array([row]), slice(width, self.width))
            self.present[row, :width] = present
            for fields, cell in zip(self.fields, cells):
                for field, value in zip(fields, cell.fields):
                    field[row, :width] = value
            self._journal.saw(self._blank, row, True)
            self._blank[row] = False
            return
        self._tally.combines += width
        self._keep_row(row, width)
        self.present[row, :width] |= present
        for agg, fields, cell in zip(self._aggs, self.fields, cells):
            if width >= _WIDE and agg.ufuncs is not None:
                with np.errstate(invalid="ignore", over="ignore"):
                    for ufunc, field, value in zip(agg.ufuncs, fields, cell.fields):
                        ufunc(field[row, :width], value, out=field[row, :width])
                continue
            merged = agg.merge(Cells(tuple([f[row, :width] for f in fields])), cell)
            for field, value in zip(fields, merged.fields):
                field[row, :width] = value

    def _keep_row(self, row: int, width: int) -> None:
        if self._journal.is_open:
            for matrix in (self.present, *(f for fields in self.fields for f in fields)):
                self._journal.keep(matrix, (row, slice(width)))

    def cells(self, a: int, rows: Any) -> Cells:
        """Partials of aggregate number `a` in one row or several, row by row, columns in use only."""
        return Cells(tuple(f[rows, : self.width].reshape(-1) for f in self.fields[a]))

    def cover(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        """Rows that together stand for each range of slices, and the offsets of the ranges among them."""
        if not self.tree:
            at, offsets = spread(lo, hi)
            return self.row(at), offsets
        self._covered += len(lo)
        if not use_kernels(min(_WORTH * len(lo), max(self._covered // 8, _WORTH * _FEW))):
            return self._cover_few(lo.tolist(), hi.tolist())
        from panes.slicing import kernels

        most = 2 * len(lo) * int((hi - lo).max(initial=0)).bit_length() + 1
        rows, stale, offsets = empty(most), empty(self._rows), np.empty(len(lo) + 1, np.int64)
        n = kernels.cover(lo, hi, self._base, np.frombuffer(self._valid, np.uint8), rows, offsets, stale)
        if n:
            self._compute(np.sort(stale[:n]))
        return rows[: offsets[-1]], offsets

    def _cover_few(self, lo: list[int], hi: list[int]) -> tuple[Array, Array]:
        rows, offsets = [], [0]
        for a, b in zip(lo, hi):
            a, b, level = self._base + a, self._base + b, 0
            while a < b:
                if a & 1:
                    rows.append(self._up_to_date(level, a))
                    a += 1
                if b & 1:
                    b -= 1
                    rows.append(self._up_to_date(level, b))
                a, b, level = a >> 1, b >> 1, level + 1
            offsets.append(len(rows))
        return np.array(rows, np.int64), np.array(offsets, np.int64)

    def touch(self, at: Array) -> None:
        """Slices at these positions change: nodes above them are out of date."""
        if not self.tree:
            return
        size, valid = self._rows, self._valid
        if len(at) > 16:  # all between the first and the last: nodes too many cost less than looking at each
            self._touch_stretch(int(at[0]), int(at[-1]))
            return
        for row in self.row(at).tolist():
            for level in range(1, size.bit_length()):
                node = 2 * size - (2 * size >> level) + (row >> level)
                if not valid[node]:
                    break  # then those above it are out of date too
                valid[node] = 0

    def _touch_stretch(self, first: int, last: int) -> None:
        size, valid = self._rows, self._valid
        low, high = self._base + first & (size - 1), self._base + last & (size - 1)
        stretches = [(low, high)] if low <= high else [(low, size - 1), (0, high)]
        for level in range(1, size.bit_length()):
            begin = 2 * size - (2 * size >> level)
            nodes = [(begin + (a >> level), begin + (b >> level) + 1) for a, b in stretches]
            if all(valid.find(1, a, b) < 0 for a, b in nodes):
                break
            for a, b in nodes:
                valid[a:b] = bytes(b - a)

    def _up_to_date(self, level: int, number: int) -> int:
        """The row of a node, computed if need be."""
        if level == 0:
            return number & (self._rows - 1)
        row = 2 * self._rows - (2 * self._rows >> level) + (number & ((self._rows >> level) - 1))
        if not self._valid[row]:
            left, right = self._up_to_date(level - 1, 2 * number), self._up_to_date(level - 1, 2 * number + 1)
            self._join_rows(row, left, right)
            self._valid[row] = 1
        return row

    def _compute(self, rows: Array) -> None:
        """Compute nodes, given by their rows, lowest levels first; what lies below them is up to date or among them."""
        if self._sums:
            from panes.slicing import kernels

            self._tally.combines += self.width * len(rows)
            kernels.mark_nodes(self.present, self.width, rows)
            for field in (f for fields in self.fields for f in fields):
                kernels.add_nodes(field, self.width, rows)
            return
        whole = 2 * self._rows
        levels = [whole - (whole >> level) for level in range(1, whole.bit_length())]
        for first, stop in pairwise(rows.searchsorted(levels).tolist()):
            if first < stop:
                nodes = rows[first:stop]
                self._join(nodes, 2 * nodes - whole, 2 * nodes - whole + 1)

    def _join(self, out: Array, left: Array, right: Array) -> None:
        """Rows `out` become the rows `left` combined with the rows `right`."""
        if self.width >= _WIDE:
            for o, x, y in zip(out.tolist(), left.tolist(), right.tolist()):
                self._join_rows(o, x, y)
        else:
            self._join_rows(out, left, right)

    def _join_rows(self, out: Any, left: Any, right: Any) -> None:
        """One row, or several at once."""
        width = self.width
        single = isinstance(out, int)
        self._tally.combines += width * (1 if single else len(out))
        self.present[out, :width] = self.present[left, :width] | self.present[right, :width]
        for a, (agg, fields) in enumerate(zip(self._aggs, self.fields)):
            if single and agg.ufuncs is not None:
                for ufunc, field in zip(agg.ufuncs, fields):
                    ufunc(field[left, :width], field[right, :width], out=field[out, :width])
                continue
            merged = agg.merge(self.cells(a, left), self.cells(a, right))
            for field, value in zip(fields, merged.fields):
                field[out, :width] = value if single else value.reshape(-1, width)
