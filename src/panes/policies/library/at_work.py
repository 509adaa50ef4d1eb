"""Policies of containers at work: what leaves a sliding window, when it is processed, and what a delta reads.

An eviction is asked, in the order of an arrival: what it reads of the tuple, whether the window was full before it,
which tuples go, what to note of the tuple that comes in, and whether the window is full after it. Each owns what
insertion writes down for it. The rules are those of the loop over batches (kernels.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any

from panes.errors import DataError
from panes.policies.library.partitions import NEVER, Subwindow
from panes.policies.library.specs import Count, Delta, Time, text
from panes.policies.rules import counted, is_beyond, leaves_by_count
from panes.units import is_number, nanos_since_epoch


class Keeps(ABC):
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


class KeepsCount(Keeps):
    def __init__(self, policy: Count) -> None:
        self._n = policy.size
        self.keeps = policy.size > 0

    def evicts(self, sub: Subwindow, value: Any) -> bool:
        return leaves_by_count(sub.size, self._n)

    def inserted(self, sub: Subwindow, value: Any, now: int) -> None:
        pass

    def evicted(self, sub: Subwindow) -> None:
        pass

    def full_after(self, sub: Subwindow) -> bool:
        return sub.size >= self._n


class KeepsDelta(Keeps):
    def __init__(self, policy: Delta) -> None:
        self._delta = policy.threshold
        self._read = reader(policy)

    def read(self, row: Any, sub: Subwindow | None) -> Any:
        return self._read(row, None if sub is None else sub.last_value)

    def full_before(self, sub: Subwindow, value: Any) -> bool:
        return self.evicts(sub, value)

    def evicts(self, sub: Subwindow, value: Any) -> bool:
        return bool(sub.values) and is_beyond(value, sub.values[0], self._delta)

    def inserted(self, sub: Subwindow, value: Any, now: int) -> None:
        sub.values.append(value)
        sub.last_value = value

    def evicted(self, sub: Subwindow) -> None:
        sub.values.popleft()


class KeepsTime(Keeps):
    """By the clock: a tuple stays as long as it is not older than the window."""

    def __init__(self, policy: Time) -> None:
        self._us = policy.us

    def evicts(self, sub: Subwindow, value: Any) -> bool:
        """`value` is the time."""
        return bool(sub.arrivals) and is_beyond(value, sub.arrivals[0], self._us)

    def inserted(self, sub: Subwindow, value: Any, now: int) -> None:
        sub.arrivals.append(now)

    def evicted(self, sub: Subwindow) -> None:
        sub.arrivals.popleft()

    def due(self, sub: Subwindow) -> int:
        """When the oldest tuple must go."""
        return sub.arrivals[0] + self._us + 1 if sub.arrivals else NEVER


def keeping(policy: Count | Delta | Time) -> Keeps:
    """The policy at work."""
    if isinstance(policy, Count):
        return KeepsCount(policy)
    return KeepsDelta(policy) if isinstance(policy, Delta) else KeepsTime(policy)


class Fires(ABC):
    """A trigger policy at work."""

    def read(self, row: Any, sub: Subwindow | None) -> Any:
        return None

    @abstractmethod
    def fires(self, sub: Subwindow, value: Any) -> bool:
        """Note the arriving tuple; whether the window is processed for it."""


class FiresByCount(Fires):
    def __init__(self, policy: Count) -> None:
        self._m = policy.size

    def fires(self, sub: Subwindow, value: Any) -> bool:
        sub.counter = counted(sub.counter, self._m)
        return sub.counter == 0


class FiresByDelta(Fires):
    """Counts from the first tuple of the subwindow, then from the last one that triggered, even if it has left."""

    def __init__(self, policy: Delta) -> None:
        self._delta = policy.threshold
        self._read = reader(policy)

    def read(self, row: Any, sub: Subwindow | None) -> Any:
        return self._read(row, None if sub is None else sub.last_trigger_value)

    def fires(self, sub: Subwindow, value: Any) -> bool:
        sub.last_trigger_value = value
        if sub.baseline is None:
            sub.baseline = value
            return False
        if not is_beyond(value, sub.baseline, self._delta):
            return False
        sub.baseline = value
        return True


class FiresByTime(Fires):
    """By the clock, every `us` since the subwindow began, whether tuples come or not."""

    def __init__(self, policy: Time) -> None:
        self.us = policy.us

    def fires(self, sub: Subwindow, value: Any) -> bool:
        return False


def firing(policy: Count | Delta | Time) -> Fires:
    """The policy at work."""
    if isinstance(policy, Count):
        return FiresByCount(policy)
    return FiresByDelta(policy) if isinstance(policy, Delta) else FiresByTime(policy)


def reader(policy: Delta) -> Callable[[Any, Any], Any]:
    """A function of (tuple, value of the tuple before it in the subwindow or None) to the value to compare."""
    extract = policy.attribute if callable(policy.attribute) else _named(policy)

    def read(row: Any, before: Any) -> Any:
        value = _number(extract(row), row, policy)
        if before is not None and value < before:
            raise DataError(
                f"{text(policy)}: the attribute fell from {before} to {value} at {row!r}; a delta policy needs an "
                "attribute that never decreases"
            )
        return value

    return read


def _named(policy: Delta) -> Callable[[Any], Any]:
    name = str(policy.attribute)

    def extract(row: Any) -> Any:
        try:
            return row[name] if isinstance(row, Mapping) else getattr(row, name)
        except (KeyError, AttributeError):
            raise DataError(f"{text(policy)}: the tuple {row!r} has no attribute {name!r}") from None

    return extract


def _number(value: Any, row: Any, policy: Delta) -> Any:
    if is_number(value) and value == value:
        return value
    if isinstance(value, (datetime, date)):
        return nanos_since_epoch(value) // 1000
    raise DataError(f"{text(policy)}: {value!r} at {row!r} is no number and no point in time, it has no difference")
