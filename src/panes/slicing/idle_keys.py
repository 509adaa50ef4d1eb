"""Keys that nothing is held of any more are forgotten, so that memory follows the keys in use and not all ever seen.

Only where lanes keep partials: once its slices and sessions are gone, such a lane knows a key no better than one
it never saw. Row lanes keep their keys, because how many rows a key has had is part of what its windows mean; so
do queries with `emit_empty`, whose keys are given windows for ever after.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from panes.slicing.keys import KeyDirectory
from panes.slicing.lane import Lane
from panes.state.changes import ChangedKeys

#: So many keys may be idle before anybody looks, beside as many as are in use: a look costs little per key then.
SPARE = 8192


class IdleKeys:
    """Looks for idle keys now and then."""

    def __init__(self, used: int = 0) -> None:
        self.used = used  # keys in use at the last look; part of the state, so that a restore changes no order

    def forget(self, keys: KeyDirectory | None, lanes: Sequence[Lane], changed: ChangedKeys) -> None:
        """Forget idle keys if there may be many. No slot given out before may be used after this."""
        if keys is None or len(keys) <= 2 * self.used + SPARE:
            return
        used = np.zeros(len(keys), bool)
        for lane in lanes:
            slots = lane.used_slots()
            if slots is None:
                return
            used[slots] = True
        self.used = int(np.count_nonzero(used))
        if self.used < len(keys):
            changed.note_all()
            moved = keys.compact(np.flatnonzero(used))
            for lane in lanes:
                lane.renumber(moved)
