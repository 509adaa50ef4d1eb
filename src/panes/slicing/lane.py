"""What flows between the operator and its two lanes.

A *lane* owns slices and answers windows. `PartialLane` keeps partial aggregates only and takes rows in any
order; `RowLane` takes rows in event-time order and knows every window kind. Rows behind the watermark are judged by
the lane (lateness.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from panes.aggregates.base import BoundAggregate, Column, Inputs
from panes.windows.base import Bound

if TYPE_CHECKING:
    from panes.slicing.lateness import Arriving, Taken

Array = np.ndarray


@dataclass(eq=False)
class Rows:
    """Accepted rows: who (slots), when (times), in which order they came (seq), and evaluated columns."""

    slots: Array | None  # int64 key slot per row; None: the stream has no key (all slot 0)
    times: Array  # int64
    seq: Array  # int64 arrival numbers, increasing; empty where nobody looks at them
    columns: Mapping[str, Column]  # SQL expression -> evaluated column
    in_order: bool  # times are non-decreasing
    span: tuple[int, int] | None = None  # the lowest and the highest time, where known
    keys: int | None = None  # how many slots have been given so far, where known

    def __len__(self) -> int:
        return len(self.times)

    @property
    def nbytes(self) -> int:
        columns = sum(c.values.nbytes + (0 if c.valid is None else c.valid.nbytes) for c in self.columns.values())
        return self.times.nbytes + self.seq.nbytes + columns + (0 if self.slots is None else self.slots.nbytes)

    def bounds(self) -> tuple[int, int]:
        """The lowest and the highest time; there is at least one row."""
        if self.span is not None:
            return self.span
        first, last = (self.times[0], self.times[-1]) if self.in_order else (self.times.min(), self.times.max())
        return int(first), int(last)

    def slots_below(self) -> int:
        """A number that all slots lie below; there is at least one row."""
        if self.keys is not None:
            return self.keys
        return 1 if self.slots is None else int(self.slots.max()) + 1

    def take(self, index: Array | slice, *, in_order: bool | None = None) -> Rows:
        """Rows at `index` (a slice makes views); `in_order` where the caller knows."""
        times = self.times[index]
        return Rows(
            None if self.slots is None else self.slots[index],
            times,
            self.seq[index] if len(self.seq) else self.seq,
            {name: column.take(index) for name, column in self.columns.items()},
            bool(np.all(times[1:] >= times[:-1])) if in_order is None else in_order,
            keys=self.keys,
        )

    def inputs(self, names: Sequence[str]) -> Inputs:
        return Inputs(
            tuple(self.columns[n] for n in names),
            self.times,
            self.seq if len(self.seq) else self.times,
            len(self.times),
        )


@dataclass(frozen=True)
class Query:
    """One window of a running operator: its label, its stable number, its bound spec."""

    label: str
    number: int
    window: Bound


@dataclass(frozen=True)
class Agg:
    """One aggregate of a running operator: result name, argument expressions, bound aggregate."""

    name: str
    inputs: tuple[str, ...]
    bound: BoundAggregate


NO_TIME = np.iinfo(np.int64).min


@dataclass(eq=False)
class Results:
    """Windows given by a lane, one after the other, each to some keys: parallel arrays of windows and of results.

    `start`/`end` are event-time ticks, `lo`/`hi` positions or measure values (NO_TIME, or NaN in float columns,
    where there is none); `values` holds one Arrow array per aggregate.
    """

    query: Array  # int64: Query.number
    slots: Array  # int64, of each result
    start: Array  # int64
    end: Array  # int64
    values: tuple[pa.Array, ...]
    counts: Array | None = None  # results of each window; None: one each
    lo: Array | None = None  # float64 or int64, of each result, as are all below; None: windows on event time
    hi: Array | None = None
    revision: Array | None = None  # int32; None: all are given for the first time
    void: Array | None = None  # bool; None: none is
    final: Array | None = None  # bool; None: all windows have closed

    def __len__(self) -> int:
        return len(self.slots)

    def written(self) -> Written:
        """All columns, with one entry per result."""
        windows = [self.query, self.start, self.end]
        if self.counts is not None:
            windows = [column.repeat(self.counts) for column in windows]
        query, start, end = windows
        n = len(self)
        return Written(
            query,
            self.slots,
            start,
            end,
            np.full(n, NO_TIME) if self.lo is None else self.lo,
            np.full(n, NO_TIME) if self.hi is None else self.hi,
            np.zeros(n, np.int32) if self.revision is None else self.revision,
            np.zeros(n, bool) if self.void is None else self.void,
            np.ones(n, bool) if self.final is None else self.final,
            self.values,
        )

    @staticmethod
    def concat(parts: Sequence[Results]) -> Results:
        """Several results as one; at least one part."""
        if len(parts) == 1:
            return parts[0]
        query, slots, start, end, lo, hi, revision, void, final, values = zip(*(p.written() for p in parts))
        if any(column.dtype == np.float64 for column in lo):
            lo, hi = ([with_nan(column) for column in columns] for columns in (lo, hi))
        return Results(
            np.concatenate(query),
            np.concatenate(slots),
            np.concatenate(start),
            np.concatenate(end),
            tuple(pa.concat_arrays(list(arrays)) for arrays in zip(*values)),
            lo=np.concatenate(lo),
            hi=np.concatenate(hi),
            revision=np.concatenate(revision),
            void=np.concatenate(void),
            final=np.concatenate(final),
        )


class Written(NamedTuple):
    """Results with nothing left out, as in `Results`."""

    query: Array
    slots: Array
    start: Array
    end: Array
    lo: Array
    hi: Array
    revision: Array
    void: Array
    final: Array
    values: tuple[pa.Array, ...]


def with_nan(bounds: Array) -> Array:
    """Bounds as float64, where NaN says that there is none."""
    return bounds if bounds.dtype == np.float64 else np.where(bounds == NO_TIME, np.nan, bounds.astype(np.float64))


class Lane(Protocol):
    """The contract of both lanes."""

    def begin(self) -> list[Any]:
        """A call begins that may fail: objects whose attributes it may replace."""

    def add(self, rows: Rows) -> None:
        """Take rows none of which is behind the watermark."""

    def advance(self, watermark: int) -> Results:
        """Event time has reached `watermark`: everything now due."""

    def take(self, batch: Arriving) -> Taken:
        """Take a batch with rows behind the watermark, and give what its watermark makes due."""

    def finish(self) -> Results:
        """End of stream: everything that the end makes due."""

    def next_due(self, watermark: int) -> int:
        """No result can be due before the watermark reaches this (ALWAYS if any row may make one due)."""

    def add_window(self, query: Query, watermark: int) -> None: ...

    def remove_window(self, number: int) -> None: ...
