"""Slices of the ordered slicer, and rows that the end of the stream may need, as banks of entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from panes.aggregates.columns import PartialColumns
from panes.slicing.rows.slice_table import SliceTable
from panes.state.entries import Entries, EntryBank, EntryColumn, entry_columns

if TYPE_CHECKING:
    from panes.slicing.rows.ordered import OrderedSlicer

Array = np.ndarray


class RestBank(EntryBank):
    """Rows of windows at the end of the stream, each a slice, as entries of their keys."""

    which, optional = "rest", True

    def __init__(self, slicer: OrderedSlicer) -> None:
        self._slicer = slicer
        self.codec = PartialColumns([a.bound for a in slicer.aggs])
        types = [pa.from_numpy_dtype(column.dtype) for column in slicer.keys.last]
        dims = {f"{side}.{d}": EntryColumn(kind) for d, kind in enumerate(types) for side in ("first", "last")}
        self.declared = entry_columns(pos=EntryColumn(low=0), rows=EntryColumn(low=1), **dims)

    @property
    def _table(self) -> SliceTable:
        found: SliceTable = getattr(self._slicer, self.which)
        return found

    def _of(self, slots: Array) -> SliceTable:
        return self._table.of_slots(slots)

    def entries(self, slots: Array) -> Entries:
        found = self._of(slots)
        dims = {f"{side}.{d}": c for side in ("first", "last") for d, c in enumerate(getattr(found, side))}
        return Entries(slots[found.slot], {"pos": found.pos, "rows": found.rows, **dims}, found.cells)

    def take_in(self, found: Entries) -> None:
        columns, dims = found.columns, range(len(self._slicer.keys.last))
        first, last = (tuple(columns[f"{side}.{d}"] for d in dims) for side in ("first", "last"))
        more = SliceTable(found.slots, columns["pos"], columns["rows"], first, last, found.cells)
        both = SliceTable.concat([self._table, more])
        setattr(self._slicer, self.which, both.take(np.lexsort((both.pos, both.slot))))

    @property
    def nbytes(self) -> int:
        return self._table.nbytes


class SliceBank(RestBank):
    """Slices, those of the past too."""

    which, optional = "slices", False

    @property
    def _table(self) -> SliceTable:
        self._slicer.with_past()
        return self._slicer.slices

    def _of(self, slots: Array) -> SliceTable:
        return self._slicer.past.with_younger(self._slicer.slices, slots)

    @property
    def nbytes(self) -> int:
        return self._slicer.slices.nbytes + self._slicer.past.nbytes
