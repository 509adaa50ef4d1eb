"""A window that changes with the price: cheap stock is reported more often, over a shorter time.

While a stock trades above the limit, a report is due every 5 minutes over the last 10; at or below it, every
2 minutes over the last 5. Each row decides the mode. When it changes, the next report is due one new step
later. A window's begin is fixed when it opens, so the first reports after a change reach back to a window
that was already open, or to the change itself; should more windows be open than the new mode needs, the
oldest are reported at the change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from panes.units import TimeDomain
from panes.windows import DeterministicWindow, WindowEvents


@dataclass
class Reports:
    """What is known of one stock: the mode, and when each open window is due, oldest first."""

    cheap: bool | None = None
    due: list[int] = field(default_factory=list)
    last_due: int = 0


@dataclass(frozen=True)
class DynamicStock(DeterministicWindow):
    """`expensive` and `cheap` are (every, over): how often a report is due, and over which time."""

    limit: float = 10.0
    expensive: tuple[Any, Any] = ("5 min", "10 min")
    cheap: tuple[Any, Any] = ("2 min", "5 min")
    price: str = "price"

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        return (self.price,)

    def resolve(self, domain: TimeDomain) -> DynamicStock:
        def ticks(mode: tuple[Any, Any]) -> tuple[int, int]:
            return domain.ticks(mode[0], argument="every"), domain.ticks(mode[1], argument="over")

        return replace(self, expensive=ticks(self.expensive), cheap=ticks(self.cheap))

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
