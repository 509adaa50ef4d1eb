"""Which windows are due, as ranges of a slice table.

`Due` is the list of them; `DueFinder` asks the context-free windows of each measure, for all keys at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from panes.slicing.arrays import spread
from panes.slicing.lane import NO_TIME, with_nan
from panes.slicing.rows.key_state import KeyState
from panes.slicing.rows.slice_table import SliceIndex, SliceTable
from panes.slicing.window_set import WindowSet
from panes.windows.base import ALWAYS, NEVER, ROWS, SINCE, SINCE_FIRST, TIME, Closed, Measure

Array = np.ndarray
_UNKNOWN = -1


@dataclass(frozen=True)
class Due:
    """Windows due: query, key, bounds, and the slices [i0, i1) and rows [start_pos, stop_pos) they hold."""

    number: Array
    slot: Array
    start: Array  # event time, or NO_TIME
    end: Array
    lo: Array  # position or measure value, or NO_TIME / NaN
    hi: Array
    i0: Array
    i1: Array
    start_pos: Array
    stop_pos: Array

    def __len__(self) -> int:
        return len(self.number)

    @classmethod
    def none(cls) -> Due:
        return _NONE

    @classmethod
    def concat(cls, parts: Sequence[Due]) -> Due:
        parts = [p for p in parts if len(p)]
        if not parts:
            return _NONE
        if len(parts) == 1:
            return parts[0]
        joined = []
        for columns in zip(*(p.columns() for p in parts)):
            if any(c.dtype == np.float64 for c in columns):
                columns = tuple(with_nan(c) for c in columns)
            joined.append(np.concatenate(columns))
        return cls(*joined)

    @classmethod
    def of_closed(cls, number: int, closed: Closed, on_time: bool) -> Due:
        """Windows given by row positions. `on_time`: only their times are shown (sessions)."""
        n = len(closed)
        nothing = np.full(n, NO_TIME)
        unknown = np.full(n, _UNKNOWN)
        lo, hi = (nothing, nothing) if on_time else (closed.start_pos, closed.stop_pos)
        end = np.where(closed.end == NEVER, NO_TIME, closed.end)
        return cls(
            np.full(n, number), closed.slots, closed.start, end, lo, hi, unknown, unknown,
            closed.start_pos, closed.stop_pos,
        )  # fmt: skip

    @classmethod
    def of_ranges(
        cls, number: Array, slot: Array, i0: Array, i1: Array, *, start: Array | None = None,
        end: Array | None = None, lo: Array | None = None, hi: Array | None = None,
    ) -> Due:  # fmt: skip
        """Windows given by their slices."""
        none = np.full(len(number), NO_TIME)
        unknown = np.full(len(number), _UNKNOWN)
        return cls(
            number, slot, none if start is None else start, none if end is None else end,
            none if lo is None else lo, none if hi is None else hi, i0, i1, unknown, unknown,
        )  # fmt: skip

    def located(self, table: SliceTable) -> Due:
        """Fill in slices for windows known by rows, and rows for windows known by slices."""
        i0, i1 = self.i0, self.i1
        if not len(self) or not ((i0 == _UNKNOWN).any() or (self.start_pos == _UNKNOWN).any()):
            return self
        by_rows = i0 == _UNKNOWN
        some_by_rows = bool(by_rows.any())
        if some_by_rows:
            index = SliceIndex(table.slot, table.pos)
            i0 = np.where(by_rows, index.at_or_after(self.slot, self.start_pos), i0)
            i1 = np.where(by_rows, index.at_or_after(self.slot, self.stop_pos), i1)
        start_pos, stop_pos, start = self.start_pos, self.stop_pos, self.start
        if len(table):
            filled = i1 > i0
            first, final = np.where(filled, i0, 0), np.where(filled, i1 - 1, 0)
            start_pos = np.where(by_rows, start_pos, np.where(filled, table.pos[first], _UNKNOWN))
            stop_pos = np.where(by_rows, stop_pos, np.where(filled, table.pos[final] + table.rows[final], _UNKNOWN))
            if some_by_rows:
                start = np.where(by_rows & (start == ALWAYS), table.first[0][first], start)
        return Due(self.number, self.slot, start, self.end, self.lo, self.hi, i0, i1, start_pos, stop_pos)

    def columns(self) -> tuple[Array, ...]:
        return (
            self.number, self.slot, self.start, self.end, self.lo, self.hi, self.i0, self.i1,
            self.start_pos, self.stop_pos,
        )  # fmt: skip

    def take(self, index: Array) -> Due:
        return Due(*(column.take(index) for column in self.columns()))


_NONE = Due(*[np.empty(0, np.int64)] * 10)


@dataclass(frozen=True)
class FoundWindows:
    """Windows that are due, with their results (one Arrow array per aggregate; none if nobody asked for them)."""

    due: Due
    values: tuple[pa.Array, ...]

    def __len__(self) -> int:
        return len(self.due)

    @classmethod
    def concat(cls, parts: Sequence[FoundWindows]) -> FoundWindows:
        values = tuple(pa.concat_arrays(columns) for columns in zip(*(part.values for part in parts)))
        return cls(Due.concat([part.due for part in parts]), values)


class DueFinder:
    """Finds due windows of context-free kinds, on every measure."""

    def __init__(self, sets: Mapping[Measure, WindowSet], dimensions: Sequence[str]) -> None:
        self._sets = sets
        self._dimension = {name: 1 + i for i, name in enumerate(dimensions)}

    def by_rows(self, table: SliceTable, slots: Array, before: tuple[Array, ...], keys: KeyState) -> Iterator[Due]:
        """Windows on rows or columns that the rows just taken by `slots` complete."""
        for measure, windows in self._sets.items():
            if measure == ROWS:
                stop = keys.rows_seen[slots]
                yield self.on_positions(table, windows, slots, before[-1], stop, keys)
            elif measure.kind == "column":
                d = self._dimension[str(measure.column)]
                yield self._on_values(table, windows, d, slots, before[d], keys.last[d][slots], keys)

    def by_time(self, table: SliceTable, before: int, now: int, keys: KeyState) -> Iterator[Due]:
        """Windows on event time that end in (before, now]."""
        slots = table.slots()
        if windows := self._sets.get(TIME):
            lo, hi = np.full(len(slots), before), np.full(len(slots), now)
            yield self._on_values(table, windows, 0, slots, lo, hi, keys)
        if windows := self._sets.get(SINCE):
            yield self._since_first(table, windows, slots, before, now, keys)

    def at_end(self, table: SliceTable, before: int, keys: KeyState) -> Iterator[Due]:
        """What the end of the stream makes due: time and column measures reach infinity, row counts don't."""
        slots = table.slots()
        yield from self.by_time(table, before, NEVER, keys)
        for measure, windows in self._sets.items():
            if measure.kind == "column":
                d = self._dimension[str(measure.column)]
                seen = keys.last[d][slots]
                yield self._on_values(table, windows, d, slots, seen, infinity(seen), keys)
            elif measure == ROWS and windows.partial:
                yield from self._open_rows(table, windows, slots, keys)

    def _since_first(
        self, table: SliceTable, windows: WindowSet, slots: Array, before: int, now: int, keys: KeyState
    ) -> Due:
        """Windows counted from the first row of each key; the ticks they lie on are its own."""
        d = self._dimension[SINCE_FIRST]
        origin = first_times(keys, d)
        lo, hi = since(before, origin[slots]), since(now, origin[slots])
        due = self._on_values(table, windows, d, slots, lo, hi, keys)
        shift, none = origin[due.slot], np.full(len(due), NO_TIME)
        return replace(due, start=due.lo + shift, end=due.hi + shift, lo=none, hi=none)

    def _open_rows(self, table: SliceTable, windows: WindowSet, slots: Array, keys: KeyState) -> Iterator[Due]:
        """Windows on rows that the end of the stream ends."""
        index = SliceIndex(table.slot, table.pos)
        for number, (size, offset) in windows.partial.items():
            stop = keys.rows_seen[slots]
            start = stop - (stop - offset) % size
            open_ = np.flatnonzero((start < stop) & (start >= offset))
            slot, open_ = _admitted(keys, slots[open_], open_, np.full(len(slots), number), start)
            i0, i1 = index.at_or_after(slot, start[open_]), index.at_or_after(slot, stop[open_])
            yield Due.of_ranges(np.full(len(slot), number), slot, i0, i1, lo=start[open_], hi=stop[open_])

    def lacking_rows(self, table: SliceTable, keys: KeyState) -> Due:
        """Windows on rows that have begun and are not complete, but for those that the end of the stream ends."""
        windows, slots = self._sets.get(ROWS), table.slots()
        if windows is None or not len(slots):
            return Due.none()
        seen = keys.rows_seen[slots]
        due = self.on_positions(table, windows, slots, seen, seen + windows.reach, keys)
        begun = (due.lo < keys.rows_seen[due.slot]) & ~np.isin(due.number, list(windows.partial))
        return due.take(np.flatnonzero(begun & (due.i1 > due.i0)))

    def on_positions(
        self, table: SliceTable, windows: WindowSet, slots: Array, lo: Array, hi: Array, keys: KeyState
    ) -> Due:
        number, start, end = ending_in_union(windows, lo, hi)
        if not len(end):
            return Due.none()
        group, pick = pairs(end, lo, hi)
        slot, pick = _admitted(keys, slots[group], pick, number, start)
        index = SliceIndex(table.slot, table.pos)
        i0, i1 = index.at_or_after(slot, start[pick]), index.at_or_after(slot, end[pick])
        return Due.of_ranges(number[pick], slot, i0, i1, lo=start[pick], hi=end[pick])

    def _on_values(
        self,
        table: SliceTable,
        windows: WindowSet,
        d: int,
        slots: Array,
        lo: Array,
        hi: Array,
        keys: KeyState,
    ) -> Due:
        if not len(slots) or not len(table):
            return Due.none()
        number, start, end = windows.ending_among(table.ends(d), lo.min(), hi.max())
        if not len(end):
            return Due.none()
        reach = windows.reach
        begin, stop = table.slot.searchsorted(slots), table.slot.searchsorted(slots, side="right") - 1
        low = np.maximum(lo, table.first[d][begin])
        high = hi if math.isinf(reach) else np.minimum(hi, _plus(table.last[d][stop], reach))
        group, pick = pairs(end, low, high)
        slot, pick = _admitted(keys, slots[group], pick, number, start)
        index = SliceIndex(table.slot, table.first[d])
        i0, i1 = index.at_or_after(slot, start[pick]), index.at_or_after(slot, end[pick])
        holds = i1 > i0
        for query, fresh in windows.fresh.items():
            mine = np.flatnonzero(holds & (number[pick] == query))
            news = index.at_or_after(slot[mine], end[pick[mine]] - fresh)
            holds[mine] = i1[mine] > news
        slot, pick, i0, i1 = slot[holds], pick[holds], i0[holds], i1[holds]
        bounds = ("start", "end") if d == 0 else ("lo", "hi")
        return Due.of_ranges(number[pick], slot, i0, i1, **{bounds[0]: start[pick], bounds[1]: end[pick]})


