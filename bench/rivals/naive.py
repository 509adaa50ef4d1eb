"""Naive: keep every row for ever, recompute every window from all of them.

ordering   any
needs      nothing of the aggregate
time       O(n) per window, n rows seen so far
space      O(n)
idea       what the definition says; the oracle that the others are compared with
paper      baseline of Carbone, Scalable and Reliable Data Stream Processing (2018), section 5.7 (SPEC W-12)
"""

from __future__ import annotations

import numpy as np

from bench.rivals.base import Results, Rival
from bench.rivals.functions import Function, fold_rows, middle

Array = np.ndarray


def recompute(function: Function, values: Array) -> float:
    """The aggregate of rows in event order."""
    if function.holistic:
        return middle(values)
    return float(function.lower(fold_rows(function, values, np.zeros(1, np.int64)))[0])


def session_runs(times: Array, gap: int) -> tuple[Array, Array]:
    """(first, stop) row numbers of the runs of sorted times whose steps are at most `gap`."""
    breaks = np.flatnonzero(np.diff(times) > gap) + 1
    first = np.concatenate(([0], breaks)) if len(times) else np.empty(0, np.int64)
    return first, np.append(first[1:], len(times)).astype(np.int64)


class Naive(Rival):
    name = "naive"
    takes_sessions = True

    def __init__(self, queries, function, *, ooo=False) -> None:  # type: ignore[no-untyped-def]
        super().__init__(queries, function, ooo=ooo)
        self.times = np.empty(0, np.int64)
        self.values = np.empty(0)

    def _take(self, times: Array, values: Array) -> None:
        self.times = np.concatenate((self.times, times))
        self.values = np.concatenate((self.values, values))
        self.counters.stored(0, self.times.nbytes + self.values.nbytes)

    def _due(self, watermark: int) -> Results:
        order = np.argsort(self.times, kind="stable")
        times, values = self.times[order], self.values[order]
        place = times if self.measure == "time" else np.arange(len(times))
        progress = watermark if self.measure == "time" else int((times <= watermark).sum())
        out = []
        since = self.done
        for query, start, end in zip(*(c.tolist() for c in self._ending_by(progress))):
            rows = values[(place >= start) & (place < end)]
            if len(rows):
                self.counters.merge += len(rows)
                out.append((query, start, end, recompute(self.function, rows)))
        for query, gap in self.windows.sessions:
            for first, stop in zip(*session_runs(times, gap)):
                end = int(times[stop - 1]) + gap
                if since <= end < progress:
                    out.append((query, int(times[first]), end, recompute(self.function, values[first:stop])))
        return Results(*(np.array(c) for c in zip(*out))) if out else Results()
