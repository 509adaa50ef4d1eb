"""Banks: a declared set of columns over slots, and all that is done with state that is held in one.

Slots are the numbers 0, 1, 2, ... of keys (or of anything else that is numbered so). Columns are NumPy arrays that
whoever uses a bank reads and writes directly; the journal hears of it before. Growing, choosing some slots and putting
them back, forgetting, writing and reading, and how many bytes there are is done here, once for all columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from panes.state import pickles
from panes.state.checked import columns_of, demand, numbers
from panes.state.entries import Held, SlotMap
from panes.state.journal import Journal, Replaced
from panes.state.pickles import PICKLED

Array = np.ndarray


@dataclass(frozen=True)
class BankColumn:
    """What a column holds for a slot of which nothing is known, which has the type of all its values.

    Objects are those of users' own code, and pickled in snapshots, unless they are `packed`: bytes or None.
    """

    default: Any
    packed: bool = False

    @property
    def dtype(self) -> np.dtype:
        return np.asarray(self.default).dtype

    @property
    def pickled(self) -> bool:
        return self.dtype == object and not self.packed

    @property
    def arrow(self) -> pa.DataType:
        return pa.binary() if self.dtype == object else pa.from_numpy_dtype(self.dtype)

    def filled(self, n: int) -> Array:
        found = np.empty(n, self.dtype)
        found[:] = self.default
        return found


class Bank(Held):
    """Columns by name, each with one value per slot."""

    replaced = Replaced("declared", "columns", "_size")

    def __init__(self, declared: Mapping[str, BankColumn], journal: Journal) -> None:
        self._journal = journal
        self._size = 0
        self.declared: dict[str, BankColumn] = {}
        self.columns: dict[str, Array] = {}
        self.declare(declared)

    def __len__(self) -> int:
        return self._size

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self.columns.values())

    def declare(self, declared: Mapping[str, BankColumn]) -> None:
        """Have these columns from now on; those that stay keep what they hold."""
        kept = self.columns
        self.declared = dict(declared)
        self.columns = {
            name: kept[name] if name in kept else column.filled(self._size) for name, column in declared.items()
        }

    def grow(self, n: int) -> bool:
        """Have room for slots 0..n-1; whether columns are others now."""
        have = self._size
        if n <= have:
            return False
        more = max(n, have + have // 2) - have if have else n
        grown = {}
        for name, column in self.columns.items():
            grown[name] = np.concatenate((column, self.declared[name].filled(more)))
            if column.dtype == object:
                # both hold the same objects: what user code does to one is taken back in the other, too
                self._journal.undo_by(_copy_back, column, grown[name])
        self.columns, self._size = grown, have + more
        return True

    def select(self, slots: Array, journal: Journal | None = None) -> Bank:
        """A copy of these slots, numbered 0, 1, ...; it shares no object of users with this one."""
        part = Bank({}, journal or Journal())
        part.declared, part._size = self.declared, len(slots)
        part.columns = {name: _copied(column[slots]) for name, column in self.columns.items()}
        return part

    def put(self, slots: Array, part: Bank) -> None:
        """Write what was selected, possibly moved on, back to these slots."""
        for name, column in self.columns.items():
            self._journal.keep(column, slots)
            column[slots] = part.columns[name]

    def renumber(self, moved: Array) -> None:
        kept = np.flatnonzero(moved >= 0)
        self.columns, self._size = {name: column[kept] for name, column in self.columns.items()}, len(kept)

    def written_as(self, name: str) -> str:
        """What a column is called where it is written: a reader sees that there is code in it."""
        return name + PICKLED if self.declared[name].pickled else name

    def dump(self, slots: Array) -> pa.Table:
        found = {"slot": pa.array(slots)}
        for name, column in self.columns.items():
            values, declared = column[slots], self.declared[name]
            if declared.pickled:
                values = [pickles.dumps(value) for value in values]
            found[self.written_as(name)] = pa.array(
                values if declared.dtype != object else list(values), declared.arrow
            )
        return pa.table(found)

    def load(self, table: pa.Table, slot_map: SlotMap, name: str) -> None:
        columns_of(table, name, {"slot": pa.int64(), **{self.written_as(n): d.arrow for n, d in self.declared.items()}})
        slots = slot_map[numbers(table, "slot")]
        demand(len(np.unique(slots)) == len(slots), f"{name} of one key is there twice")
        if not len(slots):
            return
        self.grow(int(slots.max()) + 1)
        for each, declared in self.declared.items():
            column = self.columns[each]
            if declared.dtype != object:
                column[slots] = numbers(table, each, declared.arrow)
                continue
            values = table[self.written_as(each)].to_pylist()
            if declared.pickled:
                values = [pickles.loads(value, name) for value in values]
            for slot, value in zip(slots.tolist(), values, strict=True):
                column[slot] = value


def _copy_back(column: Array, padded: Array) -> None:
    column[:] = padded[: len(column)]


def _copied(column: Array) -> Array:
    """A column that shares no user object with the original."""
    if column.dtype != object:
        return column
    out = np.empty(len(column), object)
    for i, value in enumerate(column):
        out[i] = deepcopy(value)
    return out
