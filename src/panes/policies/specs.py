"""The built-in policies as small frozen values: `count(3)`, `time("5 s")`, `any_of(count(100), time("1 min"))`.

Count, time, delta and punctuation serve as trigger and as eviction; where a value is given decides which it is, and
options of the other role are refused there. `check_trigger` and `check_eviction` are that rule. The containers of the
window library, and the operators that are made of them, take the same counts, times and deltas.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

from panes.errors import DataError, QueryError
from panes.policies.rules import COSINE, EUCLIDEAN
from panes.policies.user import BY_ROWS, BY_TIME, ActiveEviction, ActiveTrigger, Eviction, Trigger, UserPolicy
from panes.units import MAX_TICKS, Rows, TimeDomain, is_number
from panes.windows.base import Part
from panes.windows.spec import call, expression, size_argument

MOST = 2**31 - 1
#: timer ticks that one row, or one batch, may bring about
MOST_FAKES = 10_000_000
#: Clocks count microseconds, and so do bare numbers where time is that of a clock.
CLOCK = TimeDomain("us", integer=True)


@dataclass(frozen=True, repr=False)
class Count(Part):
    """So many rows: see `count`. In a container also none, which keeps nothing."""

    kind: ClassVar[str] = "count"
    size: int
    start: int | None = None
    delete: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.size, Rows):
            object.__setattr__(self, "size", self.size.count)
        _whole(self.size, "count: size", least=0, most=MAX_TICKS)
        if self.start is not None:
            _whole(self.start, "count: start", least=-MOST)
        if self.delete is not None:
            _whole(self.delete, "count: delete", least=1)

    def __repr__(self) -> str:
        return call("count", self.size, start=self.start, delete=self.delete)


@dataclass(frozen=True, repr=False)
class Time(Part):
    """See `time`."""

    kind: ClassVar[str] = "time"
    size: Any
    delay: Any = None
    start: Any = None
    on: str | None = None
    active: bool = True
    border_on_row: bool = False
    thread: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.size, Rows):
            raise QueryError(f"time({self.size!r}): a time policy has a duration; for rows there is count(n)")
        object.__setattr__(self, "size", size_argument(self.size, "time: size"))
        if self.delay is not None:
            object.__setattr__(self, "delay", size_argument(self.delay, "time: delay", positive=False))
        if self.on is not None:
            expression(self.on, "time: on")
        for name in ("active", "border_on_row", "thread"):
            if not isinstance(getattr(self, name), bool):
                raise QueryError(f"time: {name}={getattr(self, name)!r} must be True or False")
        if not self.active and (self.border_on_row or self.thread):
            raise QueryError("time: active=False leaves nothing that border_on_row or thread could be said of")
        if self.thread and (self.border_on_row or self.on is not None):
            raise QueryError(
                "time: thread=True goes by the clock of the stream, so it can't wait for a row "
                "(border_on_row) nor look at a column (on)"
            )

    def __repr__(self) -> str:
        options = {name: getattr(self, name) or None for name in ("delay", "start", "on", "border_on_row", "thread")}
        return call("time", self.size, **options, active=None if self.active else False)

    @property
    def us(self) -> int:
        """The size in microseconds of a clock."""
        return CLOCK.ticks(self.size, argument="time: size")

    def resolve(self, domain: TimeDomain) -> Time:
        """The same in ticks of the stream's time, or whole numbers of the column `on`."""
        if self.on is not None:
            sizes = {"size": self.size, "delay": 0 if self.delay is None else self.delay, "start": self.start or 0}
            for name, value in sizes.items():
                if not is_number(value) or value != int(value):
                    raise QueryError(f"time: {name}={value!r} on the column {self.on!r} must be a whole number")
            size, delay, start = (int(value) for value in sizes.values())
            return replace(self, size=size, delay=delay, start=start)
        delay = 0 if self.delay is None else domain.ticks(self.delay, argument="time: delay", positive=False)
        start = 0 if self.start is None else domain.point(self.start, argument="time: start")
        return replace(self, size=domain.ticks(self.size, argument="time: size"), delay=delay, start=start)


