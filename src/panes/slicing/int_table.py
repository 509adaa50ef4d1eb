"""A hash table from 64-bit integers to codes, for large batches: compiled, open addressing.

While all integers fit 32 bits, integer and code share one word, so that a lookup touches memory once. Small tables
are kept almost empty, for one probe per lookup; large ones up to half full, to stay in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Array = np.ndarray

#: (first code, values of the codes from there on)
Part = tuple[int, Array]

_SMALLEST = 1 << 12
_ROOMY = 1 << 16
_NARROW = 1 << 31


class IntTable:
    """Codes are given by the caller, and dense; `known` is how many of them the table has seen."""

    def __init__(self) -> None:
        self.known = 0
        self.limit = 0  # codes it may hold
        self._narrow = True
        self._words = np.empty(0, np.int64)  # narrow: integer << 32 | code; wide: the integer
        self._codes = np.empty(0, np.int32)  # wide only
        self._shift = 0

    @property
    def nbytes(self) -> int:
        return self._words.nbytes + self._codes.nbytes

    def learn(self, parts: Sequence[Part], everything: Sequence[Part], n: int) -> None:
        """Take in codes up to n: `parts` are those not known yet."""
        if not self.limit or n > self.limit or not self._fit(parts):
            self.rebuild(everything, n)
        else:
            self._insert(parts)
        self.known = n

    def lookup(self, values: Array, done: int, names: Array, n: int, out: Array) -> tuple[int, int]:
        """Codes of values from `done` on; new ones get n, n + 1, ..., and are written to `names`.

        Returns (values done, codes given); stops early if the table must be rebuilt to go on.
        """
        from panes.slicing import kernels

        limit = min(self.limit, len(names))
        if self._narrow:
            done, n = kernels.intern_narrow(values, done, self._words, self._shift, limit, names, n, out)
        else:
            done, n = kernels.intern(values, done, self._words, self._codes, self._shift, limit, names, n, out)
        self.known = n
        return done, n

    def rebuild(self, everything: Sequence[Part], n: int, coming: int = 0) -> None:
        """A table with room for n codes, of integers as wide as these and `coming`."""
        self._narrow = self._narrow and -_NARROW <= coming < _NARROW and self._fit(everything)
        size = _SMALLEST
        while n > _limit(size):
            size *= 2
        self.limit = _limit(size)
        self._shift = 64 - (size.bit_length() - 1)
        self._words = np.full(size, -1, np.int64)
        self._codes = np.full(0 if self._narrow else size, -1, np.int32)
        self._insert(everything)

    def _fit(self, parts: Sequence[Part]) -> bool:
        narrow = all(v.min() >= -_NARROW and v.max() < _NARROW for _, v in parts)
        return narrow or not self._narrow

    def _insert(self, parts: Sequence[Part]) -> None:
        from panes.slicing import kernels

        for first, values in parts:
            if self._narrow:
                kernels.insert_narrow(values, first, self._words, self._shift)
            else:
                kernels.insert(values, first, self._words, self._codes, self._shift)


def _limit(size: int) -> int:
    return size // 8 if size <= _ROOMY else size // 2
