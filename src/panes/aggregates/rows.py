"""Whole rows of a window, in event order: what relations and joins are computed from.

Internal: users get the rows of a window through `relation(...)`. A result is a list of structs whose fields are
c0, c1, ... in the order of the arguments; unlike in collect_list, nulls are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Array, Cells, Inputs, Laws
from panes.aggregates.columns import arrow_from_values
from panes.aggregates.row_lists import RowLists, argument_fields, argument_lists
from panes.aggregates.spec import Spec
from panes.aggregates.types import plain
from panes.errors import DataError, QueryError

_MOST_ROWS = 2**31 - 1


@dataclass(frozen=True, repr=False)
class CollectRows(Spec):
    """All rows, each with the values of the arguments; at least one argument."""

    name: ClassVar[str] = "collect_rows"
    promises: ClassVar[Laws] = Laws(commutative=False, holistic=True)

    def bind(self, types: Sequence[pa.DataType]) -> BoundCollectRows:
        if not types:
            raise QueryError("collect_rows needs at least one column")
        return BoundCollectRows([plain(t) for t in self.argument_types(types)])


class BoundCollectRows(RowLists):
    """A partial has two lists per column: values, and which of them are there. All lists are equally long."""

    laws = CollectRows.promises

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self.types = tuple(types)
        self.fields = argument_fields(types)
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
        bounds = cells.fields[0].offsets
        lengths = np.diff(bounds)[index]
        ends = np.concatenate(([0], np.cumsum(lengths)))
        wanted = np.arange(ends[-1]) + np.repeat(bounds[index] - ends[:-1], lengths)
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
