"""The common pairs, one trigger and one eviction of count, time or tumbling, as one short compiled loop.

Everything here follows from the general flow (kernels.py), which the tests hold it to; what is saved is the reading of
lines. `Pair` is such a pair as numbers, and its state has the words of the general flow that matter to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from panes.policies.program import COUNT, FIRST_WORD, TIME, TUMBLE
from panes.policies.specs import Active, Count, Time, Tumble

if TYPE_CHECKING:
    from panes.policies.policy import PolicyMachine


@dataclass(frozen=True)
class Pair:
    """Kind and size of the trigger and of the eviction. The first word is the trigger's, then come the eviction's."""

    trigger: int
    every: int
    evict: int
    size: int
    start: int = 0  # where a count eviction begins, which `size` has taken into account

    word = FIRST_WORD  # counter or next border
    place = FIRST_WORD + 2  # where the first row that is held lies, if the eviction goes by time


def pair_of(machine: PolicyMachine) -> Pair | None:
    """The pair that a machine is, or None."""
    if machine.central or len(machine.trigger) != 1 or len(machine.evict) != 1:
        return None
    trigger, evict = machine.trigger[0], machine.evict[0]
    if isinstance(trigger, Time):
        if not trigger.active or trigger.border_on_row or trigger.thread or trigger.on is not None:
            return None
    elif not isinstance(trigger, Count):
        return None
    kind = TIME if isinstance(trigger, Time) else COUNT
    if isinstance(evict, Time) and evict.on is None and (evict.active or kind == COUNT):
        return Pair(kind, trigger.size, TIME, evict.size)
    if isinstance(evict, Count) and (evict.delete or 1) == 1 and (evict.start or 0) <= 0:
        return Pair(kind, trigger.size, COUNT, evict.size - (evict.start or 0), evict.start or 0)
    waits = isinstance(evict, Active) and isinstance(evict.eviction, Tumble)
    if (isinstance(evict, Tumble) and kind == COUNT) or waits:
        return Pair(kind, trigger.size, TUMBLE, 0)
    return None
