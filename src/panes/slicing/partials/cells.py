"""Partials of one aggregate, held in two ways: in a table that grows at the end, and by number.

A `CellTable` has buffers with room to spare: appending, cutting off the end and dropping from the front don't copy what
stays, also for ragged fields. A `CellBank` is what sessions keep: numbers are given by the caller and used again after
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
    """An array with room at its end."""

    replaced = Replaced("_data", "_head", "_tail", "_held_before")

    def __init__(self, dtype: np.dtype, journal: Journal) -> None:
        self._data = np.empty(16, dtype)
        self._head = 0
        self._tail = 0
        self._journal = journal
        #: which places were filled when the call began, if they were in this array
        self._held_before: tuple[int, int] | None = None

    def begin(self) -> list[Watched]:
        """A call begins: what is held now can be had back."""
        self._held_before = self._head, self._tail
        return [self]

    def _keep(self, begin: int, end: int) -> None:
        """These places are about to be overwritten."""
        if self._journal.is_open and self._held_before is not None:
            head, tail = self._held_before
            begin, end = max(begin, head), min(end, tail)
            if begin < end:
                self._journal.keep(self._data, slice(begin, end))

    def __len__(self) -> int:
        return self._tail - self._head

    @property
    def nbytes(self) -> int:
        return self._data.nbytes

    def view(self) -> Array:
        return self._data[self._head : self._tail]

    def append(self, values: Array) -> None:
        n = len(self)
        if self._tail + len(values) > len(self._data):
            room = self._data
            if 2 * (n + len(values)) > len(room):
                room = np.empty(3 * (n + len(values)), room.dtype)
                self._held_before = None
            else:
                self._keep(0, n)
            room[:n] = self.view()  # in the same buffer the front half is free: fresh memory is dear
            self._data, self._head, self._tail = room, 0, n
        self._keep(self._tail, self._tail + len(values))
        self._data[self._tail : self._tail + len(values)] = values
        self._tail += len(values)

    def add(self, numbers: Array) -> None:
        """Add to each entry."""
        self._keep(self._head, self._tail)
        self._data[self._head : self._tail] += numbers

    def truncate(self, length: int) -> None:
        self._tail = self._head + length

    def drop(self, count: int) -> None:
        self._head += count


class RaggedBuffer:
    """Lists with room for more lists at the end."""

    replaced = Replaced("_view")

    def __init__(self, dtype: np.dtype, journal: Journal) -> None:
        self._lengths = Buffer(np.dtype(np.int64), journal)
        self._values = Buffer(dtype, journal)
        self._view: Ragged | None = None

    def begin(self) -> list[Watched]:
        """A call begins: what is held now can be had back."""
        return [self, *self._lengths.begin(), *self._values.begin()]

    def __len__(self) -> int:
        return len(self._lengths)

    @property
    def nbytes(self) -> int:
        return self._lengths.nbytes + self._values.nbytes

    def view(self) -> Ragged:
        if self._view is None:
            offsets = np.zeros(len(self) + 1, np.int64)
            np.cumsum(self._lengths.view(), out=offsets[1:])
            self._view = Ragged(offsets, self._values.view())
        return self._view

    def append(self, lists: Ragged) -> None:
        self._view = None
        self._lengths.append(np.diff(lists.offsets))
        self._values.append(lists.values[lists.offsets[0] : lists.offsets[-1]])

    def truncate(self, length: int) -> None:
        stop = self.view().offsets[length]
        self._view = None
        self._lengths.truncate(length)
        self._values.truncate(int(stop))

    def drop(self, count: int) -> None:
        first = self.view().offsets[count]
        self._view = None
        self._lengths.drop(count)
        self._values.drop(int(first))


class CellTable:
    """Cells of one aggregate."""

    def __init__(self, empty: Cells, journal: Journal) -> None:
        self._fields: list[Buffer | RaggedBuffer] = [
            RaggedBuffer(f.values.dtype, journal) if isinstance(f, Ragged) else Buffer(f.dtype, journal)
            for f in empty.fields
        ]

    def begin(self) -> list[Watched]:
        """A call begins: what is held now can be had back."""
        return [each for buffer in self._fields for each in buffer.begin()]

    def __len__(self) -> int:
        return len(self._fields[0])

    @property
    def nbytes(self) -> int:
        return sum(f.nbytes for f in self._fields)

    def view(self) -> Cells:
        """All cells, without a copy; good until the table changes."""
        return Cells(tuple(f.view() for f in self._fields))

    def append(self, cells: Cells) -> None:
        for buffer, field in zip(self._fields, cells.fields):
            buffer.append(field)

    def truncate(self, length: int) -> None:
        for buffer in self._fields:
            buffer.truncate(length)

    def drop(self, count: int) -> None:
        for buffer in self._fields:
            buffer.drop(count)


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
