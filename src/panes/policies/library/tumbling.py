"""Tumbling windows: tuples stay until the window is full; then it is processed and emptied.

The flush handlers process: `before_flush` sees the tuples, `after_flush` the empty window. Subwindows of partitioned
windows go away after their flush, except with delta policies, where the tuple that caused it comes in next, and with
`discard=False`: then they stay, and those of time policies are flushed every period, also when nothing came.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Literal

from panes.clock import Clock
from panes.errors import QueryError
from panes.policies.library import order
from panes.policies.library.attributes import reader
from panes.policies.library.deadlines import EVICT, FORGET
from panes.policies.library.specs import Count, Delta, PartitionPolicy, Policy, Punct, Select, Time
from panes.policies.library.subwindow import Subwindow
from panes.policies.library.summarizer import Summarizer, SummarizerFactory, checked
from panes.policies.library.window import NO_KEY, Window


class TumblingWindow(Window):
    """Process and empty when full.

    >>> from panes.policies.library import TumblingWindow, count
    >>> window = TumblingWindow(evict=count(2))
    >>> window.on("before_flush", lambda key, w: print(w.content(key)))
    >>> for row in "abc":
    ...     window.insert(row)
    ('a', 'b')
    """

    kind: Literal["tumbling", "sliding"] = "tumbling"

    def __init__(
        self,
        *,
        evict: Policy,
        partitioned: bool = False,
        partition_evict: PartitionPolicy | None = None,
        select: Select = "lru",
        clock: Clock | None = None,
        summarizer: SummarizerFactory | None = None,
        discard: bool = True,
    ) -> None:
        if not isinstance(evict, (Count, Delta, Time, Punct)):
            raise QueryError(f"evict={evict!r}: a tumbling window is full by count(), delta(), time() or punct()")
        if isinstance(evict, Count) and evict.n == 0:
            raise QueryError("evict=count(0): a tumbling window that is never filled is never processed")
        super().__init__(
            timed=isinstance(evict, Time),
            partitioned=partitioned,
            partition_evict=partition_evict,
            select=select,
            clock=clock,
        )
        self.evict = evict
        #: whether subwindows go away when they are flushed
        self.discard = partitioned and discard and not isinstance(evict, Delta)
        self._factory = None if summarizer is None else checked(summarizer)
        self._read_value = reader(evict) if isinstance(evict, Delta) else None
        self._steps: tuple[Callable[[Subwindow, Any, Any], None], ...] = tuple(
            getattr(self, f"_step_{step}") for step in order.TUMBLING[evict.kind]
        )
        self._is_full: Callable[[Subwindow, Any], bool] = getattr(self, f"_full_by_{evict.kind}", _never)

    def punctuate(self, key: Hashable = NO_KEY) -> None:
        """A window punctuation of the stream: all subwindows are processed, older ones first, or that of one key."""
        if not isinstance(self.evict, Punct):
            raise QueryError(f"punctuate(): the window is full by {self.evict!r}, not by punct()")
        if not self.partitioned:
            self._flush_now(self._subwindow(self._key(key), self._now()))
            return
        subs = self._partitions.subs
        closing = subs.values() if key is NO_KEY else [subs[key]] if key in subs else []
        for sub in sorted(closing, key=lambda sub: sub.created):
            self._flush_now(sub)

    def summarizer(self, key: Hashable = None) -> Summarizer:
        """The summarizer of a subwindow that is open or being flushed."""
        sub = self._partitions.subs.get(key)
        if self._factory is None:
            raise QueryError("summarizer(): the window was made without one, it keeps its tuples")
        if sub is None:
            raise QueryError(f"summarizer({key!r}): there is no such subwindow now")
        return sub.summarizer

    def _read(self, row: Any, sub: Subwindow | None) -> Any:
        return None if self._read_value is None else self._read_value(row, None if sub is None else sub.last_value)

    def _opened(self, sub: Subwindow, now: int) -> None:
        self._open_summarizer(sub)
        if isinstance(self.evict, Time):
            sub.evict_due = self._periods.pop(sub.key, now + self.evict.us)
            self._await(sub.evict_due, EVICT, sub)

    def _arrive(self, sub: Subwindow, row: Any, values: Any, now: int) -> None:
        for step in self._steps:
            step(sub, row, values)

    def _step_insert(self, sub: Subwindow, row: Any, value: Any) -> None:
        for handler in self._handlers.before_insert:
            handler(row, sub.key, self)
        if sub.summarizer is None:
            sub.tuples.append(row)
        else:
            sub.summarizer.on_tuple_insertion(row)
        if self._read_value is not None:
            sub.last_value = value
            if not sub.size:
                sub.values.append(value)
        sub.size += 1
        self._partitions.tuples += 1
        for handler in self._handlers.after_insert:
            handler(row, sub.key, self)

    def _step_flush(self, sub: Subwindow, row: Any, value: Any) -> None:
        if self._is_full(sub, value):
            self._flush_now(sub)

    def _full_by_count(self, sub: Subwindow, value: Any) -> bool:
        assert isinstance(self.evict, Count)
        return sub.size >= self.evict.n

    def _full_by_delta(self, sub: Subwindow, value: Any) -> bool:
        assert isinstance(self.evict, Delta)
        return bool(sub.size) and value - sub.values[0] > self.evict.delta

    def _flush_now(self, sub: Subwindow) -> None:
        """Process and empty."""
        key = sub.key
        if sub.summarizer is not None:
            sub.summarizer.on_close_window()
        for handler in self._handlers.before_flush:
            handler(key, self)
        self._partitions.tuples -= sub.size
        sub.tuples.clear()
        sub.values.clear()
        sub.size = 0
        if self.discard:
            self._partitions.remove(sub)
        else:
            self._open_summarizer(sub)
        for handler in self._handlers.after_flush:
            handler(key, self)

    def _open_summarizer(self, sub: Subwindow) -> None:
        if self._factory is not None:
            sub.summarizer = self._factory()
            sub.summarizer.on_open_window(sub.key)

    def _due(self, due: int, what: int, sub: Subwindow) -> None:
        assert isinstance(self.evict, Time)
        if what == FORGET:
            if self._periods.get(sub.key) == due:
                del self._periods[sub.key]
            return
        if not sub.alive or sub.evict_due != due:
            return
        # The next period begins where this one ended, whenever the flush comes to be run.
        sub.evict_due = due + self.evict.us
        if self.discard:
            self._periods[sub.key] = sub.evict_due
            self._await(sub.evict_due, FORGET, sub)
        else:
            self._await(sub.evict_due, EVICT, sub)
        self._flush_now(sub)


def _never(sub: Subwindow, value: Any) -> bool:
    return False
