"""FlatFAT: a binary tree of partials in one array, without pointers, over a circle of leaves.

ordering   leaves in stream order; the tail may be rewritten
needs      an associative operation; order is respected around the circle
time       log n combines per leaf put in alone, two per leaf when many are put in at once; log n per lookup
space      2n cells, n a power of two; doubled when full, halved when at most a third is used
idea       node i has children 2i and 2i + 1, so parents of a range of leaves are a range again
paper      Tangwongsan et al., General Incremental Sliding-Window Aggregation (PVLDB 2015); SPEC W-11
"""

from __future__ import annotations

import numpy as np

from bench.rivals.functions import IDENTITY
from bench.rivals.kernels import insert_each, lookup_ranges, refresh

Array = np.ndarray


class FlatFat:
    """One column of partials. Leaves are numbered 0..len-1 from the oldest one held."""

    def __init__(self, op: int, capacity: int = 2) -> None:
        self.op = op
        self.identity = IDENTITY[op]
        self.heap = np.full(2 * capacity, self.identity)
        self.front = 0  # physical leaf of the oldest
        self.size = 0
        self.work = 0  # combines so far, for SPEC W-17

    def __len__(self) -> int:
        return self.size

    @property
    def capacity(self) -> int:
        return len(self.heap) // 2

    def append(self, column: Array, *, each: bool = False) -> None:
        """Add leaves; `each` walks the path of every single one, as a stream of records would."""
        self._fit(self.size + len(column))
        if each:
            leaf = self.front + self.size
            self.work += insert_each(self.op, self.heap, leaf, np.ascontiguousarray(column, np.float64))
            self.size += len(column)
        else:
            self.rewrite(self.size, column)

    def rewrite(self, kept: int, column: Array) -> None:
        """Keep the first `kept` leaves and let `column` follow them."""
        self._fit(kept + len(column))
        self._write(kept, column)
        self.size = kept + len(column)

    def purge(self, count: int) -> None:
        """Drop the oldest `count` leaves; the array is halved while at most a third of it is used."""
        self._write(0, np.full(count, self.identity))
        self.front = (self.front + count) % self.capacity
        self.size -= count
        capacity = self.capacity
        while capacity > 2 and 3 * self.size <= capacity:
            capacity //= 2
        self._resize(capacity)

    def lookup(self, lo: Array, hi: Array) -> tuple[Array, int]:
        """Fold leaves lo[i]:hi[i]; (results, how many nodes were combined)."""
        out, work = lookup_ranges(self.op, self.heap, self.front, lo, hi, self.identity)
        return out, int(work)

    def leaves(self) -> Array:
        """All leaves, oldest first."""
        return self.heap[self.capacity + (self.front + np.arange(self.size)) % self.capacity]

    def _write(self, index: int, column: Array) -> None:
        """Overwrite leaves from `index` on, in at most two stretches around the circle."""
        while len(column):
            leaf = (self.front + index) % self.capacity
            part = column[: self.capacity - leaf]
            self.heap[self.capacity + leaf : self.capacity + leaf + len(part)] = part
            self.work += int(refresh(self.op, self.heap, leaf, leaf + len(part)))
            index += len(part)
            column = column[len(part) :]

    def _fit(self, size: int) -> None:
        capacity = self.capacity
        while capacity < size:
            capacity *= 2
        self._resize(capacity)

    def _resize(self, capacity: int) -> None:
        if capacity == self.capacity:
            return
        leaves = self.leaves()
        self.heap = np.full(2 * capacity, self.identity)
        self.front = 0
        self._write(0, leaves)


def spans(capacity: int, node: int) -> tuple[int, int]:
    """Leaves [first, last], counted from 1, below a node: how the literature names nodes."""
    level = node.bit_length() - 1
    width = capacity >> level
    first = (node - (1 << level)) * width
    return first + 1, first + width


def cover(capacity: int, first: int, last: int) -> list[tuple[int, int]]:
    """The nodes that a lookup of leaves [first, last] combines, in order."""
    lo, hi = first - 1 + capacity, last + capacity
    left: list[int] = []
    right: list[int] = []
    while lo < hi:
        if lo & 1:
            left.append(lo)
            lo += 1
        if hi & 1:
            hi -= 1
            right.append(hi)
        lo >>= 1
        hi >>= 1
    return [spans(capacity, node) for node in left + right[::-1]]
