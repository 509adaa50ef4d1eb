"""The reorder buffer: rows wait here until the watermark passes them, then leave in event-time order.

Rows of equal time leave in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Column
from panes.aggregates.columns import column_from_arrow
from panes.slicing.lane import RowBatch
from panes.state.journal import Replaced

Array = np.ndarray


#: Runs that wait at most, and a few more if they are of very different lengths.
_RUNS = 16
#: NumPy sorts integers below this digit by digit, in a time that does not grow with their number's logarithm.
_DIGITS = 1 << 16
#: From this many rows on, rows that came in order are told from the others before sorting.
_LARGE = 1024


class ReorderBuffer:
    """Rows not yet behind the watermark, as runs in event-time order.

    Rows of equal time are in order of arrival within a run, and those of an earlier run came earlier.
    """

    replaced = Replaced("runs")

    def __init__(self) -> None:
        self.runs: list[RowBatch] = []

    def __len__(self) -> int:
        return sum(len(rows) for rows in self.runs)

    def add(self, rows: RowBatch) -> None:
        """Take rows that came after all rows taken before."""
        if not len(rows):
            return
        self.runs += [rows] if rows.in_order else _runs_of(rows)
        if len(self.runs) > _RUNS:
            self._join_small()

    def _join_small(self) -> None:
        """Make each run longer than the ones after it together, so that a row is seldom moved."""
        at, after = len(self.runs) - 1, len(self.runs[-1])
        while at and len(self.runs[at - 1]) <= after:
            at -= 1
            after += len(self.runs[at])
        self.runs[at:] = [in_time_order(self.runs[at:])]

    def oldest(self, default: int) -> int:
        """The smallest arrival number that waits."""
        return min((int(rows.seq.min()) for rows in self.runs), default=default)

    @property
    def nbytes(self) -> int:
        return sum(rows.nbytes for rows in self.runs)

    def all(self) -> RowBatch | None:
        """All rows that wait, run by run; None if there are none."""
        return concat_rows(self.runs) if self.runs else None

    def release(self, watermark: int) -> RowBatch | None:
        """Rows with time <= watermark, in event-time order; None if there are none."""
        due, waiting = [], []
        for run in self.runs:
            count = int(run.times.searchsorted(watermark, side="right"))
            if count == len(run):
                due.append(run)
            elif count:
                due.append(run.take(slice(count), in_order=True))
                waiting.append(run.take(slice(count, None), in_order=True))
            else:
                waiting.append(run)
        self.runs = waiting
        return in_time_order(due) if due else None


def _runs_of(rows: RowBatch) -> list[RowBatch]:
    """Rows in order of arrival, as runs in event-time order.

    A row below one that came before it is in the second run; rows of its time in the first run then came before it.
    """
    times = rows.times
    if len(times) >= _LARGE:
        behind = times < np.maximum.accumulate(times)
        late = behind.nonzero()[0]
        if 2 * len(late) < len(times):
            on_time = (~behind).nonzero()[0]
            return [rows.take(i, in_order=True) for i in (on_time, late[stable_order(times[late])])]
    return [rows.take(stable_order(times), in_order=True)]


def stable_order(numbers: Array) -> Array:
    """A stable order by integers: those of 16 bits are sorted digit by digit; others that fit are packed with the index
    into one, since integers sort faster than any order of them is found."""
    low = int(numbers.min())
    width, bits = int(numbers.max()) - low, len(numbers).bit_length()
    if width < _DIGITS:
        return (numbers - low).astype(np.uint16).argsort(kind="stable")
    if width >> (62 - bits):
        return numbers.argsort(kind="stable")
    packed = ((numbers - low) << bits) | np.arange(len(numbers))
    packed.sort()
    return packed & ((1 << bits) - 1)


def in_time_order(runs: Sequence[RowBatch]) -> RowBatch:
    """One run of several, each in event-time order; rows of equal time stay in the order of their runs."""
    rows = concat_rows(runs)
    # a stable sort finds the runs and merges them
    return rows if rows.in_order else rows.take(rows.times.argsort(kind="stable"), in_order=True)


def with_columns(rows: RowBatch, types: Mapping[str, pa.DataType]) -> RowBatch:
    """Rows with these columns too, null where they have none."""
    more = {name: kind for name, kind in types.items() if name not in rows.columns}
    if not more:
        return rows
    nulls = {name: column_from_arrow(pa.chunked_array([pa.nulls(len(rows), kind)])) for name, kind in more.items()}
    return replace(rows, columns={**rows.columns, **nulls})


def concat_rows(parts: Sequence[RowBatch]) -> RowBatch:
    """Rows end to end, in the order given."""
    parts = [p for p in parts if len(p)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    times = np.concatenate([p.times for p in parts])
    in_order = all(p.in_order for p in parts) and all(a.times[-1] <= b.times[0] for a, b in pairwise(parts))
    slots = None if parts[0].slots is None else np.concatenate([p.slots for p in parts])
    columns = {name: _concat_columns([p.columns[name] for p in parts]) for name in parts[0].columns}
    return RowBatch(slots, times, np.concatenate([p.seq for p in parts]), columns, in_order)


def _concat_columns(parts: Sequence[Column]) -> Column:
    valid = None
    if any(p.valid is not None for p in parts):
        valid = np.concatenate([np.ones(len(p), bool) if p.valid is None else p.valid for p in parts])
    return Column(np.concatenate([p.values for p in parts]), valid, parts[0].type)
