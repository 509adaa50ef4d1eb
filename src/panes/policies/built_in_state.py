"""The state of built-in policies in banks: numbers only, whatever the form in which loops run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from panes.errors import QueryError
from panes.policies.program import COLUMN, HEAD, KIND, SEEN, TAIL, TAIL_AT, TIME, WORD
from panes.state.checked import MANY, demand, one_row, within
from panes.state.entries import Entries, EntryBank, EntryColumn, Held, SlotMap, entry_columns
from panes.windows.base import Array

if TYPE_CHECKING:
    from panes.policies.built_in import BuiltInPolicies

_WORD, _FLOAT = EntryColumn(low=-MANY, high=MANY), EntryColumn(pa.float64())


def banks_of(running: BuiltInPolicies) -> dict[str, Held]:
    keys = PolicyKeys(running)
    return {"keys": keys, "rows": PolicyRows(keys), "centre": PolicyCentre(keys)}


class PolicyKeys(EntryBank):
    """What policies know of each key: words, fractions, the time of its last row, and the first that they saw."""

    def __init__(self, running: BuiltInPolicies) -> None:
        self.running = running
        words, floats = running.states.shape[1], running.floats.shape[1]
        self.declared = entry_columns("last_time", "origin", **_numbered("word", words, _WORD),
                                      **_numbered("float", floats, _FLOAT))  # fmt: skip
        #: of keys that were loaded
        self.slots = np.empty(0, np.int64)
        self._part: tuple[Array, BuiltInPolicies] | None = None

    def part(self, slots: Array) -> BuiltInPolicies:
        """The state of these keys alone, for all banks; that of the centre is there only with all keys."""
        if self._part is None or self._part[0] is not slots:
            running = self.running
            seen = np.flatnonzero(running.states[:, TAIL] >= 0)
            if running.central and len(slots) and not np.isin(seen, slots).all():
                raise QueryError(
                    "central policies have state that belongs to all keys: snapshot all key groups at once"
                )
            self._part = slots, running.select(slots)
        return self._part[1]

    def entries(self, slots: Array) -> Entries:
        part = self.part(slots)
        columns = (*part.notes.T, *part.states.T, *part.floats.T)
        return Entries(slots, {n: np.ascontiguousarray(c) for n, c in zip(self.declared, columns, strict=True)})

    def take_in(self, found: Entries) -> None:
        running, slots = self.running, found.slots
        demand(len(np.unique(slots)) == len(slots), "the state of one key is there twice")
        running.grow(int(slots.max()) + 1)
        both = np.column_stack([found.columns[name] for name in ("last_time", "origin")])
        running.notes[slots], self.slots = both, slots
        for name, states in (("word", running.states), ("float", running.floats)):
            for i in range(states.shape[1]):
                states[slots, i] = found.columns[f"{name}.{i}"]

    @property
    def nbytes(self) -> int:
        return self.running.states.nbytes + self.running.floats.nbytes


class PolicyRows(EntryBank):
    """Rows that an eviction may still compare."""

    def __init__(self, keys: PolicyKeys) -> None:
        self._keys, self._arena = keys, keys.running.arena
        ticks, cols = (
            _numbered("tick", len(self._arena.ticks), EntryColumn()),
            _numbered("col", len(self._arena.cols), _FLOAT),
        )
        self.declared = entry_columns("follows", position=EntryColumn(low=0), **ticks, **cols)

    def entries(self, slots: Array) -> Entries:
        arena = self._keys.part(slots).arena
        columns = (arena.follows, arena.positions, *arena.ticks, *arena.cols)
        found = {name: column[: arena.size] for name, column in zip(self.declared, columns, strict=True)}
        return Entries(slots[arena.slots[: arena.size]], found)

    def take_in(self, found: Entries) -> None:
        demand(np.isin(found.slots, self._keys.slots).all(), "rows of no key are kept")
        lines = [
            np.array([found.columns[f"{name}.{i}"] for i in range(len(into))], into.dtype).reshape(
                len(into), len(found.slots)
            )
            for name, into in (("tick", self._arena.ticks), ("col", self._arena.cols))
        ]
        self._arena.append(lines[0], lines[1], found.slots, found.columns["position"])

    @property
    def nbytes(self) -> int:
        return self._arena.nbytes


class PolicyCentre(Held):
    """The state of central policies, which is that of all keys together."""

    def __init__(self, keys: PolicyKeys) -> None:
        self._keys, self._running = keys, keys.running

    def dump(self, slots: Array) -> pa.Table:
        part = self._keys.part(slots)
        return pa.table({"word": part.middle.tolist(), "float": part.middle_floats.tolist()})

    def load(self, table: pa.Table, slot_map: SlotMap, name: str) -> None:
        centre, running = one_row(table, "centre"), self._running
        if not running.central or not len(self._keys.slots):
            return
        found = np.array([centre["word"]], np.int64), np.array([centre["float"]], np.float64)
        fits = [array.shape for array in found] == [running.middle.shape, running.middle_floats.shape]
        demand(fits, "central policies have too much state, or too little")
        running.middle, running.middle_floats = found

    @property
    def nbytes(self) -> int:
        return self._running.middle.nbytes + self._running.middle_floats.nbytes


def _numbered(name: str, count: int, column: EntryColumn) -> dict[str, EntryColumn]:
    return {f"{name}.{i}": column for i in range(count)}


def check(running: BuiltInPolicies, slots: Array) -> None:
    """Loops follow what they are given: every place that a word or a row names must be what it should be. Which row
    follows which is found out again."""
    running.grow(int(slots.max(initial=-1)) + 1)
    states, arena = running.states[slots], running.arena
    head, tail = states[:, HEAD], states[:, TAIL]
    seen = tail >= 0
    within(tail, "the number of rows of a key", low=-1)
    within(states[:, SEEN], "whether a key was seen", low=0, high=1)
    within(head[seen], "where a window begins", low=0, high=tail[seen])
    within(running.notes[slots, 1][seen], "the first row of a key", low=0, high=tail[seen])
    for line in running.own.triggers.lines.tolist():
        if line[KIND] == TIME and line[COLUMN] == 0:  # borders up to the last row have been given
            within(states[seen, line[WORD]], "the next border", low=running.notes[slots, 0][seen])
    owner, position = arena.slots[: arena.size], arena.positions[: arena.size]
    order = np.lexsort((position, owner))
    same = np.diff(owner[order]) == 0
    demand((np.diff(position[order])[same] == 1).all(), "rows that are kept of a key don't follow each other")
    demand((np.diff(order)[same] > 0).all(), "a row is followed by one that does not come after it")
    lasts = order[np.append(~same, True)[: len(order)]]
    demand((position[lasts] == running.states[owner[lasts], TAIL] - 1).all(), "the last row of a key is not kept")
    for word in running.own.own_heads:
        within(states[seen, word], "the first row that an eviction compares", low=0, high=tail[seen])
    if running.central:
        _check_centre(running, arena.size)
    running.link(arena, slots)
    for word in running.own.own_heads:
        lacking = (states[:, word] < tail) & (running.states[slots, word + 1] < 0)
        demand(not lacking.any(), "an eviction compares rows that are not kept")


def _check_centre(running: BuiltInPolicies, kept: int) -> None:
    middle = running.middle[0]
    within(middle, "the state of central policies", low=-MANY, high=MANY)
    head, tail = int(middle[HEAD]), int(middle[TAIL])
    demand(0 <= head <= tail, "central policies hold fewer rows than none")
    spans = [(int(middle[w + 1]), tail - int(middle[w])) for w in running.centre.own_heads]
    if running.machine.central_evict:
        spans.append((int(middle[TAIL_AT]), tail - head))
    for place, count in spans:
        demand(0 <= count <= kept and -1 <= place <= kept - count, "central policies compare rows that are not kept")
        demand(place >= 0 or not count, "central policies compare rows that are not kept")
