"""Policy windows over Python objects, one at a time, with threads and a lock (SPEC P-01, P-12..P-15, P-41).

Where `pn.policy(...)` in a query works on columns, this is the operator as SPEC describes it: rows go in by
`process(row)`, results come out by a callback, and time triggers with `thread=True` and users' own active triggers
send fake items by a clock between rows. One lock keeps rows and fake items apart.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from panes.errors import DataError, OperatorClosed, QueryError
from panes.policies.buffers import Costs, Reduce, buffer, choose
from panes.policies.clock import Clock, SystemClock, Timer
from panes.policies.flow import Group, Grouped
from panes.policies.paths import extractor, extractors
from panes.policies.policy import PolicyWindow
from panes.policies.runtimes import (
    ManyTriggers,
    RunningTrigger,
    TimeTrigger,
    UserTrigger,
    running_evictions,
    running_trigger,
    time_triggers,
)
from panes.policies.specs import Time, Triggers
from panes.policies.user import TIME, ActiveTrigger, Tick
from panes.units import TimeDomain

#: The clock counts microseconds, and so do time policies of live windows.
DOMAIN = TimeDomain("us", integer=True)


class LiveResult(NamedTuple):
    """A result: of which key, when (None: at the end of the stream), and what."""

    key: Any
    when: int | None
    value: Any


class _LiveGroup(Group):
    """A group that holds what the buffer holds."""

    __slots__ = ("buffer", "extract")
    buffer: Any
    extract: Callable[[Any], Any]

    def delete(self, n: int) -> None:
        n = min(n, self.tail - self.head)
        self.buffer.delete(n)
        self.head += n

    def insert(self, row: Any) -> None:
        self.buffer.insert(self.extract(row), self.tail, row.get(TIME))
        self.tail += 1


class LiveWindow:
    """One policy window at work. Give `reduce`, of two values, or `group_reduce`, of all values of a window.

    - `value`: what the functions see of a row: a column, a path into one (`v[0]`, `m['a']`), or a function of the row;
      the whole row unless given.
    - `key`: a column, a path or a function; policies of `pn.policy(trigger=, evict=)` are then kept apart by key.
    - `time`: a column with the time of each row, in microseconds; without it rows have the time of the clock, and
      borders count from when the window is made, unless a policy says `start=`.
    - `check`: how often threads look at the clock (microseconds); without it just when a border comes.
    - `granularity`: keep partials of so many rows where policies say nothing in advance.
    - `last`: no window ends after this position or time, which spares partials of windows that never end.
    - `optimise=False`: hold all rows whatever the policies are.
    """

    def __init__(
        self,
        policy: PolicyWindow,
        *,
        reduce: Reduce | None = None,
        group_reduce: Callable[[list[Any]], Any] | None = None,
        value: str | Callable[[Any], Any] | None = None,
        key: str | Callable[[Any], Any] | None = None,
        time: str | None = None,
        clock: Clock | None = None,
        check: int | None = None,
        granularity: int | None = None,
        last: int | None = None,
        optimise: bool = True,
        emit: Callable[[LiveResult], None] | None = None,
    ) -> None:
        if (reduce is None) == (group_reduce is None):
            raise QueryError("LiveWindow needs reduce= (of two values) or group_reduce= (of all values), one of them")
        if not isinstance(policy, PolicyWindow):
            raise QueryError(f"LiveWindow: policy={policy!r} must be a pn.policy(...)")
        if granularity is not None and granularity < 2:
            raise QueryError(f"LiveWindow: granularity={granularity!r} must be 2 or more: partials are of several rows")
        self.clock: Clock = SystemClock() if clock is None else clock
        self.costs = Costs()
        self.results: list[LiveResult] = []
        self._policy = policy
        self._machine = (self._from_now(policy) if time is None else policy).bind(DOMAIN)
        self._reduce, self._group_reduce = reduce, group_reduce
        self._value, self._key, self._time = _getter("value", value), _getter("key", key), _getter("time", time)
        self._out = self.results.append if emit is None else emit
        self._granularity, self._last = granularity, last
        self.plan = (
            "none" if not optimise else choose(self._machine, reduces=reduce is not None, granularity=granularity)
        )
        self._lock = threading.RLock()
        self._check = check
        self._timers: list[Timer] = []
        self._closed = False
        machine = self._machine
        self._paths = extractors(machine.columns)
        self._grouped = Grouped(
            [running_trigger(p) for p in machine.central_trigger],
            running_evictions(machine.central_evict, others=bool(machine.evict)),
            self._new_group,
        )
        self._start(self._grouped.triggers, self._grouped.process_fake)
        if key is None and not machine.central:
            self._grouped.group(None)

    def __repr__(self) -> str:
        return f"<LiveWindow {self._policy!r}: {'closed' if self._closed else f'{len(self.results):,} results kept'}>"

    def _from_now(self, policy: PolicyWindow) -> PolicyWindow:
        """Time triggers without a start begin to count when the window is made."""
        now = self.clock.now()

        def started(each: Any) -> Any:
            if isinstance(each, Time) and each.on is None and each.start is None:
                return replace(each, start=now)
            return replace(each, nested=tuple(map(started, each.nested))) if isinstance(each, Triggers) else each

        sides: dict[str, Any] = {n: tuple(map(started, getattr(policy, n))) for n in ("trigger", "central_trigger")}
        return replace(policy, **sides)

    def _new_group(self, key: Any) -> Group:
        machine = self._machine
        triggers = [running_trigger(p) for p in machine.trigger]
        group = _LiveGroup(
            key, triggers, running_evictions(machine.evict, others=bool(machine.central_evict)), self._give
        )
        group.buffer = buffer(self.plan, self.costs, self._reduce, machine, self._granularity, self._last)
        group.extract = self._value or self._itself
        self._start(triggers, group.process_fake)
        return group

    def _itself(self, row: Any) -> Any:
        return {name: value for name, value in row.items() if name != TIME and name not in self._paths}

    def _give(self, group: Group, when: Any) -> None:
        assert isinstance(group, _LiveGroup)
        value = group.buffer.value() if when is not None else group.buffer.final()
        if self._group_reduce is not None:
            value = self._group_reduce(value)
        self._out(LiveResult(group.key, when, value))

    # --- rows ---

    def process(self, row: dict[str, Any]) -> None:
        """Take a row."""
        with self._lock:
            if self._closed:
                raise OperatorClosed("process after close: the stream has ended; make a new window")
            when = self.clock.now() if self._time is None else self._time(row)
            seen = {TIME: when, **row}
            for column, extract in self._paths.items():
                if column not in seen:
                    seen[column] = extract(row)
            key = None if self._key is None else self._key(row)
            self._grouped.process_real(key, seen, when)

    def close(self) -> None:
        """End of stream: what is held is one last result per key, and threads stop."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for timer in self._timers:
                timer.cancel()
            if self._machine.end:
                for group in self._grouped.groups.values():
                    if group.size:
                        self._give(group, None)

    # --- threads ---

    def _start(self, triggers: Any, process: Callable[[Any, Any], None]) -> None:
        """Start what active triggers do by the clock."""
        timers = [timer for timer in time_triggers(triggers) if timer.spec.thread]
        if timers:
            self._watch(timers, process)
        for trigger in _users(triggers):
            assert isinstance(trigger.policy, ActiveTrigger)
            trigger.policy.start(self._sender(process), self.clock)

    def _sender(self, process: Callable[[Any, Any], None]) -> Callable[[Any], None]:
        def send(fake: Any) -> None:
            with self._lock:
                if self._closed:
                    return
                if isinstance(fake, Tick):
                    process(fake.seen, fake.at)
                else:
                    process(fake, self.clock.now())

        return send

    def _watch(self, timers: list[TimeTrigger], process: Callable[[Any, Any], None]) -> None:
        """Look at the clock now and then, and send the borders that have passed, each once whoever is first."""
        slot = len(self._timers)

        def look() -> None:
            with self._lock:
                if self._closed:
                    return
                now = self.clock.now()
                for border in heapq.merge(*(timer.until(now) for timer in timers)):
                    process(border, border)
                self._timers[slot] = self.clock.call_at(self._next_look(timers), look)

        self._timers.append(self.clock.call_at(self._next_look(timers), look))

    def _next_look(self, timers: list[TimeTrigger]) -> int:
        return min(timer.border for timer in timers) if self._check is None else self.clock.now() + self._check

    @property
    def metrics(self) -> dict[str, Any]:
        """The plan and the four costs: reduce calls before and at the end of windows, entries held, messages sent."""
        return {"plan": self.plan, **vars(self.costs)}


def _getter(argument: str, given: str | Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    """A column, or a path into one (`v[0]`, `m['a']`), as a function of a row."""
    if not isinstance(given, str):
        return given
    path = extractor(given)
    if path is None and "[" in given:
        raise QueryError(
            f"LiveWindow: {argument}={given!r} is neither a column nor a path into one, such as v[0] or m['a']; "
            "give a function of the row for anything else"
        )

    def get(row: Any) -> Any:
        try:
            return row[given] if path is None or given in row else path(row)
        except KeyError:
            known = ", ".join(str(name) for name in row if name != TIME)
            raise DataError(f"LiveWindow: {argument}={given!r}: the row has no such column; it has {known}") from None

    return get


def _users(triggers: Any) -> list[UserTrigger]:
    found: list[UserTrigger] = []
    for trigger in triggers:
        found += _users_of(trigger)
    return found


def _users_of(trigger: RunningTrigger) -> list[UserTrigger]:
    if isinstance(trigger, ManyTriggers):
        return [u for inner in trigger.nested for u in _users_of(inner)]
    return [trigger] if isinstance(trigger, UserTrigger) and trigger.active else []