@dataclass(frozen=True, repr=False)
class Delta(Part):
    """See `delta`. In a container `on` is one attribute of tuples, or a function of them."""

    kind: ClassVar[str] = "delta"
    threshold: float
    on: tuple[Any, ...]
    start: tuple[float, ...] | None = None
    function: Any = EUCLIDEAN

    def __post_init__(self) -> None:
        if not is_number(self.threshold) or math.isnan(self.threshold) or self.threshold < 0:
            raise QueryError(f"delta: threshold={self.threshold!r} must be a number, 0 or more: it bounds a distance")
        object.__setattr__(self, "on", _columns(self.on, "delta: on", functions=True))
        if self.function not in (EUCLIDEAN, COSINE) and not callable(self.function):
            raise QueryError(
                f"delta: function={self.function!r} must be {EUCLIDEAN!r}, {COSINE!r} or a function "
                "f(old, new) -> number of two tuples"
            )
        if self.start is not None:
            start = tuple(self.start) if isinstance(self.start, tuple | list) else (self.start,)
            if len(start) != len(self.on) or not all(is_number(v) for v in start):
                raise QueryError(f"delta: start={self.start!r} must be a number for each of the columns {self.on}")
            object.__setattr__(self, "start", tuple(float(v) for v in start))

    def __repr__(self) -> str:
        on = self.on[0] if len(self.on) == 1 else self.on
        start = None if self.start is None else self.start[0] if len(self.start) == 1 else self.start
        return call("delta", self.threshold, on=on, start=start, function=_unless(self.function, EUCLIDEAN))

    @property
    def attribute(self) -> Any:
        """What it compares, if that is one column."""
        return self.on[0]


@dataclass(frozen=True, repr=False)
class Punctuation(Part):
    """See `punctuation`."""

    sample: Any
    on: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "on", _columns(self.on, "punctuation: on"))
        if len(self.on) > 1 and (not isinstance(self.sample, tuple) or len(self.sample) != len(self.on)):
            raise QueryError(f"punctuation: sample={self.sample!r} must be a tuple with a value for each of {self.on}")

    def __repr__(self) -> str:
        return call("punctuation", self.sample, on=self.on[0] if len(self.on) == 1 else self.on)

    @property
    def wanted(self) -> tuple[Any, ...]:
        """The sample, one value per column."""
        return self.sample if len(self.on) > 1 else (self.sample,)


@dataclass(frozen=True, repr=False)
class Tumble(Part):
    """See `tumble`."""

    def __repr__(self) -> str:
        return "tumble()"


@dataclass(frozen=True, repr=False)
class Active(Part):
    """See `active`."""

    eviction: Any

    def __post_init__(self) -> None:
        inner = self.eviction
        if isinstance(inner, ActiveEviction | Active | Evictions):
            raise QueryError(f"active({inner!r}): it is asked for timer ticks anyway, and wrapping would hide how")
        if isinstance(inner, Count) and inner.start is not None:
            raise QueryError(f"active({inner!r}): start= counts rows, and a timer tick is none")
        check_eviction(inner, "active")

    def __repr__(self) -> str:
        return f"active({self.eviction!r})"


@dataclass(frozen=True, repr=False)
class Triggers(Part):
    """Several triggers as one: see `any_of`, `all_of`, `exactly_one_of`."""

    rule: str  # "any_of" | "all_of" | "exactly_one_of"
    nested: tuple[Any, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "nested", tuple(check_trigger(p, self.rule) for p in self.nested))

    def __repr__(self) -> str:
        return f"{self.rule}({', '.join(map(repr, self.nested))})"


@dataclass(frozen=True, repr=False)
class Evictions(Part):
    """Several evictions as one: see `largest`, `smallest`, `total`, `first_of`."""

    rule: str  # "largest" | "smallest" | "total" | "first_of"
    nested: tuple[Any, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "nested", tuple(check_eviction(p, self.rule) for p in self.nested))
        if any(clears_after(p) for p in self.nested):
            raise QueryError(
                f"{self.rule}: active(tumble()) lets rows go when a result has been given, which the others don't wait "
                "for: put it beside, evict=[active(tumble()), ...]"
            )

    def __repr__(self) -> str:
        return f"{self.rule}({', '.join(map(repr, self.nested))})"


TriggerPolicy: TypeAlias = "Count | Time | Delta | Punctuation | Triggers | Trigger"
EvictionPolicy: TypeAlias = "Count | Time | Delta | Punctuation | Tumble | Active | Evictions | Eviction"


def count(size: int, *, start: int | None = None, delete: int | None = None) -> Count:
    """As a trigger: at every `size` rows. As an eviction: keep at most `size`, and let `delete` (1) go when full.

    `start` is where counting begins: a negative one delays the first trigger, or the first eviction.

    >>> count(3, start=-1)
    count(3, start=-1)
    """
    _whole(size.count if isinstance(size, Rows) else size, "count: size", least=1)
    return Count(size, start, delete)


