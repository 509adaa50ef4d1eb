"""Where slices must be cut so that every window of a policy machine, found now or later, is made of whole slices.

Three plans, by what the policies let us know in advance: one running slice per window (tumbling), slices from border to
border, or a slice for each row that is held and may thus become the first of a window. A set of policies is
deterministic if it is known at each row whether the row will be the first of a later window or is the end of one: count
with count, time with time on one scale, or users' own that declare it (SPEC P-58..P-61, K-17). Then slices run from
border to border, and rows need not be kept. In flow resolved policies; out flow borders, and cuts of a batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from panes.errors import QueryError, calling
from panes.policies.specs import Active, Count, Time, Tumble
from panes.policies.user import BY_ROWS, BY_TIME, Eviction, Trigger
from panes.windows.base import ALWAYS, Array, Closed, KeyRuns

if TYPE_CHECKING:
    from panes.policies.policy import PolicyMachine

#: how many windows are walked to find one that begins after a row
_WALK = 100_000


class KnownBorders(ABC):
    """Where windows end and begin, on one scale: positions of rows in their key, or event time."""

    by_time: bool
    #: no window ends after this, if the end of the stream is known beforehand
    last: int | None
    #: who says so, if it is users' code
    declared: str | None = None

    @abstractmethod
    def next_trigger(self, previous: int) -> int:
        """The first end after `previous` (SPEC P-58)."""

    @abstractmethod
    def lower_border(self, upper: int) -> int:
        """Where the window that ends at `upper` begins; on rows nothing lies before 0."""

    @abstractmethod
    def between(self, before: int, now: int) -> bool:
        """Whether a border lies after `before` and up to `now`: a row at `now` then begins a new slice."""

    @abstractmethod
    def cuts(self, rows: KeyRuns, last_time: Array, origin: Array) -> Array:
        """The rows of a batch before which a border lies.

        Per key, `last_time` is the time of the row before its first one here, `origin` the position of the first ever.
        """

    def is_skipped(self, at: int) -> bool:
        """Whether no window holds `at` (SPEC P-64, algorithm 2)."""
        return self.lower_border(self.next_trigger(at)) > at


@dataclass(frozen=True)
class Borders(KnownBorders):
    """Windows end at `first`, `first + slide`, ... on one scale and reach `size` back."""

    by_time: bool
    first: int
    slide: int
    size: int
    last: int | None = None

    def next_trigger(self, previous: int) -> int:
        return self.first if previous < self.first else previous + self.slide - (previous - self.first) % self.slide

    def lower_border(self, upper: int) -> int:
        return upper - self.size if self.by_time else max(0, upper - self.size)

    def between(self, before: int, now: int) -> bool:
        return any(self._steps(before, shift) != self._steps(now, shift) for shift in (0, self.size))

    def _steps(self, at: int, shift: int) -> int:
        step = max((at + shift - self.first) // self.slide, -1)
        return step if self.last is None else min(step, (self.last - self.first) // self.slide)

    def cuts(self, rows: KeyRuns, last_time: Array, origin: Array) -> Array:
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


@dataclass(frozen=True)
class DeclaredBorders(KnownBorders):
    """Borders of which at least one side is said by a user's policy; what it says is checked."""

    by_time: bool
    ends: Callable[[int], int]
    begins: Callable[[int], int]
    declared: str | None
    last: int | None = None

    @property
    def user_code(self) -> str:
        return str(self.declared)

    def next_trigger(self, previous: int) -> int:
        with calling(self, "next_trigger", (previous,)):
            end = self.ends(previous)
        if not _whole(end) or end <= previous:
            raise QueryError(f"{self.declared}: next_trigger({previous}) returned {end!r}: it must be a later integer")
        return int(end)

    def lower_border(self, upper: int) -> int:
        with calling(self, "lower_border", (upper,)):
            begin = self.begins(upper)
        if not _whole(begin) or begin >= upper:
            raise QueryError(f"{self.declared}: lower_border({upper}) returned {begin!r}: it must be an integer before")
        return int(begin) if self.by_time else max(0, int(begin))

    def between(self, before: int, now: int) -> bool:
        return any(before < at <= now for at in self._after(before, now))

    def _after(self, before: int, now: int) -> Iterator[int]:
        """Ends and beginnings of the windows that end after `before`, up to one that begins after `now`."""
        up, low = before, before
        for _ in range(_WALK):
            up = self.next_trigger(up)
            if low > now or (self.last is not None and up > self.last):
                return
            low = self.lower_border(up)
            yield up
            yield low
        raise QueryError(
            f"{self.declared}: of {_WALK} windows that end after {before} none begins after {now}: lower_border must "
            "grow with what it is given"
        )

    def cuts(self, rows: KeyRuns, last_time: Array, origin: Array) -> Array:
        heads = rows.offsets[:-1]
        at = rows.times if self.by_time else rows.positions() - origin.repeat(np.diff(rows.offsets))
        before = np.empty(len(rows), np.int64)
        before[1:] = at[:-1]
        before[heads] = np.where(last_time == ALWAYS, ALWAYS, last_time if self.by_time else at[heads] - 1)
        pairs = enumerate(zip(before.tolist(), at.tolist()))
        found = [i for i, (one, two) in pairs if one == ALWAYS or (two > one and self.between(one, two))]
        return np.array(found, np.int64)


def borders_of(machine: PolicyMachine) -> KnownBorders | None:
    """The borders of a deterministic set of policies; None if it is not one."""
    if machine.central or len(machine.trigger) != 1 or len(machine.evict) != 1:
        return None
    trigger, evict = machine.trigger[0], machine.evict[0]
    if isinstance(trigger, Trigger) or isinstance(evict, Eviction):
        return declared_borders(trigger, evict)
    return borders(trigger, evict)


def declared_borders(trigger: Any, evict: Any) -> DeclaredBorders | None:
    """The borders where users' policies declare them, alone or beside a built-in one on the same scale."""
    scales = [_scale(trigger, Trigger), _scale(evict, Eviction)]
    if None in scales or scales[0] != scales[1]:
        return None
    by_time = scales[0] == BY_TIME
    alone = Time(1, 0, 0) if by_time else Count(1)
    ends, begins = getattr(trigger, "next_trigger", None), getattr(evict, "lower_border", None)
    if ends is None:
        known = borders(trigger, alone)
        ends = None if known is None else known.next_trigger
    if begins is None:
        known = borders(alone, evict)
        begins = None if known is None else known.lower_border
    if ends is None or begins is None:
        return None
    said = ", ".join(repr(p) for p in (trigger, evict) if isinstance(p, Trigger | Eviction))
    return DeclaredBorders(by_time, ends, begins, said)


def _scale(policy: Any, of_users: type) -> str | None:
    """What a policy counts in, if it knows its borders."""
    if isinstance(policy, of_users):
        return policy.scale  # type: ignore[attr-defined]
    return BY_ROWS if isinstance(policy, Count) else BY_TIME if isinstance(policy, Time) else None


def _whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


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
            return np.concatenate((ends, self.borders.cuts(rows, notes[:, 0], notes[:, 1])))
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
