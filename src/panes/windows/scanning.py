"""What all discretizers share: from "a window begins / ends before this row" to closed windows and state.

A discretizer marks rows; `pair_up` turns marks into `Closed` windows for any number of keys at once, where at
most one window of a key is open at a time.
"""

from __future__ import annotations

import numpy as np

from panes.windows.base import NEVER, Array, Closed, Discretizer, KeyRuns, Scanned, StateDefaults

#: Per-key state of a window that may be open: since which row, and since when.
OPEN_STATE: StateDefaults = {"open": np.bool_(False), "start_pos": np.int64(0), "start": np.int64(0)}


def truth(values: Array) -> Array:
    """A predicate column as booleans; what is null, NaN or no boolean counts as false."""
    if values.dtype == bool:
        return values
    if values.dtype == object:
        return np.array([v is not None and v == v and bool(v) for v in values], bool)
    found: Array = (values == values) & (values != 0)
    return found


def numbers(values: Array) -> Array:
    """A column as float64, null as NaN."""
    if values.dtype == object:
        return np.array([np.nan if v is None else float(v) for v in values], np.float64)
    return values.astype(np.float64, copy=False)


def heads(rows: KeyRuns) -> tuple[Array, Array]:
    """(groups that have rows, the flat index of their first row)."""
    some = np.flatnonzero(np.diff(rows.offsets) > 0)
    return some, rows.offsets[some]


def before(rows: KeyRuns, values: Array, first: Array) -> Array:
    """For each row the value of the row before it; for the first of group i, first[i]."""
    out = np.empty_like(values)
    out[1:] = values[:-1]
    some, at = heads(rows)
    out[at] = first[some]
    return out


def stops_of_begins(rows: KeyRuns, begin: Array, is_open: Array) -> Array:
    """Where each begin ends the window before it: at all begins but the first of a key with none open."""
    at = np.flatnonzero(begin)
    groups = np.searchsorted(rows.offsets, at, side="right") - 1
    first = np.ones(len(at), bool)
    first[1:] = groups[1:] != groups[:-1]
    stop = np.zeros(len(begin), bool)
    stop[at[~first | is_open[groups]]] = True
    return stop


def pair_up(
    rows: KeyRuns,
    begin: Array,
    stop: Array,
    state: dict[str, Array],
    end: Array | None = None,
    *,
    with_stop: bool = False,
) -> Scanned:
    """Close the open window before each row in `stop`, open one at each row in `begin` (boolean per row).

    Every stop has a window to close, and windows don't overlap: the callers see to it. `end` holds the end of
    the window closed at a row; the row's time unless given. `with_stop`: the row that closes a window is its last.
    """
    begins, stops = np.flatnonzero(begin), np.flatnonzero(stop)
    groups = np.searchsorted(rows.offsets, stops, side="right") - 1
    opener = np.searchsorted(begins, stops, side="right" if with_stop else "left") - 1
    here = opener >= 0
    here[here] = begins[opener[here]] >= rows.offsets[groups[here]]
    opened_at = begins[opener[here]]
    start_pos, start = state["start_pos"][groups], state["start"][groups]
    start_pos[here], start[here] = _positions(rows, opened_at), rows.times[opened_at]
    closed = Closed(
        rows.slots[groups],
        start_pos,
        _positions(rows, stops) + with_stop,
        start,
        (rows.times if end is None else end)[stops],
    )
    _update_open(rows, begins, stops, state, with_stop)
    return Scanned(closed, begins if with_stop else np.flatnonzero(begin | stop))


def _positions(rows: KeyRuns, flat: Array) -> Array:
    groups = np.searchsorted(rows.offsets, flat, side="right") - 1
    positions: Array = rows.first_pos[groups] + flat - rows.offsets[groups]
    return positions


def _update_open(rows: KeyRuns, begins: Array, stops: Array, state: dict[str, Array], with_stop: bool) -> None:
    """What stays open after these begins and stops is known by the last of each key.

    Of a begin and a stop at one row the begin comes last, unless the row is in the window that it stops.
    """
    last_begin, last_stop = (_last_of_group(rows, marks) for marks in (begins, stops))
    opens = (last_begin > last_stop) if with_stop else (last_begin >= last_stop)
    state["open"][(last_stop >= 0) & ~opens] = False
    opened = np.flatnonzero((last_begin >= 0) & opens)
    state["open"][opened] = True
    state["start_pos"][opened] = _positions(rows, last_begin[opened])
    state["start"][opened] = rows.times[last_begin[opened]]


def _last_of_group(rows: KeyRuns, marks: Array) -> Array:
    """The last of the sorted row indexes `marks` in each group, -1 where there is none."""
    if not len(marks):
        return np.full(len(rows.slots), -1)
    at = np.searchsorted(marks, rows.offsets[1:], side="left") - 1
    last = np.where(at >= 0, marks[np.maximum(at, 0)], -1)
    return np.where(last >= rows.offsets[:-1], last, -1)


def close_all(which: Array, slots: Array, state: dict[str, Array], stop_pos: Array, end: Array) -> Closed:
    """Close the open windows of the keys in `which` (a mask) at `stop_pos`."""
    state["open"][which] = False
    return Closed(slots[which], state["start_pos"][which], stop_pos[which], state["start"][which], end[which])


class OneOpen(Discretizer):
    """At most one window of a key is open at a time."""

    @property
    def state(self) -> StateDefaults:
        return OPEN_STATE

    def finish(self, slots: Array, state: dict[str, Array], rows_seen: Array) -> Closed:
        """The end of the stream closes what is open; nobody knows when it would have ended."""
        return close_all(state["open"].copy(), slots, state, rows_seen, np.full(len(slots), NEVER))

    def open_from(self, state: dict[str, Array]) -> Array:
        return np.where(state["open"], state["start_pos"], NEVER)


def running_max(rows: KeyRuns, values: Array) -> Array:
    """The largest value so far within each group."""
    n, groups = len(values), len(rows.slots)
    if groups <= 1 or not n:
        return np.maximum.accumulate(values)
    # ranks keep the order of values and leave room to lift each group above the one before
    order = np.argsort(values, kind="stable")
    rank = np.empty(n, np.int64)
    rank[order] = np.arange(n)
    lifted = np.maximum.accumulate(rank + rows.group_of_row() * n)
    highest: Array = values[order[lifted % n]]
    return highest
