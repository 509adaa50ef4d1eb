"""Windows that conditions on rows open and close: punctuated (rows that say so), threshold (as long as one holds)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from panes.errors import QueryError
from panes.units import TimeDomain
from panes.windows.base import DATA, NEVER, Array, Closed, Discretizer, KeyRuns, Scanned, StateDefaults
from panes.windows.scanning import (
    OneOpen,
    before,
    pair_up,
    stops_of_begins,
    truth,
)
from panes.windows.spec import WrittenWindow, expression


@dataclass(frozen=True)
class PunctuatedScan(OneOpen):
    """Each row that matches `begin` opens a window and ends the one before."""

    begin: str = field(kw_only=True)

    def scan(self, rows: KeyRuns, state: dict[str, Array]) -> Scanned:
        begin = truth(rows.columns[self.begin])
        return pair_up(rows, begin, stops_of_begins(rows, begin, state["open"]), state)


@dataclass(frozen=True)
class EndScan(OneOpen):
    """Each row that matches `end` ends a window, which it is in; the next row begins another."""

    end: str = field(kw_only=True)

    def scan(self, rows: KeyRuns, state: dict[str, Array]) -> Scanned:
        end = truth(rows.columns[self.end])
        return pair_up(rows, before(rows, end, ~state["open"]), end, state, with_stop=True)

    def finish(self, slots: Array, state: dict[str, Array], rows_seen: Array) -> Closed:
        return Closed.none()


@dataclass(frozen=True)
class BracketScan(Discretizer):
    """Each row that matches `begin` opens one more window; one that matches `end` first ends all of them.

    The oldest open window of a key is in plain columns; more of them, which is rare, are packed as bytes of
    int64 pairs (position, time).
    """

    begin: str = field(kw_only=True)
    end: str = field(kw_only=True)

    packed = ("packed",)

    @property
    def state(self) -> StateDefaults:
        return {
            "first_pos": np.int64(NEVER),
            "first_time": np.int64(0),
            "others": np.int64(0),
            "packed": None,
        }

    def scan(self, rows: KeyRuns, state: dict[str, Array]) -> Scanned:
        begins = np.flatnonzero(truth(rows.columns[self.begin]))
        ends = np.flatnonzero(truth(rows.columns[self.end]))
        groups, flat, pos, time = self._all_begins(rows, begins, state)
        at = np.searchsorted(ends, flat, side="right")
        over = at < len(ends)
        over[over] = ends[at[over]] < rows.offsets[groups[over] + 1]
        closing = ends[at[over]]
        ended = groups[over]
        closed = Closed(
            rows.slots[ended],
            pos[over],
            rows.first_pos[ended] + closing - rows.offsets[ended],
            time[over],
            rows.times[closing],
        )
        _store_open(state, groups[~over], pos[~over], time[~over])
        return Scanned(closed, np.union1d(begins, closing))

    def _all_begins(self, rows: KeyRuns, begins: Array, state: dict[str, Array]) -> tuple[Array, Array, Array, Array]:
        """(group, flat row, position, time) of windows open before and begun now, by group and position.

        Those open before count as begun at the row before the first of their key.
        """
        held = np.flatnonzero(state["first_pos"] != NEVER)
        parts = [(held, rows.offsets[held] - 1, state["first_pos"][held], state["first_time"][held])]
        for group in np.flatnonzero(state["others"]):
            more = np.frombuffer(state["packed"][group], np.int64).reshape(-1, 2)
            same = np.full(len(more), group)
            parts.append((same, rows.offsets[same] - 1, more[:, 0], more[:, 1]))
        groups = np.searchsorted(rows.offsets, begins, side="right") - 1
        now = rows.first_pos[groups] + begins - rows.offsets[groups]
        parts.append((groups, begins, now, rows.times[begins]))
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        order = np.argsort(columns[0], kind="stable")
        return columns[0][order], columns[1][order], columns[2][order], columns[3][order]

    def open_from(self, state: dict[str, Array]) -> Array:
        return state["first_pos"]


def _store_open(state: dict[str, Array], groups: Array, pos: Array, time: Array) -> None:
    """Keep these windows, sorted by group and position, and no others."""
    state["first_pos"][:] = NEVER
    state["packed"][state["others"] > 0] = None
    state["others"][:] = 0
    some, first, counts = np.unique(groups, return_index=True, return_counts=True)
    state["first_pos"][some] = pos[first]
    state["first_time"][some] = time[first]
    for group, start, count in zip(some[counts > 1], first[counts > 1], counts[counts > 1], strict=True):
        more = slice(start + 1, start + count)
        state["others"][group] = count - 1
        state["packed"][group] = np.stack((pos[more], time[more]), axis=1).tobytes()


@dataclass(frozen=True, repr=False)
class Punctuated(WrittenWindow):
    """Windows marked by rows: see `punctuated`."""

    begin: str | None = None
    end: str | None = None
    bare = 0
    checks = MappingProxyType({"begin": expression, "end": expression})

    def __post_init__(self) -> None:
        if self.begin is None and self.end is None:
            raise QueryError("punctuated() needs begin=, end= or both: SQL conditions that mark where windows lie")
        super().__post_init__()

    def bind(self, domain: TimeDomain) -> PunctuatedScan | EndScan | BracketScan:
        columns = tuple(dict.fromkeys(c for c in (self.begin, self.end) if c is not None))
        if self.begin is None:
            assert self.end is not None
            return EndScan(DATA, end=self.end, columns=columns)
        if self.end is None:
            return PunctuatedScan(DATA, begin=self.begin, columns=columns)
        return BracketScan(DATA, begin=self.begin, end=self.end, columns=columns)


def punctuated(*, begin: str | None = None, end: str | None = None) -> Punctuated:
    """Windows between rows that match SQL predicates.

    - `begin` alone: a window begins at each row that matches, and lasts until the next begins.
    - `end` alone: a window lasts from the first row, or the row after the last end, to a row that matches, which is
      its last.
    - Both: a row that matches `begin` opens a window; one that matches `end` ends all open windows and is in none
      of them; one that matches both ends, then begins.

    >>> punctuated(begin="kind = 'start'", end="kind = 'stop'")
    punctuated(begin="kind = 'start'", end="kind = 'stop'")
    """
    return Punctuated(begin, end)


@dataclass(frozen=True)
class ThresholdScan(OneOpen):
    """A window opens at the first row that matches and ends before the first that doesn't."""

    predicate: str = field(kw_only=True)
    min_rows: int = field(default=1, kw_only=True)

    def scan(self, rows: KeyRuns, state: dict[str, Array]) -> Scanned:
        matches = truth(rows.columns[self.predicate])
        running = before(rows, matches, state["open"])
        scanned = pair_up(rows, matches & ~running, running & ~matches, state)
        return replace(scanned, closed=self._long_enough(scanned.closed))

    def _long_enough(self, closed: Closed) -> Closed:
        keep = closed.stop_pos - closed.start_pos >= self.min_rows
        if keep.all():
            return closed
        return Closed(
            closed.slots[keep],
            closed.start_pos[keep],
            closed.stop_pos[keep],
            closed.start[keep],
            closed.end[keep],
        )

    def finish(self, slots: Array, state: dict[str, Array], rows_seen: Array) -> Closed:
        return self._long_enough(super().finish(slots, state, rows_seen))


@dataclass(frozen=True, repr=False)
class Threshold(WrittenWindow):
    """Runs of rows that match: see `threshold`."""

    predicate: str
    min_rows: int = 1

    def bind(self, domain: TimeDomain) -> ThresholdScan:
        return ThresholdScan(DATA, predicate=self.predicate, min_rows=self.min_rows, columns=(self.predicate,))


def threshold(predicate: str, *, min_rows: int = 1) -> Threshold:
    """Maximal runs of rows for which the SQL `predicate` is true, of at least `min_rows` rows.

    >>> threshold("temperature > 90", min_rows=3)
    threshold("temperature > 90", min_rows=3)
    """
    return Threshold(predicate, min_rows)
