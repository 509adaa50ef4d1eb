"""Sliding windows: the newest tuples stay, the oldest leave, and a trigger of its own says when to process.

`trigger` is called for partial windows too; `initial_full` comes once per subwindow, before the first trigger of a
full one, so that an operator can tell them apart (`is_full`). By delta a window is full when the first tuple must leave
for one that comes, by count when so many are in it, and by time when the first must leave by the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Literal

from panes.clock import Clock
from panes.errors import QueryError
from panes.policies.library.events import SLIDING_STEPS
from panes.policies.library.partitions import EVICT, NEVER, TRIGGER, Subwindow
from panes.policies.library.specs import Count, Delta, PartitionPolicy, Policy, Select, Time, check_plain
from panes.policies.library.window import Window, reader
from panes.policies.rules import counted, is_beyond, leaves_by_count


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
        #: what leaves: by count, so many stay; by delta or time, what is further from the newest value, or from now
        self._most = evict.size if isinstance(evict, Count) else None
        self._reach = evict.threshold if isinstance(evict, Delta) else evict.us if isinstance(evict, Time) else 0
        self._by_delta, self._by_time = isinstance(evict, Delta), isinstance(evict, Time)
        self._value = reader(evict) if isinstance(evict, Delta) else None
        self._trigger_value = reader(trigger) if isinstance(trigger, Delta) else None
        self._period = trigger.us if isinstance(trigger, Time) else None
        self._steps: tuple[Callable[[Subwindow, Any, tuple[Any, Any], int], None], ...] = tuple(
            getattr(self, f"_step_{step}") for step in SLIDING_STEPS[evict.kind, trigger.kind]
        )

    def is_full(self, key: Hashable = None) -> bool:
        """Whether the subwindow has ever been full; until then, triggers see a partial window."""
        sub = self._partitions.subs.get(key)
        return sub is not None and sub.full

    def _read(self, row: Any, sub: Subwindow | None) -> tuple[Any, Any]:
        value, fires = self._value, self._trigger_value
        return (
            None if value is None else value(row, None if sub is None else sub.last_value),
            None if fires is None else fires(row, None if sub is None else sub.last_trigger_value),
        )

    def _opened(self, sub: Subwindow, now: int) -> None:
        if self._period is not None:
            sub.trigger_due = now + self._period
            self._await(sub.trigger_due, TRIGGER, sub)

    def _arrive(self, sub: Subwindow, row: Any, values: tuple[Any, Any], now: int) -> None:
        if self._by_delta and not sub.full and self._oldest_leaves(sub, values[0]):
            self._fill(sub)
        for step in self._steps:
            step(sub, row, values, now)

    def _oldest_leaves(self, sub: Subwindow, value: Any) -> bool:
        """Whether the oldest tuple must go for one more, whose value this is, or at this time."""
        if self._most is not None:
            return leaves_by_count(sub.size, self._most)
        queue = sub.values if self._by_delta else sub.arrivals
        return bool(queue) and is_beyond(value, queue[0], self._reach)

    def _step_evict(self, sub: Subwindow, row: Any, values: tuple[Any, Any], now: int) -> None:
        while self._oldest_leaves(sub, values[0]):
            self._evict_oldest(sub)

    def _step_insert(self, sub: Subwindow, row: Any, values: tuple[Any, Any], now: int) -> None:
        if self._most != 0:
            for handler in self._handlers["before_insert"]:
                handler(row, sub.key, self)
            sub.tuples.append(row)
            sub.size += 1
            self._partitions.tuples += 1
            if self._by_delta:
                sub.values.append(values[0])
                sub.last_value = values[0]
            elif self._by_time:
                sub.arrivals.append(now)
                if sub.evict_due == NEVER:
                    self._await_eviction(sub)
            for handler in self._handlers["after_insert"]:
                handler(row, sub.key, self)
        if self._most is not None and not sub.full and sub.size >= self._most:
            self._fill(sub)

    def _step_trigger(self, sub: Subwindow, row: Any, values: tuple[Any, Any], now: int) -> None:
        if self._fires(sub, values[1]):
            self._process(sub)

    def _fires(self, sub: Subwindow, value: Any) -> bool:
        """Note the arriving tuple; whether the window is processed for it.

        A delta counts from the first tuple of the subwindow, then from the last that triggered, even if it has left.
        """
        trigger = self.trigger
        if isinstance(trigger, Count):
            sub.counter = counted(sub.counter, trigger.size)
            return sub.counter == 0
        assert isinstance(trigger, Delta)
        sub.last_trigger_value, first = value, sub.baseline is None
        if not first and not is_beyond(value, sub.baseline, trigger.threshold):
            return False
        sub.baseline = value
        return not first

    def _process(self, sub: Subwindow) -> None:
        for handler in self._handlers["trigger"]:
            handler(sub.key, self)

    def _fill(self, sub: Subwindow) -> None:
        sub.full = True
        for handler in self._handlers["initial_full"]:
            handler(sub.key, self)

    def _evict_oldest(self, sub: Subwindow) -> None:
        row = sub.tuples[0]
        for handler in self._handlers["before_evict"]:
            handler(row, sub.key, self)
        sub.tuples.popleft()
        sub.size -= 1
        self._partitions.tuples -= 1
        if self._by_delta:
            sub.values.popleft()
        elif self._by_time:
            sub.arrivals.popleft()
        for handler in self._handlers["after_evict"]:
            handler(row, sub.key, self)

    def _await_eviction(self, sub: Subwindow) -> None:
        """The oldest tuple must go when it is older than the window."""
        sub.evict_due = sub.arrivals[0] + int(self._reach) + 1 if sub.arrivals else NEVER
        if sub.evict_due != NEVER:
            self._await(sub.evict_due, EVICT, sub)

    def _due(self, due: int, what: int, sub: Subwindow) -> None:
        if not sub.alive:
            return
        if what == TRIGGER and self._period is not None:
            # From when it was due, not from now: a period that was missed is made up for.
            sub.trigger_due = due + self._period
            self._await(sub.trigger_due, TRIGGER, sub)
            self._process(sub)
            return
        if not sub.full:
            self._fill(sub)
        while self._oldest_leaves(sub, due):
            self._evict_oldest(sub)
        self._await_eviction(sub)
