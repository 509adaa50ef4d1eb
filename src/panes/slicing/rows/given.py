"""What the row lane has given since its base, and how a replay differs from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from panes.slicing.lane import NO_TIME, Agg, Results
from panes.slicing.rows.due import Due
from panes.slicing.rows.ordered import Found
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


class Given:
    """Per key, the windows given that a late row may still change."""

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


def diff(given: Given, slot: int, position: int, found: Sequence[Found], aggs: Sequence[Agg]) -> Results:
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


def again(given: Given, slot: int, found: Found) -> Results:
    """Windows of one key that have other rows now, or are complete only now."""
    records = given.changing(slot)
    due = found.due
    revisions = np.zeros(len(due), np.int32)
    spans = zip(identities(due), due.start_pos.tolist(), due.stop_pos.tolist())
    for i, (identity, start_pos, stop_pos) in enumerate(spans):
        known = records.get(identity)
        revisions[i] = 0 if known is None else known.revision + 1
        records[identity] = Record(int(revisions[i]), start_pos, stop_pos)
    return Results(
        due.number, due.slot, due.start, due.end, found.values, lo=due.lo, hi=due.hi, revision=revisions,
        void=np.zeros(len(due), bool),
    )  # fmt: skip


def _moved(record: Record, position: int) -> tuple[int, int] | None:
    """Where the rows of a window lie after a row came in at `position`; None if it came in between them."""
    start, last = record.start_pos, record.stop_pos - 1
    if start < position <= last:
        return None
    return start + (start >= position), last + (last >= position) + 1
