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
    """An array with room at its end."""

    replaced = Replaced("values", "_data", "_tail", "_held_before")

    def __init__(self, dtype: np.dtype, journal: Journal) -> None:
        self._data = np.empty(16, dtype)
        self._tail = 0
        #: what is held, without a copy; good until something is put
        self.values = self._data[:0]
        self._journal = journal
        #: which places were filled when the call began, if they were in this array
        self._held_before: tuple[int, int] | None = None

    def begin(self) -> None:
        """A call begins: what is held now can be had back."""
        self._held_before = self._tail - len(self.values), self._tail

    def _keep(self, begin: int, end: int) -> None:
        """These places are about to be overwritten."""
        if self._journal.is_open and self._held_before is not None:
            head, tail = self._held_before
            begin, end = max(begin, head), min(end, tail)
            if begin < end:
                self._journal.keep(self._data, slice(begin, end))

    @property
    def nbytes(self) -> int:
        return self._data.nbytes

    def put(self, first: int, values: Array) -> None:
        """From number `first` on, what is held becomes these values."""
        held = self.values[:first]
        tail = self._tail - len(self.values) + first
        if tail + len(values) > len(self._data):
            room = self._data
            if 2 * (first + len(values)) > len(room):
                room = np.empty(3 * (first + len(values)), room.dtype)
                self._held_before = None
            else:
                self._keep(0, first)
            room[:first] = held  # in the same buffer the front half is free: fresh memory is dear
            self._data, tail = room, first
        stop = tail + len(values)
        self._keep(tail, stop)
        self._data[tail:stop] = values
        self._tail, self.values = stop, self._data[tail - first : stop]

    def add(self, numbers: Array) -> None:
        """Add to each entry."""
        self._keep(self._tail - len(self.values), self._tail)
        self.values += numbers

    def drop(self, count: int) -> None:
        self.values = self.values[count:]


class CellTable:
    """Cells of one aggregate. The lists of a cell are as long as each other, so that all fields share one `offsets`."""

    replaced = Replaced("_offsets")

    def __init__(self, empty: Cells, journal: Journal) -> None:
        self._ragged = [isinstance(f, Ragged) for f in empty.fields]
        self._fields = [Buffer((f.values if isinstance(f, Ragged) else f).dtype, journal) for f in empty.fields]
        self._lengths = Buffer(np.dtype(np.int64), journal)  # of the lists of each cell, if there are any
        self._offsets: Array | None = np.zeros(1, np.int64)  # the same, added up; None: not known

    def begin(self) -> list[Watched]:
        """A call begins: what is held now can be had back."""
        buffers = [self._lengths, *self._fields]
        for buffer in buffers:
            buffer.begin()
        return [self, *buffers]

    @property
    def nbytes(self) -> int:
        return self._lengths.nbytes + sum(f.nbytes for f in self._fields)

    def _bounds(self) -> Array:
        if self._offsets is None:
            self._offsets = np.zeros(len(self._lengths.values) + 1, np.int64)
            self._lengths.values.cumsum(out=self._offsets[1:])
        return self._offsets

    def view(self) -> Cells:
        """All cells, without a copy; good until the table changes."""
        offsets = self._bounds()
        both = zip(self._fields, self._ragged)
        return Cells(tuple([Ragged(offsets, f.values) if ragged else f.values for f, ragged in both]))

    def put(self, first: int, cells: Cells) -> None:
        """From number `first` on, what is held becomes these cells."""
        first_value, lengths = 0, None
        for buffer, field in zip(self._fields, cells.fields):
            if not isinstance(field, Ragged):
                buffer.put(first, field)
                continue
            if lengths is None:
                first_value, lengths = int(self._bounds()[first]), np.diff(field.offsets)
                self._lengths.put(first, lengths)
                self._offsets = None
            buffer.put(first_value, field.values[field.offsets[0] : field.offsets[-1]])

    def drop(self, count: int) -> None:
        """Forget the first cells."""
        values = 0
        if any(self._ragged):
            values, self._offsets = int(self._bounds()[count]), None
            self._lengths.drop(count)
        for buffer, ragged in zip(self._fields, self._ragged):
            buffer.drop(values if ragged else count)


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
