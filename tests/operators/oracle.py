"""The operators as one would write them down from their definition: lists, and a loop over every tick of time.

Nothing is shared with the engine but the words. Rows are dicts with `n` (a number of their own), `ts`, `k` (the key),
`v` (the attribute of delta policies) and whatever an operator looks at; None is a punctuation. Windows are told by
`Config`; what happens to them is told to a listener, in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
#: (event, key, rows): insert and evict (one row each), flush, trigger, partial (a trigger before the window was ever
#: full), forget
Listener = Callable[[str, Any, list[Row]], None]


@dataclass(frozen=True)
class Config:
    """Policies as pairs (kind, number); `trigger` None: tumbling. `partitions`: None, "kept", or (kind, number)."""

    evict: tuple[str, int]
    trigger: tuple[str, int] | None = None
    partitions: Any = None
    select: str = "lru"

    @property
    def keyed(self) -> bool:
        return self.partitions is not None


@dataclass
class Sub:
    key: Any
    began: int  # time from which its periods count
    came: list[tuple[int, int]] = field(default_factory=list)  # (arrival, time) of all rows of this subwindow
    held: list[tuple[int, Row]] = field(default_factory=list)  # (time, row)
    first_value: int = 0
    triggered: int | None = None  # the value that triggered last by delta
    full: bool = False

    @property
    def rows(self) -> list[Row]:
        return [row for _, row in self.held]


class Window:
    """One window; `tick` for every tick of time, then rows and punctuations of that tick."""

    def __init__(self, config: Config, say: Listener) -> None:
        self.config = config
        self.say = say
        self.subs: list[Sub] = []
        self.flushed: dict[Any, int] = {}  # key -> when its last subwindow was flushed, by time
        self.now = 0
        self.arrivals = 0

    def tick(self, now: int) -> None:
        self.now = now
        kind, size = self.config.evict
        if kind == "time" and self.config.trigger is None:
            for sub in [s for s in self.subs if now > s.began and (now - s.began) % size == 0]:
                self.flush(sub)
                self.flushed[sub.key] = now
        elif kind == "time":
            for sub in self.subs:
                while sub.held and now - sub.held[0][0] > size:
                    sub.full = True
                    self.evict(sub)
        if self.config.trigger is not None and self.config.trigger[0] == "time":
            for sub in self.subs:
                if now > sub.began and (now - sub.began) % self.config.trigger[1] == 0:
                    self.trigger(sub)

    def row(self, row: Row) -> None:
        self.arrivals += 1
        self.forget_aged()
        sub = self.sub(row["k"] if self.config.keyed else None)
        sub.came.append((self.arrivals, self.now))
        if self.config.trigger is None:
            self.tumble(sub, row)
        else:
            self.slide(sub, row)
        self.forget_excess(sub)

    def sub(self, key: Any) -> Sub:
        for sub in self.subs:
            if sub.key == key:
                return sub
        before = self.flushed.get(key)
        goes_on = before is not None and self.now < before + self.config.evict[1]
        self.subs.append(Sub(key, before if goes_on and before is not None else self.now))
        return self.subs[-1]

    def tumble(self, sub: Sub, row: Row) -> None:
        kind, size = self.config.evict
        if kind == "delta" and sub.held and row["v"] - sub.held[0][1]["v"] > size:
            self.say("flush", sub.key, sub.rows)
            sub.held = []
        self.insert(sub, row)
        if kind == "count" and len(sub.held) == size:
            self.flush(sub)

    def punctuate(self) -> None:
        for sub in list(self.subs):
            self.flush(sub)

    def flush(self, sub: Sub) -> None:
        self.say("flush", sub.key, sub.rows)
        sub.held = []
        if self.config.keyed:
            self.subs.remove(sub)

    def slide(self, sub: Sub, row: Row) -> None:
        kind, size = self.config.evict
        by, every = self.config.trigger or ("count", 1)
        too_old = [r for r in sub.rows if kind == "delta" and row["v"] - r["v"] > size]
        if too_old:
            sub.full = True
        if len(sub.came) == 1:
            sub.first_value = row["v"]
        if by == "delta":
            last = sub.first_value if sub.triggered is None else sub.triggered
            if row["v"] - last > every:
                sub.triggered = row["v"]
                self.trigger(sub)
        for _ in too_old:
            self.evict(sub)
        if kind == "count" and len(sub.held) == size and size > 0:
            self.evict(sub)
        if (kind, size) != ("count", 0):
            self.insert(sub, row)
        if kind == "count" and len(sub.held) == size:
            sub.full = True
        if by == "count" and len(sub.came) % every == 0:
            self.trigger(sub)

    def insert(self, sub: Sub, row: Row) -> None:
        self.say("insert", sub.key, [row])
        sub.held.append((self.now, row))

    def evict(self, sub: Sub) -> None:
        _, row = sub.held.pop(0)
        self.say("evict", sub.key, [row])

    def trigger(self, sub: Sub) -> None:
        self.say("trigger" if sub.full else "partial", sub.key, sub.rows)

    def forget_aged(self) -> None:
        if isinstance(self.config.partitions, tuple) and self.config.partitions[0] == "age":
            aged = [s for s in self.subs if self.now - s.came[-1][1] > self.config.partitions[1]]
            for sub in sorted(aged, key=lambda s: s.came[-1][0]):
                self.forget(sub)

    def forget_excess(self, current: Sub) -> None:
        if not isinstance(self.config.partitions, tuple) or self.config.partitions[0] == "age":
            return
        what, most = self.config.partitions
        while (len(self.subs) if what == "count" else sum(len(s.held) for s in self.subs)) > most:
            others = [s for s in self.subs if s is not current]
            if not others:
                return
            self.forget(min(others, key=self.rank))

    def rank(self, sub: Sub) -> Any:
        if self.config.select == "lru":
            return sub.came[-1][0]
        return sub.came[0][0] if self.config.select == "oldest" else (len(sub.came), sub.came[-1][0])

    def forget(self, sub: Sub) -> None:
        self.say("forget", sub.key, sub.rows)
        self.subs.remove(sub)
        self.flushed.pop(sub.key, None)


def drive(windows: list[Window], events: list[tuple[int, int, Row | None]], row: Callable[[int, Row], None]) -> None:
    """Let every tick pass from the first event (time, port, row) to the last; `row` hears of rows."""
    for i, (time, port, given) in enumerate(events):
        before = events[i - 1][0] if i else time
        for now in range(before + (i > 0), time + 1):
            for window in windows:
                window.tick(now)
        if given is None:
            windows[port].punctuate()
        else:
            row(port, given)


Events = list[tuple[int, "Row | None"]]


def aggregate(config: Config, events: Events, *, partial: bool) -> list[Any]:
    """Rows (key, group, sum and count of x, first n) with "|" for punctuations."""
    out: list[Any] = []

    def give(key: Any, rows: list[Row]) -> None:
        for group in dict.fromkeys(r["g"] for r in rows):
            mine = [r for r in rows if r["g"] == group]
            out.append((key, group, sum(r["x"] for r in mine), len(mine), mine[0]["n"]))
        if rows:
            out.append("|")

    def say(event: str, key: Any, rows: list[Row]) -> None:
        if event in ("flush", "trigger") or (event == "partial" and partial):
            give(key, rows)

    window = Window(config, say)
    drive([window], [(time, 0, row) for time, row in events], lambda _, row: window.row(row))
    if partial and config.trigger is None:
        for sub in sorted((s for s in window.subs if s.held), key=lambda s: s.rows[0]["n"]):
            give(sub.key, sub.rows)
    return out


def sort(config: Config, events: Events) -> list[Any]:
    """n of rows by x, then n; with "|" for punctuations."""
    out: list[Any] = []
    waiting: list[tuple[Any, Row]] = []  # progressive: (key, row)

    def first(rows: list[Row]) -> list[int]:
        return [r["n"] for r in sorted(rows, key=lambda r: (r["x"], r["n"]))]

    def batch(rows: list[Row]) -> None:
        out.extend(first(rows))
        if rows:
            out.append("|")

    def leave(key: Any, rows: list[Row]) -> None:
        """All rows of a key, in order."""
        mine = rows if config.trigger is None else [r for k, r in waiting if k == key]
        waiting[:] = [(k, r) for k, r in waiting if k != key]
        batch(mine)

    def say(event: str, key: Any, rows: list[Row]) -> None:
        if event == "flush":
            batch(rows)
        elif event == "insert" and config.trigger is not None:
            waiting.append((key, rows[0]))
        elif event == "evict":
            n = first([r for k, r in waiting if k == key])[0]
            waiting[:] = [(k, r) for k, r in waiting if r["n"] != n]
            out.append(n)
        elif event == "forget":
            leave(key, rows)

    window = Window(config, say)
    none_kept = config.evict == ("count", 0)
    drive(
        [window],
        [(time, 0, row) for time, row in events],
        lambda _, row: out.append(row["n"]) if none_kept else window.row(row),
    )
    for sub in sorted((s for s in window.subs if s.held), key=lambda s: s.rows[0]["n"]):
        leave(sub.key, sub.rows)
    return out


def dedupe(config: Config, events: Events) -> list[Any]:
    """n of rows whose x is not in the window that they enter; "|" for punctuations, which are passed on."""
    out: list[Any] = []

    def say(event: str, key: Any, rows: list[Row]) -> None:
        if event == "insert":
            held = next(s.rows for s in window.subs if s.key == key)
            if all(r["x"] != rows[0]["x"] for r in held):
                out.append(rows[0]["n"])

    window = Window(config, say)
    for i, (time, row) in enumerate(events):
        for now in range(events[i - 1][0] + 1 if i else time, time + 1):
            window.tick(now)
        if row is None:
            if config.evict[0] == "punct":
                window.punctuate()
            out.append("|")
        elif config.evict == ("count", 0):
            out.append(row["n"])
        else:
            window.row(row)
    return out


def join(
    configs: tuple[Config, Config],
    events: list[tuple[int, int, Row]],
    matches: Callable[[Row, Row], bool],
    how: str,
) -> list[Any]:
    """Pairs (n of left, n of right), None for a row without a partner; "|" after each arrival."""
    out: list[Any] = []
    matched: tuple[set[int], set[int]] = (set(), set())
    left: list[tuple[int, int]] = []  # (side, n) of rows that left their window since it was last looked at

    def listener(side: int) -> Listener:
        def say(event: str, key: Any, rows: list[Row]) -> None:
            if event in ("evict", "forget"):
                left.extend((side, row["n"]) for row in rows)
            elif event in ("trigger", "partial"):
                meet(side)

        return say

    def unmatched() -> None:
        """Rows that left at once: left before right, then in order of arrival."""
        for side, n in sorted(left):
            if how in ("full", ("left", "right")[side]) and n not in matched[side]:
                out.append((n, None) if side == 0 else (None, n))
        left.clear()

    current: list[Row] = []

    def meet(side: int) -> None:
        unmatched()
        mine = current[0]
        key = mine["k"] if configs[side].keyed else None
        held = [s.rows for s in windows[1 - side].subs if s.key == key]
        for other in held[0] if held else []:
            one, two = (mine, other) if side == 0 else (other, mine)
            if matches(one, two):
                matched[0].add(one["n"])
                matched[1].add(two["n"])
                out.append((one["n"], two["n"]))

    windows = [Window(configs[side], listener(side)) for side in range(2)]
    for i, (time, side, row) in enumerate(events):
        for now in range(events[i - 1][0] + 1 if i else time, time + 1):
            for window in windows:
                window.tick(now)
            unmatched()
        current[:] = [row]
        windows[side].row(row)
        if configs[side].evict == ("count", 0):
            left.append((side, row["n"]))
        unmatched()
        out.append("|")
    left.extend((side, row["n"]) for side in range(2) for sub in windows[side].subs for row in sub.rows)
    before = len(out)
    unmatched()
    return [*out, "|"] if len(out) > before else out
