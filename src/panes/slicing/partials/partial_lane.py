"""The partial lane: rows in any order, partial aggregates only, never rows (SPEC S-12, S-15).

For context-free windows on event time and sessions, with commutative aggregates. Each row is lifted once: into
partials per (slice, key), or, when there are sessions, into atoms that serve slices and sessions both. Windows
are assembled from what is held when the watermark passes their end. A late row is added like any other; the
windows it belongs to that were given already are given again, with the next revision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from panes.slicing.lane import Agg, Arriving, Lane, Results, RowBatch, RunningWindow, Taken
from panes.slicing.partials import partial_lane_state
from panes.slicing.partials.lane_results import join, no_results
from panes.slicing.partials.lifting import AtomLifter, Loose, lift_slices
from panes.slicing.partials.revisions import EarlyGiven, Revisions
from panes.slicing.partials.session_partials import SessionPartials
from panes.slicing.partials.sessions_behind import SessionsBehind
from panes.slicing.partials.slice_partials import SlicePartials
from panes.slicing.partials.slices_behind import SlicesBehind
from panes.slicing.partials.store import CellList, fold_equal
from panes.slicing.shares import Shares
from panes.state.entries import Banks, Held, nbytes_of
from panes.state.journal import Journal, Replaced, Watched
from panes.windows.base import ALWAYS, ContextFree

Array = np.ndarray


class PartialLane(Lane):
    """For windows that need no rows and no order."""

    ordered = False
    replaced = Replaced("watermark", "last_time", "keys", "aggs")

    def __init__(
        self,
        queries: Sequence[RunningWindow],
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
        shares = Shares(queries, aggs)
        super().__init__(shares.aggs, lateness)
        self._journal = journal or Journal()
        self.keyed = keyed
        self.watermark = ALWAYS
        self.keys = 0 if keyed else 1  # slots 0..keys-1 have been seen
        context_free = [q for q in queries if isinstance(q.window, ContextFree)]
        others = [q for q in queries if not isinstance(q.window, ContextFree)]
        self.slices = SlicePartials(
            context_free,
            shares,
            keyed=keyed,
            store=store,
            emit_empty=emit_empty,
            in_order=in_order,
            journal=self._journal,
        )
        self.sessions = SessionPartials(others, shares, self._journal)
        self.revisions = Revisions(self._journal)
        self.early = EarlyGiven(corrected=lateness is not None, journal=self._journal) if early else None
        self._lifter = AtomLifter()

    def begin(self) -> list[Watched]:
        found: list[Any] = [self] if self.lateness is None else [self, self.revisions]
        found += self.slices.begin()
        if self.early is not None:
            found.append(self.early)
        if self.sessions.running:
            self._journal.undo_by(self._lift_anew)
            found += self.sessions.begin()
        return found

    def _lift_anew(self) -> None:
        self._lifter = AtomLifter()  # the one that is there may know atoms that are no more

    def calm_until(self, step: int) -> int:
        if self.watermark == ALWAYS or step >= self.slices.windows.shortest:
            return ALWAYS
        if self.sessions or self.slices.empty is not None:
            return ALWAYS
        return self.slices.windows.next_end(self.watermark)

    @property
    def queries(self) -> tuple[RunningWindow, ...]:
        both = (*self.slices.windows.queries, *(s.query for s in self.sessions.running))
        return tuple(sorted(both, key=lambda q: q.number))

    @property
    def needs_arrival(self) -> bool:
        return any(agg.bound.laws.by_arrival for agg in self.aggs)

    @property
    def closes_behind(self) -> bool:
        return bool(self.sessions)

    def add(self, rows: RowBatch) -> None:
        if not len(rows):
            return
        lo, hi = rows.bounds()
        self.last_time = max(self.last_time, hi)
        self.keys = max(self.keys, rows.slots_below())
        placed = self.slices.place(rows, lo, hi) if self.slices.windows.queries else None
        if self.sessions.running:
            atoms = self._lifter.lift(rows, placed, self.sessions.deadlines(rows), self.aggs, self.keys)
            self.sessions.take(atoms)
            if atoms.starts is not None and atoms.at is not None:
                delta = CellList(atoms.at, atoms.slots, atoms.cells)
                if not atoms.one_per_cell:
                    delta = fold_equal(delta, [a.bound for a in self.aggs])
                self.slices.take(Loose(atoms.starts, delta.at, delta.slots, delta.cells))
        elif placed is not None:
            self.slices.take(lift_slices(rows, placed, self.aggs, self.keys, dense=self.slices.store.dense))

    def take(self, batch: Arriving) -> Taken:
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
        if watermark <= self.watermark:
            return no_results(self.aggs)
        before, self.watermark = self.watermark, watermark
        parts = [self.slices.due(before, watermark)] if self.slices.windows.queries else []
        if self.sessions.running:
            parts.append(self.sessions.due(watermark, keep=self.lateness is not None))
        self._forget()
        found = parts[0] if len(parts) == 1 else join(parts, self.aggs)
        return found if self.early is None else self._closed(found)

    def stand(self) -> list[Results]:
        assert self.early is not None
        found = [self.slices.standing(self.watermark)] if self.slices else []
        found.append(self.sessions.standing())
        return self.early.stand(join(found, self.aggs), self._session_numbers())

    def peek(self, slot: int) -> Results:
        found = [self.slices.standing_of(slot, self.watermark)] if self.slices else []
        found.append(self.sessions.standing_of(slot, self.watermark))
        results = join(found, self.aggs)
        return results if self.early is None else replace(results, final=np.zeros(len(results), bool))

    def _session_numbers(self) -> list[int]:
        return [session.query.number for session in self.sessions.running]

    def _closed(self, results: Results) -> Results:
        return results if self.early is None else self.early.close(results, self._session_numbers())

    def _forget(self) -> None:
        """Event time has moved on: forget what no row can change any more."""
        progress = self._progress()
        if self.slices.windows.queries:
            self.slices.purge_now_and_then(progress)
        if self.lateness is not None:
            self.sessions.purge(progress)
            self.revisions.forget_before(progress)
        if self.early is not None:
            self.early.forget_before(progress)

    def finish(self) -> Results:
        parts = [self.slices.finish(self.watermark)] if self.slices else []
        parts.append(self.sessions.finish())
        return self._closed(join(parts, self.aggs))

    def _progress(self) -> int:
        """No row below this can come any more."""
        return max(self.watermark - (self.lateness or 0), ALWAYS + 1) if self.watermark > ALWAYS else ALWAYS

    def next_due(self, watermark: int) -> int:
        if watermark == ALWAYS:
            return ALWAYS
        return min(self.slices.windows.next_end(watermark), self.sessions.next_due(watermark))

    def add_query(self, query: RunningWindow, watermark: int) -> None:
        """Give this window too, from the first one on whose rows are all still held in slices of their own."""
        self.watermark = max(self.watermark, watermark)
        complete = self.slices.note_complete(query, self.queries, self.last_time)
        self._share([*self.queries, query])
        if isinstance(query.window, ContextFree):
            self.slices.add_query(query, self.watermark, self._progress(), self.last_time, complete)
        else:
            self.sessions.add_query(query, self.last_time)

    def remove_query(self, number: int) -> None:
        """Stop giving this window; edges that only it had are cut no more."""
        if any(q.number == number for q in self.slices.windows.queries):
            self.slices.remove_query(number, self._progress(), self.last_time)
        self.slices.forget_query(number)
        self.sessions.remove_query(number)
        self._share(self.queries)
        self.revisions.forget_query(number)
        if self.early is not None:
            self.early.forget_query(number)

    def _share(self, queries: Sequence[RunningWindow]) -> None:
        """Keep what these windows give, and nothing else."""
        shares = Shares(queries, self.sessions.shares.default)
        self.slices.share(shares)
        self.sessions.share(shares)
        self.aggs = shares.aggs

    def banks(self) -> Banks:
        found: dict[str, Held] = {"cells": self.slices, "sessions": self.sessions, "revisions": self.revisions}
        if self.slices.empty is not None:
            found["empty"] = self.slices.empty
        return found if self.early is None else found | self.early.banks()

    def of_stream(self, slots: Array) -> dict[str, pa.Table]:
        return partial_lane_state.dump(self, slots)

    def go_on_from(self, tables: Mapping[str, pa.Table], slot_map: Any) -> None:
        partial_lane_state.load(self, tables, slot_map)

    def tidy(self) -> None:
        if self.slices and self.watermark > ALWAYS:
            self.slices.tidy(self._progress())

    def renumber(self, moved: Array) -> None:
        super().renumber(moved)
        self.keys = int(np.count_nonzero(moved >= 0))
        self._lifter = AtomLifter()

    def describe(self) -> dict[str, Any]:
        """What slices look like now: where those held begin, and where the next edge after the watermark is."""
        self.tidy()
        after = max(self.watermark, self.last_time)
        return {
            "slice_starts": self.slices.slices.starts.tolist(),
            "next_edge": self.slices.edges.next_edge(after) if self.slices and after > ALWAYS else None,
            "store": self.slices.store.name if self.slices else None,
        }

    def metrics(self) -> dict[str, Any]:
        self.tidy()
        stores = [s.store for s in self.sessions.running]
        size = nbytes_of(self.banks())
        return {
            "slices": len(self.slices.slices),
            "cells": self.slices.store.occupied if self.slices else 0,
            "combines": self.slices.tally.combines + sum(s.combines for s in stores),
            "splits": 0,  # all edges are known before rows come
            "merges": self.slices.merges + sum(s.merges for s in stores),
            "updates": self.slices.updates + sum(s.updates for s in stores),
            "bytes": size,
            "bytes_filled": size - self.slices.nbytes + (self.slices.store.nbytes_filled if self.slices else 0),
            "store": self.slices.store.name if self.slices else "sessions only",
            "sessions_open": sum(s.open for s in stores),
        }
