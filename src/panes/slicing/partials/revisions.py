"""How often a window was given: corrections count on from the last time, and so does what follows early results.

Of windows given before they close (`EarlyGiven`): in come windows that close, and at some moments all that stand open.
Out go of the open ones those that have changed since they were last given, as they stand, and of the closing ones all,
with revisions that count everything given before. A session that was given early and has other bounds by now is
withdrawn first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import pyarrow as pa

from panes.slicing.lane import Results, Written
from panes.state.checked import MANY, demand
from panes.state.entries import Entries, EntryBank, EntryColumn, Held, entry_columns
from panes.state.journal import Journal, Replaced

Array = np.ndarray
Identity = tuple[int, int, int, int]  # query number, slot, start, end


_REVISION = EntryColumn(low=0, high=2**31 - 2)


class Revisions(EntryBank):
    """Remembers windows that were corrected; one that was only given once is known by its rows being there."""

    declared = entry_columns("query", "start", "end", revision=_REVISION)

    replaced = Replaced("_last", "_crowded")

    def __init__(self, journal: Journal | None = None) -> None:
        self._journal = journal or Journal()
        self._last: dict[Identity, int] = {}
        self._crowded = 64

    def __len__(self) -> int:
        return len(self._last)

    def next(self, window: Identity, *, given: bool) -> int:
        """The revision to give a window with now; `given`: it was given before."""
        known = self._last.get(window)
        revision = known + 1 if known is not None else int(given)
        if revision:
            self._journal.undo_by(self._put_back, self._last, window, known)
            self._last[window] = revision
        return revision

    @staticmethod
    def _put_back(last: dict[Identity, int], window: Identity, known: int | None) -> None:
        if known is None:
            last.pop(window, None)
        else:
            last[window] = known

    def forget_before(self, progress: int) -> None:
        """No row can change windows that end before this any more."""
        if len(self._last) > self._crowded:
            self._last = {w: r for w, r in self._last.items() if w[3] >= progress}
            self._crowded = max(64, 2 * len(self._last))

    def forget_query(self, number: int) -> None:
        self._last = {w: r for w, r in self._last.items() if w[0] != number}

    def used_slots(self) -> Array:
        return np.array([w[1] for w in self._last], np.int64)

    def renumber(self, moved: Array) -> None:
        self._last = {(n, int(moved[slot]), start, end): r for (n, slot, start, end), r in self._last.items()}

    def entries(self, slots: Array) -> Entries:
        wanted = set(slots.tolist())
        flat = [(*window, revision) for window, revision in self._last.items() if window[1] in wanted]
        number, slot, start, end, revision = np.array(flat, np.int64).reshape(-1, 5).T
        return Entries(slot, {"query": number, "start": start, "end": end, "revision": revision})

    def take_in(self, found: Entries) -> None:
        columns = (found.columns["query"], found.slots, *(found.columns[n] for n in ("start", "end", "revision")))
        for *window, revision in zip(*(column.tolist() for column in columns)):
            self._last[(window[0], window[1], window[2], window[3])] = revision

    @property
    def nbytes(self) -> int:
        return 200 * len(self._last)


_CROWDED = 64


@dataclass(frozen=True, eq=False)
class Known:
    """Windows that were given early: parallel arrays of int64. Nobody writes to them."""

    number: Array
    slot: Array
    start: Array
    end: Array
    rows: Array  # how many it held when it was last given
    revision: Array  # of the last time

    @classmethod
    def none(cls) -> Known:
        empty = np.empty(0, np.int64)
        return cls(empty, empty, empty, empty, empty, empty)

    def __len__(self) -> int:
        return len(self.number)

    @property
    def columns(self) -> tuple[Array, ...]:
        return tuple(getattr(self, f.name) for f in fields(self))

    @property
    def windows(self) -> tuple[Array, Array, Array, Array]:
        return self.number, self.slot, self.start, self.end

    def take(self, index: Array) -> Known:
        return Known(*(column[index] for column in self.columns))

    @staticmethod
    def concat(parts: Sequence[Known]) -> Known:
        return Known(*(np.concatenate(columns) for columns in zip(*(part.columns for part in parts))))


class EarlyGiven:
    """Windows given early, of all queries of a lane."""

    replaced = Replaced("open", "closed", "_crowded")

    def __init__(self, *, corrected: bool, journal: Journal) -> None:
        """`corrected`: windows may be given again after they have closed."""
        self._corrected = corrected
        self._changed = journal.changed
        self.open = Known.none()
        self.closed = Known.none()
        self._crowded = _CROWDED

    def stand(self, standing: Results, sessions: Sequence[int]) -> list[Results]:
        """Of all windows that are open, those that have changed; `sessions` are the numbers of queries of sessions.

        The last of the values of each is the number of its rows.
        """
        now, known = standing.written(), self.open
        rows = _rows(now)
        at = _places(known.windows, (now.query, now.slots, now.start, now.end))
        there = at >= 0
        before = known.take(at[there])
        revision = np.zeros(len(rows), np.int64)
        revision[there] = before.revision
        changed = ~there
        changed[there] = before.rows != rows[there]
        revision[there & changed] += 1
        self.open = Known(now.query, now.slots, now.start, now.end, rows, revision)
        gone = np.ones(len(known), bool)
        gone[at[there]] = False
        self._changed.note(np.concatenate((now.slots[changed], known.slot[gone])))
        gone &= np.isin(known.number, sessions)
        found = [_withdrawn(known.take(np.flatnonzero(gone)), now.values)] if gone.any() else []
        if changed.any():
            some = np.flatnonzero(changed)
            found.append(_early(now, some, revision[some]))
        return found

    def close(self, closing: Results, sessions: Sequence[int]) -> Results:
        """Windows that have closed, or are corrected, with their revisions, after withdrawals of sessions they hold."""
        if not len(closing) or not (len(self.open) or len(self.closed)):
            return closing
        now = closing.written()
        windows = now.query, now.slots, now.start, now.end
        at, again = _places(self.open.windows, windows), _places(self.closed.windows, windows)
        revision = now.revision.astype(np.int64)
        revision[at >= 0] += self.open.revision[at[at >= 0]] + 1
        revision[again >= 0] += self.closed.revision[again[again >= 0]] + 1
        ended = np.zeros(len(self.open), bool)
        ended[at[at >= 0]] = True
        grown = self._grown(ended, now, sessions)
        withdrawn = self.open.take(np.flatnonzero(grown))
        if self._corrected and ended.any():
            self.closed = Known.concat([self.closed, self.open.take(np.flatnonzero(ended))])
        if ended.any() or len(withdrawn):
            self._changed.note(self.open.slot[ended | grown])
            self.open = self.open.take(np.flatnonzero(~(ended | grown)))
        given = Results(
            now.query, now.slots, now.start, now.end, now.values, lo=closing.lo, hi=closing.hi,
            revision=revision.astype(np.int32), void=now.void,
        )  # fmt: skip
        return Results.concat([_withdrawn(withdrawn, now.values), given]) if len(withdrawn) else given

    def _grown(self, ended: Array, now: Written, sessions: Sequence[int]) -> Array:
        """Which sessions that were given early have become part of one that closes now, with other bounds."""
        found = np.zeros(len(self.open), bool)
        mine = np.flatnonzero(np.isin(self.open.number, sessions) & ~ended)
        closing = np.flatnonzero(np.isin(now.query, sessions) & ~now.void)
        if not len(mine) or not len(closing):
            return found
        old, n = self.open.take(mine), len(closing)
        number, slot, start = (
            np.concatenate(pair)
            for pair in (
                (now.query[closing], old.number),
                (now.slots[closing], old.slot),
                (now.start[closing], old.start),
            )
        )
        # all in order of query, key and start, one that closes before an old one that begins with it
        order = np.lexsort((np.arange(len(number)) >= n, start, slot, number))
        last = np.maximum.accumulate(np.where(order < n, np.arange(len(order)), -1))
        asked = np.flatnonzero(order >= n)
        before, which = order[np.maximum(last[asked], 0)], order[asked] - n
        holds = (last[asked] >= 0) & (number[before] == old.number[which]) & (slot[before] == old.slot[which])
        holds &= old.end[which] <= now.end[closing[np.minimum(before, n - 1)]]
        found[mine[which[holds]]] = True
        return found

    def forget_before(self, progress: int) -> None:
        """No row can change windows that end before this any more."""
        if len(self.closed) > self._crowded:
            self.closed = self.closed.take(np.flatnonzero(self.closed.end >= progress))
            self._crowded = max(_CROWDED, 2 * len(self.closed))

    def forget_query(self, number: int) -> None:
        self.open, self.closed = (
            known.take(np.flatnonzero(known.number != number)) for known in (self.open, self.closed)
        )

    def banks(self) -> dict[str, Held]:
        return {"early": EarlyBank(self, "open"), "early_closed": EarlyBank(self, "closed")}


class EarlyBank(EntryBank):
    """Windows given early that are open, or those that have closed."""

    declared = entry_columns("query", "start", "end", rows=EntryColumn(low=0, high=MANY), revision=_REVISION)

    def __init__(self, early: EarlyGiven, which: str) -> None:
        self._early, self._which = early, which

    @property
    def _known(self) -> Known:
        found: Known = getattr(self._early, self._which)
        return found

    def entries(self, slots: Array) -> Entries:
        number, slot, *others = self._known.columns
        return Entries(slot, dict(zip(self.declared, (number, *others), strict=True))).of(slots)

    def take_in(self, found: Entries) -> None:
        number, start, end, rows, revision = (found.columns[name] for name in self.declared)
        demand((start <= end).all(), "a window that was given early ends before it begins")
        more = Known(number, found.slots, start, end, rows, revision)
        setattr(self._early, self._which, Known.concat([self._known, more]))

    def used_slots(self) -> Array:
        return self._known.slot

    def renumber(self, moved: Array) -> None:
        setattr(self._early, self._which, replace(self._known, slot=moved[self._known.slot]))

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self._known.columns)


def _rows(given: Written) -> Array:
    return given.values[-1].to_numpy(zero_copy_only=False).astype(np.int64)


def _early(now: Written, some: Array, revision: Array) -> Results:
    values = tuple(column.take(pa.array(some)) for column in now.values)
    return Results(
        now.query[some], now.slots[some], now.start[some], now.end[some], values,
        revision=revision.astype(np.int32), final=np.zeros(len(some), bool),
    )  # fmt: skip


def _withdrawn(known: Known, like: Sequence[pa.Array]) -> Results:
    n = len(known)
    values = tuple(pa.nulls(n, column.type) for column in like)
    revision = (known.revision + 1).astype(np.int32)
    return Results(
        *(known.number, known.slot, known.start, known.end), values,
        revision=revision, void=np.ones(n, bool), final=np.zeros(n, bool),
    )  # fmt: skip


def _places(known: tuple[Array, ...], asked: tuple[Array, ...]) -> Array:
    """Where each window that is asked for is among the known ones; -1: nowhere."""
    n, m = len(known[0]), len(asked[0])
    if not n or not m:
        return np.full(m, -1)
    columns = [np.concatenate(pair) for pair in zip(known, asked)]
    order = np.lexsort(columns[::-1])
    differs = np.zeros(n + m, bool)
    for column in columns:
        ordered = column[order]
        differs[1:] |= ordered[1:] != ordered[:-1]
    groups = np.empty(n + m, np.int64)
    groups[order] = np.cumsum(differs)
    at = np.full(int(groups.max()) + 1, -1)
    at[groups[:n]] = np.arange(n)
    return at[groups[n:]]
