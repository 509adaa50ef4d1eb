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


@dataclass(frozen=True)
class LastOf(pn.FreeFormWindow):
    """The last `keep` of every `every` rows, ending with the row that completes them, as soon as that is known."""

    keep: int
    every: int

    def expire(self, state: Any, row: Mapping[str, Any], position: int, time: int) -> int:
        gone = max(0, state.get("held", 0) - self.keep + 1)
        state["held"] = state.get("held", 0) - gone + 1
        state["due"] = time if (position + 1) % self.every == 0 else None
        return gone

    def emit(self, state: Any, row: Mapping[str, Any], position: int, time: int) -> bool:
        return False

    def on_watermark(self, state: Any, time: int) -> list[int | pn.WindowDue]:
        due = state.get("due")
        state["due"] = None
        return [] if due is None else [due]


@dataclass(frozen=True)
class Pauses(pn.FreeFormWindow):
    """Rows up to a pause of more than `gap`, at whose end the window ends; from the second window on half of them."""

    gap: int

    def new_state(self) -> Any:
        return {"held": 0, "last": None, "windows": 0}

    def expire(self, state: Any, row: Mapping[str, Any], position: int, time: int) -> int:
        gone = state["held"] if state["last"] is None else 0
        state["held"], state["last"] = state["held"] - gone + 1, time
        return gone

    def emit(self, state: Any, row: Mapping[str, Any], position: int, time: int) -> bool:
        return False

    def on_watermark(self, state: Any, time: int) -> list[int | pn.WindowDue]:
        last = state["last"]
        return [] if last is None or time <= last + self.gap else [self._window(state)]

    def on_finish(self, state: Any) -> list[int | pn.WindowDue | None]:
        return [] if state["last"] is None else [self._window(state)]

    def _window(self, state: Any) -> pn.WindowDue:
        end, gone = state["last"] + self.gap, state["held"] // 2 if state["windows"] else 0
        state.update(last=None, held=state["held"] - gone, windows=state["windows"] + 1)
        return pn.WindowDue(end, expire=gone)
