"""Where slices must be cut so that every window of a policy machine, found now or later, is made of whole slices.

Three plans, by what the policies let us know in advance: one running slice per window (tumbling), slices from border to
border, or a slice for each row that is held and may thus become the first of a window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from panes.policies.borders import KnownBorders, borders_of
from panes.policies.specs import Active, Tumble
from panes.windows.base import Array, Closed, KeyRuns

if TYPE_CHECKING:
    from panes.policies.policy import PolicyMachine

PLANS = {
    "tumbling": "one running slice per window (tumbling)",
    "borders": "slices from border to border",
    "rows": "each row that may begin a window is a slice, all others are joined",
}


class Cutter:
    """Says where to cut, by the plan that a machine allows. `reduces`: partials are smaller than their rows."""

    def __init__(self, machine: PolicyMachine, *, reduces: bool) -> None:
        evictions = (*machine.evict, *machine.central_evict)
        tumbling = all(isinstance(p.eviction if isinstance(p, Active) else p, Tumble) for p in evictions)
        known = None if tumbling or not reduces else borders_of(machine)
        self.borders: KnownBorders | None = known
        self.plan = "tumbling" if tumbling else "rows" if known is None else "borders"
        #: the window at the end of the stream may begin between two borders
        self.ends_in_rows = known is not None and machine.end

    def cuts(self, rows: KeyRuns, closed: Closed, empty: Array, heads: Array, notes: Array) -> Array:
        """Rows before which slices must end.

        Per key of the batch: `empty`, whether nothing was held before it; `heads`, the first row that is held after
        it; `notes`, the time of the row before it and the position of the first row ever seen.
        """
        if self.plan == "rows":
            return cuts_of_rows(rows, closed, heads)
        ends = flat(rows, closed.slots, closed.stop_pos)
        if self.borders is not None:
            return np.concatenate((ends, self.borders.cuts(rows, notes[:, 0], notes[:, 1], closed)))
        return np.concatenate((ends, rows.offsets[:-1][empty]))


def cuts_of_rows(rows: KeyRuns, closed: Closed, heads: Array) -> Array:
    """Cuts at the edges of windows found, and before each row that is held: it may be the first of a later window."""
    first = np.clip(heads - rows.first_pos, 0, np.diff(rows.offsets)) + rows.offsets[:-1]
    edges = (flat(rows, closed.slots, closed.start_pos), flat(rows, closed.slots, closed.stop_pos))
    if len(first) == 1:
        return np.concatenate((*edges, np.arange(first[0], rows.offsets[1])))
    held = rows.offsets[1:] - first
    shift = first - np.concatenate(([0], held.cumsum()[:-1]))
    return np.concatenate((*edges, shift.repeat(held) + np.arange(held.sum())))


def flat(rows: KeyRuns, slots: Array, positions: Array) -> Array:
    """The rows of this batch that have these positions in their keys; others are left out."""
    if len(rows.slots) == 1:
        at = positions - rows.first_pos[0]
        return at[(slots == rows.slots[0]) & (at >= 0) & (at < len(rows))]
    group = np.minimum(rows.slots.searchsorted(slots), len(rows.slots) - 1)
    at = positions - rows.first_pos[group]
    mine = (rows.slots[group] == slots) & (at >= 0) & (at < np.diff(rows.offsets)[group])
    return (at + rows.offsets[:-1][group])[mine]
