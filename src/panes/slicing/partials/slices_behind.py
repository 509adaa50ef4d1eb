"""A batch with rows behind the watermark, as slices take it.

Rows in time belong to no window that has closed before they came, so they go into slices first, all at once, with
those rows behind the watermark for which the same holds. The others wait until the windows that closed before them
have been given: in groups, one per closed end (if these are many, see `waiting`), or, where given windows are to be
corrected, one at a time.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from panes.slicing.lane import Results, Rows
from panes.slicing.lateness import Arriving, Taken
from panes.slicing.partials.lane_results import corrections
from panes.slicing.partials.lifting import lift_slices
from panes.slicing.partials.revisions import Revisions
from panes.slicing.partials.slice_side import SliceSide
from panes.slicing.partials.verdicts import judge
from panes.slicing.partials.waiting import Waiting, give_with

Array = np.ndarray

#: From so many closed ends on that rows have waited for, windows are given at once, and not group by group.
_MANY = 4


class SlicesBehind:
    """Slices, and how late a closed window may still be corrected (None: not at all)."""

    def __init__(self, side: SliceSide, lateness: int | None, revisions: Revisions) -> None:
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
        if len(bounds) > _MANY and side.empty is None and not side.windows.fresh:
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

    def _add(self, rows: Rows, keys: int) -> None:
        side = self._side
        placed = side.place(rows, *rows.bounds())
        side.take(lift_slices(rows, placed, side.aggs, keys, dense=side.dense))

    def _correct(self, row: Rows, keys: int, gone: int, watermark: int, found: list[Results]) -> bool:
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
