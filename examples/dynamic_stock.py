"""A window that changes with the price: cheap stock is reported more often, over a shorter time.

While a stock trades above the limit, a report is due every 5 minutes over the last 10; at or below it, every
2 minutes over the last 5. Each row decides the mode. When it changes, the next report is due one new step
later. There are two ways to write it:

- `DynamicStock` is deterministic, so slices are shared with other windows. A window's begin is fixed when it opens, so
  the first reports after a change reach back to a window that was already open, or to the change itself: where the
  price falls at minute 25, [20, 27) and [25, 29), before it is right with [26, 31). Should more windows be open than
  the new mode needs, the oldest are reported at the change.
- `ExactStock` is free-form: each report holds the last 5 or 10 minutes to the row, [22, 27) and [24, 29), and costs a
  slice for each row that is held.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from panes.units import TimeDomain
from panes.windows import DeterministicWindow, FreeFormWindow, WindowDue, WindowEvents


@dataclass
class Reports:
    """What is known of one stock: the mode, and when each open window is due, oldest first."""

    cheap: bool | None = None
    due: list[int] = field(default_factory=list)
    last_due: int = 0


@dataclass(frozen=True)
class _Modes:
    """`expensive` and `cheap` are (every, over): how often a report is due, and over which time."""

    limit: float = 10.0
    expensive: tuple[Any, Any] = ("5 min", "10 min")
    cheap: tuple[Any, Any] = ("2 min", "5 min")
    price: str = "price"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.price,)

    def resolve(self, domain: TimeDomain) -> Any:
        def ticks(mode: tuple[Any, Any]) -> tuple[int, int]:
            return domain.ticks(mode[0], argument="every"), domain.ticks(mode[1], argument="over")

        return replace(self, expensive=ticks(self.expensive), cheap=ticks(self.cheap))


@dataclass(frozen=True)
class DynamicStock(_Modes, DeterministicWindow):  # type: ignore[misc]
    """Reports whose begin is fixed when they open."""

    def new_state(self) -> Reports:
        return Reports()

    def on_row(self, state: Reports, row: Mapping[str, Any], position: int, time: int) -> WindowEvents:
        cheap = row[self.price] <= self.limit
        every, over = self.cheap if cheap else self.expensive
        ended = 0
        if cheap != state.cheap:
            ended = max(len(state.due) - over // every, 0)
            kept = len(state.due) - ended
            state.due = [time + every * (k + 1) for k in range(kept)]
            state.cheap, state.last_due = cheap, time + every * kept
        elif state.last_due + every <= time:  # reports whose whole time saw no row are not due
            state.last_due += (time - state.last_due) // every * every
        begun = 0
        while state.last_due + every - over <= time:
            state.last_due += every
            state.due.append(state.last_due)
            begun += 1
        return WindowEvents(begin=begun, end=ended)

    def on_watermark(self, state: Reports, time: int) -> list[int]:
        over = [due for due in state.due if due <= time]
        del state.due[: len(over)]
        return over


@dataclass
class Held:
    """What is known of one stock: the mode, when the next report is due, and the times of the rows held."""

    cheap: bool | None = None
    due: int = 0
    times: deque[int] = field(default_factory=deque)


@dataclass(frozen=True)
class ExactStock(_Modes, FreeFormWindow):  # type: ignore[misc]
    """Reports over exactly the last so many minutes, by the clock of the stream.

    Rows leave when a report is due. So the first report of a new mode is exact if its time is no longer than
    its step and the time of the old mode together, as here.
    """

    def new_state(self) -> Held:
        return Held()

    def expire(self, state: Held, row: Mapping[str, Any], position: int, time: int) -> int:
        cheap = row[self.price] <= self.limit
        if cheap != state.cheap:
            state.cheap, state.due = cheap, time + self._mode(cheap)[0]
        state.times.append(time)
        return 0

    def emit(self, state: Held, row: Mapping[str, Any], position: int, time: int) -> bool:
        return False

    def on_watermark(self, state: Held, time: int) -> list[int | WindowDue]:
        every, over = self._mode(state.cheap)
        reports: list[int | WindowDue] = []
        while state.times and state.due <= time:
            gone = 0
            while state.times and state.times[0] < state.due - over:
                state.times.popleft()
                gone += 1
            reports.append(WindowDue(state.due, expire=gone))
            state.due += every
        if state.due <= time:  # reports whose whole time saw no row are not due
            state.due += ((time - state.due) // every + 1) * every
        return reports

    def _mode(self, cheap: bool | None) -> tuple[int, int]:
        return self.cheap if cheap else self.expensive
