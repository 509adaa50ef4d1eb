"""Rows that came behind windows which their own batch had closed, where many of these closed one after the other.

Such a row belongs to the windows around it that end later than those that were closed when it came. All windows are
answered at once from slices without these rows; then what the rows come to is joined to the windows that take them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from panes.aggregates.base import Cells
from panes.slicing.lane import Results, Rows
from panes.slicing.partials.lifting import Loose, lift_slices
from panes.slicing.partials.slice_side import SliceSide
from panes.slicing.partials.store import SMALL, CellList, fold_equal, mostly_empty, segments, stable_order_of_pairs
from panes.slicing.partials.time_windows import Spans
from panes.slicing.ranges import spread
from panes.state.journal import Journal

Array = np.ndarray

#: So many partials of waiting rows are joined to windows at a time.
_AT_ONCE = 1 << 21


class Waiting:
    """Partials of waiting rows: one per slice, key and moment (a moment is what was closed when rows came), in the
    order of moments; and one per moment and key, in a store whose slices are moments."""

    def __init__(self, side: SliceSide, rows: Rows, closed: Array, keys: int) -> None:
        """Lift rows; windows that end up to closed[i], which never falls, were closed when row i came."""
        self._bound = [a.bound for a in side.aggs]
        self.moments, moment = np.unique(closed, return_inverse=True)
        apart = replace(rows, slots=moment * keys + (0 if rows.slots is None else rows.slots), keys=None)
        placed = side.place(apart, *apart.bounds())
        lifted = lift_slices(apart, placed, side.aggs, len(self.moments) * keys, dense=False)
        assert isinstance(lifted, Loose)
        order = np.argsort(lifted.slots, kind="stable")
        at, slots = np.divmod(lifted.slots[order], keys)
        self._cells = CellList(at, slots, tuple(c.take(order) for c in lifted.cells))
        self.starts = lifted.starts[lifted.at[order]]  # of the slice of each
        self._first = np.searchsorted(at, np.arange(len(self.moments) + 1))  # cell of each moment
        places = len(self.moments) * keys
        dense = side.dense and (places < SMALL or not mostly_empty(places, len(at)))
        self._whole = side.new_store(Journal(), dense=dense)
        self._whole.open(np.arange(len(self.moments)), len(self.moments))
        self._whole.add(fold_equal(self._cells, self._bound))
        #: no row of a moment or a later one lies in a slice before this
        self._lowest = np.minimum.accumulate(np.minimum.reduceat(self.starts, self._first[:-1])[::-1])[::-1]

    def ranges(self, spans: Spans) -> tuple[Array, Array, Array]:
        """Moments from which windows take rows: from the first one on, from the second one on all rows, up to the
        third. A row lies before the end that was closed when it came."""
        upto = self.moments.searchsorted(spans.end)
        first = self.moments.searchsorted(spans.start, side="right")
        return np.minimum(first, upto), np.clip(self._lowest.searchsorted(spans.start), first, upto), upto

    def count(self, first: Array, whole: Array) -> Array:
        """How many cells lie between moments."""
        return self._first[whole] - self._first[first]

    def taken(self, spans: Spans, first: Array, whole: Array, upto: Array) -> list[CellList]:
        """What waiting rows of windows and keys come to, in parts."""
        some = np.flatnonzero(whole < upto)
        found = self._whole.partials(whole[some], upto[some])
        return [CellList(some[found.at], found.slots, found.cells), self._near_starts(spans, first, whole)]

    def _near_starts(self, spans: Spans, first: Array, whole: Array) -> CellList:
        """Of moments of which windows take some rows only."""
        at, _ = spread(self._first[first], self._first[whole])
        window = np.repeat(np.arange(len(spans)), self.count(first, whole))
        inside = np.flatnonzero(self.starts[at] >= spans.start[window])
        at, window = at[inside], window[inside]
        slots = self._cells.slots[at]
        if slots.any():
            order = stable_order_of_pairs(window, slots)
            at, window, slots = at[order], window[order], slots[order]
        offsets = segments(window, slots)
        cells = tuple(a.fold(c.take(at), offsets) for a, c in zip(self._bound, self._cells.cells))
        return CellList(window[offsets[:-1]], slots[offsets[:-1]], cells)


def give_with(side: SliceSide, waiting: Waiting, before: int, watermark: int) -> Iterator[Results]:
    """Windows with before < end <= watermark, each with the waiting rows that it takes."""
    slices = np.union1d(side.slices.starts, waiting.starts)
    spans = side.admitted(side.windows.due(slices, before, watermark))
    first, whole, upto = waiting.ranges(spans)
    part = np.cumsum(waiting.count(first, whole)) // _AT_ONCE
    cuts = np.flatnonzero(np.diff(part)) + 1
    for some in np.split(np.arange(len(spans)), cuts):
        if len(some):
            few = spans.take(some)
            with np.errstate(invalid="ignore", over="ignore"):
                yield _lowered(
                    side, few, [side.partials(few), *waiting.taken(few, first[some], whole[some], upto[some])]
                )


def _lowered(side: SliceSide, spans: Spans, parts: Sequence[CellList]) -> Results:
    """Windows and what they hold, in parts; `at` is the number of the window."""
    bound = [a.bound for a in side.aggs]
    cells = tuple(Cells.concat(each) for each in zip(*(part.cells for part in parts)))
    at, slots = np.concatenate([part.at for part in parts]), np.concatenate([part.slots for part in parts])
    all_ = fold_equal(CellList(at, slots, cells), bound)
    counts = np.bincount(all_.at, minlength=len(spans))
    spans = spans.take(np.flatnonzero(counts))
    values = tuple(a.lower(c) for a, c in zip(bound, all_.cells))
    return Results(spans.number, all_.slots, spans.start, spans.end, values, counts[counts > 0] if side.keyed else None)
