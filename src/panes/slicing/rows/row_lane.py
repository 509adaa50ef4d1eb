"""The row lane: every window kind, on rows in event-time order.

Rows wait in the reorder buffer until the watermark passes them, then the ordered slicer takes them. With
allowed lateness the lane also keeps what it needs to go back: a second slicer that stays at least `lateness` behind
(the base), the rows since then (the log), and what was given since then. A late row is put in its place, the
key is replayed from the base, and the difference to what was given is the correction (docs/semantics.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from panes.errors import QueryError
from panes.slicing.lane import Agg, Arriving, Corrected, Lane, Results, RowBatch, RunningWindow, Taken
from panes.slicing.rows import row_lane_state
from panes.slicing.rows.added_windows import complete_for, put_before, start_giving
from panes.slicing.rows.corrections import EmittedWindows, Shift, again, diff, edge_changes, recounted
from panes.slicing.rows.due import Due, FoundWindows
from panes.slicing.rows.kept_rows import KeptRows, KeyRows, RowBank
from panes.slicing.rows.measures import BACK, NULL, OUT_OF_RANGE, REASONS, broken
from panes.slicing.rows.ordered import OrderedSlicer
from panes.slicing.rows.reorder import ReorderBuffer, in_time_order, with_columns
from panes.slicing.shares import Shares
from panes.state.checked import demand
from panes.state.entries import Banks, Held, named, nbytes_of
from panes.state.journal import Journal, Replaced, Watched
from panes.windows.base import ALWAYS, NEVER, MachineWindow, Sessions

Array = np.ndarray
#: Rows and results that the base may be behind for nothing, beside half of the rows that are kept anyway.
_FEW = 16
_NO_NUMBERS = np.empty(0, np.int64)


class RowLane(Lane):
    """Windows of every kind, one set of slices per key."""

    ordered = True
    replaced = Replaced("aggs", "_arrival", "rejected", "last_time", "_news", "splits", "merges", "moves", "lacking")

    def __init__(
        self,
        queries: Sequence[RunningWindow],
        aggs: Sequence[Agg],
        *,
        lateness: int | None,
        dimensions: Mapping[str, np.dtype],
        keyed: bool,
        store: str = "auto",
        emit_empty: bool = False,
        in_order: bool = False,
        journal: Journal | None = None,
    ) -> None:
        super().__init__(Shares(queries, aggs).aggs, lateness)
        self.keyed = keyed
        self._journal = journal or Journal()
        self.buffer = ReorderBuffer()
        self.live = OrderedSlicer(
            queries, aggs, dimensions, store=store, emit_empty=emit_empty, in_order=in_order, journal=self._journal
        )
        self.base = self.live if lateness is None else self.live.select(np.arange(0), self._journal)
        if lateness is not None:
            self.live.settled = self.base.keys
        self.log = KeptRows(self._journal)
        self.given = EmittedWindows(self._journal)
        self._columns: Mapping[str, pa.DataType] = {}  # that rows of a snapshot must have
        self._news = 0  # rows and results since the base moved
        #: what late rows did to slices: how many were cut in two, became part of another, or took or gave a row
        self.splits = self.merges = self.moves = 0
        #: up to which time rows may wait that came before anybody looked at a column, by column
        self.lacking: dict[str, int] = {}
        #: rows that broke the rule of a measure, with the reason; the operator collects them
        self.rejected: list[tuple[Array, str]] = []
        self._arrival = self._looks_at_arrival()

    def begin(self) -> list[Watched]:
        for entries in (self.rejected, self.buffer.runs):
            self._journal.keep_container(entries)
        return [self, self.buffer, *self.log.begin(), *(each for slicer in self.slicers() for each in slicer.begin())]

    @property
    def queries(self) -> tuple[RunningWindow, ...]:
        return self.live.queries

    @property
    def dimensions(self) -> Mapping[str, np.dtype]:
        return self.live.dimensions

    @property
    def needs_arrival(self) -> bool:
        return self._arrival

    def _looks_at_arrival(self) -> bool:
        some = bool(self.live.dimensions) or self.lateness is not None
        return some or any(agg.bound.laws.by_arrival for agg in self.aggs)

    @property
    def by_key(self) -> bool:
        return self._central is None

    @property
    def _central(self) -> RunningWindow | None:
        """A window whose state is that of all keys together, if there is one."""
        return next((q for q in self.queries if isinstance(q.window, MachineWindow) and q.window.central), None)

    def take_rejected(self) -> list[tuple[Array, str]]:
        rejected, self.rejected = self.rejected, []
        return rejected

    def oldest_waiting(self, next_number: int) -> int:
        return self.buffer.oldest(next_number)

    def take(self, batch: Arriving) -> Taken:
        """Take a batch with rows behind the watermark: here rows are seen in order, so these must lie within the
        lateness by their own time, and each is a correction at its place among the others."""
        n = len(batch.at)
        out = Taken([], np.zeros(n, bool), np.zeros(n, bool))
        behind = np.zeros(len(batch.rows), bool)
        behind[batch.at] = True
        done = 0
        within = np.zeros(n, bool)
        if self.lateness is not None and self.queries:  # else rows are only counted, for windows that may come
            within = batch.times >= batch.met_behind - self.lateness
        for i in np.flatnonzero(within).tolist():
            at, met = int(batch.at[i]), int(batch.met_behind[i])
            out.results.append(self._on_time(batch.rows, behind, done, at, met))
            done = at + 1
            outcome = self.correct(batch.rows.take(np.array([at])), met)
            out.taken[i], out.corrected[i] = outcome.taken, outcome.corrected
            out.results.append(outcome.results)
            if outcome.reason is not None:
                out.reasons[i] = outcome.reason
        out.results.append(self._on_time(batch.rows, behind, done, len(batch.rows), batch.watermark))
        for query in self.queries:
            out.miss(query.number, n - int(np.count_nonzero(out.taken)))
        return out

    def _on_time(self, rows: RowBatch, behind: Array, begin: int, end: int, watermark: int) -> Results:
        chosen = begin + np.flatnonzero(~behind[begin:end])
        if len(chosen):
            self.add(rows.take(chosen))
        elif watermark <= self.live.watermark:
            return first_results([])
        return self.advance(max(watermark, self.live.watermark))

    def add(self, rows: RowBatch) -> None:
        if len(rows):
            self.last_time = max(self.last_time, rows.bounds()[1])
            self.buffer.add(rows if self.needs_arrival else replace(rows, seq=_NO_NUMBERS))

    def advance(self, watermark: int) -> Results:
        found = self._release(watermark)
        found.append(self.live.advance(watermark))
        results = first_results(found)
        if self.lateness is not None:
            results = replace(results, revision=self.given.record(Due.concat([f.due for f in found])))
            self._news += len(results)
            if self._news > _FEW + len(self.log) // 2:
                self._move_base()
        return results

    def _release(self, watermark: int) -> list[FoundWindows]:
        released = self.buffer.release(watermark)
        if released is None:
            return []
        self._journal.changed.note(released.slots)
        bad = broken(released, self.live.columns, self.live.limits, self.live.keys)
        if bad:
            self.rejected += [(released.seq[mask], reason) for mask, reason in bad]
            released = released.take(np.flatnonzero(~np.any([mask for mask, _ in bad], axis=0)))
        if self.lateness is not None:
            self.log.add(released)
            self._news += len(released)
        return [self.live.take(released)]

    def tidy(self) -> None:
        self._move_base()

    def _move_base(self) -> None:
        """Rows that can't be preceded by a late row any more: the base takes them for good.

        When that happens changes no result: a base further behind only means that more is replayed.
        """
        if self.lateness is None:
            return
        self._news = 0
        horizon = self.live.watermark - self.lateness
        kept = self.log.all()
        if kept is not None and len(kept) and kept.bounds()[0] < horizon:
            rows = in_time_order([kept])
            count = int(rows.times.searchsorted(horizon))
            self.log.put(rows.take(slice(count, None), in_order=True))
            self.given.settle(self.base.take(rows.take(slice(count), in_order=True), results=False).due)
        self.given.settle(self.base.advance(horizon, results=False).due)
        self.live.settle()

    def correct(self, row: RowBatch, watermark: int) -> Corrected:
        """One row behind the watermark, within the lateness: corrections to results already given."""
        slot = 0 if row.slots is None else int(row.slots[0])
        rows = self.log.of(slot)
        at = rows.place_of(int(row.times[0])) if len(rows) else 0
        reason = self._broken_measure(rows, row, at, slot)
        if reason is not None:
            return Corrected(first_results([]), False, False, reason)
        rows = self.log.insert(slot, row, at)
        first = int(self.base.keys.rows_seen[slot]) if slot < len(self.base.keys) else 0
        for slicer in self.slicers():
            put_before(slicer, slot, first + at)
        results = self._in_place(slot, rows, at, first)
        if results is None:
            results = self._replayed(slot, rows, at, watermark)
        self.last_time = max(self.last_time, int(row.times[0]))
        return Corrected(results, True, True)

    def _replayed(self, slot: int, rows: KeyRows, at: int, watermark: int) -> Results:
        """The correction as the difference between what the key gives from the base on and what was given."""
        mine, every = np.array([slot]), rows.take(slice(None))
        part = self.base.select(mine)
        first = int(part.keys.rows_seen[0])
        found = [part.take(every if every.slots is None else _renumbered(every)), part.advance(watermark)]
        edges = self.live.slices_of(slot, 0).table.pos, part.slices.pos
        self.live.put(mine, part)
        results = diff(self.given, slot, first + at, found, self.live.aggs)
        splits, merges, moves = edge_changes(*edges, first + at, first + len(rows) - 1)
        self.splits, self.merges, self.moves = self.splits + splits, self.merges + merges, self.moves + moves
        return results

    def _in_place(self, slot: int, rows: KeyRows, at: int, first: int) -> Results | None:
        """The correction where slices need only pass rows on to each other; None if the key must be replayed.

        `first`: the position of the first of the rows.
        """
        live = self.live
        windows = live.counting or live.recounting
        if windows is None or (slot < len(live.keys) and live.keys.sealed[slot]):
            return None
        position, needed = first + at, int(windows.horizon(first + at))
        before = live.slices_of(slot, min(position, needed))
        if live.counting is not None:
            shift = Shift(before.table, slot, rows, at, first)
            if not shift.holds(needed):
                return None
            slices, moves = shift.slices(windows, live.aggs)
            young = live.past.write(before, slices, len(before.table) - moves)
        else:
            held = before.table.pos[:1]
            begin = min(position, needed, *held.tolist())
            if begin < first:
                return None
            slices = recounted(slot, rows, first, begin, windows, live.aggs)
            young = int(slices.pos.searchsorted(held[0], side="right")) - 1 if len(held) else 0
            moves = int(np.count_nonzero(slices.stop > position)) - int(slices.pos[-1] == first + len(rows) - 1)
        found = live.with_row(before, slices, young, windows, position, int(rows.times(np.array([-1]))[0]))
        self.moves += moves
        return again(self.given, found)

    def _broken_measure(self, rows: KeyRows, row: RowBatch, at: int, slot: int) -> str | None:
        """Why a row that belongs `at` a place is turned away, if it is; of several reasons, one per measure, the first
        of `REASONS`."""
        found = set()
        for d, name in enumerate(self.live.dimensions, start=1):
            if name not in self.live.columns:
                continue
            column = row.columns[name]
            value = column.values[0]
            low, high = self.live.limits[name]
            if at:
                before = rows.take(np.array([at - 1])).columns[name].values[0]
            else:
                self.base.keys.grow(slot + 1)
                before = self.base.keys.last[d][slot]
            after = rows.take(np.array([at])).columns[name].values[0] if at < len(rows) else value
            if (column.valid is not None and not column.valid[0]) or value != value:
                found.add(NULL)
            elif not low <= value < high:
                found.add(OUT_OF_RANGE)
            elif not before <= value <= after:
                found.add(BACK)
        return next((reason for reason in REASONS if reason in found), None)

    def peek(self, slot: int) -> Results:
        if self._central is not None:
            raise QueryError(f"peek(): window {self._central.label!r} has policies that look at all keys, not at one")
        part = self.live.select(np.array([slot]))
        part.settled, part.costs = None, dict(part.costs)
        waiting = [_of_slot(run, slot) for run in self.buffer.runs]
        found = []
        if any(len(rows) for rows in waiting):
            rows = _renumbered(in_time_order(waiting))
            bad = broken(rows, part.columns, part.limits, part.keys)
            if bad:
                rows = rows.take(np.flatnonzero(~np.any([mask for mask, _ in bad], axis=0)))
            found.append(part.take(rows))
        results = first_results([*found, part.stand()])
        return replace(results, slots=np.full(len(results), slot))

    def finish(self) -> Results:
        found = self._release(NEVER)
        found.append(self.live.finish())
        return first_results(found)

    def next_due(self, watermark: int) -> int:
        return self.live.next_due(watermark)

    def rows_until_due(self) -> int:
        return self.live.rows_until_due() - len(self.buffer)

    def know(self, columns: Mapping[str, pa.DataType], next_row: int) -> None:
        """Rows have these columns from now on: those that are held have none of their own, and are null there.

        Nothing is given that would look at them (`start_giving`). `next_row`: the arrival number of the next row; rows
        that wait have numbers before it, in the order in which they came.
        """
        self.buffer.runs = [with_columns(run, columns) for run in self.buffer.runs]
        kept = self.log.all()
        if kept is not None:
            self.log.put(with_columns(kept, columns))
        if self.needs_arrival:
            at = next_row - len(self.buffer)
            runs, self.buffer.runs = self.buffer.runs, []
            for run in runs:
                numbered = run if len(run.seq) else replace(run, seq=np.arange(at, at + len(run)))
                self.buffer.runs.append(numbered)
                at += len(run)

    def add_query(self, query: RunningWindow, watermark: int) -> None:
        for measure in query.window.measures:
            if measure.dimension is not None and measure.dimension not in self.live.dimensions:
                what = f"the column {measure.column!r}" if measure.column is not None else str(measure)
                raise QueryError(
                    f"window {query.label!r} is on {what}, which no window of this query is on: "
                    "slices don't know its values; start a new query with it"
                )
        if isinstance(query.window, Sessions) and query.window.gap_column is not None and self.last_time > ALWAYS:
            raise QueryError(
                f"window {query.label!r}: a session with a gap by expression can't be added to a stream that has "
                "begun, since nobody knows the gaps of the rows that came before; start a new query with it"
            )
        lacking = self._lacking_for(query)
        self._move_base()  # where it is decides which windows the new query can give
        self.live.purge(done=True)
        self.live.tidy()
        for slicer in self.slicers():
            complete = complete_for(slicer, query, self.last_time)
            slicer.set_queries((*slicer.queries, query))
            if query.number in slicer.afresh and not len(self.buffer):
                complete = None  # all its rows are still to come
            elif query.number in slicer.driven.afresh and complete is not None:
                lacking, complete = int(complete) if lacking is None else max(lacking, int(complete)), None
            start_giving(slicer, query, self.last_time, complete, lacking)
        self._aggregates_changed()
        if self.lateness is not None:
            # the base could give more, and a correction would then find windows that were never given
            self.base.keys.give_as(self.live.keys, query.number)

    def _lacking_for(self, query: RunningWindow) -> int | None:
        """Up to which time rows wait that lack columns of a window which is about to be added; None: all have them."""
        new = {name for name in query.window.columns for run in self.buffer.runs if name not in run.columns}
        known = {name: time for name, time in self.lacking.items() if time > self.live.watermark}
        self.lacking = {**known, **dict.fromkeys(new, self.last_time)}
        return max((self.lacking[name] for name in query.window.columns if name in self.lacking), default=None)

    def _aggregates_changed(self) -> None:
        self.aggs, self._arrival = self.live.aggs, self._looks_at_arrival()

    def remove_query(self, number: int) -> None:
        for slicer in self.slicers():
            slicer.set_queries(tuple(q for q in slicer.queries if q.number != number))
        self.given.forget(number)
        self._aggregates_changed()

    def banks(self) -> Banks:
        found: dict[str, Held] = {}
        for name, slicer in zip(("live", "base"), self.slicers()):
            found |= named(f"{name}.", slicer.banks())
        # rows come after those that slicers have taken, and are checked against them
        for name, rows, taken in (("waiting", self.buffer, self.live.keys), ("log", self.log, self.base.keys)):
            found[name] = RowBank(rows, taken, self._columns, self._lacks, keyed=self.keyed, seq=self.needs_arrival)
        return {**found, "given": self.given}

    def _lacks(self, column: str) -> None:
        """Rows of a snapshot have no such column: nobody may look at it in them."""
        demand(column not in self.live.read_columns, f"rows that wait lack the column {column!r}")
        self.lacking[column] = self.last_time

    def of_stream(self, slots: Array) -> dict[str, pa.Table]:
        return row_lane_state.dump(self)

    def go_on_from(self, tables: Mapping[str, pa.Table], slot_map: Any) -> None:
        row_lane_state.load_facts(self, tables)

    def load(
        self, tables: Mapping[str, pa.Table], slot_map: Any, columns: Mapping[str, pa.DataType] | None = None
    ) -> None:
        self._columns = columns or {}
        super().load(tables, slot_map)
        row_lane_state.check(self, tables, slot_map)

    def slicers(self) -> tuple[OrderedSlicer, ...]:
        """The live slicer, and the base behind it if there is allowed lateness."""
        return (self.live,) if self.lateness is None else (self.live, self.base)

    def plans(self) -> dict[str, str]:
        """How windows are assembled, by label, of those that say it."""
        known = {number: running.plan for number, running in self.live.keys.machines.items()}
        known |= self.live.borders.plans
        return {q.label: known[q.number] for q in self.queries if q.number in known}

    def metrics(self) -> dict[str, Any]:
        self.live.tidy()
        size = nbytes_of(self.banks())
        return {
            "slices": len(self.live.slices) + len(self.live.past),
            "rows_waiting": len(self.buffer),
            "rows_kept": len(self.log),
            "combines": self.live.combines,
            "splits": self.splits,
            "merges": self.merges + self.live.merges,
            "updates": self.live.updates + self.moves,
            "bytes": size,
            "bytes_filled": size,
            "store": self.live.store,
            **({**self.live.costs, "network": 0, "plans": self.plans()} if self.live.planned else {}),
        }


def first_results(found: Sequence[FoundWindows]) -> Results:
    """What slicers found, as results given for the first time."""
    due = Due.concat([f.due for f in found])
    parts = [f.values for f in found if len(f)] or [f.values for f in found[:1]]
    values = tuple(_join(columns) for columns in zip(*parts)) if parts else ()
    return Results(due.number, due.slot, due.start, due.end, values, lo=due.lo, hi=due.hi)


def _join(columns: Sequence[pa.Array]) -> pa.Array:
    return columns[0] if len(columns) == 1 else pa.concat_arrays(columns)


def _of_slot(rows: RowBatch, slot: int) -> RowBatch:
    return rows if rows.slots is None else rows.take(np.flatnonzero(rows.slots == slot))


def _renumbered(rows: RowBatch) -> RowBatch:
    return RowBatch(np.zeros(len(rows), np.int64), rows.times, rows.seq, rows.columns, rows.in_order)
