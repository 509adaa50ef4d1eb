"""The ordered slicer: rows in event-time order in, windows as ranges of slices out, any window kind.

Per key it knows how many rows have passed and the state of each data-driven window; rows become slices that
are cut wherever a window of any query begins or ends on any measure (SPEC S-06, S-22, W-08), so each row is
lifted once however many windows look at it. Windows found due are returned with their results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace

import numpy as np
import pyarrow as pa

from panes.errors import QueryError
from panes.slicing.arrays import spread
from panes.slicing.lane import Agg, RowBatch, RunningWindow
from panes.slicing.rows.added_windows import is_complete
from panes.slicing.rows.corrections import can_take_out
from panes.slicing.rows.driven import DrivenWindows
from panes.slicing.rows.due import Due, DueFinder, FoundWindows, first_times, since
from panes.slicing.rows.emission import Changes, EmptyRanges
from panes.slicing.rows.key_borders import BorderWindows
from panes.slicing.rows.key_state import KeyState, horizons
from panes.slicing.rows.look_back import LookBacks
from panes.slicing.rows.measures import mark_cuts, plain
from panes.slicing.rows.past_slices import KeySlices, PastSlices, fixed
from panes.slicing.rows.range_fold import lower_ranges
from panes.slicing.rows.reorder import stable_order
from panes.slicing.rows.slice_banks import RestBank, SliceBank
from panes.slicing.rows.slice_table import SliceIndex, SliceTable, go_on, sliced
from panes.slicing.shares import Shares, places
from panes.slicing.window_set import WindowSet
from panes.state.bank import BankColumn
from panes.state.entries import Held, named, nbytes_of
from panes.state.journal import Journal, Replaced, Watched
from panes.windows.base import (
    ALWAYS,
    NEVER,
    ROWS,
    SINCE,
    SINCE_FIRST,
    TIME,
    Closed,
    ContextClass,
    ContextFree,
    KeyRuns,
    Measure,
)

Array = np.ndarray
#: In order, slices are looked at for some to join when there are so many more, and half as many, than were left last.
_CROWDED = 8


class OrderedSlicer:
    """State of the row lane for rows already behind the watermark."""

    replaced = Replaced(
        "aggs",
        "shares",
        "_nothing",
        "watermark",
        "slices",
        "rest",
        "merges",
        "combines",
        "_crowded",
        "_joins",
        "updates",
        "settled",
        "_counting",
        "_recounting",
        "_after_purge",
        "queries",
        "sets",
        "limits",
        "driven",
        "look_backs",
        "borders",
        "afresh",
        "planned",
        "slice_per_row",
        "empty",
        "changes",
        "finder",
        "_shown_by_time",
        "_measures",
    )

    def __init__(
        self,
        queries: Sequence[RunningWindow],
        aggs: Sequence[Agg],
        dimensions: Mapping[str, np.dtype],
        *,
        store: str = "auto",
        emit_empty: bool = False,
        in_order: bool = False,
        journal: Journal | None = None,
    ) -> None:
        self.shares = Shares(queries, aggs)
        self.aggs = self.shares.aggs
        # column measures, as expressions, and their types; in one order always, since state names them by number
        self.dimensions = dict(sorted(dimensions.items(), key=lambda d: (d[0] == SINCE_FIRST, d[0])))
        self.columns = {name: kind for name, kind in self.dimensions.items() if name != SINCE_FIRST}
        self.store = store
        self.emit_empty = emit_empty
        self.watermark = ALWAYS
        self.combines = 0
        self.updates = 0  # how often slices that were there took more rows
        self.merges = 0  # how many slices were joined to the one before
        self.in_order = in_order
        self._crowded = _CROWDED
        #: what windows with a plan cost: reduce calls before windows end and when they end, and the most slices of one
        self.costs = {"reduce_before": 0, "reduce_at_end": 0, "buffered": 0}
        #: where late rows may still come between others: what they would change is held, if it can be changed in place
        self.settled: KeyState | None = None
        self._after_purge = 0  # slices left by the last purge
        self._nothing = self._no_windows()
        self.keys = KeyState(tuple(self.dimensions.values()), journal)
        self.slices = self.no_slices()
        #: slices that only late rows may need
        self.past = PastSlices(self.keys.journal)
        #: each row that a window at the end of the stream may hold, as a slice of its own
        self.rest = self.no_slices()
        self.set_queries(queries)

    def begin(self) -> list[Watched]:
        """A call begins: objects whose attributes it may replace."""
        if self.planned:
            self.keys.journal.keep_container(self.costs)
        return [self, self.past, *self.keys.begin()]

    def set_queries(self, queries: Sequence[RunningWindow]) -> None:
        """Use these windows from now on; keeps the state of those that stay, and partials of what they give."""
        self.with_past()
        self.queries = tuple(queries)
        self._share(Shares(queries, self.shares.default))
        by_measure: dict[Measure, list[RunningWindow]] = {}
        for query in queries:
            if isinstance(query.window, ContextFree):
                by_measure.setdefault(query.window.measure, []).append(query)
        self.sets = {measure: WindowSet(measure, some) for measure, some in by_measure.items()}
        column_sets = {str(m.column): s for m, s in self.sets.items() if m.kind == "column"}
        everything = (-np.inf, np.inf)
        self.limits = {d: column_sets[d].limits if d in column_sets else everything for d in self.dimensions}
        self.driven = DrivenWindows(queries, reduces=not any(a.bound.laws.holistic for a in self.aggs))
        self.look_backs = LookBacks(queries, tuple(self.dimensions))
        self.borders = BorderWindows(queries)
        #: those that begin with the next row if they are added while running, by number
        self.afresh = {*self.borders.origins(), *self.driven.afresh}
        #: the windows that say how they are assembled, and what it costs, by number
        self.planned = [*self.borders.plans, *(number for number, _ in self.driven.machines)]
        #: a window that starts "so much back" may start at any row, so every row is a slice of its own
        self.slice_per_row = bool(self.look_backs or self.driven.free_forms)
        self._measures = {q.number: q.window.measure for q in queries}
        self._shown_by_time = {q.number for q in queries if q.window.context is ContextClass.SESSION}
        self.empty = EmptyRanges(queries) if self.emit_empty else None
        self.changes = Changes(queries)
        by_sets = not (self.driven or self.look_backs or self.borders)
        free = by_sets and all(s.periodic for s in self.sets.values())
        #: in order, slices in which no window to come begins can be joined, if it is known where windows begin
        self._joins = self.in_order and free and {*self.sets} <= {ROWS, TIME}
        only_rows = set(self.sets) == {ROWS} and len(self.sets) == 1 and by_sets
        plain_rows = only_rows and not self.dimensions and not any(q.window.changes_only for q in queries)
        self._counting = self.sets[ROWS] if plain_rows and can_take_out(self.aggs) and fixed(self.aggs) else None
        self._recounting = self.sets[ROWS] if plain_rows and self._counting is None else None
        states: dict[int, dict[str, BankColumn]] = {}
        for some in (self.driven.states(), self.changes.state, {} if self.empty is None else self.empty.state):
            for number, state in some.items():
                states.setdefault(number, {}).update(state)
        self.keys.set_windows(states, self.driven.free_forms, self.driven.starts(), {q.number for q in queries})
        self.finder = DueFinder(self.sets, tuple(self.dimensions))
        if len(self.rest) and not self.borders.keep_rows and self.driven.needed_at_end(self.keys) is None:
            self.rest = self.no_slices()  # those that the end of the stream would look at are gone

    @property
    def counting(self) -> WindowSet | None:
        """The windows, if all count rows and late rows can be put among their slices."""
        return None if self.keys.complete_from else self._counting

    @property
    def recounting(self) -> WindowSet | None:
        """The windows, if all count rows and slices can be made again of the rows."""
        return None if self.keys.complete_from else self._recounting

    @property
    def read_columns(self) -> set[str]:
        """What windows and aggregates look at in rows."""
        return {*self.driven.columns, *self.columns, *(name for agg in self.aggs for name in agg.inputs)}

    def _no_windows(self) -> FoundWindows:
        return FoundWindows(Due.none(), tuple(pa.nulls(0, a.bound.out_type) for a in self.aggs))

    def _share(self, shares: Shares) -> None:
        """Keep these aggregates from now on: those that are there as they are, others from the next row on."""
        before, self.shares, self.aggs = self.shares, shares, shares.aggs
        known = places(self.aggs, before.aggs)
        if known == [*range(len(before.aggs))]:
            return
        self._nothing = self._no_windows()
        self.slices, self.rest = (
            replace(
                table,
                cells=tuple(
                    agg.bound.empty(len(table)) if place is None else table.cells[place]
                    for agg, place in zip(self.aggs, known)
                ),
            )
            for table in (self.slices, self.rest)
        )

    def no_slices(self) -> SliceTable:
        empty = np.empty(0, np.int64)
        dims = tuple(np.empty(0, t) for t in (np.dtype(np.int64), *self.dimensions.values()))
        return SliceTable(empty, empty, empty, dims, dims, tuple(a.bound.empty(0) for a in self.aggs))

    def take(self, rows: RowBatch, *, results: bool = True) -> FoundWindows:
        """Rows in event-time order, all behind the watermark; returns windows that rows alone complete.

        Without `results`, here and in `advance`, nothing is computed for the windows found.
        """
        if not len(rows):
            return self._nothing
        rows, runs = self._by_key(rows)
        self.keys.journal.changed.note(runs.slots)
        values = (rows.times, *(self._values(rows, runs, d, t) for d, t in self.dimensions.items()))
        before = self.keys.progress(runs.slots)
        held = self._open_slices(runs.slots)
        cut = self._context_free_cuts(runs, values, before, held)
        complete = self.driven.take(runs, self.keys, cut)
        new = sliced(rows, runs, values, cut, self.aggs)
        joined = runs.slots[~cut[runs.offsets[:-1]]]
        if len(joined):
            self.slices, new = go_on(self.slices, new, joined, self.aggs)
            self.updates += len(joined)
            self.combines += len(joined) * len(self.aggs)
        if self.planned:
            self.costs["reduce_before"] += len(rows) - len(new) + int(np.count_nonzero(~cut[runs.offsets[:-1]]))
        self.slices = self.slices.append(new)
        self.keys.note(runs, values, before)
        self._keep_rest(rows, runs, values)
        by_rows = [
            *self.finder.by_rows(self.slices, runs.slots, before, self.keys),
            *self.look_backs.by_rows(self.slices, runs.slots, before, self.keys),
            *self.borders.by_rows(self.slices, runs.slots, before, self.keys),
        ]
        found = self._found([*(self._of_closed(n, c) for n, c in complete), *by_rows], results)
        if len(self.slices) > 2 * self._after_purge + 64:
            self.purge()
        return found

    def _keep_rest(self, rows: RowBatch, runs: KeyRuns, values: tuple[Array, ...]) -> None:
        """Rows that the end of the stream makes windows of, though they begin inside slices."""
        needed = self.driven.needed_at_end(self.keys)
        if self.borders.keep_rows:
            of_borders = self.borders.needed_at_end(runs, self.rest, self.keys)
            needed = of_borders if needed is None else np.minimum(needed, of_borders)
        if needed is None:
            return
        heads, ends = runs.offsets[:-1], runs.offsets[1:]
        place, offsets = spread(heads + np.clip(needed[runs.slots] - runs.first_pos, 0, ends - heads), ends)
        counts = offsets[1:] - offsets[:-1]
        chosen, each = rows.take(place), np.arange(len(place) + 1)
        dims = tuple(v[place] for v in values)
        cells = tuple(a.bound.lift(chosen.inputs(a.inputs), each) for a in self.aggs)
        slots, positions = runs.slots.repeat(counts), place + (runs.first_pos - heads).repeat(counts)
        new = SliceTable(slots, positions, np.ones(len(place), np.int64), dims, dims, cells)
        coming = np.full(len(self.keys), NEVER)
        coming[runs.slots] = runs.first_pos
        old = self.rest
        self.rest = old.take((old.pos >= needed[old.slot]) & (old.pos < coming[old.slot])).append(new)

    def _open_slices(self, slots: Array) -> Array:
        """Whether the last slice of each key may go on: it is held, and no window came that cuts after it."""
        if not len(self.slices):
            return np.zeros(len(slots), bool)
        at = self.slices.slot.searchsorted(slots, side="right") - 1
        return (at >= 0) & (self.slices.slot[at] == slots) & ~self.keys.unseal(slots)

    def _of_closed(self, number: int, closed: Closed) -> Due:
        if not len(closed):
            return Due.none()
        due = Due.of_closed(number, closed, number in self._shown_by_time)
        if closed.upto is not None:  # on a column: from the value of the first row on
            first = SliceIndex(self.slices.slot, self.slices.pos).at_or_after(closed.slots, closed.start_pos)
            due = replace(due, lo=self.slices.first[self.dimension(self._measures[number])][first], hi=closed.upto)
        if number not in self.keys.given_from or number in self.afresh:
            return due
        return due.take(np.flatnonzero(self.keys.admits(due.number, due.slot, due.start)))

    def _by_key(self, rows: RowBatch) -> tuple[RowBatch, KeyRuns]:
        """The rows grouped by key (time order kept inside), and the same as discretizers see them."""
        n = len(rows)
        slots, offsets, arrival = np.zeros(1, np.int64), np.array([0, n]), None
        if rows.slots is not None:
            owner = rows.slots
            if (owner[1:] < owner[:-1]).any():
                arrival = stable_order(owner)
                rows = rows.take(arrival, in_order=False)
                assert rows.slots is not None
                owner = rows.slots
            changes = (owner[1:] != owner[:-1]).nonzero()[0] + 1
            offsets = np.concatenate(([0], changes, [n]))
            slots = owner[offsets[:-1]]
        self.keys.grow(int(slots[-1]) + 1)
        columns = {name: plain(rows.columns[name]) for name in self.driven.columns}
        return rows, KeyRuns(slots, offsets, self.keys.rows_seen[slots], rows.times, columns, arrival)

    def dimension(self, measure: Measure) -> int:
        return 0 if measure == TIME else 1 + list(self.dimensions).index(str(measure.dimension))

    def _values(self, rows: RowBatch, runs: KeyRuns, name: str, dtype: np.dtype) -> Array:
        """The values of rows on one dimension."""
        if name != SINCE_FIRST:
            return rows.columns[name].values.astype(dtype)
        known = first_times(self.keys, self.dimension(SINCE))[runs.slots]
        origin = np.where(runs.first_pos == 0, runs.times[runs.offsets[:-1]], known)
        return runs.times - origin.repeat(np.diff(runs.offsets))

    def _context_free_cuts(
        self, runs: KeyRuns, values: tuple[Array, ...], before: tuple[Array, ...], held: Array
    ) -> Array:
        """True before each row at which a context-free window begins or ends, on any measure."""
        n = len(runs)
        heads = runs.offsets[:-1]
        if self.slice_per_row:
            return np.ones(n, bool)
        cut = np.zeros(n, bool)
        cut[heads] = ~held
        for measure, windows in self.sets.items():
            if measure == ROWS and len(heads) == 1:
                first = int(runs.first_pos[0])  # positions are all the integers from here on: no search
                at = windows.edges(first if not held[0] else first - 1, first + n - 1) - first
                cut[at] = True
                continue
            if measure == ROWS:
                now, previous = runs.positions(), runs.first_pos - 1
            else:
                dimension = self.dimension(measure)
                now, previous = values[dimension], before[dimension]
            mark_cuts(cut, now, heads, np.where(held, previous, now[heads]), windows)
        self.borders.mark(cut, runs, before[0], self.keys)
        return cut

    def advance(self, watermark: int, *, results: bool = True) -> FoundWindows:
        """Windows that event time alone makes due; then forget slices that no window can need."""
        if watermark <= self.watermark:
            return self._nothing
        if not (len(self.slices) or self.driven.follow_time or self.emit_empty):
            self.watermark = watermark
            return self._nothing
        due = [
            *self.finder.by_time(self.slices, self.watermark, watermark, self.keys),
            *self.look_backs.by_time(self.slices, self.watermark, watermark, self.keys),
        ]
        if self.empty is not None:
            due.append(self.empty.between(due, self.slices, self.watermark, watermark, self.keys))
        due += [self._of_closed(n, c) for n, c in self.driven.advance(watermark, self.keys)]
        found = self._found(due, results)
        self.watermark = watermark
        self.purge()
        return found

    def finish(self) -> FoundWindows:
        """End of stream."""
        due = [
            *self.finder.at_end(self.slices, self.watermark, self.keys),
            *self.look_backs.at_end(self.slices, self.watermark, self.keys),
        ]
        if self.empty is not None:
            due.append(self.empty.between(due, self.slices, self.watermark, NEVER, self.keys))
        from_rows = {n for n, _ in self.driven.machines if self.keys.machines[n].ends_in_rows}
        complete = self.driven.finish(self.keys)
        due += [self._of_closed(n, c) for n, c in complete if n not in from_rows]
        last = [self._of_closed(n, c) for n, c in complete if n in from_rows]
        for known, more in zip((due, last), self.borders.at_end(self.slices, self.rest, self.keys)):
            known += more
        found = [f for f in (self._found(due), self._found(last, table=self.rest)) if len(f)]
        return found[0] if len(found) == 1 else FoundWindows.concat(found) if found else self._nothing

    def stand(self) -> FoundWindows:
        """Windows as they stand: what the end of the stream would give, and those that wait for more rows."""
        return FoundWindows.concat([self._found([self.finder.lacking_rows(self.slices, self.keys)]), self.finish()])

    def _found(self, parts: Sequence[Due], results: bool = True, *, table: SliceTable | None = None) -> FoundWindows:
        """Windows with their results, made of the slices of `table`."""
        table = self.slices if table is None else table
        due = Due.concat(parts)
        if not len(due):
            return self._nothing
        self.keys.journal.changed.note(due.slot)
        due = due.located(table)
        if self.keys.complete_from:
            due = due.take(np.flatnonzero(is_complete(self, due, table)))
        due = self.changes.among(due, self.keys)
        if not len(due):
            return self._nothing
        if self.planned:
            if table is self.slices:
                self._check_declared(due)
            held = due.i1 - due.i0
            if len(self.planned) < len(self.queries):
                held = held[np.isin(due.number, self.planned)]
            self.costs["reduce_at_end"] += int((held - 1).sum())
            self.costs["buffered"] = max(self.costs["buffered"], int(held.max(initial=0)))
        if not results:
            return FoundWindows(due, ())
        if self.shares.whole:
            return FoundWindows(due, self._lowered(table, range(len(self.aggs)), due.i0, due.i1))
        groups = self.shares.groups(due.number)
        parts_of = [(given, some, self._lowered(table, given, due.i0[some], due.i1[some])) for given, some in groups]
        return FoundWindows(due, self.shares.in_place(parts_of))

    def _lowered(self, table: SliceTable, which: Sequence[int], i0: Array, i1: Array) -> tuple[pa.Array, ...]:
        """Some aggregates over ranges of slices."""
        bounds, cells = [self.aggs[a].bound for a in which], [table.cells[a] for a in which]
        values, combines = lower_ranges(bounds, cells, i0, i1, store=self.store)
        self.combines += combines
        return values

    def _check_declared(self, due: Due) -> None:
        """Windows begin where their policies have said that they would; slices know nothing of rows in between."""
        for number, machine in self.driven.machines:
            said = self.keys.machines[number].declares
            if said is None:
                continue
            mine = np.flatnonzero((due.number == number) & (due.i1 > due.i0))
            wrong = mine[self.slices.pos[due.i0[mine]] != due.start_pos[mine]]
            if len(wrong):
                name = f"{machine.where}: " if machine.where else ""
                raise QueryError(
                    f"{name}{said}: a window begins at row {due.start_pos[wrong[0]]} of its key, which is no border by "
                    "next_trigger and lower_border; they must say what notify does, or scale must be None"
                )

    def slices_of(self, slot: int, position: int) -> KeySlices:
        """The slices of a key from the one on that holds this position."""
        self.keys.grow(slot + 1)
        return self.past.of(slot, position, self.slices)

    def with_row(
        self, before: KeySlices, slices: SliceTable, young: int, windows: WindowSet, position: int, last_time: int
    ) -> FoundWindows:
        """A late row has come at this position of its key, which has these slices now instead of those before; from
        number `young` on they are not of the past. Returns the windows that the row changed."""
        keys, slot, table = self.keys, slices.slot[:1], self.slices
        self.slices = SliceTable.concat(
            [
                table.take(np.arange(before.lo)),
                slices.take(np.arange(young, len(slices))),
                table.take(np.arange(before.hi, len(table))),
            ]
        )
        for column in (keys.rows_seen, keys.last[0]):
            keys.journal.keep(column, slot)
        keys.rows_seen[slot] += 1
        keys.last[0][slot] = last_time
        after, now = np.array([position]), keys.rows_seen[slot]
        return self._found([self.finder.on_positions(slices, windows, slot, after, now, keys)], table=slices)

    def with_past(self) -> None:
        """Hold all slices in one table again."""
        if len(self.past):
            self.slices = self.past.with_younger(self.slices)
            self.past.clear()

    def settle(self) -> None:
        """Rows that came before those that are `settled` can't be late any more: forget the slices that held them."""
        if self.settled is None or not len(self.past):
            return
        windows = self.counting
        if windows is None:  # nothing can be changed in place any more
            self.with_past()
            return
        table = self.past.with_younger(self.no_slices())
        seen = np.zeros(len(self.keys), np.int64)
        known = min(len(self.settled), len(seen))
        seen[:known] = self.settled.rows_seen[:known]
        keep = table.stop > horizons(windows, seen)[table.slot]
        if not keep.all():
            self._forget(table, ~keep)
            self.past.clear()
            self.past.add(table.take(keep))

    def _forget(self, table: SliceTable, gone: Array) -> None:
        self.keys.note_purged(table.slot[gone], table.last[0][gone], table.stop[gone])

    def purge(self, *, done: bool = False) -> None:
        """Forget slices that no window can need; `done`: those that only late rows would look at, too."""
        if done:
            self.with_past()
        table = self.slices
        if not len(table):
            return
        rows_seen = self.keys.rows_seen
        keep = np.zeros(len(table), bool)
        for measure, windows in self.sets.items():
            if measure == TIME:
                keep |= table.last[0] >= windows.horizon(self.watermark)
            elif measure == SINCE:
                dimension = self.dimension(measure)
                progress = since(self.watermark, first_times(self.keys, dimension))
                keep |= table.last[dimension] >= horizons(windows, progress)[table.slot]
            elif measure == ROWS:
                keep |= table.stop > horizons(windows, rows_seen)[table.slot]
            else:
                dimension = self.dimension(measure)
                horizon = horizons(windows, self.keys.last[dimension])
                keep |= table.last[dimension] >= horizon[table.slot]
        if self.driven:
            keep |= table.stop > self.driven.open_from(self.keys)[table.slot]
        if self.look_backs:
            keep |= self.look_backs.needed(table, self.watermark)
        if self.borders:
            keep |= self.borders.needed(table, self.keys)
        if not keep.all():
            gone = ~keep
            if self.settled is not None and self.counting is not None and not done:
                self.past.add(table.take(gone))
            else:
                self._forget(table, gone)
            self.slices = table.take(keep)
        if self._joins and len(self.slices) > self._crowded:
            self._join()
            self._crowded = _CROWDED + len(self.slices) + (len(self.slices) >> 1)
        self._after_purge = len(self.slices)

    def tidy(self) -> None:
        """Hold only what is needed, whenever that was looked at last."""
        self.purge()
        if self._joins:
            self._join()

    def _join(self) -> None:
        """Join slices of a key where no window begins that is still to end."""
        table = self.slices
        slot, starts = table.slot[1:], np.ones(len(table), bool)
        starts[1:] = slot != table.slot[:-1]
        for measure, windows in self.sets.items():
            if measure == ROWS:
                starts[1:] |= windows.start_between(table.stop[:-1] - 1, table.pos[1:], self.keys.rows_seen[slot])
            else:
                # where event time has not been, windows are still to end as well as to begin
                starts[1:] |= table.first[0][1:] > self.watermark
                starts[1:] |= windows.start_between(table.last[0][:-1], table.first[0][1:], self.watermark)
        if starts.all():
            return
        first = starts.nonzero()[0]
        self.merges += len(table) - len(first)
        self.keys.journal.changed.note(table.slot[~starts])
        self.slices = table.joined(first, self.aggs)

    def next_due(self, watermark: int) -> int:
        """No window on event time is due before the watermark reaches this; ALWAYS if any row may close one."""
        if watermark == ALWAYS or not self.driven.sessions_only or self.dimensions or self.borders.by_time:
            return ALWAYS
        found = [watermark + 1] if self.look_backs.timed else []
        if TIME in self.sets:
            found.append(int(self.sets[TIME].next_end(watermark)))
        found += self.driven.next_deadlines(watermark, self.keys)
        return min(found, default=NEVER)

    def rows_until_due(self) -> int:
        """At least so many rows must come before a window that counts rows is complete."""
        counting = [s for m, s in self.sets.items() if m == ROWS] + self.look_backs.counting
        seen = np.unique(np.append(self.keys.rows_seen, 0)).tolist() if counting else []
        found = [int(windows.next_end(n)) - n for windows in counting for n in seen]
        return min([self.borders.rows_until_due(self.keys), *found])

    @property
    def nbytes(self) -> int:
        """Bytes of slices and of what is known of keys."""
        return nbytes_of(self.banks())

    def banks(self) -> dict[str, Held]:
        """What is held of keys."""
        found: dict[str, Held] = {"keys": self.keys, "slices": SliceBank(self), "rest": RestBank(self)}
        for number, machine in self.keys.machines.items():
            found |= named(f"machine.{number}.", machine.banks())
        return found

    def select(self, slots: Array, journal: Journal | None = None) -> OrderedSlicer:
        """A copy of the state of these keys, renumbered 0, 1, ... (slots not seen yet are empty there).

        `journal`: of calls that change the copy; without one they can't be taken back.
        """
        other = copy(self)  # windows and aggregates are shared, state is not
        self.keys.grow(int(slots.max()) + 1 if len(slots) else 0)
        other.keys = self.keys.select(slots, journal)
        other.slices, other.rest = self.past.with_younger(self.slices, slots), self.rest.of_slots(slots)
        other.past = PastSlices(other.keys.journal)
        return other

    def put(self, slots: Array, part: OrderedSlicer) -> None:
        """Put the state of `select` (possibly moved on) in the place of these keys' state."""
        self.with_past()
        self.keys.put(slots, part.keys)
        self.slices, self.rest = self.slices.put(slots, part.slices), self.rest.put(slots, part.rest)
