"""The flow of policies, one row at a time, in Python: for policies that users write (SPEC P-05, P-11, P-43, P-44).

A `Group` is one key's window: its triggers, its evictions, and how many rows it holds. A `Grouped` is many of them
under central policies. Rows themselves are not kept here: `delete`, `insert` and `emit` say what happens to them, and
whoever drives the flow overrides or reads these.

Both are `Sender`s of timer ticks, before a row or by the clock, which come by time whoever sends (SPEC K-10). While
nothing is held, borders of time triggers give nothing: they are passed over in one step, be it a century of seconds.
Evictions that users write are told of every border, and rows that no border lets go are a result at each: more of these
than anybody can want are refused, by the triggers' names.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any

from panes.policies import specs
from panes.policies.runtimes import (
    RunningEviction,
    RunningTrigger,
    Sent,
    TimeTrigger,
    active_ones,
    is_told_of_fakes,
    lets_go_at_borders,
    running_evictions,
    running_trigger,
    sent_before,
)
from panes.policies.user import TIME

if TYPE_CHECKING:
    from panes.policies.policy import PolicyMachine

#: called with (group, when): the rows that the group holds are a result
Emit = Callable[["Group", Any], None]


def policies_of(machine: PolicyMachine, *, central: bool = False) -> tuple[list[RunningTrigger], list[RunningEviction]]:
    """Triggers and evictions of a new key, or of the centre, at work."""
    triggers, evict, others = machine.trigger, machine.evict, machine.central_evict
    if central:
        triggers, evict, others = machine.central_trigger, others, evict
    return [running_trigger(p) for p in triggers], running_evictions(evict, others=bool(others))


class Sender(ABC):
    """One whose triggers may send timer ticks: a key, or the centre."""

    __slots__ = ("active_evictions", "active_triggers", "by_border", "evictions", "timers", "told", "triggers")

    triggers: tuple[RunningTrigger, ...]
    evictions: tuple[RunningEviction, ...]
    active_triggers: tuple[RunningTrigger, ...]
    active_evictions: tuple[RunningEviction, ...]
    timers: list[TimeTrigger]
    by_border: bool  # nothing but borders is sent
    told: bool  # users' own evictions are told of timer ticks, though nothing be held

    def use(self, triggers: Sequence[RunningTrigger], evictions: Sequence[RunningEviction]) -> None:
        """Work with these policies."""
        self.triggers, self.evictions = tuple(triggers), tuple(evictions)
        self.active_triggers = tuple(t for t in self.triggers if t.active)
        self.active_evictions = tuple(e for e in self.evictions if e.active)
        self.timers = active_ones(TimeTrigger, self.active_triggers)
        self.by_border = all(isinstance(t, TimeTrigger) for t in self.active_triggers)
        self.told = any(map(is_told_of_fakes, self.active_evictions))

    def evicts_for(self, fake: Any, size: int) -> int:
        """How many of the oldest rows leave for a timer tick, before its result."""
        said = (each.notify_fake(fake, size) for each in self.active_evictions if not each.clears)
        return max(said, default=0)

    @property
    @abstractmethod
    def held(self) -> bool:
        """Whether rows are held that a timer tick would give."""

    def reached(self) -> Iterable[Sender]:
        """All whose evictions are asked for its timer ticks; of keys, which have the same, one."""
        return (self,)

    @property
    def idle(self) -> bool:
        """Whether a timer tick would change nothing."""
        return not self.held and not any(sender.told for sender in self.reached())

    @abstractmethod
    def process_fake(self, fake: Any, when: Any) -> None:
        """A timer tick comes, with the time of its result."""

    def may_send(self, row: Any) -> bool:
        """Whether there may be timer ticks before a row: for most rows there are none, which is known at once."""
        if not self.by_border:
            return True
        for timer in self.timers:  # noqa: SIM110 - asked before every row, and any() takes twice as long
            if timer.border <= row[timer.column] - timer.limit:
                return True
        return False

    def pass_over(self, row: Any) -> bool:
        """Give up the borders before a row, if they would change nothing; whether some are left to send."""
        for timer in self.timers:
            if timer.border <= row[timer.column] - timer.limit:
                if not self.idle:
                    return True
                for each in self.timers:
                    each.skip(row[each.column] - each.limit)
                return False
        return False

    def by_clock(self, now: int) -> None:
        """Send the borders up to a moment, without a row."""
        row, sent = {TIME: now}, 0
        if self.pass_over(row):
            _refuse_flood([self], row)
        while due := [timer for timer in self.timers if timer.border <= now]:
            first = min(due, key=_border)
            border, first.border = first.border, first.border + first.spec.size
            self.process_fake(border, border)
            self.pass_over(row)
            sent += 1
            if sent > specs.MOST_FAKES:
                raise _too_many([self], now)


class Group(Sender):
    """One key's window: rows `head` to `tail` - 1 of the key are held."""

    __slots__ = ("clears", "emit", "head", "key", "tail")

    def __init__(
        self,
        key: Any,
        triggers: Sequence[RunningTrigger],
        evictions: Sequence[RunningEviction],
        emit: Emit,
        first: int = 0,
    ) -> None:
        self.key = key
        self.use(triggers, evictions)
        self.clears = any(e.clears for e in self.evictions)
        self.emit = emit
        self.head = self.tail = first

    @property
    def size(self) -> int:
        return self.tail - self.head

    @property
    def held(self) -> bool:
        return self.tail > self.head

    @property
    def idle(self) -> bool:  # as for any sender, but asked before every row
        return self.tail == self.head and not self.told

    def process_real(self, row: Any, when: Any) -> None:
        """A row of this key: timer ticks before it, then the row itself."""
        if self.active_triggers and self.may_send(row):
            send_before(row, when, (self,))
        self.accept(row, when)

    def accept(self, row: Any, when: Any, *, fired: bool = False) -> None:
        """A row of this key: trigger, evict, insert. `fired`: the centre has triggered."""
        for trigger in self.triggers:
            if trigger.notify(row):
                fired = True
        if fired:
            self._give(when)
        size, most = self.size, 0
        for eviction in self.evictions:
            most = max(most, eviction.notify(row, fired, size))
        if most:
            self.delete(most)
        self.insert(row)

    def process_fake(self, fake: Any, when: Any) -> None:
        """A timer tick: evict, then emit; tumbling waits for the result."""
        if most := self.evicts_for(fake, self.size):
            self.delete(most)
        self._give(when)
        if self.clears:
            self.delete(self.size)

    def process_real_as_fake(self, row: Any, when: Any) -> None:
        """The centre has triggered at a row of another key: emit, then evict as for a timer tick."""
        self._give(when)
        size, most = self.size, 0
        for eviction in self.active_evictions:
            most = max(most, eviction.notify_fake(row, size))
        if most:
            self.delete(most)

    def _give(self, when: Any) -> None:
        if self.tail > self.head:
            self.emit(self, when)

    def delete(self, n: int) -> None:
        self.head = min(self.head + n, self.tail)

    def insert(self, row: Any) -> None:
        self.tail += 1


