"""Values put one after the other: lists and joined strings.

In event order they don't commute. `SortedStringAgg`, listagg(x, ',') WITHIN GROUP (ORDER BY y), goes by another value:
rows stay in its partial with their time and arrival, so partials combine in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Array, BoundAggregate, Cells, Field, Inputs, Laws, Ragged, Spec
from panes.aggregates.columns import arrow_from_values
from panes.aggregates.rows import RowLists
from panes.aggregates.segments import compress, normal, segment_ids
from panes.aggregates.types import ORDERED, kept_as, require
from panes.errors import QueryError

_IN_ORDER = Laws(commutative=False, holistic=True)
_BY_ROW = Laws(holistic=True, by_arrival=True)


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
        (column,) = rows.columns
        values = column.values
        if column.valid is not None:
            index, offsets = compress(column.valid, offsets)
            values = values[index]
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
