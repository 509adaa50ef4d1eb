"""Slices that only late rows still look at, where windows count rows.

They lie in a few tables, each much longer than the next, in which a late row finds those of its key and changes them in
place: what that costs does not grow with how many there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from panes.aggregates.base import Ragged
from panes.slicing.lane import Agg
from panes.slicing.rows.slice_table import SliceTable
from panes.state.journal import Journal, Replaced

Array = np.ndarray
#: Each table is more than so many times as long as the next one.
_RATIO = 4


@dataclass(frozen=True)
class KeySlices:
    """The slices of a key from some position on, and where they are: in tables of the past, and [lo, hi) of that of
    the others."""

    table: SliceTable
    past: Sequence[tuple[SliceTable, int, int]]
    lo: int
    hi: int


class PastSlices:
    """Slices of all keys; those that come are younger than those of their keys that are there."""

    replaced = Replaced("_tables")

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._tables: tuple[SliceTable, ...] = ()

    def __len__(self) -> int:
        return sum(map(len, self._tables))

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for table in self._tables)

    def add(self, table: SliceTable) -> None:
        """Take in slices; nobody else has these columns."""
        tables = [*self._tables, table]
        while len(tables) > 1 and len(tables[-2]) <= _RATIO * len(tables[-1]):
            last = tables.pop()
            tables[-1] = tables[-1].append(last)
        self._tables = tuple(tables)

    def with_younger(self, table: SliceTable, slots: Array | None = None) -> SliceTable:
        """All slices and those of this table; of these keys alone, numbered 0, 1, ..., if some are named."""
        first, *others = (each if slots is None else each.of_slots(slots) for each in (*self._tables, table))
        for younger in others:
            first = first.append(younger)
        return first

    def clear(self) -> None:
        self._tables = ()

    def of(self, slot: int, position: int, younger: SliceTable) -> KeySlices:
        """The slices of a key from the one on that holds this position, here and in the table of younger ones."""
        places = []
        for table in (*self._tables, younger):
            lo, hi = (int(i) for i in table.slot.searchsorted((slot, slot + 1)))
            at = lo + int(table.pos[lo:hi].searchsorted(position, side="right"))  # the one before may hold it
            places.append((table, at - (at > lo and bool(table.pos[at - 1] + table.rows[at - 1] > position)), hi))
        parts = [table.take(np.arange(lo, hi)) for table, lo, hi in places if lo < hi]
        _, lo, hi = places.pop()
        past = [place for place in places if place[1] < place[2]]
        return KeySlices(SliceTable.concat(parts) if parts else younger.take(np.arange(0)), past, lo, hi)

    def write(self, slices: KeySlices, now: SliceTable, first: int) -> int:
        """Slices of the past are as in `now` from number `first` on; returns how many of `now` are of the past."""
        begin = 0
        for table, lo, hi in slices.past:
            at = max(first - begin, 0)
            if lo + at < hi:
                where, source = slice(lo + at, hi), slice(begin + at, begin + hi - lo)
                for column, values in zip(_columns(table), _columns(now), strict=True):
                    self._journal.keep(column, where)
                    column[where] = values[source]
            begin += hi - lo
        return begin


def fixed(aggs: Sequence[Agg]) -> bool:
    """Whether partials of these aggregates can be changed in place."""
    return not any(isinstance(field, Ragged) for agg in aggs for field in agg.bound.empty(0).fields)


def _columns(table: SliceTable) -> list[Array]:
    """What a late row changes of slices."""
    return [table.rows, *table.first, *table.last, *(field for cells in table.cells for field in cells.fields)]
