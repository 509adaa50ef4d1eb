"""Partials that hold rows: lists of equal length, of each argument one of values and one of which are there.

`EventOrder` lets aggregates that depend on the order of rows take them in any order: a partial keeps when rows
happened, when they came, and the arguments. They are put into event order (time, then arrival) when a result is asked
for, and only then does the aggregate see them. So windows on time take rows however far behind others they come,
whatever they compute.

`CollectRows` gives the rows of a window themselves, which relations and joins are computed from. It is internal: users
get them through `relation(...)`. A result is a list of structs whose fields are c0, c1, ... in the order of the
arguments; unlike in collect_list, nulls are kept.

Lists and joined strings in event order don't commute. `SortedStringAgg`, listagg(x, ',') WITHIN GROUP (ORDER BY y),
goes by another value: rows stay in its partial with their time and arrival, so partials combine in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pyarrow as pa

from panes.aggregates.base import (
    Array,
    BoundAggregate,
    Cells,
    Column,
    Field,
    Inputs,
    Laws,
    Ragged,
    Spec,
    lists_at,
    present_values,
)
from panes.aggregates.columns import arrow_from_values
from panes.aggregates.segments import compress, normal, segment_ids
from panes.aggregates.types import ORDERED, kept_as, plain, require
from panes.errors import DataError, QueryError

_MOST_ROWS = 2**31 - 1
_IN_ORDER = Laws(commutative=False, holistic=True)
_BY_ROW = Laws(holistic=True, by_arrival=True)


class RowLists(BoundAggregate):
    """What aggregates whose partials are lists of rows share: to put partials together is to put lists end to end."""

    def fold(self, cells: Cells, offsets: Array) -> Cells:
        return Cells(tuple(Ragged(lists.offsets[offsets], lists.values) for lists in cells.fields))


@lru_cache(maxsize=1024)
def argument_fields(types: tuple[pa.DataType, ...]) -> tuple[Field, ...]:
    """The lists of arguments of these types."""
    return tuple(
        field
        for i, type in enumerate(types)
        for field in (Field(f"c{i}", kept_as(type), ragged=True), Field(f"v{i}", pa.bool_(), ragged=True))
    )


def argument_lists(rows: Inputs, offsets: Array) -> list[Ragged]:
    """The arguments of rows, a list per segment."""
    every = np.ones(rows.rows if any(c.valid is None for c in rows.columns) else 0, bool)
    return [
        Ragged(offsets, data)
        for column in rows.columns
        for data in (column.values, every if column.valid is None else column.valid)
    ]


def in_any_order(bound: BoundAggregate, types: tuple[pa.DataType, ...]) -> BoundAggregate:
    """The same aggregate over rows that may come in any order; `types` are those of its arguments."""
    return bound if bound.laws.commutative else EventOrder(bound, types)


class EventOrder(RowLists):
    """A partial has lists of equal length: times, arrival numbers, and of each argument values and which are there."""

    laws = _BY_ROW

    def __init__(self, inner: BoundAggregate, types: tuple[pa.DataType, ...]) -> None:
        self.inner = inner
        self.types = tuple(map(plain, types))
        self.out_type = inner.out_type
        self.may_fail = inner.may_fail
        self.label = inner.label
        came = Field("time", pa.int64(), ragged=True), Field("seq", pa.int64(), ragged=True, arrival=True)
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
        times, seq, *arguments = [lists.values[within] for lists in cells.fields]
        bounds = bounds - bounds[0]
        order = _event_order(times, seq, bounds)
        if order is not None:
            times, seq, arguments = times[order], seq[order], [a[order] for a in arguments]
        columns = [
            Column(values, None if there.all() else there, type)
            for values, there, type in zip(arguments[::2], arguments[1::2], self.types)
        ]
        return Inputs(tuple(columns), times, seq, len(times)), bounds


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


@dataclass(frozen=True, repr=False)
class CollectRows(Spec):
    """All rows, each with the values of the arguments; at least one argument."""

    name: ClassVar[str] = "collect_rows"
    promises: ClassVar[Laws] = _IN_ORDER

    def bind(self, types: Sequence[pa.DataType]) -> BoundCollectRows:
        if not types:
            raise QueryError("collect_rows needs at least one column")
        return BoundCollectRows(self.argument_types(types))


class BoundCollectRows(RowLists):
    """A partial has two lists per column: values, and which of them are there. All lists are equally long."""

    laws = _IN_ORDER

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self.types = tuple(types)
        self.fields = argument_fields(self.types)
        self.out_type = pa.list_(pa.struct([pa.field(f"c{i}", type) for i, type in enumerate(types)]))

    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        return Cells(tuple(argument_lists(rows, offsets)))

    def lower(self, cells: Cells) -> pa.Array:
        bounds = cells.fields[0].offsets
        return self._lists(cells, slice(bounds[0], bounds[-1]), bounds - bounds[0])

    def lower_ranges(self, cells: Cells, index: Array | None, offsets: Array) -> pa.Array:
        if index is None:
            return self.lower(self.fold(cells, offsets))
        # which rows are wanted is the same for every column, so it is found once
        ends, wanted = lists_at(cells.fields[0].offsets, index)
        return self._lists(cells, wanted, ends[offsets])

    def _lists(self, cells: Cells, wanted: Array | slice, offsets: Array) -> pa.Array:
        if offsets[-1] > _MOST_ROWS:
            raise DataError(f"the windows due at once hold {offsets[-1]:,} rows, too many for one table")
        values, there = cells.fields[::2], cells.fields[1::2]
        columns = [
            arrow_from_values(v.values[wanted], t.values[wanted], type)
            for v, t, type in zip(values, there, self.types, strict=True)
        ]
        # offsets need not begin at the first row: ranges that are empty come before it
        rows = pa.StructArray.from_arrays(columns, fields=list(self.out_type.value_type))
        return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), rows, type=self.out_type)


@dataclass(frozen=True, repr=False)
class CollectList(Spec):
    """All values that are not null, in event order."""

    name: ClassVar[str] = "collect_list"
    promises: ClassVar[Laws] = _IN_ORDER

    def bind(self, types: Sequence[pa.DataType]) -> BoundCollectList:
        (type,) = self.argument_types(types)
        return BoundCollectList(type)


@dataclass(frozen=True, repr=False)
class StringAgg(Spec):
    """Strings joined by a separator, in event order."""

    name: ClassVar[str] = "string_agg"
    promises: ClassVar[Laws] = _IN_ORDER
    takes: ClassVar[tuple[str, ...] | None] = ("text",)
    advice: ClassVar[str] = "cast it, for instance string_agg(cast({x} as string))"

    separator: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_separator(self.separator)

    def bind(self, types: Sequence[pa.DataType]) -> BoundStringAgg:
        self.argument_types(types)
        return BoundStringAgg(self.separator)


def check_separator(separator: object) -> None:
    if not isinstance(separator, str):
        raise QueryError(f"the separator of string_agg must be written as text, such as ', '; got {separator!r}")


class BoundCollectList(RowLists):
    laws = _IN_ORDER

    def __init__(self, type: pa.DataType) -> None:
        self.fields = (Field("values", kept_as(type), ragged=True),)
        self.out_type = pa.list_(type)

    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        values, offsets = present_values(rows.columns[0], offsets)
        return Cells((Ragged(offsets, values),))

    def lower(self, cells: Cells) -> pa.Array:
        (lists,) = cells.fields
        first, stop = lists.offsets[0], lists.offsets[-1]
        values = arrow_from_values(lists.values[first:stop], None, self.out_type.value_type)
        return pa.ListArray.from_arrays((lists.offsets - first).astype(np.int32), values)


class BoundStringAgg(BoundAggregate):
    laws = _IN_ORDER
    fields = (Field("text", pa.string()), Field("some", pa.bool_()))
    out_type = pa.string()

    def __init__(self, separator: str) -> None:
        self.separator = separator

    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        (column,) = rows.columns
        return self._join(column.values, column.valid, offsets)

    def fold(self, cells: Cells, offsets: Array) -> Cells:
        text, some = cells.fields
        return self._join(text, some, offsets)

    def _join(self, texts: Array, present: Array | None, offsets: Array) -> Cells:
        if present is not None:
            index, offsets = compress(present, offsets)
            texts = texts[index]
        bounds = offsets.tolist()
        out = np.empty(len(bounds) - 1, object)
        for i, (start, stop) in enumerate(pairwise(bounds)):
            out[i] = self.separator.join(texts[start:stop])
        return Cells((out, offsets[1:] > offsets[:-1]))

    def empty(self, n: int) -> Cells:
        return Cells((np.full(n, "", object), np.zeros(n, bool)))

    def lower(self, cells: Cells) -> pa.Array:
        text, some = cells.fields
        return arrow_from_values(text, some, self.out_type)


@dataclass(frozen=True, repr=False)
class SortedStringAgg(Spec):
    """The first argument joined by a separator, in the order of the second; ties in event order."""

    name: ClassVar[str] = "string_agg"
    promises: ClassVar[Laws] = _BY_ROW

    separator: str = ""
    descending: bool = False
    nulls_first: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_separator(self.separator)

    def __repr__(self) -> str:
        text, by = self.inputs
        order = f"{by}{' DESC' if self.descending else ''} NULLS {'FIRST' if self.nulls_first else 'LAST'}"
        return f"string_agg({text}, {self.separator!r}) WITHIN GROUP (ORDER BY {order})"

    def bind(self, types: Sequence[pa.DataType]) -> BoundSortedStringAgg:
        text, by = self.argument_types(types)
        require(repr(self), self.inputs[0], text, ("text",), f"cast it, for instance cast({self.inputs[0]} as string)")
        require(repr(self), self.inputs[1], by, ORDERED, "order by something that has an order")
        return BoundSortedStringAgg(by, self.separator, self.descending, self.nulls_first)


class BoundSortedStringAgg(RowLists):
    laws = _BY_ROW
    out_type = pa.string()

    def __init__(self, by: pa.DataType, separator: str, descending: bool, nulls_first: bool) -> None:
        self.fields = (
            Field("text", pa.string(), ragged=True),
            Field("by", kept_as(by), ragged=True),
            Field("there", pa.bool_(), ragged=True),
            Field("time", pa.int64(), ragged=True),
            Field("seq", pa.int64(), ragged=True, arrival=True),
        )
        self.separator = separator
        self.descending = descending
        self.nulls_first = nulls_first

    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        text, by = rows.columns
        there = np.ones(len(by), bool) if by.valid is None else by.valid
        fields = (text.values, normal(by.values), there, rows.times, rows.seq)
        if text.valid is not None:
            index, offsets = compress(text.valid, offsets)
            fields = tuple(f[index] for f in fields)
        return Cells(tuple(Ragged(offsets, f) for f in fields))

    def lower(self, cells: Cells) -> pa.Array:
        bounds = cells.fields[0].offsets
        text, by, there, time, seq = (f.values[bounds[0] : bounds[-1]] for f in cells.fields)
        bounds = bounds - bounds[0]
        places = np.zeros(len(text), np.int64)
        places[there] = np.unique(by[there], return_inverse=True)[1]
        if self.descending:
            places = -places
        order = np.lexsort((seq, time, places, there if self.nulls_first else ~there, segment_ids(bounds)))
        joined = np.empty(len(bounds) - 1, object)
        for i, (start, stop) in enumerate(pairwise(bounds.tolist())):
            joined[i] = self.separator.join(text[order[start:stop]])
        return arrow_from_values(joined, bounds[1:] > bounds[:-1], self.out_type)
