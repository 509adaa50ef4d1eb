"""The partial lane: rows in any order, partial aggregates only, never rows (SPEC S-12, S-15).

For context-free windows on event time and sessions, with commutative aggregates. Each row is lifted once: into
partials per (slice, key), or, when there are sessions, into atoms that serve slices and sessions both. Windows
are assembled from what is held when the watermark passes their end. A late row is added like any other; the
windows it belongs to that were given already are given again, with the next revision.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from panes.slicing.lane import Agg, Query, Results, Rows
from panes.slicing.lateness import Arriving, Taken
from panes.slicing.partials.early import EarlyGiven
from panes.slicing.partials.lane_results import join, no_results
from panes.slicing.partials.lifting import AtomLifter, Loose, lift_slices
from panes.slicing.partials.revisions import Revisions
from panes.slicing.partials.session_side import SessionSide
from panes.slicing.partials.sessions_behind import SessionsBehind
from panes.slicing.partials.slice_side import SliceSide
from panes.slicing.partials.slices_behind import SlicesBehind
from panes.slicing.partials.store import CellList, fold_equal
from panes.state.journal import Journal, Replaced
from panes.windows.base import ALWAYS, ContextFree

Array = np.ndarray


class PartialLane:
    """Implements the contract of lane.py for workloads that need no rows and no order."""

    replaced = Replaced("watermark", "last_time", "keys")

    def __init__(
        self,
        queries: Sequence[Query],
        aggs: Sequence[Agg],
        *,
        lateness: int | None,
        keyed: bool,
        store: str = "auto",
        emit_empty: bool = False,
        in_order: bool = False,
        early: bool = False,
        journal: Journal | None = None,
    ) -> None:
        """`early`: windows are also given before they close; the last aggregate then counts rows."""
        self.aggs = tuple(aggs)
        self._journal = journal or Journal()
        self.lateness = lateness
        self.keyed = keyed
        self.watermark = ALWAYS
        self.last_time = ALWAYS
        self.keys = 0 if keyed else 1  # slots 0..keys-1 have been seen
        context_free = [q for q in queries if isinstance(q.window, ContextFree)]
        others = [q for q in queries if not isinstance(q.window, ContextFree)]
        self.slices = SliceSide(
            context_free,
            aggs,
            keyed=keyed,
            store=store,
            emit_empty=emit_empty,
            in_order=in_order,
            journal=self._journal,
        )
        self.sessions = SessionSide(others, aggs, self._journal)
        self.revisions = Revisions(self._journal)
        self.early = EarlyGiven(corrected=lateness is not None) if early else None
        self._lifter = AtomLifter()

    def begin(self) -> list[Any]:
        """A call begins: objects whose attributes it may replace."""
        found: list[Any] = [self] if self.lateness is None else [self, self.revisions]
        found += self.slices.begin()
        if self.early is not None:
            found.append(self.early)
        if self.sessions:
            self._journal.undo_by(self._lift_anew)
            found += self.sessions.begin()
        return found

    def _lift_anew(self) -> None:
        self._lifter = AtomLifter()  # the one that is there may know atoms that are no more

    def calm_until(self, step: int) -> int:
        """Rows that are not late change nothing but slices up to this watermark: no window ends before it, and nothing
        can fail. ALWAYS: nobody knows, or it was not looked at, since a window ends in every `step` of the watermark.
        """
        if self.watermark == ALWAYS or step >= self.slices.windows.shortest:
            return ALWAYS
        if self.sessions or self.slices.empty is not None:
            return ALWAYS
        return self.slices.windows.next_end(self.watermark)

    @property
    def queries(self) -> tuple[Query, ...]:
        both = (*self.slices.windows.queries, *(s.query for s in self.sessions.running))
        return tuple(sorted(both, key=lambda q: q.number))

    def add(self, rows: Rows) -> None:
        """Take rows none of which is behind the watermark."""
        if not len(rows):
            return
        lo, hi = rows.bounds()
        self.last_time = max(self.last_time, hi)
        self.keys = max(self.keys, rows.slots_below())
        placed = self.slices.place(rows, lo, hi) if self.slices else None
        if self.sessions:
            atoms = self._lifter.lift(rows, placed, self.sessions.deadlines(rows), self.aggs, self.keys)
            self.sessions.take(atoms)
            if atoms.starts is not None and atoms.at is not None:
                delta = CellList(atoms.at, atoms.slots, atoms.cells)
                if not atoms.one_per_cell:
                    delta = fold_equal(delta, [a.bound for a in self.aggs])
                self.slices.take(Loose(atoms.starts, delta.at, delta.slots, delta.cells))
        elif placed is not None:
            self.slices.take(lift_slices(rows, placed, self.aggs, self.keys, dense=self.slices.dense))

    def take(self, batch: Arriving) -> Taken:
        """Take a batch with rows behind the watermark, and give what its watermark makes due."""
        self.last_time = max(self.last_time, batch.rows.bounds()[1])
        self.keys = max(self.keys, batch.rows.slots_below())
        n = len(batch.at)
        out = Taken([], np.zeros(n, bool), np.zeros(n, bool))
        parts = []
        if self.slices:
            side = SlicesBehind(self.slices, self.lateness, self.revisions)
            parts.append(side.take(batch, self.keys, self.watermark))
        if self.sessions:
            parts.append(SessionsBehind(self.sessions, self.lateness, self.revisions).take(batch, self.keys))
        for part in parts:
            out.results += part.results
            out.taken |= part.taken
            out.corrected |= part.corrected
            out.missed |= part.missed
        if self.early is not None:
            out.results = [self._closed(results) for results in out.results]
        self.watermark = max(self.watermark, batch.watermark)
        self._forget()
        return out

    def advance(self, watermark: int) -> Results:
        """Event time has reached `watermark`: everything now due."""
        if watermark <= self.watermark:
            return no_results(self.aggs)
        before, self.watermark = self.watermark, watermark
        parts = [self.slices.due(before, watermark)] if self.slices else []
        if self.sessions:
            parts.append(self.sessions.due(watermark, keep=self.lateness is not None))
        self._forget()
        return self._closed(join(parts, self.aggs))

    def stand(self) -> list[Results]:
        """Open windows as they stand, those that have changed since they were last given."""
        assert self.early is not None
        found = [self.slices.standing(self.watermark)] if self.slices else []
        found.append(self.sessions.standing())
        return self.early.stand(join(found, self.aggs), self._session_numbers())

    def _session_numbers(self) -> list[int]:
        return [session.query.number for session in self.sessions.running]

    def _closed(self, results: Results) -> Results:
        return results if self.early is None else self.early.close(results, self._session_numbers())

    def _forget(self) -> None:
        """Event time has moved on: forget what no row can change any more."""
        progress = self._progress()
        if self.slices:
            self.slices.purge_now_and_then(progress)
        if self.sessions and self.lateness is not None:
            self.sessions.purge(progress)
        self.revisions.forget_before(progress)
        if self.early is not None:
            self.early.forget_before(progress)

    def finish(self) -> Results:
        """End of stream: everything that the end makes due."""
        parts = [self.slices.finish(self.watermark)] if self.slices else []
        parts.append(self.sessions.finish())
        return self._closed(join(parts, self.aggs))

    def _progress(self) -> int:
        """No row below this can come any more."""
        return max(self.watermark - (self.lateness or 0), ALWAYS + 1) if self.watermark > ALWAYS else ALWAYS

    def next_due(self, watermark: int) -> int:
        """No result can be due before the watermark reaches this (ALWAYS if any row may make one due)."""
        if watermark == ALWAYS:
            return ALWAYS
        return min(self.slices.windows.next_end(watermark), self.sessions.next_due(watermark))

    def add_window(self, query: Query, watermark: int) -> None:
        """Give this window too, from the first one on whose rows are all still held in slices of their own."""
        self.watermark = max(self.watermark, watermark)
        if isinstance(query.window, ContextFree):
            self.slices.add_query(query, self.watermark, self._progress(), self.last_time)
        else:
            self.sessions.add_query(query, self.last_time)

    def remove_window(self, number: int) -> None:
        """Stop giving this window; edges that only it had are cut no more."""
        if any(q.number == number for q in self.slices.windows.queries):
            self.slices.remove_query(number, self._progress(), self.last_time)
        self.sessions.remove_query(number)
        self.revisions.forget_query(number)
        if self.early is not None:
            self.early.forget_query(number)

    def dump(self, slots: Array | None = None) -> dict[str, pa.Table]:
        """The whole state, or that of some keys, as Arrow tables."""
        from panes.slicing.partials import partial_lane_state

        self._tidy()
        return partial_lane_state.dump(self, slots)

    def load(self, tables: dict[str, pa.Table], slot_map: Any) -> None:
        """Take in a dump; `slot_map[slot in the dump]` is the slot here. Dumps of other keys may follow."""
        from panes.slicing.partials import partial_lane_state

        partial_lane_state.load(self, tables, slot_map)

    def _tidy(self) -> None:
        """Hold only what is needed, whenever that was looked at last."""
        if self.slices and self.watermark > ALWAYS:
            self.slices.tidy(self._progress())

    def used_slots(self) -> Array:
        """Slots of keys that something is held of."""
        self._tidy()
        parts = [self.slices.store.used_slots(), self.revisions.used_slots()]
        parts += [s.store.used_slots() for s in self.sessions.running]
        parts += [] if self.early is None else [self.early.used_slots()]
        return np.unique(np.concatenate(parts))

    def renumber(self, moved: Array) -> None:
        """`moved[slot]` is the new slot of a key, -1 if nothing is held of it; the order of keys stays."""
        self.keys = int(np.count_nonzero(moved >= 0))
        self.slices.renumber(moved)
        for session in self.sessions.running:
            session.store.renumber(moved)
        self.revisions.renumber(moved)
        if self.early is not None:
            self.early.renumber(moved)
        self._lifter = AtomLifter()

    def describe(self) -> dict[str, Any]:
        """What slices look like now: where those held begin, and where the next edge after the watermark is."""
        self._tidy()
        after = max(self.watermark, self.last_time)
        return {
            "slice_starts": self.slices.slices.starts.tolist(),
            "next_edge": self.slices.edges.next_edge(after) if self.slices and after > ALWAYS else None,
            "store": self.slices.store.name if self.slices else None,
        }

    def metrics(self) -> dict[str, Any]:
        self._tidy()
        stores = [s.store for s in self.sessions.running]
        sessions = sum(s.nbytes for s in stores)
        return {
            "slices": len(self.slices.slices),
            "cells": self.slices.store.occupied if self.slices else 0,
            "combines": self.slices.store.combines + sum(s.combines for s in stores),
            "splits": 0,  # all edges are known before rows come
            "merges": self.slices.merges + sum(s.merges for s in stores),
            "updates": self.slices.updates + sum(s.updates for s in stores),
            "bytes": (self.slices.store.nbytes if self.slices else 0) + sessions,
            "bytes_filled": (self.slices.store.nbytes_filled if self.slices else 0) + sessions,
            "store": self.slices.store.name if self.slices else "sessions only",
            "sessions_open": sum(s.open for s in stores),
        }
