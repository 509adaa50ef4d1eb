"""The state of a columnar window as arrays: subwindows, tuples, queues. Grows before a push, shrinks after it.

Tuples are columns, appended to by batches and emptied of dead tuples; loops find those that events refer to, and those
that are held. Queues (what is due, which partition goes next) can be made anew from the subwindows, so snapshots hold
none.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Column
from panes.aggregates.columns import arrow_from_values
from panes.aggregates.types import storage_of
from panes.policies.library import fields as k
from panes.policies.loop import one_source

Array = np.ndarray
#: Lines from which on arrays no longer double when they grow: too much of them would lie empty.
_LARGE = 1 << 18
#: So many dead tuples, slots or queue entries may lie around before anybody looks, beside as many as are in use.
SPARE = 1 << 16


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
        self._clear()

    def _clear(self) -> None:
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
        self._clear()
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


@one_source()
def locate(events: Array, subs: Array, starts: Array, stops: Array, slots: Array) -> tuple[int, int]:
    """Where the tuples of each event lie in the view of all; returns (slots in the view, tuples in it)."""
    n = total = 0
    for j in range(len(events)):
        slot = events[j, k.E_SLOT]
        if events[j, k.E_FROM] == events[j, k.E_TO]:
            starts[j] = stops[j] = 0
            continue
        if subs[slot, k.S_VIEW_AT] == k.NEVER:
            subs[slot, k.S_VIEW_AT] = total
            total += subs[slot, k.S_VIEW_TO] - subs[slot, k.S_VIEW_FROM]
            slots[n] = slot
            n += 1
        shift = subs[slot, k.S_VIEW_AT] - subs[slot, k.S_VIEW_FROM]
        starts[j] = events[j, k.E_FROM] + shift
        stops[j] = events[j, k.E_TO] + shift
    return n, total


@one_source()
def view(slots: Array, subs: Array, rows: Array, out: Array) -> None:
    """The tuples of the view, slot after slot, each from its oldest to its newest. Nothing is in view afterwards."""
    at = 0
    for slot in slots:
        row = subs[slot, k.S_VIEW_ROW]
        for _ in range(subs[slot, k.S_VIEW_TO] - subs[slot, k.S_VIEW_FROM]):
            out[at] = row
            at += 1
            row = rows[row, k.R_NEXT]
        subs[slot, k.S_VIEW_FROM] = k.NEVER
        subs[slot, k.S_VIEW_AT] = k.NEVER


@one_source()
def held_rows(slots: Array, subs: Array, rows: Array, out: Array) -> None:
    """The tuples that these slots hold, slot after slot."""
    at = 0
    for slot in slots:
        row = subs[slot, k.S_HEAD]
        for _ in range(subs[slot, k.S_SIZE]):
            out[at] = row
            at += 1
            row = rows[row, k.R_NEXT]


@one_source()
def relink(slots: Array, subs: Array, rows: Array) -> None:
    """Tuples now lie slot after slot, from row 0 on: link them anew."""
    at = 0
    for slot in slots:
        size = subs[slot, k.S_SIZE]
        subs[slot, k.S_HEAD] = at
        subs[slot, k.S_LAST] = at + size - 1 if size > 0 else k.NEVER
        for j in range(size):
            rows[at + j, k.R_NEXT] = at + j + 1
        at += size


@one_source()
def never_falls(slots: Array, values: Array, first_row: int, subs: Array, last: Array) -> bool:
    """Whether no value is below the one before it of its slot."""
    rises = True
    for i in range(len(slots)):
        slot, row = slots[i], first_row + i
        before = subs[slot, k.S_ROW]
        if before != k.NEVER:
            rises &= values[row] >= values[before]
        elif subs[slot, k.S_ALIVE]:
            rises &= values[row] >= last[slot]
        subs[slot, k.S_ROW] = row
    for slot in slots:
        subs[slot, k.S_ROW] = k.NEVER
    return rises


def _lines(fields: int) -> Array:
    return np.empty((0, fields), np.int64)


@dataclass
class Arrays:
    """Everything that the loop reads and writes (fields: fields.py)."""

    config: Array
    tuples: TupleStore
    evict_values: Array  # attribute of each tuple; empty if the eviction reads none
    trigger_type: np.dtype  # of the attribute that the trigger reads, of rows that arrive only
    subs: Array = field(default_factory=lambda: _lines(k.S_FIELDS))
    rows: Array = field(default_factory=lambda: _lines(k.R_FIELDS))
    due: Array = field(default_factory=lambda: _lines(4))
    rarest: Array = field(default_factory=lambda: _lines(4))
    g: Array = field(default_factory=lambda: np.zeros(k.G_FIELDS, np.int64))
    n: int = 0  # slots
    used: int = 0  # slots in use at the last look
    worked: int = 0  # rows so far, for which loops were compiled or not

    def __post_init__(self) -> None:
        self.g[[k.G_FIRST, k.G_LAST, k.G_BAD]] = k.NEVER
        self.bases = np.empty(0, self.trigger_type)
        self.last_evict = np.empty(0, self.evict_values.dtype)
        self.last_trigger = np.empty(0, self.trigger_type)

    @property
    def nbytes(self) -> int:
        mine = (self.subs, self.rows, self.due, self.rarest, self.evict_values, self.bases, self.last_evict,
                self.last_trigger)  # fmt: skip
        return sum(a.nbytes for a in mine) + self.tuples.nbytes

    def copy(self) -> Arrays:
        """All of it again, but the tuples, which a push only adds to."""
        twin = copy.copy(self)
        for name in ("subs", "rows", "due", "rarest", "g", "bases", "last_evict", "last_trigger"):
            setattr(twin, name, getattr(self, name).copy())
        return twin

    def twin(self) -> Arrays:
        """All of it again. Tuples are only added behind those there are: one of the two may go on with them."""
        twin = copy.copy(self)
        twin.tuples = self.tuples.twin()
        twin.rows = self.rows[: self.tuples.n].copy()
        for name, used in (("due", k.G_DUE), ("rarest", k.G_RAREST)):
            setattr(twin, name, getattr(self, name)[: int(self.g[used])].copy())
        for name in ("subs", "g", "bases", "last_evict", "last_trigger"):
            setattr(twin, name, getattr(self, name).copy())
        return twin

    def room(self, slots: int, rows: int) -> None:
        """Make room for so many slots in all and so many more tuples."""
        before = len(self.subs)
        self.subs = grown(self.subs, slots, k.NEVER)
        fresh = self.subs[before:]
        fresh[:, [k.S_ALIVE, k.S_SIZE, k.S_FIRST]] = 0
        fresh[:, [k.S_EVICT_DUE, k.S_TRIGGER_DUE, k.S_PERIOD]] = k.NO_TIME
        self.bases, self.last_evict, self.last_trigger = (
            grown(a, len(self.subs)) for a in (self.bases, self.last_evict, self.last_trigger)
        )
        self.n = max(self.n, slots)
        end = self.tuples.n + rows
        self.rows = grown(self.rows, end)
        if self.config[k.C_EVICT] == k.DELTA:
            self.evict_values = grown(self.evict_values, end)
        self.due = grown(self.due, int(self.g[k.G_DUE]) + 3 * rows + 4)
        self.rarest = grown(self.rarest, int(self.g[k.G_RAREST]) + rows + 4)

    def shrink_tuples(self) -> None:
        """Forget tuples that have left, if they may be many."""
        if self.tuples.n > 2 * int(self.g[k.G_TUPLES]) + SPARE + self.n // 4:
            self.compact_tuples()

    def compact_tuples(self) -> None:
        """Keep only the tuples in windows, those of one subwindow together."""
        held = np.flatnonzero(self.subs[: self.n, k.S_SIZE] > 0)
        order = np.empty(int(self.g[k.G_TUPLES]), np.int64)
        held_rows.worth(self.worked)(held, self.subs, self.rows, order)
        self.tuples.keep(order)
        self.rows = self.rows[order]
        if len(self.evict_values):
            self.evict_values = self.evict_values[order]
        self.subs[: self.n, k.S_LAST] = k.NEVER
        relink.worth(self.worked)(held, self.subs, self.rows)

    def many_idle(self) -> bool:
        """Whether it pays to forget slots that nothing is known of any more."""
        return self.n > self.used + self.used // 2 + SPARE

    def used_slots(self) -> Array:
        """Slots that something is known of."""
        subs = self.subs[: self.n]
        return np.flatnonzero((subs[:, k.S_ALIVE] == 1) | (subs[:, k.S_PERIOD] != k.NO_TIME))

    def keep_slots(self, keep: Array) -> None:
        """Forget all slots but these, which get the numbers 0, 1, ...; their tuples must be compact."""
        self.subs, self.bases = self.subs[keep], self.bases[keep]
        self.last_evict, self.last_trigger = self.last_evict[keep], self.last_trigger[keep]
        self.n = self.used = len(keep)
        self.make_queues()

    def shrink_queues(self) -> None:
        """Forget what no longer holds in the queues, if it may be much."""
        live = int(self.g[k.G_LIVE])
        if self.g[k.G_DUE] > 4 * self.n + SPARE or self.g[k.G_RAREST] > 2 * live + SPARE:
            self.make_queues()

    def make_queues(self) -> None:
        """What is due, and the order in which partitions go, from what the subwindows know."""
        subs, config = self.subs[: self.n], self.config
        alive = np.flatnonzero(subs[:, k.S_ALIVE] == 1)
        parts = []
        if config[k.C_EVICT] == k.TIME:
            parts.append((k.DUE_EVICT, alive, k.S_EVICT_DUE))
            parts.append((k.DUE_FORGET, np.arange(self.n), k.S_PERIOD))
        if config[k.C_TRIGGER] == k.TIME:
            parts.append((k.DUE_TRIGGER, alive, k.S_TRIGGER_DUE))
        entries = [_lines(4)]
        for what, slots, column in parts:
            slots = slots[subs[slots, column] != k.NO_TIME]
            entries.append(
                np.column_stack((subs[slots, column], np.full(len(slots), what), subs[slots, k.S_CREATED], slots))
            )
        self.due = _sorted(np.concatenate(entries))
        self.g[k.G_DUE] = len(self.due)
        self.g[[k.G_FIRST, k.G_LAST]] = k.NEVER
        self.rarest, self.g[k.G_RAREST] = _lines(4), 0
        if config[k.C_LIMIT] == k.NO_LIMIT:
            return
        if config[k.C_SELECT] == k.LFU and config[k.C_LIMIT] != k.AGE:
            columns = (subs[alive, k.S_UPDATES], subs[alive, k.S_UPDATED], alive, np.zeros(len(alive), np.int64))
            self.rarest = _sorted(np.column_stack(columns))
            self.g[k.G_RAREST] = len(alive)
            return
        by_recency = config[k.C_SELECT] == k.LRU or config[k.C_LIMIT] == k.AGE
        order = alive[np.argsort(subs[alive, k.S_UPDATED if by_recency else k.S_CREATED], kind="stable")]
        if len(order):
            subs[order, k.S_BEFORE] = np.concatenate(([k.NEVER], order[:-1]))
            subs[order, k.S_AFTER] = np.concatenate((order[1:], [k.NEVER]))
            self.g[k.G_FIRST], self.g[k.G_LAST] = order[0], order[-1]


def _sorted(entries: Array) -> Array:
    """A sorted list is a heap."""
    return entries[np.lexsort((entries[:, 2], entries[:, 1], entries[:, 0]))]
