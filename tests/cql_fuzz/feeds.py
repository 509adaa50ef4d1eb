"""Rows as the oracle passes them on, and which of them windows see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from panes.cql import tree
from panes.cql.windows.clause import WindowClause
from tests.cql_fuzz.evaluate import Scope, ticks_of
from tests.cql_fuzz.oracle_windows import attributes, measures, ticks
from tests.oracle.windows import INFINITY, Row

#: types of columns that can be a time
WHOLE = ("byte", "short", "int", "long")


@dataclass(frozen=True)
class Feed:
    """Rows to read: columns in order with their types, values per row, and what is known of their time."""

    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Any, ...], ...]
    time: str | None = None
    delay: tree.Quantity | None = None
    #: other names of the time
    also: tuple[str, ...] = ()

    @property
    def times(self) -> tuple[str, ...]:
        return () if self.time is None else (self.time, *self.also)

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.columns]

    def type(self, name: str) -> str:
        return next(kind for n, kind in self.columns if n.lower() == name)

    def whole(self, time: str | None) -> bool:
        """Whether a time is a whole number in units of its own."""
        return time is not None and self.type(time) in WHOLE


@dataclass(frozen=True)
class Answer(Feed):
    """What a query gives; `exact`: the order of its rows is said, too."""

    exact: bool = False


def time_of(feed: Feed, windows: tuple[WindowClause, ...]) -> str | None:
    """The column that windows run on: none if a length is of system time, else the known one, or that of an ON."""
    if any(m.kind == "system" for w in windows for m in measures(w)):
        return None
    wanted = [name for w in windows for name in attributes(w)]
    if feed.time is not None:
        return next((name for name in wanted if name in feed.times), feed.time)
    return next((name for name in wanted if feed.type(name) in (*WHOLE, "datetime")), None)


def timed(
    feed: Feed, windows: tuple[WindowClause, ...], scopes: list[Scope], time: str | None, clock: list[int] | None
) -> list[Row]:
    """Rows that have a time, in event order, each with the watermark that it met."""
    kept = []
    reached = -INFINITY
    delay = feed.delay if feed.delay is not None and (feed.time is None or time in feed.times) else None
    wait = 0 if delay is None or time is None else ticks(delay, feed.whole(time))
    for seq, scope in enumerate(scopes):
        if time is None:
            now = clock[scope["#number"]] if clock is not None else 0
        else:
            now = ticks_of(scope[time])
        if now is None:
            continue
        kept.append(Row(seq, now, scope, reached))
        reached = max(reached, now - wait)
    return sorted(kept, key=lambda r: (r.time, r.seq))


def advanced(rows: list[Row], columns: set[str]) -> list[Row]:
    """Without rows that have no value of a measure, or one below that of the row before."""
    kept: list[Row] = []
    for row in rows:
        if any(row.data[c] is None or (kept and row.data[c] < kept[-1].data[c]) for c in columns):
            continue
        kept.append(row)
    return kept
