"""The reorder buffer: rows wait here until the watermark passes them, then leave in event-time order.

Rows of equal time leave in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from panes.aggregates.base import Column
from panes.slicing.lane import Rows

Array = np.ndarray


class ReorderBuffer:
    """Rows not yet behind the watermark, as they came."""

    def __init__(self) -> None:
        self.runs: list[Rows] = []

    def __len__(self) -> int:
        return sum(len(rows) for rows in self.runs)

    def add(self, rows: Rows) -> None:
        if len(rows):
            self.runs.append(rows)

    def oldest(self, default: int) -> int:
        """The smallest arrival number that waits."""
        return min((int(rows.seq.min()) for rows in self.runs), default=default)

    def held(self) -> Rows | None:
        """All rows that wait, in order of arrival."""
        return concat_rows(self.runs) if self.runs else None

    def release(self, watermark: int) -> Rows | None:
        """Rows with time <= watermark, in event-time order; None if there are none."""
        due, waiting = [], []
        for run in self.runs:
            passed, kept = _split(run, watermark)
            if passed is not None:
                due.append(passed)
            if kept is not None:
                waiting.append(kept)
        self.runs = waiting if len(waiting) <= 16 else [concat_rows(waiting)]
        return by_time(concat_rows(due)) if due else None


def _split(rows: Rows, watermark: int) -> tuple[Rows | None, Rows | None]:
    """Rows up to the watermark, and those after it; None where there are none."""
    if rows.in_order:
        count = int(np.searchsorted(rows.times, watermark, side="right"))
        if 0 < count < len(rows):
            return rows.take(slice(count), in_order=True), rows.take(slice(count, None), in_order=True)
        return (rows, None) if count else (None, rows)
    due = rows.times <= watermark
    count = int(np.count_nonzero(due))
    if 0 < count < len(rows):
        kept = rows.take(np.flatnonzero(~due), in_order=False)
        return rows.take(np.flatnonzero(due), in_order=False), kept
    return (rows, None) if count else (None, rows)


def by_time(rows: Rows) -> Rows:
    """Rows sorted by (time, arrival). Rows of equal time are in order of arrival already, here and in the log."""
    return rows if rows.in_order else rows.take(_time_order(rows.times), in_order=True)


def _time_order(times: Array) -> Array:
    """A stable order by time; packed with the index into one integer where it fits, as integers sort fastest."""
    low = int(times.min())
    bits = len(times).bit_length()
    if (int(times.max()) - low) >> (62 - bits):
        return np.argsort(times, kind="stable")
    packed = ((times - low) << bits) | np.arange(len(times))
    packed.sort()
    return packed & ((1 << bits) - 1)


def concat_rows(parts: Sequence[Rows]) -> Rows:
    """Rows end to end, in the order given."""
    parts = [p for p in parts if len(p)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    times = np.concatenate([p.times for p in parts])
    in_order = all(p.in_order for p in parts) and all(a.times[-1] <= b.times[0] for a, b in pairwise(parts))
    slots = None if parts[0].slots is None else np.concatenate([p.slots for p in parts])
    columns = {name: _concat_columns([p.columns[name] for p in parts]) for name in parts[0].columns}
    return Rows(slots, times, np.concatenate([p.seq for p in parts]), columns, in_order)


def _concat_columns(parts: Sequence[Column]) -> Column:
    valid = None
    if any(p.valid is not None for p in parts):
        valid = np.concatenate([np.ones(len(p), bool) if p.valid is None else p.valid for p in parts])
    return Column(np.concatenate([p.values for p in parts]), valid, parts[0].type)
