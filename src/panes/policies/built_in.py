"""Built-in policies at work on batches: columns in, windows as ranges of row positions out, many keys at once.

The flow itself is loops over arrays (triggers.py, evictions.py), plain ones for few rows and compiled ones for many.
This module keeps the state of keys as rows of words, feeds columns, and says where slices must be cut: at the edges of
windows found, and before every row that may become the first of a window.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from panes.errors import DataError
from panes.policies import built_in_state, specs
from panes.policies.arena import Arena
from panes.policies.borders import PLANS, Cutter
from panes.policies.evictions import FOUND, WRONG, run_all, run_alone
from panes.policies.loop import FEW, Loop
from panes.policies.program import COUNT, HEAD, SEEN, TAIL, TAIL_AT, Alone, Columns, alone, level, matches
from panes.policies.specs import Time, leaves
from panes.policies.triggers import Fakes, look
from panes.state.entries import Banks
from panes.windows.base import ALWAYS, NEVER, Array, Closed, KeyRuns, Running, Scanned

if TYPE_CHECKING:
    from panes.policies.policy import PolicyMachine

_NOTHING = np.empty(0, np.int64)
_NOBODY = np.zeros(1, bool)


class BuiltInPolicies(Running):
    """State of one policy window for all keys."""

    #: so many rows may be kept for nothing before anybody looks
    spare = 4096
    #: rows that plain loops look at, at most, and keys or rows of a restored state that are left to them
    few = FEW
    small = FEW // 10

    def __init__(self, machine: PolicyMachine, *, reduces: bool, general: bool = False) -> None:
        """`general`: read lines even where there is but one eviction."""
        self.machine = machine
        self.columns = Columns()
        both = bool(machine.central_evict and machine.evict)
        several = both or len(_leaves(machine.evict)) > 1
        self.own = level(
            machine.trigger, machine.evict, self.columns, several=several or bool(machine.central_evict),
            by_clock=_threads(machine.trigger),
        )  # fmt: skip
        self.centre = level(
            machine.central_trigger, machine.central_evict, self.columns,
            several=both or len(_leaves(machine.central_evict)) > 1, by_clock=_threads(machine.central_trigger),
        )  # fmt: skip
        self.central = machine.central
        self.alone = None if general or self.central else alone(self.own)
        self.by_clock = self.own.by_clock or self.centre.by_clock
        #: an eviction compares rows that are held, so they are kept
        self.keeps = self.own.evictions.keeps_rows or bool(machine.central_evict)
        self.cutter = Cutter(machine, reduces=reduces)
        self.states = np.zeros((0, 4 + len(self.own.words)), np.int64)
        self.floats = np.zeros((0, len(self.own.floats)))
        self.middle = np.concatenate((np.array([0, 0, 0, 1], np.int64), self.centre.words)).reshape(1, -1)
        self.middle_floats = self.centre.floats.reshape(1, -1).copy()
        self.arena = Arena(len(self.columns.ticks), len(self.columns.floats))
        #: per key: the time of its last row, and the position of the first row that this window saw
        self.notes = np.zeros((0, 2), np.int64)
        depth = max(len(s.lines) for s in (self.own.triggers, self.own.evictions, self.centre.triggers,
                                           self.centre.evictions))  # fmt: skip
        self._stacks = np.zeros((2, depth + 1), np.int64)
        self._out = np.empty((64, 4), np.int64)
        #: rows and windows so far
        self.worked = 0

    def _form(self, loop: Loop, found: int = 0) -> Callable[..., Any]:
        """What to run of a loop, for the rows there have been, and windows that it has found in this call.

        What is compiled already is soon the quicker form.
        """
        return loop.worth(self.worked + found, self.few // 50 if loop.is_compiled else self.few)

    @property
    def plan(self) -> str:
        return PLANS[self.cutter.plan]

    @property
    def ends_in_rows(self) -> bool:
        return self.cutter.ends_in_rows

    def take(self, rows: KeyRuns) -> Scanned:
        self.worked += len(rows)
        self._meet(rows)
        empty = self.states[rows.slots, HEAD] == self.states[rows.slots, TAIL]
        ticks, cols = self._read(rows)
        if self.central:
            closed = self._take_grouped(rows, ticks, cols, empty)
        else:
            closed = self._take_keys(rows, ticks, cols, empty)
        cuts = self.cutter.cuts(rows, closed, empty, self.states[rows.slots, HEAD], self.notes[rows.slots])
        self.notes[rows.slots, 0] = rows.times[rows.offsets[1:] - 1]
        return Scanned(closed, cuts)

    def _take_keys(self, rows: KeyRuns, ticks: Array, cols: Array, empty: Array) -> Closed:
        base = 0
        if self.keeps:
            base = self._keep_by_key(rows, ticks, cols)
            ticks, cols = self.arena.ticks, self.arena.cols
        fired, fakes = look(
            self.own, self._form, rows.slots, rows.offsets, self.states, self.floats, ticks, cols, base,
            empty=rows.offsets[:-1][empty],
        )  # fmt: skip
        if self.alone is not None:
            return self._run_alone(self.alone, rows, base, ticks, cols, fired, fakes)
        return self._run(rows.slots, rows.offsets, base, ticks, cols, fired, fakes, _NOBODY, Fakes.none(), rows.times)

    def _run_alone(
        self, evict: Alone, rows: KeyRuns, base: int, ticks: Array, cols: Array, fired: Array, fakes: Fakes
    ) -> Closed:
        """The same where there is one eviction, which looks at rows only."""
        states, slots, offsets, follows = self.states, rows.slots, rows.offsets, self.arena.follows
        due = np.flatnonzero(fired)
        ends, is_row = ticks[0, base + due], np.ones(len(due), bool)
        if len(fakes.row):
            if fakes.count.sum() > specs.MOST_FAKES:
                raise self.machine.too_many(int(rows.times.max()))
            before, at, timed = fakes.expanded()
            due, is_row = np.concatenate((before, due)), np.arange(len(before) + len(due)) >= len(before)
            order = np.lexsort((np.concatenate((at, ends)), is_row, due))
            ends = np.concatenate((np.where(timed, at, ticks[0, base + before]), ends))[order]
            due, is_row = due[order], is_row[order]
        if evict.queues:
            follows[base : base + len(rows)] = np.arange(base + 1, base + len(rows) + 1)
            follows[base + offsets[1:] - 1] = -1
            behind = states[slots, TAIL_AT]
            follows[behind[behind >= 0]] = base + offsets[:-1][behind >= 0]
            states[slots, TAIL_AT] = base + offsets[1:] - 1
        out = np.empty((len(due), 4), np.int64)
        n = self._form(run_alone)(
            evict.kind, evict.size, evict.limit, evict.column, evict.word, states, slots, offsets, base, ticks, cols,
            follows, due, ends, is_row, out,
        )  # fmt: skip
        if evict.kind == COUNT:
            states[slots, evict.word] = states[slots, TAIL] - states[slots, HEAD] + evict.start
        return self._closed(out, n)

    def _take_grouped(self, rows: KeyRuns, ticks: Array, cols: Array, empty: Array) -> Closed:
        """Triggers of keys are looked at key by key, central ones and all that follows in the order of arrival."""
        n, offsets = len(rows), rows.offsets
        fired, fakes = look(
            self.own, self._form, rows.slots, offsets, self.states, self.floats, ticks, cols, 0,
            empty=offsets[:-1][empty],
        )  # fmt: skip
        owner, positions = rows.slots.repeat(np.diff(offsets)), rows.positions()
        if rows.arrival is not None:
            back = np.empty(n, np.int64)
            back[rows.arrival] = np.arange(n)
            ticks, cols = ticks.take(back, axis=1), cols.take(back, axis=1)
            owner, positions, fired = owner[back], positions[back], fired[back]
            fakes = fakes.at(rows.arrival)
        anybody = bool(((self.states[:, TAIL] > self.states[:, HEAD]) & (self.states[:, SEEN] == 1)).any())
        c_fired, c_fakes = look(
            self.centre, self._form, np.zeros(1, np.int64), np.array([0, n]), self.middle, self.middle_floats, ticks,
            cols, 0, empty=np.arange(0 if anybody else 1),
        )  # fmt: skip
        base = 0
        if self.keeps:
            base = self._keep(ticks, cols, owner, positions)
            ticks, cols = self.arena.ticks, self.arena.cols
        return self._run(owner, np.arange(n + 1), base, ticks, cols, fired, fakes, c_fired, c_fakes, rows.times)

    def _run(
        self, slots: Array, offsets: Array, base: int, ticks: Array, cols: Array, fired: Array, fakes: Fakes,
        c_fired: Array, c_fakes: Fakes, times: Array, *, with_rows: bool = True,
    ) -> Closed:  # fmt: skip
        """Windows of rows from `base` on, those of slots[g] from offsets[g] on, after triggers were asked.

        DataError if timer ticks up to these times gave too much.
        """
        own, centre, arena = self.own.evictions, self.centre.evictions, self.arena
        meta, done = np.array([0, -1, 0]), 0
        while True:  # in as many calls as it needs room for windows, which timer ticks may make many of few rows
            done = self._form(run_all, int(meta[FOUND]))(
                own.lines, own.limits, own.keeps_rows, with_rows, self.states, slots, offsets, base, ticks, cols,
                arena.follows, fired, *fakes.columns(), centre.lines, centre.limits,
                self.middle if self.central else self.middle[:0], self.centre.by_clock, arena.slots, arena.positions,
                c_fired, *c_fakes.columns(), done, self._out, meta, specs.MOST_FAKES, *self._stacks,
            )  # fmt: skip
            if meta[WRONG] >= 0:
                raise self.machine.too_many(int(times.max()))
            if done == offsets[-1]:
                break
            wider = np.empty((2 * len(self._out) + len(self.states), 4), np.int64)
            wider[: len(self._out)] = self._out
            self._out = wider
        return self._closed(self._out, int(meta[FOUND]))

    def _closed(self, out: Array, n: int) -> Closed:
        self.worked += n
        slots, starts, stops, ends = (out[:n, i].copy() for i in range(4))
        return Closed(slots, starts, stops, np.full(n, ALWAYS), ends)

    def _keep_by_key(self, rows: KeyRuns, ticks: Array, cols: Array) -> int:
        if len(rows.slots) == 1:  # as many streams have it: no list of owners is needed
            return self._keep(ticks, cols, int(rows.slots[0]), int(rows.first_pos[0]))
        return self._keep(ticks, cols, rows.slots.repeat(np.diff(rows.offsets)), rows.positions())

    def _keep(self, ticks: Array, cols: Array, owner: Array | int, positions: Array | int) -> int:
        """Rows go to the arena; the place of the first."""
        self._forget()
        return self.arena.append(ticks, cols, owner, positions)

    def _meet(self, rows: KeyRuns) -> None:
        """Room for all slots, and the first state of keys that are new."""
        self.grow(int(rows.slots[-1]) + 1 if len(rows.slots) else 0)
        new = self.states[rows.slots, TAIL] == -1
        if not new.any():
            return
        slots, first = rows.slots[new], rows.first_pos[new]
        self.states[slots, HEAD] = self.states[slots, TAIL] = self.notes[slots, 1] = first
        self.states[slots, TAIL_AT] = -1
        # with central policies a key is seen when its first row is: a trigger before that row is not for it
        self.states[slots, SEEN] = 0 if self.central else 1
        self.states[slots, 4:] = self.own.words
        for word in self.own.own_heads:
            self.states[slots, word] = first
        self.floats[slots] = self.own.floats

    def grow(self, n: int) -> None:
        have = len(self.states)
        if n <= have:
            return
        # exactly as many as there are keys: a central trigger asks them all
        more = np.zeros((n - have, self.states.shape[1]), np.int64)
        more[:, TAIL] = -1
        self.states = np.concatenate((self.states, more))
        self.floats = np.concatenate((self.floats, np.zeros((n - have, self.floats.shape[1]))))
        self.notes = np.concatenate((self.notes, np.full((n - have, 2), ALWAYS)))

    def _read(self, rows: KeyRuns) -> tuple[Array, Array]:
        """What policies compare, as matrices with a line per column."""
        names, floats = self.columns.ticks, self.columns.floats
        if len(names) == 1:
            copied = rows.times.flags.writeable or (self.keeps and not self.central)
            times = rows.times if copied else rows.times.copy()
            ticks = times.reshape(1, -1)  # writable or not: compiled code is made for one kind
        else:
            ticks = np.stack([rows.times if n is None else _whole(n, rows) for n in names])
        cols = np.empty((len(floats), len(rows)))
        for i, (name, sample) in enumerate(floats):
            if sample is not None:
                cols[i] = matches(sample, [rows.columns[c] for c in sample.on])
            else:
                cols[i] = _numbers(name, rows)
        return ticks, cols

    @property
    def follows_time(self) -> bool:
        return self.by_clock

    def advance(self, watermark: int) -> Closed:
        if not self.by_clock or not len(self.states):
            return Closed.none()
        arena, central = self.arena, self.centre.by_clock
        owner = np.zeros(1, np.int64) if central else np.flatnonzero(self.states[:, SEEN])
        level, states, floats = (
            (self.centre, self.middle, self.middle_floats) if central else (self.own, self.states, self.floats)
        )
        held = self.states[owner, HEAD] < self.states[owner, TAIL]
        n, now = len(owner), np.full((len(arena.ticks), len(owner)), watermark)
        fired, fakes = look(
            level, self._form, owner, np.arange(n + 1), states, floats, now, np.empty((0, n)), 0,
            empty=_NOTHING if central else np.flatnonzero(~held), fakes_only=True,
        )  # fmt: skip
        own, c_fakes = (Fakes.none(), fakes) if central else (fakes, Fakes.none())
        return self._run(
            owner, np.arange(n + 1), 0, arena.ticks, arena.cols, fired, own, fired, c_fakes, now[0], with_rows=False
        )

    def finish(self) -> Closed:
        if not self.machine.end:
            return Closed.none()
        slots = np.flatnonzero((self.states[:, TAIL] > self.states[:, HEAD]) & (self.states[:, TAIL] >= 0))
        held = self.states[slots]
        return Closed(slots, held[:, HEAD], held[:, TAIL], np.full(len(slots), ALWAYS), np.full(len(slots), NEVER))

    def needed(self, slots: int) -> Array:
        out = np.full(slots, NEVER)
        known = self.states[:slots]
        out[: len(known)] = np.where(known[:, TAIL] < 0, NEVER, known[:, HEAD])
        return out

    def reached(self, slots: int) -> Array:
        out = np.full(slots, NEVER)
        tails = self.states[:slots, TAIL]
        out[: len(tails)] = np.where(tails < 0, NEVER, tails)
        return out

    def _forget(self) -> None:
        """Give up places of rows that nobody compares any more, when they are half of all."""
        arena = self.arena
        if arena.size < self.spare:
            return
        if len(self.states) == 1 and len(self.own.own_heads) == 1 and not self.central:
            word = self.own.own_heads[0]
            first = int(self.states[0, word + 1]) if self.states[0, word] < self.states[0, TAIL] else arena.size
            arena.keep_from(first)
            self.states[0, TAIL_AT] -= first
            self.states[0, word + 1] -= first
            return
        kept = self._live()
        if 2 * np.count_nonzero(kept) < arena.size:
            self._move(arena.keep(kept))

    def _live(self) -> Array:
        """The rows that an eviction may still look at."""
        arena, middle = self.arena, self.middle[0]
        for word in self.centre.own_heads:
            if middle[word] < middle[HEAD]:  # it would notice with the next row, but by then the rows are gone
                middle[word], middle[word + 1] = middle[HEAD], middle[TAIL_AT]
        kept = np.zeros(arena.size, bool)
        if self.own.evictions.keeps_rows:
            first = np.min([self.states[:, word] for word in self.own.own_heads], axis=0)
            kept |= arena.positions[: arena.size] >= first[arena.slots[: arena.size]]
        if self.machine.central_evict and self.middle[0, TAIL] > self.middle[0, HEAD]:
            kept[self.middle[0, TAIL_AT] :] = True
        return kept

    def _move(self, moved: Array) -> None:
        """Places have moved: so do all words that name one. Those of rows that are gone are never followed."""
        self.states, self.middle = self.states.copy(), self.middle.copy()  # a call that fails goes back to the old ones
        for word in (TAIL_AT, *(w + 1 for w in self.own.own_heads)):
            self.states[:, word] = _moved(self.states[:, word], moved)
        for word in (TAIL_AT, *(w + 1 for w in self.centre.own_heads)):
            self.middle[:, word] = _moved(self.middle[:, word], moved)

    def saved(self, slots: Array | None) -> Callable[[], None]:
        if slots is None and not self.by_clock:
            return _nothing
        arena = self.arena.saved()
        arrays = self.states, self.floats, self.notes, self.middle, self.middle_floats
        # central policies, and time, may look at any key
        some = slice(None) if slots is None or self.central else slots[slots < len(self.states)]
        rows = [(a, some, a[some].copy()) for a in (self.states, self.floats, self.notes)]
        rows += [(a, slice(None), a.copy()) for a in (self.middle, self.middle_floats)]

        def put_back() -> None:
            self.states, self.floats, self.notes, self.middle, self.middle_floats = arrays
            arena()
            for array, where, values in rows:
                array[where] = values

        return put_back

    def select(self, slots: Array) -> BuiltInPolicies:
        self.grow(int(slots.max()) + 1 if len(slots) else 0)
        kept = self._rows_of(slots)
        part = copy(self)  # the program is shared, state is not
        part.states, part.floats = self.states[slots], self.floats[slots]
        part.notes = self.notes[slots]
        part.middle, part.middle_floats = self.middle.copy(), self.middle_floats.copy()
        part._stacks, part._out = self._stacks.copy(), np.empty((64, 4), np.int64)
        part.arena = self.arena.take(kept, np.searchsorted(slots, self.arena.slots[kept]))
        part.link(part.arena, np.arange(len(slots)))
        for word in (TAIL_AT, *(w + 1 for w in self.centre.own_heads)) if self.central else ():
            place = np.searchsorted(kept, self.middle[0, word])
            there = place < len(kept) and kept[place] == self.middle[0, word]
            part.middle[0, word] = place if there else -1
        return part

    def _rows_of(self, slots: Array) -> Array:
        """Places of the rows of these keys that an eviction may still look at."""
        if not self.keeps:
            return _NOTHING
        if len(slots) == 1 and not self.central:  # they follow each other: other keys cost nothing
            state = self.states[slots[0]]
            firsts = [(state[word], state[word + 1]) for word in self.own.own_heads if state[word] < state[TAIL]]
            return self.arena.chain(int(min(firsts)[1])) if firsts else _NOTHING
        arena, n = self.arena, self.arena.size
        kept = np.flatnonzero(self._live() & np.isin(arena.slots[:n], slots))
        # the centre sees rows of all keys as they came; otherwise keys have nothing to do with each other
        return kept if self.central else kept[np.lexsort((arena.positions[kept], arena.slots[kept]))]

    def link(self, arena: Arena, slots: Array) -> None:
        """Words that name places of rows, in an arena whose rows are those of these slots, follow from positions."""
        states = self.states[slots]
        words = [(TAIL_AT, states[:, TAIL] - 1), *((word + 1, states[:, word]) for word in self.own.own_heads)]
        for (word, _), places in zip(words, arena.link(slots, [positions for _, positions in words])):
            self.states[slots, word] = places

    def put(self, slots: Array, part: Running) -> None:
        assert isinstance(part, BuiltInPolicies)
        assert not self.central, "a late row is put in its place key by key"
        self.grow(int(slots.max()) + 1 if len(slots) else 0)
        arena = self.arena
        self._move(arena.keep(~np.isin(arena.slots[: arena.size], slots)))
        self.states[slots], self.floats[slots] = part.states, part.floats
        self.notes[slots] = part.notes
        self.adopt(part.arena, slots[part.arena.slots[: part.arena.size]], slots)

    def adopt(self, theirs: Arena, owners: Array, slots: Array) -> None:
        """Take over rows of these slots from another arena, whose places their words name."""
        n = theirs.size
        base = self.arena.append(theirs.ticks[:, :n], theirs.cols[:, :n], owners, theirs.positions[:n])
        follows = theirs.follows[:n]
        self.arena.follows[base : base + n] = np.where(follows >= 0, follows + base, -1)
        for word in (TAIL_AT, *(w + 1 for w in self.own.own_heads)):
            places = self.states[slots, word]
            self.states[slots, word] = np.where(places >= 0, places + base, -1)

    def banks(self) -> Banks:
        return built_in_state.banks_of(self)

    def check(self, slots: Array) -> None:
        built_in_state.check(self, slots)
        if max(len(self.states), self.arena.size) > self.small:
            self.worked = self.few + 1


def _nothing() -> None:
    """Nothing is to be put back."""


def _moved(places: Array, moved: Array) -> Array:
    ok = (places >= 0) & (places < len(moved))
    return np.where(ok, moved[np.where(ok, places, 0)], -1) if len(moved) else np.full(len(places), -1)


def _leaves(policies: tuple[object, ...]) -> list[object]:
    return [leaf for policy in policies for leaf in leaves(policy)]


def _threads(triggers: tuple[object, ...]) -> bool:
    return any(isinstance(p, Time) and p.thread for p in _leaves(triggers))


def _whole(name: str, rows: KeyRuns) -> Array:
    """A column as int64 that must not go back; DataError naming the row otherwise."""
    values = rows.columns[name]
    if values.dtype.kind not in "iu":
        bad = np.array([v is None or v != v or v != int(v) for v in values.tolist()], bool)
        if bad.any():
            at = int(np.flatnonzero(bad)[0])
            raise DataError(f"time(on={name!r}): the row at time {rows.times[at]} has {values[at]!r}, no whole number")
    return values.astype(np.int64)


def _numbers(name: str, rows: KeyRuns) -> Array:
    values = rows.columns[name]
    if values.dtype == object:
        try:
            return np.array([np.nan if v is None else float(v) for v in values], np.float64)
        except (TypeError, ValueError):
            raise DataError(f"delta(on={name!r}): the column holds values that are no numbers") from None
    return values.astype(np.float64)
