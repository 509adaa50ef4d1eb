"""Partials by number: what a session keeps. Numbers are given by the caller and used again after `drop`."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from panes.aggregates.base import BoundAggregate, Cells
from panes.slicing.partials.store import segments
from panes.state.journal import Journal, Replaced

Array = np.ndarray


class CellBank(Protocol):
    """Cells of one aggregate."""

    def put(self, ids: Array, cells: Cells) -> None:
        """Begin these numbers (each once) with these cells."""

    def add(self, ids: Array, cells: Cells) -> None:
        """Combine cells into these numbers (each once)."""

    def take(self, ids: Array) -> Cells: ...

    def drop(self, ids: Array) -> None: ...

    def begin(self) -> list[Any]:
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

    def begin(self) -> list[Any]:
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

    def begin(self) -> list[Any]:
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
