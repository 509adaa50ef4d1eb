"""The flow of policy windows as SPEC writes it (P-05, P-11, P-16..P-31, P-43), with plain lists: to be checked by eye.

Nothing of the library is used. A policy is described by a tuple, such as ("count", 3, 0) or ("any_of", a, b); rows are
dicts with "t" (time) and whatever policies look at. `run` gives windows as (key, positions of rows in the key, when).
"""

from __future__ import annotations

import math
from typing import Any

MAX_INT = 2**31 - 1
#: timer ticks with a time of their own come before those that have the row's
PLACED, AT_THE_ROW = 0, 1
#: after so many borders without a row, what is held then is held for good: evictions reach back far less
MANY = 1_000
#: stands for all borders after these
AND_SO_ON = "and so on"


class Endless(Exception):
    """A result (or a question to a user's eviction) at each of more borders than anybody can want."""


def distance(name: str, old: list[float], new: list[float]) -> float:
    if name == "cosine":
        lengths = math.sqrt(sum(x * x for x in old)) * math.sqrt(sum(x * x for x in new))
        return math.nan if lengths == 0 else 1 - sum(a * b for a, b in zip(old, new)) / lengths
    return math.sqrt(sum((a - b) ** 2 for a, b in zip(old, new)))


class CountTrigger:
    def __init__(self, size: int, start: int) -> None:
        self.max, self.counter = size, start

    def notify(self, x: dict) -> bool:
        if self.counter >= self.max:
            self.counter = 1
            return True
        self.counter += 1
        return False


