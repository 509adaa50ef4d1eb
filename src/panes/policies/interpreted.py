"""Policy windows with users' own Python code among the policies: the flow row by row, key by key.

The same contract as built_in.py. State is the policies themselves, so snapshots pickle it, in columns that say so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from copy import copy, deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from panes.errors import QueryError
from panes.policies import specs
from panes.policies.borders import PLANS, Cutter
from panes.policies.flow import Group, Grouped, policies_of
from panes.policies.specs import Time, leaves
from panes.policies.user import TIME
from panes.state import pickles
from panes.state.checked import columns_of, demand, numbers, one_row
from panes.state.entries import Banks, Held, SlotMap
from panes.windows.base import ALWAYS, NEVER, Array, Closed, KeyRuns, Running, Scanned

if TYPE_CHECKING:
    from panes.policies.policy import PolicyMachine

_STATE = "state" + pickles.PICKLED
_WHAT = "the state of a policy of your own"


class Interpreted(Running):
    """State of one policy window for all keys."""

    def __init__(self, machine: PolicyMachine, *, reduces: bool) -> None:
        self.machine = machine
        self.cutter = Cutter(machine, reduces=reduces)
        #: per key: the time of its last row, and the position of the first row that this window saw
        self.notes: dict[int, tuple[int, int]] = {}
        self._found: list[tuple[int, int, int, int]] = []
        self._thread = any(
            isinstance(p, Time) and p.thread for t in (*machine.trigger, *machine.central_trigger) for p in leaves(t)
        )
        self.grouped = Grouped(machine, self._group)
        self._first: dict[int, int] = {}
        self._until = ALWAYS  # the time that rows, or the clock, have come to

    @property
    def groups(self) -> dict[int, Group]:
        return self.grouped.groups

    def _group(self, slot: int) -> Group:
        return Group(slot, *policies_of(self.machine), self._emit, self._first.pop(slot, 0))

    def _emit(self, group: Group, when: Any) -> None:
        self._found.append((group.key, group.head, group.tail, when))
        if len(self._found) > specs.MOST_FAKES:
            raise self.machine.too_many(self._until)

    def take(self, rows: KeyRuns) -> Scanned:
        self._until = int(rows.times.max(initial=ALWAYS))
        columns = {name: rows.columns[name].tolist() for name in self.machine.columns}
        times = rows.times.tolist()
        names = (TIME, *columns)
        lists = (times, *columns.values())
        slots, firsts = rows.slots.tolist(), rows.first_pos.tolist()
        for slot, first in zip(slots, firsts):
            if slot not in self.groups:
                self._first[slot] = first
                self.notes[slot] = (ALWAYS, first)
        empty = np.array([slot not in self.groups or not self.groups[slot].size for slot in slots], bool)
        if self.machine.central:
            self._in_stream_order(rows, names, lists, times)
        else:
            self._key_by_key(rows, names, lists, times)
        closed = self._closed()
        heads = np.array([self.groups[slot].head for slot in slots], np.int64)
        notes = np.array([self.notes[slot] for slot in slots], np.int64)
        for slot, last in zip(slots, (rows.offsets[1:] - 1).tolist()):
            self.notes[slot] = (times[last], self.notes[slot][1])
        return Scanned(closed, self.cutter.cuts(rows, closed, empty, heads, notes))

    def _key_by_key(self, rows: KeyRuns, names: tuple[str, ...], lists: Any, times: list[int]) -> None:
        bounds = rows.offsets.tolist()
        for g, slot in enumerate(rows.slots.tolist()):
            group = self.grouped.group(slot)
            by_clock = bool(group.timers) and group.timers[0].spec.thread
            first, last = bounds[g], bounds[g + 1]
            if not group.active_triggers and len(group.triggers) == 1 and len(group.evictions) == 1:
                self._simple(group, names, [c[first:last] for c in lists])
                continue
            for i in range(first, last):
                row = dict(zip(names, [c[i] for c in lists]))
                if by_clock:
                    group.by_clock(times[i])
                group.process_real(row, times[i])

    def _simple(self, group: Group, names: tuple[str, ...], lists: list[list[Any]]) -> None:
        """One passive trigger and one eviction: the same flow without its generality."""
        fires, leave = group.triggers[0].notify, group.evictions[0].notify
        head, tail, found, key = group.head, group.tail, self._found, group.key
        for time, row in zip(lists[0], _rows(names, lists)):
            fired = fires(row)
            if fired and tail > head:
                found.append((key, head, tail, time))
            n = leave(row, fired, tail - head)
            if n:
                head = min(head + n, tail)
            tail += 1
        group.head, group.tail = head, tail

    def _in_stream_order(self, rows: KeyRuns, names: tuple[str, ...], lists: Any, times: list[int]) -> None:
        order = range(len(rows)) if rows.arrival is None else np.argsort(rows.arrival).tolist()
        owner = rows.slots.repeat(np.diff(rows.offsets)).tolist()
        for i in order:
            row = dict(zip(names, [c[i] for c in lists]))
            if self._thread:
                self.grouped.by_clock(times[i])
            self.grouped.process_real(owner[i], row, times[i])

    def _closed(self) -> Closed:
        found, self._found = self._found, []
        slots, starts, stops, ends = np.array(found, np.int64).reshape(-1, 4).T.copy()
        return Closed(slots, starts, stops, np.full(len(slots), ALWAYS), ends)

    @property
    def follows_time(self) -> bool:
        return self._thread

    def advance(self, watermark: int) -> Closed:
        if not self._thread:
            return Closed.none()
        self._until = watermark
        if self.machine.central:
            self.grouped.by_clock(watermark)
        else:
            for group in self.groups.values():
                group.by_clock(watermark)
        return self._closed()

    def finish(self) -> Closed:
        if self.machine.end:
            self._found += [(g.key, g.head, g.tail, NEVER) for g in self.groups.values() if g.size]
        return self._closed()

    def needed(self, slots: int) -> Array:
        out = np.full(slots, NEVER)
        for group in self.groups.values():
            out[group.key] = group.head
        return out

    def reached(self, slots: int) -> Array:
        out = np.full(slots, NEVER)
        for group in self.groups.values():
            out[group.key] = group.tail
        return out

    def saved(self, slots: Array | None) -> Callable[[], None]:
        grouped, groups = self.grouped, self.groups
        if slots is None:
            touched = list(groups) if self._thread else []
        else:
            touched = list(groups) if self.machine.central else [s for s in slots.tolist() if s in groups]
        known = set(groups)
        states = {s: (groups[s].head, groups[s].tail, pickles.saved(self._policies(groups[s]))) for s in touched}
        centre = pickles.saved((grouped.triggers, grouped.evictions)) if self.machine.central else None
        notes, rows, until = {s: self.notes[s] for s in touched}, list(grouped.rows), self._until

        def put_back() -> None:
            for slot in [s for s in self.notes if s not in known]:
                groups.pop(slot, None)
                del self.notes[slot]
            for slot, (head, tail, policies) in states.items():
                triggers, evictions = policies()
                group = Group(slot, triggers, evictions, self._emit)
                group.head, group.tail = head, tail
                groups[slot] = group
            self.notes.update(notes)
            self._found, self._first, self._until = [], {}, until
            if centre is not None:
                grouped.use(*centre())
                grouped.rows = deque(rows)

        return put_back

    @staticmethod
    def _policies(group: Group) -> tuple[Any, ...]:
        return group.triggers, group.evictions

    def select(self, slots: Array) -> Interpreted:
        part = copy(self)
        part._found, part._first = [], {}
        part.grouped = copy(self.grouped)
        part.grouped._new_group = part._group
        place = {int(s): i for i, s in enumerate(slots.tolist())}
        part.grouped.groups, part.notes = {}, {}
        for slot, group in self.groups.items():
            if slot in place:
                part.adopt(place[slot], self.state(group))
        part.grouped.use(*deepcopy((self.grouped.triggers, self.grouped.evictions)))
        part.grouped.rows = deque((place[slot], at) for slot, at in self.grouped.rows if slot in place)
        return part

    def adopt(self, slot: int, state: Any) -> None:
        triggers, evictions, head, tail, self.notes[slot] = deepcopy(state)
        group = Group(slot, triggers, evictions, self._emit)
        group.head, group.tail = head, tail
        self.groups[slot] = group

    def state(self, group: Group) -> tuple[Any, ...]:
        return group.triggers, group.evictions, group.head, group.tail, self.notes[group.key]

    def put(self, slots: Array, part: Running) -> None:
        assert isinstance(part, Interpreted)
        for i, slot in enumerate(slots.tolist()):
            if i in part.groups:
                self.adopt(slot, part.state(part.groups[i]))

    def banks(self) -> Banks:
        keys = KeyPolicies(self)
        return {"keys": keys, "centre": CentrePolicies(keys)}

    def check(self, slots: Array) -> None:
        """Objects of users are believed, or they are not read at all."""

    @property
    def plan(self) -> str:
        return PLANS[self.cutter.plan]

    @property
    def declares(self) -> str | None:
        return None if self.cutter.borders is None else self.cutter.borders.declared

    @property
    def ends_in_rows(self) -> bool:
        return self.cutter.ends_in_rows


class KeyPolicies(Held):
    """The policies of each key themselves."""

    def __init__(self, running: Interpreted) -> None:
        self.running, self.loaded = running, False

    def dump(self, slots: Array) -> pa.Table:
        running, wanted = self.running, set(slots.tolist())
        mine = [s for s in running.groups if s in wanted]
        if running.machine.central and mine and len(mine) < len(running.groups):
            raise QueryError("central policies have state that belongs to all keys: snapshot all key groups at once")
        states = [pickles.dumps(running.state(running.groups[s])) for s in mine]
        return pa.table({"slot": pa.array(mine, pa.int64()), _STATE: pa.array(states, pa.binary())})

    def load(self, table: pa.Table, slot_map: SlotMap, name: str) -> None:
        columns_of(table, name, {"slot": pa.int64(), _STATE: pa.binary()})
        self.loaded = table.num_rows > 0
        slots = slot_map[numbers(table, "slot")].tolist() if self.loaded else []
        for slot, state in zip(slots, table[_STATE].to_pylist()):
            demand(slot not in self.running.groups, "the state of one key is there twice")
            self.running.adopt(slot, pickles.loads(state, _WHAT))

    @property
    def nbytes(self) -> int:
        return 256 * len(self.running.groups)


class CentrePolicies(Held):
    """Those of all keys together."""

    nbytes = 0

    def __init__(self, keys: KeyPolicies) -> None:
        self._keys, self._grouped = keys, keys.running.grouped

    def dump(self, slots: Array) -> pa.Table:
        grouped = self._grouped
        centre = pickles.dumps((grouped.triggers, grouped.evictions, list(grouped.rows)))
        return pa.table({_STATE: pa.array([centre], pa.binary())})

    def load(self, table: pa.Table, slot_map: SlotMap, name: str) -> None:
        columns_of(table, name, {_STATE: pa.binary()})
        centre = one_row(table, name)
        if self._keys.loaded:
            triggers, evictions, rows = pickles.loads(centre[_STATE], _WHAT)
            self._grouped.use(triggers, evictions)
            self._grouped.rows.extend((int(slot_map[slot]), position) for slot, position in rows)


def _rows(names: tuple[str, ...], lists: list[list[Any]]) -> Iterator[dict[str, Any]]:
    """Rows as dicts; most policies look at no more than the time or one column beside it."""
    if len(names) == 1:
        (name,) = names
        return ({name: value} for value in lists[0])
    if len(names) == 2:
        first, second = names
        return ({first: one, second: two} for one, two in zip(*lists))
    return (dict(zip(names, values)) for values in zip(*lists))