def _admitted(keys: KeyState, slot: Array, pick: Array, number: Array, start: Array) -> tuple[Array, Array]:
    """The pairs of a key and a window (by index) that the window's query gives."""
    if not keys.given_from:
        return slot, pick
    ok = keys.admits(number[pick], slot, start[pick])
    return slot[ok], pick[ok]


def pairs(ends: Array, lo: Array, hi: Array) -> tuple[Array, Array]:
    """(group, window) for each window with lo[group] < end <= hi[group]; `ends` sorted."""
    a = ends.searchsorted(lo, side="right")
    counts = np.maximum(ends.searchsorted(hi, side="right") - a, 0)
    if len(lo) == 1:
        n = int(counts[0])
        return np.zeros(n, np.int64), np.arange(a[0], a[0] + n)
    pick, _ = spread(a, a + counts)
    return np.arange(len(lo)).repeat(counts), pick


def ending_in_union(windows: WindowSet, lo: Array, hi: Array) -> tuple[Array, Array, Array]:
    """Windows that end in any of the stretches (lo[i], hi[i]], by end, each once."""
    if len(lo) == 1:
        return windows.ending(lo[0].item(), hi[0].item())
    order = lo.argsort(kind="stable")
    found = []
    at: Any = None
    for a, b in zip(lo[order].tolist(), hi[order].tolist()):
        if at is not None:
            a = max(a, at)
        if a < b:
            found.append(windows.ending(a, b))
            at = b
    if not found:
        empty = np.empty(0, np.int64)
        return empty, empty, empty
    number, start, end = (np.concatenate(c) for c in zip(*found))
    return number, start, end


def first_times(keys: KeyState, d: int) -> Array:
    """The time of the first row of each key; `d` is the dimension of SINCE."""
    return np.where(keys.last[0] == ALWAYS, 0, keys.last[0] - keys.last[d])


def since(time: int, origin: Array) -> Array:
    """How long after `origin` a time is; before it -1, and at the end of time NEVER."""
    if time in (ALWAYS, NEVER):
        return np.full(len(origin), -1 if time == ALWAYS else NEVER)
    return np.where(origin > time, -1, time - origin)


def infinity(like: Array) -> Array:
    return np.full(len(like), np.inf if like.dtype == np.float64 else NEVER)


def _plus(values: Array, reach: float) -> Array:
    """values + reach that stay inside int64."""
    if values.dtype == np.float64:
        return values + reach
    return np.where(values > NEVER - int(reach), NEVER, values + int(reach))
