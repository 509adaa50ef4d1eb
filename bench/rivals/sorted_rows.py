"""Rows in event-time order in one growing array, with room at the end: what tuple buffer and tree rest on."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


class SortedRows:
    """Times and values sorted by (time, arrival); evicted at the head, merged into at the tail."""

    def __init__(self) -> None:
        self._times = np.empty(16, np.int64)
        self._values = np.empty(16)
        self._head = self._tail = 0
        self.evicted = 0  # rows that left: the row number of the first one still here

    def __len__(self) -> int:
        return self._tail - self._head

    @property
    def times(self) -> Array:
        return self._times[self._head : self._tail]

    @property
    def values(self) -> Array:
        return self._values[self._head : self._tail]

    def insert(self, times: Array, values: Array) -> int:
        """Put rows where they belong; the index from which on rows were added or moved."""
        if (times[1:] < times[:-1]).any():
            order = np.argsort(times, kind="stable")
            times, values = times[order], values[order]
        kept = int(np.searchsorted(self.times, times[0], "right"))
        moved = len(self) - kept
        if moved:
            times = np.concatenate((self.times[kept:], times))
            values = np.concatenate((self.values[kept:], values))
            order = np.argsort(times, kind="stable")
            times, values = times[order], values[order]
        self._reserve(kept + len(times))
        here = self._head + kept
        self._tail = here + len(times)
        self._times[here : self._tail] = times
        self._values[here : self._tail] = values
        return kept

    def evict(self, count: int) -> None:
        self._head += count
        self.evicted += count

    def _reserve(self, length: int) -> None:
        if self._head + length <= len(self._times):
            return
        live = len(self)
        # Twice the need keeps the copying amortised: half the array is free again after each move.
        times, values = np.empty(2 * length, np.int64), np.empty(2 * length)
        times[:live], values[:live] = self.times, self.values
        self._times, self._values, self._head, self._tail = times, values, 0, live
