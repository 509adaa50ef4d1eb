"""Free-form windows at work: users' code says which rows leave, when what is held is a window, and when that ends.

Rows of a release go in, or the time that events have reached, or the end of the stream; out come windows. What is
remembered of a key is the user's state and the first row that is held.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from panes.errors import QueryError
from panes.windows.base import ALWAYS, NEVER, Array, Closed, FreeForm, KeyRuns


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


def take(form: FreeForm, runs: KeyRuns, states: Array, heads: Array, last_times: Array) -> Closed:
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


def advance(form: FreeForm, watermark: int, states: Array, heads: Array, seen: Array, last_times: Array) -> Closed:
    """Event time has reached `watermark`. `seen`: how many rows each key has had."""
    if not form.timed:
        return Closed.none()
    found = _Found(form, heads)
    for slot in _known(states):
        last = int(last_times[slot])
        found.by_time(slot, form.on_time(states[slot], watermark), int(seen[slot]), (last, max(last, watermark)))
    return found.closed()


def finish(form: FreeForm, states: Array, heads: Array, seen: Array, last_times: Array) -> Closed:
    """End of stream."""
    found = _Found(form, heads)
    for slot in _known(states):
        state, stop, last = states[slot], int(seen[slot]), int(last_times[slot])
        found.by_time(slot, form.on_finish(state), stop, (last, NEVER))
    return found.closed()


def _known(states: Array) -> list[int]:
    return [slot for slot, state in enumerate(states) if state is not None]
