"""Policy windows over Python objects, one at a time, with threads and a lock (SPEC P-01, P-12..P-15, P-41).

Where `pn.policy(...)` in a query works on columns, this is the operator as SPEC describes it: rows go in by
`process(row)`, results come out by a callback, and time triggers with `thread=True` and users' own active triggers
send timer ticks by a clock between rows. One lock keeps rows and timer ticks apart.

Queries evaluate SQL over columns; rows here are Python objects, so paths such as `v[1]` or `m['speed'][0]` are walked
(SPEC P-26). Elements are counted from 0, as in Spark SQL, and what is not there is None.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from panes.clock import Clock, SystemClock, Timer
from panes.errors import DataError, OperatorClosed, QueryError
from panes.policies.buffers import Costs, Reduce, buffer, choose
from panes.policies.flow import Group, Grouped, Sender, policies_of
from panes.policies.policy import PolicyWindow
from panes.policies.runtimes import UserTrigger, active_ones
from panes.policies.specs import CLOCK, Time, Triggers
from panes.policies.user import TIME, ActiveTrigger, Tick

_STEP = r"""\[\s*(?:(\d+)|'([^']*)'|"([^"]*)")\s*\]"""
_PATH = re.compile(rf"\s*([^\W\d]\w*)((?:{_STEP})+)\s*")


class LiveResult(NamedTuple):
    """A result: of which key, when (None: at the end of the stream), and what."""

    key: Any
    when: int | None
    value: Any


class _LiveGroup(Group):
    """A group that holds what the buffer holds."""

    __slots__ = ("buffer", "extract", "watch")
    buffer: Any
    watch: _Watch | None
    extract: Callable[[Any], Any]

    def delete(self, n: int) -> None:
        n = min(n, self.tail - self.head)
        self.buffer.delete(n)
        self.head += n

    def insert(self, row: Any) -> None:
        self.buffer.insert(self.extract(row), self.tail, row.get(TIME))
        self.tail += 1


class _Watch:
    """Looks at the clock for one sender, and sleeps while nothing is held: no border could give anything."""

    def __init__(self, window: LiveWindow, sender: Sender) -> None:
        self._window, self._sender = window, sender
        self._looked = window.clock.now()
        self.timer: Timer | None = None
        self.arm()

    def arm(self) -> None:
        """Have the clock call at the next border, or the next check."""
        if self.timer is None:
            self.timer = self._window.clock.call_at(self._next(), self._look)

    def _next(self) -> int:
        every, now = self._window._check, self._window.clock.now()
        if every is None:
            return min(timer.border for timer in self._sender.timers)
        return now + every - (now - self._looked) % every

    def _look(self) -> None:
        with self._window._lock:
            if self._window._closed:
                return
            self.timer, self._looked = None, self._window.clock.now()
            self._sender.by_clock(self._looked)
            if not self._sender.idle:
                self.arm()

    def catch_up(self) -> None:
        """Borders that have passed while it slept are gone before a row comes."""
        if self.timer is None:
            self._sender.by_clock(self._window.clock.now())


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
        self._machine = (self._from_now(policy) if time is None else policy).bind(CLOCK)
        self._reduce, self._group_reduce = reduce, group_reduce
        self._value, self._key, self._time = _getter("value", value), _getter("key", key), _getter("time", time)
        self._out = self.results.append if emit is None else emit
        self._granularity, self._last = granularity, last
        self.plan = (
            "none" if not optimise else choose(self._machine, reduces=reduce is not None, granularity=granularity)
        )
        self._lock = threading.RLock()
        self._check = check
        self._closed = False
        self._watches: list[_Watch] = []
        machine = self._machine
        self._paths = extractors(machine.columns)
        self._grouped = Grouped(machine, self._new_group)
        self._watch = self._start(self._grouped)
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
        group = _LiveGroup(key, *policies_of(self._machine), self._give)
        group.buffer = buffer(self.plan, self.costs, self._reduce, self._machine, self._granularity, self._last)
        group.extract = self._value or self._itself
        group.watch = self._start(group)
        return group

    def _itself(self, row: Any) -> Any:
        return {name: value for name, value in row.items() if name != TIME and name not in self._paths}

    def _give(self, group: Group, when: Any) -> None:
        assert isinstance(group, _LiveGroup)
        value = group.buffer.value() if when is not None else group.buffer.final()
        if self._group_reduce is not None:
            value = self._group_reduce(value)
        self._out(LiveResult(group.key, when, value))

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
            watches = [w for w in (self._watch, self._watch_of(key)) if w is not None]
            for watch in watches:
                watch.catch_up()
            self._grouped.process_real(key, seen, when)
            for watch in watches:
                watch.arm()

    def close(self) -> None:
        """End of stream: what is held is one last result per key, and threads stop."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for watch in self._watches:
                if watch.timer is not None:
                    watch.timer.cancel()
            if self._machine.end:
                for group in self._grouped.groups.values():
                    if group.size:
                        self._give(group, None)

    def _watch_of(self, key: Any) -> _Watch | None:
        group = self._grouped.groups.get(key)
        return group.watch if isinstance(group, _LiveGroup) else None

    def _start(self, sender: Sender) -> _Watch | None:
        """Start what active triggers do by the clock."""
        watch = None
        if any(timer.spec.thread for timer in sender.timers):
            watch = _Watch(self, sender)
            self._watches.append(watch)
        for trigger in active_ones(UserTrigger, sender.triggers):
            assert isinstance(trigger.policy, ActiveTrigger)
            trigger.policy.start(self._sender(sender.process_fake), self.clock)
        return watch

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


def extractor(column: str) -> Callable[[Mapping[str, Any]], Any] | None:
    """What reaches into a row for a path with steps; None for a plain column.

    >>> extractor("v[1]")({"v": [10, 20]})
    20
    """
    found = _PATH.fullmatch(column)
    if found is None:
        return None
    steps = [int(place) if place else one or other for place, one, other in re.findall(_STEP, found[2])]

    def extract(row: Mapping[str, Any]) -> Any:
        value = row[found[1]]
        for step in steps:
            value = _element(value, step)
        return value

    return extract


def extractors(columns: Iterable[str]) -> dict[str, Callable[[Mapping[str, Any]], Any]]:
    """Those of the columns that are paths."""
    made = {column: extractor(column) for column in columns}
    return {column: extract for column, extract in made.items() if extract is not None}


def _element(value: Any, step: int | str) -> Any:
    if isinstance(value, Mapping):
        return value.get(step)
    if isinstance(step, int) and isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return value[step] if step < len(value) else None
    if isinstance(step, int) and hasattr(value, "shape"):  # NumPy's arrays
        return value[step] if step < len(value) else None
    return None
