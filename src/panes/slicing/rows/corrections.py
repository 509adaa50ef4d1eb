"""What a late row changes in the row lane.

What the lane has given since its base is remembered, so that a replay of a key gives only what differs from it. Where
every window counts rows there is no need to replay: slices keep their positions when a row comes in between, and from
its slice on each takes the row before it and gives its last one to the next (SPEC S-17, K-19). No row is looked at
again but those that move, if all aggregates can take a row out; if not, those of the windows that change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Cells
from panes.slicing.lane import NO_TIME, Agg, Results, RowBatch
from panes.slicing.rows.due import Due, FoundWindows
from panes.slicing.rows.kept_rows import KeyRows
from panes.slicing.rows.slice_table import SliceTable
from panes.slicing.window_set import WindowSet
from panes.state.entries import Entries, EntryBank, EntryColumn, entry_columns
from panes.state.journal import Journal

Array = np.ndarray

Identity = tuple[int, int, int, float, float]  # query, start, end, lo, hi


@dataclass
class Record:
    """A window as it was given last."""

    revision: int
    start_pos: int
    stop_pos: int
    void: bool = False


class EmittedWindows(EntryBank):
    """Per key, the windows given that a late row may still change."""

    # bounds on a column may be fractions, and those of windows on time are whole: NumPy makes one kind of both
    declared = entry_columns(
        "number", "start", "end", lo=EntryColumn(None), hi=EntryColumn(None),
        revision=EntryColumn(low=0, high=2**31 - 2), start_pos=EntryColumn(), stop_pos=EntryColumn(),
        void=EntryColumn(pa.bool_()),
    )  # fmt: skip
    optional = True

    def __init__(self, journal: Journal | None = None) -> None:
        self._journal = journal or Journal()
        self.by_slot: dict[int, dict[Identity, Record]] = {}

    def __len__(self) -> int:
        return sum(len(records) for records in self.by_slot.values())

    def record(self, due: Due) -> Array:
        """Windows given for the first time, and their revisions: a void window that is one again goes on counting."""
        revisions = np.zeros(len(due), np.int32)
        undo: list[tuple[int, Identity, Record | None]] = []
        self._journal.undo_by(self._put_back, undo)
        rows = zip(due.slot.tolist(), identities(due), due.start_pos.tolist(), due.stop_pos.tolist())
        for i, (slot, identity, start_pos, stop_pos) in enumerate(rows):
            records = self.by_slot.setdefault(slot, {})
            known = records.get(identity)
            if known is not None:
                revisions[i] = known.revision + 1
            undo.append((slot, identity, known))
            records[identity] = Record(int(revisions[i]), start_pos, stop_pos)
        return revisions

    def _put_back(self, undo: list[tuple[int, Identity, Record | None]]) -> None:
        for slot, identity, known in reversed(undo):
            if known is not None:
                self.by_slot.setdefault(slot, {})[identity] = known
                continue
            records = self.by_slot.get(slot, {})
            records.pop(identity, None)
            if not records:
                self.by_slot.pop(slot, None)

    def changing(self, slot: int) -> dict[Identity, Record]:
        """The windows of a key, which the caller may change in any way."""
        records = self.by_slot.get(slot)
        before = {identity: replace(record) for identity, record in records.items()} if records is not None else None
        self._journal.undo_by(self._put_back_all, slot, before)
        return self.by_slot.setdefault(slot, {})

    def _put_back_all(self, slot: int, before: dict[Identity, Record] | None) -> None:
        if before is None:
            self.by_slot.pop(slot, None)
        else:
            self.by_slot[slot] = before

    def settle(self, due: Due) -> None:
        """No late row can change these any more."""
        undo: list[tuple[int, Identity, Record | None]] = []
        self._journal.undo_by(self._put_back, undo)
        for slot, identity in zip(due.slot.tolist(), identities(due)):
            records = self.by_slot.get(slot)
            if records is not None:
                known = records.pop(identity, None)
                if known is not None:
                    undo.append((slot, identity, known))
                if not records:
                    del self.by_slot[slot]

    def entries(self, slots: Array) -> Entries:
        wanted = set(slots.tolist())
        flat = [
            (slot, *identity, r.revision, r.start_pos, r.stop_pos, r.void)
            for slot, records in self.by_slot.items()
            if slot in wanted
            for identity, r in records.items()
        ]
        slot, *columns = map(np.array, zip(*flat)) if flat else [np.empty(0, np.int64)] * (1 + len(self.declared))
        return Entries(slot, dict(zip(self.declared, columns, strict=True)))

    def take_in(self, found: Entries) -> None:
        rows = zip(found.slots.tolist(), *(found.columns[name].tolist() for name in self.declared))
        for slot, number, start, end, lo, hi, *record in rows:
            self.by_slot.setdefault(slot, {})[number, start, end, lo, hi] = Record(*record)

    @property
    def nbytes(self) -> int:
        return 200 * len(self)

    def forget(self, number: int) -> None:
        for records in self.by_slot.values():
            for identity in [i for i in records if i[0] == number]:
                del records[identity]


def identities(due: Due) -> list[Identity]:
    """What makes two windows of a key the same window."""
    lo, hi = due.lo, due.hi
    if lo.dtype == np.float64:
        lo, hi = np.where(np.isnan(lo), NO_TIME, lo), np.where(np.isnan(hi), NO_TIME, hi)
    return list(zip(due.number.tolist(), due.start.tolist(), due.end.tolist(), lo.tolist(), hi.tolist()))


def diff(
    given: EmittedWindows, slot: int, position: int, found: Sequence[FoundWindows], aggs: Sequence[Agg]
) -> Results:
    """Corrections of one key: a row was put at `position`, and `found` is what the key gives now."""
    records = given.changing(slot)
    due = Due.concat([f.due for f in found])
    values = [
        pa.concat_arrays([f.values[a] for f in found]) if found else pa.nulls(0, agg.bound.out_type)
        for a, agg in enumerate(aggs)
    ]
    seen = set()
    changed, revisions = [], []
    spans = zip(identities(due), due.start_pos.tolist(), due.stop_pos.tolist())
    for i, (identity, start_pos, stop_pos) in enumerate(spans):
        seen.add(identity)
        known = records.get(identity)
        if known is None:
            records[identity] = Record(0, start_pos, stop_pos)
        else:
            same = not known.void and _moved(known, position) == (start_pos, stop_pos)
            known.start_pos, known.stop_pos = start_pos, stop_pos
            if same:
                continue
            known.revision, known.void = known.revision + 1, False
        changed.append(i)
        revisions.append(records[identity].revision)
    gone = [identity for identity, r in records.items() if identity not in seen and not r.void]
    for identity in gone:
        records[identity].revision += 1
        records[identity].void = True
        revisions.append(records[identity].revision)
    kept = due.take(np.array(changed, np.int64))
    void = np.array([False] * len(changed) + [True] * len(gone), bool)
    columns = [np.array(c) for c in zip(*gone)] if gone else [np.empty(0, np.int64)] * 5
    number, start, end, lo, hi = columns
    bounds = [kept.lo, kept.hi, lo, hi]
    if any(c.dtype == np.float64 for c in bounds):  # where there is no bound, gone ones have NO_TIME, kept ones NaN
        bounds = [np.where(c == NO_TIME, np.nan, c) for c in bounds]
    return Results(
        np.concatenate((kept.number, number)),
        np.full(len(void), slot),
        np.concatenate((kept.start, start)),
        np.concatenate((kept.end, end)),
        tuple(pa.concat_arrays([v.take(pa.array(changed, pa.int64())), pa.nulls(len(gone), v.type)]) for v in values),
        lo=np.concatenate((bounds[0], bounds[2])),
        hi=np.concatenate((bounds[1], bounds[3])),
        revision=np.array(revisions, np.int32),
        void=void,
    )


def again(given: EmittedWindows, found: FoundWindows) -> Results:
    """Windows of one key that have other rows now, or are complete only now."""
    due = found.due
    return Results(
        due.number, due.slot, due.start, due.end, found.values, lo=due.lo, hi=due.hi, revision=given.record(due),
        void=np.zeros(len(due), bool),
    )  # fmt: skip


def _moved(record: Record, position: int) -> tuple[int, int] | None:
    """Where the rows of a window lie after a row came in at `position`; None if it came in between them."""
    start, last = record.start_pos, record.stop_pos - 1
    if start < position <= last:
        return None
    return start + (start >= position), last + (last >= position) + 1


def can_take_out(aggs: Sequence[Agg]) -> bool:
    """Whether all aggregates can be had again without one of their rows, whatever its place among them."""
    bounds = [a.bound for a in aggs]
    return all(b.laws.invertible and b.laws.commutative and b.empties for b in bounds)


class Shift:
    """One late row of a key, with slices that lie at fixed positions."""

    def __init__(self, slices: SliceTable, slot: int, rows: KeyRows, at: int, first: int) -> None:
        """`rows` of the key have the new one `at` its place, and the first of them has position `first`; `slices` of
        the key begin with the first one that the row changes, or that a window needs which it changes."""
        self._rows, self._at, self._first = rows, at, first
        self.position = first + at
        self.total = first + len(rows) - 1  # rows of the key before this one came
        self._slices, self._slot = slices, slot

    def holds(self, needed: int) -> bool:
        """Whether slices are there of all windows that the row changes, which need rows from `needed` on."""
        held = int(self._slices.pos[0]) if len(self._slices) else self.total
        return held <= needed or needed >= self.total

    def slices(self, windows: WindowSet, aggs: Sequence[Agg]) -> tuple[SliceTable, int]:
        """The slices with the row among them, and how many took or gave one: all but the first ones."""
        mine, position, total = self._slices, self.position, self.total
        behind = self._at if position == total else int(self._old(np.array([total - 1]))[0])  # the last row, now
        grows = len(mine) > 0 and not len(windows.edges(total - 1, total))
        touched = np.flatnonzero(mine.stop > position)
        if grows and not len(touched):
            touched = np.array([len(mine) - 1])
        changed = mine.take(touched)
        comes = np.where(changed.pos <= position, self._at, self._old(changed.pos - 1))
        leaves = self._old(changed.stop[: len(touched) - grows] - 1)
        times = self._rows.times
        time = times(np.array([self._at]))
        first = np.where(changed.pos == position, time, times(comes))
        first = np.where(changed.pos < position, changed.first[0], first)
        last = np.where(changed.stop - 1 == position, time, times(self._old(changed.stop - 2)))
        count = changed.rows.copy()
        if grows:
            last[-1], count[-1] = times(np.array([behind]))[0], count[-1] + 1
        come, leave = self._rows.take(comes), self._rows.take(leaves)
        cells = tuple(_moved_on(agg, held, come, leave) for agg, held in zip(aggs, changed.cells))
        parts = [
            mine.take(np.arange(len(mine) - len(touched))),
            replace(changed, rows=count, first=(first,), last=(last,), cells=cells),
        ]
        if not grows:
            parts.append(self._new(aggs, behind))
        return SliceTable.concat(parts), len(touched)

    def _old(self, positions: Array) -> Array:
        """Where among the rows those are that had these positions before."""
        index = positions - self._first
        return np.clip(index + (index >= self._at), 0, len(self._rows) - 1)

    def _new(self, aggs: Sequence[Agg], row: int) -> SliceTable:
        one = self._rows.take(np.array([row]))
        cells = tuple(_lifted(agg, one) for agg in aggs)
        time = (one.times,)
        return SliceTable(np.array([self._slot]), np.array([self.total]), np.ones(1, np.int64), time, time, cells)


def _lifted(agg: Agg, rows: RowBatch) -> Cells:
    return agg.bound.lift(rows.inputs(agg.inputs), np.arange(len(rows) + 1))


def _moved_on(agg: Agg, held: Cells, comes: RowBatch, leaves: RowBatch) -> Cells:
    """Each slice with the row that comes and without the one that leaves; the last may give none."""
    if not len(comes):
        return held
    more = agg.bound.merge(held, _lifted(agg, comes))
    if not len(leaves):
        return more
    less = agg.bound.invert(more.take(np.arange(len(leaves))), _lifted(agg, leaves))
    return Cells.concat([less, more.take(np.arange(len(leaves), len(comes)))])


def recounted(slot: int, rows: KeyRows, first: int, begin: int, windows: WindowSet, aggs: Sequence[Agg]) -> SliceTable:
    """The slices of a key from the one on that begins with row `begin`; the first row that is there is row `first`."""
    some = rows.take(slice(begin - first, None))
    edges = windows.edges(begin, begin + len(some) - 1)
    offsets = np.concatenate(([0], edges - begin, [len(some)]))
    starts, ends = offsets[:-1], offsets[1:]
    cells = tuple(agg.bound.lift(some.inputs(agg.inputs), offsets) for agg in aggs)
    bounds = (some.times[starts],), (some.times[ends - 1],)
    return SliceTable(np.full(len(starts), slot), starts + begin, ends - starts, *bounds, cells)


def edge_changes(before: Array, after: Array, position: int, total: int) -> tuple[int, int, int]:
    """(splits, merges, moves) that a row made of slices which came in at `position` of `total` rows of its key.

    Slices are given by the positions of their first rows. An edge that lies between other rows than before, at the same
    position, has let a row pass: that is a move. A slice that begins with the last row is new and cuts none.
    """
    low = max(before.min(initial=0), after.min(initial=0))  # slices before that are no longer held by one of both
    now = set(after[after > low].tolist())
    was = {edge: edge + (edge >= position) for edge in before[before > low].tolist()}
    gained = now - was.keys() - set(was.values()) - {total}
    lost = [edge for edge, with_its_row in was.items() if edge not in now and with_its_row not in now]
    moves = [edge for edge, with_its_row in was.items() if edge in now and with_its_row not in now]
    return len(gained), len(lost), len(moves)
