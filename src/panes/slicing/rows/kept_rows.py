"""Rows that are kept for corrections: one after the other as they came, and those of a key in event-time order.

A late row asks for its place among the rows of its key, and for a few of them. What that costs must not grow with how
many are kept: columns have room at their end, and which rows are those of a key is found out when somebody asks, for
the rows that have come since somebody asked last.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Column
from panes.aggregates.columns import arrow_from_values, column_from_arrow
from panes.aggregates.types import plain
from panes.slicing.lane import RowBatch
from panes.slicing.rows.key_state import KeyState
from panes.slicing.rows.reorder import ReorderBuffer, concat_rows, stable_order, with_columns
from panes.state.checked import demand, numbers
from panes.state.entries import Held, SlotMap
from panes.state.journal import Journal, Replaced, Watched

Array = np.ndarray
#: Batches that may wait before they are written to columns.
_WAITING = 32
#: Each group of rows is more than so many times as long as the next one.
_RATIO = 4


class KeyRows:
    """The rows of one key in event-time order; those of equal time are in the order in which they came."""

    def __init__(self) -> None:
        self._room = np.empty(8, np.int64)  # where each is among the rows of all keys, and room at the end
        self._count = 0
        self._all: RowBatch
        self.looked_at = 0  # so many of the rows of all keys

    def __len__(self) -> int:
        return self._count

    @property
    def _at(self) -> Array:
        return self._room[: self._count]

    def extend(self, rows: RowBatch, more: Array) -> None:
        """All rows are these now, and more of them are of this key."""
        n = self._make_room(rows, len(more))
        self._room[n : self._count] = more
        new = rows.times[more]
        if len(new) and ((n and new[0] < rows.times[self._room[n - 1]]) or (new[1:] < new[:-1]).any()):
            self._at[:] = self._at[rows.times[self._at].argsort(kind="stable")]

    def insert(self, rows: RowBatch, place: int) -> None:
        """All rows are these now, and the last of them is of this key and belongs here."""
        n = self._make_room(rows, 1)
        self._room[place + 1 : n + 1] = self._room[place:n]
        self._room[place] = len(rows) - 1

    def _make_room(self, rows: RowBatch, more: int) -> int:
        n = self._count
        self._all, self.looked_at, self._count = rows, len(rows), n + more
        if n + more > len(self._room):
            self._room = np.concatenate((self._room[:n], np.empty(n + 2 * more, np.int64)))
        return n

    def place_of(self, time: int) -> int:
        """Where a row of this time belongs that comes after all others."""
        at, times = self._room, self._all.times
        return bisect_right(range(self._count), time, key=lambda i: times[at[i]])

    def times(self, index: Array) -> Array:
        return self._all.times[self._at[index]]

    def take(self, index: Array | slice) -> RowBatch:
        """Rows at these places; a slice of them is in order."""
        return self._all.take(self._at[index], in_order=True if isinstance(index, slice) else None)


class _Group(NamedTuple):
    """Rows [begin, end) by key: sorted slots, and where each is among all rows."""

    begin: int
    end: int
    slots: Array
    at: Array


class KeptRows:
    """The rows of all keys."""

    replaced = Replaced("_rows", "_room", "_waiting", "_count")

    def __init__(self, journal: Journal | None = None) -> None:
        self._journal = journal or Journal()
        self._rows: RowBatch | None = None  # views of
        self._room: RowBatch | None = None  # columns that are longer
        self._waiting: list[RowBatch] = []  # not yet written to them
        self._count = 0
        #: what is found in rows: it can be found again
        self._by_key: dict[int, KeyRows] = {}
        self._groups: list[_Group] = []

    def __len__(self) -> int:
        return self._count

    def begin(self) -> list[Watched]:
        """A call begins: objects whose attributes it may replace."""
        self._journal.keep_length(self._waiting)
        self._journal.undo_by(self._forget)
        return [self]

    def _forget(self) -> None:
        self._by_key, self._groups = {}, []

    @property
    def nbytes(self) -> int:
        rows = self.all()
        return 0 if rows is None else rows.nbytes

    def add(self, rows: RowBatch) -> None:
        self._waiting.append(rows)
        self._count += len(rows)
        if len(self._waiting) > _WAITING:
            self.all()

    def put(self, rows: RowBatch) -> None:
        """Keep these rows and no others."""
        self._rows, self._room, self._waiting, self._count = rows, None, [], len(rows)
        self._forget()

    def all(self) -> RowBatch | None:
        """All rows, one after the other; None if there have never been any."""
        if self._waiting:
            more, self._waiting = concat_rows(self._waiting), []
            self._rows = more if self._rows is None else self._with(self._rows, more)
        return self._rows

    def _with(self, rows: RowBatch, more: RowBatch) -> RowBatch:
        if not len(rows) or not len(more):
            return rows if len(rows) else more
        n, room = len(rows) + len(more), self._room
        if room is None or n > len(room) or not _fit(room, more):
            room = self._room = _with_room(concat_rows([rows, more]))
        else:
            for column, values in _pairs(room, more):
                column[len(rows) : n] = values
        in_order = rows.in_order and more.in_order and bool(rows.times[-1] <= more.times[0])
        return room.take(slice(n), in_order=in_order)

    def of(self, slot: int) -> KeyRows:
        """The rows of a key. What is known of them stays right while no others of that key come but by `insert`."""
        rows = self.all()
        mine = self._by_key.get(slot)
        if mine is None:
            mine = self._by_key[slot] = KeyRows()
        if rows is not None and mine.looked_at < len(rows):
            mine.extend(rows, self._since(rows, slot, mine.looked_at))
        return mine

    def insert(self, slot: int, row: RowBatch, place: int) -> KeyRows:
        """Keep a row of a key that has this place among its rows."""
        mine = self.of(slot)
        self.add(row)
        rows = self.all()
        assert rows is not None
        mine.insert(rows, place)
        return mine

    def _since(self, rows: RowBatch, slot: int, begin: int) -> Array:
        """Where the rows of a key are among those from `begin` on."""
        if rows.slots is None:
            return np.arange(begin, len(rows))
        groups = self._groups
        if not groups or groups[-1].end < len(rows):
            first = groups[-1].end if groups else 0
            while groups and groups[-1].end - groups[-1].begin <= _RATIO * (len(rows) - first):
                first = groups.pop().begin
            order = stable_order(rows.slots[first:])
            groups.append(_Group(first, len(rows), rows.slots[first:][order], order + first))
        found = []
        for group in reversed(groups):
            if group.end <= begin:
                break
            low, high = group.slots.searchsorted((slot, slot + 1))
            at = group.at[low:high]
            found.append(at if group.begin >= begin else at[at.searchsorted(begin) :])
        return np.concatenate(found[::-1])


class RowBank(Held):
    """Rows that wait or are kept, as what is held of their keys."""

    optional = True

    def __init__(
        self,
        rows: ReorderBuffer | KeptRows,
        taken: KeyState,
        types: Mapping[str, pa.DataType],
        lack: Callable[[str], None],
        *,
        keyed: bool,
        seq: bool,
    ) -> None:
        """`taken`: what is known of rows before these; `types`: of the columns that rows have, of which they may `lack`
        some; `seq`: whether they must have their arrival numbers."""
        self._rows, self._taken, self._types, self._keyed, self._seq = rows, taken, types, keyed, seq
        self._lack = lack

    def dump(self, slots: Array) -> pa.Table:
        rows = self._rows.all()
        if rows is None:
            return pa.table({"slot": pa.array([], pa.int64())})
        of = np.zeros(len(rows), np.int64) if rows.slots is None else rows.slots
        mine = np.flatnonzero(np.isin(of, slots))
        rows = rows.take(mine)
        seq = {"seq": rows.seq} if len(rows.seq) else {}
        columns = {f"column.{n}": arrow_from_values(c.values, c.valid, c.type) for n, c in rows.columns.items()}
        return pa.table({"slot": of[mine], "time": rows.times, **seq, **columns})

    def load(self, table: pa.Table, slot_map: SlotMap, name: str) -> None:
        times, slots = numbers(table, "time"), slot_map[numbers(table, "slot")]
        columns = {}
        for each, kind in self._types.items():
            if f"column.{each}" not in table.column_names:
                self._lack(each)
                continue
            columns[each] = column_from_arrow(table[f"column.{each}"])
            demand(plain(columns[each].type) == plain(kind), f"rows that wait have a column {each!r} of another type")
        seq = numbers(table, "seq", low=0) if self._seq and len(times) else np.empty(0, np.int64)
        last, known = self._taken.last[0], slots < len(self._taken)
        demand((times[known] >= last[slots[known]]).all(), "rows that wait come before those that were taken")
        in_order = bool(np.all(times[1:] >= times[:-1]))
        rows = RowBatch(slots if self._keyed else None, times, seq, columns, in_order)
        self._rows.add(with_columns(rows, self._types))

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes


def _fit(room: RowBatch, more: RowBatch) -> bool:
    """Whether rows can be written to these columns."""
    for name, column in room.columns.items():
        other = more.columns[name]
        if column.values.dtype != other.values.dtype or (column.valid is None and other.valid is not None):
            return False
    return len(room.seq) == len(room) and len(more.seq) == len(more)


def _pairs(room: RowBatch, more: RowBatch) -> Iterator[tuple[Array, object]]:
    """Columns, and what is to be written to each."""
    if room.slots is not None:
        yield room.slots, more.slots
    yield room.times, more.times
    yield room.seq, more.seq
    for name, column in room.columns.items():
        other = more.columns[name]
        yield column.values, other.values
        if column.valid is not None:
            yield column.valid, True if other.valid is None else other.valid


def _with_room(rows: RowBatch) -> RowBatch:
    """The rows, followed by as many of which nothing is known."""

    def longer(column: Array) -> Array:
        return np.concatenate((column, np.empty(len(column), column.dtype)))

    columns = {
        name: Column(longer(c.values), None if c.valid is None else longer(c.valid), c.type)
        for name, c in rows.columns.items()
    }
    slots = None if rows.slots is None else longer(rows.slots)
    return RowBatch(slots, longer(rows.times), longer(rows.seq), columns, False)
