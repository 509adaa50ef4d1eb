"""Windows without rows in the row lane, for queries that want them too (`emit_empty`).

The rule is that of the partial lane (partials/empty_windows.py): periodic windows of a key are given from the
first one that holds a row of it, up to the watermark; at the end of the stream up to the last one that holds a
row of any key. In: the windows that hold rows and are due; out: those without rows that belong between them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from panes.slicing.empty_limit import check_empty
from panes.slicing.lane import Query
from panes.slicing.rows.due import Due, pairs
from panes.slicing.rows.key_state import KeyState
from panes.slicing.rows.slice_table import SliceIndex, SliceTable
from panes.windows.base import ALWAYS, NEVER, TIME
from panes.windows.periodic import Periodic

_FIRST = "first_end"


class EmptyWindows:
    """Fills the gaps between due windows. What it remembers of keys is kept with all other state of keys."""

    def __init__(self, queries: Sequence[Query]) -> None:
        self._periodic = [
            (q.number, q.window) for q in queries if isinstance(q.window, Periodic) and q.window.measure == TIME
        ]

    @property
    def state(self) -> Mapping[int, Mapping[str, Any]]:
        """Per query the columns it needs, with their defaults: the end of the first window given to a key."""
        return {number: {_FIRST: np.int64(NEVER)} for number, _ in self._periodic}

    def between(self, held: Sequence[Due], table: SliceTable, before: int, upto: int, keys: KeyState) -> Due:
        """Windows without rows with before < end <= upto (NEVER: the end of it all); `held`: all those with rows."""
        filled = Due.concat(held)
        parts = []
        for number, window in self._periodic:
            mine = np.flatnonzero(filled.number == number)
            slot, end = filled.slot[mine], filled.end[mine]
            firsts = keys.windows[number][_FIRST]
            keys.journal.keep(firsts, slot)
            np.minimum.at(firsts, slot, end)
            top = upto if upto < NEVER else int(end.max(initial=ALWAYS))
            parts.append(_without_rows(number, window, table, before, top, firsts))
        return Due.concat(parts)


def _without_rows(number: int, window: Periodic, table: SliceTable, before: int, top: int, firsts: np.ndarray) -> Due:
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
