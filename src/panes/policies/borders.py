"""Policies whose windows are known in advance, and where slices must be cut for them (SPEC P-58..P-61).

A set of policies is deterministic if it is known at each row whether the row will be the first of a later window or is
the end of one: count with count, or time with time on one scale. Then slices run from border to border, and rows need
not be kept. In flow resolved policies; out flows a test of borders.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from panes.policies.specs import Count, Time
from panes.windows.base import ALWAYS, Array, KeyRuns

if TYPE_CHECKING:
    from panes.policies.policy import PolicyMachine


@dataclass(frozen=True)
class Borders:
    """Windows end at `first`, `first + slide`, ... on one scale and reach `size` back."""

    by_time: bool
    first: int
    slide: int
    size: int
    #: no window ends after this, if the end of the stream is known beforehand
    last: int | None = None

    def next_trigger(self, previous: int) -> int:
        """The first end after `previous` (SPEC P-58)."""
        return self.first if previous < self.first else previous + self.slide - (previous - self.first) % self.slide

    def lower_border(self, upper: int) -> int:
        """Where the window that ends at `upper` begins; on rows nothing lies before 0."""
        return upper - self.size if self.by_time else max(0, upper - self.size)

    def is_border(self, at: int) -> bool:
        """Whether a window begins or ends at `at` (SPEC P-59, algorithm 1)."""
        low, up = -np.inf, at - 1
        while at > low:
            up = self.next_trigger(up)
            if self.last is not None and up > self.last:
                return False
            if up == at:
                return True
            low = self.lower_border(up)
            if low == at:
                return True
        return False

    def between(self, before: int, now: int) -> bool:
        """Whether a border lies after `before` and up to `now`: a row at `now` then begins a new slice."""
        return any(self._steps(before, shift) != self._steps(now, shift) for shift in (0, self.size))

    def _steps(self, at: int, shift: int) -> int:
        step = max((at + shift - self.first) // self.slide, -1)
        return step if self.last is None else min(step, (self.last - self.first) // self.slide)

    def is_skipped(self, at: int) -> bool:
        """Whether no window holds `at` (SPEC P-64, algorithm 2)."""
        return self.lower_border(self.next_trigger(at)) > at

    def cuts(self, rows: KeyRuns, last_time: Array, origin: Array) -> Array:
        """The rows of a batch before which a border lies.

        Per key, `last_time` is the time of the row before its first one here, `origin` the position of the first ever.
        """
        heads = rows.offsets[:-1]
        if not self.by_time:
            at = rows.positions() - origin.repeat(np.diff(rows.offsets))
            past_end = (at >= self.first) & ((at - self.first) % self.slide == 0)
            begins = at + self.size - self.first
            return np.flatnonzero(past_end | ((begins >= 0) & (begins % self.slide == 0)) | (at == 0))
        new = np.zeros(len(rows), bool)
        for shift in (0, self.size):
            step = np.maximum((rows.times + shift - self.first) // self.slide, -1)
            before = np.maximum((np.where(last_time == ALWAYS, 0, last_time) + shift - self.first) // self.slide, -1)
            new[1:] |= step[1:] != step[:-1]
            new[heads] |= step[heads] != before
        new[heads] |= last_time == ALWAYS
        return np.flatnonzero(new)


def borders_of(machine: PolicyMachine) -> Borders | None:
    """The borders of a deterministic set of policies; None if it is not one."""
    if machine.central or len(machine.trigger) != 1 or len(machine.evict) != 1:
        return None
    return borders(machine.trigger[0], machine.evict[0])


def borders(trigger: object, evict: object) -> Borders | None:
    """The same for one trigger and one eviction, units resolved."""
    if isinstance(trigger, Count) and isinstance(evict, Count):
        if (evict.delete or 1) != 1 or (evict.start or 0) > 0 or (trigger.start or 0) >= trigger.size:
            return None
        return Borders(False, trigger.size - (trigger.start or 0), trigger.size, evict.size - (evict.start or 0))
    if isinstance(trigger, Time) and isinstance(evict, Time):
        exact = (
            trigger.active and evict.active and not trigger.border_on_row and trigger.on is None and evict.on is None
        )
        first = trigger.start + trigger.delay + trigger.size
        return Borders(True, first, trigger.size, evict.size) if exact else None
    return None
