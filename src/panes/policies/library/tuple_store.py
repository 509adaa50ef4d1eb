"""The tuples that a columnar window holds: growing columns, appended to by batches and emptied of dead tuples."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Column
from panes.aggregates.columns import arrow_from_values
from panes.aggregates.types import storage_of

Array = np.ndarray
#: Lines from which on arrays no longer double when they grow: too much of them would lie empty.
_LARGE = 1 << 18


def grown(array: Array, size: int, fill: int = 0) -> Array:
    """The array with room for at least `size` lines; the new ones hold `fill`."""
    if size <= len(array):
        return array
    more = len(array) if len(array) < _LARGE else len(array) // 4
    bigger = np.empty((max(size, len(array) + more, 16), *array.shape[1:]), array.dtype)
    bigger[: len(array)] = array
    bigger[len(array) :] = fill
    return bigger


class TupleStore:
    """Columns of the same length, by name."""

    def __init__(self, types: Mapping[str, pa.DataType]) -> None:
        self.types = dict(types)
        self._values = {name: np.empty(0, storage_of(type)) for name, type in self.types.items()}
        self._valid: dict[str, Array | None] = dict.fromkeys(self.types)
        self.n = 0

    @property
    def nbytes(self) -> int:
        masks = sum(m.nbytes for m in self._valid.values() if m is not None)
        return sum(v.nbytes for v in self._values.values()) + masks

    def append(self, columns: Mapping[str, Column], rows: int) -> None:
        """Add tuples at the end; columns that are not kept are ignored."""
        end = self.n + rows
        for name in self.types:
            column = columns[name]
            values = self._values[name] = grown(self._values[name], end)
            values[self.n : end] = column.values
            mask = self._valid[name]
            if column.valid is not None and mask is None:
                mask = np.ones(len(values), bool)
            if mask is not None:
                mask = self._valid[name] = grown(mask, len(values), 1)
                mask[self.n : end] = True if column.valid is None else column.valid
        self.n = end

    def take(self, rows: Array) -> dict[str, Column]:
        """Tuples by their numbers."""
        found = {}
        for name, type in self.types.items():
            mask = self._valid[name]
            found[name] = Column(self._values[name][rows], None if mask is None else mask[rows], type)
        return found

    def keep(self, rows: Array) -> None:
        """Forget all tuples but these, which get the numbers 0, 1, ..."""
        kept = self.take(rows)
        self.__init__(self.types)  # type: ignore[misc]
        self.append(kept, len(rows))

    def twin(self) -> TupleStore:
        """The same tuples; both write to the same places behind them, so that only one may be added to."""
        twin = TupleStore({})
        twin.types, twin._values, twin._valid, twin.n = self.types, dict(self._values), dict(self._valid), self.n
        return twin

    def drop_last(self, rows: int) -> None:
        """Forget the tuples that were appended last."""
        self.n -= rows


def to_table(columns: Mapping[str, Column]) -> pa.Table:
    """The columns as Arrow."""
    return pa.table({name: arrow_from_values(c.values, c.valid, c.type) for name, c in columns.items()})