def time(
    size: Any,
    *,
    delay: Any = None,
    start: Any = None,
    on: str | None = None,
    active: bool = True,
    border_on_row: bool = False,
    thread: bool = False,
) -> Time:
    """As a trigger: at the borders start + delay + size, then every `size`. As an eviction: what is older leaves.

    Borders that no row meets get a window too, by timer ticks sent before the next row, unless `active=False`.
    `thread=True`: by the clock of the stream, without waiting for a row of the key. `border_on_row=True`: a row that
    lies on a border triggers itself, as in the source of the idea. `on`: an advancing whole-number column instead of
    the event time.

    >>> time("5 s", delay="1 s")
    time("5 s", delay="1 s")
    """
    return Time(size, delay, start, on, active, border_on_row, thread)


def delta(threshold: float, *, on: Any, start: Any = None, function: Any = EUCLIDEAN) -> Delta:
    """As a trigger: a row further than `threshold` from the row of the last trigger. As an eviction: old rows that far.

    `on` is a column, an SQL expression, or several of them; `function` is "euclidean", "cosine" or your own
    f(old, new) of two tuples. `start` is what the first row is compared with; without it the first row that has
    values takes that place.

    >>> delta(3, on="price * qty", start=0)
    delta(3, on="price * qty", start=0.0)
    """
    return Delta(threshold, on, start, function)


def punctuation(sample: Any, *, on: Any) -> Punctuation:
    """At rows where `on` (a column, an expression, or several) equals `sample`; as an eviction all rows held leave.

    >>> punctuation("end", on="kind")
    punctuation("end", on="kind")
    """
    return Punctuation(sample, on)


def tumble() -> Tumble:
    """All rows leave whenever a row triggers; with `active(tumble())` also after the result of a timer tick."""
    return Tumble()


def active(eviction: EvictionPolicy) -> Active:
    """An eviction that is asked for timer ticks as if they were rows that triggered.

    Of a timer tick that is no row, such as the border of a time trigger, time policies know the time, and delta and
    punctuation policies nothing, so they let no row go. A row of another key under a central trigger has values.

    >>> active(punctuation("end", on="kind"))
    active(punctuation("end", on="kind"))
    """
    return Active(eviction)


def any_of(*triggers: TriggerPolicy) -> Triggers:
    """Triggers when at least one does. Timer ticks of any of them count, here and in the other two."""
    return Triggers("any_of", triggers)


def all_of(*triggers: TriggerPolicy) -> Triggers:
    """Triggers when all do at the same row."""
    return Triggers("all_of", triggers)


def exactly_one_of(*triggers: TriggerPolicy) -> Triggers:
    """Triggers when one does and the others don't."""
    return Triggers("exactly_one_of", triggers)


def largest(*evictions: EvictionPolicy) -> Evictions:
    """As many rows leave as the greediest of them says."""
    return Evictions("largest", evictions)


def smallest(*evictions: EvictionPolicy) -> Evictions:
    """As many rows leave as the most modest of them says; all rows, if none of them is asked."""
    return Evictions("smallest", evictions)


def total(*evictions: EvictionPolicy) -> Evictions:
    """As many rows leave as all of them say together."""
    return Evictions("total", evictions)


def first_of(*evictions: EvictionPolicy) -> Evictions:
    """The first of them that lets rows go decides how many."""
    return Evictions("first_of", evictions)


def check_trigger(value: Any, argument: str) -> Any:
    """`value`, if it can be a trigger; else QueryError."""
    _check_rows(value, argument)
    if isinstance(value, Count) and value.delete is not None:
        raise QueryError(f"{argument}: {value!r}: delete= says what an eviction lets go; a trigger has none")
    if isinstance(value, Eviction | Tumble | Active | Evictions):
        raise QueryError(f"{argument}: {value!r} is an eviction policy; it can't say when a result is due")
    if not isinstance(value, Count | Time | Delta | Punctuation | Triggers | Trigger):
        raise QueryError(f"{argument}: {value!r} is no trigger policy, such as pn.policies.count(3)")
    if isinstance(value, Trigger):
        _check_declared(value, argument, "next_trigger", type(value).next_trigger is not Trigger.next_trigger)
    return value


