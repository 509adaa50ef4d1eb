"""What panes, pairs and Cutty share: rows in order fold into the open slice, closed slices go to a store.

A slice is known by the place (time or row number) of its first row, so stretches without rows have none.
The techniques differ in where slices are cut, and in what happens at a window's end.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from bench.rivals.base import Query, Results, Rival
from bench.rivals.functions import Function, fold_rows
from bench.rivals.kernels import merge_columns
from bench.rivals.stores import EagerStore, LazyStore, Store

Array = np.ndarray
SLICE_OVERHEAD = 8  # where the slice starts


class InOrderSlices(Rival):
    takes_disorder = False
    takes_holistic = False

    def __init__(self, queries: Sequence[Query], function: Function, *, ooo: bool = False, eager: bool = False) -> None:
        super().__init__(queries, function, ooo=ooo)
        self.store: Store = EagerStore(function.ops) if eager else LazyStore(function.ops)
        self.starts = np.empty(0, np.int64)  # of the slices in the store
        self.open_start: int | None = None
        self.open: list[Array] = []  # the partial of the open slice, columns of length 1
        self.last_place = -1

    @abstractmethod
    def _edges(self, lo: int, hi: int) -> Array:
        """Where slices are cut: edges e with lo < e <= hi, sorted."""

    @property
    def bytes(self) -> int:
        return 8 * self.store.cells() * len(self.function.ops) + SLICE_OVERHEAD * len(self.starts)

    def _place(self, times: Array) -> Array:
        if self.measure == "time":
            return times
        return np.arange(self.rows_seen - len(times), self.rows_seen)

    def _take(self, times: Array, values: Array) -> None:
        place = self._place(times)
        cuts = self._cuts(place, self._edges(self._since(place), int(place[-1])))
        self._fold_in(place, values, cuts)

    def _since(self, place: Array) -> int:
        return int(place[0]) - 1 if self.open_start is None else self.last_place

    def _cuts(self, place: Array, edges: Array) -> Array:
        """Row indexes of this batch at which a slice begins."""
        cuts = np.unique(np.searchsorted(place, edges))
        if self.open_start is None and (not len(cuts) or cuts[0]):
            cuts = np.concatenate(([0], cuts))
        return cuts

    def _fold_in(self, place: Array, values: Array, cuts: Array) -> None:
        """Fold rows into slices; all but the last one go to the store."""
        joins = not len(cuts) or cuts[0] > 0
        begins = np.concatenate(([0], cuts)) if joins else cuts
        partials = fold_rows(self.function, values, begins)
        starts = place[begins]
        if joins:
            starts[0] = self.open_start
            for op, column, carried in zip(self.function.ops, partials, self.open):
                column[:1] = merge_columns(op, carried, column[:1])
        elif self.open_start is not None:
            starts = np.concatenate(([self.open_start], starts))
            partials = [np.concatenate(c) for c in zip(self.open, partials)]
        self._keep(starts, partials)
        self.last_place = int(place[-1])
        self.counters.update += len(values)

    def _keep(self, starts: Array, partials: list[Array]) -> None:
        """The last slice is open, the others are closed."""
        if len(starts) > 1:
            before = self.store.adding
            self.store.add([p[:-1] for p in partials])
            self.counters.update += self.store.adding - before
            self.starts = np.concatenate((self.starts, starts[:-1]))
        self.open_start, self.open = int(starts[-1]), [p[-1:] for p in partials]
        self.counters.stored(self.store.cells(), self.bytes)

    def _due(self, watermark: int) -> Results:
        progress = watermark if self.measure == "time" else self.rows_seen
        out = self._answer(*self._ending_by(progress))
        self._purge(self.windows.horizon(progress))
        return out

    def _answer(self, query: Array, start: Array, end: Array) -> Results:
        """Windows that hold all rows up to their end: stored slices, and the open one if it lies inside."""
        if self.open_start is None:
            return Results()
        last = len(self.starts)
        starts = np.append(self.starts, self.open_start)
        lo, hi = np.searchsorted(starts, start), np.searchsorted(starts, end)
        held = hi > lo
        query, start, end, lo, hi = query[held], start[held], end[held], lo[held], hi[held]
        columns, work = self.store.lookup(lo, np.minimum(hi, last))
        active = hi > last
        for op, column, partial in zip(self.function.ops, columns, self.open):
            column[active] = merge_columns(op, column[active], np.repeat(partial, int(active.sum())))
        self.counters.merge += work + int(active.sum())
        return Results(query, start, end, self.function.lower(columns))

    def _purge(self, horizon: int) -> None:
        gone = int(np.searchsorted(self.starts, horizon))
        if gone:
            before = self.store.adding
            self.store.purge(gone)
            self.counters.update += self.store.adding - before
            self.starts = self.starts[gone:]
