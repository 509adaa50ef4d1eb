"""Tuple buffer: rows sorted by event time, each window folded from its rows when it ends.

ordering   any; late rows move the rows behind them
needs      nothing of the aggregate
time       one append per row in order, O(moved rows) out of order; O(rows of the window) per window
space      n rows (SPEC S-08: n*T)
idea       nothing is shared between windows but the rows
paper      Traub et al., General Stream Slicing (EDBT 2019), section 3.1 (SPEC S-09)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.rivals.base import AFTER_ALL, BEFORE_ALL, Query, Results, Rival
from bench.rivals.functions import IDENTITY, Function, middle
from bench.rivals.kernels import fold_ranges
from bench.rivals.naive import session_runs
from bench.rivals.sorted_rows import SortedRows

Array = np.ndarray


class TupleBuffer(Rival):
    name = "tuple buffer"
    takes_sessions = True

    def __init__(self, queries: Sequence[Query], function: Function, *, ooo: bool = False) -> None:
        super().__init__(queries, function, ooo=ooo)
        self.rows = SortedRows()
        self.sessions_done = {number: BEFORE_ALL for number, _ in self.windows.sessions}

    @property
    def bytes(self) -> int:
        return 16 * len(self.rows)

    def _take(self, times: Array, values: Array) -> None:
        self._moved(self.rows.insert(times, values))
        self.counters.stored(self._partials(), self.bytes)

    def _due(self, watermark: int) -> Results:
        times = self.rows.times
        if self.measure == "time":
            progress = watermark
            query, start, end = self._ending_by(progress)
            lo, hi = np.searchsorted(times, start), np.searchsorted(times, end)
        else:
            progress = self.rows.evicted + int(np.searchsorted(times, watermark, "right"))
            query, start, end = self._ending_by(progress)
            lo, hi = start - self.rows.evicted, end - self.rows.evicted
        held = hi > lo
        parts = [Results(query[held], start[held], end[held], self._fold(lo[held], hi[held]))]
        parts += [self._sessions(number, gap, watermark) for number, gap in self.windows.sessions]
        self._evict(progress)
        return Results.concat(parts)

    def _sessions(self, number: int, gap: int, watermark: int) -> Results:
        times = self.rows.times
        first = int(np.searchsorted(times, self.sessions_done[number], "right"))
        lo, hi = session_runs(times[first:], gap)
        lo, hi = lo + first, hi + first
        over = times[hi - 1] + gap < watermark
        lo, hi = lo[over], hi[over]
        if len(hi):
            self.sessions_done[number] = int(times[hi[-1] - 1])
        return Results(np.full(len(lo), number), times[lo], times[hi - 1] + gap, self._fold(lo, hi))

    def _evict(self, progress: int) -> None:
        horizon = self.windows.horizon(min(progress, AFTER_ALL))
        for number, _ in self.windows.sessions:
            horizon = min(horizon, self.sessions_done[number] + 1)
        if self.measure == "time":
            gone = int(np.searchsorted(self.rows.times, horizon))
        else:
            gone = max(0, min(horizon, progress) - self.rows.evicted)
        if gone:
            self.rows.evict(gone)
            self._dropped(gone)

    # The aggregate tree keeps the rows the same way and overrides how they are folded.

    def _moved(self, kept: int) -> None:
        """Rows from index `kept` on are new or moved."""

    def _dropped(self, count: int) -> None:
        """The first `count` rows left."""

    def _partials(self) -> int:
        return 0

    def _fold(self, lo: Array, hi: Array) -> Array:
        self.counters.merge += int((hi - lo).sum())
        values = self.rows.values
        if self.function.holistic:
            return np.array([middle(values[a:b]) for a, b in zip(lo, hi)], np.float64)
        columns = [
            (hi - lo).astype(np.float64) if i in self.function.counts else fold_ranges(op, values, lo, hi, IDENTITY[op])
            for i, op in enumerate(self.function.ops)
        ]
        return self.function.lower(columns)
