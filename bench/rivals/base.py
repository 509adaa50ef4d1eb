"""What every rival follows: queries in, `push` / `advance` / `finish`, results and counters out.

A rival is one technique of window aggregation for one aggregate and any number of queries on one measure.
It has the rhythm of the Panes operator: `push` takes rows, `advance` says how far event time has come and
returns the windows now due, `finish` returns the rest. Time windows hold rows with start <= time < end and
are given if they hold one; row windows are given when they are complete.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from bench.rivals.functions import Function
from bench.rivals.kernels import periodic_windows

Array = np.ndarray
BEFORE_ALL = np.iinfo(np.int64).min // 4
AFTER_ALL = np.iinfo(np.int64).max // 4


class NotApplicable(ValueError):
    """The technique can't do this: another measure, another aggregate, or rows out of order."""


@dataclass(frozen=True)
class Periodic:
    """[k * slide, k * slide + size) for every whole k, on event time or on rows."""

    size: int
    slide: int
    measure: str = "time"


@dataclass(frozen=True)
class Session:
    """Rows at distance <= gap: [first, last + gap)."""

    gap: int
    measure: str = "time"


@dataclass(frozen=True)
class Marked:
    """Windows of a deterministic user-defined window: row numbers where each begins and ends (exclusive)."""

    starts: tuple[int, ...]
    ends: tuple[int, ...]
    measure: str = "rows"


Query = Periodic | Session | Marked


@dataclass
class Counters:
    """Work and space (SPEC W-17): combines while taking rows and while answering, the most ever stored."""

    update: int = 0
    merge: int = 0
    max_partials: int = 0
    max_bytes: int = 0

    def stored(self, partials: int, size: int) -> None:
        self.max_partials = max(self.max_partials, partials)
        self.max_bytes = max(self.max_bytes, size)


@dataclass(frozen=True)
class Results:
    """Windows given: the number of the query, [start, end) on its measure, the value."""

    query: Array = field(default_factory=lambda: np.empty(0, np.int64))
    start: Array = field(default_factory=lambda: np.empty(0, np.int64))
    end: Array = field(default_factory=lambda: np.empty(0, np.int64))
    value: Array = field(default_factory=lambda: np.empty(0))

    def __len__(self) -> int:
        return len(self.query)

    @classmethod
    def concat(cls, parts: Sequence[Results]) -> Results:
        parts = [p for p in parts if len(p)]
        if len(parts) < 2:
            return parts[0] if parts else cls()
        return cls(*(np.concatenate(c) for c in zip(*((p.query, p.start, p.end, p.value) for p in parts))))

    def rows(self) -> list[tuple[int, int, int, float]]:
        """The multiset of results, in one order."""
        return sorted(zip(*(c.tolist() for c in (self.query, self.start, self.end, self.value))))


