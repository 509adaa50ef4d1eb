"""Which slices are held: where each starts, in time order.

A slice reaches from its start up to the next edge of any window. Only stretches that hold rows have one, so
a jump of centuries costs nothing. Stores keep their cells by position in this list.
"""

from __future__ import annotations

import numpy as np

from panes.state.journal import Replaced

Array = np.ndarray


class SliceList:
    """Sorted starts. Appending and dropping at the front are cheap, inserting copies."""

    replaced = Replaced("_buffer", "_head", "_tail")

    def __init__(self) -> None:
        self._buffer = np.empty(16, np.int64)
        self._head = 0
        self._tail = 0

    def __len__(self) -> int:
        return self._tail - self._head

    @property
    def starts(self) -> Array:
        return self._buffer[self._head : self._tail]

    def position(self, values: Array) -> Array:
        """The number of slices that start before each value."""
        return self.starts.searchsorted(values)

    def place(self, starts: Array) -> tuple[Array, Array]:
        """Positions of slices with these (sorted) starts, and of those among them that are new and put in."""
        held = self.starts
        if not len(held) or starts[0] > held[-1]:
            at = np.arange(len(held), len(held) + len(starts))
            self._append(starts)
            return at, at
        at = held.searchsorted(starts)
        new = held.take(at, mode="clip") != starts
        if not new.any():
            return at, at[:0]
        at += np.cumsum(new) - new  # the room that new ones before it take
        fresh = at[new]
        if fresh[0] == len(held):
            self._append(starts[new])
        else:
            self._replace(np.insert(held, fresh - np.arange(len(fresh)), starts[new]))
        return at, fresh

    def drop(self, count: int) -> None:
        """Forget the first slices."""
        self._head += count

    def keep(self, positions: Array) -> None:
        """Forget all starts but these; what lay behind the others now belongs to the slice before."""
        self._replace(self.starts[positions])

    def _replace(self, starts: Array) -> None:
        # a buffer of its own: a call that fails goes back to the old one
        self._buffer, self._head, self._tail = np.empty(max(16, 2 * len(starts)), np.int64), 0, 0
        self._append(starts)

    def _append(self, starts: Array) -> None:
        n = len(self)
        if self._tail + len(starts) > len(self._buffer):
            bigger = np.empty(2 * (n + len(starts)), np.int64)
            bigger[:n] = self.starts
            self._buffer, self._head, self._tail = bigger, 0, n
        self._buffer[self._tail : self._tail + len(starts)] = starts
        self._tail += len(starts)
