"""What the row lane has given since its base, and how a replay differs from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panes.slicing.lane import NO_TIME, Agg, Results
from panes.slicing.rows.due import Due
from panes.slicing.rows.ordered import Found

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

    def __init__(self) -> None:
        self.by_slot: dict[int, dict[Identity, Record]] = {}

    def __len__(self) -> int:
        return sum(len(records) for records in self.by_slot.values())

    def record(self, due: Due) -> Array:
        """Windows given for the first time, and their revisions: a void window that is one again goes on counting."""
        revisions = np.zeros(len(due), np.int32)
        rows = zip(due.slot.tolist(), identities(due), due.start_pos.tolist(), due.stop_pos.tolist())
        for i, (slot, identity, start_pos, stop_pos) in enumerate(rows):
            records = self.by_slot.setdefault(slot, {})
            known = records.get(identity)
            if known is not None:
                revisions[i] = known.revision + 1
            records[identity] = Record(int(revisions[i]), start_pos, stop_pos)
        return revisions

    def settle(self, due: Due) -> None:
        """No late row can change these any more."""
        for slot, identity in zip(due.slot.tolist(), identities(due)):
            records = self.by_slot.get(slot)
            if records is not None:
                records.pop(identity, None)
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
    records = given.by_slot.setdefault(slot, {})
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
    if kept.lo.dtype == np.float64:
        lo, hi = (np.where(c == NO_TIME, np.nan, c) for c in (lo, hi))
    return Results(
        np.concatenate((kept.number, number)),
        np.full(len(void), slot),
        np.concatenate((kept.start, start)),
        np.concatenate((kept.end, end)),
        tuple(pa.concat_arrays([v.take(pa.array(changed, pa.int64())), pa.nulls(len(gone), v.type)]) for v in values),
        lo=np.concatenate((kept.lo, lo)),
        hi=np.concatenate((kept.hi, hi)),
        revision=np.array(revisions, np.int32),
        void=void,
    )


def _moved(record: Record, position: int) -> tuple[int, int] | None:
    """Where the rows of a window lie after a row came in at `position`; None if it came in between them."""
    start, last = record.start_pos, record.stop_pos - 1
    if start < position <= last:
        return None
    return start + (start >= position), last + (last >= position) + 1
