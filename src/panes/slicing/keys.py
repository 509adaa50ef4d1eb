"""The directory of keys: key tuples on one side, dense slots 0, 1, 2, ... on the other.

Everything behind it works on slots only. Slots are given in order of first appearance, whatever the
batches. Each key also belongs to one of `KEY_GROUPS` groups, by a hash that is the same everywhere: state is
written, read and moved by key group.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from panes.aggregates.types import plain
from panes.errors import DataError, SnapshotDamaged
from panes.slicing.key_index import IntIndex, column_index, mix
from panes.state.checked import columns_of, demand, numbers
from panes.state.entries import SlotMap

Array = np.ndarray

KEY_GROUPS = 128
_GROUP_SHIFT = np.uint64(64 - 7)


class KeyDirectory:
    """Slots of key tuples. Nulls are keys, NaN is one key, 0.0 and -0.0 are the same key.

    >>> keys = KeyDirectory([pa.int64()])
    >>> keys.slots([pa.array([7, 3, 7, None])]).tolist()
    [0, 1, 0, 2]
    >>> keys.key_columns(np.array([2, 1]))[0].to_pylist()
    [None, 3]
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        if not types:
            raise ValueError("a key directory needs at least one key column")
        self.types = tuple(plain(t) for t in types)
        self._columns = [column_index(t, f"number {i + 1}") for i, t in enumerate(self.types)]
        #: codes of columns 0..i and of column i + 1, packed into one integer, to codes of columns 0..i + 1
        self._pairs = [IntIndex() for _ in self.types[1:]]
        self._groups = np.empty(0, np.uint8)

    def __len__(self) -> int:
        return len(self._pairs[-1]) if self._pairs else len(self._columns[0])

    def slots(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> Array:
        """The slot of each row; keys not seen before get the next slots."""
        codes = [index.codes(self._plain(c, i)) for i, (index, c) in enumerate(zip(self._columns, columns))]
        found = codes[0]
        for pairs, more in zip(self._pairs, codes[1:]):
            found = pairs.codes(found << 32 | more)
        return found

    def find(self, key: Sequence[pa.Array]) -> int:
        """The slot of one key, -1 if it has none; none is given."""
        codes = [index.find(value) for index, value in zip(self._columns, key)]
        found = codes[0]
        for pairs, more in zip(self._pairs, codes[1:]):
            found = pairs.find(found << 32 | more) if min(found, more) >= 0 else -1
        return found

    def sizes(self) -> list[int]:
        """How much is known now, for `forget_after`."""
        return [*map(len, self._columns), *map(len, self._pairs)]

    def forget_after(self, sizes: Sequence[int]) -> None:
        """Forget what came since these were the `sizes`."""
        for column, size in zip(self._columns, sizes):
            column.forget_after(size)
        for pairs, size in zip(self._pairs, sizes[len(self._columns) :]):
            pairs.forget_after(size)
        self._groups = self._groups[: len(self)]

    def key_columns(self, slots: Array) -> list[pa.Array]:
        """The key of each slot, one array per key column."""
        return [index.values(codes) for index, codes in zip(self._columns, self._codes(slots))]

    def groups(self, slots: Array) -> Array:
        """The key group of each slot, 0..KEY_GROUPS-1, the same in every process."""
        known = len(self._groups)
        if known < len(self):
            fresh = np.arange(known, len(self))
            found = np.zeros(len(fresh), np.uint64)
            for index, codes in zip(self._columns, self._codes(fresh)):
                found = mix(found ^ index.hashes(codes))
            self._groups = np.concatenate((self._groups, (found >> _GROUP_SHIFT).astype(np.uint8)))
        return self._groups[slots].astype(np.int64)

    def dump(self, slots: Array | None = None) -> pa.Table:
        """A table of (slot, key columns), of all slots or of these."""
        slots = np.arange(len(self)) if slots is None else np.asarray(slots, np.int64)
        names = ["slot", *(f"key{i}" for i in range(len(self.types)))]
        return pa.table([pa.array(slots), *self.key_columns(slots)], names=names)

    def load(self, table: pa.Table) -> SlotMap:
        """Take in the keys of a dump; returns the map from its slots to slots here."""
        names = [f"key{i}" for i in range(len(self.types))]
        columns_of(table, "keys", {"slot": pa.int64(), **dict(zip(names, self.types))})
        known = len(self)
        here = self.slots([table[name] for name in names])
        if len(self) - known < len(here) and len(np.unique(here)) < len(here):
            raise SnapshotDamaged("the snapshot has one key twice")
        return SlotMap(numbers(table, "slot", low=0), here)

    def load_all(self, table: pa.Table) -> None:
        """Take in a dump of all keys, which are known by the same slots here: none is known yet."""
        self.load(table)
        demand((numbers(table, "slot") == np.arange(len(self))).all(), "keys are out of order")

    def compact(self, keep: Array) -> Array:
        """Forget all keys but those of slots `keep`, which stay in their order.

        Returns the map from old slots to new ones, -1 for keys that are forgotten.
        """
        keep = np.unique(keep)
        fresh = KeyDirectory(self.types)
        moved = slot_map(keep, fresh.slots(self.key_columns(keep)), len(self))
        self.__dict__.update(fresh.__dict__)
        return moved

    def _codes(self, slots: Array) -> list[Array]:
        """The code of each slot in each column."""
        found: list[Array] = []
        for pairs in reversed(self._pairs):
            packed = pairs.names(slots)
            found.append(packed & 0xFFFFFFFF)
            slots = packed >> 32
        return [slots, *reversed(found)]

    def _plain(self, column: pa.Array | pa.ChunkedArray, i: int) -> pa.Array:
        if isinstance(column, pa.ChunkedArray) and column.num_chunks == 1:
            column = column.chunk(0)  # combining would copy it
        if isinstance(column, pa.ChunkedArray):
            column = column.unify_dictionaries().combine_chunks()
            if isinstance(column, pa.ChunkedArray):
                column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
        if column.type != self.types[i] and plain(column.type) != self.types[i]:
            try:
                column = column.cast(self.types[i])
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise DataError(
                    f"key column number {i + 1} has type {column.type}, but keys are {self.types[i]}: {error}"
                ) from error
        return column


def slot_map(old: Array, new: Array, size: int | None = None) -> Array:
    """An array that leads from old slots to new ones, -1 where there is none."""
    out = np.full(size if size is not None else (int(old.max()) + 1 if len(old) else 0), -1, np.int64)
    out[old] = new
    return out
