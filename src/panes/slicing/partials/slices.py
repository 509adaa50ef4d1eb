"""Slices by their bounds: where a row's slice starts, and the list of those held.

Edges are asked from the windows in stretches around the times in use and kept, so that a batch costs one search. Where
times jump so far that the edges between are far more than the rows, nothing is listed: the slice of each time is
computed by itself.

When windows come and go, slices that are held keep the bounds they have (`freeze`): rows that belong there
still go there, and edges of new windows are used everywhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from panes.slicing.window_set import step_of
from panes.state.journal import Journal, Replaced
from panes.windows.base import ALWAYS, NEVER, Array, ContextFree, Regular
from panes.windows.grid import PeriodicFamily, distinct

#: A stretch is listed ahead for about this many edges, and never for more than `_MOST` per row asked for.
_AHEAD = 4096
_MOST = 4


class EdgeCache:
    """Edges of a set of context-free windows on event time."""

    replaced = Replaced("frozen", "_others", "_family", "_rate", "_edges", "_lo", "_hi")

    def __init__(self, windows: Sequence[ContextFree], journal: Journal | None = None) -> None:
        self._journal = Journal()  # there is nothing to take back yet
        self.frozen = (np.empty(0, np.int64), np.empty(0, np.int64))  # starts and ends of slices
        self.set_windows(windows)
        self._journal = journal or self._journal

    def set_windows(self, windows: Sequence[ContextFree]) -> None:
        self._journal.keep_attributes(self)
        periodic = [w for w in windows if isinstance(w, Regular)]
        self._others = [w for w in windows if not isinstance(w, Regular)]
        self._family = PeriodicFamily(periodic) if periodic else None
        progressions = {(w.slide, at % w.slide) for w in periodic for at in (w.offset, w.offset + w.size)}
        self._rate = sum(1 / step for step, _ in progressions)  # edges per tick, at most
        self._rate += sum(2 / step_of(w) for w in self._others)
        self._forget()

    def freeze(self, starts: Array, ends: Array) -> None:
        """Keep the bounds of these slices, whatever windows say."""
        self._journal.keep_attributes(self)
        self.frozen = (starts, ends)
        self._forget()

    def thaw(self, horizon: int) -> None:
        """Slices that end at or before the horizon need no care any more."""
        starts, ends = self.frozen
        if len(starts) and ends[0] <= horizon:
            kept = ends > horizon
            self.freeze(starts[kept], ends[kept])

    def splits(self, values: Array) -> Array:
        """Whether each value lies strictly inside a frozen slice."""
        starts, ends = self.frozen
        if not len(starts):
            return np.zeros(len(values), bool)
        at = np.maximum(np.searchsorted(starts, values) - 1, 0)
        return (starts[at] < values) & (values < ends[at])

    def between(self, lo: int, hi: int, rows: int) -> Array | None:
        """Slice starts e0 < e1 < ... <= hi with e0 <= lo, none left out; None if too many for so few rows."""
        edges = self._edges
        if lo < self._lo or hi > self._hi:
            if (hi - lo) * self._rate > _MOST * rows + _AHEAD:
                return None
            edges = self._list(lo, hi)
        first, stop = edges.searchsorted((lo, hi), "right").tolist()
        return edges[first - 1 : stop]

    def starts(self, times: Array) -> Array:
        """The slice start of each time, computed one by one; ALWAYS where no edge lies before it."""
        found = np.full(len(times), ALWAYS)
        if self._family is not None:
            found = self._family.edge_before(times)
        for window in self._others:
            found = np.maximum(found, _edges_before(window, times))
        return self._thawed(found, times)

    def next_edge(self, time: int) -> int:
        """The smallest edge after a time; NEVER if there is none."""
        starts, ends = self.frozen
        at = int(np.searchsorted(starts, time, side="right"))
        if at and time < ends[at - 1]:
            return int(ends[at - 1])
        found = [_next_edge(w, time) for w in self._others]
        if self._family is not None:
            found.append(int(self._family.next_edge(time)))
        if at < len(starts):
            found.append(int(starts[at]))
        return min(found, default=NEVER)

    def _forget(self) -> None:
        self._edges = np.empty(0, np.int64)
        self._lo, self._hi = 0, -1

    def _list(self, lo: int, hi: int) -> Array:
        ahead = int(min(max(_AHEAD / self._rate, hi - lo), 2**62)) if self._rate else 2**62
        low, high = max(lo - (hi - lo), ALWAYS + 1), min(hi + ahead, NEVER - 1)
        if self._lo <= low <= self._hi < high:  # time goes on: what is listed stays
            before = self._edges[self._edges.searchsorted(low, "right") - 1 :]
            edges = np.concatenate((before, self._after(self._hi, high)))
        else:
            edges = np.concatenate((self.starts(np.array([low])), self._after(low, high)))
        self._edges, self._lo, self._hi = edges, low, high
        return edges

    def _after(self, low: int, high: int) -> Array:
        """Where slices start that do so after `low`, up to `high`."""
        parts = [w.edges(low, high) for w in self._others]
        if self._family is not None:
            parts.append(self._family.edges(low, high))
        starts, ends = self.frozen
        if len(starts):
            bounds = np.concatenate((starts, ends))
            parts.append(bounds[(bounds > low) & (bounds <= high)])
        edges = parts[0] if len(parts) == 1 else distinct(np.concatenate(parts)) if parts else np.empty(0, np.int64)
        return edges[~self.splits(edges)] if len(starts) else edges

    def _thawed(self, found: Array, times: Array) -> Array:
        """Slice starts with frozen slices respected."""
        starts, ends = self.frozen
        if not len(starts):
            return found
        at = np.searchsorted(starts, times, side="right") - 1
        before = np.maximum(at, 0)
        inside = (at >= 0) & (times < ends[before])
        after = np.where(at >= 0, np.maximum(found, ends[before]), found)
        return np.where(inside, starts[before], after)


def _edges_before(window: ContextFree, times: Array) -> Array:
    """The largest edge <= each time, asking only for stretches near the times."""
    if len(times) == 1:
        return np.array([_edge_before(window, int(times[0]))])
    distinct, back = np.unique(times, return_inverse=True)
    breaks = np.flatnonzero(np.diff(distinct) > 64 * step_of(window)) + 1
    bounds = [0, *breaks.tolist(), len(distinct)]
    found = np.empty(len(distinct), np.int64)
    for a, b in pairwise(bounds):
        first, last = int(distinct[a]), int(distinct[b - 1])
        edges = np.concatenate(([_edge_before(window, first)], window.edges(first, last)))
        found[a:b] = edges[np.searchsorted(edges, distinct[a:b], side="right") - 1]
    return found[back]


def _edge_before(window: ContextFree, time: int) -> int:
    reach = int(min(step_of(window), 2**62))
    while True:
        low = max(time - reach, ALWAYS + 1)
        edges = window.edges(low - 1, time)
        if len(edges) or low == ALWAYS + 1:
            return int(edges[-1]) if len(edges) else ALWAYS
        reach *= 4


def _next_edge(window: ContextFree, time: int) -> int:
    first = int(window.horizon(time))
    if first > time:  # no window holds the time, so the next edge is where one starts
        return first
    reach = int(min(step_of(window), 2**62))
    while True:
        high = min(time + reach, NEVER - 1)
        edges = window.edges(time, high)
        if len(edges) or high == NEVER - 1:
            return int(edges[0]) if len(edges) else NEVER
        reach *= 4


class SliceList:
    """Sorted starts. Appending and dropping at the front are cheap, inserting copies."""

    replaced = Replaced("starts", "_buffer", "_tail")

    def __init__(self) -> None:
        self._buffer = np.empty(16, np.int64)
        self._tail = 0  # where the next start goes
        self.starts = self._buffer[:0]

    def __len__(self) -> int:
        return len(self.starts)

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
        self.starts = self.starts[count:]

    def keep(self, positions: Array) -> None:
        """Forget all starts but these; what lay behind the others now belongs to the slice before."""
        self._replace(self.starts[positions])

    def _replace(self, starts: Array) -> None:
        # a buffer of its own: a call that fails goes back to the old one
        self._buffer, self._tail = np.empty(max(16, 2 * len(starts)), np.int64), 0
        self.starts = self._buffer[:0]
        self._append(starts)

    def _append(self, starts: Array) -> None:
        n = len(self.starts)
        if self._tail + len(starts) > len(self._buffer):
            bigger = np.empty(2 * (n + len(starts)), np.int64)
            bigger[:n] = self.starts
            self._buffer, self._tail = bigger, n
        first, stop = self._tail - n, self._tail + len(starts)
        self._buffer[self._tail : stop] = starts
        self._tail, self.starts = stop, self._buffer[first:stop]
