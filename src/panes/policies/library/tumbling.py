"""Tumbling windows: tuples stay until the window is full; then it is processed and emptied.

The flush handlers process: `before_flush` sees the tuples, `after_flush` the empty window. Subwindows of partitioned
windows go away after their flush, except with delta policies, where the tuple that caused it comes in next, and with
`discard=False`: then they stay, and those of time policies are flushed every period, also when nothing came.

A summarizer is an object per subwindow that stands for its tuples, so that none are stored. A window is given a factory
(usually the class) and makes one when a subwindow opens; the flush handler asks for it with `window.summarizer(key)`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Literal, Protocol

from panes.clock import Clock
from panes.errors import QueryError
from panes.policies.library.events import TUMBLING_STEPS
from panes.policies.library.partitions import EVICT, FORGET, Subwindow
from panes.policies.library.specs import Count, Delta, PartitionPolicy, Policy, Punct, Select, Time, check_plain, text
from panes.policies.library.window import NO_KEY, Window, reader
from panes.policies.rules import is_beyond

_METHODS = ("on_open_window", "on_tuple_insertion", "on_close_window")


class Summarizer(Protocol):
    """What a window tells its summarizer."""

    def on_open_window(self, key: Hashable) -> None:
        """The subwindow of this key has opened."""

    def on_tuple_insertion(self, row: Any) -> None:
        """A tuple has come."""

    def on_close_window(self) -> None:
        """The subwindow is full; the flush handlers are called next."""


SummarizerFactory = Callable[[], Summarizer]


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
        if isinstance(evict, Count) and evict.size == 0:
            raise QueryError("evict=count(0): a tumbling window that is never filled is never processed")
        super().__init__(
            timed=isinstance(evict, Time),
            partitioned=partitioned,
            partition_evict=partition_evict,
            select=select,
            clock=clock,
        )
        check_plain(evict, "evict")
        self.evict = evict
        self._us = evict.us if isinstance(evict, Time) else 0
        #: whether subwindows go away when they are flushed
        self.discard = partitioned and discard and not isinstance(evict, Delta)
        self._factory = None if summarizer is None else _checked(summarizer)
        self._read_value = reader(evict) if isinstance(evict, Delta) else None
        self._steps: tuple[Callable[[Subwindow, Any, Any], None], ...] = tuple(
            getattr(self, f"_step_{step}") for step in TUMBLING_STEPS[evict.kind]
        )

    def punctuate(self, key: Hashable = NO_KEY) -> None:
        """A window punctuation of the stream: all subwindows are processed, older ones first, or that of one key."""
        if not isinstance(self.evict, Punct):
            raise QueryError(f"punctuate(): the window is full by {text(self.evict)}, not by punct()")
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
        if self._us:
            sub.evict_due = self._periods.pop(sub.key, now + self._us)
            self._await(sub.evict_due, EVICT, sub)

    def _arrive(self, sub: Subwindow, row: Any, values: Any, now: int) -> None:
        for step in self._steps:
            step(sub, row, values)

    def _step_insert(self, sub: Subwindow, row: Any, value: Any) -> None:
        for handler in self._handlers["before_insert"]:
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
        for handler in self._handlers["after_insert"]:
            handler(row, sub.key, self)

    def _step_flush(self, sub: Subwindow, row: Any, value: Any) -> None:
        evict = self.evict
        if isinstance(evict, Count):
            full = sub.size >= evict.size
        else:
            assert isinstance(evict, Delta)
            full = bool(sub.size) and is_beyond(value, sub.values[0], evict.threshold)
        if full:
            self._flush_now(sub)

    def _flush_now(self, sub: Subwindow) -> None:
        """Process and empty."""
        key = sub.key
        if sub.summarizer is not None:
            sub.summarizer.on_close_window()
        for handler in self._handlers["before_flush"]:
            handler(key, self)
        self._partitions.tuples -= sub.size
        sub.tuples.clear()
        sub.values.clear()
        sub.size = 0
        if self.discard:
            self._partitions.remove(sub)
        else:
            self._open_summarizer(sub)
        for handler in self._handlers["after_flush"]:
            handler(key, self)

    def _open_summarizer(self, sub: Subwindow) -> None:
        if self._factory is not None:
            sub.summarizer = self._factory()
            sub.summarizer.on_open_window(sub.key)

    def _due(self, due: int, what: int, sub: Subwindow) -> None:
        if what == FORGET:
            if self._periods.get(sub.key) == due:
                del self._periods[sub.key]
            return
        if not sub.alive or sub.evict_due != due:
            return
        # The next period begins where this one ended, whenever the flush comes to be run.
        sub.evict_due = due + self._us
        if self.discard:
            self._periods[sub.key] = sub.evict_due
            self._await(sub.evict_due, FORGET, sub)
        else:
            self._await(sub.evict_due, EVICT, sub)
        self._flush_now(sub)


def _checked(factory: SummarizerFactory) -> SummarizerFactory:
    """The factory, if what it makes can be a summarizer."""
    if not callable(factory):
        raise QueryError(f"summarizer={factory!r}: must be a class, or a function that makes a summarizer")
    if isinstance(factory, type):
        missing = [name for name in _METHODS if not callable(getattr(factory, name, None))]
        if missing:
            raise QueryError(f"summarizer={factory.__name__} has no {', '.join(missing)}: a summarizer has all of them")
    return factory
