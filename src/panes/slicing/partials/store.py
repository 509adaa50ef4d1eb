"""What the two stores of partials have in common: the contract, and answers to windows.

A store keeps one partial per (slice, key) that holds rows. Slices are known by their position in the slice
list, keys by their slot. Windows are ranges of positions.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from panes.aggregates.base import BoundAggregate, Cells
from panes.aggregates.segments import sort_by_group
from panes.state.journal import Replaced, Watched

Array = np.ndarray

#: Bytes that say where a cell is: its slice and its key.
CELL_PLACE = 16
#: Groups may be this many times as many as cells for sorting by counting to pay.
_SPARSE_GROUPS = 8


#: A dense store may have this many empty cells per filled one, and this many cells in any case.
_EMPTY_PER_CELL = 8
SMALL = 1 << 20


def mostly_empty(places: int, filled: int) -> bool:
    """Whether a place for every slice and key is a waste, if these are not SMALL in number."""
    return filled * _EMPTY_PER_CELL < places


@dataclass(eq=False)
class WindowAnswers:
    """Results of windows, one window after the other: counts[w] of them, for keys in the order of their slots."""

    counts: Array  # per window asked for
    slots: Array
    values: tuple[pa.Array, ...]  # one per aggregate

    def __len__(self) -> int:
        return len(self.slots)


@dataclass(eq=False)
class CellList:
    """Partials of (slice, key) pairs, each pair once: position of the slice, slot of the key, cells per aggregate."""

    at: Array
    slots: Array
    cells: tuple[Cells, ...]

    def __len__(self) -> int:
        return len(self.at)

    def take(self, index: Array) -> CellList:
        return CellList(self.at[index], self.slots[index], tuple(c.take(index) for c in self.cells))

    @staticmethod
    def concat(parts: Sequence[CellList]) -> CellList:
        return CellList(
            np.concatenate([part.at for part in parts]),
            np.concatenate([part.slots for part in parts]),
            tuple(map(Cells.concat, zip(*(part.cells for part in parts)))),
        )


class Tally:
    """How many partials were put together: by a store, its views (`only`), and the store that takes its place."""

    replaced = Replaced("combines")

    def __init__(self) -> None:
        self.combines = 0


class Store(ABC):
    """Partials by slice and key."""

    #: whether there is a place for every slice and key
    dense: ClassVar[bool]

    @property
    @abstractmethod
    def name(self) -> str:
        """How it holds partials and answers windows, for users."""

    @abstractmethod
    def begin(self) -> list[Watched]:
        """A call begins: objects whose attributes it may replace."""

    @abstractmethod
    def open(self, fresh: Array, total: int) -> None:
        """New slices lie at these positions; there are now `total`."""

    @abstractmethod
    def add(self, delta: CellList) -> None:
        """Combine partials into those held."""

    @abstractmethod
    def add_block(self, at: Array, keys: int, present: Array | None, cells: Sequence[Cells]) -> None:
        """Partials of slices `at` for slots 0..keys-1, slice by slice; `present` says which hold rows (None: all)."""

    @abstractmethod
    def drop(self, count: int) -> None:
        """The first slices are needed no more."""

    @abstractmethod
    def merge(self, firsts: Array) -> None:
        """Slices from firsts[i] up to firsts[i + 1] become one (firsts[0] is 0)."""

    @abstractmethod
    def answer(self, lo: Array, hi: Array, news: Array) -> WindowAnswers:
        """Results of windows over slices [lo, hi), in order of their ends, for each key with rows in [news, hi)."""

    @abstractmethod
    def only(self, which: Sequence[int]) -> Store:
        """To ask for windows that give only these aggregates, in this order; good until the store changes."""

    @abstractmethod
    def partials(self, lo: Array, hi: Array) -> CellList:
        """What windows over slices [lo, hi), none of them empty, come to before it is lowered, for each key with rows;
        `at` is the number of the window."""

    @abstractmethod
    def answer_one(self, slot: int, lo: Array, hi: Array) -> tuple[pa.Array, ...]:
        """Results of windows over slices [lo, hi) for one key, whether it has rows there or not."""

    @abstractmethod
    def holds(self, slot: int, lo: Array, hi: Array) -> Array:
        """Whether a key has rows in each range of slices."""

    @abstractmethod
    def cells(self, slots: Array | None) -> CellList:
        """Everything held, or what belongs to these slots."""

    @abstractmethod
    def used_slots(self) -> Array:
        """Slots of keys that have rows, sorted."""

    @abstractmethod
    def renumber(self, moved: Array) -> None:
        """`moved[slot]` is the new slot of a key, -1 if it has no rows; the order of keys stays."""

    @property
    @abstractmethod
    def occupied(self) -> int:
        """How many cells hold rows."""

    @property
    @abstractmethod
    def places(self) -> int:
        """How many cells there is a place for, filled or not."""

    @property
    @abstractmethod
    def nbytes(self) -> int: ...

    @property
    @abstractmethod
    def nbytes_filled(self) -> int:
        """Bytes of the cells that hold rows, each with its slice and key: what a snapshot has to write."""


def order_by(*columns: Array) -> Array:
    """The order of entries by several integer columns, the first one counting most.

    Packed into one integer if their spans allow, since that sorts many times faster.
    """
    if not len(columns[0]):
        return np.empty(0, np.int64)
    lows = [int(c.min()) for c in columns]
    spans = [int(c.max()) - low + 1 for c, low in zip(columns, lows)]
    if math.prod(spans) >= 2**63:
        return np.lexsort(columns[::-1])
    packed = columns[0] - lows[0]
    for column, low, span in zip(columns[1:], lows[1:], spans[1:]):
        packed = packed * span + (column - low)
    return np.argsort(packed)


def stable_order(groups: Array) -> Array:
    """Stable order by group; groups may be far more than entries."""
    n = int(groups.max(initial=-1)) + 1
    return sort_by_group(groups, n)[0] if _are_few(n, groups) else np.argsort(groups, kind="stable")


def stable_order_of_pairs(owner: Array, slots: Array) -> Array:
    """Stable order by owner, then slot; owners are sorted already."""
    if not len(slots):
        return slots
    span = int(slots.max()) + 1
    groups = (int(owner[-1]) + 1) * span
    if _are_few(groups, slots):
        return sort_by_group(owner * span + slots, groups)[0]
    return np.lexsort((slots, owner))  # stable: cells of a key stay in the order of their slices


def _are_few(groups: int, entries: Array) -> bool:
    return groups <= _SPARSE_GROUPS * len(entries) + 1024


def segments(*columns: Array) -> Array:
    """Offsets of runs of equal entries in sorted columns: the first of each run, and the length at last."""
    n = len(columns[0])
    change = np.zeros(max(n - 1, 0), bool)
    for column in columns:
        change |= column[1:] != column[:-1]
    return np.concatenate(([0], np.flatnonzero(change) + 1, [n])) if n else np.zeros(1, np.int64)


def fold_equal(delta: CellList, aggs: Sequence[BoundAggregate]) -> CellList:
    """Cells of the same (slice, key) combined into one, ordered by slice, then key."""
    if np.all(delta.at[1:] > delta.at[:-1]):
        return delta
    order = order_by(delta.at, delta.slots)
    at, slots = delta.at[order], delta.slots[order]
    offsets = segments(at, slots)
    if len(offsets) == len(at) + 1:
        return CellList(at, slots, tuple(c.take(order) for c in delta.cells))
    firsts = offsets[:-1]
    folded = tuple(a.fold(c.take(order), offsets) for a, c in zip(aggs, delta.cells))
    return CellList(at[firsts], slots[firsts], folded)
