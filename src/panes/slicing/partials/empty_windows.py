"""Windows without rows, for queries that want them too (`emit_empty`).

Regular windows of a key are given from the first one that holds a row of it, up to the watermark; at the end
of the stream up to the last one that holds a row of any key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from panes.slicing.lane import Results
from panes.slicing.partials.lane_results import corrections, no_results
from panes.slicing.partials.store import WindowAnswers
from panes.slicing.partials.time_windows import Spans
from panes.slicing.window_set import check_empty
from panes.state.entries import Entries, EntryBank, entry_columns
from panes.state.journal import Journal
from panes.windows.base import ALWAYS, NEVER, Regular

if TYPE_CHECKING:
    from panes.slicing.partials.slice_partials import SlicePartials

Array = np.ndarray
_NONE = np.empty(0, np.int64)


class EmptyWindows(EntryBank):
    """Knows per query and key which window was given first: its windows are given to a key for ever after."""

    declared = entry_columns("query", "end")

    def __init__(self, side: SlicePartials, journal: Journal) -> None:
        self._side = side
        self._journal = journal
        #: query number -> per slot the end of the first window given, NEVER where there was none
        self.first_end: dict[int, Array] = {}

    def _firsts(self, number: int, slots: int = 0) -> Array:
        known = self.first_end.get(number, np.empty(0, np.int64))
        if len(known) < slots:
            known = np.concatenate((known, np.full(max(slots, 2 * len(known)) - len(known), NEVER)))
        self.first_end[number] = known
        return known

    def entries(self, slots: Array) -> Entries:
        begun = [(number, np.flatnonzero(ends < NEVER), ends) for number, ends in self.first_end.items()]
        parts = [(np.full(len(some), number), some, ends[some]) for number, some, ends in begun] or [(_NONE,) * 3]
        query, slot, end = (np.concatenate(columns) for columns in zip(*parts))
        return Entries(slot, {"query": query, "end": end}).of(slots)

    def take_in(self, found: Entries) -> None:
        for number in np.unique(found.columns["query"]).tolist():
            mine = found.columns["query"] == number
            slots = found.slots[mine]
            self._firsts(number, int(slots.max()) + 1)[slots] = found.columns["end"][mine]

    @property
    def nbytes(self) -> int:
        return sum(ends.nbytes for ends in self.first_end.values())

    def given(self, slot: int, spans: Spans) -> Array:
        """Whether each of these windows was given to a key, with rows or without."""
        out = np.zeros(len(spans), bool)
        for i, (number, end) in enumerate(zip(spans.number.tolist(), spans.end.tolist())):
            firsts = self.first_end.get(number, ())
            out[i] = slot < len(firsts) and firsts[slot] <= end
        return out

    def begin_earlier(self, slot: int, spans: Spans, watermark: int) -> Results:
        """After a late row that belongs to windows `spans`: those without rows that its key now has before others."""
        side = self._side
        found = []
        for query in side.windows.queries:
            mine = spans.end[spans.number == query.number]
            if not isinstance(query.window, Regular) or not len(mine):
                continue
            firsts = self._firsts(query.number, slot + 1)
            first, known = int(mine.min()), int(firsts[slot])
            if first < known:
                self._journal.keep(firsts, np.array([slot]))
                firsts[slot] = first
                every = side.admitted(side.windows.all_ending(first, min(watermark, known - 1)))
                new = (every.number == query.number) & ~np.isin(every.end, mine)
                found += [(query.number, s, e, 0) for s, e in zip(every.start[new].tolist(), every.end[new].tolist())]
        none = tuple(a.bound.lower(a.bound.empty(len(found))) for a in side.aggs)
        return corrections(slot, found, 0, none)

    def due(self, before: int, watermark: int) -> Results:
        """Windows with before < end <= watermark, with rows or without."""
        return self._give(before, watermark, NEVER)

    def finish(self, before: int) -> Results:
        side = self._side
        spans, answers = side.answer(side.admitted(side.windows.due(side.slices.starts, before, NEVER)))
        if answers is None:
            return no_results(side.aggs)
        held = spans.take(np.flatnonzero(answers.counts))
        return self._give(before, int(held.end.max()), held)

    def _give(self, before: int, upto: int, last: Spans | int) -> Results:
        side = self._side
        periodic = [q.number for q in side.windows.queries if isinstance(q.window, Regular)]
        with_rows = side.admitted(side.windows.due(side.slices.starts, before, upto))
        if not periodic:
            return side.results(with_rows)
        keys = max((np.count_nonzero(f < NEVER) for f in self.first_end.values()), default=0)
        low = before if keys else max(before, int(side.slices.starts[0]) if len(side.slices) else upto)
        check_empty(side.windows.count_ending(low, upto) * max(keys, 1), low, upto)
        every = side.admitted(side.windows.all_ending(low, upto))
        every = every.take(np.flatnonzero(np.isin(every.number, periodic)))
        others = with_rows.take(np.flatnonzero(~np.isin(with_rows.number, periodic)))
        if isinstance(last, Spans):
            every = self._up_to_last(every, last)
        spans = Spans(*(np.concatenate(c) for c in zip(_columns(every), _columns(others))))
        spans = spans.take(np.lexsort((spans.start, spans.number, spans.end)))
        return self._filled(spans, set(periodic))

    def _up_to_last(self, every: Spans, held: Spans) -> Spans:
        """Without windows after the last one of their query that holds a row."""
        latest = {n: int(held.end[held.number == n].max()) for n in np.unique(held.number).tolist()}
        limit = np.array([latest.get(n, ALWAYS) for n in every.number.tolist()], np.int64)
        return every.take(np.flatnonzero(every.end <= limit))

    def _filled(self, spans: Spans, periodic: set[int]) -> Results:
        """All keys that a window is to be given to: those with rows in it, and those begun before."""
        side = self._side
        held, answers = side.answer(spans)
        if answers is None:
            answers = WindowAnswers(np.empty(0, np.int64), np.empty(0, np.int64), no_results(side.aggs).values)
        bounds = np.concatenate(([0], np.cumsum(answers.counts))).tolist()
        position = {w: i for i, w in enumerate(zip(*(c.tolist() for c in _columns(held))))}
        none = len(answers)  # the result of a window without rows comes after all others
        which, slots, picks = [], [], []
        for w, (number, start, end) in enumerate(zip(*(c.tolist() for c in _columns(spans)))):
            i = position.get((number, start, end))
            part = slice(bounds[i], bounds[i + 1]) if i is not None else slice(0, 0)
            found = answers.slots[part]
            pick = np.arange(part.start, part.stop)
            if number in periodic:
                firsts = self._firsts(number, int(found.max(initial=-1)) + 1)
                was = firsts[found]
                self._journal.saw(firsts, found, was)
                firsts[found] = np.minimum(was, end)
                self._journal.changed.note(found)
                begun = np.flatnonzero(firsts <= end)
                picked = np.full(len(begun), none)
                picked[np.searchsorted(begun, found)] = pick
                found, pick = begun, picked
            which.append(np.full(len(found), w))
            slots.append(found)
            picks.append(pick)
        if not which:
            return no_results(side.aggs)
        chosen = spans.take(np.concatenate(which))
        index = pa.array(np.concatenate(picks))
        values = tuple(
            pa.concat_arrays([v, a.bound.lower(a.bound.empty(1))]).take(index)
            for v, a in zip(answers.values, side.aggs)
        )
        return Results(chosen.number, np.concatenate(slots), chosen.start, chosen.end, values)


def _columns(spans: Spans) -> tuple[Array, Array, Array]:
    return spans.number, spans.start, spans.end
