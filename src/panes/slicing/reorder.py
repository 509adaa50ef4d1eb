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
    """Rows not yet behind the watermark, as runs that are each in event-time order."""

    def __init__(self) -> None:
        self._runs: list[Rows] = []

    def __len__(self) -> int:
        return sum(len(rows) for rows in self._runs)

    def add(self, rows: Rows) -> None:
        if len(rows):
            self._runs.append(by_time(rows))

    def oldest(self, default: int) -> int:
        """The smallest arrival number that waits."""
        return min((int(rows.seq.min()) for rows in self._runs), default=default)

    def held(self) -> Rows | None:
        """All rows that wait, in order of arrival."""
        if not self._runs:
            return None
        rows = concat_rows(self._runs)
        return rows.take(np.argsort(rows.seq, kind="stable"))

    def release(self, watermark: int) -> Rows | None:
        """Rows with time <= watermark, in event-time order; None if there are none."""
        due, waiting = [], []
        for run in self._runs:
            count = int(np.searchsorted(run.times, watermark, side="right"))
            if count:
                due.append(run.take(slice(count), in_order=True))
            if count < len(run):
                waiting.append(run.take(slice(count, None), in_order=True))
        self._runs = waiting
        if len(waiting) > 16:  # many small batches: one run of them all is cheaper to ask
            self._runs = [merged(waiting)]
        return merged(due) if due else None


def merged(runs: Sequence[Rows]) -> Rows:
    """One run in event-time order of several."""
    rows = concat_rows(runs)
    if rows.in_order:
        return rows
    if len(rows) < 1000 or len(runs) > 8:
        return rows.take(np.lexsort((rows.seq, rows.times)), in_order=True)
    from panes.slicing.merge_kernels import merge_by_time

    ends = np.cumsum([len(r) for r in runs])
    order = np.arange(ends[0])
    for start, end in pairwise(ends.tolist()):
        order = merge_by_time(rows.times, rows.seq, order, np.arange(start, end))
    return rows.take(order, in_order=True)


def by_time(rows: Rows) -> Rows:
    """Rows sorted by (time, arrival); arrival order is the order they are in, or that of the runs in them."""
    return rows if rows.in_order else rows.take(time_order(rows.times, rows.seq), in_order=True)


def time_order(times: Array, seq: Array) -> Array:
    """The order by (time, arrival), cheap for mostly sorted input.

    The rows that are at the running maximum are sorted already; only the stragglers are sorted, then both
    are merged. Where many rows straggle a plain sort is as good.
    """
    straggler = times < np.maximum.accumulate(times)
    late = np.flatnonzero(straggler)
    if len(times) < 1000 or len(late) * 2 > len(times):
        return np.lexsort((seq, times))
    main = np.flatnonzero(~straggler)
    late = late[_order(times[late], seq[late])]
    from panes.slicing.merge_kernels import merge_by_time

    return merge_by_time(times, seq, main, late)


def _order(times: Array, seq: Array) -> Array:
    """The order by (time, arrival): packed into one integer where it fits, since sorting integers is fastest."""
    low = int(times.min())
    bits = int(len(times)).bit_length()
    if (int(times.max()) - low) >> (62 - bits) or np.any(seq[1:] < seq[:-1]):
        return np.lexsort((seq, times))
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