def check_eviction(value: Any, argument: str) -> Any:
    """`value`, if it can be an eviction; else QueryError."""
    _check_rows(value, argument)
    if isinstance(value, Time):
        given = [n for n in ("delay", "start", "border_on_row", "thread") if getattr(value, n)]
        if given:
            raise QueryError(f"{argument}: {value!r}: {given[0]}= says when a trigger fires; an eviction has none")
    if isinstance(value, Delta) and value.start is not None:
        raise QueryError(f"{argument}: {value!r}: start= is where a trigger begins; an eviction compares held rows")
    if isinstance(value, Trigger | Triggers):
        raise QueryError(f"{argument}: {value!r} is a trigger policy; it can't say how many rows leave")
    if not isinstance(value, Count | Time | Delta | Punctuation | Tumble | Active | Evictions | Eviction):
        raise QueryError(f"{argument}: {value!r} is no eviction policy, such as pn.policies.count(3)")
    if isinstance(value, Eviction):
        _check_declared(value, argument, "lower_border", type(value).lower_border is not Eviction.lower_border)
    return value


def _check_rows(value: Any, argument: str) -> None:
    """Counts and deltas must be those of rows; containers take more."""
    if isinstance(value, Count):
        _whole(value.size, f"{argument}: count: size", least=1)
    if isinstance(value, Delta) and any(map(callable, value.on)):
        raise QueryError(f"{argument}: {value!r}: on= must be a column or SQL expression; functions are of tuples")


def _check_declared(policy: Trigger | Eviction, argument: str, method: str, defined: bool) -> None:
    if policy.scale not in (None, BY_ROWS, BY_TIME):
        raise QueryError(f"{argument}: {policy!r}: scale={policy.scale!r} must be {BY_ROWS!r}, {BY_TIME!r} or None")
    if policy.scale is not None and not defined:
        raise QueryError(f"{argument}: {policy!r} has scale={policy.scale!r}, so it must define {method}")


def is_active(policy: Any) -> bool:
    """Whether a policy makes timer ticks (trigger) or is asked for them (eviction)."""
    if isinstance(policy, Time):
        return policy.active
    return isinstance(policy, ActiveTrigger | ActiveEviction | Active | Triggers | Evictions)


def clears_after(policy: Any) -> bool:
    """Whether an eviction lets all rows go after the result of a timer tick; others do so before it."""
    return isinstance(policy, Active) and isinstance(policy.eviction, Tumble)


def leaves(policy: Any) -> Iterator[Any]:
    """All policies inside a policy that are not made of others, in order; an `Active` is one of them."""
    if isinstance(policy, Triggers | Evictions):
        for inner in policy.nested:
            yield from leaves(inner)
    else:
        yield policy


def resolved(policy: Any, domain: TimeDomain) -> Any:
    """A policy with all units as whole numbers."""
    if isinstance(policy, Time):
        return policy.resolve(domain)
    if isinstance(policy, Active) and isinstance(policy.eviction, Time):
        return replace(policy.eviction.resolve(domain), active=True)  # a timer tick has a time, as a row has
    if isinstance(policy, Triggers | Evictions):
        return replace(policy, nested=tuple(resolved(p, domain) for p in policy.nested))
    return policy


def columns_of(policy: Any) -> tuple[str, ...]:
    """The SQL expressions that a policy looks at."""
    if isinstance(policy, Active):
        return columns_of(policy.eviction)
    if isinstance(policy, Time):
        return () if policy.on is None else (policy.on,)
    if isinstance(policy, Delta | Punctuation):
        return policy.on
    return tuple(policy.columns) if isinstance(policy, UserPolicy) else ()


def written_in_python(policy: Any) -> bool:
    """Whether a leaf runs a user's own Python code."""
    if isinstance(policy, Active):
        return written_in_python(policy.eviction)
    return isinstance(policy, UserPolicy) or (isinstance(policy, Delta) and callable(policy.function))


def too_many(triggers: Sequence[Any], time: int, *, users: bool = False) -> DataError:
    """What to say of more than MOST_FAKES timer ticks up to a time. `users`: their evictions must see each of them."""
    what, cure = "windows, one for each border without a row", "give start=, a larger size, or an eviction by time"
    if users:
        what, cure = "borders that your own evictions are asked about", "give start= or a larger size"
    given = ", ".join(map(repr, triggers))
    return DataError(f"{given}: up to the row at time {time} there would be more than ten million {what}; {cure}")


def _whole(value: Any, what: str, *, least: int, most: int = MOST) -> None:
    if not is_number(value) or value != int(value) or not least <= value <= most:
        raise QueryError(f"{what}={value!r} must be a whole number from {least} to {most}")


def _columns(on: Any, argument: str, *, functions: bool = False) -> tuple[Any, ...]:
    given = tuple(on) if isinstance(on, tuple | list) else (on,)
    if not given:
        raise QueryError(f"{argument} needs at least one column")
    return tuple(each if functions and callable(each) else expression(each, argument) for each in given)


def _unless(value: Any, default: Any) -> Any:
    return None if value == default else value
