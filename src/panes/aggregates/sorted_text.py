"""Strings joined in the order of another value: listagg(x, ',') WITHIN GROUP (ORDER BY y).

Rows stay in the partial with their time and arrival, so partials combine in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Array, BoundAggregate, Cells, Field, Inputs, Laws, Ragged
from panes.aggregates.columns import arrow_from_values
from panes.aggregates.lists import check_separator
from panes.aggregates.ordering import normal
from panes.aggregates.segments import compress, segment_ids
from panes.aggregates.spec import Spec
from panes.aggregates.types import ORDERED, kept_as, plain, require, storage_of

_HOLISTIC = Laws(holistic=True)


@dataclass(frozen=True, repr=False)
class SortedStringAgg(Spec):
    """The first argument joined by a separator, in the order of the second; ties in event order."""

    name: ClassVar[str] = "string_agg"
    promises: ClassVar[Laws] = _HOLISTIC

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
        return BoundSortedStringAgg(plain(by), self.separator, self.descending, self.nulls_first)


class BoundSortedStringAgg(BoundAggregate):
    laws = _HOLISTIC
    out_type = pa.string()

    def __init__(self, by: pa.DataType, separator: str, descending: bool, nulls_first: bool) -> None:
        self.fields = (
            Field("text", pa.string(), ragged=True),
            Field("by", kept_as(by), ragged=True),
            Field("there", pa.bool_(), ragged=True),
            Field("time", pa.int64(), ragged=True),
            Field("seq", pa.int64(), ragged=True),
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

    def fold(self, cells: Cells, offsets: Array) -> Cells:
        return Cells(tuple(Ragged(f.offsets[offsets], f.values) for f in cells.fields))

    def empty(self, n: int) -> Cells:
        offsets = np.zeros(n + 1, np.int64)
        return Cells(tuple(Ragged(offsets, np.empty(0, storage_of(f.type))) for f in self.fields))

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
