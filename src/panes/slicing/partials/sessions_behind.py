"""A batch with rows behind the watermark, as sessions take it.

Without lateness a session that the watermark has passed is gone, so which session a row joins depends on when it comes:
the keys that have such rows are walked row by row (session_kernel.py), all others are taken as ever. With lateness,
rows that touch no closed session are taken at once, and the others one at a time, as corrections.
"""

from __future__ import annotations

import numpy as np

from panes.aggregates.base import Cells
from panes.aggregates.segments import sort_by_group
from panes.slicing.key_index import use_kernels
from panes.slicing.lane import Arriving, Results, RowBatch, Taken
from panes.slicing.partials import session_kernel
from panes.slicing.partials.lifting import AtomLifter
from panes.slicing.partials.revisions import Revisions
from panes.slicing.partials.session_partials import SessionPartials, SessionQuery
from panes.slicing.partials.session_store import Pieces, SessionStore, runs
from panes.slicing.partials.store import segments, stable_order
from panes.windows.base import ALWAYS, NEVER

Array = np.ndarray


class SessionsBehind:
    """Sessions of all queries, and how late a closed one may still be corrected (None: not at all)."""

    def __init__(self, side: SessionPartials, lateness: int | None, revisions: Revisions) -> None:
        self._side = side
        self._lateness = lateness
        self._revisions = revisions

    def take(self, batch: Arriving, keys: int) -> Taken:
        """Take the rows of a batch, and give what its watermark makes due."""
        n = len(batch.at)
        out = Taken([], np.zeros(n, bool), np.zeros(n, bool))
        slots = np.zeros(len(batch.rows), np.int64) if batch.rows.slots is None else batch.rows.slots
        if self._lateness is None:
            concerned = np.zeros(keys, bool)
            concerned[slots[batch.at]] = True
            others = np.flatnonzero(~concerned[slots])
            if len(others):
                self._add(batch.rows.take(others), keys)
        for session, ends in zip(self._side.running, self._side.ends(batch.rows)):
            if self._lateness is None:
                taken = self._walk(batch, session, slots, ends, np.flatnonzero(concerned[slots]), out.results)
            else:
                taken = self._correct(batch, session, slots, ends, keys, out)
            out.taken |= taken
            out.miss(session.query.number, n - int(np.count_nonzero(taken)))
        out.results.append(self._side.due(batch.watermark, keep=self._lateness is not None))
        return out

    def _add(self, rows: RowBatch, keys: int, only: SessionQuery | None = None) -> None:
        atoms = AtomLifter().lift(rows, None, self._side.deadlines(rows), self._side.aggs, keys)
        self._side.take(atoms, only)

    def _walk(
        self, batch: Arriving, session: SessionQuery, slots: Array, ends: Array, mine: Array, found: list[Results]
    ) -> Array:
        """Take the rows `mine`, all of some keys, in order; which of the rows behind the watermark were taken."""
        store, aggs = session.store, self._side.shares.given_by(session.query)
        mine = mine[stable_order(slots[mine])]
        bounds = segments(slots[mine])
        keys = slots[mine[bounds[:-1]]]
        held = store.held(keys)
        held_bounds = np.searchsorted(store.slot[held], keys)
        held_bounds = np.append(held_bounds, len(held))
        room = len(held) + len(mine)
        first, end, into = np.empty(room, np.int64), np.empty(room, np.int64), np.arange(room)
        first[: len(held)], end[: len(held)] = store.first[held], store.end[held]
        closed, joined = np.zeros(room, bool), np.empty(len(mine), np.int64)
        walk = session_kernel.assign
        if use_kernels(len(mine)):
            from panes.slicing import kernels

            walk = kernels.assign_sessions
        n = walk(
            bounds, batch.rows.times[mine], ends[mine], batch.met[mine], held_bounds, first, end, into, closed,
            np.empty(room, np.int64), joined,
        )  # fmt: skip
        into = session_kernel.roots(into[:n])
        there = np.flatnonzero(into == np.arange(n))  # sessions that are still one of their own
        number = np.empty(n, np.int64)
        number[there] = np.arange(len(there))
        used = np.flatnonzero(joined >= 0)
        rows = batch.rows.take(mine[used])
        group = number[into[joined[used]]]
        slot = np.empty(len(there), np.int64)
        slot[group] = slots[mine[used]]
        slot[number[into[: len(held)]]] = store.slot[held]
        cells = []
        target = np.concatenate((number[into[: len(held)]], np.arange(len(there))))
        order, offsets = sort_by_group(target, len(there))
        for agg, kept in zip(aggs, store.cells(held)):
            lifted = agg.bound.lift_groups(rows.inputs(agg.inputs), group, len(there))
            cells.append(agg.bound.fold(Cells.concat([kept, lifted]).take(order), offsets))
        store.drop(held)
        store.merges += int(np.count_nonzero(into[: len(held)] != np.arange(len(held))))
        pieces = Pieces(slot, first[there], end[there], tuple(cells))
        over = closed[there]
        gone = np.flatnonzero(over)
        found.append(self._side.results_of(session, pieces.take(gone)))
        kept_open = np.flatnonzero(~over)
        store.load(
            pieces.take(kept_open[np.lexsort((pieces.first[kept_open], slot[kept_open]))]), np.empty(0, np.int64)
        )
        taken = np.zeros(len(batch.rows), bool)
        taken[mine[used]] = True
        return taken[batch.at]

    def _correct(
        self, batch: Arriving, session: SessionQuery, slots: Array, ends: Array, keys: int, out: Taken
    ) -> Array:
        """With lateness: rows that may touch a closed session one at a time; which rows behind were taken."""
        assert self._lateness is not None
        gone = batch.met_behind - self._lateness  # a session that ends before this is closed for good
        closed = _closed_ends(batch, slots, ends, session.store)
        alone = ends[batch.at] < gone
        single = alone | (closed >= batch.times)
        first = batch.without(single)
        if len(first):
            self._add(first, keys, session)
        taken = ~single
        for i in np.flatnonzero(single).tolist():
            met = int(batch.met_behind[i])
            out.results.append(self._side.due_of(session, met, keep=True))
            self._side.purge_of(session, int(gone[i]))
            row = batch.rows.take(batch.at[i : i + 1])
            slot, time, end = int(slots[batch.at[i]]), int(batch.times[i]), int(ends[batch.at[i]])
            touched = self._side.touched(session, slot, time, end)
            if not touched and alone[i]:
                continue
            taken[i] = True
            self._add(row, keys, session)
            out.corrected[i] |= max([end, *(t[1] for t in touched)]) < met or any(t[2] for t in touched)
            out.results.append(self._side.correct(session, slot, time, met, touched, self._revisions))
        return taken


