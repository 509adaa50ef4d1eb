"""Cutty: slices are cut only where a window begins; a window's end reads the open slice as it is then.

ordering   in order only
needs      an associative operation with a partial of fixed size; any deterministic windows
time       one combine per row; size/slide + 1 combines per window (lazy), log of it (eager)
space      at most one slice per active window (eager: twice)
idea       records carry begin and end markers, so an end needs no slice of its own
paper      Carbone et al., Cutty (CIKM 2016); Carbone (2018), Algorithm 8, purging after all ends (X-15)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.rivals.base import Query, Results
from bench.rivals.functions import Function, fold_rows
from bench.rivals.in_order_slices import InOrderSlices
from bench.rivals.kernels import merge_columns, running_fold

Array = np.ndarray


class Cutty(InOrderSlices):
    name = "cutty"

    def __init__(self, queries: Sequence[Query], function: Function, *, ooo: bool = False, eager: bool = False) -> None:
        super().__init__(queries, function, ooo=ooo, eager=eager)
        self._given = Results()  # answered while taking rows, handed out by the next advance

    def _edges(self, lo: int, hi: int) -> Array:
        return self.windows.starts(lo, hi)

    def _take(self, times: Array, values: Array) -> None:
        """One batch of records with their markers: the batch is folded between markers, never row by row.

        Between two markers nothing can be asked for, so folding whole stretches gives what Algorithm 8 gives
        record by record: a running partial that starts anew at a begin and is read at an end.
        """
        place = self._place(times)
        first, last = int(place[0]), int(place[-1])
        parts = [self._answer(*self._ending_by(first))]
        since = self._since(place)
        begins = self._cuts(place, self._edges(since, last))
        ends = np.searchsorted(place, self.windows.ends(first, last))
        cuts = np.unique(np.concatenate(([0], begins, ends)))
        fine = fold_rows(self.function, values, cuts)
        fresh = np.isin(cuts, begins)
        if not fresh[0]:
            for op, column, carried in zip(self.function.ops, fine, self.open):
                column[:1] = merge_columns(op, carried, column[:1])
        running = [running_fold(op, column, fresh) for op, column in zip(self.function.ops, fine)]
        slice_start = np.where(fresh, place[cuts], self.open_start if self.open_start is not None else first)
        slice_start = np.maximum.accumulate(slice_start)
        self._close(slice_start, fresh, running)
        self.last_place = last
        self.counters.update += len(values)
        parts.append(self._answer_inside(place[cuts], slice_start, running, *self._ending_by(last)))
        self._purge(self.windows.horizon(last))
        self._given = Results.concat([self._given, *parts])

    def _close(self, slice_start: Array, fresh: Array, running: list[Array]) -> None:
        """Slices that ended go to the store: their partial is the running one before the next begin."""
        final = np.append(fresh[1:], True)
        starts, partials = slice_start[final], [r[final] for r in running]
        if fresh[0] and self.open_start is not None:
            starts = np.concatenate(([self.open_start], starts))
            partials = [np.concatenate(c) for c in zip(self.open, partials)]
        self._keep(starts, partials)

    def _answer_inside(
        self, fine: Array, slice_start: Array, running: list[Array], query: Array, start: Array, end: Array
    ) -> Results:
        """Windows whose end marker is in this batch: stored slices, then the slice open at that moment."""
        at = np.searchsorted(fine, end) - 1
        held = slice_start[at] >= start
        query, start, end, at = query[held], start[held], end[held], at[held]
        assert self.open_start is not None
        starts = np.append(self.starts, self.open_start)
        lo, hi = np.searchsorted(starts, start), np.searchsorted(starts, slice_start[at])
        columns, work = self.store.lookup(lo, hi)
        columns = [merge_columns(op, c, r[at]) for op, c, r in zip(self.function.ops, columns, running)]
        self.counters.merge += work + len(at)
        return Results(query, start, end, self.function.lower(columns))

    def _due(self, watermark: int) -> Results:
        given, self._given = self._given, Results()
        return Results.concat([given, super()._due(watermark)])