class Grouped(Sender):
    """Keys under central policies. Keys are in the order in which they were first seen."""

    def __init__(self, machine: PolicyMachine, new_group: Callable[[Any], Group]) -> None:
        self.use(*policies_of(machine, central=True))
        self._new_group = new_group
        self.groups: dict[Any, Group] = {}
        #: rows of all keys, oldest first, as (key, position in the key), if a central eviction may remove them
        self.rows: deque[tuple[Any, int]] = deque()

    def group(self, key: Any) -> Group:
        found = self.groups.get(key)
        if found is None:
            found = self.groups[key] = self._new_group(key)
        return found

    @property
    def held(self) -> bool:
        return any(group.tail > group.head for group in self.groups.values())

    def reached(self) -> Iterable[Sender]:
        return (self, *islice(self.groups.values(), 1))

    def process_real(self, key: Any, row: Any, when: Any) -> None:
        """A row: timer ticks of the centre and of its key before it, by time; then the row, to centre and key."""
        mine = self.group(key)
        senders = [sender for sender in (self, mine) if sender.active_triggers and sender.may_send(row)]
        if senders:
            send_before(row, when, senders)
        fired = False
        for trigger in self.triggers:
            if trigger.notify(row):
                fired = True
        mine.accept(row, when, fired=fired)
        if fired:
            for group in self.groups.values():
                if group is not mine:
                    group.process_real_as_fake(row, when)
        if self.evictions:
            size, most = len(self.rows), 0
            for eviction in self.evictions:
                most = max(most, eviction.notify(row, fired, size))
            self._delete(most)
            self.rows.append((key, mine.tail - 1))

    def process_fake(self, fake: Any, when: Any) -> None:
        """A timer tick of the centre: rows leave through it, then all keys get the timer tick."""
        self._delete(self.evicts_for(fake, len(self.rows)))
        for group in self.groups.values():
            group.process_fake(fake, when)
        if any(e.clears for e in self.evictions):
            self._delete(len(self.rows))

    def _delete(self, n: int) -> None:
        for _ in range(min(n, len(self.rows))):
            key, position = self.rows.popleft()
            group = self.groups[key]
            if group.head <= position:  # else an eviction of the key's own was quicker
                group.delete(1)


def send_before(row: Any, when: Any, senders: Sequence[Sender]) -> None:
    """All timer ticks before a row, by time; ties in the order of the senders. `when`: of those without a time."""
    left = [sender for sender in senders if sender.pass_over(row)]
    if left:
        _refuse_flood(senders, row)
    each = [zip(sent_before(row, sender.active_triggers), repeat(sender)) for sender in senders]
    together = each[0] if len(each) == 1 else heapq.merge(*each, key=_place)
    for number, ((_, fake, moment), sender) in enumerate(together, 1):
        sender.process_fake(fake, when if moment is None else moment)
        for other in senders:
            other.pass_over(row)
        if number > specs.MOST_FAKES:
            raise _too_many(senders, row[TIME])


def _refuse_flood(senders: Sequence[Sender], row: Any) -> None:
    """DataError at once, instead of after ten million results, where no border can be passed over."""
    reached = [each for sender in senders for each in sender.reached()]
    if all(sender.by_border for sender in senders):
        stay = not any(lets_go_at_borders(e) for each in reached for e in each.active_evictions)
    else:  # timer ticks of users may be rows
        stay = not any(each.active_evictions for each in reached)
    for sender in senders:
        each_is_sent = stay or any(each.told for each in sender.reached())
        if (
            each_is_sent
            and sum(timer.due(row[timer.column] - timer.limit) for timer in sender.timers) > specs.MOST_FAKES
        ):
            raise _too_many(senders, row[TIME])


def _too_many(senders: Sequence[Sender], time: int) -> Exception:
    """What to say of timer ticks without end."""
    timers = [timer.spec for sender in reversed(senders) for timer in sender.timers]
    users = [getattr(t, "policy", t) for sender in reversed(senders) for t in sender.active_triggers]
    told = any(each.told for sender in senders for each in sender.reached())
    return specs.too_many(timers or users, time, users=told)


def _border(timer: TimeTrigger) -> int:
    return timer.border


def _place(sent: tuple[Sent, Sender]) -> tuple[int, int]:
    return sent[0].place