class WindowSet:
    """All windows of all queries, vectorised over queries (sessions apart: they depend on rows)."""

    def __init__(self, queries: Sequence[Query]) -> None:
        periodic = [(i, q) for i, q in enumerate(queries) if isinstance(q, Periodic)]
        self.number = np.array([i for i, _ in periodic], np.int64)
        self.sizes = np.array([q.size for _, q in periodic], np.int64)
        self.slides = np.array([q.slide for _, q in periodic], np.int64)
        self.marked = [
            (i, np.array(q.starts), np.array(q.ends)) for i, q in enumerate(queries) if isinstance(q, Marked)
        ]
        self.sessions = [(i, q.gap) for i, q in enumerate(queries) if isinstance(q, Session)]
        #: row windows start at row 0, time windows have no first one
        self.earliest = 0 if queries[0].measure == "rows" else BEFORE_ALL

    def ending(self, lo: int, hi: int, latest: int = AFTER_ALL) -> tuple[Array, Array, Array]:
        """(query, start, end) of windows with lo < end <= hi that start by `latest`."""
        which, start = periodic_windows(self.sizes, self.slides, lo, hi, self.earliest, latest)
        parts = [(self.number[which], start, start + self.sizes[which])]
        for number, starts, ends in self.marked:
            a, b = np.searchsorted(ends, (lo, hi), "right")
            parts.append((np.full(b - a, number), starts[a:b], ends[a:b]))
        query, start, end = (np.concatenate(c) for c in zip(*parts))
        return query, start, end

    def overlapping(self, first: int, last: int) -> tuple[Array, Array, Array]:
        """Windows that may hold a position in [first, last]."""
        return self.ending(first, AFTER_ALL, last)

    def starts(self, lo: int, hi: int) -> Array:
        """All window starts s with lo < s <= hi, sorted and unique."""
        pieces = [s[np.searchsorted(s, lo, "right") : np.searchsorted(s, hi, "right")] for _, s, _ in self.marked]
        slides = np.unique(self.slides)
        _, starts = periodic_windows(np.zeros_like(slides), slides, lo, hi, self.earliest, hi)
        return np.unique(np.concatenate([starts, *pieces]))

    def ends(self, lo: int, hi: int) -> Array:
        """All window ends e with lo < e <= hi, sorted and unique."""
        return np.unique(self.ending(lo, hi)[2])

    def horizon(self, progress: int) -> int:
        """The smallest start of a window that ends after `progress`: nothing before it is needed again."""
        starts = ((progress - self.sizes) // self.slides + 1) * self.slides
        marked = [int(s[e > progress].min()) for _, s, e in self.marked if (e > progress).any()]
        return min([*starts.tolist(), *marked], default=AFTER_ALL)


class Rival(ABC):
    """One technique. Subclasses say in their docstring what they need and cost, and here what they can do."""

    name: ClassVar[str]
    takes_disorder: ClassVar[bool] = True
    takes_holistic: ClassVar[bool] = True
    takes_sessions: ClassVar[bool] = False
    needs_rows_in_event_order: ClassVar[bool] = False  # for aggregates that don't commute

    def __init__(self, queries: Sequence[Query], function: Function, *, ooo: bool = False) -> None:
        measures = {q.measure for q in queries}
        if len(measures) != 1:
            raise NotApplicable(f"{self.name}: queries must be on one measure, got {sorted(measures)}")
        if ooo and not self.takes_disorder:
            raise NotApplicable(f"{self.name}: rows must be in event-time order, ooo=True is not possible")
        if function.holistic and not self.takes_holistic:
            raise NotApplicable(f"{self.name}: {function.name} has no partial of fixed size, and rows are not kept")
        if any(isinstance(q, Session) for q in queries) and not self.takes_sessions:
            raise NotApplicable(f"{self.name}: windows must be periodic or marked, a session depends on later rows")
        if ooo and self.needs_rows_in_event_order and not function.commutative:
            raise NotApplicable(f"{self.name}: {function.name} depends on order, and rows come out of order")
        self.queries = tuple(queries)
        self.function = function
        self.ooo = ooo
        self.measure = measures.pop()
        self.windows = WindowSet(queries)
        self.counters = Counters()
        self.watermark = BEFORE_ALL
        self.done = BEFORE_ALL  # windows that end by here were given (or are empty)
        self.oldest = AFTER_ALL
        self.newest = BEFORE_ALL
        self.rows_seen = 0

    def push(self, times: Array, values: Array) -> None:
        """Take rows: int64 event times and float64 values, none below the watermark."""
        if not len(times):
            return
        if not self.ooo and (times[0] < self.newest or (times[1:] < times[:-1]).any()):
            raise NotApplicable(f"{self.name}: rows must be in event-time order (declared by ooo=False)")
        if self.ooo and times.min() < self.watermark:
            raise ValueError(f"{self.name}: a row lies before the watermark {self.watermark}, rivals take no late rows")
        self.oldest = min(self.oldest, int(times.min()))
        self.newest = max(self.newest, int(times.max()))
        self.rows_seen += len(times)
        self._take(times, values)

    def advance(self, watermark: int) -> Results:
        """Event time has reached `watermark` (in order: at least the newest row): windows now due."""
        if not self.ooo:
            watermark = max(watermark, self.newest)
        if watermark <= self.watermark:
            return Results()
        self.watermark = watermark
        return self._due(watermark)

    def finish(self) -> Results:
        """End of the stream: time windows that hold rows, and row windows that are complete."""
        return self.advance(AFTER_ALL)

    def _ending_by(self, progress: int) -> tuple[Array, Array, Array]:
        """Windows that end in (done, progress] and may hold rows; they count as given from now on."""
        first, last = (self.oldest, self.newest) if self.measure == "time" else (0, self.rows_seen)
        windows = self.windows.ending(max(self.done, first), progress, last)
        self.done = max(self.done, progress)
        return windows

    @abstractmethod
    def _take(self, times: Array, values: Array) -> None: ...

    @abstractmethod
    def _due(self, watermark: int) -> Results: ...
