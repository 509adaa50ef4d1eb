"""The oracle: docs/semantics.md taken literally, row by row.

Each arriving row is first judged, window by window: it is used if it is not behind the watermark or if some window
takes it, else it is put on the ledger with a reason. Then all due windows of all queries and keys are computed from
scratch and compared with what was given before: new ones are given with revision 0, those with another set of rows
with the next revision, vanished ones once more as void.

`strict=True` does that after every single row. The default does it at the end of a call and around every row behind
the watermark only: another row lies at or after the watermark, so it can't change a window that is due already, and
windows becoming due one after the other are the same as windows becoming due together.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tests.oracle.aggregates import aggregate
from tests.oracle.windows import (
    HAVE_EMPTY,
    INFINITY,
    Bounds,
    Found,
    Row,
    Rows,
    Sessions,
    Spec,
    changed,
    due_windows,
    first_and_last_end,
    with_empty,
)

NULL_TIME = "null time"
TOO_LATE = "too late"
BAD_GAP = "bad gap"
NULL_MEASURE = "null measure"
MEASURE_BACK = "measure went back"

#: window kinds on an advancing column, which is their first argument
ON_COLUMN = ("column", "last_rows_by", "session_on")
#: window kinds that look at rows one by one and, if added while running, start afresh with the next row
AFRESH = ("punctuated", "delta", "threshold")
_BEFORE_ALL = (-INFINITY, -1)
#: what looks at rows one by one, so that their positions are counted
ROW_BY_ROW = (
    *AFRESH, *ON_COLUMN, "rows", "last_rows", "markers", "keep_last", "last_of", "pauses", "mixed", "ticking",
    "per_instant", "whole_and_rest",
)  # fmt: skip
#: what needs rows in order, though its windows lie on time
IN_ORDER = ("first_row", "on_change")
#: sessions on time
SESSIONS = ("session", "session_by")

Key = tuple[Any, ...]


class Result(NamedTuple):
    """One result of one window."""

    key: Key
    window: str
    start: Any
    end: Any
    lo: Any
    hi: Any
    revision: int
    void: bool
    values: tuple[Any, ...]
    final: bool = True


class Late(NamedTuple):
    """One row that was used nowhere."""

    seq: int
    data: dict[str, Any]
    reason: str


class Given(NamedTuple):
    """What was last said about one window."""

    revision: int
    rows: tuple[int, ...] | None  # arrival numbers; None: void
    final: bool = True


class Oracle:
    """`watermark`: None (in order), a number of ticks to wait, or "manual"."""

    def __init__(
        self,
        windows: dict[str, Spec],
        aggregates: Sequence[Spec],
        *,
        keys: Sequence[str] = (),
        time: str = "ts",
        watermark: int | str | None = None,
        lateness: int | None = None,
        emit_empty: bool = False,
        early: int | None = None,
        own: Mapping[str, Sequence[Spec]] | None = None,
        strict: bool = False,
    ) -> None:
        """`own`: aggregates of windows that have some of their own, by label; also of those that will be added."""
        self.windows = dict(windows)
        self.aggregates = list(aggregates)
        self.own = dict(own or {})
        self.key_columns = tuple(keys)
        self.time_column = time
        self.bound = watermark
        self.lateness = 0 if lateness is None else lateness
        self.emit_empty = emit_empty
        self.early = early
        self.strict = strict
        self.watermark: float = -INFINITY
        self.newest: float = -INFINITY  # the largest time of any row
        self.rows: dict[Key, Rows] = {}
        self.given: dict[tuple[str, Key], dict[Bounds, Given]] = {}
        self.compared: dict[tuple[str, Key], tuple[float, int]] = {}
        self.late: list[Late] = []
        #: per label, how many rows some window had to miss, since it was closed for good or needs rows in order
        self.missed: Counter[str] = Counter()
        self.rows_in = 0
        self.sessions: dict[tuple[str, Key], Sessions] = {}
        #: per key, the arrival numbers of rows whose measure has been checked, and of those that it kept out
        self.checked: dict[Key, set[int]] = {}
        self.broken: set[int] = set()
        #: arrival numbers of rows that windows on time were there for
        self.on_time: set[int] = set()
        #: the watermark before the end of the stream
        self.reached: float = -INFINITY
        #: arrival number of the first row that has a position; None: nothing has looked at rows one by one
        kinds = {spec[0] for spec in windows.values()}
        self.counted_from = 0 if kinds & {*ROW_BY_ROW, *IN_ORDER} else None
        #: label of a window added while running -> time and arrival number of the last row of each key before it
        self.afresh: dict[str, dict[Key, tuple[float, int]]] = {}
        #: label of a window added while running -> it is given if it starts here or later: all its rows come after that
        self.surely_from: dict[str, float] = {}
        #: of such a window, and a key: the end of one that was given though it started before that
        self.warm: dict[tuple[str, Key], float] = {}

    # What a user calls

    def push(self, batch: Sequence[dict[str, Any]]) -> list[Result]:
        out: list[Result] = []
        for data in batch:
            before = self.watermark
            self._arrive(data, out)
            if self.strict:
                self._give(out)
            self._give_early_since(before, out)
        self._give(out)
        return out

    def advance(self, watermark: float) -> list[Result]:
        out: list[Result] = []
        before = self.watermark
        self.reached = max(self.reached, self.watermark)
        self.watermark = max(self.watermark, watermark)
        self._give(out)
        self._give_early_since(before, out)
        return out

    def finish(self) -> list[Result]:
        return self.advance(INFINITY)

    def add(self, label: str, spec: Spec) -> None:
        self.windows[label] = spec
        if spec[0] in ROW_BY_ROW and self.counted_from is None:
            self.counted_from = self.rows_in
        if spec[0] in AFRESH:
            self.afresh[label] = {key: self._last_seen(key) for key in self.rows}
        # a session that begins within the gap of rows seen so far may be the rest of one that began before
        self.surely_from[label] = max(self.watermark, self.newest + 1) + (spec[1] if spec[0] == "session" else 0)

    def starts_warm(self, label: str, key: Key, end: float) -> None:
        """A window that started before its label was added is given: those without rows follow it, as any other."""
        self.warm[label, key] = min(end, self.warm.get((label, key), INFINITY))
        self.compared.pop((label, key), None)

    def remove(self, label: str) -> None:
        del self.windows[label]

    def _counted(self, key: Key) -> Rows:
        """The rows of a key that have a position."""
        return [r for r in self.rows_in_order(key) if r.seq >= (self.counted_from or 0)]

    def _last_seen(self, key: Key) -> tuple[float, int]:
        """Time and arrival number of the last row of a key, in order, that the watermark has passed."""
        return max(((r.time, r.seq) for r in self._counted(key) if r.time <= self.watermark), default=_BEFORE_ALL)

    def positions(self, key: Key, until: int) -> int:
        """How many rows of a key that arrived before row number `until` have a position."""
        return sum(r.seq < until for r in self._counted(key))

    def rows_in_order(self, key: Key) -> Rows:
        """The rows of a key that windows which must see them in order have taken."""
        return [r for r in self.rows.get(key, []) if r.time >= r.after and r.seq not in self.broken]

    def due(self, key: Key, label: str) -> Found:
        """All due windows of a label and a key, from scratch."""
        spec = self.windows[label]
        if spec[0] in SESSIONS:
            return self.sessions_of(label, key).due(self.watermark)
        in_order = spec[0] in (*ROW_BY_ROW, *IN_ORDER)
        rows = self.rows_in_order(key) if in_order else self.rows.get(key, [])
        if spec[0] == "on_change" and self.emit_empty and spec[1] in HAVE_EMPTY:
            inner = spec[1:]
            last = self._last_end(inner, in_order)
            return changed(with_empty(inner, due_windows(inner, rows, self.watermark), last))
        if spec[0] in ROW_BY_ROW:
            counted, since = self._counted(key), self.afresh.get(label, {}).get(key, _BEFORE_ALL)
            spec = (*spec, self._last_tick(spec[4])) if spec[0] == "ticking" else spec
            taken = [r for r in counted if (r.time, r.seq) > since]
            found = due_windows(spec, taken, self.watermark)
            return shifted(found, len(counted) - len(taken)) if label in self.afresh else found
        found = due_windows(spec, rows, self.watermark)
        if not self.emit_empty or spec[0] not in HAVE_EMPTY:
            return found
        # of a query added while running, from the first one on that it gives
        sure, warm = self.surely_from.get(label, -INFINITY), self.warm.get((label, key), INFINITY)
        begun = {bounds: held for bounds, held in found.items() if bounds[0] >= sure or bounds[1] >= warm}
        return {**found, **with_empty(spec, begun, self._last_end(spec, in_order))}

    def sessions_of(self, label: str, key: Key) -> Sessions:
        return self.sessions.setdefault((label, key), Sessions())

    def _last_end(self, spec: Spec, in_order: bool) -> float:
        """Up to where windows without rows are given: the watermark, in the end the last window of any key.

        A row that was kept out of windows which must see rows in order is in none of them.
        """
        if self.watermark < INFINITY:
            return self.watermark
        taken = [self.rows_in_order(key) for key in self.rows] if in_order else self.rows.values()
        held = (due_windows(spec, rows, INFINITY) for rows in taken)
        return max([self.reached, *(end for found in held for _, end, _, _ in found)])

    def _last_tick(self, every: int) -> float:
        """Up to where ticks go once the stream has ended: the watermark, or the one after the last row of any key."""
        last = max((r.time for key in self.rows for r in self.rows_in_order(key)), default=0)
        return max(self.reached, (last // every + 1) * every)

    @property
    def rows_used(self) -> int:
        return sum(len(rows) for rows in self.rows.values())

    def aggregates_of(self, label: str) -> Sequence[Spec]:
        return self.own.get(label, self.aggregates)

    def values(self, label: str, rows: Rows) -> tuple[Any, ...]:
        return tuple([aggregate(a, rows) for a in self.aggregates_of(label)])

    @property
    def measures(self) -> set[str]:
        """Columns that must advance."""
        alone = {spec[1] for spec in self.windows.values() if spec[0] in ON_COLUMN}
        kinds = ("mixed", "ticking", "per_instant")
        mixed = [a for spec in self.windows.values() if spec[0] in kinds for a in spec[1:]]
        return alone | {a for a in mixed if isinstance(a, str) and a not in ("time", "rows")}

    @property
    def gaps(self) -> set[str]:
        """Columns that hold a gap."""
        return {spec[1] for spec in self.windows.values() if spec[0] == "session_by"}

    # How a row is judged

    def _arrive(self, data: dict[str, Any], out: list[Result]) -> None:
        row = Row(self.rows_in, data[self.time_column], data, self.watermark - self.lateness)
        self.rows_in += 1
        reason = self._reason_to_refuse(row)
        behind = row.time is not None and row.time < self.watermark
        if reason is None:
            if behind:
                self._give(out)
            takers = [label for label in self.windows if self._takes(label, row)]
            if any(
                self.windows[label][0] not in (*ROW_BY_ROW, *IN_ORDER) for label in (takers if behind else self.windows)
            ):
                self.on_time.add(row.seq)
            if behind and not any(spec[0] in (*ROW_BY_ROW, *IN_ORDER) for spec in self.windows.values()):
                self.broken.add(row.seq)  # nobody looks at rows one by one: it has no place among them
            if any(row.data[column] is None for column in self.measures):
                self.broken.add(row.seq)
                reason = None if row.seq in self.on_time else NULL_MEASURE
                if behind and not takers:
                    reason = TOO_LATE if row.time < row.after else NULL_MEASURE
            elif behind and not takers:
                reason = TOO_LATE
            if reason is None:
                key = tuple(row.data[c] for c in self.key_columns)
                insort(self.rows.setdefault(key, []), row, key=lambda r: (r.time, r.seq))
                if behind:
                    self._give(out)
        if reason is not None:
            self.late.append(Late(row.seq, data, reason))
        if row.time is not None:
            self.newest = max(self.newest, row.time)
        if row.time is not None and (self.bound is None or isinstance(self.bound, int)):
            self.watermark = max(self.watermark, row.time - (self.bound or 0))

    def _reason_to_refuse(self, row: Row) -> str | None:
        if row.time is None:
            return NULL_TIME
        for column in self.gaps:
            gap = row.data[column]
            if gap is None or gap < 0:
                return BAD_GAP
        return None

    def _takes(self, label: str, row: Row) -> bool:
        """Whether a window of this label takes the row; those that have to miss it are counted."""
        spec = self.windows[label]
        if spec[0] in (*ROW_BY_ROW, *IN_ORDER):
            known = all(row.data[column] is not None for column in self.measures)
            self.missed[label] += not (row.time >= row.after and known)
            return row.time >= row.after and known
        if spec[0] in SESSIONS:
            key = tuple(row.data[c] for c in self.key_columns)
            gap = spec[1] if spec[0] == "session" else row.data[spec[1]]
            taken = self.sessions_of(label, key).take(row, gap, self.lateness, self.watermark)
            self.missed[label] += not taken
            return taken
        ends = first_and_last_end(spec, row.time)
        if ends is None:
            return False
        self.missed[label] += ends[0] <= row.after
        return ends[1] > row.after

    def _check_measures(self, key: Key) -> None:
        """Rows behind the watermark whose measure is below that of the row before them are kept out of windows that
        must see rows in order. So are late ones whose measure is above that of the row after them, which was settled
        before. If there are no other windows they leave the query.
        """
        before: Row | None = None
        checked = self.checked.setdefault(key, set())
        rows = self.rows_in_order(key)
        for i, row in enumerate(rows):
            new = row.time <= self.watermark and row.seq not in checked
            after = next((r for r in rows[i + 1 :] if r.seq in checked), row) if new else row
            back = new and any(row.data[c] > after.data[c] for c in self.measures)
            if back or (new and before and any(row.data[c] < before.data[c] for c in self.measures)):
                self.broken.add(row.seq)
                self.missed.update(label for label, spec in self.windows.items() if spec[0] in (*ROW_BY_ROW, *IN_ORDER))
                if row.seq not in self.on_time:
                    self.late.append(Late(row.seq, row.data, MEASURE_BACK))
                    self.rows[key].remove(row)
                continue
            if new:
                checked.add(row.seq)
            before = row

    # What is given

    def _give(self, out: list[Result]) -> None:
        if self.measures:
            for key in self.rows:  # of all keys first: where the stream ends depends on which rows are left
                self._check_measures(key)
        for key, rows in self.rows.items():
            for label in self.windows:
                # rows are only ever added, so the same number of them under the same watermark is no news
                state = (self.watermark, len(rows))
                if self.compared.get((label, key)) != state:
                    self.compared[label, key] = state
                    self._compare(key, label, self.due(key, label), out)

    def _compare(self, key: Key, label: str, due: dict[Bounds, Rows], out: list[Result]) -> None:
        given = self.given.setdefault((label, key), {})
        for bounds, rows in due.items():
            seqs = tuple([r.seq for r in rows])
            before = given.get(bounds)
            if before is None or before.rows != seqs or not before.final:
                revision = 0 if before is None else before.revision + 1
                given[bounds] = Given(revision, seqs)
                out.append(Result(key, label, *bounds, revision, False, self.values(label, rows)))
                self._withdraw_parts(key, label, bounds, out)
        if len(given) > len(due):
            for bounds, before in given.items():
                if bounds not in due and before.rows is not None and before.final:
                    self._withdraw(key, label, bounds, out)

    def _withdraw(self, key: Key, label: str, bounds: Bounds, out: list[Result]) -> None:
        before = self.given[label, key][bounds]
        self.given[label, key][bounds] = Given(before.revision + 1, None, before.final)
        nothing = (None,) * len(self.aggregates_of(label))
        out.append(Result(key, label, *bounds, before.revision + 1, True, nothing, before.final))

    # What is given early

    def _give_early_since(self, before: float, out: list[Result]) -> None:
        """If the watermark has passed a multiple of `early`: what is due, then open windows that have changed."""
        if self.early is None or before == -INFINITY or self.watermark == INFINITY:
            return
        if before // self.early < self.watermark // self.early:
            self._give(out)
            for key in self.rows:
                for label in self.windows:
                    self._stand(key, label, out)

    def _stand(self, key: Key, label: str, out: list[Result]) -> None:
        given = self.given.setdefault((label, key), {})
        for bounds, rows in self._open(key, label).items():
            seqs, before = tuple([r.seq for r in rows]), given.get(bounds)
            if before is None or before.rows != seqs:
                revision = 0 if before is None else before.revision + 1
                given[bounds] = Given(revision, seqs, final=False)
                out.append(Result(key, label, *bounds, revision, False, self.values(label, rows), False))
                self._withdraw_parts(key, label, bounds, out)

    def _open(self, key: Key, label: str) -> Found:
        """Windows that hold rows and have not closed."""
        spec = self.windows[label]
        if spec[0] in SESSIONS:
            sessions = self.sessions_of(label, key).all
            return {(s.first, s.end, None, None): s.rows for s in sessions if s.end >= self.watermark}
        found = due_windows(spec, self.rows.get(key, []), INFINITY)
        return {bounds: rows for bounds, rows in found.items() if bounds[1] > self.watermark}

    def _withdraw_parts(self, key: Key, label: str, bounds: Bounds, out: list[Result]) -> None:
        """Sessions that were given early and have become part of this one."""
        if self.windows[label][0] not in SESSIONS:
            return
        given = self.given[label, key]
        parts = [b for b, g in given.items() if not g.final and g.rows is not None and b != bounds]
        for part in parts:
            if bounds[0] <= part[0] and part[1] <= bounds[1]:
                self._withdraw(key, label, part, out)


def shifted(found: Found, by: int) -> Found:
    """Windows whose positions count rows before the first one seen, too."""
    return {(start, end, lo + by, hi + by): rows for (start, end, lo, hi), rows in found.items()}
