"""Tuple buckets: one list of rows per window, each row copied into every window that holds it.

ordering   any; row windows take rows when the watermark has passed them
needs      nothing of the aggregate
time       one copy per row and window that holds it; O(rows of the window) when it ends
space      every window's rows (SPEC S-08: w * (rows per window * T + K))
idea       buckets for aggregates that need single rows: holistic ones, or those that don't commute
paper      Li et al. (SIGMOD 2005); Traub et al. (EDBT 2019), section 3.3; SPEC S-11
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.rivals.aggregate_buckets import BUCKET_OVERHEAD
from bench.rivals.base import Query, Results, Rival
from bench.rivals.functions import Function
from bench.rivals.naive import recompute
from bench.rivals.reorder import Reorder

Array = np.ndarray
Window = tuple[int, int, int]


class TupleBuckets(Rival):
    name = "tuple buckets"

    def __init__(self, queries: Sequence[Query], function: Function, *, ooo: bool = False) -> None:
        super().__init__(queries, function, ooo=ooo)
        self.buckets: dict[Window, list[tuple[Array, Array]]] = {}
        self.waiting = Reorder()
        self.placed = 0
        self.copies = 0  # rows now held, once per bucket

    @property
    def bytes(self) -> int:
        return 16 * (self.copies + len(self.waiting)) + BUCKET_OVERHEAD * len(self.buckets)

    def _take(self, times: Array, values: Array) -> None:
        if self.ooo and self.measure == "rows":
            self.waiting.hold(times, values)
            return
        if self.ooo and (times[1:] < times[:-1]).any():
            order = np.argsort(times, kind="stable")
            times, values = times[order], values[order]
        self._place(times, values)

    def _place(self, times: Array, values: Array) -> None:
        if not len(times):
            return
        place = times if self.measure == "time" else self.placed + np.arange(len(times))
        windows = self.windows.overlapping(int(place[0]), int(place[-1]))
        lo, hi = np.searchsorted(place, windows[1]), np.searchsorted(place, windows[2])
        for window, a, b in zip(zip(*(c.tolist() for c in windows)), lo.tolist(), hi.tolist()):
            if b > a:
                self.buckets.setdefault(window, []).append((times[a:b].copy(), values[a:b].copy()))
        copied = int(np.maximum(hi - lo, 0).sum())
        self.copies += copied
        self.counters.update += copied
        self.placed += len(times)
        self.counters.stored(self.copies, self.bytes)

    def _due(self, watermark: int) -> Results:
        progress = watermark
        if self.measure == "rows":
            self._place(*self.waiting.release(watermark))
            progress = self.placed
        out = []
        for window in [w for w in self.buckets if w[2] <= progress]:
            chunks = self.buckets.pop(window)
            values = np.concatenate([v for _, v in chunks])
            if self.ooo and not self.function.commutative:
                values = values[np.argsort(np.concatenate([t for t, _ in chunks]), kind="stable")]
            self.copies -= len(values)
            self.counters.merge += len(values)
            out.append((*window, recompute(self.function, values)))
        return Results(*(np.array(c) for c in zip(*out))) if out else Results()
