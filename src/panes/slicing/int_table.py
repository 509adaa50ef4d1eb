"""A table from 64-bit integers to codes, for large batches, compiled. It has one of three layouts:

- close: a place for every integer from the lowest to the highest, where these are close together;
- narrow: a hash table for integers of 32 bits, integer and code in one word, so that a lookup touches memory once;
- wide: a hash table for all others.

It begins with the first that fits and moves to a later one when an integer comes that does not. Small hash
tables are kept almost empty, for one probe per lookup; large ones up to half full, to stay in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

Array = np.ndarray

#: (first code, values of the codes from there on)
Part = tuple[int, Array]
Layout = Literal["close", "narrow", "wide"]

_SMALLEST = 1 << 12
_ROOMY = 1 << 16
_NARROW = 1 << 31
#: Integers are close if there are at most this many places for each of them, or row of the batch, and not too many.
_PLACES = 4
_MOST_PLACES = 1 << 22
#: The difference of two integers in this range does not overflow.
_FAR = 1 << 61


class IntTable:
    """Codes are given by the caller, and dense; `known` is how many of them the table has seen."""

    def __init__(self) -> None:
        self.known = 0
        self.limit = 0  # codes it may hold
        self._layout: Layout = "close"
        self._words = np.empty(0, np.int64)  # narrow: integer << 32 | code; wide: the integer
        self._codes = np.empty(0, np.int32)  # close and wide
        self._low = 0  # close: the integer of the first place
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
        if self._layout == "close":
            done, n = kernels.intern_close(values, done, self._codes, self._low, limit, names, n, out)
        elif self._layout == "narrow":
            done, n = kernels.intern_narrow(values, done, self._words, self._shift, limit, names, n, out)
        else:
            done, n = kernels.intern(values, done, self._words, self._codes, self._shift, limit, names, n, out)
        self.known = n
        return done, n

    def rebuild(self, everything: Sequence[Part], n: int, coming: Array | None = None) -> None:
        """A table with room for n codes, that the values of `everything` fit, and the first of those `coming`."""
        known = [values for _, values in everything]
        if self._layout == "close" and self._close(known if coming is None else [*known, coming], n):
            self._insert(everything)
            return
        if self._layout != "wide":
            self._layout = "narrow" if _all_narrow(known if coming is None else [*known, coming[:1]]) else "wide"
        size = _SMALLEST
        while n > _limit(size):
            size *= 2
        self.limit = _limit(size)
        self._shift = 64 - (size.bit_length() - 1)
        self._words = np.full(size, -1, np.int64)
        self._codes = np.full(0 if self._layout == "narrow" else size, -1, np.int32)
        self._insert(everything)

    def _close(self, values: Sequence[Array], n: int) -> bool:
        """Lay out places for all integers from the lowest to the highest, and some around, if they are close."""
        filled = [v for v in values if len(v)]
        low, high = min((int(v.min()) for v in filled), default=0), max((int(v.max()) for v in filled), default=0)
        most = max([n, *map(len, filled)]) * _PLACES
        span = high - low + 1
        if span > min(max(most, _SMALLEST), _MOST_PLACES) or low < -_FAR or high > _FAR:
            return False
        size = max(2 * span, _SMALLEST)
        self._low = low - (size - span) // 2
        self._codes = np.full(size, -1, np.int32)
        self.limit = size
        return True

    def _fit(self, parts: Sequence[Part]) -> bool:
        if self._layout == "wide":
            return True
        if self._layout == "narrow":
            return _all_narrow([values for _, values in parts])
        return all(v.min() >= self._low and v.max() < self._low + len(self._codes) for _, v in parts)

    def _insert(self, parts: Sequence[Part]) -> None:
        from panes.slicing import kernels

        for first, values in parts:
            if self._layout == "close":
                self._codes[values - self._low] = np.arange(first, first + len(values), dtype=np.int32)
            elif self._layout == "narrow":
                kernels.insert_narrow(values, first, self._words, self._shift)
            else:
                kernels.insert(values, first, self._words, self._codes, self._shift)


def _all_narrow(values: Sequence[Array]) -> bool:
    return all(v.min() >= -_NARROW and v.max() < _NARROW for v in values if len(v))


def _limit(size: int) -> int:
    return size // 8 if size <= _ROOMY else size // 2
