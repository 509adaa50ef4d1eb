"""Collect list and string concatenation: results that keep the order of events, so they don't commute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Array, BoundAggregate, Cells, Field, Inputs, Laws, Ragged
from panes.aggregates.columns import arrow_from_values
from panes.aggregates.segments import compress
from panes.aggregates.spec import Spec
from panes.aggregates.types import kept_as, plain, require, storage_of
from panes.errors import QueryError

_IN_ORDER = Laws(commutative=False, holistic=True)


@dataclass(frozen=True, repr=False)
class CollectList(Spec):
    """All values that are not null, in event order."""

    name: ClassVar[str] = "collect_list"
    promises: ClassVar[Laws] = _IN_ORDER

    def bind(self, types: Sequence[pa.DataType]) -> BoundCollectList:
        (type,) = self.argument_types(types)
        return BoundCollectList(plain(type))


@dataclass(frozen=True, repr=False)
class StringAgg(Spec):
    """Strings joined by a separator, in event order."""

    name: ClassVar[str] = "string_agg"
    promises: ClassVar[Laws] = _IN_ORDER

    separator: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_separator(self.separator)

    def bind(self, types: Sequence[pa.DataType]) -> BoundStringAgg:
        (type,) = self.argument_types(types)
        advice = f"cast it, for instance string_agg(cast({self.inputs[0]} as string))"
        require(repr(self), self.inputs[0], type, ("text",), advice)
        return BoundStringAgg(self.separator)


def check_separator(separator: object) -> None:
    if not isinstance(separator, str):
        raise QueryError(f"the separator of string_agg must be written as text, such as ', '; got {separator!r}")


class BoundCollectList(BoundAggregate):
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

    def fold(self, cells: Cells, offsets: Array) -> Cells:
        (lists,) = cells.fields
        return Cells((Ragged(lists.offsets[offsets], lists.values),))

    def empty(self, n: int) -> Cells:
        none = np.empty(0, storage_of(self.fields[0].type))
        return Cells((Ragged(np.zeros(n + 1, np.int64), none),))

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
