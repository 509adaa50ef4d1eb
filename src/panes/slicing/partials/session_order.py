"""Which sessions there are: of each key in order, and of all keys by when they end.

A late row asks for the few sessions around it, and event time for the few that are over. What that costs must not grow
with how many are kept.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np

from panes.state.journal import Replaced

Array = np.ndarray


class KeySessions:
    """The sessions of one key by number, oldest first; `first` and `end` are those of all sessions."""

    def __init__(self, ids: list[int]) -> None:
        self._ids = ids
        self._gone = 0  # so many of the oldest

    def append(self, number: int) -> None:
        self._ids.append(number)

    def drop_oldest(self) -> None:
        self._gone += 1
        if 2 * self._gone > len(self._ids):
            del self._ids[: self._gone]
            self._gone = 0

    def newest(self, count: int) -> list[int]:
        return self._ids[max(self._gone, len(self._ids) - count) :]

    def __getitem__(self, where: slice) -> list[int]:
        return self._ids[where]

    def put(self, lo: int, hi: int, number: int) -> None:
        """One session is in the place of these."""
        self._ids[lo:hi] = [number]

    def ending(self, time: int, end: Array) -> int:
        """The place of the first session that ends then or later."""
        return bisect_left(self._ids, time, self._gone, key=end.__getitem__)

    def touching(self, first: int, last: int, firsts: Array, ends: Array) -> tuple[int, int]:
        """The places of the sessions that what goes from `first` to `last` would join."""
        low = self.ending(first, ends)
        return low, bisect_right(self._ids, last, low, key=firsts.__getitem__)


class SessionOrder:
    """The sessions of each key. What changes is told in bulk, and looked at when somebody asks."""

    def __init__(self, slots: Array, ids: Array) -> None:
        """All sessions by slot and time."""
        self._slots, self._ids = slots, ids
        self._of: dict[int, KeySessions] = {}
        self._told: list[tuple[Array, Array | None]] = []
        self.count = len(ids)  # sessions that were ever told of

    def opened(self, slots: Array, ids: Array) -> None:
        """Sessions that are newer than all of their keys, in order."""
        self._told.append((slots, ids))
        self.count += len(ids)

    def dropped(self, slots: Array) -> None:
        """Of each of these, the oldest session that was left."""
        self._told.append((slots, None))

    def of(self, slot: int) -> KeySessions:
        for slots, ids in self._told:
            if ids is None:
                for each in slots.tolist():
                    self._known(each).drop_oldest()
            else:
                for each, number in zip(slots.tolist(), ids.tolist()):
                    self._known(each).append(number)
        self._told.clear()
        return self._known(slot)

    def _known(self, slot: int) -> KeySessions:
        found = self._of.get(slot)
        if found is None:
            low, high = self._slots.searchsorted((slot, slot + 1))
            found = self._of[slot] = KeySessions(self._ids[low:high].tolist())
        return found


class ByEnd:
    """Sessions by number and the time at which each ends, in runs by time that are each longer than the next."""

    replaced = Replaced("_runs")

    def __init__(self) -> None:
        self._runs: tuple[tuple[Array, Array], ...] = ()

    def add(self, ends: Array, ids: Array) -> None:
        runs = [*self._runs, (ends, ids)] if len(ids) else list(self._runs)
        if len(ids) > 1:
            runs[-1] = _sorted(ends, ids)
        while len(runs) > 1 and len(runs[-2][0]) <= 2 * len(runs[-1][0]):
            last, before = runs.pop(), runs.pop()
            runs.append(_sorted(*(np.concatenate(pair) for pair in zip(before, last))))
        self._runs = tuple(runs)

    def take(self, time: int) -> Array:
        """Those that end before this, which are here no longer."""
        if not any(ends[0] < time for ends, _ in self._runs):
            return np.empty(0, np.int64)
        found, left = [], []
        for ends, ids in self._runs:
            at = int(ends.searchsorted(time))
            found.append(ids[:at])
            if at < len(ids):
                left.append((ends[at:], ids[at:]))
        self._runs = tuple(left)
        return np.unique(np.concatenate(found))


def _sorted(ends: Array, ids: Array) -> tuple[Array, Array]:
    order = ends.argsort(kind="stable")
    return ends[order], ids[order]
