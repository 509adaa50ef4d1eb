"""The contract of lanes, and what flows between them and the operator.

A *lane* owns slices and answers windows. `PartialLane` keeps partial aggregates only and takes rows in any
order; `RowLane` takes rows in event-time order and knows every window kind. A row that is not behind the watermark is
taken by every window that it belongs to. The others are judged by each lane, window by window, as if rows came one by
one (docs/semantics.md); how they were put into batches makes no difference.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Aggregate, BoundAggregate, Column, Inputs, picked
from panes.state.entries import Banks, dump_banks, load_banks, renumber_banks, slots_of_banks
from panes.state.journal import Watched
from panes.windows.base import ALWAYS, NEVER, Bound

Array = np.ndarray


@dataclass(eq=False)
class RowBatch:
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

    def take(self, index: Array | slice, *, in_order: bool | None = None) -> RowBatch:
        """Rows at `index` (a slice makes views); `in_order` where the caller knows."""
        times = picked(self.times, index)
        return RowBatch(
            None if self.slots is None else picked(self.slots, index),
            times,
            picked(self.seq, index) if len(self.seq) else self.seq,
            {name: column.take(index) for name, column in self.columns.items()},
            bool(np.all(times[1:] >= times[:-1])) if in_order is None else in_order,
            keys=self.keys,
        )

    def inputs(self, names: Sequence[str]) -> Inputs:
        return Inputs(
            tuple([self.columns[n] for n in names]),
            self.times,
            self.seq if len(self.seq) else self.times,
            len(self.times),
        )


@dataclass(frozen=True)
class RunningWindow:
    """One window of a running operator: its label, its stable number, its bound spec, and what it gives."""

    label: str
    number: int
    window: Bound
    #: aggregates of its own; None: those that all windows of the lane give that have none
    aggs: tuple[Agg, ...] | None = None


@dataclass(frozen=True)
class Agg:
    """One aggregate of a running operator: result name, argument expressions, bound aggregate."""

    name: str
    inputs: tuple[str, ...]
    bound: BoundAggregate
    #: what was bound, by which the same aggregate of another query is known
    aggregate: Aggregate | None = field(default=None, compare=False)

    def same(self, other: Agg) -> bool:
        """Whether partials of one are partials of the other, whatever they are called."""
        if self.inputs != other.inputs:
            return False
        return self.bound is other.bound or (self.aggregate is not None and self.aggregate == other.aggregate)


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

    def take(self, index: Array) -> Results:
        """These results, where each window has one."""
        assert self.counts is None
        lo, hi, revision, void, final = (
            None if column is None else column.take(index)
            for column in (self.lo, self.hi, self.revision, self.void, self.final)
        )
        query, slots, start, end = (c.take(index) for c in (self.query, self.slots, self.start, self.end))
        values = tuple(v.take(pa.array(index)) for v in self.values)
        return Results(query, slots, start, end, values, None, lo, hi, revision, void, final)

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


@dataclass(frozen=True)
class Arriving:
    """A batch of which some rows are behind the watermark that they meet."""

    rows: RowBatch
    met: Array  # the watermark that each row meets
    at: Array  # the rows that are behind it, in order
    watermark: int  # after the batch

    @cached_property
    def in_time(self) -> Array:
        """The rows that are not behind, in order."""
        mask = np.ones(len(self.rows), bool)
        mask[self.at] = False
        return np.flatnonzero(mask)

    def without(self, behind: Array) -> RowBatch:
        """The batch without some of the rows behind the watermark: a mask of `at`."""
        if not behind.any():
            return self.rows
        mask = np.ones(len(self.rows), bool)
        mask[self.at[behind]] = False
        return self.rows.take(np.flatnonzero(mask))

    @cached_property
    def times(self) -> Array:
        """When the rows behind the watermark happened."""
        return self.rows.times[self.at]

    @cached_property
    def met_behind(self) -> Array:
        """The watermark that each row behind it meets."""
        return self.met[self.at]


@dataclass
class Taken:
    """What a lane made of a batch: results, and of the rows behind the watermark those that some window of it took, and
    those that a closed one took as a correction."""

    results: list[Results]
    taken: Array  # bool, of `Arriving.at`
    corrected: Array
    #: by number of the query, how many rows some window of it had to miss
    missed: dict[int, int] = field(default_factory=dict)
    #: why rows can't be used here, if that is not their time: by place in `Arriving.at`
    reasons: dict[int, str] = field(default_factory=dict)

    def miss(self, number: int, rows: int) -> None:
        if rows:
            self.missed[number] = self.missed.get(number, 0) + rows


class Corrected(NamedTuple):
    """What came of a row behind the watermark that was taken by itself."""

    results: Results
    taken: bool
    corrected: bool
    reason: str | None = None  # why it can't be used here, if that is not its time


class Lane(ABC):
    """The contract of both lanes."""

    #: whether rows are seen in event-time order, each key's one after the other; if not, in any order
    ordered: ClassVar[bool]

    def __init__(self, aggs: Sequence[Agg], lateness: int | None) -> None:
        self.aggs = tuple(aggs)
        self.lateness = lateness
        self.last_time = ALWAYS  # the largest of all rows

    @property
    @abstractmethod
    def queries(self) -> tuple[RunningWindow, ...]:
        """The windows that it serves."""

    @property
    def dimensions(self) -> Mapping[str, np.dtype]:
        """What slices know of each row beside its time and position: column measures, and their types."""
        return {}

    @property
    @abstractmethod
    def needs_arrival(self) -> bool:
        """Whether it looks at the arrival numbers of rows."""

    @property
    def by_key(self) -> bool:
        """Whether what is held of a key stands by itself, so that changes can be told key by key."""
        return True

    @property
    def closes_behind(self) -> bool:
        """Whether a row behind the watermark may make a window due at once, one that nobody was given yet."""
        return False

    @abstractmethod
    def begin(self) -> list[Watched]:
        """A call begins that may fail: objects whose attributes it may replace."""

    @abstractmethod
    def add(self, rows: RowBatch) -> None:
        """Take rows none of which is behind the watermark."""

    @abstractmethod
    def take(self, batch: Arriving) -> Taken:
        """Take a batch with rows behind the watermark, and give what its watermark makes due."""

    @abstractmethod
    def advance(self, watermark: int) -> Results:
        """Event time has reached `watermark`: everything now due."""

    @abstractmethod
    def finish(self) -> Results:
        """End of stream: everything that the end makes due."""

    def stand(self) -> list[Results]:
        """Open windows as they stand, those that have changed since they were last given."""
        return []

    @abstractmethod
    def peek(self, slot: int) -> Results:
        """The open windows of one key as they stand, at a cost that other keys have no part in. Nothing changes."""

    def take_rejected(self) -> list[tuple[Array, str]]:
        """Arrival numbers of rows that were turned away after they had been taken, with the reason; each once."""
        return []

    @abstractmethod
    def next_due(self, watermark: int) -> int:
        """No result can be due before the watermark reaches this (ALWAYS if any row may make one due)."""

    def rows_until_due(self) -> int:
        """At least so many rows must come before a window that counts rows can be complete."""
        return NEVER

    def calm_until(self, step: int) -> int:
        """Rows that are not late change nothing but slices up to this watermark: no window ends before it, and nothing
        can fail. ALWAYS: nobody knows, or it was not looked at, since a window ends in every `step` of the watermark.
        """
        return ALWAYS

    def oldest_waiting(self, next_number: int) -> int:
        """The smallest arrival number of a row that may still be turned away; `next_number`: there is none."""
        return next_number

    def know(self, columns: Mapping[str, pa.DataType], next_row: int) -> None:
        """Rows have these columns from now on; a lane that holds rows sees to those that it has."""
        return

    @abstractmethod
    def add_query(self, query: RunningWindow, watermark: int) -> None:
        """Give this window too, from the first one on whose rows are all still held, with all that it gives."""

    @abstractmethod
    def remove_query(self, number: int) -> None:
        """Stop giving this window, and keep no aggregate that only it gave."""

    @abstractmethod
    def banks(self) -> Banks:
        """All that it holds of keys, by the names of tables in snapshots."""

    def used_slots(self) -> Array | None:
        """Slots of keys that something is held of; None: keys are never forgotten."""
        self.tidy()
        return slots_of_banks(self.banks())

    def renumber(self, moved: Array) -> None:
        """`moved[slot]` is the new slot of a key, -1 if nothing is held of it; the order of keys stays."""
        renumber_banks(self.banks(), moved)

    @abstractmethod
    def tidy(self) -> None:
        """Hold only what is needed, whenever that was looked at last: operators of one stream agree on it then."""

    @abstractmethod
    def of_stream(self, slots: Array) -> dict[str, pa.Table]:
        """What is held of the stream, and not of a key, for a dump of these keys."""

    @abstractmethod
    def go_on_from(self, tables: Mapping[str, pa.Table], slot_map: Any) -> None:
        """Be where a dump was made; banks are loaded after this."""

    def dump(self, slots: Array) -> dict[str, pa.Table]:
        """The state of these keys (sorted), and of the stream, as Arrow tables."""
        self.tidy()
        return {**self.of_stream(slots), **dump_banks(self.banks(), slots)}

    def load(
        self, tables: Mapping[str, pa.Table], slot_map: Any, columns: Mapping[str, pa.DataType] | None = None
    ) -> None:
        """Take in a dump; `slot_map[slot in the dump]` is the slot here. Dumps of other keys may follow.

        `columns`: the evaluated expressions that rows have, with their types.
        """
        self.go_on_from(tables, slot_map)
        load_banks(self.banks(), tables, slot_map)

    def plans(self) -> dict[str, str]:
        """How windows are assembled that have a way of their own, by label."""
        return {}

    @abstractmethod
    def metrics(self) -> dict[str, Any]:
        """Counts of slices and of what was done to them, and bytes held."""
