"""The window library as one would write it down from its definition: lists, and a loop over every microsecond.

No queue, no heap, no counter that could drift: every question is answered by looking at the lists again. Slow, and
readable by eye. Rows are (time, key, value) in order of time; "value" is both the tuple and its attribute, and None is
a punctuation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Row = tuple[int, Any, "int | None"]
#: (event, moment, key, content): "flush" | "trigger" | "full" | "partition_evict"
Event = tuple[str, int, Any, tuple[int, ...]]


@dataclass
class Config:
    """Policies as pairs (kind, number); `trigger` None: tumbling."""

    evict: tuple[str, int]
    trigger: tuple[str, int] | None = None
    partitioned: bool = False
    partition_evict: tuple[str, int] | None = None
    select: str = "lru"
    discard: bool = True

    @property
    def discards(self) -> bool:
        return self.partitioned and self.discard


@dataclass
class Sub:
    key: Any
    created: int  # number of the row that made it
    began: int  # time from which its periods count
    held: list[tuple[int, int]] = field(default_factory=list)  # (time, value)
    seen: list[tuple[int, int, int]] = field(default_factory=list)  # (row number, time, value) of all that came
    fired: list[int] = field(default_factory=list)  # values that triggered by delta
    full: bool = False

    @property
    def values(self) -> tuple[int, ...]:
        return tuple(v for _, v in self.held)


class Oracle:
    """Feed it rows; it lists what happens."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.subs: list[Sub] = []  # in order of creation
        self.periods: dict[Any, int] = {}  # key -> end of the flush that its last subwindow went away in
        self.events: list[Event] = []
        self.now = 0
        self.rows = 0

    def run(self, rows: list[Row], until: int) -> list[Event]:
        for moment in range(self.now, until + 1):
            self.now = moment
            self._clock()
            for time, key, value in rows:
                if time == moment and value is None:
                    self._punctuate()
                elif time == moment:
                    self._row(key, value)
        return self.events

    def _say(self, event: str, sub: Sub) -> None:
        self.events.append((event, self.now, sub.key, sub.values))

    def _clock(self) -> None:
        """What the clock does at this moment."""
        kind, size = self.config.evict
        if kind == "time" and self.config.trigger is None:
            for sub in list(self.subs):
                if self.now > sub.began and (self.now - sub.began) % size == 0:
                    self._say("flush", sub)
                    sub.held = []
                    if self.config.discards:
                        self.subs.remove(sub)
                        self.periods[sub.key] = self.now
        elif kind == "time":
            for sub in self.subs:
                if any(self.now - time > size for time, _ in sub.held):
                    self._fill(sub)
                sub.held = [(time, v) for time, v in sub.held if self.now - time <= size]
        if self.config.trigger is not None and self.config.trigger[0] == "time":
            for sub in self.subs:
                if self.now > sub.began and (self.now - sub.began) % self.config.trigger[1] == 0:
                    self._say("trigger", sub)

    def _row(self, key: Any, value: int) -> None:
        self.rows += 1
        self._evict_aged()
        sub = next((s for s in self.subs if s.key == key), None)
        if sub is None:
            began = self.now
            if key in self.periods and self.now < self.periods[key] + self.config.evict[1]:
                began = self.periods[key]  # it came again within a period: that period goes on
            sub = Sub(key, self.rows, began)
            self.subs.append(sub)
        sub.seen.append((self.rows, self.now, value))
        if self.config.trigger is None:
            self._tumble(sub, value)
        else:
            self._slide(sub, value)
        self._evict_excess(sub)

    def _tumble(self, sub: Sub, value: int) -> None:
        kind, size = self.config.evict
        if kind == "delta" and sub.held and value - sub.held[0][1] > size:
            self._say("flush", sub)
            sub.held = []
        sub.held.append((self.now, value))
        if kind == "count" and len(sub.held) == size:
            self._say("flush", sub)
            sub.held = []
            if self.config.discards:
                self.subs.remove(sub)

    def _punctuate(self) -> None:
        if not self.config.partitioned and not self.subs:
            self.subs.append(Sub(None, self.rows, self.now))
        for sub in list(self.subs):
            self._say("flush", sub)
            sub.held = []
            if self.config.discards:
                self.subs.remove(sub)

    def _slide(self, sub: Sub, value: int) -> None:
        kind, size = self.config.evict
        by, every = self.config.trigger  # type: ignore[misc]
        if kind == "delta" and any(value - v > size for v in sub.values):
            self._fill(sub)
        if by == "delta":
            last = sub.fired[-1] if sub.fired else sub.seen[0][2]
            if value - last > every:
                sub.fired.append(value)
                self._say("trigger", sub)
        if kind == "delta":
            sub.held = [(time, v) for time, v in sub.held if value - v <= size]
        sub.held.append((self.now, value))
        if kind == "count":
            sub.held = sub.held[len(sub.held) - min(size, len(sub.held)) :]
            if len(sub.held) == size:
                self._fill(sub)
        if by == "count" and len(sub.seen) % every == 0:
            self._say("trigger", sub)

    def _fill(self, sub: Sub) -> None:
        if not sub.full:
            sub.full = True
            self._say("full", sub)

    def _evict_aged(self) -> None:
        if self.config.partition_evict is not None and self.config.partition_evict[0] == "age":
            aged = [s for s in self.subs if self.now - s.seen[-1][1] > self.config.partition_evict[1]]
            for sub in sorted(aged, key=lambda s: s.seen[-1][0]):
                self._drop(sub)

    def _evict_excess(self, current: Sub) -> None:
        if self.config.partition_evict is None or self.config.partition_evict[0] == "age":
            return
        what, most = self.config.partition_evict
        while (len(self.subs) if what == "count" else sum(len(s.held) for s in self.subs)) > most:
            others = [s for s in self.subs if s is not current]
            if not others:
                return
            self._drop(min(others, key=self._rank))

    def _rank(self, sub: Sub) -> Any:
        """What goes first has the smallest rank."""
        if self.config.select == "lru":
            return sub.seen[-1][0]
        return sub.created if self.config.select == "oldest" else (len(sub.seen), sub.seen[-1][0])

    def _drop(self, sub: Sub) -> None:
        self._say("partition_evict", sub)
        self.subs.remove(sub)
        self.periods.pop(sub.key, None)  # nothing of it is left
