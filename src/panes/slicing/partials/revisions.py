"""How often a window was given: corrections count on from the last time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from panes.state.journal import Journal, Replaced

Array = np.ndarray
Identity = tuple[int, int, int, int]  # query number, slot, start, end


class Revisions:
    """Remembers windows that were corrected; one that was only given once is known by its rows being there."""

    replaced = Replaced("_last", "_crowded")

    def __init__(self, journal: Journal | None = None) -> None:
        self._journal = journal or Journal()
        self._last: dict[Identity, int] = {}
        self._crowded = 64

    def __len__(self) -> int:
        return len(self._last)

    def next(self, window: Identity, *, given: bool) -> int:
        """The revision to give a window with now; `given`: it was given before."""
        known = self._last.get(window)
        revision = known + 1 if known is not None else int(given)
        if revision:
            self._journal.undo_by(self._put_back, self._last, window, known)
            self._last[window] = revision
        return revision

    @staticmethod
    def _put_back(last: dict[Identity, int], window: Identity, known: int | None) -> None:
        if known is None:
            last.pop(window, None)
        else:
            last[window] = known

    def forget_before(self, progress: int) -> None:
        """No row can change windows that end before this any more."""
        if len(self._last) > self._crowded:
            self._last = {w: r for w, r in self._last.items() if w[3] >= progress}
            self._crowded = max(64, 2 * len(self._last))

    def forget_query(self, number: int) -> None:
        self._last = {w: r for w, r in self._last.items() if w[0] != number}

    def used_slots(self) -> Array:
        return np.array([w[1] for w in self._last], np.int64)

    def renumber(self, moved: Array) -> None:
        """`moved[slot]` is the new slot of a key."""
        self._last = {(n, int(moved[slot]), start, end): r for (n, slot, start, end), r in self._last.items()}

    def items(self) -> Iterator[tuple[Identity, int]]:
        return iter(self._last.items())

    def load(self, window: Identity, revision: int) -> None:
        self._last[window] = revision
