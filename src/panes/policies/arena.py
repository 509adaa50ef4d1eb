"""Rows that policies may still look at: what they compare, which key a row is of, and which row of the key follows.

Rows are appended in the order in which policies see them; places of rows no policy needs any more are given up when
half of them are such. A place is an index; `Arena.compact` says how places move.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

import numpy as np

Array = np.ndarray
Arrays = tuple[Array, Array, Array, Array, Array]
_SPARE = 1024


class _Saved:
    """What an arena can be put back to, as long as somebody holds this."""

    __slots__ = ("__weakref__", "arrays", "first", "kept", "size")

    def __init__(self, size: int, arrays: Arrays) -> None:
        self.size, self.arrays = size, arrays
        #: the rows from a place on, if they were moved in these arrays since; those before it are needed no more
        self.first = 0
        self.kept: list[Array] | None = None


class Arena:
    """Growing columns: ticks[t, place], cols[c, place], slots, positions, follows."""

    def __init__(self, ticks: int, cols: int) -> None:
        self.size = 0
        self._ramp = np.empty(0, np.int64)
        self.ticks = np.empty((ticks, 0), np.int64)
        self.cols = np.empty((cols, 0), np.float64)
        self.slots = np.empty(0, np.int64)
        self.positions = np.empty(0, np.int64)
        self.follows = np.empty(0, np.int64)
        #: what somebody may still go back to
        self._saved: list[ref[_Saved]] = []

    @property
    def _arrays(self) -> Arrays:
        return self.ticks, self.cols, self.slots, self.positions, self.follows

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in self._arrays)

    def append(self, ticks: Array, cols: Array, slots: Array | int, positions: Array | int) -> int:
        """Add rows, of one slot (with the position of the first of them) or of several; the place of the first."""
        base, n = self.size, ticks.shape[1]
        self._reserve(base + n)
        end = base + n
        self.ticks[:, base:end] = ticks
        self.cols[:, base:end] = cols
        self.slots[base:end] = slots
        if isinstance(positions, int):
            if len(self._ramp) < n:
                self._ramp = np.arange(n)
            np.add(self._ramp[:n], positions, out=self.positions[base:end])
        else:
            self.positions[base:end] = positions
        self.follows[base:end] = -1
        self.size = end
        return base

    def _reserve(self, size: int) -> None:
        have = len(self.slots)
        if size <= have:
            return
        more = max(size, have + have // 2, _SPARE) - have
        self.ticks = np.concatenate((self.ticks, np.empty((len(self.ticks), more), np.int64)), axis=1)
        self.cols = np.concatenate((self.cols, np.empty((len(self.cols), more), np.float64)), axis=1)
        self.slots, self.positions, self.follows = (
            np.concatenate((a, np.empty(more, np.int64))) for a in (self.slots, self.positions, self.follows)
        )

    def keep(self, kept: Array) -> Array:
        """Keep these places (a mask over the rows there are); where each place went, -1 if it is gone."""
        n, left = self.size, int(np.count_nonzero(kept))
        moved = np.where(kept, np.cumsum(kept) - 1, -1)
        follows = self.follows[:n][kept]
        self._hold(kept, left)
        self.follows[:left] = np.where(follows >= 0, moved[follows], -1) if n else follows
        return moved

    def _hold(self, places: Any, size: int) -> None:
        """Only these places stay, in arrays of their own: a call that fails goes back to the old ones."""
        n, room = self.size, len(self.slots)
        ticks, cols, slots, positions = self.ticks, self.cols, self.slots, self.positions
        self.ticks, self.cols = np.empty((len(ticks), room), np.int64), np.empty((len(cols), room), np.float64)
        self.slots, self.positions, self.follows = (np.empty(room, np.int64) for _ in range(3))
        self.ticks[:, :size], self.cols[:, :size] = ticks[:, :n][:, places], cols[:, :n][:, places]
        self.slots[:size], self.positions[:size] = slots[:n][places], positions[:n][places]
        self.size = size

    def keep_from(self, first: int) -> None:
        """Keep the rows from a place on, which are all that anybody needs; all places move down by it."""
        n, left = self.size, self.size - first
        follows = self.follows[first:n] - first
        if self._may_move(first):
            for array in self._arrays[:-1]:  # where they are, since fresh memory is dear
                array[..., :left] = array[..., first:n].copy()
            self.size = left
        else:
            self._hold(slice(first, None), left)
        self.follows[:left] = np.where(follows >= 0, follows, -1)

    def _may_move(self, first: int) -> bool:
        """Whether rows from a place on can be moved in the arrays of now; what others may go back to is kept."""
        saved = [each for each in (known() for known in self._saved) if each is not None]
        if not saved:
            return True
        if len(saved) > 1 or (saved[0].kept is None and saved[0].size != self.size):
            return False
        (one,) = saved
        if one.kept is None and one.arrays[-1] is self.follows:
            one.first, one.kept = first, [array[..., first : one.size].copy() for array in one.arrays]
        return True

    def saved(self) -> Callable[[], None]:
        """What puts everything back as it is now. Rows are only added behind those there are, and followed."""
        saved = _Saved(self.size, self._arrays)
        self._saved = [known for known in self._saved if known() is not None]
        self._saved.append(ref(saved))

        def put_back() -> None:
            size, first, arrays = saved.size, saved.first, saved.arrays
            self.size, (self.ticks, self.cols, self.slots, self.positions, self.follows) = size, arrays
            if saved.kept is not None:
                for array, rows in zip(arrays, saved.kept):
                    array[..., first:size] = rows
                # before them are rows of the call that failed: nobody's
                self.slots[:first], self.positions[:first], self.follows[:first] = 0, -1, -1
            follows = self.follows[:size]
            follows[follows >= size] = -1

        return put_back

    def take(self, places: Array, slots: Array) -> Arena:
        """The rows at these places, in an arena of their own, as those of other slots; `link` says what follows."""
        other = Arena(len(self.ticks), len(self.cols))
        other.append(self.ticks[:, places], self.cols[:, places], slots, self.positions[places])
        return other

    def link(self, slots: Array, positions: Sequence[Array]) -> list[Array]:
        """Say which row follows which: rows of a key have positions without gaps, in the order of their places.

        Gives the places of the rows at some positions of these slots, -1 where there is none.
        """
        n = self.size
        order = np.lexsort((self.positions[:n], self.slots[:n]))
        owner = self.slots[order]
        same = np.flatnonzero(owner[1:] == owner[:-1])
        self.follows[order[same]] = order[same + 1]
        begin, end = owner.searchsorted(slots), owner.searchsorted(slots, side="right")
        first = np.zeros(len(slots), np.int64)
        some = begin < end
        first[some] = self.positions[order[begin[some]]]
        found = []
        for wanted in positions:
            at = begin + wanted - first
            there = (at >= begin) & (at < end)
            places = np.full(len(slots), -1)
            places[there] = order[at[there]]
            found.append(places)
        return found

    def chain(self, place: int) -> Array:
        """A place, and those of the rows that follow."""
        found = []
        while place >= 0:
            found.append(place)
            place = int(self.follows[place])
        return np.array(found, np.int64)
