"""Fake items before a row, or by the clock: in which order they are sent, and which need not be sent at all.

In flow a row (or a moment) and those whose triggers send something before it: the centre, a key. Out flow calls of
`process_fake`, by time whoever sends (SPEC K-10). While nothing is held, borders of time triggers give nothing: they
are passed over in one step, be it a century of seconds. Evictions that users write are told of every border, and rows
that no border lets go are a result at each: more of these than anybody can want are refused, by the triggers' names.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

from panes.policies import specs
from panes.policies.runtimes import (
    RunningEviction,
    RunningTrigger,
    Sent,
    TimeTrigger,
    is_told_of_fakes,
    sent_before,
    time_triggers,
)
from panes.policies.user import TIME


class Sender(ABC):
    """One whose triggers may send fake items: a key, or the centre."""

    __slots__ = ("active_evictions", "active_triggers", "by_border", "evictions", "timers", "told", "triggers")

    triggers: tuple[RunningTrigger, ...]
    evictions: tuple[RunningEviction, ...]
    active_triggers: tuple[RunningTrigger, ...]
    active_evictions: tuple[RunningEviction, ...]
    timers: list[TimeTrigger]
    by_border: bool  # nothing but borders is sent
    told: bool  # users' own evictions are told of fake items, though nothing be held

    def use(self, triggers: Sequence[RunningTrigger], evictions: Sequence[RunningEviction]) -> None:
        """Work with these policies."""
        self.triggers, self.evictions = tuple(triggers), tuple(evictions)
        self.active_triggers = tuple(t for t in self.triggers if t.active)
        self.active_evictions = tuple(e for e in self.evictions if e.active)
        self.timers = time_triggers(self.active_triggers)
        self.by_border = all(isinstance(t, TimeTrigger) for t in self.active_triggers)
        self.told = any(map(is_told_of_fakes, self.active_evictions))

    @property
    @abstractmethod
    def held(self) -> bool:
        """Whether rows are held that a fake item would give."""

    def reached(self) -> Iterable[Sender]:
        """All whose evictions are asked for its fake items; of keys, which have the same, one."""
        return (self,)

    @property
    def idle(self) -> bool:
        """Whether a fake item would change nothing."""
        return not self.held and not any(sender.told for sender in self.reached())

    @abstractmethod
    def process_fake(self, fake: Any, when: Any) -> None:
        """A fake item comes, with the time of its result."""

    def may_send(self, row: Any) -> bool:
        """Whether there may be fake items before a row: for most rows there are none, which is known at once."""
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
                raise too_many([self], now)


def send_before(row: Any, when: Any, senders: Sequence[Sender]) -> None:
    """All fake items before a row, by time; ties in the order of the senders. `when`: of those without a time."""
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
            raise too_many(senders, row[TIME])


def _refuse_flood(senders: Sequence[Sender], row: Any) -> None:
    """DataError at once, instead of after ten million results, where no border can be passed over."""
    stay = not any(each.active_evictions for sender in senders for each in sender.reached())
    for sender in senders:
        each_is_sent = stay or any(each.told for each in sender.reached())
        if each_is_sent and sum(_due(timer, row) for timer in sender.timers) > specs.MOST_FAKES:
            raise too_many(senders, row[TIME])


def _due(timer: TimeTrigger, row: Any) -> int:
    return max(0, (row[timer.column] - timer.limit - timer.border) // timer.spec.size + 1)


def too_many(senders: Sequence[Sender], time: int) -> Exception:
    """What to say of fake items without end."""
    timers = [timer.spec for sender in reversed(senders) for timer in sender.timers]
    users = [getattr(t, "policy", t) for sender in reversed(senders) for t in sender.active_triggers]
    told = any(each.told for sender in senders for each in sender.reached())
    return specs.too_many(timers or users, time, users=told)


def _border(timer: TimeTrigger) -> int:
    return timer.border


def _place(sent: tuple[Sent, Sender]) -> tuple[int, int]:
    return sent[0].place
