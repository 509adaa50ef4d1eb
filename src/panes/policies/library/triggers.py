"""When a sliding window is processed: one class per trigger policy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from panes.policies.library.attributes import reader
from panes.policies.library.specs import Count, Delta, Time
from panes.policies.library.subwindow import Subwindow


class Trigger(ABC):
    """A trigger policy at work."""

    def read(self, row: Any, sub: Subwindow | None) -> Any:
        return None

    @abstractmethod
    def fires(self, sub: Subwindow, value: Any) -> bool:
        """Note the arriving tuple; whether the window is processed for it."""


class CountTrigger(Trigger):
    def __init__(self, policy: Count) -> None:
        self._m = policy.n

    def fires(self, sub: Subwindow, value: Any) -> bool:
        sub.counter += 1
        if sub.counter < self._m:
            return False
        sub.counter = 0
        return True


class DeltaTrigger(Trigger):
    """Counts from the first tuple of the subwindow, then from the last one that triggered, even if it has left."""

    def __init__(self, policy: Delta) -> None:
        self._delta = policy.delta
        self._read = reader(policy)

    def read(self, row: Any, sub: Subwindow | None) -> Any:
        return self._read(row, None if sub is None else sub.last_trigger_value)

    def fires(self, sub: Subwindow, value: Any) -> bool:
        sub.last_trigger_value = value
        if sub.baseline is None:
            sub.baseline = value
            return False
        if not value - sub.baseline > self._delta:
            return False
        sub.baseline = value
        return True


class TimeTrigger(Trigger):
    """By the clock, every `us` since the subwindow began, whether tuples come or not."""

    def __init__(self, policy: Time) -> None:
        self.us = policy.us

    def fires(self, sub: Subwindow, value: Any) -> bool:
        return False


def trigger(policy: Count | Delta | Time) -> Trigger:
    """The policy at work."""
    if isinstance(policy, Count):
        return CountTrigger(policy)
    return DeltaTrigger(policy) if isinstance(policy, Delta) else TimeTrigger(policy)
