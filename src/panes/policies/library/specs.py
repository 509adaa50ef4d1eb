"""The policies of the window library as small frozen values, checked when they are written.

`count(n)`, `delta(attribute, d)`, `time(size)` and `punct()` say when a window is full or processed: the values of
`pn.policies`, without what only policy windows have, and `punct()`, for punctuations of the stream itself.
`partition_count(r)`, `tuple_count(r)` and `partition_age(size)` bound a partitioned window. Sizes of time are durations
("10 s") or bare numbers: microseconds of a window's clock, and ticks of a stream whose time is a number.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Literal

from panes.errors import QueryError
from panes.policies.rules import EUCLIDEAN
from panes.policies.specs import CLOCK, Count, Delta, Time
from panes.units import Calendar, Duration, is_number, parse_duration

Select = Literal["lru", "lfu", "oldest", "user"]
SELECTS: tuple[str, ...] = ("lru", "lfu", "oldest", "user")

#: What a container's policy can't say, and a policy window's can.
_OPTIONS: dict[type, dict[str, Any]] = {
    Count: {"start": None, "delete": None},
    Time: {"delay": None, "start": None, "on": None, "active": True, "border_on_row": False, "thread": False},
    Delta: {"start": None, "function": EUCLIDEAN},
}


@dataclass(frozen=True)
class Punct:
    """Window punctuations of the stream."""

    kind: ClassVar[str] = "punct"

    def __repr__(self) -> str:
        return "punct()"


@dataclass(frozen=True)
class _AtMost:
    kind: ClassVar[str]
    most: int

    def __repr__(self) -> str:
        return f"{self.kind}({self.most})"


class PartitionCount(_AtMost):
    """At most so many subwindows."""

    kind = "partition_count"


class TupleCount(_AtMost):
    """At most so many tuples in all subwindows together."""

    kind = "tuple_count"


@dataclass(frozen=True)
class PartitionAge:
    """No subwindow that was not modified for longer than this, in microseconds; `bare` as of `Time`."""

    kind: ClassVar[str] = "partition_age"
    us: int
    bare: bool = False

    @property
    def written(self) -> int | Duration:
        """The size as it was meant."""
        return self.us if self.bare else Duration(self.us * 1000)

    def __repr__(self) -> str:
        return f"partition_age({self.us if self.bare else repr(str(self.written))})"


Policy = Count | Delta | Time | Punct
PartitionPolicy = PartitionCount | TupleCount | PartitionAge


def count(n: int) -> Count:
    """So many tuples. As the eviction of a sliding window, `count(0)` keeps none at all."""
    return Count(_whole(n, "count", "n", least=0))


def delta(attribute: Any, delta: Any = None, *, on: Any = None) -> Delta:
    """A difference of an attribute (its name, or a function of the tuple) greater than `delta`, a number or duration.

    Attributes that are points in time differ in microseconds: `delta("ts", "10 s")`. As `pn.policies` write it, with
    the difference first: `delta(10, on="ts")`.
    """
    if on is not None:
        attribute, delta = on, attribute
    if not (isinstance(attribute, str) and attribute) and not callable(attribute):
        raise QueryError(f"delta(attribute={attribute!r}): an attribute is a name, or a function of the tuple")
    if isinstance(delta, (str, timedelta)):
        return Delta(_microseconds(delta, "delta", "delta", least=0), (attribute,))
    if not is_number(delta) or not 0 <= delta < float("inf"):
        raise QueryError(f"delta(delta={delta!r}): a difference must be a number, zero or more")
    return Delta(delta, (attribute,))


def time(size: int | str | timedelta) -> Time:
    """So much time of the window's clock: a duration ("10 s"), or microseconds; ticks, where time is a number."""
    _microseconds(size, "time", "size", least=1)
    return Time(size)


def punct() -> Punct:
    """Where the stream says that a window ends. Only tumbling windows can be punctuated."""
    return Punct()


def partition_count(most: int) -> PartitionCount:
    """Evict a subwindow when there are more than `most`."""
    return PartitionCount(_whole(most, "partition_count", "most", least=1))


def tuple_count(most: int) -> TupleCount:
    """Evict subwindows while all of them together hold more than `most` tuples."""
    return TupleCount(_whole(most, "tuple_count", "most", least=1))


def partition_age(size: int | str | timedelta) -> PartitionAge:
    """Drop subwindows that no tuple came to for longer than this: a duration ("1 h"), or a number as in `time`."""
    return PartitionAge(_microseconds(size, "partition_age", "size", least=1), is_number(size))


def check_plain(policy: Policy, where: str) -> None:
    """Refuse what only policies of `pn.policy` can say."""
    for name, default in _OPTIONS.get(type(policy), {}).items():
        if getattr(policy, name) != default:
            raise QueryError(f"{where}: {policy!r}: {name}= is for pn.policy(...), which asks its policies otherwise")
    if isinstance(policy, Delta) and len(policy.on) > 1:
        raise QueryError(f"{where}: {policy!r}: a window compares one attribute; pn.policy(...) takes several")


def text(policy: Any) -> str:
    """The call that makes a policy, as clauses show it and snapshots of windows name it."""
    if isinstance(policy, Time):
        size = policy.size
        return f"time({size if is_number(size) else repr(str(parse_duration(size)))})"
    if isinstance(policy, Delta):
        return f"delta({policy.attribute!r}, {policy.threshold})"
    return repr(policy)


def _whole(value: Any, policy: str, argument: str, *, least: int) -> int:
    if not is_number(value) or value != value or abs(value) > 2**62 or int(value) != value:
        raise QueryError(f"{policy}({argument}={value!r}): must be a whole number, it counts")
    if value < least:
        raise QueryError(f"{policy}({argument}={value!r}): must be at least {least}, a window can't hold fewer")
    return int(value)


def _microseconds(size: Any, policy: str, argument: str, *, least: int) -> int:
    argument = f"{policy}({argument})"
    if isinstance(size, (str, timedelta)):
        parsed = parse_duration(size, argument=argument)
        if isinstance(parsed, Calendar):
            raise QueryError(f"{argument}={size!r}: months and years vary in length, a clock can't count them")
        size = parsed
    us = CLOCK.ticks(size, argument=argument, positive=False)
    if us < least:
        raise QueryError(f"{argument}={size!r} must be {'positive' if least else 'zero or more'}")
    return us
