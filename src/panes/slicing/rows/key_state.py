"""What the row lane remembers of each key beside slices: counts, last values, state of data-driven windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from panes.slicing.window_set import WindowSet
from panes.state.journal import Journal, Replaced
from panes.windows.base import ALWAYS, NEVER, Discretizer, FreeForm, KeyRuns, Running

Array = np.ndarray


#: plain columns, one value per key, as attributes of KeyState
KEY_COLUMNS = ("rows_seen", "purged_time", "purged_pos", "sealed")


class KeyState:
    """Columns indexed by key slot."""

    replaced = Replaced(
        "rows_seen",
        "last",
        "purged_time",
        "purged_pos",
        "sealed",
        "windows",
        "free_forms",
        "machines",
        "given_from",
        "_defaults",
    )

    def __init__(self, dimension_types: Sequence[np.dtype], journal: Journal | None = None) -> None:
        self.journal = journal or Journal()
        self._types = [np.dtype(np.int64), *dimension_types]
        self._defaults: dict[int, dict[str, Any]] = {}
        self.rows_seen = np.zeros(0, np.int64)
        self.last = tuple(np.zeros(0, t) for t in self._types)  # last value on each dimension
        self.purged_time = np.zeros(0, np.int64)  # largest time / position of rows no longer held
        self.purged_pos = np.zeros(0, np.int64)
        self.sealed = np.zeros(0, bool)  # the next row begins a new slice
        self.windows: dict[int, dict[str, Array]] = {}
        self.free_forms: dict[int, tuple[Array, Array]] = {}  # number -> (user state, first row held)
        self.machines: dict[int, Running] = {}
        #: windows added while running are given only from here on: number -> (smallest start, per slot or scalar)
        self.given_from: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self.rows_seen)

    def begin(self) -> list[Any]:
        """A call begins: objects whose attributes it may replace."""
        containers: list[dict[Any, Any]] = [self.free_forms, self.given_from, *self.windows.values()]
        for container in containers:
            if container:
                self.journal.keep_container(container)
        return [self]

    @property
    def nbytes(self) -> int:
        columns = [*(getattr(self, name) for name in KEY_COLUMNS), *self.last]
        columns += [c for state in self.windows.values() for c in state.values()]
        columns += [c for pair in self.free_forms.values() for c in pair]
        return sum(c.nbytes for c in columns) + sum(m.nbytes for m in self.machines.values())

    def grow(self, n: int) -> None:
        """Room for slots 0..n-1."""
        have = len(self)
        if n <= have:
            return
        more = max(n, have + have // 2) - have if have else n
        self.rows_seen = _pad(self.rows_seen, more, 0)
        self.last = tuple(_pad(a, more, _lowest(a.dtype)) for a in self.last)
        self.purged_time = _pad(self.purged_time, more, ALWAYS)
        self.purged_pos = _pad(self.purged_pos, more, 0)
        self.sealed = _pad(self.sealed, more, False)
        for number, state in self.windows.items():
            for name, default in self._defaults[number].items():
                state[name] = self._padded(state[name], more, default)
        for number, (states, heads) in self.free_forms.items():
            self.free_forms[number] = (self._padded(states, more, None), _pad(heads, more, NEVER))
        for number, start in self.given_from.items():
            if isinstance(start, np.ndarray):
                self.given_from[number] = _pad(start, more, _lowest(start.dtype))

    def _padded(self, column: Array, more: int, fill: Any) -> Array:
        padded = _pad(column, more, fill)
        if column.dtype == object:
            # both hold the same objects: what user code does to one is taken back in the other, too
            self.journal.undo_by(_copy_back, column, padded)
        return padded

    def set_windows(
        self,
        states: Mapping[int, Mapping[str, Any]],
        free_forms: Sequence[tuple[int, FreeForm]],
        machines: Mapping[int, Callable[[], Running]],
        numbers: Set[int],
    ) -> None:
        """State columns (by window: names and defaults); windows that stay keep theirs. `numbers`: all there are."""
        kept = self.windows
        self._defaults = {number: dict(state) for number, state in states.items()}
        self.windows = {
            number: kept.get(number)
            or {
                name: _pad(np.empty(0, np.asarray(default).dtype), len(self), default)
                for name, default in state.items()
            }
            for number, state in states.items()
        }
        forms = self.free_forms
        self.free_forms = {
            number: forms.get(number) or (np.full(len(self), None, object), np.full(len(self), NEVER))
            for number, _ in free_forms
        }
        running = self.machines
        self.machines = {number: running.get(number) or start() for number, start in machines.items()}
        self.given_from = {n: start for n, start in self.given_from.items() if n in numbers}

    def progress(self, slots: Array) -> tuple[Array, ...]:
        """Last values on each dimension, and last of all the row count, as they are now."""
        return (*(a[slots] for a in self.last), self.rows_seen[slots])

    def note(self, runs: KeyRuns, dims: Sequence[Array], before: tuple[Array, ...]) -> None:
        """Rows have passed: counts and last values move on from what `progress` said `before`."""
        heads, tails = runs.offsets[:-1], runs.offsets[1:] - 1
        self.journal.saw(self.rows_seen, runs.slots, before[-1])
        self.rows_seen[runs.slots] = before[-1] + (runs.offsets[1:] - heads)
        for column, values, old in zip(self.last, dims, before):
            self.journal.saw(column, runs.slots, old)
            column[runs.slots] = values[tails]

    def unseal(self, slots: Array) -> Array:
        """Whether the next row of each key had to begin a new slice; from now on it need not."""
        sealed = self.sealed[slots]
        if sealed.any():
            self.journal.saw(self.sealed, slots, sealed)
            self.sealed[slots] = False
        return sealed

    def window_state(self, number: int, slots: Array) -> dict[str, Array]:
        """A copy of what a window knows of keys; objects of users are handed out themselves."""
        return {name: column[slots] for name, column in self.windows[number].items()}

    def free_form(self, number: int, slots: Array) -> tuple[Array, Array]:
        """Users' state and the first row held, of all keys; user code is about to see those of these slots."""
        states, heads = self.free_forms[number]
        self.journal.keep_user_objects(states, slots)
        self.journal.keep(heads, slots)
        return states, heads

    def keep_user_objects(self, number: int, slots: Array) -> None:
        """User code is about to see the state of these keys."""
        for column in self.windows[number].values():
            if column.dtype == object:
                self.journal.keep_user_objects(column, slots)

    def store_window_state(self, number: int, slots: Array, state: dict[str, Array]) -> None:
        for name, column in self.windows[number].items():
            self.journal.keep(column, slots)
            column[slots] = state[name]

    def open_from(
        self, discretizers: Sequence[tuple[int, Discretizer]], free_forms: Sequence[tuple[int, FreeForm]]
    ) -> Array:
        """Per key the first position that a data-driven window still holds."""
        needed = np.full(len(self), NEVER)
        for number, window in discretizers:
            needed = np.minimum(needed, window.open_from(self.windows[number]))
        for number, _ in free_forms:
            needed = np.minimum(needed, self.free_forms[number][1])
        for machine in self.machines.values():
            needed = np.minimum(needed, machine.needed(len(self)))
        return needed

    def note_purged(self, slots: Array, times: Array, stops: Array) -> None:
        """Slices with these last times and stops are gone, one after the other by key."""
        first = np.zeros(1, np.int64)
        if slots[0] != slots[-1]:
            first = np.append(first, (slots[1:] != slots[:-1]).nonzero()[0] + 1)
        slots = slots[first]
        for column, values in ((self.purged_time, times), (self.purged_pos, stops)):
            was = column[slots]
            self.journal.saw(column, slots, was)
            column[slots] = np.maximum(was, np.maximum.reduceat(values, first))

    def admits(self, number: Array, slot: Array, start: Array) -> Array:
        """Whether a window is one that its query gives: all, or for a query added late those from a start on."""
        ok = np.ones(len(number), bool)
        for added, least in self.given_from.items():
            mine = number == added
            ok[mine] = start[mine] >= (least[slot[mine]] if isinstance(least, np.ndarray) else least)
        return ok

    def give_as(self, other: KeyState, number: int) -> None:
        """Give an added window from where another state of the same keys gives it."""
        start = other.given_from.get(number)
        if isinstance(start, np.ndarray):
            self.grow(len(start))
            start = _pad(start, len(self) - len(start), _lowest(start.dtype))
        if start is not None:
            self.given_from[number] = start

    def select(self, slots: Array) -> KeyState:
        """A copy of these slots' state, renumbered 0, 1, ..."""
        part = KeyState(self._types[1:], self.journal)
        part._defaults = self._defaults
        for name in KEY_COLUMNS:
            setattr(part, name, getattr(self, name)[slots])
        part.last = tuple(a[slots] for a in self.last)
        part.windows = {n: {k: _copied(v[slots]) for k, v in s.items()} for n, s in self.windows.items()}
        part.free_forms = {n: (_copied(s[slots]), h[slots]) for n, (s, h) in self.free_forms.items()}
        part.machines = {n: m.select(slots) for n, m in self.machines.items()}
        part.given_from = {n: (s[slots] if isinstance(s, np.ndarray) else s) for n, s in self.given_from.items()}
        return part

    def put(self, slots: Array, part: KeyState) -> None:
        """Write the state of `select` back to these slots."""
        self.grow(int(slots.max()) + 1 if len(slots) else 0)
        columns = [(getattr(self, name), getattr(part, name)) for name in KEY_COLUMNS]
        for mine, theirs in (*columns, *zip(self.last, part.last)):
            self.journal.keep(mine, slots)
            mine[slots] = theirs
        for number, state in part.windows.items():
            self.store_window_state(number, slots, state)
        for number, (states, heads) in part.free_forms.items():
            for mine, theirs in zip(self.free_forms[number], (states, heads)):
                self.journal.keep(mine, slots)
                mine[slots] = theirs
        for number, machine in part.machines.items():
            self.journal.undo_by(self.machines[number].saved(slots))
            self.machines[number].put(slots, machine)


def horizons(windows: WindowSet, progress: Array) -> Array:
    """`windows.horizon` for each key, asked once per distinct progress."""
    if len(progress) < 2:
        return np.array([windows.horizon(p) for p in progress.tolist()], progress.dtype)
    distinct, back = np.unique(progress, return_inverse=True)
    return np.array([windows.horizon(p) for p in distinct.tolist()], progress.dtype)[back]


def _pad(column: Array, more: int, fill: Any) -> Array:
    tail = np.empty(more, column.dtype)
    tail[:] = fill
    return np.concatenate((column, tail))


def _copy_back(column: Array, padded: Array) -> None:
    column[:] = padded[: len(column)]


def _lowest(dtype: np.dtype) -> Any:
    return -np.inf if dtype == np.float64 else ALWAYS


def _copied(column: Array) -> Array:
    """A column that shares no user object with the original."""
    if column.dtype != object:
        return column
    from copy import deepcopy

    out = np.empty(len(column), object)
    out[:] = [deepcopy(v) for v in column]
    return out
