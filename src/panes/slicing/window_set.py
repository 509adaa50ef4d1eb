"""All context-free windows of one measure, asked as one: their edges, and which of them end in a stretch.

Stretches are never walked where there are no rows: callers give the values that are there, this module
finds the clusters and asks the windows only around them, so that a jump of centuries costs nothing. Windows without
rows (`emit_empty`), or without new ones (`unchanged`), are given there too; how many at once has a limit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from panes.errors import DataError
from panes.slicing.lane import RunningWindow
from panes.windows.base import ContextFree, Measure, Regular
from panes.windows.grid import PeriodicFamily

Array = np.ndarray


class WindowSet:
    """Context-free windows on one measure."""

    def __init__(self, measure: Measure, queries: Sequence[RunningWindow]) -> None:
        self.measure = measure
        regular = [(q, q.window) for q in queries if isinstance(q.window, Regular)]
        self._others: list[tuple[RunningWindow, ContextFree]] = [
            (q, q.window) for q in queries if isinstance(q.window, ContextFree) and not isinstance(q.window, Regular)
        ]
        self._family = PeriodicFamily([window for _, window in regular]) if regular else None
        self._periodic = list(dict.fromkeys(window for _, window in regular))
        self._numbers = np.array([q.number for q, _ in regular], np.int64)
        windows = [q.window for q in queries if isinstance(q.window, ContextFree)]
        self.reach = max((w.reach for w in windows), default=0)
        self.fresh = {q.number: w.fresh for q, w in self._others if w.fresh is not None}
        #: on rows, those that the end of the stream ends too: query number -> (size, offset)
        self.partial = {q.number: (window.size, window.offset) for q, window in regular if window.partial}
        self.step = min((step_of(w) for w in windows), default=1)

    @property
    def limits(self) -> tuple[float, float]:
        """Values outside can't be told apart at the size of these windows, or leave int64."""
        return (-math.inf, math.inf) if self._family is None else self._family.limits

    def __bool__(self) -> bool:
        return self._family is not None or bool(self._others)

    def edges(self, lo: float, hi: float) -> Array:
        """All starts and ends e with lo < e <= hi, sorted and unique."""
        parts = [window.edges(lo, hi) for _, window in self._others]
        if self._family is not None:
            parts.append(self._family.edges(lo, hi))
        if len(parts) == 1:
            return parts[0]
        return np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)

    def ending(self, lo: float, hi: float) -> tuple[Array, Array, Array]:
        """(query numbers, starts, ends) of windows with lo < end <= hi, by end."""
        numbers, starts, ends = [], [], []
        if self._family is not None:
            which, s, e = self._family.ending(lo, hi)
            numbers.append(self._numbers[which])
            starts.append(s)
            ends.append(e)
        for query, window in self._others:
            s, e = window.ending(lo, hi)
            numbers.append(np.full(len(s), query.number, np.int64))
            starts.append(s)
            ends.append(e)
        if len(numbers) == 1:
            return numbers[0], starts[0], ends[0]
        number, start, end = np.concatenate(numbers), np.concatenate(starts), np.concatenate(ends)
        order = np.lexsort((start, number, end))
        return number[order], start[order], end[order]

    def next_end(self, progress: float) -> float:
        """No window ends between `progress` and this."""
        if self._others or self._family is None:
            return progress + 1
        return self._family.next_end(progress)

    def periodic_starts_holding(self, value: float, *, most: int) -> Array | None:
        """Starts of periodic windows that hold `value`, sorted; None if there may be more than `most`."""
        return None if self._family is None else self._family.starts_holding(value, most)

    def horizon(self, progress: float) -> float:
        """Values before this are needed by no window that ends after `progress`."""
        found = [window.horizon(progress) for _, window in self._others]
        if self._family is not None:
            found.append(self._family.horizon(progress))
        return min(found)

    @property
    def grain(self) -> int:
        """On event time, all starts and ends lie a multiple of this apart."""
        return 1 if self._others or self._family is None else self._family.grain

    @property
    def periodic(self) -> bool:
        """Whether all windows are periodic."""
        return not self._others

    def start_between(self, before: Array, after: Array, progress: float) -> Array:
        """Whether a window that ends after `progress` starts in each (before, after]; for periodic windows."""
        found = np.zeros(len(after), bool)
        for window in self._periodic:
            latest = after - (after - window.offset) % window.slide
            found |= (latest > before) & (latest + window.size > progress)
        return found

    def clusters(self, values: Array) -> tuple[Array, Array]:
        """(first, last) of each group of sorted `values` with no stretch longer than a few steps inside."""
        if not len(values):
            return values, values
        gap = self.step * 64
        breaks = np.flatnonzero(_distance(values[:-1], values[1:]) > gap) + 1
        return values[np.concatenate(([0], breaks))], values[np.concatenate((breaks - 1, [len(values) - 1]))]

    def edges_among(self, values: Array) -> tuple[Array, Array]:
        """Edges between sorted values, as (edges, jumps).

        Edges are all those inside clusters; a jump is the first value of a later cluster: callers cut
        before it without asking, which is harmless and spares walking the empty stretch.
        """
        firsts, lasts = self.clusters(values)
        parts = [self.edges(a, b) for a, b in zip(firsts.tolist(), lasts.tolist())]
        return (np.concatenate(parts) if parts else np.empty(0, np.int64)), firsts[1:]

    def crossed(self, slots: Array, first: Array, last: Array) -> tuple[Array, Array]:
        """(slot, edge) for each stretch [first, last] with an edge inside (after first): the last such edge."""
        edges, _ = self.edges_among(np.unique(np.concatenate((first, last))))
        at = np.searchsorted(edges, last, side="right")
        inside = at > np.searchsorted(edges, first, side="right")
        long = _distance(first, last) > self.step * 64  # not listed edge by edge; surely crossed
        edge = np.where(long, last, edges[np.maximum(at - 1, 0)] if len(edges) else last)
        hit = inside | long
        return slots[hit], edge[hit]

    def ending_among(self, values: Array, lo: float, hi: float) -> tuple[Array, Array, Array]:
        """Windows with lo < end <= hi that can hold one of the sorted `values`."""
        empty = np.empty(0, np.int64)
        firsts, lasts = self.clusters(values)
        found = []
        done = lo
        for first, last in zip(firsts.tolist(), lasts.tolist()):
            a, b = max(done, first), min(hi, last + self.reach)
            if a < b:
                found.append(self.ending(a, b))
                done = b
        if not found:
            return empty, empty, empty
        if len(found) == 1:
            return found[0]
        number, start, end = (np.concatenate(c) for c in zip(*found))
        return number, start, end


