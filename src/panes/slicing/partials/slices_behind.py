"""A batch with rows behind the watermark, as slices take it (docs/semantics.md).

Rows are judged window by window: which are taken, and which have to wait. What becomes of a row depends on which
windows lie around it and which of these have closed: on the slice that it lies in and the slice that the watermark is
in. Of rows that are many one of each kind is judged.

Rows in time belong to no window that has closed before they came, so they go into slices first, all at once, with
those rows behind the watermark for which the same holds. The others wait until the windows that closed before them
have been given: in groups, one per closed end, or, where given windows are to be corrected, one at a time. If closed
ends are many, what waits is lifted once, into partials of its own (`Waiting`), and joined to each window that takes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from panes.aggregates.base import Cells
from panes.slicing.arrays import spread
from panes.slicing.lane import Arriving, Results, RowBatch, Taken
from panes.slicing.partials.lane_results import corrections
from panes.slicing.partials.lifting import Loose, lift_slices
from panes.slicing.partials.revisions import Revisions
from panes.slicing.partials.slice_partials import SlicePartials
from panes.slicing.partials.store import SMALL, CellList, fold_equal, mostly_empty, segments, stable_order_of_pairs
from panes.slicing.partials.time_windows import Spans
from panes.state.journal import Journal

Array = np.ndarray

#: From so many pairs of a row and a query on it is looked at which rows are of a kind.
_MANY_JUDGED = 1 << 14


class Verdicts(NamedTuple):
    """Of each row: whether a window takes it, the last end that has closed when it comes, and whether it has to wait
    until windows up to there are given; and how many rows some window of a query (by number) has to miss."""

    taken: Array
    closed: Array
    waits: Array
    missed: dict[int, int]


class Kinds(NamedTuple):
    """Rows that fare alike: the kind of each row, and of each kind one row and how many there are."""

    of: Array
    example: Array
    counts: Array


def judge(side: SlicePartials, times: Array, met: Array, lateness: int | None, reached: int) -> Verdicts:
    """Rows at `times` come when the watermark is `met`, which never falls; what ends up to `reached` was given before
    them all. `lateness`: None if windows are not corrected."""
    gone = met - (lateness or 0)
    many = len(times) * len(side.windows.queries) >= _MANY_JUDGED
    kinds = _kinds(side, times, (met,) if lateness is None else (met, gone)) if many else None
    if kinds is None:
        return _judge(side, times, met, gone, np.ones(len(times), np.int64), lateness, reached)
    some = kinds.example
    found = _judge(side, times[some], met[some], gone[some], kinds.counts, lateness, reached)
    return Verdicts(found.taken[kinds.of], found.closed[kinds.of], found.waits[kinds.of], found.missed)


def _judge(
    side: SlicePartials, times: Array, met: Array, gone: Array, counts: Array, lateness: int | None, reached: int
) -> Verdicts:
    """Windows that end up to `gone` are closed for good; each row stands for `counts`."""
    last, missed = np.full(len(times), np.iinfo(np.int64).min), {}
    for number, first_end, last_end in side.windows.ends_over(times):
        np.maximum(last, last_end, out=last)
        missed[number] = int(counts[first_end <= gone].sum())
    taken = last > gone
    closed = side.windows.closed_ends(int(times.min()), met)
    waits = taken & (closed > times)
    if lateness is None:
        waits &= closed > reached
    return Verdicts(taken, closed, waits, missed)


def _kinds(side: SlicePartials, times: Array, watermarks: tuple[Array, ...]) -> Kinds | None:
    """Kinds of rows by their slice and that of each watermark; None if they are not many fewer than rows."""
    if len(side.edges.frozen[0]):
        return None  # slices that are there don't tell new windows apart
    low, high = min(int(w[0]) for w in watermarks), max(int(w[-1]) for w in watermarks)
    edges = side.edges.between(min(int(times.min()), low), high, len(times))
    if edges is None or len(edges) ** (1 + len(watermarks)) > len(times):
        return None
    kind = np.searchsorted(edges, times, side="right") - 1
    for watermark in watermarks:
        bounds = np.append(watermark.searchsorted(edges), len(watermark))
        kind = kind * len(edges) + np.repeat(np.arange(len(edges)), np.diff(bounds))
    counts = np.bincount(kind)
    example = np.empty(len(counts), np.int64)
    example[kind] = np.arange(len(kind))
    some = np.flatnonzero(counts)
    number = np.empty(len(counts), np.int64)
    number[some] = np.arange(len(some))
    return Kinds(number[kind], example[some], counts[some])


#: So many partials of waiting rows are joined to windows at a time.
_AT_ONCE = 1 << 21


class Waiting:
    """Partials of waiting rows: one per slice, key and moment (a moment is what was closed when rows came), in the
    order of moments; and one per moment and key, in a store whose slices are moments."""

    def __init__(self, side: SlicePartials, rows: RowBatch, closed: Array, keys: int) -> None:
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


def give_with(side: SlicePartials, waiting: Waiting, before: int, watermark: int) -> Iterator[Results]:
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


def _lowered(side: SlicePartials, spans: Spans, parts: Sequence[CellList]) -> Results:
    """Windows and what they hold, in parts; `at` is the number of the window."""
    bound = [a.bound for a in side.aggs]
    cells = tuple(Cells.concat(each) for each in zip(*(part.cells for part in parts)))
    at, slots = np.concatenate([part.at for part in parts]), np.concatenate([part.slots for part in parts])
    all_ = fold_equal(CellList(at, slots, cells), bound)
    counts = np.bincount(all_.at, minlength=len(spans))
    values = side.lowered(spans.number[all_.at], all_.cells)
    spans = spans.take(np.flatnonzero(counts))
    return Results(spans.number, all_.slots, spans.start, spans.end, values, counts[counts > 0] if side.keyed else None)


#: From so many closed ends on that rows have waited for, windows are given at once, and not group by group.
_MANY_ENDS = 4


class SlicesBehind:
    """Slices, and how late a closed window may still be corrected (None: not at all)."""

    def __init__(self, side: SlicePartials, lateness: int | None, revisions: Revisions) -> None:
        self._side = side
        self._lateness = lateness
        self._revisions = revisions

    def take(self, batch: Arriving, keys: int, reached: int) -> Taken:
        """Take the rows of a batch, and give what its watermark makes due; `reached` is the one before it."""
        times, met = batch.times, batch.met_behind
        gone = met - (self._lateness or 0)  # windows that end up to here are closed for good
        taken, closed, waits, missed = judge(self._side, times, met, self._lateness, reached)
        out = Taken([], taken, np.zeros(len(times), bool))
        for number, rows in missed.items():
            out.miss(number, rows)
        if not taken.all():  # a window that is added later may lack rows up to there
            self._side.purged_to = max(self._side.purged_to, int(times[~taken].max()) + 1)
        first = batch.without(waits | ~taken)
        if len(first):
            self._add(first, keys)
        waiting = np.flatnonzero(waits)
        if self._lateness is None:
            reached = self._take_waiting(batch, waiting, closed[waiting], keys, reached, out.results)
        else:
            for i in waiting.tolist():
                reached = self._give(reached, int(met[i]), out.results)
                row = batch.rows.take(batch.at[i : i + 1])
                out.corrected[i] = self._correct(row, keys, int(gone[i]), int(met[i]), out.results)
        self._give(reached, batch.watermark, out.results)
        return out

    def _take_waiting(
        self, batch: Arriving, waiting: Array, closed: Array, keys: int, reached: int, found: list[Results]
    ) -> int:
        """Take rows that wait for windows which end up to `closed`; how far windows are given then."""
        side = self._side
        bounds = np.concatenate(([0], np.flatnonzero(np.diff(closed)) + 1, [len(closed)])) if len(closed) else [0]
        if len(bounds) > _MANY_ENDS and side.empty is None and not side.windows.fresh:
            rows = batch.rows.take(batch.at[waiting])
            found += give_with(side, Waiting(side, rows, closed, keys), reached, batch.watermark)
            self._add(rows, keys)
            return batch.watermark
        for a, b in pairwise(bounds):
            reached = self._give(reached, int(closed[a]), found)
            self._add(batch.rows.take(batch.at[waiting[a:b]]), keys)
        return reached

    def _give(self, reached: int, watermark: int, found: list[Results]) -> int:
        if watermark > reached:
            found.append(self._side.due(reached, watermark))
        return max(reached, watermark)

    def _add(self, rows: RowBatch, keys: int) -> None:
        side = self._side
        placed = side.place(rows, *rows.bounds())
        side.take(lift_slices(rows, placed, side.aggs, keys, dense=side.dense))

    def _correct(self, row: RowBatch, keys: int, gone: int, watermark: int, found: list[Results]) -> bool:
        """Take a row that may belong to closed windows which can still be corrected; whether it does."""
        side = self._side
        slot = 0 if row.slots is None else int(row.slots[0])
        spans, given = side.given_with(slot, int(row.times[0]), gone, watermark)
        self._add(row, keys)
        there, values = side.answer_one(slot, spans)
        windows = []
        for i in there.tolist():
            number, start, end = int(spans.number[i]), int(spans.start[i]), int(spans.end[i])
            windows.append((number, start, end, self._revisions.next((number, slot, start, end), given=bool(given[i]))))
        found.append(corrections(slot, windows, 0, values))
        if side.empty is not None:
            found.append(side.empty.begin_earlier(slot, spans, watermark))
        return len(spans) > 0
