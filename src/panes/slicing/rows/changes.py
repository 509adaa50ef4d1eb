"""Windows that are given only when their rows have changed (`on_change`).

What is known of a key is which rows, by position, the last window given of each such query held; it is kept with
all other state of keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from panes.slicing.lane import Query
from panes.slicing.rows.due import Due
from panes.slicing.rows.key_state import KeyState

_FROM, _TO = "given_start_pos", "given_stop_pos"


class Changes:
    """Leaves out windows with the rows of the one before."""

    def __init__(self, queries: Sequence[Query]) -> None:
        self._numbers = [q.number for q in queries if q.window.changes_only]

    @property
    def state(self) -> Mapping[int, Mapping[str, Any]]:
        """Per query the columns it needs, with their defaults."""
        return {number: {_FROM: np.int64(-1), _TO: np.int64(-1)} for number in self._numbers}

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
