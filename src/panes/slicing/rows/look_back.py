"""Windows that end at a tick and hold "the last so much" before it, on any two measures (`LookBack`).

Every row is a slice of its own here, since such a window may begin at any row. In: the slices of all keys and how
far each key has come on the measure of the ticks; out: the windows due, and which slices later ones can need.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from panes.slicing.lane import NO_TIME, RunningWindow
from panes.slicing.rows.due import Due, ending_in_union, infinity, pairs
from panes.slicing.rows.key_state import KeyState
from panes.slicing.rows.slice_table import SliceIndex, SliceTable
from panes.slicing.window_set import WindowSet, check_unchanged
from panes.windows.base import ALWAYS, ROWS, TIME, LookBack, Measure, Regular

Array = np.ndarray
#: Columns of floats are compared to as many digits as sizes are read with.
_SAME = 1e-12


@dataclass(frozen=True)
class _One:
    """One window with what is looked up for it: numbers of dimensions (None: rows), and its ticks."""

    number: int
    window: LookBack
    ticks: WindowSet
    d: int | None
    back: int | None


class LookBacks:
    """All "last so much" windows of a slicer."""

    def __init__(self, queries: Sequence[RunningWindow], dimensions: Sequence[str]) -> None:
        place = {name: 1 + i for i, name in enumerate(dimensions)}

        def dimension(measure: Measure) -> int | None:
            return None if measure == ROWS else 0 if measure == TIME else place[str(measure.dimension)]

        self._all = [
            _One(q.number, w, WindowSet(w.measure, [RunningWindow("", q.number, w.ticks)]), dimension(w.measure),
                 dimension(w.back))
            for q in queries
            if isinstance(w := q.window, LookBack)
        ]  # fmt: skip
        #: those whose ticks count rows
        self.counting = [one.ticks for one in self._all if one.d is None]
        self.timed = any(one.d == 0 for one in self._all)

    def __bool__(self) -> bool:
        return bool(self._all)

    def by_rows(self, table: SliceTable, slots: Array, before: tuple[Array, ...], keys: KeyState) -> Iterator[Due]:
        """Windows with ticks on rows or columns that the rows just taken by `slots` have passed."""
        for one in self._all:
            if one.d is None:
                yield self._due(table, one, slots, before[-1], keys.rows_seen[slots], keys)
            elif one.d:
                yield self._due(table, one, slots, before[one.d], keys.last[one.d][slots], keys)

    def by_time(self, table: SliceTable, before: int, now: int, keys: KeyState) -> Iterator[Due]:
        """Windows with ticks on event time in (before, now]."""
        slots = table.slots()
        for one in self._all:
            if one.d == 0:
                yield self._due(table, one, slots, np.full(len(slots), before), np.full(len(slots), now), keys)

    def at_end(self, table: SliceTable, before: int, keys: KeyState) -> Iterator[Due]:
        """What the end of the stream makes due: time and columns reach infinity, it is a tick on rows if asked."""
        slots = table.slots()
        for one in self._all:
            if one.d == 0 and one.window.unchanged and len(slots):
                top = one.window.ticks.containing(table.last[0].max())[1].max(initial=before)
                lo, hi = np.full(len(slots), before), np.full(len(slots), top)
                yield self._at_every_tick(table, one, slots, lo, hi, keys)
            elif one.d is not None:
                lo = np.full(len(slots), before) if one.d == 0 else keys.last[one.d][slots]
                yield self._after_news(table, one, slots, lo, infinity(lo), keys)
            if one.window.at_end and len(slots):
                last = table.slot.searchsorted(slots, side="right") - 1
                open_ = self._open(table, one, slots, last, keys)
                last = last[open_]
                shown = table.last[0][last] + 1 if one.d == 0 else np.full(len(last), NO_TIME)
                yield self._looking_back(table, one, slots[open_], last, shown, keys)

    def _open(self, table: SliceTable, one: _One, slots: Array, last: Array, keys: KeyState) -> Array:
        """Keys with rows after their last tick, by index."""
        seen = keys.rows_seen[slots]
        if one.d is None:
            ended = [len(one.window.ticks.ending(n - 1, n)[1]) for n in seen.tolist()]
            return np.flatnonzero(np.array(ended) == 0)
        first = SliceIndex(table.slot, table.first[0]).at_or_after(slots, table.last[0][last])
        return np.flatnonzero(seen // one.window.passing == table.pos[first] // one.window.passing)

    def _due(self, table: SliceTable, one: _One, slots: Array, lo: Array, hi: Array, keys: KeyState) -> Due:
        """Windows of ticks in (lo, hi] of each key."""
        find = self._at_every_tick if one.window.unchanged else self._after_news
        return find(table, one, slots, lo, hi, keys)

    def _at_every_tick(self, table: SliceTable, one: _One, slots: Array, lo: Array, hi: Array, keys: KeyState) -> Due:
        """Windows of all ticks in (lo, hi] of each key that come after its first row."""
        assert one.d is not None
        if not len(slots) or not len(table):
            return Due.none()
        places = table.first[one.d]
        # the last row before `lo` and what it looks back to are held, so a later one is the first of all
        lo = np.maximum(lo, places[table.slot.searchsorted(slots)])
        open_ = np.flatnonzero(lo < hi)
        slots, lo, hi = slots[open_], lo[open_], hi[open_]
        if not len(slots):
            return Due.none()
        if isinstance(one.window.ticks, Regular):
            steps = (hi.astype(np.float64) - lo.astype(np.float64)) / one.window.ticks.slide
            check_unchanged(steps.sum(), lo.min(), hi.max())
        if one.d == 0:  # all keys have come equally far
            _, _, end = one.ticks.ending(lo.min().item(), hi.max().item())
        else:
            _, _, end = ending_in_union(one.ticks, lo, hi)
        group, pick = pairs(end, lo, hi)
        slot = slots[group]
        last = SliceIndex(table.slot, places).at_or_after(slot, end[pick]) - 1
        shown = end[pick] if one.d == 0 else np.full(len(pick), NO_TIME)
        return self._looking_back(table, one, slot, last, shown, keys)

    def _after_news(self, table: SliceTable, one: _One, slots: Array, lo: Array, hi: Array, keys: KeyState) -> Due:
        """Windows of ticks in (lo, hi] of each key whose step holds a row."""
        if not len(slots) or not len(table):
            return Due.none()
        if one.d is None:
            places = table.pos
            _, start, end = ending_in_union(one.ticks, lo, hi)
        else:
            places = table.first[one.d]
            _, start, end = one.ticks.ending_among(np.sort(places), lo.min(), hi.max())
        if not len(end):
            return Due.none()
        group, pick = pairs(end, lo, hi)
        slot = slots[group]
        index = SliceIndex(table.slot, places)
        stop, news = index.at_or_after(slot, end[pick]), index.at_or_after(slot, start[pick])
        given = stop > news
        if one.window.passing > 1:
            n = one.window.passing
            final, first = np.maximum(stop - 1, 0), np.minimum(news, len(table) - 1)
            given &= table.stop[final] // n > table.pos[first] // n
        shown = end[pick] if one.d == 0 else np.full(len(pick), NO_TIME)
        return self._looking_back(table, one, slot[given], stop[given] - 1, shown[given], keys)

    def _looking_back(
        self, table: SliceTable, one: _One, slot: Array, last: Array, shown: Array, keys: KeyState
    ) -> Due:
        """Windows that end with the slices `last`."""
        size, stop = one.window.size, table.stop[last]
        first = self._first(table, one, slot, last)
        begin = table.pos[np.minimum(first, len(table) - 1)]
        start = table.first[0][np.minimum(first, len(table) - 1)]
        if one.back is None:
            held = begin == np.maximum(stop - size, 0)  # for a window added late, rows may be gone
        else:
            number = np.full(len(slot), one.number)
            held = keys.admits(number, slot, table.last[one.back][last] - size) if keys.given_from else slot >= 0
        if one.back == 0:
            shown = table.last[0][last] + 1
            start = shown - size
        columns = (slot, first, last, start, shown, begin, stop)
        slot, first, last, start, shown, begin, stop = (c[held] for c in columns)
        number = np.full(len(slot), one.number)
        return Due.of_ranges(number, slot, first, last + 1, start=start, end=shown, lo=begin, hi=stop)

    @staticmethod
    def _first(table: SliceTable, one: _One, slot: Array, last: Array) -> Array:
        """The first slices of windows that end with the slices `last`."""
        size = one.window.size
        if one.back is None:
            return SliceIndex(table.slot, table.pos).at_or_after(slot, np.maximum(table.stop[last] - size, 0))
        values = table.last[one.back][last]
        if values.dtype.kind == "f":
            low = values - size
            low = np.nextafter(low + _SAME * np.maximum(np.abs(values), size), np.inf)
        else:
            whole = math.ceil(size)  # above value - 1.5 is above value - 2, among whole numbers
            low = np.where(values < ALWAYS + whole, ALWAYS, values - (whole - 1))
        return SliceIndex(table.slot, table.first[one.back]).at_or_after(slot, np.minimum(low, values))

    def needed(self, table: SliceTable, watermark: int) -> Array:
        """Which slices windows of ticks still to come can need; ticks on time have come up to `watermark`."""
        slots = table.slots()
        begin = table.slot.searchsorted(slots)
        end = np.append(begin[1:], len(table))
        first = end - 1
        for one in self._all:
            last = end - 1
            if one.d == 0:
                # rows after the watermark are there while a batch is taken, and no tick has come for them
                index = SliceIndex(table.slot, table.first[0])
                passed = index.at_or_after(slots, np.full(len(slots), watermark + 1)) - 1
                last = np.maximum(passed, begin)
                if one.window.passing > 1:
                    step = one.ticks.horizon(watermark) if watermark > ALWAYS else ALWAYS
                    # how many rows there were before an instant is known by its first row
                    since = np.minimum(table.last[0][end - 1], step)
                    first = np.minimum(first, index.at_or_after(slots, since))
            first = np.minimum(first, self._first(table, one, slots, last))
        return np.arange(len(table)) >= first.repeat(end - begin)
