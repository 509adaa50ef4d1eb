"""Which windows are given of those that are due: also those without rows (`emit_empty`), and not those that hold the
rows of the one before (`on_change`), if a query says so.

The rule for windows without rows is that of the partial lane (partials/empty_windows.py): regular windows of a key are
given from the first one that holds a row of it, up to the watermark; at the end of the stream up to the last one that
holds a row of any key. In: the windows that hold rows and are due; out: those without rows that belong between them.
What was given last, or first, is kept with all other state of keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from panes.slicing.lane import RunningWindow
from panes.slicing.rows.due import Due, pairs
from panes.slicing.rows.key_state import KeyState
from panes.slicing.rows.slice_table import SliceIndex, SliceTable
from panes.slicing.window_set import check_empty
from panes.state.bank import BankColumn
from panes.windows.base import ALWAYS, NEVER, TIME, Regular

_FIRST = "first_end"


class EmptyRanges:
    """Fills the gaps between due windows. What it remembers of keys is kept with all other state of keys."""

    def __init__(self, queries: Sequence[RunningWindow]) -> None:
        self._periodic = [
            (q.number, q.window) for q in queries if isinstance(q.window, Regular) and q.window.measure == TIME
        ]

    @property
    def state(self) -> Mapping[int, Mapping[str, BankColumn]]:
        """Per query the columns it needs, with their defaults: the end of the first window given to a key."""
        return {number: {_FIRST: BankColumn(np.int64(NEVER))} for number, _ in self._periodic}

    def between(self, held: Sequence[Due], table: SliceTable, before: int, upto: int, keys: KeyState) -> Due:
        """Windows without rows with before < end <= upto (NEVER: the end of it all); `held`: all those with rows."""
        filled = Due.concat(held)
        parts = []
        for number, window in self._periodic:
            mine = np.flatnonzero(filled.number == number)
            slot, end = filled.slot[mine], filled.end[mine]
            firsts = keys.windows[number][_FIRST]
            keys.journal.keep(firsts, slot)
            keys.journal.changed.note(slot)
            np.minimum.at(firsts, slot, end)
            top = upto if upto < NEVER else int(end.max(initial=ALWAYS))
            parts.append(_without_rows(number, window, table, before, top, firsts))
        return Due.concat(parts)


def _without_rows(number: int, window: Regular, table: SliceTable, before: int, top: int, firsts: np.ndarray) -> Due:
    """Windows of one query from the first end of each key on."""
    begun = np.flatnonzero(firsts <= top)
    if not len(begun) or before >= top:
        return Due.none()
    lo = np.maximum(firsts[begun] - 1, before)
    low = int(lo.min())
    check_empty((top - low) / window.slide * len(begun), low, top)
    start, end = window.ending(low, top)
    group, pick = pairs(end, lo, np.full(len(lo), top))
    slot = begun[group]
    index = SliceIndex(table.slot, table.first[0])
    i0, i1 = index.at_or_after(slot, start[pick]), index.at_or_after(slot, end[pick])
    empty = np.flatnonzero(i0 == i1)
    slot, pick, i0 = slot[empty], pick[empty], i0[empty]
    return Due.of_ranges(np.full(len(slot), number), slot, i0, i0, start=start[pick], end=end[pick])


_FROM, _TO = "given_start_pos", "given_stop_pos"


class Changes:
    """Leaves out windows with the rows of the one before."""

    def __init__(self, queries: Sequence[RunningWindow]) -> None:
        self._numbers = [q.number for q in queries if q.window.changes_only]

    @property
    def state(self) -> Mapping[int, Mapping[str, BankColumn]]:
        """Per query the columns it needs, with their defaults."""
        return {number: {_FROM: BankColumn(np.int64(-1)), _TO: BankColumn(np.int64(-1))} for number in self._numbers}

    def among(self, due: Due, keys: KeyState) -> Due:
        """The windows to give, of those that are due; they become what was given last."""
        if not self._numbers:
            return due
        keep = np.ones(len(due), bool)
        for number in self._numbers:
            mine = np.flatnonzero(due.number == number)
            mine = mine[np.lexsort((due.end[mine], due.slot[mine]))]
            slot, start, stop = due.slot[mine], due.start_pos[mine], due.stop_pos[mine]
            state = keys.windows[number]
            head = np.append(True, slot[1:] != slot[:-1])[: len(slot)]
            before_start = np.where(head, state[_FROM][slot], np.roll(start, 1))
            before_stop = np.where(head, state[_TO][slot], np.roll(stop, 1))
            keep[mine] = (start != before_start) | (stop != before_stop)
            for column in (state[_FROM], state[_TO]):
                keys.journal.keep(column, slot)
            state[_FROM][slot], state[_TO][slot] = start, stop  # of a key's windows the last one stays
        return due if keep.all() else due.take(np.flatnonzero(keep))
