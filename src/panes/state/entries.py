"""The contract of all that is remembered of keys, and banks of entries: any number of them of each key.

`Held` is what lanes see of whatever remembers something: how it is written, read, forgotten and counted. A bank with
one value per slot is in bank.py. Here is the other shape: whoever holds entries says which columns they have, hands
them out and takes them in; writing them for some keys, reading them and refusing what can't be is done once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
import pyarrow as pa

from panes.errors import SnapshotDamaged
from panes.state.checked import INT64, columns_of, demand, numbers

if TYPE_CHECKING:
    from panes.aggregates.base import Cells

Array = np.ndarray


class SlotMap:
    """Leads from the slots of a dump to slots here; slots that the dump has no key for are refused.

    >>> SlotMap(np.array([7, 3]), np.array([0, 1]))[np.array([3, 3, 7])].tolist()
    [1, 1, 0]
    """

    def __init__(self, theirs: Array, ours: Array) -> None:
        order = np.argsort(theirs, kind="stable")
        self._theirs, self._ours = theirs[order], ours[order]
        if (self._theirs[1:] == self._theirs[:-1]).any():
            raise SnapshotDamaged("the snapshot has one slot for two keys")

    def __len__(self) -> int:
        return len(self._ours)

    def max(self) -> int:
        return int(self._ours.max())

    def __getitem__(self, slots: object) -> Array:
        wanted = np.asarray(slots)
        at = np.minimum(np.searchsorted(self._theirs, wanted), max(len(self._theirs) - 1, 0))
        if wanted.size and (not len(self._theirs) or (self._theirs[at] != wanted).any()):
            raise SnapshotDamaged("the snapshot has state of a key that it does not name")
        found: Array = self._ours[at] if len(self._ours) else np.empty(0, np.int64)
        return found


class Held(ABC):
    """What is remembered of keys, which are known by their slots."""

    #: whether it need not be written if it is nothing
    optional: ClassVar[bool] = False

    @abstractmethod
    def dump(self, slots: Array) -> pa.Table:
        """What is held of these slots, with a column `slot`."""

    @abstractmethod
    def load(self, table: pa.Table, slot_map: SlotMap, name: str) -> None:
        """Take in a dump, beside what is there; `name` says in messages what it is."""

    @abstractmethod
    def used_slots(self) -> Array | None:
        """Slots that something is held of; None: what is known of a key is never forgotten."""

    @abstractmethod
    def renumber(self, moved: Array) -> None:
        """`moved[slot]` is the new slot of a key, -1 if nothing is held of it; the order of keys stays."""

    @property
    @abstractmethod
    def nbytes(self) -> int: ...


@dataclass(frozen=True)
class EntryColumn:
    """What a column of entries holds, and the bounds of what is believed."""

    type: pa.DataType = field(default_factory=lambda: INT64)
    low: int | None = None
    high: int | None = None


def entry_columns(*whole: str, **others: EntryColumn) -> Mapping[str, EntryColumn]:
    """Columns of entries: whole numbers, and others."""
    return {**dict.fromkeys(whole, EntryColumn()), **others}


class PartialsCodec(Protocol):
    """How partials of aggregates are written beside other columns."""

    @property
    def names(self) -> Collection[str]: ...

    def write(self, cells: Sequence[Cells]) -> dict[str, pa.Array]: ...

    def read(self, table: pa.Table) -> tuple[Cells, ...]: ...


@dataclass(frozen=True, eq=False)
class Entries:
    """The slot of each entry, its other columns, and its partials if it has any."""

    slots: Array
    columns: Mapping[str, Array]
    cells: tuple[Cells, ...] = ()

    def of(self, slots: Array) -> Entries:
        """Those of some slots; they have no partials."""
        mine = np.flatnonzero(np.isin(self.slots, slots))
        return Entries(self.slots[mine], {name: column[mine] for name, column in self.columns.items()})


class EntryBank(Held):
    """Any number of entries per slot."""

    declared: Mapping[str, EntryColumn]
    #: of the partials that entries have; None: they have none
    codec: PartialsCodec | None = None

    @abstractmethod
    def entries(self, slots: Array) -> Entries:
        """What is held of these slots."""

    @abstractmethod
    def take_in(self, found: Entries) -> None:
        """Hold these, too."""

    def dump(self, slots: Array) -> pa.Table:
        found = self.entries(slots)
        partials = self.codec.write(found.cells) if self.codec is not None else {}
        return pa.table({"slot": found.slots, **found.columns, **partials})

    def load(self, table: pa.Table, slot_map: SlotMap, name: str) -> None:
        if not table.num_rows:
            return
        partials = self.codec.names if self.codec is not None else ()
        odd = sorted(set(table.column_names) - {"slot", *self.declared, *partials})
        demand(not odd, f"the table {name!r} has a column {odd[:1]} that belongs to nothing")
        known = {"slot": INT64, **{each: column.type for each, column in self.declared.items()}}
        columns_of(table.select([each for each in table.column_names if each in known]), name, known)
        columns = {
            each: numbers(table, each, column.type, low=column.low, high=column.high)
            for each, column in self.declared.items()
        }
        cells = self.codec.read(table) if self.codec is not None else ()
        self.take_in(Entries(slot_map[numbers(table, "slot")], columns, cells))