class TimeTrigger:
    def __init__(self, z: int, delay: int = 0, start: int = 0, active: bool = True, on_row: bool = False, **_: Any):
        self.z, self.active, self.on_row, self.next = z, active, on_row, start + delay + z

    def pre_notify(self, x: dict) -> list[tuple[Any, int, int]]:
        return self.fakes_until(x["t"] - 1 if self.on_row else x["t"])

    def fakes_until(self, moment: int) -> list[tuple[Any, int, int]]:
        first, self.next = self.next, self.border_after(moment)
        borders = range(first, self.next, self.z)
        fakes = [(border, border, PLACED) for border in borders[:MANY]]
        return fakes + [(AND_SO_ON, border, PLACED) for border in borders[MANY : MANY + 1]]

    def border_after(self, moment: int) -> int:
        return self.next + max(0, (moment - self.next) // self.z + 1) * self.z

    def notify(self, x: dict) -> bool:
        fires = self.next <= x["t"]
        self.next = self.border_after(x["t"])
        return fires


class DeltaTrigger:
    def __init__(self, threshold: float, on: tuple, start: Any, function: str) -> None:
        self.threshold, self.on, self.function = threshold, on, function
        self.last = None if start is None else list(start)

    def notify(self, x: dict) -> bool:
        new = [x[c] for c in self.on]
        if self.last is None:
            if all(v == v for v in new):
                self.last = new
            return False
        if distance(self.function, self.last, new) > self.threshold:
            self.last = new
            return True
        return False


class PunctuationTrigger:
    def __init__(self, sample: Any, on: str) -> None:
        self.sample, self.on = sample, on

    def notify(self, x: dict) -> bool:
        return x[self.on] == self.sample


class MultiTrigger:
    def __init__(self, rule: str, nested: list) -> None:
        self.rule, self.nested = rule, nested

    def pre_notify(self, x: dict) -> list:
        return pre_notifications(self.nested, x)

    def notify(self, x: dict) -> bool:
        fired = [p.notify(x) for p in self.nested]
        return {"any_of": any(fired), "all_of": all(fired), "exactly_one_of": fired.count(True) == 1}[self.rule]


class UserTrigger:
    def __init__(self, policy: Any) -> None:
        self.policy = policy.clone()
        if hasattr(policy, "before"):
            self.pre_notify = lambda x: [self.sent(fake, x) for fake in self.policy.before(seen(x))]

    @staticmethod
    def sent(fake: Any, x: dict) -> tuple[Any, int, int]:
        """A timer tick that says when it is (K-18), or that goes by the row."""
        if type(fake).__name__ == "Tick":
            return fake.at if fake.item is None else fake.item, fake.at, PLACED
        return fake, x["t"], AT_THE_ROW

    def notify(self, x: dict) -> bool:
        return self.policy.notify(seen(x))


class CountEviction:
    def __init__(self, size: int, delete: int, start: int, resync: bool) -> None:
        self.max, self.delete, self.counter, self.resync = size, delete, start, resync

    def notify(self, x: Any, triggered: bool, size: int) -> int:
        if self.resync:
            self.counter = min(self.counter, size)
        n = 0
        if self.counter >= self.max:
            n = self.delete
            self.counter = max(0, self.counter - n)
        self.counter += 1
        return n


class TimeEviction:
    def __init__(self, g: int, active: bool) -> None:
        self.g, self.times = g, []
        if active:
            self.notify_fake = lambda fake, size: self.evict(fake["t"] if isinstance(fake, dict) else fake, size)

    def evict(self, now: int, size: int) -> int:
        self.times = self.times[max(0, len(self.times) - size) :]
        n = 0
        while self.times and self.times[0] < now - self.g:
            del self.times[0]
            n += 1
        return n

    def notify(self, x: dict, triggered: bool, size: int) -> int:
        n = self.evict(x["t"], size)
        self.times.append(x["t"])
        return n


class DeltaEviction:
    def __init__(self, threshold: float, on: tuple, function: str) -> None:
        self.threshold, self.on, self.function, self.items = threshold, on, function, []

    def notify(self, x: dict, triggered: bool, size: int) -> int:
        self.items = self.items[max(0, len(self.items) - size) :]
        new, n = [x[c] for c in self.on], 0
        while self.items and distance(self.function, self.items[0], new) > self.threshold:
            del self.items[0]
            n += 1
        self.items.append(new)
        return n

    def of_fake(self, fake: Any, size: int) -> int:
        """What is no row has no values, so no distance; and it is not kept."""
        if not isinstance(fake, dict):
            return 0
        n = self.notify(fake, True, size)
        del self.items[-1]
        return n


class PunctuationEviction(PunctuationTrigger):
    def notify(self, x: dict, triggered: bool, size: int) -> int:  # type: ignore[override]
        return size if x[self.on] == self.sample else 0

    def of_fake(self, fake: Any, size: int) -> int:
        return self.notify(fake, True, size) if isinstance(fake, dict) else 0


class TumblingEviction:
    def notify(self, x: Any, triggered: bool, size: int) -> int:
        return size if triggered else 0


class ActiveWrapper:
    """Tumbling waits for the result of a timer tick (a decision: else there would be nothing left to give)."""

    def __init__(self, nested: Any) -> None:
        self.nested = nested
        self.clears_after_fake = isinstance(nested, TumblingEviction)

    def notify(self, x: Any, triggered: bool, size: int) -> int:
        return self.nested.notify(x, triggered, size)

    def notify_fake(self, fake: Any, size: int) -> int:
        if isinstance(self.nested, TimeEviction):
            return self.nested.evict(fake["t"] if isinstance(fake, dict) else fake, size)
        if hasattr(self.nested, "of_fake"):
            return self.nested.of_fake(fake, size)
        return self.nested.notify(fake, True, size)


class MultiEviction:
    def __init__(self, rule: str, nested: list) -> None:
        self.rule, self.nested = rule, nested

    def combine(self, said: list[int]) -> int:
        if self.rule == "largest":
            return max(said) if said else 0
        if self.rule == "smallest":
            return min(said) if said else MAX_INT
        if self.rule == "total":
            return sum(said)
        return ([n for n in said if n > 0] or [0])[0]

    def notify(self, x: Any, triggered: bool, size: int) -> int:
        return self.combine([p.notify(x, triggered, size) for p in self.nested])

    def notify_fake(self, fake: Any, size: int) -> int:
        return self.combine([p.notify_fake(fake, size) for p in self.nested if hasattr(p, "notify_fake")])


class UserEviction:
    def __init__(self, policy: Any) -> None:
        self.policy = policy.clone()
        if hasattr(policy, "notify_fake"):
            self.notify_fake = lambda fake, size: self.policy.notify_fake(
                seen(fake) if isinstance(fake, dict) else fake, size
            )

    def notify(self, x: dict, triggered: bool, size: int) -> int:
        return self.policy.notify(seen(x) if isinstance(x, dict) else x, triggered, size)


def seen(x: dict) -> dict:
    """A row as users' policies see it."""
    return {"event time": x["t"], **x}


def trigger(policy: tuple) -> Any:
    kind, *rest = policy
    if kind in ("any_of", "all_of", "exactly_one_of"):
        return MultiTrigger(kind, [trigger(p) for p in rest])
    if kind == "count":
        return CountTrigger(rest[0].get("size"), rest[0].get("start", 0))
    if kind == "time":
        made = TimeTrigger(**{("on_row" if k == "border_on_row" else k): v for k, v in rest[0].items()})
        if not made.active:
            made.pre_notify = None  # type: ignore[assignment]
        return made
    if kind == "delta":
        return DeltaTrigger(rest[0]["threshold"], rest[0]["on"], rest[0].get("start"), rest[0]["function"])
    if kind == "punctuation":
        return PunctuationTrigger(rest[0]["sample"], rest[0]["on"])
    return UserTrigger(rest[0])


def eviction(policy: tuple, several: bool, wrapped: bool = False) -> Any:
    kind, *rest = policy
    if kind in ("largest", "smallest", "total", "first_of"):
        return MultiEviction(kind, [eviction(p, several) for p in rest])
    if kind == "active":
        return ActiveWrapper(eviction(rest[0], several, wrapped=True))
    if kind == "tumble":
        return TumblingEviction()
    if kind == "count":
        return CountEviction(rest[0]["size"], rest[0].get("delete", 1), rest[0].get("start", 0), several or wrapped)
    if kind == "time":
        return TimeEviction(rest[0]["z"], rest[0].get("active", True))
    if kind == "delta":
        return DeltaEviction(rest[0]["threshold"], rest[0]["on"], rest[0]["function"])
    if kind == "punctuation":
        return PunctuationEviction(rest[0]["sample"], rest[0]["on"])
    return UserEviction(rest[0])


def number_of_leaves(policy: tuple) -> int:
    if policy[0] in ("largest", "smallest", "total", "first_of"):
        return sum(number_of_leaves(p) for p in policy[1:])
    return 1


def evictions(policies: list[tuple], others: bool) -> list:
    several = others or sum(number_of_leaves(p) for p in policies) > 1
    return [eviction(p, several) for p in policies]


class Window:
    """One group: P-05, P-11, P-44."""

    def __init__(self, key: Any, triggers: list, evictions: list, out: list) -> None:
        self.key, self.triggers, self.evictions, self.out = key, triggers, evictions, out
        self.buffer: list[int] = []
        self.seen = 0

    def emit(self, when: Any) -> None:
        if self.buffer:
            self.out.append((self.key, tuple(self.buffer), when))

    def process_real(self, x: dict, fired: bool) -> None:
        answers = [p.notify(x) for p in self.triggers]
        fired = fired or any(answers)
        if fired:
            self.emit(x["t"])
        n = max([p.notify(x, fired, len(self.buffer)) for p in self.evictions], default=0)
        self.evict(n)
        self.buffer.append(self.seen)
        self.seen += 1

    def process_fake(self, fake: Any, when: Any) -> None:
        if fake is AND_SO_ON:
            if self.buffer or any(asks_users(p) for p in self.evictions):
                raise Endless
            return
        self.evict_active(fake, self.evictions_before_fake(self.evictions))
        self.emit(when)
        if any(clears(p) for p in self.evictions):
            self.evict(len(self.buffer))

    def process_real_as_fake(self, x: dict) -> None:
        self.emit(x["t"])
        self.evict_active(x, self.evictions)

    @staticmethod
    def evictions_before_fake(evictions: list) -> list:
        return [p for p in evictions if not clears(p)]

    def evict_active(self, fake: Any, evictions: list) -> None:
        active = [p for p in evictions if hasattr(p, "notify_fake")]
        self.evict(max([p.notify_fake(fake, len(self.buffer)) for p in active], default=0))

    def evict(self, n: int) -> None:
        del self.buffer[: min(n, len(self.buffer))]


def clears(p: Any) -> bool:
    return getattr(p, "clears_after_fake", False)


def asks_users(p: Any) -> bool:
    """Whether a user's own eviction is told of timer ticks."""
    if isinstance(p, MultiEviction):
        return any(asks_users(q) for q in p.nested)
    if isinstance(p, ActiveWrapper):
        return isinstance(p.nested, UserEviction)
    return isinstance(p, UserEviction) and hasattr(p, "notify_fake")


def pre_notifications(triggers: list, x: dict) -> list[tuple[Any, int, int]]:
    """Timer ticks with the time of their results: borders have one of their own, users' fakes may go by the row."""
    return [fake for p in triggers if getattr(p, "pre_notify", None) for fake in p.pre_notify(x)]


def send(*to: tuple[list[tuple[Any, int, int]], Any]) -> None:
    """K-10: fakes of all triggers by time, ties in the order of the lists; those that go by the row come last.

    Each list comes with what takes its fakes.
    """
    together = [(place, when, fake, take) for fakes, take in to for fake, when, place in fakes]
    for _, when, fake, take in sorted(together, key=lambda sent: sent[:2]):
        take(fake, when)


def run(
    rows: list[dict],
    trigger_list: list[tuple] = (),  # type: ignore[assignment]
    evict_list: list[tuple] = (),  # type: ignore[assignment]
    central_triggers: list[tuple] = (),  # type: ignore[assignment]
    central_evictions: list[tuple] = (),  # type: ignore[assignment]
    *,
    end: bool = True,
    thread: bool = False,
) -> list[tuple[Any, tuple[int, ...], Any]]:
    """All windows, in order. Rows have a key "k" (None: one key). `thread`: time triggers go by the clock."""
    out: list[tuple[Any, tuple[int, ...], Any]] = []
    groups: dict[Any, Window] = {}
    c_triggers = [trigger(p) for p in central_triggers]
    c_evictions = evictions(list(central_evictions), others=bool(evict_list))
    virtual: list[tuple[Window, int]] = []

    def delete_central(n: int) -> None:
        for group, number in virtual[: min(n, len(virtual))]:
            if number in group.buffer:
                assert group.buffer[0] == number
                group.evict(1)
        del virtual[: min(n, len(virtual))]

    def central_fake(fake: Any, when: Any) -> None:
        if fake is AND_SO_ON:
            if any(asks_users(p) for p in c_evictions):
                raise Endless
            for group in groups.values():
                group.process_fake(fake, when)
            return
        active = [p for p in c_evictions if hasattr(p, "notify_fake") and not clears(p)]
        delete_central(max([p.notify_fake(fake, len(virtual)) for p in active], default=0))
        for group in groups.values():
            group.process_fake(fake, when)
        if any(clears(p) for p in c_evictions):
            delete_central(len(virtual))

    for x in rows:
        k = x.get("k")
        if thread:
            by_clock(c_triggers, x["t"], central_fake)
            for group in groups.values():
                by_clock(group.triggers, x["t"], group.process_fake)
        if k not in groups:
            own = [trigger(p) for p in trigger_list]
            groups[k] = Window(k, own, evictions(list(evict_list), others=bool(central_evictions)), out)
            if thread:
                by_clock(own, x["t"], lambda fake, when: None)  # nothing is held yet
        mine = groups[k]
        send((pre_notifications(c_triggers, x), central_fake), (pre_notifications(mine.triggers, x), mine.process_fake))
        answers = [p.notify(x) for p in c_triggers]
        fired = any(answers)
        groups[k].process_real(x, fired)
        if fired:
            for other in groups.values():
                if other is not groups[k]:
                    other.process_real_as_fake(x)
        if c_evictions:
            delete_central(max(p.notify(x, fired, len(virtual)) for p in c_evictions))
            virtual.append((groups[k], groups[k].seen - 1))
    if end:
        for group in groups.values():
            group.emit(None)
    return out


def by_clock(triggers: list, now: int, take: Any) -> None:
    """Borders of all time triggers up to now, in the order of time."""
    send(*((t.fakes_until(now), take) for p in triggers for t in time_triggers(p)))


def time_triggers(p: Any) -> list[TimeTrigger]:
    if isinstance(p, MultiTrigger):
        return [t for inner in p.nested for t in time_triggers(inner)]
    return [p] if isinstance(p, TimeTrigger) and p.active else []
