"""The subwindows of a window, by key: which of them go when there are too many or they are too old, and what is due.

Partitions are checked when tuples arrive, never by the clock. Age is checked before a tuple is put in (so what happens
to one key does not depend on other keys), numbers are checked after that. The subwindow of the arriving tuple is never
selected. A subwindow is updated by tuples that come to it, not by those that leave.

What falls due when is a priority queue that wakes the window through its clock. At one moment, what leaves a window
leaves before a trigger looks at it; then older subwindows come first. Missed moments are made up for back to back, none
is lost.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Hashable
from contextlib import AbstractContextManager
from typing import Any

from panes.clock import Clock, Timer
from panes.errors import DataError
from panes.policies.library.events import Handlers
from panes.policies.library.specs import PartitionAge, PartitionCount, PartitionPolicy, TupleCount

#: Stands for "never": no timer waits. Earlier than all times, which may be negative.
NEVER = -(2**63)


class Subwindow:
    """The tuples of one key, oldest first, and what its policies remember of them: plain state.

    The policies write their own fields and read no others.
    """

    __slots__ = (
        "alive", "arrivals", "baseline", "counter", "created", "evict_due", "full", "key", "last_trigger_value",
        "last_value", "size", "summarizer", "trigger_due", "tuples", "updated", "updated_at", "updates", "values",
    )  # fmt: skip

    def __init__(self, key: Hashable, created: int, now: int) -> None:
        self.key = key
        self.alive = True
        self.tuples: deque[Any] = deque()
        self.size = 0  # tuples in the window, also when a summarizer stands for them
        self.full = False  # whether a sliding subwindow was ever full
        self.summarizer: Any = None
        # how partition eviction knows it: number of its creation and latest update among all, updates, time of the last
        self.created = created
        self.updated = created
        self.updates = 0
        self.updated_at = now
        # count trigger: tuples since the last one
        self.counter = 0
        # delta eviction: attribute of each tuple (when tumbling, of the first one), and of the last that came
        self.values: deque[Any] = deque()
        self.last_value: Any = None
        # delta trigger: attribute of the last triggering tuple, and of the last that came
        self.baseline: Any = None
        self.last_trigger_value: Any = None
        # time: arrival of each tuple, and when flush or eviction, and trigger, are due
        self.arrivals: deque[int] = deque()
        self.evict_due = NEVER
        self.trigger_due = NEVER


class Candidate:
    """A subwindow that a handler of `partition_select` may choose."""

    __slots__ = ("_sub", "marked")

    def __init__(self, sub: Subwindow) -> None:
        self._sub = sub
        self.marked = False

    @property
    def key(self) -> Hashable:
        return self._sub.key

    @property
    def content(self) -> Any:
        return content_of(self._sub)

    @property
    def size(self) -> int:
        return self._sub.size

    def mark(self) -> None:
        """This subwindow shall go."""
        self.marked = True


def content_of(sub: Subwindow) -> Any:
    """The tuples, oldest first, or the summarizer that stands for them."""
    return tuple(sub.tuples) if sub.summarizer is None else sub.summarizer


class Partitions:
    """All subwindows, in the order that the selection needs."""

    def __init__(self, policy: PartitionPolicy | None, select: str, handlers: Handlers) -> None:
        self.subs: OrderedDict[Hashable, Subwindow] = OrderedDict()
        self.tuples = 0  # in all subwindows
        self.updates = 0  # numbers creations and updates in the order in which they happen
        self._policy = policy
        self._select = select
        self._handlers = handlers
        self._by_recency = isinstance(policy, PartitionAge) or (policy is not None and select == "lru")
        # lfu: one entry (updates, number of the last one, key) per subwindow, perhaps of an earlier state of it
        self._rarest: list[tuple[int, int, Hashable]] | None = None
        if select == "lfu" and policy is not None and not isinstance(policy, PartitionAge):
            self._rarest = []

    def create(self, key: Hashable, now: int) -> Subwindow:
        self.updates += 1
        sub = self.subs[key] = Subwindow(key, self.updates, now)
        if self._rarest is not None:
            heapq.heappush(self._rarest, (0, sub.updated, key))
            if len(self._rarest) > 2 * len(self.subs) + 64:  # entries of subwindows that are gone
                self._tidy_rarest()
        return sub

    def updated(self, sub: Subwindow, now: int) -> None:
        """A tuple has come to it."""
        self.updates += 1
        sub.updated = self.updates
        sub.updates += 1
        sub.updated_at = now
        if self._by_recency:
            self.subs.move_to_end(sub.key)

    def restore(self, subs: list[Subwindow], updates: int) -> None:
        """Take in the subwindows of a snapshot."""
        for sub in sorted(subs, key=lambda s: s.updated if self._by_recency else s.created):
            self.subs[sub.key] = sub
        self.tuples = sum(sub.size for sub in subs)
        self.updates = updates
        self._tidy_rarest()

    def _tidy_rarest(self) -> None:
        """One entry per subwindow there is."""
        if self._rarest is not None:
            self._rarest = [(s.updates, s.updated, s.key) for s in self.subs.values()]
            heapq.heapify(self._rarest)

    def remove(self, sub: Subwindow) -> None:
        sub.alive = False
        self.tuples -= sub.size
        del self.subs[sub.key]

    def evict_aged(self, now: int) -> None:
        """Before a tuple is put in: drop what was not updated for too long."""
        if not isinstance(self._policy, PartitionAge):
            return
        aged = []
        for sub in self.subs.values():
            if now - sub.updated_at <= self._policy.us:
                break
            aged.append(sub)
        self._evict(aged)

    def evict_excess(self, current: Subwindow) -> None:
        """After a tuple was put into `current`: drop what is too much."""
        if isinstance(self._policy, PartitionCount) and len(self.subs) > self._policy.most:
            self._evict_until(current, len(self.subs) - self._policy.most, 0)
        elif isinstance(self._policy, TupleCount) and self.tuples > self._policy.most:
            self._evict_until(current, 0, self.tuples - self._policy.most)

    def _evict_until(self, current: Subwindow, subwindows: int, tuples: int) -> None:
        """Drop at least so many subwindows with at least so many tuples, or all but the current one."""
        victims: list[Subwindow] = []
        selected = self._selected(current)
        while subwindows > 0 or tuples > 0:
            chosen = next(selected, None)
            if chosen is None:
                break
            victims += chosen
            subwindows -= len(chosen)
            tuples -= sum(sub.size for sub in chosen)
        selected.close()
        self._evict(victims)

    def _selected(self, current: Subwindow) -> Generator[list[Subwindow], None, None]:
        """Subwindows in the order in which they shall go; those of one list go together."""
        if self._select == "user":
            yield from self._selected_by_user(current)
        elif self._rarest is not None:
            yield from self._selected_by_frequency(current)
        else:  # "lru" and "oldest": the order of the map
            yield from ([sub] for sub in self.subs.values() if sub is not current)

    def _selected_by_frequency(self, current: Subwindow) -> Generator[list[Subwindow], None, None]:
        """The least frequently updated first; of those, the least recently updated."""
        heap = self._rarest
        assert heap is not None
        aside = []
        try:
            while heap:
                updates, updated, key = entry = heapq.heappop(heap)
                sub = self.subs.get(key)
                if sub is None or sub.created > updated:
                    continue  # gone since; if it was created again, that has an entry of its own
                if (sub.updates, sub.updated) != (updates, updated):
                    heapq.heappush(heap, (sub.updates, sub.updated, key))
                elif sub is current:
                    aside.append(entry)
                else:
                    yield [sub]
        finally:
            for entry in aside:
                heapq.heappush(heap, entry)

    def _selected_by_user(self, current: Subwindow) -> Generator[list[Subwindow], None, None]:
        gone: set[Hashable] = set()
        while len(gone) + 1 < len(self.subs):
            left = [Candidate(s) for s in self.subs.values() if s is not current and s.key not in gone]
            for handler in self._handlers["partition_select"]:
                handler(iter(left))
            marked = [c._sub for c in left if c.marked]
            if not marked:
                raise DataError(
                    f"partition_select marked none of {len(left)} subwindows though {self._policy!r} asks for one, "
                    f"at the tuple of key {current.key!r}; register a handler that marks at least one"
                )
            gone.update(sub.key for sub in marked)
            yield marked

    def _evict(self, victims: list[Subwindow]) -> None:
        if not victims:
            return
        for handler in self._handlers["partition_evict"]:
            handler(iter([(sub.key, content_of(sub)) for sub in victims]))
        for sub in victims:
            self.remove(sub)


#: What is due, in the order in which it happens at one moment.
EVICT, TRIGGER, FORGET = 0, 1, 2


class Deadlines:
    """Moments of one window. The window says what they mean (`run`) and whether they still hold."""

    def __init__(
        self,
        clock: Clock,
        lock: AbstractContextManager[Any],
        run: Callable[[int, int, Subwindow], None],
        holds: Callable[[int, int, Subwindow], bool],
    ) -> None:
        self._clock = clock
        self._lock = lock
        self._run = run
        self._holds = holds
        self._kept = 0  # moments that held when this was last looked into
        self._heap: list[tuple[int, int, int, int, Subwindow]] = []
        self._pushed = 0
        self._timer: Timer | None = None

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, due: int, what: int, age: int, sub: Subwindow) -> None:
        """`sub` must be looked at when it is `due`; `age` orders what is due at once."""
        self._pushed += 1
        heapq.heappush(self._heap, (due, what, age, self._pushed, sub))
        if len(self._heap) > 2 * self._kept + 64:  # moments of subwindows that are gone
            self._heap = [entry for entry in self._heap if self._holds(entry[0], entry[1], entry[4])]
            heapq.heapify(self._heap)
            self._kept = len(self._heap)
        self._arm()

    def run_until(self, now: int) -> None:
        """Make up for everything that was due by now, if the clock's thread has not come to it yet."""
        try:
            while self._heap and self._heap[0][0] <= now:
                due, what, _, _, sub = heapq.heappop(self._heap)
                self._run(due, what, sub)
        finally:  # a handler that fails must not stop the moments after it
            self._arm()

    def close(self) -> None:
        """Nothing is due any more."""
        self._heap.clear()
        self._arm()

    def _arm(self) -> None:
        """Have the clock call at the first moment, and no other."""
        due = self._heap[0][0] if self._heap else None
        if self._timer is not None:
            if self._timer.when == due and not self._timer.cancelled:
                return
            self._timer.cancel()
            self._timer = None
        if due is not None:
            self._timer = self._clock.call_at(due, self._wake)

    def _wake(self) -> None:
        # One moment at a time, so that windows on one clock that catch up do so in the order of their moments.
        with self._lock:
            self._timer = None
            if self._heap and self._heap[0][0] <= self._clock.now():
                self.run_until(self._heap[0][0])
            else:
                self._arm()
