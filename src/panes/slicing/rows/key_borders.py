"""Windows that end at known borders, which each key passes by its own rows (`KeyBorders`).

Slices are cut at all their edges, so a window is a range of slices from one border to another. In: rows by key, and the
slices of all keys; out: where to cut, the windows that rows have passed, and which rows and slices later ones need. The
window at the end of the stream may begin between two edges: for it the last rows of each key are kept one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from panes.errors import naming
from panes.slicing.key_index import use_kernels
from panes.slicing.lane import NO_TIME, RunningWindow
from panes.slicing.rows.due import Due
from panes.slicing.rows.key_state import KeyState
from panes.slicing.rows.slice_table import SliceIndex, SliceTable
from panes.windows.base import ALWAYS, NEVER, KeyBorders, KeyRuns

Array = np.ndarray
#: windows that one call may give
_MOST = 10_000_000
#: borders are counted one by one if they are no more than so many times the windows
_SPARSE = 4


class BorderWindows:
    """All windows of a slicer that end at borders."""

    def __init__(self, queries: Sequence[RunningWindow]) -> None:
        self._all = [(q.number, w) for q in queries if isinstance(w := q.window, KeyBorders)]
        self._ending = [(number, w) for number, w in self._all if w.at_end != "never"]
        #: those whose last window may begin between two edges
        self._ending_anywhere = [(number, w) for number, w in self._ending if not w.tumbling]
        #: those that say how they are assembled
        self.plans = {number: w.plan for number, w in self._all if w.plan is not None}
        self.by_time = any(w.by_time for _, w in self._all)
        #: the last rows of each key are kept one by one
        self.keep_rows = bool(self._ending_anywhere)

    def __bool__(self) -> bool:
        return bool(self._all)

    def mark(self, cut: Array, runs: KeyRuns, before: Array, keys: KeyState) -> None:
        """Set `cut` before each row at which a window begins or ends; `before`: the last time of each key till now."""
        for number, window in self._all:
            if number in keys.given_from:  # the first row that it looks at may lie between two borders
                at = _origin(number, runs.slots, keys) - runs.first_pos
                within = (at >= 0) & (at < np.diff(runs.offsets))
                cut[(runs.offsets[:-1] + at)[within]] = True
            for grid in window.grids():
                if not window.by_time:
                    _mark_positions(cut, runs, grid, window.slide, _origin(number, runs.slots, keys))
                elif len(runs.slots) == 1 and runs.times[-1] - runs.times[0] < window.slide * len(runs):
                    _mark_times_of_one(cut, runs.times, grid, window.slide, int(before[0]))
                else:
                    _mark_times(cut, runs, grid, window.slide, before)

    def by_rows(self, table: SliceTable, slots: Array, before: tuple[Array, ...], keys: KeyState) -> Iterator[Due]:
        """Windows whose borders the rows just taken by `slots` have passed."""
        for number, window in self._all:
            if window.by_time:
                yield self._times_passed(table, number, window, slots, before[-1], keys)
            else:
                yield self._positions_passed(table, number, window, slots, before[-1], keys)

    def _times_passed(
        self, table: SliceTable, number: int, window: KeyBorders, slots: Array, seen: Array, keys: KeyState
    ) -> Due:
        """A border is passed where a slice ends before it and the next one of the key begins at it or later."""
        new_from = np.full(len(keys), NEVER)
        new_from[slots] = seen
        after = np.flatnonzero(table.pos[1:] >= new_from[table.slot[1:]]) + 1
        after = after[table.slot[after] == table.slot[after - 1]]
        origin = _origin(number, table.slot[after], keys)
        if number in keys.given_from:
            own = table.pos[after - 1] >= origin
            after, origin = after[own], origin[own]
        last, first, slide = table.last[0][after - 1], window.first, window.slide
        passed = np.maximum((last - first) // slide, -1)
        holds = last + window.size  # no border after this has a row before it
        if window.tumbling:
            holds = np.maximum(holds, first)
        reached = (np.minimum(table.first[0][after], holds) - first) // slide
        some = np.flatnonzero(reached > passed)
        if not len(some):
            return Due.none()
        after, origin, passed, reached = after[some], origin[some], passed[some], reached[some]
        total = int((reached - passed).sum())
        if window.too_many is not None and total > _MOST:
            with naming(window.where):
                raise window.too_many(int(table.first[0][after].max()))
        if use_kernels(total):
            lowest, borders = int(passed.min()) + 1, int(reached.max()) - int(passed.min())
            if borders <= _SPARSE * total:
                from panes.slicing.kernels import windows_at_borders

                out = np.empty((7, total), np.int64)
                windows_at_borders(
                    after, origin, passed, reached, lowest, table.slot, table.pos, table.first[0], first, slide,
                    window.size, window.tumbling, np.zeros(borders + 1, np.int64), out,
                )  # fmt: skip
                slot, start, border, i0, i1, begin, stop = out
                return Due(np.full(total, number), slot, start, border, begin, stop, i0, i1, begin, stop)
        which, border = _each(passed + 1, reached, slide, first)
        i1 = after.take(which)
        slot = table.slot.take(i1)
        low = np.where(border == first, ALWAYS, border - slide) if window.tumbling else border - window.size
        i0 = SliceIndex(table.slot, table.first[0]).at_or_after(slot, low)
        if number in keys.given_from:
            i0 = np.maximum(i0, SliceIndex(table.slot, table.pos).at_or_after(slot, origin[which]))
        if len(slots) > 1:  # as they are given, which spares putting all columns in order
            order = border.argsort(kind="stable")
            border, i0, i1, slot = (column.take(order) for column in (border, i0, i1, slot))
        return _due(table, number, slot, i0, i1, border)

    def _positions_passed(
        self, table: SliceTable, number: int, window: KeyBorders, slots: Array, seen: Array, keys: KeyState
    ) -> Due:
        origin = _origin(number, slots, keys)
        passed = np.maximum((seen - origin - window.passed - window.first) // window.slide, -1)
        reached = (keys.rows_seen[slots] - origin - window.passed - window.first) // window.slide
        which, border = _each(passed + 1, reached, window.slide, window.first)
        if not len(which):
            return Due.none()
        slot = slots[which]
        begin = np.maximum(border - window.size, 0)
        if window.tumbling:
            begin[border == window.first] = 0
        begin, stop = begin + origin[which], border + origin[which]
        index = SliceIndex(table.slot, table.pos)
        i0, i1 = index.at_or_after(slot, begin), index.at_or_after(slot, stop)
        if not window.afresh:
            slot, i0, i1 = _whole(table, slot, i0, i1, begin)
        return _due(table, number, slot, i0, i1, table.first[0][i1] if window.passed else np.full(len(i0), NO_TIME))

    def at_end(self, slices: SliceTable, rest: SliceTable, keys: KeyState) -> tuple[list[Due], list[Due]]:
        """What the end of the stream makes windows of: made of slices, and of single rows of the rest.

        Slices are asked for those that the rest does not hold, of windows that were added late.
        """
        of_slices: list[Due] = []
        of_rows: list[Due] = []
        for number, window in self._ending:
            slots = np.union1d(slices.slots(), rest.slots())
            seen = keys.rows_seen[slots]
            begin = _last_from(number, window, slices, rest, keys)[slots]
            given = begin < seen
            if window.at_end == "after a border":
                given &= ((seen - window.first) % window.slide != 0) | (seen < window.first)
            slots, begin, seen = slots[given], begin[given], seen[given]
            for table, found in ((rest, of_rows), (slices, of_slices)):
                index = SliceIndex(table.slot, table.pos)
                i0, i1 = index.at_or_after(slots, begin), index.at_or_after(slots, seen)
                slot, i0, i1 = _whole(table, slots, i0, i1, begin)
                found.append(_due(table, number, slot, i0, i1, np.full(len(slot), NO_TIME)))
                left = ~np.isin(slots, slot)
                slots, begin, seen = slots[left], begin[left], seen[left]
        return of_slices, of_rows

    def needed_at_end(self, runs: KeyRuns, rest: SliceTable, keys: KeyState) -> Array:
        """Per key the first row that a window at the end of the stream may hold; `runs` are the rows just taken."""
        found = np.full(len(keys), NEVER)
        for number, window in self._ending_anywhere:
            if window.by_time:
                low = _least_time(window, keys)
                held = np.zeros(len(keys), np.int64)
                kept = runs.times >= low[runs.slots].repeat(np.diff(runs.offsets))
                held[runs.slots] = np.add.reduceat(kept.astype(np.int64), runs.offsets[:-1])
                held += np.bincount(rest.slot[rest.first[0] >= low[rest.slot]], minlength=len(keys))
                begin = np.maximum(keys.rows_seen - held, _origin(number, slice(None), keys))
            else:
                begin = _least_position(number, window, keys)
            found = np.minimum(found, begin)
        return found

    def last_from(self, slices: SliceTable, rest: SliceTable, keys: KeyState, *, afresh: bool) -> Array:
        """Per key where single rows are needed from on; `afresh`: for windows that have all their rows."""
        begins = [_last_from(n, w, slices, rest, keys) for n, w in self._ending_anywhere if w.afresh or not afresh]
        return np.minimum.reduce(begins) if begins else np.full(len(keys), NEVER)

    def origins(self) -> list[int]:
        """The numbers of windows that may begin with a later row than the first of a key."""
        return [number for number, window in self._all if window.afresh]

    def needed(self, table: SliceTable, keys: KeyState) -> Array:
        """Which slices windows to come can need."""
        keep = np.zeros(len(table), bool)
        for number, window in self._all:
            if window.by_time:
                keep |= table.last[0] >= _least_time(window, keys)[table.slot]
            else:
                keep |= table.stop > _least_position(number, window, keys)[table.slot]
        return keep

    def rows_until_due(self, keys: KeyState) -> int:
        """At least so many rows must come before a border on rows is passed."""
        found = [NEVER]
        for number, window in self._all:
            if not window.by_time:
                seen = np.append(keys.rows_seen - _origin(number, slice(None), keys), 0)
                passed = np.maximum((seen - window.passed - window.first) // window.slide, -1)
                found.append(int(((passed + 1) * window.slide + window.first + window.passed - seen).min()))
        return min(found)


def _due(table: SliceTable, number: int, slot: Array, i0: Array, i1: Array, end: Array) -> Due:
    if not len(slot):
        return Due.none()
    final = i1 - 1
    begin, stop = table.pos.take(i0), table.pos.take(final) + table.rows.take(final)
    return Due(np.full(len(slot), number), slot, table.first[0].take(i0), end, begin, stop, i0, i1, begin, stop)


def _whole(table: SliceTable, slot: Array, i0: Array, i1: Array, begin: Array) -> tuple[Array, Array, Array]:
    """The windows that begin with a slice: of one that was added late, rows may be gone."""
    if not len(table):
        none = np.empty(0, np.int64)
        return none, none, none
    held = (i0 < i1) & (table.pos[np.minimum(i0, len(table) - 1)] == begin)
    return slot[held], i0[held], i1[held]


def _origin(number: int, slots: Array | slice, keys: KeyState) -> Array:
    """The first row of each key that the window looks at."""
    if number in keys.given_from:
        return np.maximum(keys.given_from[number][slots], 0)
    return np.zeros_like(keys.rows_seen[slots])


def _least_time(window: KeyBorders, keys: KeyState) -> Array:
    """Rows of each key before this have left."""
    last = keys.last[0]
    if window.tumbling:
        return np.where(last < window.first, ALWAYS, last - (last - window.first) % window.slide)
    return np.where(last == ALWAYS, ALWAYS, last - window.size)


def _least_position(number: int, window: KeyBorders, keys: KeyState) -> Array:
    """Rows of each key before this position have left."""
    origin = _origin(number, slice(None), keys)
    if window.tumbling:
        last = keys.rows_seen - origin - window.passed
        return origin + np.where(last < window.first, 0, last - (last - window.first) % window.slide)
    return np.maximum(keys.rows_seen - window.size, origin)


def _last_from(number: int, window: KeyBorders, slices: SliceTable, rest: SliceTable, keys: KeyState) -> Array:
    """Per key where the window at the end of the stream begins."""
    if not window.by_time:
        return _least_position(number, window, keys)
    begin, low = keys.rows_seen.copy(), _least_time(window, keys)
    for table in (slices, rest):  # a slice may begin before it, and then single rows are there
        held = table.first[0] >= low[table.slot]
        np.minimum.at(begin, table.slot[held], table.pos[held])
    return np.maximum(begin, _origin(number, slice(None), keys))


def _each(first: Array, last: Array, slide: int, grid: int) -> tuple[Array, Array]:
    """The edges grid + k * slide for k from first[i] to last[i], as (i, edge)."""
    counts = np.maximum(last - first + 1, 0)
    places = (first - counts.cumsum() + counts).repeat(counts)
    places += np.arange(len(places))
    places *= slide
    places += grid
    return np.arange(len(counts)).repeat(counts), places


def _mark_positions(cut: Array, runs: KeyRuns, grid: int, slide: int, origin: Array) -> None:
    low = runs.first_pos - origin
    first, last = -((grid - low) // slide), (low + np.diff(runs.offsets) - 1 - grid) // slide
    which, edges = _each(np.maximum(first, 0), last, slide, grid)
    cut[edges + (runs.offsets[:-1] - low)[which]] = True


def _mark_times_of_one(cut: Array, times: Array, grid: int, slide: int, before: int) -> None:
    """Where rows are many, borders are looked up among them; of those since the row before, the last will do."""
    first, last = int(times[0]), int(times[-1])
    low = max((first if before == ALWAYS else before) + 1, first - slide + 1, grid)
    edges = np.arange(low + (grid - low) % slide, last + 1, slide)
    cut[times.searchsorted(edges)] = True


def _mark_times(cut: Array, runs: KeyRuns, grid: int, slide: int, before: Array) -> None:
    heads = runs.offsets[:-1]
    step = np.maximum((runs.times - grid) // slide, -1)
    known = np.where(before == ALWAYS, runs.times[heads], before)
    changed = np.empty(len(cut), bool)
    np.not_equal(step[1:], step[:-1], out=changed[1:])
    changed[heads] = step[heads] != np.maximum((known - grid) // slide, -1)
    cut |= changed
