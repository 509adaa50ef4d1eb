"""Sliding windows: the newest tuples stay, the oldest leave, and a trigger of its own says when to process.

`trigger` is called for partial windows too; `initial_full` comes once per subwindow, before the first trigger of a
full one, so that an operator can tell them apart (`is_full`).

An eviction is asked, in the order of an arrival: what it reads of the tuple, whether the window was full before it,
which tuples go, what to note of the tuple that comes in, and whether the window is full after it. Each owns what
insertion writes down for it. The rules are those of the loop over batches (kernels.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from typing import Any, Literal

from panes.clock import Clock
from panes.errors import QueryError
from panes.policies.library.events import SLIDING_STEPS
from panes.policies.library.partitions import EVICT, NEVER, TRIGGER, Subwindow
from panes.policies.library.specs import Count, Delta, PartitionPolicy, Policy, Select, Time, check_plain
from panes.policies.library.window import Window, reader
from panes.policies.rules import counted, is_beyond, leaves_by_count


class Keeps(ABC):
    """An eviction policy at work. Plain answers; the window moves tuples and calls handlers."""

    #: whether tuples are kept at all
    keeps = True

    def read(self, row: Any, sub: Subwindow | None) -> Any:
        return None

    def full_before(self, sub: Subwindow, value: Any) -> bool:
        """Whether the arrival shows that the window is full, before anything happens."""
        return False

    @abstractmethod
    def evicts(self, sub: Subwindow, value: Any) -> bool:
        """Whether the oldest tuple must go for the arriving one."""

    @abstractmethod
    def inserted(self, sub: Subwindow, value: Any, now: int) -> None:
        """Note what the policy needs of the tuple that was put in."""

    @abstractmethod
    def evicted(self, sub: Subwindow) -> None:
        """Forget what was noted of the oldest tuple."""

    def full_after(self, sub: Subwindow) -> bool:
        """Whether the window is full, now that the tuple is in."""
        return False


class KeepsCount(Keeps):
    def __init__(self, policy: Count) -> None:
        self._n = policy.size
        self.keeps = policy.size > 0

    def evicts(self, sub: Subwindow, value: Any) -> bool:
        return leaves_by_count(sub.size, self._n)

    def inserted(self, sub: Subwindow, value: Any, now: int) -> None:
        pass

    def evicted(self, sub: Subwindow) -> None:
        pass

    def full_after(self, sub: Subwindow) -> bool:
        return sub.size >= self._n


class KeepsDelta(Keeps):
    def __init__(self, policy: Delta) -> None:
        self._delta = policy.threshold
        self._read = reader(policy)

    def read(self, row: Any, sub: Subwindow | None) -> Any:
        return self._read(row, None if sub is None else sub.last_value)

    def full_before(self, sub: Subwindow, value: Any) -> bool:
        return self.evicts(sub, value)

    def evicts(self, sub: Subwindow, value: Any) -> bool:
        return bool(sub.values) and is_beyond(value, sub.values[0], self._delta)

    def inserted(self, sub: Subwindow, value: Any, now: int) -> None:
        sub.values.append(value)
        sub.last_value = value

    def evicted(self, sub: Subwindow) -> None:
        sub.values.popleft()


class KeepsTime(Keeps):
    """By the clock: a tuple stays as long as it is not older than the window."""

    def __init__(self, policy: Time) -> None:
        self._us = policy.us

    def evicts(self, sub: Subwindow, value: Any) -> bool:
        """`value` is the time."""
        return bool(sub.arrivals) and is_beyond(value, sub.arrivals[0], self._us)

    def inserted(self, sub: Subwindow, value: Any, now: int) -> None:
        sub.arrivals.append(now)

    def evicted(self, sub: Subwindow) -> None:
        sub.arrivals.popleft()

    def due(self, sub: Subwindow) -> int:
        """When the oldest tuple must go."""
        return sub.arrivals[0] + self._us + 1 if sub.arrivals else NEVER


def keeping(policy: Count | Delta | Time) -> Keeps:
    """The policy at work."""
    if isinstance(policy, Count):
        return KeepsCount(policy)
    return KeepsDelta(policy) if isinstance(policy, Delta) else KeepsTime(policy)


class Fires(ABC):
    """A trigger policy at work."""

    def read(self, row: Any, sub: Subwindow | None) -> Any:
        return None

    @abstractmethod
    def fires(self, sub: Subwindow, value: Any) -> bool:
        """Note the arriving tuple; whether the window is processed for it."""


class FiresByCount(Fires):
    def __init__(self, policy: Count) -> None:
        self._m = policy.size

    def fires(self, sub: Subwindow, value: Any) -> bool:
        sub.counter = counted(sub.counter, self._m)
        return sub.counter == 0


class FiresByDelta(Fires):
    """Counts from the first tuple of the subwindow, then from the last one that triggered, even if it has left."""

    def __init__(self, policy: Delta) -> None:
        self._delta = policy.threshold
        self._read = reader(policy)

    def read(self, row: Any, sub: Subwindow | None) -> Any:
        return self._read(row, None if sub is None else sub.last_trigger_value)

    def fires(self, sub: Subwindow, value: Any) -> bool:
        sub.last_trigger_value = value
        if sub.baseline is None:
            sub.baseline = value
            return False
        if not is_beyond(value, sub.baseline, self._delta):
            return False
        sub.baseline = value
        return True


class FiresByTime(Fires):
    """By the clock, every `us` since the subwindow began, whether tuples come or not."""

    def __init__(self, policy: Time) -> None:
        self.us = policy.us

    def fires(self, sub: Subwindow, value: Any) -> bool:
        return False


def firing(policy: Count | Delta | Time) -> Fires:
    """The policy at work."""
    if isinstance(policy, Count):
        return FiresByCount(policy)
    return FiresByDelta(policy) if isinstance(policy, Delta) else FiresByTime(policy)


class SlidingWindow(Window):
    """Keep the newest, process by a trigger.

    >>> from panes.policies.library import SlidingWindow, count
    >>> window = SlidingWindow(evict=count(2), trigger=count(1))
    >>> window.on("trigger", lambda key, w: print(w.content(key)))
    >>> for row in "abc":
    ...     window.insert(row)
    ('a',)
    ('a', 'b')
    ('b', 'c')
    """

    kind: Literal["tumbling", "sliding"] = "sliding"

    def __init__(
        self,
        *,
        evict: Policy,
        trigger: Policy,
        partitioned: bool = False,
        partition_evict: PartitionPolicy | None = None,
        select: Select = "lru",
        clock: Clock | None = None,
        summarizer: None = None,
    ) -> None:
        if not isinstance(evict, (Count, Delta, Time)):
            raise QueryError(f"evict={evict!r}: a sliding window evicts by count(), delta() or time()")
        if not isinstance(trigger, (Count, Delta, Time)):
            raise QueryError(f"trigger={trigger!r}: a sliding window is processed by count(), delta() or time()")
        if isinstance(trigger, Count) and trigger.size == 0:
            raise QueryError("trigger=count(0): a window is processed every so many tuples, at least 1")
        if summarizer is not None:
            raise QueryError(f"summarizer={summarizer!r}: only tumbling windows have them, tuples leave a sliding one")
        super().__init__(
            timed=isinstance(evict, Time) or isinstance(trigger, Time),
            partitioned=partitioned,
            partition_evict=partition_evict,
            select=select,
            clock=clock,
        )
        check_plain(evict, "evict")
        check_plain(trigger, "trigger")
        self.evict = evict
        self.trigger = trigger
        self._eviction = keeping(evict)
        self._trigger = firing(trigger)
        self._steps: tuple[Callable[[Subwindow, Any, tuple[Any, Any], int], None], ...] = tuple(
            getattr(self, f"_step_{step}") for step in SLIDING_STEPS[evict.kind, trigger.kind]
        )

    def is_full(self, key: Hashable = None) -> bool:
        """Whether the subwindow has ever been full; until then, triggers see a partial window."""
        sub = self._partitions.subs.get(key)
        return sub is not None and sub.full

    def _read(self, row: Any, sub: Subwindow | None) -> tuple[Any, Any]:
        return self._eviction.read(row, sub), self._trigger.read(row, sub)

    def _opened(self, sub: Subwindow, now: int) -> None:
        if isinstance(self._trigger, FiresByTime):
            sub.trigger_due = now + self._trigger.us
            self._await(sub.trigger_due, TRIGGER, sub)

    def _arrive(self, sub: Subwindow, row: Any, values: tuple[Any, Any], now: int) -> None:
        if not sub.full and self._eviction.full_before(sub, values[0]):
            self._fill(sub)
        for step in self._steps:
            step(sub, row, values, now)

    def _step_evict(self, sub: Subwindow, row: Any, values: tuple[Any, Any], now: int) -> None:
        while self._eviction.evicts(sub, values[0]):
            self._evict_oldest(sub)

    def _step_insert(self, sub: Subwindow, row: Any, values: tuple[Any, Any], now: int) -> None:
        if self._eviction.keeps:
            for handler in self._handlers.before_insert:
                handler(row, sub.key, self)
            sub.tuples.append(row)
            sub.size += 1
            self._partitions.tuples += 1
            self._eviction.inserted(sub, values[0], now)
            if sub.evict_due == NEVER:
                self._await_eviction(sub)
            for handler in self._handlers.after_insert:
                handler(row, sub.key, self)
        if not sub.full and self._eviction.full_after(sub):
            self._fill(sub)

    def _step_trigger(self, sub: Subwindow, row: Any, values: tuple[Any, Any], now: int) -> None:
        if self._trigger.fires(sub, values[1]):
            self._process(sub)

    def _process(self, sub: Subwindow) -> None:
        for handler in self._handlers.trigger:
            handler(sub.key, self)

    def _fill(self, sub: Subwindow) -> None:
        sub.full = True
        for handler in self._handlers.initial_full:
            handler(sub.key, self)

    def _evict_oldest(self, sub: Subwindow) -> None:
        row = sub.tuples[0]
        for handler in self._handlers.before_evict:
            handler(row, sub.key, self)
        sub.tuples.popleft()
        sub.size -= 1
        self._partitions.tuples -= 1
        self._eviction.evicted(sub)
        for handler in self._handlers.after_evict:
            handler(row, sub.key, self)

    def _await_eviction(self, sub: Subwindow) -> None:
        if isinstance(self._eviction, KeepsTime):
            sub.evict_due = self._eviction.due(sub)
            if sub.evict_due != NEVER:
                self._await(sub.evict_due, EVICT, sub)

    def _due(self, due: int, what: int, sub: Subwindow) -> None:
        if not sub.alive:
            return
        if what == TRIGGER and isinstance(self._trigger, FiresByTime):
            # From when it was due, not from now: a period that was missed is made up for.
            sub.trigger_due = due + self._trigger.us
            self._await(sub.trigger_due, TRIGGER, sub)
            self._process(sub)
            return
        if not sub.full:
            self._fill(sub)
        while self._eviction.evicts(sub, due):
            self._evict_oldest(sub)
        self._await_eviction(sub)