def _distance(low: Array, high: Array) -> Array:
    """high - low, also where that leaves int64."""
    if low.dtype == np.int64:
        return high.astype(np.uint64) - low.astype(np.uint64)
    return high - low


def step_of(window: ContextFree) -> float:
    """About how far edges of a window lie apart."""
    for name in ("slide", "step", "every"):
        value = getattr(window, name, None)
        if isinstance(value, (int, float, np.integer, np.floating)):
            return float(value)
    return max(float(window.reach), 1.0)


#: More results than this at once are an accident: a watermark far ahead of the rows.
MOST_EMPTY = 50_000_000


def check_empty(count: float, low: int, upto: int) -> None:
    """DataError if about `count` windows between `low` and `upto` are too many."""
    if count > MOST_EMPTY:
        raise DataError(
            f"emit_empty=True would give more than {MOST_EMPTY} windows between {low} and {upto}: the watermark is "
            "too far ahead of the rows; use longer windows, or emit_empty=False"
        )


def check_unchanged(count: float, low: object, upto: object) -> None:
    """DataError if about `count` windows of ticks between `low` and `upto` are too many."""
    if count > MOST_EMPTY:
        raise DataError(
            f"unchanged=True would give more than {MOST_EMPTY} windows between {low} and {upto}: there are no rows for "
            "too long; use a longer slide, or unchanged=False (in CQL: ON CHANGE)"
        )
