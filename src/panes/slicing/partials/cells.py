"""Partials of one aggregate, held in two ways: in a table that grows at the end, and by number.

A `CellTable` has buffers with room to spare: writing its end anew and dropping from the front don't copy what stays,
also for ragged fields. A `CellBank` is what sessions keep: numbers are given by the caller and used again after
`drop`.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from panes.aggregates.base import BoundAggregate, Cells, Ragged
from panes.slicing.partials.store import segments
from panes.state.journal import Journal, Replaced, Watched

Array = np.ndarray


class Buffer:
    """Arrays of one length, with room at their end."""

    replaced = Replaced("columns", "values", "_data", "_head", "_tail", "_held_before")

    def __init__(self, journal: Journal, *dtypes: np.dtype) -> None:
        self._data = [np.empty(16, dtype) for dtype in dtypes]
        self._head = self._tail = 0
        #: what is held, without a copy; good until something is put
        self.columns = [data[:0] for data in self._data]
        #: the first of them, for those who have but one
        self.values = self.columns[0]
        self._journal = journal
        #: which places were filled when the call began, if they were in these arrays
        self._held_before: tuple[int, int] | None = None

    def begin(self) -> None:
        """A call begins: what is held now can be had back."""
        self._held_before = self._head, self._tail

    def _keep(self, begin: int, end: int) -> None:
        """These places are about to be overwritten."""
        if self._journal.is_open and self._held_before is not None:
            head, tail = self._held_before
            begin, end = max(begin, head), min(end, tail)
            if begin < end:
                for data in self._data:
                    self._journal.keep(data, slice(begin, end))

    @property
    def nbytes(self) -> int:
        return sum(data.nbytes for data in self._data)

    def put(self, first: int, *columns: Array) -> None:
        """From number `first` on, what is held becomes these values."""
        count, tail = len(columns[0]), self._head + first
        if tail + count > len(self._data[0]):
            room = self._data
            if 2 * (first + count) > len(room[0]):
                room = [np.empty(3 * (first + count), data.dtype) for data in room]
                self._held_before = None
            else:
                self._keep(0, first)
            for data, held in zip(room, self.columns):
                data[:first] = held[:first]  # in the same buffer the front half is free: fresh memory is dear
            self._data, self._head, tail = room, 0, first
        self._tail = tail + count
        self._keep(tail, self._tail)
        for data, values in zip(self._data, columns):
            data[tail : self._tail] = values
        self._show()

    def add(self, numbers: Array) -> None:
        """Add to each entry of the first array."""
        self._keep(self._head, self._tail)
        self.values += numbers

    def drop(self, count: int) -> None:
        self._head += count
        self._show()

    def _show(self) -> None:
        self.columns = [data[self._head : self._tail] for data in self._data]
        self.values = self.columns[0]


class CellTable:
    """Cells of one aggregate. The lists of a cell are as long as each other, so that all fields share one `offsets`."""

    replaced = Replaced("_offsets")

    def __init__(self, empty: Cells, journal: Journal) -> None:
        self._ragged = [isinstance(f, Ragged) for f in empty.fields]
        lists = [f.values.dtype for f in empty.fields if isinstance(f, Ragged)]
        fixed = [f.dtype for f in empty.fields if not isinstance(f, Ragged)]
        #: of each cell its fields, before them the length of its lists, if there are any
        self._fixed = Buffer(journal, *([np.dtype(np.int64)] if lists else []), *fixed)
        self._lists = Buffer(journal, *lists) if lists else None
        self._offsets: Array | None = np.zeros(1, np.int64)  # the lengths, added up; None: not known

    def begin(self) -> list[Watched]:
        """A call begins: what is held now can be had back."""
        buffers = [self._fixed] if self._lists is None else [self._fixed, self._lists]
        for buffer in buffers:
            buffer.begin()
        return [self, *buffers]

    @property
    def nbytes(self) -> int:
        return self._fixed.nbytes + (0 if self._lists is None else self._lists.nbytes)

    def _bounds(self) -> Array:
        if self._offsets is None:
            lengths = self._fixed.values
            self._offsets = np.zeros(len(lengths) + 1, np.int64)
            lengths.cumsum(out=self._offsets[1:])
        return self._offsets

    def view(self) -> Cells:
        """All cells, without a copy; good until the table changes."""
        if self._lists is None:
            return Cells(tuple(self._fixed.columns))
        offsets, fixed, lists = self._bounds(), iter(self._fixed.columns[1:]), iter(self._lists.columns)
        return Cells(tuple([Ragged(offsets, next(lists)) if ragged else next(fixed) for ragged in self._ragged]))

    def put(self, first: int, cells: Cells) -> None:
        """From number `first` on, what is held becomes these cells."""
        if self._lists is None:
            self._fixed.put(first, *cells.fields)
            return
        lists = [field for field in cells.fields if isinstance(field, Ragged)]
        fixed = [field for field in cells.fields if not isinstance(field, Ragged)]
        self._lists.put(int(self._bounds()[first]), *[f.values[f.offsets[0] : f.offsets[-1]] for f in lists])
        self._fixed.put(first, np.diff(lists[0].offsets), *fixed)
        self._offsets = None

    def drop(self, count: int) -> None:
        """Forget the first cells."""
        if self._lists is not None:
            self._lists.drop(int(self._bounds()[count]))
            self._offsets = None
        self._fixed.drop(count)


class CellBank(Protocol):
    """Cells of one aggregate."""

    def put(self, ids: Array, cells: Cells) -> None:
        """Begin these numbers (each once) with these cells."""

    def add(self, ids: Array, cells: Cells) -> None:
        """Combine cells into these numbers (each once)."""

    def take(self, ids: Array) -> Cells: ...

    def drop(self, ids: Array) -> None: ...

    def begin(self) -> list[Watched]:
        """A call begins: objects whose attributes it may replace."""

    @property
    def nbytes(self) -> int: ...


def cell_bank(agg: BoundAggregate, journal: Journal) -> CellBank:
    return FixedBank(agg, journal) if agg.dense else RaggedBank(agg, journal)


class FixedBank:
    """Cells of fixed size, in arrays by number."""

    replaced = Replaced("_cells")

    def __init__(self, agg: BoundAggregate, journal: Journal) -> None:
        self._agg = agg
        self._journal = journal
        self._cells = agg.empty(16)

    def begin(self) -> list[Watched]:
        return [self]

    @property
    def nbytes(self) -> int:
        return sum(f.nbytes for f in self._cells.fields)

    def put(self, ids: Array, cells: Cells) -> None:
        most = int(ids.max(initial=-1)) + 1
        if most > len(self._cells):
            more = max(most, 2 * len(self._cells)) - len(self._cells)
            self._cells = Cells.concat([self._cells, self._agg.empty(more)])
        for field, values in zip(self._cells.fields, cells.fields):
            self._journal.keep(field, ids)
            field[ids] = values

    def add(self, ids: Array, cells: Cells) -> None:
        old = self._cells.take(ids)
        merged = self._agg.merge(old, cells)
        for field, was, values in zip(self._cells.fields, old.fields, merged.fields):
            self._journal.saw(field, ids, was)
            field[ids] = values

    def take(self, ids: Array) -> Cells:
        return self._cells.take(ids)

    def drop(self, ids: Array) -> None:
        pass  # `put` overwrites


class RaggedBank:
    """Cells of any size: what is added waits in runs and is combined when asked for, or when it has grown much."""

    replaced = Replaced("_ids", "_cells", "_runs", "_waiting")

    def __init__(self, agg: BoundAggregate, journal: Journal) -> None:
        self._agg = agg
        self._journal = journal
        self._ids = np.empty(0, np.int64)  # sorted
        self._cells = agg.empty(0)
        self._runs: list[tuple[Array, Cells]] = []
        self._waiting = 0

    def begin(self) -> list[Watched]:
        self._journal.keep_length(self._runs)
        return [self]

    @property
    def nbytes(self) -> int:
        self._settle()
        return self._ids.nbytes + sum(
            f.nbytes if isinstance(f, np.ndarray) else f.offsets.nbytes + f.values.nbytes for f in self._cells.fields
        )

    def put(self, ids: Array, cells: Cells) -> None:
        self.add(ids, cells)

    def add(self, ids: Array, cells: Cells) -> None:
        if len(ids):
            self._runs.append((ids, cells))
            self._waiting += len(ids)
            if self._waiting > len(self._ids) + 4096:
                self._settle()

    def take(self, ids: Array) -> Cells:
        self._settle()
        return self._cells.take(np.searchsorted(self._ids, ids))

    def drop(self, ids: Array) -> None:
        self._settle()
        kept = np.flatnonzero(~np.isin(self._ids, ids))
        self._ids, self._cells = self._ids[kept], self._cells.take(kept)

    def _settle(self) -> None:
        if not self._runs:
            return
        ids = np.concatenate([self._ids, *(i for i, _ in self._runs)])
        cells = Cells.concat([self._cells, *(c for _, c in self._runs)])
        order = np.argsort(ids, kind="stable")
        bounds = segments(ids[order])
        self._ids = ids[order[bounds[:-1]]]
        self._cells = self._agg.fold(cells.take(order), bounds)
        self._runs, self._waiting = [], 0
