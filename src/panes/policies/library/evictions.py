"""What leaves a sliding window: one class per eviction policy. Each owns what insertion writes down for it.

A policy is asked, in the order of an arrival: what it reads of the tuple, whether the window was full before it,
which tuples go, what to note of the tuple that comes in, and whether the window is full after it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from panes.policies.library.attributes import reader
from panes.policies.library.specs import Count, Delta, Time
from panes.policies.library.subwindow import NEVER, Subwindow


class Eviction(ABC):
    """An eviction policy at work. Plain answers; the window moves tuples and calls handlers."""

    #: whether tuples are kept at all
    keeps = True

    def read(self, row: Any, sub: Subwindow | None) -> Any:
        return None

    def full_before(self, sub: Subwindow, value: Any) -> bool:
        """Whether the arrival shows that the window is full, before anything happens."""
        return False

    @abstractmethod
    def evicts(self, sub: Subwindow, value: Any) -> bool:
        """Whether the oldest tuple must go for the arriving one."""

    @abstractmethod
    def inserted(self, sub: Subwindow, value: Any, now: int) -> None:
        """Note what the policy needs of the tuple that was put in."""

    @abstractmethod
    def evicted(self, sub: Subwindow) -> None:
        """Forget what was noted of the oldest tuple."""

    def full_after(self, sub: Subwindow) -> bool:
        """Whether the window is full, now that the tuple is in."""
        return False


class CountEviction(Eviction):
    def __init__(self, policy: Count) -> None:
        self._n = policy.n
        self.keeps = policy.n > 0

    def evicts(self, sub: Subwindow, value: Any) -> bool:
        return sub.size >= self._n and sub.size > 0

    def inserted(self, sub: Subwindow, value: Any, now: int) -> None:
        pass

    def evicted(self, sub: Subwindow) -> None:
        pass

    def full_after(self, sub: Subwindow) -> bool:
        return sub.size >= self._n


class DeltaEviction(Eviction):
    def __init__(self, policy: Delta) -> None:
        self._delta = policy.delta
        self._read = reader(policy)

    def read(self, row: Any, sub: Subwindow | None) -> Any:
        return self._read(row, None if sub is None else sub.last_value)

    def full_before(self, sub: Subwindow, value: Any) -> bool:
        return self.evicts(sub, value)

    def evicts(self, sub: Subwindow, value: Any) -> bool:
        return bool(sub.values) and value - sub.values[0] > self._delta

    def inserted(self, sub: Subwindow, value: Any, now: int) -> None:
        sub.values.append(value)
        sub.last_value = value

    def evicted(self, sub: Subwindow) -> None:
        sub.values.popleft()


class TimeEviction(Eviction):
    """By the clock: a tuple stays as long as it is not older than the window."""

    def __init__(self, policy: Time) -> None:
        self._us = policy.us

    def evicts(self, sub: Subwindow, value: Any) -> bool:
        """`value` is the time."""
        return bool(sub.arrivals) and value - sub.arrivals[0] > self._us

    def inserted(self, sub: Subwindow, value: Any, now: int) -> None:
        sub.arrivals.append(now)

    def evicted(self, sub: Subwindow) -> None:
        sub.arrivals.popleft()

    def due(self, sub: Subwindow) -> int:
        """When the oldest tuple must go."""
        return sub.arrivals[0] + self._us + 1 if sub.arrivals else NEVER


def eviction(policy: Count | Delta | Time) -> Eviction:
    """The policy at work."""
    if isinstance(policy, Count):
        return CountEviction(policy)
    return DeltaEviction(policy) if isinstance(policy, Delta) else TimeEviction(policy)
