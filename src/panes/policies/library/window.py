"""What tumbling and sliding windows share: subwindows by key, handlers, the clock and the lock, what a delta reads.

In flow tuples (any objects) with their keys; out flow events. Time policies run by the window's clock, perhaps in its
thread: only then is there a lock. A window without keys has one subwindow, whose key is None.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import date, datetime
from typing import Any, Literal

from panes.clock import Clock, wall_clock
from panes.errors import DataError, QueryError
from panes.policies.library.checkpoint import restore, snapshot
from panes.policies.library.events import Handler, Handlers
from panes.policies.library.partitions import FORGET, Deadlines, Partitions, Subwindow, content_of
from panes.policies.library.specs import (
    SELECTS,
    Delta,
    PartitionAge,
    PartitionCount,
    PartitionPolicy,
    Policy,
    Select,
    TupleCount,
    text,
)
from panes.units import is_number, nanos_since_epoch


class _NoKey:
    def __repr__(self) -> str:
        return "no key"


#: Not given: None is a key like any other in a partitioned window.
NO_KEY = _NoKey()


class Window(ABC):
    """A container of tuples whose policies say when it is processed and what leaves it."""

    kind: Literal["tumbling", "sliding"]
    evict: Policy

    def __init__(
        self,
        *,
        timed: bool,
        partitioned: bool,
        partition_evict: PartitionPolicy | None,
        select: Select,
        clock: Clock | None,
    ) -> None:
        if select not in SELECTS:
            raise QueryError(f"select={select!r} is unknown: use one of {', '.join(SELECTS)}")
        if partition_evict is not None:
            if not isinstance(partition_evict, (PartitionCount, TupleCount, PartitionAge)):
                raise QueryError(
                    f"partition_evict={partition_evict!r}: use partition_count(), tuple_count() or partition_age()"
                )
            if not partitioned:
                raise QueryError(
                    f"partition_evict={partition_evict!r} needs partitioned=True: there is but one subwindow"
                )
        self.partitioned = partitioned
        self.partition_evict = partition_evict
        self.select: Select = select
        self._handlers = Handlers(self.kind, select)
        self._partitions = Partitions(partition_evict, select, self._handlers)
        #: tumbling by time: when the next period of a key ends whose subwindow went away in a flush
        self._periods: dict[Hashable, int] = {}
        self._reads_clock = timed or isinstance(partition_evict, PartitionAge)
        self._clock = clock if clock is not None or not self._reads_clock else wall_clock()
        self._lock: AbstractContextManager[Any] = threading.RLock() if timed else nullcontext()
        self._deadlines: Deadlines | None = None
        if timed:
            assert self._clock is not None
            self._deadlines = Deadlines(self._clock, self._lock, self._due, self._holds)

    def on(self, event: str, handler: Handler) -> None:
        """Call `handler` at every such event; the events and their arguments: `panes.policies.library.events`."""
        self._handlers.register(event, handler)

    def insert(self, row: Any, key: Hashable = NO_KEY) -> None:
        """A tuple arrives."""
        key = self._key(key)
        if self._deadlines is None:
            self._insert(row, key, self._now())
        else:
            with self._lock:
                now = self._now()
                self._deadlines.run_until(now)
                self._insert(row, key, now)

    def open(self, key: Hashable = NO_KEY) -> None:
        """Let a subwindow begin, and the periods of its time policies with it, before its first tuple comes."""
        key = self._key(key)
        with self._lock:
            self._subwindow(key, self._now())

    def subwindows(self) -> Iterator[tuple[Hashable, Any]]:
        """(key, content) of each subwindow: its tuples, oldest first, or the summarizer that stands for them.

        Inside handlers as it is; elsewhere within `locked()`.
        """
        return iter([(sub.key, content_of(sub)) for sub in self._partitions.subs.values()])

    def content(self, key: Hashable = None) -> tuple[Any, ...]:
        """The tuples of a subwindow, oldest first; none if there is no such subwindow."""
        sub = self._partitions.subs.get(key)
        return () if sub is None else tuple(sub.tuples)

    def size(self, key: Hashable = None) -> int:
        """How many tuples a subwindow has."""
        sub = self._partitions.subs.get(key)
        return 0 if sub is None else sub.size

    def locked(self) -> AbstractContextManager[Any]:
        """Nothing changes inside. Costs nothing where no time policy runs."""
        return self._lock

    def close(self) -> None:
        """End all timers; what the window holds stays readable."""
        if self._deadlines is not None:
            with self._lock:
                self._deadlines.close()

    def snapshot(self) -> bytes:
        """All that the window holds, as bytes; handlers are not part of it."""
        with self._lock:
            return snapshot(self)

    def restore(self, blob: bytes, *, trusted: bool = False) -> None:
        """Go on where a snapshot of a window with the same configuration was taken.

        `trusted`: the bytes are as you wrote them, and pickles of your own classes in them may be read.
        """
        with self._lock:
            restore(self, blob, trusted=trusted)

    @property
    def metrics(self) -> dict[str, int]:
        """What the window holds now."""
        with self._lock:
            timers = 0 if self._deadlines is None else len(self._deadlines)
            return {"partitions": len(self._partitions.subs), "tuples": self._partitions.tuples, "timers": timers}

    def _now(self) -> int:
        return self._clock.now() if self._reads_clock and self._clock is not None else 0

    def _key(self, key: Hashable) -> Hashable:
        if self.partitioned:
            if key is NO_KEY:
                raise QueryError("key is missing: a partitioned window needs the key of every tuple")
            return key
        if key is not NO_KEY and key is not None:
            raise QueryError(f"key={key!r} given to a window that is not partitioned: set partitioned=True")
        return None

    def _insert(self, row: Any, key: Hashable, now: int) -> None:
        partitions = self._partitions
        partitions.evict_aged(now)
        sub = partitions.subs.get(key)
        values = self._read(row, sub)  # before anything changes: a tuple that can't be read is refused whole
        if sub is None:
            sub = self._subwindow(key, now)
        partitions.updated(sub, now)
        self._arrive(sub, row, values, now)
        if self.partition_evict is not None:
            partitions.evict_excess(sub)

    def _await(self, due: int, what: int, sub: Subwindow) -> None:
        """Have `_due` called for the subwindow."""
        assert self._deadlines is not None
        self._deadlines.push(due, what, sub.created, sub)

    def _subwindow(self, key: Hashable, now: int) -> Subwindow:
        sub = self._partitions.subs.get(key)
        if sub is None:
            sub = self._partitions.create(key, now)
            self._opened(sub, now)
        return sub

    @abstractmethod
    def _read(self, row: Any, sub: Subwindow | None) -> Any:
        """What the policies need of a tuple; raises DataError if it can't be had."""

    @abstractmethod
    def _opened(self, sub: Subwindow, now: int) -> None:
        """A subwindow has been made: begin its periods."""

    @abstractmethod
    def _arrive(self, sub: Subwindow, row: Any, values: Any, now: int) -> None:
        """The steps of an arrival."""

    def _holds(self, due: int, what: int, sub: Subwindow) -> bool:
        """Whether a moment that was asked for is still to come."""
        return self._periods.get(sub.key) == due if what == FORGET else sub.alive

    @abstractmethod
    def _due(self, due: int, what: int, sub: Subwindow) -> None:
        """A moment that was asked for has come."""


def reader(policy: Delta) -> Callable[[Any, Any], Any]:
    """A function of (tuple, value of the tuple before it in the subwindow or None) to the value to compare."""
    extract = policy.attribute if callable(policy.attribute) else _named(policy)

    def read(row: Any, before: Any) -> Any:
        value = _number(extract(row), row, policy)
        if before is not None and value < before:
            raise DataError(
                f"{text(policy)}: the attribute fell from {before} to {value} at {row!r}; a delta policy needs an "
                "attribute that never decreases"
            )
        return value

    return read


def _named(policy: Delta) -> Callable[[Any], Any]:
    name = str(policy.attribute)

    def extract(row: Any) -> Any:
        try:
            return row[name] if isinstance(row, Mapping) else getattr(row, name)
        except (KeyError, AttributeError):
            raise DataError(f"{text(policy)}: the tuple {row!r} has no attribute {name!r}") from None

    return extract


def _number(value: Any, row: Any, policy: Delta) -> Any:
    if is_number(value) and value == value:
        return value
    if isinstance(value, (datetime, date)):
        return nanos_since_epoch(value) // 1000
    raise DataError(f"{text(policy)}: {value!r} at {row!r} is not a number or a point in time, so it has no difference")
