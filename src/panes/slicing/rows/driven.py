"""Windows that rows decide on, one row after the other: discretizers, policies, and windows of users' own.

Each keeps its state per key in `KeyState`. Rows of a release go in, where slices must be cut and which windows
are complete comes out; the same when time passes, and at the end of the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from panes.errors import QueryError, naming
from panes.slicing.lane import RunningWindow
from panes.slicing.rows.key_state import KeyState
from panes.state.bank import BankColumn
from panes.windows.base import (
    ALWAYS,
    NEVER,
    Array,
    Closed,
    Discretizer,
    FreeForm,
    KeyRuns,
    MachineWindow,
    Running,
    Sessions,
)


class _Found:
    """Windows as they are found, and the first row that each key holds."""

    def __init__(self, form: FreeForm, heads: Array) -> None:
        self.form, self.heads = form, heads
        self.windows: list[tuple[int, int, int, int, int]] = []

    def give(self, slot: int, expired: int, end: int | None, stop: int, times: tuple[int, int]) -> None:
        """Rows leave; what is held of rows up to `stop` is a window, if it has an `end`.

        `times` are that of the last row before it, and that which events have reached: its end lies between them.
        """
        self.heads[slot] = head = min(int(self.heads[slot]) + expired, stop)
        if end is None or head == stop:
            return
        last, now = times
        if end != NEVER and not last <= end <= now:
            said = getattr(self.form, "user_code", repr(self.form))
            raise QueryError(
                f"{said} named the end {end}: it must lie from {last}, the time of the last row before it, to {now}, "
                "the time that events have reached"
            )
        # where it begins, the time of its first row, is filled in from the slice
        self.windows.append((slot, head, stop, ALWAYS, end))

    def by_time(self, slot: int, due: Iterable[tuple[int, int]], stop: int, times: tuple[int, int]) -> None:
        for expired, end in due:
            self.give(slot, expired, end, stop, times)

    def closed(self) -> Closed:
        return Closed(*np.array(self.windows, np.int64).reshape(-1, 5).T.copy())


def form_take(form: FreeForm, runs: KeyRuns, states: Array, heads: Array, last_times: Array) -> Closed:
    """Rows have come. `last_times`: per key the time of the row before them."""
    found = _Found(form, heads)
    times = runs.times.tolist()
    columns = {name: values.tolist() for name, values in runs.columns.items() if name in form.columns}
    for g, slot in enumerate(runs.slots.tolist()):
        if states[slot] is None:
            states[slot] = form.new_state()
            heads[slot] = runs.first_pos[g]
        state, position, last = states[slot], int(runs.first_pos[g]), int(last_times[slot])
        for i in range(int(runs.offsets[g]), int(runs.offsets[g + 1])):
            time = times[i]
            if form.timed:
                found.by_time(slot, form.on_time(state, time), position, (last, time))
            row = {name: values[i] for name, values in columns.items()}
            found.give(slot, *form.on_row(state, row, position, time), position, (last, time))
            position, last = position + 1, time
        if form.timed:  # the watermark may have been there before the row
            found.by_time(slot, form.on_time(state, last), position, (last, last))
    return found.closed()


def form_advance(form: FreeForm, watermark: int, states: Array, heads: Array, seen: Array, last_times: Array) -> Closed:
    """Event time has reached `watermark`. `seen`: how many rows each key has had."""
    if not form.timed:
        return Closed.none()
    found = _Found(form, heads)
    for slot in _known(states):
        last = int(last_times[slot])
        found.by_time(slot, form.on_time(states[slot], watermark), int(seen[slot]), (last, max(last, watermark)))
    return found.closed()


def form_finish(form: FreeForm, states: Array, heads: Array, seen: Array, last_times: Array) -> Closed:
    """End of stream."""
    found = _Found(form, heads)
    for slot in _known(states):
        state, stop, last = states[slot], int(seen[slot]), int(last_times[slot])
        found.by_time(slot, form.on_finish(state), stop, (last, NEVER))
    return found.closed()


def _known(states: Array) -> list[int]:
    return [slot for slot, state in enumerate(states) if state is not None]


#: windows that are complete, by the number of their query
Complete = list[tuple[int, Closed]]


class DrivenWindows:
    """The data-driven windows among some queries."""

    def __init__(self, queries: Sequence[RunningWindow], *, reduces: bool) -> None:
        """`reduces`: all aggregates can be computed from partials."""
        self._discretizers = [(q.number, q.window) for q in queries if isinstance(q.window, Discretizer)]
        self.free_forms = [(q.number, q.window) for q in queries if isinstance(q.window, FreeForm)]
        self.machines = [(q.number, q.window) for q in queries if isinstance(q.window, MachineWindow)]
        self._reduces = reduces
        all_ = (*self._discretizers, *self.free_forms, *self.machines)
        self.columns = {c for _, window in all_ for c in window.columns}
        #: the numbers of those that begin with the next row if they are added while running
        self.afresh = {number for number, window in all_ if not isinstance(window, Sessions)}

    def __bool__(self) -> bool:
        return bool(self._discretizers or self.free_forms or self.machines)

    @property
    def follow_time(self) -> bool:
        """Whether time alone may complete one."""
        return bool(self._discretizers or self.machines or any(form.timed for _, form in self.free_forms))

    @property
    def sessions_only(self) -> bool:
        return not (self.free_forms or self.machines) and all(isinstance(w, Sessions) for _, w in self._discretizers)

    def states(self) -> Mapping[int, Mapping[str, BankColumn]]:
        """Columns of state per key."""
        return {
            number: {name: BankColumn(default, name in window.packed) for name, default in window.state.items()}
            for number, window in self._discretizers
        }

    def starts(self) -> Mapping[int, Callable[[], Running]]:
        """How machines begin."""
        return {number: partial(window.start, reduces=self._reduces) for number, window in self.machines}

    def take(self, runs: KeyRuns, keys: KeyState, cut: Array) -> Complete:
        """Rows have come; `cut` is set before each at which a window begins or ends."""
        complete: Complete = []
        for number, window in self._discretizers:
            rows, at = self._seen_by(number, runs, keys)
            state = keys.window_state(number, rows.slots)
            keys.keep_user_objects(number, rows.slots)
            scanned = window.scan(rows, state)
            keys.store_window_state(number, rows.slots, state)
            cuts = scanned.cuts[scanned.cuts < len(rows)]
            cut[cuts if at is None else at[cuts]] = True
            complete.append((number, scanned.closed))
        for number, form in self.free_forms:
            rows, _ = self._seen_by(number, runs, keys)
            complete.append((number, form_take(form, rows, *keys.free_form(number, rows.slots), keys.last[0])))
        for number, machine in self.machines:
            rows, at = self._seen_by(number, runs, keys)
            if keys.journal.is_open:
                keys.journal.undo_by(keys.machines[number].saved(rows.slots))
            with naming(machine.where):
                scanned = keys.machines[number].take(rows)
            cut[scanned.cuts if at is None else at[scanned.cuts]] = True
            complete.append((number, scanned.closed))
        return complete

    def _seen_by(self, number: int, runs: KeyRuns, keys: KeyState) -> tuple[KeyRuns, Array | None]:
        """The rows that a window looks at, and where they are among all; None: they are all.

        One that was added while running looks at none before its own first one, though late rows have them replayed.
        """
        start = keys.given_from.get(number) if number in self.afresh else None
        if start is None:
            return runs, None
        if isinstance(start, np.ndarray):
            first = start[runs.slots]
        else:
            first = runs.first_pos + np.add.reduceat((runs.times <= start).astype(np.int64), runs.offsets[:-1])
        return (runs, None) if (runs.first_pos >= first).all() else runs.since(first)

    def advance(self, watermark: int, keys: KeyState) -> Complete:
        """Event time has reached `watermark`."""
        complete: Complete = []
        slots = np.arange(len(keys))
        for number, window in self._discretizers:
            state = keys.window_state(number, slots)
            asked = window.asked_by_time(state)
            keys.keep_user_objects(number, asked)
            closed = window.advance(watermark, slots, state)
            if len(asked):
                keys.journal.changed.note(slots[asked])
            if len(closed):
                keys.journal.changed.note(closed.slots)
                keys.store_window_state(number, slots, state)
                complete.append((number, closed))
        for number, form in self.free_forms:
            if form.timed:
                keys.journal.changed.note_all()
                known = (*keys.free_form(number, slots), keys.rows_seen, keys.last[0])
                complete.append((number, form_advance(form, watermark, *known)))
        for number, machine in self.machines:
            if keys.journal.is_open:
                keys.journal.undo_by(keys.machines[number].saved(None))
            if keys.machines[number].follows_time:
                keys.journal.changed.note_all()
            with naming(machine.where):
                complete.append((number, keys.machines[number].advance(watermark)))
        return complete

    def finish(self, keys: KeyState) -> Complete:
        """End of stream."""
        complete: Complete = []
        slots = np.arange(len(keys))
        for number, window in self._discretizers:
            keys.keep_user_objects(number, slots)
            complete.append((number, window.finish(slots, keys.window_state(number, slots), keys.rows_seen)))
        for number, form in self.free_forms:
            known = (*keys.free_form(number, slots), keys.rows_seen, keys.last[0])
            complete.append((number, form_finish(form, *known)))
        for number, _ in self.machines:
            if keys.journal.is_open:
                keys.journal.undo_by(keys.machines[number].saved(None))
            complete.append((number, keys.machines[number].finish()))
        return complete

    def needed_at_end(self, keys: KeyState) -> Array | None:
        """Per key the first position that a window at the end of the stream may begin at, though no slice does."""
        running = [keys.machines[number] for number, _ in self.machines if keys.machines[number].ends_in_rows]
        return np.minimum.reduce([machine.needed(len(keys)) for machine in running]) if running else None

    def open_from(self, keys: KeyState) -> Array:
        """Per key the first position that one of these windows still holds."""
        return keys.open_from(self._discretizers, self.free_forms)

    def next_deadlines(self, watermark: int, keys: KeyState) -> list[int]:
        """Before which watermark no session can end, for each query; only if there are sessions only."""
        found = []
        for number, window in self._discretizers:
            state = keys.windows[number]
            open_until = int(state["deadline"][state["open"]].min(initial=NEVER - 1))
            gap = getattr(window, "gap", None)
            found.append(min(open_until, watermark if gap is None else watermark + int(gap)) + 1)
        return found
