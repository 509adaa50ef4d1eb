"""Keyed forms of rivals: one operator per key, and buckets that hold a cell per key.

`PerKey` sorts each batch by key and drives one rival for each, as engines do that know one key at a time.
`KeyedBuckets` scatters each row into every window that holds it, cells of all keys side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from bench.rivals.base import AFTER_ALL, BEFORE_ALL, Query, Results, Rival, WindowSet
from bench.rivals.functions import ADD, IDENTITY, Function
from bench.rivals.kernels import scatter

Array = np.ndarray


class PerKey:
    """A rival for each key."""

    def __init__(self, make: Callable[[], Rival], keys: int) -> None:
        self.rivals = [make() for _ in range(keys)]
        self.edges = np.arange(keys + 1)

    def push(self, times: Array, values: Array, keys: Array) -> None:
        order = np.argsort(keys, kind="stable")
        times, values = times[order], values[order]
        bounds = np.searchsorted(keys[order], self.edges).tolist()
        for rival, lo, hi in zip(self.rivals, bounds, bounds[1:]):
            rival.push(times[lo:hi], values[lo:hi])

    def advance(self, watermark: int) -> Results:
        return Results.concat([rival.advance(watermark) for rival in self.rivals])

    def finish(self) -> Results:
        return Results.concat([rival.finish() for rival in self.rivals])


class KeyedBuckets:
    """Aggregate buckets on time for keys 0..keys-1; one result per window and key with rows."""

    def __init__(self, queries: Sequence[Query], function: Function, keys: int) -> None:
        self.windows = WindowSet(queries)
        self.function = function
        self.keys = keys
        self.buckets: dict[tuple[int, int, int], list[Array]] = {}

    def push(self, times: Array, values: Array, keys: Array) -> None:
        if (times[1:] < times[:-1]).any():
            order = np.argsort(times, kind="stable")
            times, values, keys = times[order], values[order], keys[order]
        windows = self.windows.overlapping(int(times[0]), int(times[-1]))
        lo, hi = np.searchsorted(times, windows[1]), np.searchsorted(times, windows[2])
        ones = np.ones(len(values))
        for window, a, b in zip(zip(*(c.tolist() for c in windows)), lo.tolist(), hi.tolist()):
            if a == b:
                continue
            cells = self.buckets.get(window)
            if cells is None:
                cells = [np.full(self.keys, IDENTITY[op]) for op in (ADD, *self.function.ops)]
                self.buckets[window] = cells
            scatter(ADD, cells[0], keys[a:b], ones[a:b])  # how many rows a key has: without any, no result
            for i, op in enumerate(self.function.ops):
                column = ones if i in self.function.counts else values
                scatter(op, cells[i + 1], keys[a:b], column[a:b])

    def advance(self, watermark: int) -> Results:
        parts = []
        for window in [w for w in self.buckets if BEFORE_ALL < w[2] <= watermark]:
            rows, *cells = self.buckets.pop(window)
            held = rows > 0
            given = self.function.lower([c[held] for c in cells])
            query, start, end = (np.full(len(given), part) for part in window)
            parts.append(Results(query, start, end, given))
        return Results.concat(parts)

    def finish(self) -> Results:
        return self.advance(AFTER_ALL)
