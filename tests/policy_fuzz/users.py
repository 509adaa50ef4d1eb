"""Policies such as users write, for random programs: with state, active and passive."""

from __future__ import annotations

from typing import Any

from panes.policies import TIME, ActiveEviction, ActiveTrigger, Eviction, Tick, Trigger


class SumTrigger(Trigger):
    """Fires when the values since the last time add up to more than `most`."""

    columns = ("v",)

    def __init__(self, most: float) -> None:
        self.most, self.sum = most, 0.0

    def notify(self, row: Any) -> bool:
        value = row["v"]
        self.sum += 0 if value != value else abs(value)
        if self.sum > self.most:
            self.sum = 0.0
            return True
        return False


class GapTrigger(ActiveTrigger):
    """After a pause longer than `gap`, timer ticks at its end (a session that expires); never at a row.

    `placed`: "tick" gives them the time at which the pause was long enough, "row" sends a row instead of a time.
    """

    columns = ("v", "w", "m")

    def __init__(self, gap: int, sends: int = 1, placed: str = "") -> None:
        self.gap, self.sends, self.placed, self.last = gap, sends, placed, None

    def before(self, row: Any) -> list[Any]:
        last, self.last = self.last, row[TIME]
        if last is None or row[TIME] - last <= self.gap:
            return []
        times = [last + self.gap + i for i in range(self.sends)]
        if self.placed == "tick":
            return [Tick(min(t, row[TIME])) for t in reversed(times)]
        return [Tick(min(t, row[TIME]), row) for t in times] if self.placed == "row" else times

    def notify(self, row: Any) -> bool:
        return False


class Leaves(Eviction):
    """Lets go as many rows as the value says, modulo a number."""

    columns = ("w",)

    def __init__(self, modulo: int) -> None:
        self.modulo = modulo

    def notify(self, row: Any, triggered: bool, size: int) -> int:
        return int(row["w"]) % self.modulo if isinstance(row, dict) else 1


class HalfOnFake(ActiveEviction):
    """Half of what is held leaves for a timer tick, all but `keep` for a row that triggers."""

    def __init__(self, keep: int) -> None:
        self.keep, self.calls = keep, 0

    def notify(self, row: Any, triggered: bool, size: int) -> int:
        self.calls += 1
        return max(0, size - self.keep) if triggered or self.calls % 7 == 0 else 0

    def notify_fake(self, fake: Any, size: int) -> int:
        return size // 2
