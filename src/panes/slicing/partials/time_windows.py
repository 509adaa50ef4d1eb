"""The context-free windows on event time of one lane: which of them are due, hold a time, or need old slices.

All queries are asked together, as arrays. Only windows that can hold a row are listed: ends are looked for
around the slices that are held, so that a watermark may jump over centuries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from panes.slicing.lane import RunningWindow
from panes.slicing.window_set import WindowSet, step_of
from panes.windows.base import ALWAYS, NEVER, TIME, Array, ContextFree, Regular
from panes.windows.grid import check_count

#: Listing this many windows that turn out empty costs less than being careful.
_CARELESS = 4096
#: So many windows are looked up all at once.
_MANY = 256


@dataclass(eq=False)
class Spans:
    """Windows of some queries: parallel arrays."""

    number: Array
    start: Array
    end: Array

    def __len__(self) -> int:
        return len(self.number)

    def take(self, index: Array) -> Spans:
        return Spans(self.number[index], self.start[index], self.end[index])

    @staticmethod
    def none() -> Spans:
        empty = np.empty(0, np.int64)
        return Spans(empty, empty, empty)


class TimeWindows:
    """Context-free windows on event time."""

    def __init__(self, queries: Sequence[RunningWindow]) -> None:
        self.queries = tuple(queries)
        self.windows = [q.window for q in queries if isinstance(q.window, ContextFree)]
        self._set = WindowSet(TIME, self.queries)
        #: how far behind a row windows that it makes due may end
        self.reach = int(min(max((w.reach for w in self.windows), default=0), 2**62))
        self.fresh = dict(self._set.fresh)
        self._rate = sum(1 / step_of(w) for w in self.windows)
        periodic = [(q.number, w) for q, w in zip(queries, self.windows) if isinstance(w, Regular)]
        self._others = [w for w in self.windows if not isinstance(w, Regular)]
        self._periodic_once = [*dict.fromkeys(w for _, w in periodic)]
        self._others_once = [*dict.fromkeys(self._others)]
        self._numbers = np.array([n for n, _ in periodic], np.int64)
        self._sizes = np.array([w.size for _, w in periodic], np.int64)
        self._slides = np.array([w.slide for _, w in periodic], np.int64)
        self._ends = np.array([w.offset + w.size for _, w in periodic], np.int64)
        self._phases = sorted({(end % slide, slide) for end, slide in zip(self._ends.tolist(), self._slides.tolist())})
        #: the shortest step of a periodic one
        self.shortest = int(self._slides.min(initial=NEVER))
        self._asked: tuple[int, Array] | None = None
        self._next_end_from, self._next_end = NEVER, NEVER

    def __bool__(self) -> bool:
        return bool(self.queries)

    def _next_ends(self, progress: int) -> Array:
        """The first end after `progress` of each periodic query; asked for the same moment again and again."""
        if self._asked is None or self._asked[0] != progress:
            self._asked = progress, progress + 1 + (self._ends - progress - 1) % self._slides
        return self._asked[1]

    def horizon(self, progress: int) -> int:
        """Rows before this are needed by no window that ends after `progress`."""
        found = [int(w.horizon(progress)) for w in self._others]
        if len(self._slides):
            found.append(int((self._next_ends(progress) - self._sizes).min()))
        return min(found, default=NEVER)

    def due(self, slices: Array, lo: int, hi: int) -> Spans:
        """Windows with lo < end <= hi that can hold a row of a slice (given by sorted starts), by end."""
        if len(slices) and slices[0] == ALWAYS:
            slices = slices[1:]  # before the first edge of all: in no window
        if not len(slices) or not self.queries:
            return Spans.none()
        low, high = max(lo, int(slices[0])), min(hi, int(slices[-1]) + self.reach)
        if low >= high:
            return Spans.none()
        if not self._others and high - low <= self.shortest:
            return self._due_soon(low, high)
        if (high - low) * self._rate <= 4 * len(slices) + _CARELESS:
            return Spans(*self._set.ending(low, high))
        parts = [_of_slices(q, q.window, slices, lo, hi) for q in self.queries if isinstance(q.window, ContextFree)]
        number, start, end = (np.concatenate(c) for c in zip(*parts))
        return Spans(number, start, end).take(np.lexsort((start, number, end)))

    def _due_soon(self, lo: int, hi: int) -> Spans:
        """The same when no query can have more than one window ending in the stretch."""
        ends = self._next_ends(lo)
        which = (ends <= hi).nonzero()[0]
        end = ends[which]
        if hi - lo > 1 and len(which) > 1:
            order = end.argsort(kind="stable")
            which, end = which[order], end[order]
        return Spans(self._numbers[which], end - self._sizes[which], end)

    def all_ending(self, lo: int, hi: int) -> Spans:
        """All windows with lo < end <= hi, whether they can hold rows or not."""
        return Spans(*self._set.ending(lo, hi)) if self.queries and lo < hi else Spans.none()

    def count_ending(self, lo: int, hi: int) -> float:
        """About how many windows `all_ending` would list."""
        return (hi - lo) * self._rate

    def holding(self, time: int, after: int, latest: int) -> Spans:
        """Windows with start <= time < end and after < end <= latest."""
        high = latest if self.fresh else min(latest, time + self.reach)
        found = self.all_ending(max(time, after), high)
        return found.take(np.flatnonzero(found.start <= time))

    def closed_ends(self, since: int, upto: Array) -> Array:
        """For each time in `upto` the last end of a window in (since, upto], or something after it; ALWAYS: none."""
        found = np.full(len(upto), ALWAYS)
        for end, slide in self._phases:
            np.maximum(found, upto - (upto - end) % slide, out=found)
        latest = max(int(upto.max()), since)
        for window in self._others:
            if (latest - since) / step_of(window) > _CARELESS:
                return upto  # too many to list
            ends = np.unique(window.ending(since, latest)[1])
            at = ends.searchsorted(upto, side="right")
            np.maximum(found, np.append(ALWAYS, ends)[at], out=found)
        return np.where(found > since, found, ALWAYS)

    def ends_over(self, times: Array) -> list[tuple[int, Array, Array]]:
        """Of each query, when the first and the last of its windows that hold each time end; NEVER and ALWAYS where
        none does."""
        return [(q.number, *w.ends_over(times)) for q, w in zip(self.queries, self.windows)]

    def news_from(self, spans: Spans) -> Array:
        """From which time on a window must hold a row to be given (its start, or that of its last step)."""
        if not self.fresh:
            return spans.start
        out = spans.start.copy()
        for number, fresh in self.fresh.items():
            mine = spans.number == number
            out[mine] = np.maximum(out[mine], spans.end[mine] - fresh)
        return out

    def positions(self, slices: Array, spans: Spans) -> tuple[Array, Array]:
        """How many slices start before each window, and before its end.

        Looked up rather than searched where windows are many for the stretch that slices lie in.
        """
        if len(spans) > _MANY:
            grain = self._set.grain
            first = int(slices[0]) - (int(slices[0]) - int(spans.start[0])) % grain
            steps = (int(slices[-1]) - first) // grain + 1
            if steps < 2 * len(spans):
                before = np.zeros(steps + 1, np.int64)
                np.bincount((slices - first) // grain, minlength=steps).cumsum(out=before[1:])
                at = ((ticks - first) // grain for ticks in (spans.start, spans.end))
                lo, hi = (before.take(a, mode="clip") for a in at)
                return lo, hi
        return slices.searchsorted(spans.start), slices.searchsorted(spans.end)

    def start_between(self, slices: Array, progress: int) -> Array:
        """For each slice but the first, whether a window that ends after `progress` starts after the slice before.

        That is: at this slice, or in the stretch without rows between the two. Slices start up to `progress`.
        """
        before, after = slices[:-1], slices[1:]
        found = np.zeros(len(after), bool)
        together = self._set.periodic_starts_holding(progress, most=16 * _CARELESS)
        if together is not None:
            found |= np.searchsorted(together, after, side="right") > np.searchsorted(together, before, side="right")
        for periodic in self._periodic_once if together is None else ():
            latest = after - (after - periodic.offset) % periodic.slide
            found |= (latest > before) & (latest + periodic.size > progress)
        for window in self._others_once:
            # those that end at `progress` do no harm, and one that begins there must not be missed
            starts = np.concatenate([window.containing(at)[0] for at in (progress - 1, progress)])
            if window.fresh is not None:  # where its last step begins matters as much as where it begins
                ends = window.ending(progress, progress + int(window.fresh))[1]
                starts = np.concatenate((starts, ends - window.fresh))
            starts = np.sort(starts)
            found |= np.searchsorted(starts, after, side="right") > np.searchsorted(starts, before, side="right")
        return found

    def next_end(self, progress: int) -> int:
        """No window ends between `progress` and this."""
        if not self._next_end_from <= progress < self._next_end:
            found = [_next_end(w, progress) for w in self._others]
            if len(self._slides):
                found.append(int(self._next_ends(progress).min()))
            self._next_end_from, self._next_end = progress, min(found, default=NEVER)
        return self._next_end


def _next_end(window: ContextFree, progress: int) -> int:
    step = int(min(step_of(window), 2**62))
    ends = window.ending(progress, min(progress + step, NEVER - 1))[1]
    return int(ends[0]) if len(ends) else min(progress + step + 1, NEVER)


def _of_slices(
    query: RunningWindow, window: ContextFree, slices: Array, lo: int, hi: int
) -> tuple[Array, Array, Array]:
    """Windows of one query with lo < end <= hi that hold one of the slices, in order of their ends."""
    if not isinstance(window, Regular):
        return WindowSet(TIME, [query]).ending_among(slices, lo, hi)
    size, slide, offset = window.size, window.slide, window.offset
    first = (slices - (offset + size)) // slide + 1
    last = (slices - offset) // slide
    first = np.maximum(first, max((lo - offset - size) // slide + 1, ALWAYS))
    last = np.minimum(last, min((hi - offset - size) // slide, NEVER))
    # Slices overlap in the windows that hold them: each window is listed for the first of its slices.
    first[1:] = np.maximum(first[1:], np.maximum.accumulate(last)[:-1] + 1)
    counts = np.maximum(last - first + 1, 0)
    check_count(int(counts.sum()))
    before = np.cumsum(counts) - counts
    nth = np.arange(int(counts.sum())) + np.repeat(first - before, counts)
    start = nth * slide + offset
    return np.full(len(nth), query.number, np.int64), start, start + size
