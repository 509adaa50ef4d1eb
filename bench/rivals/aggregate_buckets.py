"""Aggregate buckets: one partial per window, each row added to every window that holds it.

ordering   any for time windows; row windows take rows when the watermark has passed them
needs      a partial of fixed size; commutative if rows come out of order
time       one combine per row and window that holds it; a window is ready when it ends
space      w partials, w the windows now open (SPEC S-08: w*A + w*K)
idea       a window is a group of a group-by; nothing is shared between overlapping windows
paper      Li et al., Semantics and Evaluation Techniques for Window Aggregates (SIGMOD 2005); SPEC S-11
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.rivals.base import Query, Results, Rival
from bench.rivals.functions import IDENTITY, Function, fold_segments
from bench.rivals.kernels import fold_ranges
from bench.rivals.naive import session_runs
from bench.rivals.reorder import Reorder

Array = np.ndarray
BUCKET_OVERHEAD = 24  # query number, start and end of a bucket


class AggregateBuckets(Rival):
    name = "aggregate buckets"
    takes_holistic = False
    takes_sessions = True
    needs_rows_in_event_order = True

    def __init__(self, queries: Sequence[Query], function: Function, *, ooo: bool = False) -> None:
        super().__init__(queries, function, ooo=ooo)
        none = np.empty(0, np.int64)
        self.query, self.start, self.end = none, none, none
        self.partials = [np.empty(0) for _ in function.ops]
        self.sessions = {n: _SessionBuckets(gap, function) for n, gap in self.windows.sessions}
        self.waiting = Reorder()
        self.placed = 0  # rows in buckets so far: the number of the next row

    @property
    def bytes(self) -> int:
        return (8 * len(self.partials) + BUCKET_OVERHEAD) * self._buckets() + 16 * len(self.waiting)

    def _buckets(self) -> int:
        return len(self.query) + sum(len(s.first) for s in self.sessions.values())

    def _take(self, times: Array, values: Array) -> None:
        if self.ooo and self.measure == "rows":
            self.waiting.hold(times, values)
            return
        if self.ooo and (times[1:] < times[:-1]).any():
            order = np.argsort(times, kind="stable")
            times, values = times[order], values[order]
        self._place(times, values)

    def _place(self, times: Array, values: Array) -> None:
        """Add rows in event order to all their buckets."""
        if not len(times):
            return
        place = times if self.measure == "time" else self.placed + np.arange(len(times))
        query, start, end = self.windows.overlapping(int(place[0]), int(place[-1]))
        lo, hi = np.searchsorted(place, start), np.searchsorted(place, end)
        held = hi > lo
        lo, hi = lo[held], hi[held]
        self._merge(query[held], start[held], end[held], self._fold(values, lo, hi))
        for bucket in self.sessions.values():
            self.counters.update += len(times)
            bucket.add(times, values)
        self.counters.update += int((hi - lo).sum())
        self.placed += len(times)
        self.counters.stored(self._buckets(), self.bytes)

    def _fold(self, values: Array, lo: Array, hi: Array) -> list[Array]:
        return [
            (hi - lo).astype(np.float64) if i in self.function.counts else fold_ranges(op, values, lo, hi, IDENTITY[op])
            for i, op in enumerate(self.function.ops)
        ]

    def _merge(self, query: Array, start: Array, end: Array, partials: list[Array]) -> None:
        query, start, end = (np.concatenate(c) for c in zip((self.query, self.start, self.end), (query, start, end)))
        partials = [np.concatenate(c) for c in zip(self.partials, partials)]
        order = np.lexsort((start, query))  # stable: what was there comes before what is new
        query, start, end = query[order], start[order], end[order]
        fresh = np.flatnonzero(
            np.concatenate(([True], (query[1:] != query[:-1]) | (start[1:] != start[:-1])))[: len(query)]
        )
        self.query, self.start, self.end = query[fresh], start[fresh], end[fresh]
        if len(fresh):
            self.partials = [fold_segments(op, p[order], fresh) for op, p in zip(self.function.ops, partials)]

    def _due(self, watermark: int) -> Results:
        progress = watermark
        if self.measure == "rows":
            self._place(*self.waiting.release(watermark))
            progress = self.placed
        over = self.end <= progress
        values = self.function.lower([p[over] for p in self.partials])
        parts = [Results(self.query[over], self.start[over], self.end[over], values)]
        parts += [bucket.due(number, watermark) for number, bucket in self.sessions.items()]
        self.query, self.start, self.end = self.query[~over], self.start[~over], self.end[~over]
        self.partials = [p[~over] for p in self.partials]
        return Results.concat(parts)


class _SessionBuckets:
    """Open sessions of one gap: rows of a batch become sessions, which join those they touch."""

    def __init__(self, gap: int, function: Function) -> None:
        self.gap = gap
        self.function = function
        self.first = self.last = np.empty(0, np.int64)
        self.partials = [np.empty(0) for _ in function.ops]

    def add(self, times: Array, values: Array) -> None:
        lo, hi = session_runs(times, self.gap)
        first = np.concatenate((self.first, times[lo]))
        last = np.concatenate((self.last, times[hi - 1]))
        order = np.argsort(first, kind="stable")
        first, reach = first[order], np.maximum.accumulate(last[order])
        begins = np.flatnonzero(np.concatenate(([True], first[1:] > reach[:-1] + self.gap)))
        self.first = first[begins]
        self.last = reach[np.append(begins[1:], len(first)) - 1]
        for i, op in enumerate(self.function.ops):
            rows = (hi - lo).astype(np.float64) if i in self.function.counts else fold_segments(op, values, lo)
            self.partials[i] = fold_segments(op, np.concatenate((self.partials[i], rows))[order], begins)

    def due(self, number: int, watermark: int) -> Results:
        over = self.last + self.gap < watermark
        values = self.function.lower([p[over] for p in self.partials])
        out = Results(np.full(int(over.sum()), number), self.first[over], self.last[over] + self.gap, values)
        self.first, self.last = self.first[~over], self.last[~over]
        self.partials = [p[~over] for p in self.partials]
        return out
