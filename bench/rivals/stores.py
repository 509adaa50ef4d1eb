"""Where slices are kept: lazily (fold them when a window ends) or eagerly (a FlatFAT above them).

lazy    add and purge O(1), lookup O(slices of the window), s partials
eager   add and lookup O(log s), 2s partials
paper   Carbone (2018), sections 5.5.2 and 5.5.4; SPEC W-11
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from bench.rivals.flatfat import FlatFat
from bench.rivals.functions import IDENTITY
from bench.rivals.kernels import fold_ranges

Array = np.ndarray


class Store(Protocol):
    """Partials of closed slices, oldest first, one column per operation."""

    @property
    def adding(self) -> int:
        """Combines spent on adding and purging."""
        ...

    def __len__(self) -> int: ...
    def cells(self) -> int: ...
    def add(self, partials: list[Array]) -> None: ...
    def purge(self, count: int) -> None: ...
    def lookup(self, lo: Array, hi: Array) -> tuple[list[Array], int]: ...


class LazyStore:
    adding = 0

    def __init__(self, ops: tuple[int, ...]) -> None:
        self.ops = ops
        self._columns = np.empty((len(ops), 16))
        self._head = self._tail = 0

    def __len__(self) -> int:
        return self._tail - self._head

    def cells(self) -> int:
        return len(self)

    def add(self, partials: list[Array]) -> None:
        count, live = len(partials[0]), len(self)
        if self._tail + count > self._columns.shape[1]:
            grown = np.empty((len(self.ops), 2 * (live + count)))
            grown[:, :live] = self._columns[:, self._head : self._tail]
            self._columns, self._head, self._tail = grown, 0, live
        for row, partial in zip(self._columns, partials):
            row[self._tail : self._tail + count] = partial
        self._tail += count

    def purge(self, count: int) -> None:
        self._head += count

    def lookup(self, lo: Array, hi: Array) -> tuple[list[Array], int]:
        live = self._columns[:, self._head : self._tail]
        found = [fold_ranges(op, row, lo, hi, IDENTITY[op]) for op, row in zip(self.ops, live)]
        return found, int(np.maximum(hi - lo, 0).sum())


class EagerStore:
    def __init__(self, ops: tuple[int, ...]) -> None:
        self.trees = [FlatFat(op) for op in ops]

    def __len__(self) -> int:
        return len(self.trees[0])

    def cells(self) -> int:
        return 2 * self.trees[0].capacity

    @property
    def adding(self) -> int:
        return self.trees[0].work

    def add(self, partials: list[Array]) -> None:
        for tree, partial in zip(self.trees, partials):
            tree.append(partial, each=True)

    def purge(self, count: int) -> None:
        for tree in self.trees:
            tree.purge(count)

    def lookup(self, lo: Array, hi: Array) -> tuple[list[Array], int]:
        found = [tree.lookup(lo, np.maximum(lo, hi)) for tree in self.trees]
        return [values for values, _ in found], found[0][1]
