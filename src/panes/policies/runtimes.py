"""Policies at work in Python, one row at a time: the built-in ones, and a shell around those that users write.

In flow the values of specs.py (units resolved) and objects of users; out flow `RunningTrigger`s and `RunningEviction`s
with the state of one key, for rows that are Python objects: beside users' own policies, and in live windows. Rules are
those of the loops (evictions.py, triggers.py). What users' code returns is checked here, so that nonsense stops with
the policy and the row named. Snapshots pickle these objects, so their names and attributes stay.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

import numpy as np

from panes.errors import DataError, calling, raise_named
from panes.policies import specs
from panes.policies.program import RULES
from panes.policies.rules import (
    COSINE,
    EUCLIDEAN,
    MIN,
    borders_due,
    cosine,
    count_leaves,
    euclidean,
    is_beyond,
    joined,
)
from panes.policies.specs import (
    MOST,
    Active,
    Count,
    Delta,
    Evictions,
    Punctuation,
    Time,
    Triggers,
    Tumble,
    leaves,
)
from panes.policies.user import TIME, ActiveEviction, ActiveTrigger, Eviction, Tick, Trigger

# what timer ticks before the same row go by: event time, the column of a time policy, or nothing but the row
_TIMED, _SCALED, _BY_ROW = 0, 1, 2


class Sent(NamedTuple):
    """A timer tick on its way: its place among those before the same row, itself, and when its result is."""

    place: tuple[int, int]
    item: Any
    when: int | None  # None: at the time of the row


class RunningTrigger:
    """A trigger with the state of one key."""

    active = False

    def notify(self, row: Any) -> bool:
        raise NotImplementedError

    def before(self, row: Any) -> Iterable[Sent]:
        """Timer ticks to send before a row, in the order of their places."""
        return ()


def sent_before(row: Any, triggers: Sequence[RunningTrigger]) -> Iterable[Sent]:
    """Timer ticks of several triggers before a row, merged by their times; ties in the order of the triggers."""
    if len(triggers) == 1:
        return triggers[0].before(row)
    return heapq.merge(*[trigger.before(row) for trigger in triggers], key=itemgetter(0))


class RunningEviction:
    """An eviction with the state of one key."""

    active = False
    #: lets all rows go after the result of a timer tick, not before
    clears = False

    def notify(self, row: Any, triggered: bool, size: int) -> int:
        raise NotImplementedError

    def notify_fake(self, fake: Any, size: int) -> int:
        raise NotImplementedError

    def as_row(self, fake: Any, size: int) -> int:
        """A timer tick taken for a row that triggers; it is not kept."""
        return self.notify(fake, True, size)


class CountTrigger(RunningTrigger):
    def __init__(self, spec: Count) -> None:
        self.most, self.counter = spec.size, spec.start or 0

    def notify(self, row: Any) -> bool:
        if self.counter >= self.most:
            self.counter = 1
            return True
        self.counter += 1
        return False


class CountEviction(RunningEviction):
    def __init__(self, spec: Count, resync: bool) -> None:
        self.most, self.delete, self.counter, self.resync = spec.size, spec.delete or 1, spec.start or 0, resync

    def notify(self, row: Any, triggered: bool, size: int) -> int:
        n, self.counter = count_leaves(self.counter, size, self.most, self.delete, self.resync)
        return n


class TimeTrigger(RunningTrigger):
    """`border` is the next one that has not been given."""

    def __init__(self, spec: Time) -> None:
        self.spec, self.column = spec, TIME if spec.on is None else spec.on
        self.active = spec.active
        self.border = spec.start + spec.delay + spec.size
        self.limit = 1 if spec.border_on_row else 0

    def before(self, row: Any) -> Iterable[Sent]:
        timed = self.spec.on is None
        for border in self.until(row[self.column] - self.limit):
            yield Sent((_TIMED if timed else _SCALED, border), border, border if timed else None)

    def until(self, moment: int) -> Iterable[int]:
        """Borders up to a moment, each given once whoever asks first."""
        while self.border <= moment:
            border, self.border = self.border, self.border + self.spec.size
            yield border

    def skip(self, moment: int) -> None:
        """Borders up to a moment give nothing."""
        if self.border <= moment:
            self.border += self.due(moment) * self.spec.size

    def due(self, moment: int) -> int:
        """How many borders there are up to a moment."""
        return borders_due(self.border, moment, self.spec.size)

    def notify(self, row: Any) -> bool:
        if self.active and not self.limit:
            return False
        now = row[self.column]
        fires = bool(self.border <= now)
        self.skip(now)
        return fires


class QueueEviction(RunningEviction):
    """Compares the rows that are held with the one that comes: those that are too far leave."""

    queue: deque[Any]

    def is_far(self, old: Any, now: Any) -> bool:
        raise NotImplementedError

    def leaving(self, now: Any, size: int) -> int:
        queue, n = self.queue, 0
        while len(queue) > size:
            queue.popleft()
        while queue and self.is_far(queue[0], now):
            queue.popleft()
            n += 1
        return n

    def for_one_more(self, now: Any, size: int) -> int:
        n = self.leaving(now, size)
        self.queue.append(now)
        return n


class TimeEviction(QueueEviction):
    def __init__(self, spec: Time) -> None:
        self.size, self.column, self.active = spec.size, TIME if spec.on is None else spec.on, spec.active
        self.queue = deque()

    def is_far(self, old: int, now: int) -> bool:
        return is_beyond(now, old, self.size)

    def notify(self, row: Any, triggered: bool, size: int) -> int:
        return self.for_one_more(row[self.column], size)

    def notify_fake(self, fake: Any, size: int) -> int:
        now = fake.get(self.column) if isinstance(fake, Mapping) else fake
        if isinstance(now, bool) or not isinstance(now, int | np.integer):
            raise DataError(f"time({self.size}) was sent the timer tick {fake!r}: it needs a time, a whole number")
        return self.leaving(now, size)

    as_row = notify_fake


class DeltaTrigger(RunningTrigger):
    def __init__(self, spec: Delta) -> None:
        self.spec, self.last = spec, spec.start

    def notify(self, row: Any) -> bool:
        now = numbers(row, self.spec.on)
        if self.last is None:
            self.last = None if any(v != v for v in now) else now
            return False
        if distance(self.spec, self.last, now) > self.spec.threshold:
            self.last = now
            return True
        return False


class DeltaEviction(QueueEviction):
    def __init__(self, spec: Delta) -> None:
        self.spec = spec
        self.queue = deque()

    def is_far(self, old: tuple[float, ...], now: tuple[float, ...]) -> bool:
        return distance(self.spec, old, now) > self.spec.threshold

    def notify(self, row: Any, triggered: bool, size: int) -> int:
        return self.for_one_more(numbers(row, self.spec.on), size)

    def as_row(self, fake: Any, size: int) -> int:
        if not isinstance(fake, Mapping):
            return 0
        return self.leaving(numbers({c: fake.get(c) for c in self.spec.on}, self.spec.on), size)


class Match(RunningTrigger, RunningEviction):  # type: ignore[misc]
    """Punctuation in both roles."""

    def __init__(self, spec: Punctuation) -> None:
        self.pairs = tuple(zip(spec.on, spec.wanted))

    def _matches(self, row: Any) -> bool:
        return all(row[column] is not None and bool(row[column] == wanted) for column, wanted in self.pairs)


class MatchTrigger(Match):
    def notify(self, row: Any) -> bool:  # type: ignore[override]
        return self._matches(row)


class MatchEviction(Match):
    def notify(self, row: Any, triggered: bool, size: int) -> int:  # type: ignore[override]
        return size if self._matches(row) else 0

    def as_row(self, fake: Any, size: int) -> int:
        known = isinstance(fake, Mapping) and all(column in fake for column, _ in self.pairs)
        return size if known and self._matches(fake) else 0


class TumbleEviction(RunningEviction):
    def notify(self, row: Any, triggered: bool, size: int) -> int:
        return size if triggered else 0


class ActiveWrapper(RunningEviction):
    active = True

    def __init__(self, inner: RunningEviction) -> None:
        self.inner = inner
        self.clears = isinstance(inner, TumbleEviction)

    def notify(self, row: Any, triggered: bool, size: int) -> int:
        return self.inner.notify(row, triggered, size)

    def notify_fake(self, fake: Any, size: int) -> int:
        return self.inner.as_row(fake, size)


class ManyTriggers(RunningTrigger):
    active = True

    def __init__(self, rule: str, nested: Sequence[RunningTrigger]) -> None:
        self.rule, self.nested = rule, tuple(nested)

    def notify(self, row: Any) -> bool:
        fired = [trigger.notify(row) for trigger in self.nested]
        if self.rule == "any_of":
            return any(fired)
        return all(fired) if self.rule == "all_of" else sum(fired) == 1

    def before(self, row: Any) -> Iterable[Sent]:
        return sent_before(row, [trigger for trigger in self.nested if trigger.active])


def together(rule: str, said: Iterable[int]) -> int:
    """How many rows leave if several evictions say this."""
    code = RULES[rule]
    n = MOST if code == MIN else 0
    for each in said:
        n = joined(code, n, each)
    return n


class ManyEvictions(RunningEviction):
    active = True

    def __init__(self, rule: str, nested: Sequence[RunningEviction]) -> None:
        self.nested, self.rule = tuple(nested), rule

    def notify(self, row: Any, triggered: bool, size: int) -> int:
        return together(self.rule, [e.notify(row, triggered, size) for e in self.nested])

    def notify_fake(self, fake: Any, size: int) -> int:
        return together(self.rule, [e.notify_fake(fake, size) for e in self.nested if e.active])


class _RunsUserCode:
    """A policy of the user's, who may be asked for each row: nobody looks at the `__dict__` of this object, for it
    would be slower ever after."""

    policy: Any
    _state: tuple[str, ...] = ("policy", "active")

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._state}

    @property
    def user_code(self) -> str:
        return repr(self.policy)


class UserTrigger(_RunsUserCode, RunningTrigger):
    _state = ("policy", "active", "last")

    def __init__(self, policy: Trigger) -> None:
        self.policy = policy
        self.active = isinstance(policy, ActiveTrigger)
        self.last: int | None = None  # the time of the row before, where timer ticks may have times

    def notify(self, row: Any) -> bool:
        try:
            said = self.policy.notify(row)
        except Exception as error:
            raise_named(error, self, "notify", (row,))
        if said is not True and said is not False and not isinstance(said, np.bool_):
            raise DataError(
                f"{self.policy!r}.notify returned {said!r} at the row {_shown(row)}: it must be True or False"
            )
        if self.active:
            self.last = row[TIME]
        return bool(said)

    def before(self, row: Any) -> Iterable[Sent]:
        assert isinstance(self.policy, ActiveTrigger)
        with calling(self, "before", (row,)):
            fakes = self.policy.before(row)
            if not isinstance(fakes, Iterable) or isinstance(fakes, str | bytes):
                raise DataError(
                    f"{self.policy!r}.before returned {fakes!r} at the row {_shown(row)}: it must be a list of fake "
                    "items"
                )
            sent = [self._sent(fake, row) for fake in islice(fakes, specs.MOST_FAKES + 1)]
        if len(sent) > specs.MOST_FAKES:
            raise DataError(f"{self.policy!r}.before sends more than ten million timer ticks at the row {_shown(row)}")
        return sorted(sent, key=itemgetter(0))

    def _sent(self, fake: Any, row: Any) -> Sent:
        if not isinstance(fake, Tick):
            return Sent((_BY_ROW, 0), fake, None)
        at, now = fake.at, row[TIME]
        whole = isinstance(at, int | np.integer) and not isinstance(at, bool)
        if not whole or at > now or (self.last is not None and at < self.last):
            since = "" if self.last is None else f" from {self.last}, the row before,"
            raise DataError(
                f"{self.policy!r}.before sent {fake!r} at the row {_shown(row)}: its time must be a whole number"
                f"{since} up to {now}, that of the row"
            )
        return Sent((_TIMED, int(at)), fake.seen, int(at))


class UserEviction(_RunsUserCode, RunningEviction):
    def __init__(self, policy: Eviction) -> None:
        self.policy = policy
        self.active = isinstance(policy, ActiveEviction)

    def notify(self, row: Any, triggered: bool, size: int) -> int:
        try:
            said = self.policy.notify(row, triggered, size)
        except Exception as error:
            raise_named(error, self, "notify", (row, triggered, size))
        if type(said) is int and said >= 0:
            return said
        return self._number(said, "notify", row)

    def notify_fake(self, fake: Any, size: int) -> int:
        assert isinstance(self.policy, ActiveEviction)
        with calling(self, "notify_fake", (fake, size)):
            said = self.policy.notify_fake(fake, size)
        return self._number(said, "notify_fake", fake)

    def _number(self, said: Any, method: str, item: Any) -> int:
        if isinstance(said, bool | np.bool_) or not isinstance(said, int | np.integer) or said < 0:
            raise DataError(
                f"{self.policy!r}.{method} returned {said!r} at {_shown(item)}: it must be a number of rows, 0 or more"
            )
        return int(said)


def running_trigger(policy: Any) -> RunningTrigger:
    """A trigger at work, in its first state."""
    if isinstance(policy, Triggers):
        return ManyTriggers(policy.rule, [running_trigger(p) for p in policy.nested])
    if isinstance(policy, Trigger):
        return UserTrigger(policy.clone())
    made = {Count: CountTrigger, Time: TimeTrigger, Delta: DeltaTrigger, Punctuation: MatchTrigger}
    return made[type(policy)](policy)


def running_eviction(policy: Any, *, several: bool, wrapped: bool = False) -> RunningEviction:
    """An eviction at work; `several`: other evictions may remove rows, which it must notice."""
    if isinstance(policy, Evictions):
        return ManyEvictions(policy.rule, [running_eviction(p, several=several) for p in policy.nested])
    if isinstance(policy, Active):
        return ActiveWrapper(running_eviction(policy.eviction, several=several, wrapped=True))
    if isinstance(policy, Eviction):
        return UserEviction(policy.clone())
    if isinstance(policy, Count):
        return CountEviction(policy, several or wrapped)
    if isinstance(policy, Tumble):
        return TumbleEviction()
    made = {Time: TimeEviction, Delta: DeltaEviction, Punctuation: MatchEviction}
    return made[type(policy)](policy)


def running_evictions(policies: Sequence[Any], *, others: bool = False) -> list[RunningEviction]:
    """All evictions of one side; `others`: the other side has some too."""
    several = others or sum(len(list(leaves(p))) for p in policies) > 1
    return [running_eviction(p, several=several) for p in policies]


def is_told_of_fakes(eviction: RunningEviction) -> bool:
    """Whether an eviction that a user has written would miss timer ticks that are not sent."""
    if isinstance(eviction, ManyEvictions):
        return any(map(is_told_of_fakes, eviction.nested))
    inner = eviction.inner if isinstance(eviction, ActiveWrapper) else eviction
    return eviction.active and isinstance(inner, UserEviction)


def lets_go_at_borders(eviction: RunningEviction) -> bool:
    """Whether an active eviction may let rows go at a border, which is a time: some compare rows, and it is none."""
    if isinstance(eviction, ManyEvictions):
        nested = [lets_go_at_borders(each) for each in eviction.nested if each.active]
        return all(nested) if RULES[eviction.rule] == MIN else any(nested)
    inner = eviction.inner if isinstance(eviction, ActiveWrapper) else eviction
    return not isinstance(inner, DeltaEviction | Match)


def numbers(row: Any, columns: Sequence[str]) -> tuple[float, ...]:
    """What delta policies compare; null is NaN."""
    return tuple(np.nan if row[c] is None else float(row[c]) for c in columns)


Kind = TypeVar("Kind", bound=RunningTrigger)


def active_ones(kind: type[Kind], triggers: Iterable[RunningTrigger]) -> list[Kind]:
    """The active triggers of a kind among them, nested ones too, in order."""
    found: list[Kind] = []
    for trigger in triggers:
        if isinstance(trigger, ManyTriggers):
            found += active_ones(kind, trigger.nested)
        elif isinstance(trigger, kind) and trigger.active:
            found.append(trigger)
    return found


def distance(spec: Delta, old: Any, new: Any) -> float:
    """How far `new` is from `old`, as the policy measures it."""
    if spec.function == EUCLIDEAN:
        return euclidean(old, new)
    if spec.function == COSINE:
        return cosine(old, new)
    try:
        said = spec.function(old, new)
    except Exception as error:
        raise_named(error, _Measure(spec), "function", (old, new))
    if isinstance(said, bool) or not isinstance(said, int | float | np.number):
        raise DataError(f"{spec!r}: the function returned {said!r} for {old} and {new}: it must be a number")
    return float(said)


class _Measure(NamedTuple):
    """A distance that a user has written."""

    spec: Delta

    @property
    def user_code(self) -> str:
        return repr(self.spec)


def _shown(item: Any) -> str:
    if isinstance(item, dict):
        return "{" + ", ".join(f"{k}: {v!r}" for k, v in islice(item.items(), 8)) + "}"
    return f"the timer tick {item!r}"
