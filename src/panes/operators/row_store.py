"""Rows of a port that some window still holds, under the numbers in which they arrived.

Windows hold numbers, not rows: what a window gives is taken from here for all windows of a batch at once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from panes.state.checked import INT64, columns_of, numbers, rising

Array = np.ndarray
#: Rows are looked through for those that nobody holds when so many have come, or as many as were held last time.
_OFTEN = 4096
_MANY_CHUNKS = 32


class RowStore:
    """A table of rows in order of arrival."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.arrived = 0  # rows ever added
        self._numbers = np.empty(0, np.int64)
        self._table = schema.empty_table()
        self._look_at = _OFTEN

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def nbytes(self) -> int:
        return int(self._table.nbytes + self._numbers.nbytes)

    def add(self, table: pa.Table) -> Array:
        """Take in rows; their numbers."""
        fresh = np.arange(self.arrived, self.arrived + table.num_rows)
        self.arrived += table.num_rows
        self._numbers = np.concatenate((self._numbers, fresh)) if len(self._numbers) else fresh
        self._table = pa.concat_tables([self._table, table]) if self._table.num_rows else table
        if self._table.num_columns and self._table.column(0).num_chunks > _MANY_CHUNKS:
            self._table = self._table.combine_chunks()
        return fresh

    def take(self, numbers: Array) -> pa.Table:
        """The rows with these numbers, in this order."""
        return self._table.take(pa.array(self.places(numbers)))

    def at(self, places: Array) -> pa.Table:
        """The rows at these places among those held; -1: nulls."""
        absent = places < 0
        index = pa.array(places, mask=absent) if absent.any() else pa.array(places)
        return self._table.take(index)

    @property
    def numbers(self) -> Array:
        """The numbers of all rows held."""
        return self._numbers

    def all(self) -> pa.Table:
        """All rows held."""
        return self._table

    def places(self, numbers: Array) -> Array:
        """Where rows lie in the table of what is held."""
        return np.searchsorted(self._numbers, numbers)

    def tidy(self, held: Callable[[], Array]) -> None:
        """Forget rows that nobody holds, now and then; `held`: the numbers of the others."""
        if len(self._numbers) >= self._look_at:
            self.keep(held())
            self._look_at = max(_OFTEN, 2 * len(self._numbers))

    def keep(self, numbers: Array) -> None:
        """Forget all rows but these."""
        self.keep_places(self.places(np.unique(numbers.astype(np.int64, copy=False))))

    def keep_places(self, places: Array) -> None:
        """Forget all rows but those at these places, which increase."""
        self._table = self._table.take(pa.array(places)).combine_chunks()
        self._numbers = self._numbers[places]

    def dump(self) -> pa.Table:
        return self._table.append_column("panes.row", pa.array(self._numbers))

    def load(self, table: pa.Table, arrived: int) -> None:
        columns_of(table, "rows", {**{f.name: f.type for f in self.schema}, "panes.row": INT64})
        self._numbers = numbers(table, "panes.row", low=0, high=arrived - 1)
        rising(self._numbers, "the numbers of rows")
        self._table = table.select(self.schema.names).cast(self.schema)
        self.arrived = arrived
