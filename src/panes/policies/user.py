"""Policies that users write: four small base classes, one per kind (SPEC P-06..P-09, P-40).

A policy is an object with state of its own. The object given to `pn.policy` stays as it is: each key works with a
`clone()` of it, made when the key is first seen. A policy sees only what it is told, never the other policies.
Rows are dicts with the values of `columns` and, under `TIME`, the event time in ticks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any, NamedTuple, TypeVar

from panes.clock import Clock
from panes.windows.base import Part

#: the key of a row's event time, in ticks of the stream's time column
TIME = "event time"
#: what borders that a policy declares are measured in
BY_ROWS, BY_TIME = "rows", "time"
Row = Mapping[str, Any]
Own = TypeVar("Own", bound="UserPolicy")


class Tick(NamedTuple):
    """A timer tick that has a time: its result ends there, not at the row before which it is sent.

    `item` is what evictions are asked about; the time itself unless given. Timer ticks of several triggers come in
    the order of their times, and those without one after them.
    """

    at: int
    item: Any = None

    @property
    def seen(self) -> Any:
        """What evictions see."""
        return self.at if self.item is None else self.item


class UserPolicy(Part, ABC):
    """What all policies of users share."""

    #: SQL expressions over the row that the policy reads
    columns: tuple[str, ...] = ()

    def clone(self: Own) -> Own:
        """A policy in the state in which this one was given."""
        return deepcopy(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


class Trigger(UserPolicy):
    """Says at each row whether the rows held are a result, before that row enters.

    A trigger that knows in advance when it fires may say so: `scale` is "rows" or "time", and `next_trigger` the first
    end of a window after a number of rows of the key, or after a time. Beside an eviction that knows where its windows
    begin, on the same scale, rows are then reduced from border to border.
    """

    #: "rows" or "time" if `next_trigger` says when it fires, whatever the rows are
    scale: str | None = None

    def next_trigger(self, previous: int) -> int:
        """The first end of a window after `previous`."""
        raise NotImplementedError

    @abstractmethod
    def notify(self, row: Row) -> bool:
        """Called once for each row, whatever other triggers say."""


class ActiveTrigger(Trigger):
    """A trigger that also makes timer ticks: each gives a result by itself, between two rows."""

    def before(self, row: Row) -> Iterable[Any]:
        """Timer ticks to send before this row is looked at: of any class, in order, or `Tick`s with a time."""
        return ()

    def start(self, send: Callable[[Any], None], clock: Clock) -> None:
        """Called once for each clone in a live window: keep `send` and call it at moments of `clock`, or do nothing."""


class Eviction(UserPolicy):
    """Says at each row how many of the oldest rows leave, before that row enters.

    An eviction that knows in advance where windows begin may say so, as a `Trigger` may when they end.
    """

    #: "rows" or "time" if `lower_border` says where windows begin, whatever the rows are
    scale: str | None = None

    def lower_border(self, upper: int) -> int:
        """Where the window that ends at `upper` begins: the position or time of the first row that it may hold."""
        raise NotImplementedError

    @abstractmethod
    def notify(self, row: Row, triggered: bool, size: int) -> int:
        """`triggered`: whether the row gave a result; `size`: how many rows are held now."""


class ActiveEviction(Eviction):
    """An eviction that is asked for timer ticks too."""

    @abstractmethod
    def notify_fake(self, fake: Any, size: int) -> int:
        """How many of the oldest rows leave before the timer tick gives its result."""