def _closed_ends(batch: Arriving, slots: Array, ends: Array, store: SessionStore) -> Array:
    """Of each row behind the watermark, the last end before its watermark that a session of its key may have.

    An end is that of a session of rows that came in time, or of a row that did not; ALWAYS: there is none.
    """
    asked, which = np.unique(slots[batch.at], return_inverse=True)
    low, high = np.full(len(asked), NEVER), np.full(len(asked), NEVER)
    np.minimum.at(low, which, batch.times)
    np.minimum.at(high, which, batch.met_behind)
    place = np.minimum(asked.searchsorted(slots[batch.in_time]), len(asked) - 1)
    mine = np.flatnonzero(asked[place] == slots[batch.in_time])
    np.minimum.at(high, place[mine], batch.rows.times[batch.in_time][mine])
    # of sessions that end before rows that came in time and before all watermarks, only the last can be asked for
    held = store.ending(asked, low, high)
    of = np.concatenate((store.slot[held], slots[batch.in_time]))
    first = np.concatenate((store.first[held], batch.rows.times[batch.in_time]))
    last = np.concatenate((store.end[held], ends[batch.in_time]))
    if len(of):
        order, cut, reach = runs(of, first, last)
        tails = np.append(np.flatnonzero(cut)[1:], len(cut)) - 1
        of, last = of[order[tails]], reach[tails]
    of, last = np.concatenate((of, slots[batch.at])), np.concatenate((last, ends[batch.at]))
    # all ends and all watermarks in order of key and time, a watermark before an end at the same time
    n = len(of)
    keys = np.concatenate((of, slots[batch.at]))
    order = np.lexsort((np.arange(len(keys)) < n, np.concatenate((last, batch.met_behind)), keys))
    is_end = order < n
    newest = np.maximum.accumulate(np.where(is_end, np.arange(len(order)), -1))
    asked = np.flatnonzero(~is_end)
    before = order[np.maximum(newest[asked], 0)]
    there = (newest[asked] >= 0) & (keys[before] == keys[order[asked]])
    found = np.full(len(batch.at), ALWAYS)
    found[order[asked] - n] = np.where(there, last[np.minimum(before, n - 1)], ALWAYS)
    return found
