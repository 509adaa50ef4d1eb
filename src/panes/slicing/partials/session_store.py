"""Sessions of one query, of all keys: they open, grow, merge and close, in whatever order rows come.

A session is [first, end): `end` is the largest time + gap of its rows, and a row up to and including `end`
joins. Per key the newest session (the *head*) is found at once; a batch that only extends heads or opens
newer sessions touches nothing else. Whatever lands among older sessions is sorted in with those of its key that it
touches, or if much does, with all of them. Rows are never needed (SPEC S-30).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from panes.aggregates.base import Cells
from panes.slicing.lane import Agg
from panes.slicing.partials.cells import Buffer, cell_bank
from panes.slicing.partials.lifting import running_max
from panes.slicing.partials.session_order import ByEnd, KeySessions, SessionOrder
from panes.slicing.partials.store import order_by, segments
from panes.state.bank import Bank, BankColumn
from panes.state.journal import Journal, Replaced, Watched
from panes.windows.base import ALWAYS, NEVER

Array = np.ndarray

FREE, OPEN, GIVEN = 0, 1, 2
#: Sessions around a piece are looked for one by one if there are so many sessions per piece.
_SPARSE = 16
#: Lists of sessions that were opened may be so many before they become one.
_LISTS = 64
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class Pieces:
    """Parts of sessions of one query: disjoint, ordered by slot, then time."""

    slots: Array
    first: Array
    end: Array
    cells: tuple[Cells, ...]

    def __len__(self) -> int:
        return len(self.slots)

    def take(self, index: Array) -> Pieces:
        cells = tuple(c.take(index) for c in self.cells)
        return Pieces(self.slots[index], self.first[index], self.end[index], cells)


#: what is known of a session by its number
_OF_SESSION = {
    "slot": BankColumn(np.int64(0)),
    "first": BankColumn(np.int64(0)),
    "end": BankColumn(np.int64(0)),
    "state": BankColumn(np.uint8(FREE)),
}
#: and of a key: its newest session, or -1, and when no other session of it ends later
_OF_KEY = {"head": BankColumn(np.int64(-1)), "floor": BankColumn(np.int64(ALWAYS))}


class SessionStore:
    """Sessions by number (`id`); numbers of sessions that are gone are used again."""

    replaced = Replaced(
        *("combines", "updates", "merges", "slot", "first", "end", "state", "_head", "_floor"),
        *("_next", "_opened", "_reopened"),
    )

    def __init__(self, aggs: Sequence[Agg], journal: Journal | None = None) -> None:
        self._aggs = tuple(a.bound for a in aggs)
        self._journal = journal or Journal()
        self._banks = [cell_bank(a, self._journal) for a in self._aggs]
        self.combines = 0
        #: how often sessions that were there took more rows, and how many became part of another
        self.updates = 0
        self.merges = 0
        self._sessions = Bank(_OF_SESSION, self._journal)
        self._keys = Bank(_OF_KEY, self._journal)
        self._free = Buffer(self._journal, np.dtype(np.int64))
        self._next = NEVER  # no open session ends before this
        self._opened: list[Array] = []  # sessions, among them all that are open
        self._reopened = False  # whether a number may be there twice
        self._given = ByEnd()  # sessions, among them all that were given
        self._order: SessionOrder | None = None  # can be made at any time
        self._at_hand()

    def __len__(self) -> int:
        return len(self.state) - len(self._free.values)

    def _at_hand(self) -> None:
        """Columns are others."""
        of_session, of_key = self._sessions.columns, self._keys.columns
        self.slot, self.first, self.end = of_session["slot"], of_session["first"], of_session["end"]
        self.state = of_session["state"]
        self._head, self._floor = of_key["head"], of_key["floor"]

    def begin(self) -> list[Watched]:
        """A call begins: objects whose attributes it may replace."""
        self._journal.keep_length(self._opened)
        self._journal.undo_by(self._lose_order)
        self._free.begin()
        banks = (each for bank in self._banks for each in bank.begin())
        return [self, self._sessions, self._keys, self._given, self._free, *banks]

    def _lose_order(self) -> None:
        self._order = None

    def _ordered(self) -> SessionOrder:
        if self._order is None:
            ids = self.held(None)
            self._order = SessionOrder(self.slot[ids], ids)
        return self._order

    def mark(self, ids: Array, state: int) -> None:
        """Sessions become open, given or free."""
        if self._journal.changed.epochs:
            self._journal.changed.note(self.slot[ids])
        self._journal.keep(self.state, ids)
        self.state[ids] = state
        if state == GIVEN:
            self._given.add(self.end[ids], ids)

    def _note_open(self, ids: Array, *, again: bool) -> None:
        """Sessions are open; `again`: those that may have been before."""
        self._opened.append(ids)
        self._reopened |= again
        if len(self._opened) > _LISTS:
            self._opened, self._reopened = [self._open_ids()], False

    def _open_ids(self) -> Array:
        """All sessions that are open."""
        ids = self._opened[0] if len(self._opened) == 1 else np.concatenate([_NONE, *self._opened])
        ids = ids[self.state[ids] == OPEN]
        return np.unique(ids) if self._reopened else ids

    def _set(self, column: Array, where: Array | slice, values: object, old: Array | None = None) -> None:
        if old is None:
            self._journal.keep(column, where)
        else:
            self._journal.saw(column, where, old)
        column[where] = values

    @property
    def open(self) -> int:
        return int(np.count_nonzero(self.state == OPEN))

    @property
    def next_due(self) -> int:
        """No session is due before the watermark is past this."""
        return self._next

    @property
    def nbytes(self) -> int:
        return self._sessions.nbytes + self._keys.nbytes + sum(b.nbytes for b in self._banks)

    def add(self, slots: Array, first: Array, end: Array, cells: tuple[Cells, ...], *, apart: bool) -> None:
        """Take sets of rows, each within one session. `apart`: no two are of the same key."""
        pieces = Pieces(slots, first, end, cells)
        if not apart:
            pieces = self._joined(pieces)
        self._room(int(pieces.slots.max()) + 1)
        head = self._head[pieces.slots]
        has = head >= 0
        beyond = ~has
        touches = np.zeros(len(pieces), bool)
        if has.any():
            held_first = np.where(has, self.first[head], NEVER)
            held_end = np.where(has, self.end[head], ALWAYS)
            beyond |= pieces.first > held_end
            touches = ~beyond & (pieces.end >= held_first) & (pieces.first > self._floor[pieces.slots])
            odd = ~(beyond | touches)
            if odd.any():
                marked = np.zeros(len(self._head), bool)
                marked[pieces.slots[odd]] = True
                among = marked[pieces.slots]
                some = pieces.take(np.flatnonzero(among))
                if len(some) * _SPARSE < len(self):
                    self._sort_in_few(some)
                else:
                    self._sort_in_all(some, marked)
                beyond &= ~among
                touches &= ~among
        if touches.any():
            self._extend(pieces if touches.all() else pieces.take(np.flatnonzero(touches)))
        if beyond.any():
            self._open_newer(pieces if beyond.all() else pieces.take(np.flatnonzero(beyond)))

    def _joined(self, pieces: Pieces) -> Pieces:
        """Pieces in order, those that touch each other joined."""
        order, cut, reach = runs(pieces.slots, pieces.first, pieces.end)
        heads = np.flatnonzero(cut)
        offsets = np.append(heads, len(cut))
        self.combines += len(cut) - len(heads)
        cells = tuple(a.fold(c.take(order), offsets) for a, c in zip(self._aggs, pieces.cells))
        return Pieces(pieces.slots[order[heads]], pieces.first[order[heads]], reach[offsets[1:] - 1], cells)

    def _extend(self, pieces: Pieces) -> None:
        """Pieces that touch the head of their key and no other session."""
        bounds = segments(pieces.slots) if len(pieces) > 1 else np.array([0, 1])
        heads, tails = bounds[:-1], bounds[1:] - 1
        cells = pieces.cells
        if len(heads) < len(pieces):
            cells = tuple(a.fold(c, bounds) for a, c in zip(self._aggs, cells))
        ids = self._head[pieces.slots[heads]]
        first, end = self.first[ids], self.end[ids]
        self._set(self.first, ids, np.minimum(first, pieces.first[heads]), first)
        self._set(self.end, ids, np.maximum(end, pieces.end[tails]), end)
        for bank, cell in zip(self._banks, cells):
            bank.add(ids, cell)
        self.combines += len(pieces)
        self.updates += len(ids)

    def _open_newer(self, pieces: Pieces) -> Array:
        """Pieces that lie after the head of their key: each is a session, the last one the new head."""
        ids = self._new(pieces)
        bounds = segments(pieces.slots) if len(pieces) > 1 else np.array([0, 1])
        last = bounds[1:] - 1
        slots = pieces.slots[last]
        head = self._head[slots]
        floor = np.where(head >= 0, self.end[head], ALWAYS)
        several = last > bounds[:-1]
        floor[several] = pieces.end[last[several] - 1]
        was = self._floor[slots]
        self._set(self._floor, slots, np.maximum(was, floor), was)
        self._set(self._head, slots, ids[last], head)
        if self._order is not None:
            self._order.opened(pieces.slots, ids)
            if self._order.count > 2 * len(self) + _LISTS:
                self._order = None  # most of what it knows is gone
        return ids

    def _sort_in_all(self, pieces: Pieces, marked: Array) -> None:
        """Pieces that may touch any session of their key; `marked` are the slots in question."""
        self._order = None
        slots, ids, _ = self._sort_in(pieces, np.flatnonzero((self.state != FREE) & marked[self.slot]))
        newest = np.append(slots[1:] != slots[:-1], True)
        oldest = np.append(True, newest[:-1])
        self._set(self._head, slots[newest], ids[newest])
        self._set(self._floor, slots[newest], np.where(oldest, ALWAYS, np.roll(self.end[ids], 1))[newest])

    def _sort_in_few(self, pieces: Pieces) -> None:
        """The same, where only those sessions are looked at that pieces touch."""
        order = self._ordered()
        keys = [order.of(slot) for slot in pieces.slots.tolist()]
        bounds = zip(keys, pieces.first.tolist(), pieces.end.tolist())
        places = [mine.touching(first, end, self.first, self.end) for mine, first, end in bounds]
        touched = [number for mine, (lo, hi) in zip(keys, places) for number in mine[lo:hi]]
        _, ids, session = self._sort_in(pieces, np.unique(np.array(touched, np.int64)))
        after: tuple[KeySessions, int, int, int] | None = None
        for mine, (lo, hi), number in zip(keys[::-1], places[::-1], ids[session].tolist()[::-1]):
            if after is not None and after[3] == number:
                hi = after[2]  # two pieces have become part of one session
            elif after is not None:
                after[0].put(*after[1:])
            after = mine, lo, hi, number
        if after is not None:
            after[0].put(*after[1:])
        for slot in dict.fromkeys(pieces.slots.tolist()):
            newest = order.of(slot).newest(2)
            self._set(self._head, slice(slot, slot + 1), newest[-1])
            self._set(self._floor, slice(slot, slot + 1), self.end[newest[0]] if len(newest) > 1 else ALWAYS)

    def _sort_in(self, pieces: Pieces, held: Array) -> tuple[Array, Array, Array]:
        """Pieces and the sessions that they may touch become sessions, by slot and time: the slots and numbers of
        those, and of each piece which of them it is part of."""
        slots = np.concatenate((self.slot[held], pieces.slots))
        first = np.concatenate((self.first[held], pieces.first))
        order, cut, reach = runs(slots, first, np.concatenate((self.end[held], pieces.end)))
        heads = np.flatnonzero(cut)
        tails = np.append(heads[1:], len(cut)) - 1
        slots, first, end = slots[order[heads]], first[order[heads]], reach[tails]
        session = np.empty(len(order), np.int64)  # the session to be that each one belongs to
        session[order] = np.cumsum(cut) - 1
        ids = np.full(len(heads), -1)  # a held session goes on as it, if there is one
        ids[session[: len(held)][::-1]] = held[::-1]
        fresh = np.flatnonzero(ids < 0)
        none = tuple(a.empty(len(fresh)) for a in self._aggs)
        ids[fresh] = self._new(Pieces(slots[fresh], first[fresh], end[fresh], none))
        target = ids[session]
        absorbed = np.flatnonzero(target[: len(held)] != held)
        self.merges += len(absorbed)
        self.updates += int(np.isin(np.unique(target[len(held) :]), held).sum())
        self._combine(held[absorbed], np.concatenate((target[: len(held)][absorbed], target[len(held) :])), pieces)
        if len(absorbed):
            self.mark(target[absorbed], OPEN)
            self._note_open(target[absorbed], again=True)
        self._set(self.first, ids, first)
        self._set(self.end, ids, end)
        return slots, ids, session[len(held) :]

    def _combine(self, absorbed: Array, target: Array, pieces: Pieces) -> None:
        """Held sessions, then pieces, go into the sessions `target`."""
        order = np.argsort(target, kind="stable")
        bounds = segments(target[order])
        into = target[order[bounds[:-1]]]
        for agg, bank, cells in zip(self._aggs, self._banks, pieces.cells):
            both = Cells.concat([bank.take(absorbed), cells])
            bank.drop(absorbed)
            bank.add(into, agg.fold(both.take(order), bounds))
        self._reopened |= len(absorbed) > 0  # their numbers may be used again
        self._release(absorbed)
        self.combines += len(target)

    def due(self, watermark: int) -> Array:
        """Open sessions that ended before the watermark, by end."""
        if self._next >= watermark:
            return _NONE
        ids = self._open_ids()
        late = self.end[ids] < watermark
        left, ids = ids[~late], ids[late]
        self._opened, self._reopened = [left], False
        self._next = int(self.end[left].min(initial=NEVER))
        return ids[order_by(self.end[ids], self.first[ids], self.slot[ids])]

    def cells(self, ids: Array) -> tuple[Cells, ...]:
        return tuple(b.take(ids) for b in self._banks)

    def drop(self, ids: Array, *, due: bool = False) -> None:
        """Forget sessions; all older ones of their keys must be gone already, or go with them. `due`: as `due` gave
        them."""
        self._reopened |= not due
        slots = self.slot[ids]
        was_head = slots[self._head[slots] == ids]
        self._set(self._head, was_head, -1)
        self._set(self._floor, was_head, ALWAYS)
        for bank in self._banks:
            bank.drop(ids)
        if self._order is not None:
            self._order.dropped(slots)
        self._release(ids)

    def take_settled(self, progress: int) -> Array:
        """Given sessions that no row from `progress` on can join; they are to be dropped."""
        ids = self._given.take(progress)
        return ids[(self.state[ids] == GIVEN) & (self.end[ids] < progress)]

    def touching(self, slot: int, first: int, end: int) -> Array:
        """Sessions of a key that rows from `first` to `end` would join, in order."""
        if slot >= len(self._head) or self._head[slot] < 0:
            return _NONE
        mine = self._ordered().of(slot)
        lo, hi = mine.touching(first, end, self.first, self.end)
        return np.array(mine[lo:hi], np.int64)

    def ending(self, slots: Array, low: Array, high: Array) -> Array:
        """Of each of some keys the sessions that end at `low` or later; of those that end before `high`, the last."""
        if len(slots) * _SPARSE >= len(self):
            return np.flatnonzero(self.state != FREE)
        order, found = self._ordered(), []
        for slot, a, b in zip(slots.tolist(), low.tolist(), high.tolist()):
            mine = order.of(slot)
            found += mine[max(mine.ending(a, self.end), mine.ending(b, self.end) - 1) :]
        return np.array(found, np.int64)

    def give_again(self, ids: Array) -> None:
        self._reopened = True  # those that were open may be found where open ones are, and their numbers used again
        self.mark(ids, GIVEN)

    def open_of(self, slot: int, watermark: int) -> Array:
        """Open sessions of a key, in order."""
        if slot < len(self._head) and self._floor[slot] < watermark:  # of all its sessions only the newest can be open
            ids = self._head[slot : slot + 1]
        else:
            ids = self.touching(slot, ALWAYS, NEVER)
        return ids[(ids >= 0) & (self.state[ids] == OPEN)]

    def reopen(self, ids: Array) -> None:
        self.mark(ids, OPEN)
        self._note_open(ids, again=True)
        self._next = min(self._next, int(self.end[ids].min(initial=NEVER)))

    def held(self, slots: Array | None) -> Array:
        """All sessions, or those of these slots, by slot and time."""
        there = self.state != FREE
        if slots is not None:
            there &= np.isin(self.slot, slots)
        ids = np.flatnonzero(there)
        return ids[order_by(self.slot[ids], self.first[ids])]

    def used_slots(self) -> Array:
        """Slots of keys that have a session."""
        return np.flatnonzero(self._head >= 0)

    def renumber(self, moved: Array) -> None:
        """`moved[slot]` is the new slot of a key, -1 if it has no session; the order of keys stays."""
        self._order = None
        self.slot[:] = np.where(self.state != FREE, moved[self.slot], 0)
        self._keys.renumber(moved[: len(self._head)])
        self._at_hand()

    def load(self, pieces: Pieces, given: Array) -> None:
        """Take sessions of keys that have none here, by slot and time."""
        if len(pieces):
            self._room(int(pieces.slots.max()) + 1)
            ids = self._open_newer(pieces)
            self.mark(ids[given], GIVEN)

    def _new(self, pieces: Pieces) -> Array:
        n = len(pieces)
        free = len(self._free.values)
        if free < n:
            before = len(self._sessions)
            self._sessions.grow(max(16, 2 * before, before + n))
            self._free.put(free, np.arange(before, len(self._sessions))[::-1])
            self._at_hand()
            free = len(self._free.values)
        ids = self._free.values[free - n :][::-1].copy()
        self._free.put(free - n, _NONE)
        self._set(self.slot, ids, pieces.slots)
        self._set(self.first, ids, pieces.first)
        self._set(self.end, ids, pieces.end)
        self.mark(ids, OPEN)
        self._note_open(ids, again=False)
        self._next = min(self._next, int(pieces.end.min(initial=NEVER)))
        for bank, cells in zip(self._banks, pieces.cells):
            bank.put(ids, cells)
        return ids

    def _release(self, ids: Array) -> None:
        self.mark(ids, FREE)
        self._free.put(len(self._free.values), ids)

    def _room(self, slots: int) -> None:
        if slots > len(self._head) and self._keys.grow(slots):
            self._at_hand()


def runs(slots: Array, first: Array, end: Array) -> tuple[Array, Array, Array]:
    """Order by slot, then time; in that order, where a session begins, and the largest end so far of each slot."""
    order = order_by(slots, first)
    slots, first = slots[order], first[order]
    reach = running_max(end[order], np.cumsum(slots != np.roll(slots, 1)))
    cut = np.ones(len(slots), bool)
    cut[1:] = (slots[1:] != slots[:-1]) | (first[1:] > reach[:-1])
    return order, cut, reach
