"""Partials that hold rows: lists of equal length, of each argument one of values and one of which are there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Array, BoundAggregate, Cells, Field, Inputs, Ragged
from panes.aggregates.types import kept_as, storage_of


class RowLists(BoundAggregate):
    """What aggregates whose partials are lists of rows share: to put partials together is to put lists end to end."""

    def fold(self, cells: Cells, offsets: Array) -> Cells:
        return Cells(tuple(Ragged(lists.offsets[offsets], lists.values) for lists in cells.fields))

    def empty(self, n: int) -> Cells:
        offsets = np.zeros(n + 1, np.int64)
        return Cells(tuple(Ragged(offsets, np.empty(0, storage_of(f.type))) for f in self.fields))


def argument_fields(types: Sequence[pa.DataType]) -> tuple[Field, ...]:
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
