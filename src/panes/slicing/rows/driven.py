"""Windows that rows decide on, one row after the other: discretizers, policies, and windows of users' own.

Each keeps its state per key in `KeyState`. Rows of a release go in, where slices must be cut and which windows
are complete comes out; the same when time passes, and at the end of the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from panes.errors import naming
from panes.slicing.lane import Query
from panes.slicing.rows import free_forms
from panes.slicing.rows.key_state import KeyState
from panes.windows.base import NEVER, Closed, Discretizer, FreeForm, KeyRuns, Machine, Running
from panes.windows.session import SessionScan

Array = np.ndarray

#: windows that are complete, by the number of their query
Complete = list[tuple[int, Closed]]


class DrivenWindows:
    """The data-driven windows among some queries."""

    def __init__(self, queries: Sequence[Query], *, reduces: bool) -> None:
        """`reduces`: all aggregates can be computed from partials."""
        self._discretizers = [(q.number, q.window) for q in queries if isinstance(q.window, Discretizer)]
        self.free_forms = [(q.number, q.window) for q in queries if isinstance(q.window, FreeForm)]
        self.machines = [(q.number, q.window) for q in queries if isinstance(q.window, Machine)]
        self._reduces = reduces
        all_ = (*self._discretizers, *self.free_forms, *self.machines)
        self.columns = {c for _, window in all_ for c in window.columns}

    def __bool__(self) -> bool:
        return bool(self._discretizers or self.free_forms or self.machines)

    @property
    def follow_time(self) -> bool:
        """Whether time alone may complete one."""
        return bool(self._discretizers or self.machines or any(form.timed for _, form in self.free_forms))

    @property
    def sessions_only(self) -> bool:
        return not (self.free_forms or self.machines) and all(isinstance(w, SessionScan) for _, w in self._discretizers)

    def states(self) -> Mapping[int, Mapping[str, Any]]:
        """Columns of state per key, with defaults."""
        return {number: window.state for number, window in self._discretizers}

    def starts(self) -> Mapping[int, Callable[[], Running]]:
        """How machines begin."""
        return {number: partial(window.start, reduces=self._reduces) for number, window in self.machines}

    def take(self, runs: KeyRuns, keys: KeyState, cut: Array) -> Complete:
        """Rows have come; `cut` is set before each at which a window begins or ends."""
        complete: Complete = []
        for number, window in self._discretizers:
            state = keys.window_state(number, runs.slots)
            keys.keep_user_objects(number, runs.slots)
            scanned = window.scan(runs, state)
            keys.store_window_state(number, runs.slots, state)
            cut[scanned.cuts[scanned.cuts < len(cut)]] = True
            complete.append((number, scanned.closed))
        for number, form in self.free_forms:
            complete.append((number, free_forms.take(form, runs, *keys.free_form(number, runs.slots), keys.last[0])))
        for number, machine in self.machines:
            if keys.journal.is_open:
                keys.journal.undo_by(keys.machines[number].saved(runs.slots))
            with naming(machine.where):
                scanned = keys.machines[number].take(runs)
            cut[scanned.cuts] = True
            complete.append((number, scanned.closed))
        return complete

    def advance(self, watermark: int, keys: KeyState) -> Complete:
        """Event time has reached `watermark`."""
        complete: Complete = []
        slots = np.arange(len(keys))
        for number, window in self._discretizers:
            state = keys.window_state(number, slots)
            keys.keep_user_objects(number, window.asked_by_time(state))
            closed = window.advance(watermark, slots, state)
            if len(closed):
                keys.store_window_state(number, slots, state)
                complete.append((number, closed))
        for number, form in self.free_forms:
            if form.timed:
                known = (*keys.free_form(number, slots), keys.rows_seen, keys.last[0])
                complete.append((number, free_forms.advance(form, watermark, *known)))
        for number, machine in self.machines:
            if keys.journal.is_open:
                keys.journal.undo_by(keys.machines[number].saved(None))
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
            complete.append((number, free_forms.finish(form, *known)))
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
