"""Aggregates that depend on the order of rows, made to take rows in any order.

A partial keeps the rows themselves: when they happened, when they came, and the arguments. They are put into event
order (time, then arrival) when a result is asked for, and only then does the aggregate see them. So windows on time
take rows however far behind others they come, whatever they compute.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Array, BoundAggregate, Cells, Column, Field, Inputs, Laws, Ragged
from panes.aggregates.row_lists import RowLists, argument_fields, argument_lists
from panes.aggregates.segments import segment_ids
from panes.aggregates.types import plain


def in_any_order(bound: BoundAggregate, types: tuple[pa.DataType, ...]) -> BoundAggregate:
    """The same aggregate over rows that may come in any order; `types` are those of its arguments."""
    return bound if bound.laws.commutative else EventOrder(bound, types)


class EventOrder(RowLists):
    """A partial has lists of equal length: times, arrival numbers, and of each argument values and which are there."""

    laws = Laws(holistic=True)

    def __init__(self, inner: BoundAggregate, types: tuple[pa.DataType, ...]) -> None:
        self.inner = inner
        self.types = tuple(plain(t) for t in types)
        self.out_type = inner.out_type
        self.may_fail = inner.may_fail
        self.label = inner.label
        came = Field("time", pa.int64(), ragged=True), Field("seq", pa.int64(), ragged=True)
        self.fields = (*came, *argument_fields(self.types))

    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        came = Ragged(offsets, rows.times), Ragged(offsets, rows.seq)
        return Cells((*came, *argument_lists(rows, offsets)))

    def lower(self, cells: Cells) -> pa.Array:
        return self.inner.lower(self.inner.lift(*self._rows(cells)))

    def lower_ranges(self, cells: Cells, index: Array | None, offsets: Array) -> pa.Array:
        if index is None:
            return self.lower(self.fold(cells, offsets))
        # windows that overlap share slices: each slice is lifted once, if its rows lie apart from those of others
        used, place = np.unique(index, return_inverse=True)
        rows, bounds = self._rows(cells.take(used))
        if not _apart(rows, bounds, place, offsets):
            return self.lower(self.fold(cells.take(index), offsets))
        return self.inner.lower_ranges(self.inner.lift(rows, bounds), place, offsets)

    def _rows(self, cells: Cells) -> tuple[Inputs, Array]:
        """The rows of all cells, each cell's in event order, and where each cell begins and ends."""
        bounds = cells.fields[0].offsets
        within = slice(bounds[0], bounds[-1])
        times, seq, *arguments = (lists.values[within] for lists in cells.fields)
        bounds = bounds - bounds[0]
        order = _event_order(times, seq, bounds)
        if order is not None:
            times, seq, arguments = times[order], seq[order], [a[order] for a in arguments]
        columns = tuple(
            Column(values, None if there.all() else there, type)
            for values, there, type in zip(arguments[::2], arguments[1::2], self.types)
        )
        return Inputs(columns, times, seq, len(times)), bounds


def _apart(rows: Inputs, bounds: Array, place: Array, offsets: Array) -> bool:
    """Whether the cells of each range, cells[place[offsets[i]:offsets[i + 1]]], follow each other in event time."""
    first, last = bounds[:-1][place], bounds[1:][place] - 1
    if len(place) < 2 or (last < first).any():  # there are cells without rows
        return len(place) < 2
    pairs = np.ones(len(place) - 1, bool)
    pairs[offsets[1:-1][(offsets[1:-1] > 0) & (offsets[1:-1] < len(place))] - 1] = False  # of different ranges
    return bool((rows.times[last[:-1]] < rows.times[first[1:]])[pairs].all())


def _event_order(times: Array, seq: Array, offsets: Array) -> Array | None:
    """Rows by segment, time and arrival; None if that is how they are."""
    if len(times) < 2:
        return None
    segment = segment_ids(offsets)
    before, after = slice(None, -1), slice(1, None)
    later = (times[after] > times[before]) | ((times[after] == times[before]) & (seq[after] > seq[before]))
    if (later | (segment[after] != segment[before])).all():
        return None
    return np.lexsort((seq, times, segment))
