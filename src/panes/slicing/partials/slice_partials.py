"""The context-free half of the partial lane: slices, their store, and the windows made of them.

Partials of (slice, key) come in, windows that are due go out. Slices are forgotten when no window needs them
any more, and joined when no window that is still to end begins between them (SPEC S-19, S-22).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Cells
from panes.aggregates.columns import PartialColumns
from panes.slicing.arrays import spread
from panes.slicing.lane import Results, RowBatch, RunningWindow
from panes.slicing.partials.dense_store import DenseStore
from panes.slicing.partials.empty_windows import EmptyWindows
from panes.slicing.partials.lane_results import no_results
from panes.slicing.partials.lifting import Block, Loose, Placed, place
from panes.slicing.partials.slices import EdgeCache, SliceList
from panes.slicing.partials.sparse_store import SparseStore
from panes.slicing.partials.store import SMALL, CellList, Store, Tally, WindowAnswers, fold_equal, mostly_empty
from panes.slicing.partials.time_windows import Spans, TimeWindows
from panes.slicing.shares import Shares, places
from panes.slicing.window_set import WindowSet
from panes.state.entries import Entries, EntryBank, entry_columns
from panes.state.journal import Journal, Replaced, Watched
from panes.windows.base import ALWAYS, NEVER, TIME

Array = np.ndarray

#: So many slices are looked at for some to join; in order, so many and half as many again as were left last time.
_MANY = 64
_CROWDED = 8


@dataclass
class Admission:
    """What a query added while running gives: windows that start and end late enough."""

    start: int
    after: int  # the watermark when it was added


class SlicePartials(EntryBank):
    """Slices of all keys, for context-free windows on event time; its entries are partials, by where slices begin."""

    declared = entry_columns("start")
    replaced = Replaced(
        "aggs",
        "shares",
        "codec",
        "updates",
        "merges",
        "windows",
        "slices",
        "store",
        "purged_to",
        "_purged",
        "_joined",
        "_tails",
        "_after_purge",
        "_crowded",
        "_checked",
    )

    def __init__(
        self,
        queries: Sequence[RunningWindow],
        shares: Shares,
        *,
        keyed: bool,
        store: str,
        emit_empty: bool,
        in_order: bool = False,
        journal: Journal | None = None,
    ) -> None:
        """`in_order`: no row comes before one that has come, so slices are joined as soon as windows have ended."""
        self.shares = shares
        self.aggs = shares.aggs
        self.codec = PartialColumns([a.bound for a in self.aggs])
        self.in_order = in_order
        self._journal = journal or Journal()
        self.keyed = keyed
        self.store_kind = store
        self.windows = TimeWindows(queries)
        self.edges = EdgeCache(self.windows.windows, self._journal)
        self.slices = SliceList()
        self.admissions: dict[int, Admission] = {}
        #: of queries that were added with aggregates which nobody gave: from when on there are partials of them all
        self.complete_from: dict[int, int] = {}
        #: rows before this were forgotten
        self.purged_to = ALWAYS
        #: the last slice forgotten, with its end where it can't be found out later
        self._purged: tuple[int, int | None] | None = None
        #: slices that were joined: start -> end
        self._joined: dict[int, int] = {}
        #: others, with the start of the last one in them: by the edges of now they end with it; only if none is frozen
        self._tails: dict[int, int] = {}
        #: how often slices that were there took more rows, and how many were joined to the one before
        self.updates = 0
        self.merges = 0
        self.tally = Tally()
        self._after_purge = 0  # slices left by the last purge
        self._crowded = _CROWDED if in_order else _MANY
        self._checked = SMALL
        self.empty = EmptyWindows(self, self._journal) if emit_empty else None
        self.store = self._new_store(dense=all(a.bound.dense for a in self.aggs))

    def _new_store(self, *, dense: bool) -> Store:
        return self.new_store(self._journal, dense=dense)

    def new_store(self, journal: Journal, *, dense: bool) -> Store:
        """A store for the same partials."""
        bound = [a.bound for a in self.aggs]
        if dense:
            return DenseStore(bound, keyed=self.keyed, store=self.store_kind, journal=journal, tally=self.tally)
        return SparseStore(bound, keyed=self.keyed, journal=journal, tally=self.tally)

    def begin(self) -> list[Watched]:
        """A call begins: objects whose attributes it may replace."""
        if self.empty is not None:
            self._journal.keep_container(self.empty.first_end)
        return [self, self.slices, self.tally, *self.store.begin()]

    def __bool__(self) -> bool:
        return bool(self.windows)

    @property
    def dense(self) -> bool:
        return self.store.dense

    def place(self, rows: RowBatch, lo: int, hi: int) -> Placed:
        """In which slices rows between lo and hi lie."""
        return place(rows, self.edges, lo, hi)

    def take(self, lifted: Block | Loose) -> None:
        at, fresh = self.slices.place(lifted.starts)
        self.updates += len(at) - len(fresh)
        self.store.open(fresh, len(self.slices.starts))
        if isinstance(lifted, Loose):
            self.store.add(CellList(at[lifted.at], lifted.slots, lifted.cells))
        else:
            self.store.add_block(at, lifted.keys, lifted.present, lifted.cells)
        if len(fresh) and self.keyed and self.store.dense:
            self._check_density()

    def _check_density(self) -> None:
        """Change to the sparse store when most cells are empty."""
        size = self.store.places
        if size < self._checked:
            return
        self._checked = size + size // 2
        if mostly_empty(size, self.store.occupied):
            held = self.store.cells(None)
            self.store = self._new_store(dense=False)
            self.store.add(held)

    def renumber(self, moved: Array) -> None:
        self.store.renumber(moved)
        self._checked = SMALL

    def used_slots(self) -> Array:
        return self.store.used_slots()

    @property
    def nbytes(self) -> int:
        return self.store.nbytes if self else 0

    def entries(self, slots: Array) -> Entries:
        held = self.store.cells(slots)
        return Entries(held.slots, {"start": self.slices.starts[held.at]}, held.cells)

    def take_in(self, found: Entries) -> None:
        at = self.slices.starts.searchsorted(found.columns["start"], side="right") - 1
        self.store.add(fold_equal(CellList(at, found.slots, found.cells), [a.bound for a in self.aggs]))

    def due(self, before: int, watermark: int) -> Results:
        """Windows with before < end <= watermark that hold rows."""
        if self.empty is not None:
            return self.empty.due(before, watermark)
        return self.results(self.admitted(self.windows.due(self.slices.starts, before, watermark)))

    def finish(self, before: int) -> Results:
        if self.empty is not None:
            return self.empty.finish(before)
        return self.due(before, NEVER)

    def standing(self, watermark: int) -> Results:
        """Windows that end after the watermark and hold rows."""
        return self.results(self.admitted(self.windows.due(self.slices.starts, watermark, NEVER)))

    def standing_of(self, slot: int, watermark: int) -> Results:
        """The same, of one key."""
        held = self.store.cells(np.array([slot]))
        spans = self.admitted(self.windows.due(self.slices.starts[held.at], watermark, NEVER))
        lo, hi, news = (held.at.searchsorted(at) for at in self._ranges(spans))
        there = np.flatnonzero(news < hi)
        spans, (index, offsets) = spans.take(there), spread(lo[there], hi[there])
        with np.errstate(invalid="ignore", over="ignore"):
            values = tuple(a.bound.lower_ranges(c, index, offsets) for a, c in zip(self.aggs, held.cells))
        return Results(spans.number, np.full(len(there), slot), spans.start, spans.end, values)

    def results(self, spans: Spans) -> Results:
        spans, answers = self.answer(spans)
        if answers is None:
            return no_results(self.aggs)
        counts = answers.counts if self.keyed else None
        return Results(spans.number, answers.slots, spans.start, spans.end, answers.values, counts)

    def answer(self, spans: Spans) -> tuple[Spans, WindowAnswers | None]:
        """Windows that have slices where they need them, and what they come to for each key."""
        lo, hi, news = self._ranges(spans)
        some = (news < hi).nonzero()[0]
        if len(some) < len(spans):
            spans, lo, hi, news = spans.take(some), lo[some], hi[some], news[some]
        if not len(spans):
            return spans, None
        if self.shares.whole:
            return spans, self.store.answer(lo, hi, news)
        return spans, self._answer_apart(spans.number, lo, hi, news)

    def _answer_apart(self, number: Array, lo: Array, hi: Array, news: Array) -> WindowAnswers:
        """The same, of windows some of which give only some aggregates: those that give the same ones together."""
        groups = self.shares.groups(number)
        found = [self.store.only(given).answer(lo[some], hi[some], news[some]) for given, some in groups]
        counts = np.empty(len(number), np.int64)
        for (_, some), answers in zip(groups, found):
            counts[some] = answers.counts
        begin = np.cumsum(counts) - counts
        places = [spread(begin[some], begin[some] + counts[some])[0] for _, some in groups]
        slots = np.empty(int(counts.sum()), np.int64)
        for at, answers in zip(places, found):
            slots[at] = answers.slots
        parts = [(given, at, answers.values) for (given, _), at, answers in zip(groups, places, found)]
        return WindowAnswers(counts, slots, self.shares.in_place(parts))

    def partials(self, spans: Spans) -> CellList:
        """What windows hold, before it is lowered: `at` is the number of the window; those without rows have none."""
        lo, hi = self.windows.positions(self.slices.starts, spans)
        some = (lo < hi).nonzero()[0]
        found = self.store.partials(lo[some], hi[some])
        return CellList(some[found.at], found.slots, found.cells)

    def _ranges(self, spans: Spans) -> tuple[Array, Array, Array]:
        """Positions of the slices of each window: first, behind the last, and from where on there must be rows."""
        lo, hi = self.windows.positions(self.slices.starts, spans)
        news = self.slices.position(self.windows.news_from(spans)) if self.windows.fresh else lo
        return lo, hi, news

    def admitted(self, spans: Spans) -> Spans:
        """Without windows of queries that were added too late for them."""
        if not self.admissions or not len(spans):
            return spans
        ok = np.ones(len(spans), bool)
        for number, rule in self.admissions.items():
            mine = np.flatnonzero(spans.number == number)
            start, end = spans.start[mine], spans.end[mine]
            ok[mine] = (start >= rule.start) & (end > rule.after) & ~self.edges.splits(start) & ~self.edges.splits(end)
        return spans.take(np.flatnonzero(ok))

    def given_with(self, slot: int, time: int, gone: int, watermark: int) -> tuple[Spans, Array]:
        """Closed windows that can still be changed, those that end after `gone`, which a row at `time` belongs to, and
        whether they were given before."""
        spans = self.admitted(self.windows.holding(time, gone, watermark))
        _, hi, news = self._ranges(spans)
        given = self.store.holds(slot, news, hi)
        if self.empty is not None:
            given |= self.empty.given(slot, spans)
        return spans, given

    def answer_one(self, slot: int, spans: Spans) -> tuple[Array, tuple[pa.Array, ...]]:
        """Which of the windows are to be given for one key, and what they come to."""
        lo, hi, news = self._ranges(spans)
        there = np.flatnonzero(self.store.holds(slot, news, hi))
        lo, hi = lo[there], hi[there]
        if self.shares.whole:
            return there, self.store.answer_one(slot, lo, hi)
        groups = self.shares.groups(spans.number[there])
        parts = [(g, some, self.store.only(g).answer_one(slot, lo[some], hi[some])) for g, some in groups]
        return there, self.shares.in_place(parts)

    def lowered(self, numbers: Array, cells: Sequence[Cells]) -> tuple[pa.Array, ...]:
        """Results of partials, each of a window of the query with this number."""
        if self.shares.whole:
            return tuple(a.bound.lower(c) for a, c in zip(self.aggs, cells))
        parts = [
            (given, some, [self.aggs[a].bound.lower(cells[a].take(some)) for a in given])
            for given, some in self.shares.groups(numbers)
        ]
        return self.shares.in_place(parts)

    def share(self, shares: Shares) -> None:
        """Keep these aggregates from now on: those that are there as they are, others from the next row on."""
        before, self.shares, self.aggs = self.shares, shares, shares.aggs
        known = places(self.aggs, before.aggs)
        if known == [*range(len(before.aggs))]:
            return
        self.codec = PartialColumns([a.bound for a in self.aggs])
        held = self.store.cells(None)
        cells = tuple(agg.bound.empty(len(held)) if at is None else held.cells[at] for agg, at in zip(self.aggs, known))
        ragged = not all(a.bound.dense for a in before.aggs)
        self.store = self._new_store(dense=(self.dense or ragged) and all(a.bound.dense for a in self.aggs))
        self.store.open(np.arange(len(self.slices)), len(self.slices))
        self.store.add(CellList(held.at, held.slots, cells))
        self._checked = SMALL

    def note_complete(self, query: RunningWindow, others: Sequence[RunningWindow], last_time: int) -> int:
        """From when on there are partials of all that a query gives, which is about to be added."""
        known = []
        for at in places(self.shares.given_by(query), self.aggs):
            givers = [q.number for q in others if at in self.shares.of(q.number)]
            new = last_time + 1 if at is None and last_time > ALWAYS else ALWAYS
            known.append(min((self.complete_from.get(n, ALWAYS) for n in givers), default=new))
        complete = max(known, default=ALWAYS)
        if complete > ALWAYS:
            self._journal.keep_container(self.complete_from)
            self.complete_from[query.number] = complete
        return complete

    def forget_query(self, number: int) -> None:
        """A query is gone, whether its windows lay on slices or not."""
        self._journal.keep_container(self.complete_from)
        self.complete_from.pop(number, None)
        if self.empty is not None:
            self.empty.first_end.pop(number, None)  # `begin` has kept it

    def purge_now_and_then(self, progress: int) -> None:
        """Purge when slices have become an eighth more: finding out which can go costs as much as to answer windows."""
        if len(self.slices.starts) > self._after_purge + (self._after_purge >> 3):
            self.purge(progress)

    def purge(self, progress: int) -> None:
        """Forget slices that no window ending after `progress` needs, and join others if there are many."""
        horizon = self.windows.horizon(progress)
        starts = self.slices.starts
        if len(starts) and starts[0] < horizon:
            count = int(starts.searchsorted(horizon))
            last = int(starts[count - 1])
            self._purged = last, self._end(last) if len(self.edges.frozen[0]) else None
            self.store.drop(count)
            self.slices.drop(count)
            self.edges.thaw(horizon)
        if len(self.slices.starts) > self._crowded:
            self._join(progress)
            left = len(self.slices.starts)
            self._crowded = _CROWDED + left + (left >> 1) if self.in_order else max(_MANY, 2 * left)
        self._after_purge = len(self.slices.starts)

    def tidy(self, progress: int) -> None:
        """Hold only what is needed, whenever that was looked at last."""
        self.purge(progress)
        if self.in_order:
            self._join(progress)

    def _join(self, progress: int) -> None:
        """Join slices behind `progress` where no window to come begins.

        Where rows may still come out of order, the newest slice is left alone.
        """
        starts = self.slices.starts
        last = int(np.searchsorted(starts, progress, side="right")) - (not self.in_order)
        if last < 2:
            return
        keep = np.ones(len(starts), bool)
        keep[1:last] = self.windows.start_between(starts[:last], progress)
        if keep.all():
            return
        firsts = np.flatnonzero(keep)
        tails = np.append(firsts[1:], len(starts)) - 1
        self._note_joined(int(starts[0]), starts[firsts[firsts < tails]], starts[tails[firsts < tails]])
        self.store.merge(firsts)
        self.slices.keep(firsts)
        self.merges += len(starts) - len(firsts)

    def _note_joined(self, lowest: int, firsts: Array, tails: Array) -> None:
        """Slices are joined, from first to tail; where they end is asked later, if ever. All are from `lowest` on."""
        joined = {s: e for s, e in self._joined.items() if e > lowest}
        open_ = {s: t for s, t in self._tails.items() if s >= lowest}
        frozen = len(self.edges.frozen[0]) > 0
        for first, tail in zip(firsts.tolist(), tails.tolist()):
            known = self._end(tail) if frozen else joined.get(tail)
            if known is None:
                open_[first] = open_.get(tail, tail)
                joined.pop(first, None)
            else:
                joined[first] = known
                open_.pop(first, None)
        self._joined, self._tails = joined, open_

    def _end(self, start: int) -> int:
        """The end of the slice that starts here."""
        known = self._joined.get(start)
        return self.edges.next_edge(self._tails.get(start, start)) if known is None else known

    def _find_ends(self) -> None:
        """Edges are about to change, or somebody asks where slices end."""
        if self._tails:
            ends = {start: self._end(start) for start in self._tails}
            self._joined, self._tails = dict(sorted({**self._joined, **ends}.items())), {}

    def known_purged(self, last_time: int) -> int:
        """Rows before this were forgotten; no row came after `last_time` yet."""
        if self._purged is not None:
            start, end = self._purged
            self.purged_to = max(self.purged_to, min(self._end(start) if end is None else end, last_time + 1))
            self._purged = None
        return self.purged_to

    def odd_bounds(self) -> dict[int, int]:
        """Start and end of slices that do not end at the next edge of the windows of now."""
        self._find_ends()
        starts, ends = self.edges.frozen
        return {**dict(zip(starts.tolist(), ends.tolist())), **self._joined}

    def load_slices(self, starts: Array, odd: dict[int, int], purged_to: int) -> None:
        """Take slices of a dump, beside what is here; their partials may follow.

        Slices here and there have the same bounds, unless queries came and went while they were apart: then
        slices that overlap become one, as they would be had they been together.
        """
        self.purged_to = max(self.purged_to, purged_to)
        here = self.slices.starts
        both = np.union1d(here, starts)
        if not len(both):
            return
        known = self.odd_bounds()
        if odd or known:
            self._joined = {s: max(odd.get(s, ALWAYS), known.get(s, ALWAYS)) for s in {*odd, *known}}
            ends = np.maximum.accumulate([self._end(s) for s in both.tolist()])
            first = np.append(True, both[1:] >= ends[:-1])
            ends = ends[np.append(np.flatnonzero(first)[1:], len(first)) - 1]
            both = both[first]
            self._joined = dict(zip(both.tolist(), ends.tolist()))
            self.edges.freeze(both, ends)
        held = self.store.cells(None)
        self.slices = SliceList()
        self.slices.place(both)
        self.store = self._new_store(dense=self.dense)
        self.store.open(np.arange(len(both)), len(both))
        self.take_in(Entries(held.slots, {"start": here[held.at]}, held.cells))

    def add_query(
        self, query: RunningWindow, watermark: int, progress: int, last_time: int, complete: int = ALWAYS
    ) -> None:
        """Give this query's windows too, from the first one on whose rows are all held, in slices of their own.

        `complete`: from when on there are partials of all that it gives.
        """
        self._change(progress, last_time, [*self.windows.queries, query])
        # Windows that begin or end inside a slice that is there can't be told apart from it, now or later.
        starts, ends = self.edges.frozen
        _, crossed = WindowSet(TIME, [query]).crossed(starts, starts, ends - 1)
        first = max(self.purged_to, int(crossed.max(initial=ALWAYS)) + 1, complete)
        self._journal.keep_container(self.admissions)
        self.admissions[query.number] = Admission(first, watermark)

    def remove_query(self, number: int, progress: int, last_time: int) -> None:
        self._change(progress, last_time, [q for q in self.windows.queries if q.number != number])
        self._journal.keep_container(self.admissions)
        self.admissions.pop(number, None)

    def _change(self, progress: int, last_time: int, queries: Sequence[RunningWindow]) -> None:
        """Use other queries from now on; slices that are there keep their bounds."""
        if not self.windows:
            self.purged_to = max(self.purged_to, last_time + 1)
        elif progress > ALWAYS:
            # What is held must not depend on when slices were joined last.
            self.purge(progress)
            self._join(progress)
        self.known_purged(last_time)
        self._find_ends()
        starts = self.slices.starts.copy()
        # The open slice ends after the last row seen, so that new edges cut whatever comes later.
        ends = np.array([min(self._end(s), last_time + 1) for s in starts.tolist()], np.int64)
        self._joined = {s: min(e, last_time + 1) for s, e in self._joined.items()}
        self.edges.freeze(starts, ends)
        self.windows = TimeWindows(queries)
        self.edges.set_windows(self.windows.windows)
        if not self.windows:
            self.purge(progress)
