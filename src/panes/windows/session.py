"""Sessions: rows of a key that follow each other within a gap, fixed or given by each row."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from panes.errors import QueryError
from panes.units import Rows, Size, TimeDomain, is_number, looks_like_duration
from panes.windows.base import (
    NEVER,
    TIME,
    Array,
    Closed,
    ContextClass,
    KeyRuns,
    Measure,
    Scanned,
    Sessions,
    StateDefaults,
)
from panes.windows.scanning import (
    OPEN_STATE,
    OneOpen,
    before,
    close_all,
    heads,
    numbers,
    pair_up,
    running_max,
)
from panes.windows.spec import WrittenWindow, expression, size_argument

#: No session ends later than this: NEVER is kept for "no end".
_LAST = NEVER - 1


@dataclass(frozen=True)
class SessionScan(OneOpen, Sessions):
    """Sessions on event time, found in rows that come in order."""

    gap: int = field(default=0, kw_only=True)
    gap_column: str | None = field(default=None, kw_only=True)

    @property
    def state(self) -> StateDefaults:
        return {**OPEN_STATE, "deadline": np.int64(0), "seen": np.int64(0)}

    def _deadlines(self, rows: KeyRuns) -> Array:
        times = rows.times
        if self.gap_column is None:
            return np.where(times > _LAST - self.gap, _LAST, times + self.gap)
        gaps = _whole_gaps(rows.columns[self.gap_column])
        deadlines: Array = times + np.minimum(gaps, _LAST - np.maximum(times, 0))
        return deadlines

    def scan(self, rows: KeyRuns, state: dict[str, Array]) -> Scanned:
        growing = self.gap_column is None
        return _scan(rows, rows.times, self._deadlines(rows), state, growing=growing, by_rows=False)

    def advance(self, watermark: int, slots: Array, state: dict[str, Array]) -> Closed:
        over = state["open"] & (state["deadline"] < watermark)
        return close_all(over, slots, state, state["seen"], state["deadline"])

    def finish(self, slots: Array, state: dict[str, Array], rows_seen: Array) -> Closed:
        return close_all(state["open"].copy(), slots, state, state["seen"], state["deadline"])


@dataclass(frozen=True)
class ColumnSessionScan(OneOpen):
    """Sessions on an advancing column: closed by rows only. A session is [first value, deadline) on the column.

    The deadline of whole numbers is one, in state `whole`; that of others is in `deadline`.
    """

    gap: float = field(default=0, kw_only=True)
    gap_column: str | None = field(default=None, kw_only=True)
    context = ContextClass.FORWARD_FREE

    @property
    def state(self) -> StateDefaults:
        return {**OPEN_STATE, "deadline": np.float64(np.nan), "whole": np.int64(0), "seen": np.int64(0)}

    def scan(self, rows: KeyRuns, state: dict[str, Array]) -> Scanned:
        values = rows.columns[str(self.measure.column)]
        gaps = np.asarray(self.gap) if self.gap_column is None else rows.columns[self.gap_column]
        growing = self.gap_column is None
        if values.dtype.kind in "iu":
            values = values.astype(np.int64)
            gaps = _whole_gaps(gaps)
            deadlines = values + np.minimum(gaps, _LAST - np.maximum(values, 0))
            return _scan(rows, values, deadlines, state, "whole", growing=growing, by_rows=True)
        values = numbers(values)
        return _scan(rows, values, values + numbers(gaps), state, growing=growing, by_rows=True)

    def finish(self, slots: Array, state: dict[str, Array], rows_seen: Array) -> Closed:
        upto = state["whole" if np.isnan(state["deadline"]).all() else "deadline"][state["open"]]
        return replace(super().finish(slots, state, rows_seen), upto=upto)


def _whole_gaps(gaps: Array) -> Array:
    """Gaps in whole ticks; 2**62 and above is as good as endless, and float64 can't say where int64 ends."""
    if gaps.dtype.kind in "iu":
        whole = np.minimum(gaps.astype(np.uint64 if gaps.dtype.kind == "u" else np.int64, copy=False), 2**62)
    else:
        whole = np.floor(np.clip(numbers(gaps), 0, 2.0**62))
    return np.asarray(whole, np.int64)


def _scan(
    rows: KeyRuns,
    values: Array,
    deadlines: Array,
    state: dict[str, Array],
    name: str = "deadline",
    *,
    growing: bool,
    by_rows: bool,
) -> Scanned:
    """Cut where a value lies after all deadlines before it; `name` is the state that has the last one.

    The largest deadline of all rows so far will do: earlier sessions' deadlines lie before this one's rows.
    """
    some, at = heads(rows)
    was_open = state["open"][some]
    deadlines[at] = np.where(was_open, np.maximum(deadlines[at], state[name][some]), deadlines[at])
    if not growing:
        deadlines = running_max(rows, deadlines)
    previous = before(rows, deadlines, state[name])
    begin = values > previous
    stop = begin.copy()
    begin[at] |= ~was_open
    stop[at] &= was_open
    scanned = pair_up(rows, begin, stop, state, None if by_rows else previous)
    tails = rows.offsets[some + 1] - 1
    state[name][some] = deadlines[tails]
    state["seen"][some] = rows.first_pos[some] + tails - at + 1
    return Scanned(replace(scanned.closed, upto=previous[stop]), scanned.cuts) if by_rows else scanned


@dataclass(frozen=True, repr=False)
class Session(WrittenWindow):
    """Runs of rows without a long pause: see `session`."""

    gap: Size
    on: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.gap, Rows):
            raise QueryError(f"gap={self.gap!r} must be a duration, a number or an expression: rows have no pauses")
        if isinstance(self.gap, str) and not looks_like_duration(self.gap):
            expression(self.gap, "gap")
        else:
            object.__setattr__(self, "gap", size_argument(self.gap, "gap"))
        super().__post_init__()

    def bind(self, domain: TimeDomain) -> SessionScan | ColumnSessionScan:
        by_row = self.gap if isinstance(self.gap, str) and not looks_like_duration(self.gap) else None
        read = () if by_row is None else (by_row,)
        if self.on is None:
            ticks = 0 if by_row is not None else domain.ticks(self.gap, argument="gap")
            return SessionScan(TIME, gap=ticks, gap_column=by_row, columns=read)
        if by_row is None and not is_number(self.gap):
            raise QueryError(f"gap={self.gap!r} on the column {self.on!r} must be a number: it is not an event time")
        gap = self.gap if is_number(self.gap) else 0
        measure = Measure("column", self.on)
        return ColumnSessionScan(measure, gap=gap, gap_column=by_row, columns=(self.on, *read))


def session(gap: Size, *, on: str | None = None) -> Session:
    """Rows of a key that follow each other within `gap`: a row exactly `gap` after the last one still joins.

    `gap` is a duration, a number (integer time, or the column `on`), or a SQL expression that gives each row
    its own gap in ticks of the time column. Text that is a number and a word is a duration, all else an
    expression.

    >>> session("30 s")
    session("30 s")
    """
    return Session(gap, on)
