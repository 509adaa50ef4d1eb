"""The contract of all that is remembered of keys, what is done with all of it, and banks of entries.

`Held` is what is seen of whatever remembers something: how it is written, read, forgotten and counted. Whoever holds
several has them by the names of tables in snapshots, and does all of that with all of them here. A bank with one value
per slot is in bank.py. Here is the other shape, any number of entries of each key: whoever holds them says which
columns they have, hands them out and takes them in; writing and reading them and refusing what can't be is done once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
import pyarrow as pa

from panes.errors import SnapshotDamaged
from panes.state.checked import INT64, columns_of, demand, number_type, numbers, read_table

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

    def used_slots(self) -> Array | None:
        """Slots that something is held of; None: what is known of a key is never forgotten."""
        return None

    def renumber(self, moved: Array) -> None:
        """`moved[slot]` is the new slot of a key, -1 if nothing is held of it; the order of keys stays."""
        raise TypeError(f"{type(self).__name__} never forgets a key")

    @property
    @abstractmethod
    def nbytes(self) -> int: ...


Banks = Mapping[str, Held]


def dump_banks(banks: Banks, slots: Array) -> dict[str, pa.Table]:
    """What is held of these slots."""
    tables = {name: bank.dump(slots) for name, bank in banks.items()}
    return {name: table for name, table in tables.items() if table.num_rows or not banks[name].optional}


def load_banks(banks: Banks, tables: Mapping[str, pa.Table], slot_map: SlotMap) -> None:
    """Take in a dump, one bank after the other."""
    for name, bank in banks.items():
        if name in tables or not bank.optional:
            bank.load(read_table(tables, name), slot_map, name)


def slots_of_banks(banks: Banks) -> Array | None:
    """Slots that something is held of; None: keys are never forgotten."""
    found = [np.empty(0, np.int64)]
    for bank in banks.values():
        slots = bank.used_slots()
        if slots is None:
            return None
        found.append(slots)
    return np.unique(np.concatenate(found))


def renumber_banks(banks: Banks, moved: Array) -> None:
    for bank in banks.values():
        bank.renumber(moved)


def nbytes_of(banks: Banks) -> int:
    return sum(bank.nbytes for bank in banks.values())


def named(prefix: str, banks: Banks) -> dict[str, Held]:
    """Banks among others, with names that begin with this."""
    return {prefix + name: bank for name, bank in banks.items()}


@dataclass(frozen=True)
class EntryColumn:
    """What a column of entries holds (None: numbers, whole or not), and the bounds of what is believed."""

    type: pa.DataType | None = field(default_factory=lambda: INT64)
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
        kinds = {each: column.type or number_type(table, each) for each, column in self.declared.items()}
        known = {"slot": INT64, **kinds}
        columns_of(table.select([each for each in table.column_names if each in known]), name, known)
        columns = {
            each: numbers(table, each, kinds[each], low=column.low, high=column.high)
            for each, column in self.declared.items()
        }
        cells = self.codec.read(table) if self.codec is not None else ()
        self.take_in(Entries(slot_map[numbers(table, "slot")], columns, cells))
