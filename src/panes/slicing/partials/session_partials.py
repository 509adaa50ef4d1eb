"""The session half of the partial lane: one store of sessions per query, all fed from the same atoms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Cells
from panes.aggregates.columns import PartialColumns
from panes.errors import QueryError
from panes.slicing.lane import Agg, Results, RowBatch, RunningWindow
from panes.slicing.partials.lane_results import corrections, join, no_results
from panes.slicing.partials.lifting import Atoms
from panes.slicing.partials.revisions import Revisions
from panes.slicing.partials.session_store import GIVEN, OPEN, Pieces, SessionStore
from panes.slicing.shares import Shares
from panes.state.checked import demand
from panes.state.entries import Entries, EntryBank, EntryColumn, entry_columns
from panes.state.journal import Journal, Replaced, Watched
from panes.windows.base import ALWAYS, NEVER, Sessions

Array = np.ndarray

#: No session ends later than this: NEVER means "no end".
_LAST = NEVER - 1


@dataclass
class SessionQuery:
    """A running session query. Sessions that begin up to `clean_after` may lack rows and are not given."""

    query: RunningWindow
    window: Sessions
    store: SessionStore
    clean_after: int = ALWAYS


class SessionPartials(EntryBank):
    """Sessions of all keys and session queries."""

    declared = entry_columns("query", "first", "end", given=EntryColumn(pa.bool_()))
    replaced = Replaced("running", "shares", "codec")

    def __init__(self, queries: Sequence[RunningWindow], shares: Shares, journal: Journal | None = None) -> None:
        self.share(shares)
        self._journal = journal or Journal()
        self.running: list[SessionQuery] = []
        for query in queries:
            self._start(query, ALWAYS)

    def share(self, shares: Shares) -> None:
        """Know these aggregates from now on; stores have what their queries give."""
        self.shares = shares
        self.codec = PartialColumns([a.bound for a in shares.aggs])

    def __bool__(self) -> bool:
        return bool(self.running)

    @property
    def aggs(self) -> tuple[Agg, ...]:
        """Those of all windows of the lane; a store of sessions has only what its query gives."""
        return self.shares.aggs

    def begin(self) -> list[Watched]:
        """A call begins: objects whose attributes it may replace."""
        return [self, *(each for session in self.running for each in session.store.begin())]

    def _start(self, query: RunningWindow, clean_after: int) -> None:
        window = query.window
        assert isinstance(window, Sessions)
        self._journal.keep_length(self.running)
        store = SessionStore(self.shares.given_by(query), self._journal)
        self.running.append(SessionQuery(query, window, store, clean_after))

    def add_query(self, query: RunningWindow, last_time: int) -> None:
        """Give sessions of this query too: those that begin so late that all their rows are still to come."""
        assert isinstance(query.window, Sessions)
        if last_time == ALWAYS:
            self._start(query, ALWAYS)
            return
        if query.window.gap_column is not None:
            raise QueryError(
                f"window {query.label!r}: a session with a gap by expression can't be added to a stream that has "
                "begun, since nobody knows the gaps of the rows that came before; start a new query with it"
            )
        self._start(query, min(last_time + query.window.gap, _LAST))

    def remove_query(self, number: int) -> None:
        self.running = [r for r in self.running if r.query.number != number]

    def deadlines(self, rows: RowBatch) -> Array:
        """Until when another row joins each row: for the shortest fixed gap, then for each gap by expression."""
        found = []
        fixed = [r.window.gap for r in self.running if r.window.gap_column is None]
        if fixed:
            found.append(_plus(rows.times, min(fixed)))
        for name in self._gap_columns():
            found.append(_plus(rows.times, _ticks(rows.columns[name].values)))
        return np.stack(found)

    def _gap_columns(self) -> list[str]:
        return list(dict.fromkeys(r.window.gap_column for r in self.running if r.window.gap_column is not None))

    def ends(self, rows: RowBatch) -> list[Array]:
        """Per query, until when another row would join each row."""
        deadlines, columns = self.deadlines(rows), self._gap_columns()
        return [
            _plus(rows.times, s.window.gap)
            if s.window.gap_column is None
            else deadlines[columns.index(s.window.gap_column) - len(columns)]
            for s in self.running
        ]

    def take(self, atoms: Atoms, only: SessionQuery | None = None) -> None:
        """Take atoms into the sessions of all queries, or of one."""
        columns = self._gap_columns()
        for session in self.running if only is None else [only]:
            if session.window.gap_column is None:
                end = _plus(atoms.last, session.window.gap)
            else:
                end = atoms.reach[columns.index(session.window.gap_column) - len(columns)]
            cells = tuple(atoms.cells[a] for a in self.shares.of(session.query.number))
            session.store.add(atoms.slots, atoms.first, end, cells, apart=atoms.one_per_key)

    def due(self, watermark: int, *, keep: bool) -> Results:
        """Sessions that ended before the watermark. `keep`: late rows may still join them."""
        return join([self.due_of(session, watermark, keep=keep) for session in self.running], self.aggs)

    def due_of(self, session: SessionQuery, watermark: int, *, keep: bool) -> Results:
        """The same, of one query."""
        store = session.store
        ids = store.due(watermark)
        if not len(ids):
            return no_results(self.aggs)
        results = self._results(session, ids[store.first[ids] > session.clean_after])
        if keep:
            store.mark(ids, GIVEN)
        else:
            store.drop(ids, due=True)
        return results

    def results_of(self, session: SessionQuery, pieces: Pieces) -> Results:
        """Sessions that have ended and were never kept."""
        pieces = pieces.take(np.flatnonzero(pieces.first > session.clean_after))
        if not len(pieces):
            return no_results(self.aggs)
        number = np.full(len(pieces), session.query.number, np.int64)
        values = self._lowered(session, pieces.cells)
        return Results(number, pieces.slots, pieces.first, pieces.end, values)

    def standing(self) -> Results:
        """Sessions that have not ended, as they are."""
        parts = []
        for session in self.running:
            ids = np.flatnonzero(session.store.state == OPEN)
            ids = ids[np.lexsort((session.store.first[ids], session.store.slot[ids]))]
            parts.append(self._results(session, ids[session.store.first[ids] > session.clean_after]))
        return join(parts, self.aggs)

    def standing_of(self, slot: int, watermark: int) -> Results:
        """The same, of one key."""
        parts = []
        for session in self.running:
            ids = session.store.open_of(slot, watermark)
            parts.append(self._results(session, ids[session.store.first[ids] > session.clean_after]))
        return join(parts, self.aggs)

    def finish(self) -> Results:
        """End of stream: all sessions that are still open."""
        return self.due(NEVER, keep=False)

    def _results(self, session: SessionQuery, ids: Array) -> Results:
        store = session.store
        if not len(ids):
            return no_results(self.aggs)
        number = np.full(len(ids), session.query.number, np.int64)
        return Results(number, store.slot[ids], store.first[ids], store.end[ids], self._values(session, ids))

    def _values(self, session: SessionQuery, ids: Array) -> tuple[pa.Array, ...]:
        return self._lowered(session, session.store.cells(ids))

    def _lowered(self, session: SessionQuery, cells: Sequence[Cells]) -> tuple[pa.Array, ...]:
        values = [a.bound.lower(c) for a, c in zip(self.shares.given_by(session.query), cells)]
        return self.shares.spread(session.query.number, values)

    def entries(self, slots: Array) -> Entries:
        held = [(session.query.number, session.store, session.store.held(slots)) for session in self.running]
        columns = {
            "query": [np.full(len(ids), number) for number, _, ids in held],
            "first": [store.first[ids] for _, store, ids in held],
            "end": [store.end[ids] for _, store, ids in held],
            "given": [store.state[ids] == GIVEN for _, store, ids in held],
        }
        none = np.empty(0, np.int64)
        cells = [tuple(a.bound.empty(0) for a in self.aggs)]
        cells += [self._in_place(number, store.cells(ids), len(ids)) for number, store, ids in held]
        return Entries(
            np.concatenate([none, *(store.slot[ids] for _, store, ids in held)]),
            {name: np.concatenate([none.astype(bool) if name == "given" else none, *c]) for name, c in columns.items()},
            tuple(map(Cells.concat, zip(*cells))),
        )

    def _in_place(self, number: int, cells: Sequence[Cells], n: int) -> tuple[Cells, ...]:
        """What the store of a query has, beside nothing of the aggregates that it does not give."""
        given = dict(zip(self.shares.of(number), cells))
        return tuple(given[i] if i in given else a.bound.empty(n) for i, a in enumerate(self.aggs))

    def take_in(self, found: Entries) -> None:
        queries = found.columns["query"]
        demand(np.isin(queries, [s.query.number for s in self.running]).all(), "there are sessions of no window")
        for session in self.running:
            mine = np.flatnonzero(queries == session.query.number)
            slots, first = found.slots[mine], found.columns["first"][mine]
            order = mine[np.lexsort((first, slots))]
            slots, first, end, given = found.slots[order], *(found.columns[n][order] for n in ("first", "end", "given"))
            same = slots[1:] == slots[:-1]
            demand((first <= end).all(), "a session ends before it begins")
            demand((first[1:] > end[:-1])[same].all(), "two sessions of a key overlap")
            cells = tuple(found.cells[place].take(order) for place in self.shares.of(session.query.number))
            session.store.load(Pieces(slots, first, end, cells), given)

    def used_slots(self) -> Array:
        return np.concatenate([np.empty(0, np.int64), *(s.store.used_slots() for s in self.running)])

    def renumber(self, moved: Array) -> None:
        for session in self.running:
            session.store.renumber(moved)

    @property
    def nbytes(self) -> int:
        return sum(session.store.nbytes for session in self.running)

    def purge(self, progress: int) -> None:
        """Forget given sessions that no row from `progress` on can join."""
        for session in self.running:
            self.purge_of(session, progress)

    def purge_of(self, session: SessionQuery, progress: int) -> None:
        ids = session.store.take_settled(progress)
        if len(ids):
            session.store.drop(ids)

    def next_due(self, watermark: int) -> int:
        """No session is due before the watermark reaches this, also of rows still to come."""
        found = NEVER
        for session in self.running:
            gap = session.window.gap if session.window.gap_column is None else 0
            found = min(found, session.store.next_due + 1 if session.store.next_due < NEVER else NEVER)
            found = min(found, watermark + int(gap) + 1)
        return found

    def touched(self, session: SessionQuery, slot: int, time: int, end: int) -> list[tuple[int, int, bool]]:
        """The sessions (first, end, given) that a row of this key is going to join."""
        store = session.store
        ids = store.touching(slot, time, end).tolist()
        return [(int(store.first[i]), int(store.end[i]), bool(store.state[i] == GIVEN)) for i in ids]

    def correct(
        self,
        session: SessionQuery,
        slot: int,
        time: int,
        watermark: int,
        before: list[tuple[int, int, bool]],
        revisions: Revisions,
    ) -> Results:
        """After a row behind the watermark was taken: what it changed among sessions given already."""
        store = session.store
        now = store.touching(slot, time, time)
        first, end = int(store.first[now[0]]), int(store.end[now[0]])
        same = [h for h in before if h[:2] == (first, end) and h[2]]
        spans, void = [], []
        number = session.query.number
        if end < watermark:
            store.give_again(now)
            if first > session.clean_after:
                revision = revisions.next((number, slot, first, end), given=bool(same))
                spans.append((number, first, end, revision))
        else:
            store.reopen(now)
        for old_first, old_end, given in before:
            if given and (old_first, old_end) != (first, end) and old_first > session.clean_after:
                revision = revisions.next((number, slot, old_first, old_end), given=True)
                void.append((number, old_first, old_end, revision))
        return corrections(slot, spans + void, len(void), self._values(session, now[: len(spans)]))


def _plus(times: Array, gap: Array | int) -> Array:
    """Times plus gaps, at most _LAST."""
    if isinstance(gap, int):
        return np.minimum(times, _LAST - gap) + gap
    return np.minimum(gap, _LAST - np.maximum(times, 0)) + times


def _ticks(gaps: Array) -> Array:
    """Gaps in whole ticks; 2**62 and above is as good as endless."""
    if gaps.dtype.kind in "iu":
        wide = gaps.astype(np.uint64 if gaps.dtype.kind == "u" else np.int64, copy=False)
        return np.minimum(wide, 2**62).astype(np.int64)
    return np.floor(np.clip(gaps.astype(np.float64), 0, 2.0**62)).astype(np.int64)
