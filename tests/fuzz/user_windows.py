"""Windows as a user would write them, one of each class; the oracle has the same ones written out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import panes as pn


@dataclass(frozen=True)
class Alternating(pn.ContextFreeWindow):
    """Windows of `short` and `long` ticks in turn, without gaps, from 0."""

    short: int
    long: int

    @property
    def reach(self) -> float:  # type: ignore[override]
        return max(self.short, self.long)

    def next_edge(self, value: Any) -> Any:
        period = self.short + self.long
        start = value // period * period
        middle = start + self.short
        return middle if value < middle else start + period

    def ends_between(self, previous: Any, current: Any) -> Iterator[tuple[Any, Any]]:
        end = self.next_edge(previous)
        while end <= current:
            length = self.long if end % (self.short + self.long) == 0 else self.short
            yield end - length, end
            end = self.next_edge(end)


@dataclass(frozen=True)
class Markers(pn.DeterministicWindow):
    """Periodic on rows by markers (SPEC W-05)."""

    size: int
    slide: int

    def on_row(self, state: Any, row: Mapping[str, Any], position: int, time: int) -> pn.WindowEvents:
        ends = position >= self.size and (position - self.size) % self.slide == 0
        return pn.WindowEvents(begin=int(position % self.slide == 0), end=int(ends))


@dataclass(frozen=True)
class KeepLast(pn.FreeFormWindow):
    """Holds at most `keep` rows, gives them before every row whose position is a multiple of `every`."""

    keep: int
    every: int

    def expire(self, state: Any, row: Mapping[str, Any], position: int, time: int) -> int:
        held = state.get("held", 0)
        gone = max(0, held - self.keep)
        state["held"] = held - gone + 1
        return gone

    def emit(self, state: Any, row: Mapping[str, Any], position: int, time: int) -> bool:
        return position > 0 and position % self.every == 0
