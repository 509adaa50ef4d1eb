"""What the row lane remembers of each key beside slices: counts, last values, state of data-driven windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from panes.slicing.window_set import WindowSet
from panes.windows.base import ALWAYS, NEVER, Discretizer, FreeForm, KeyRuns, Running

Array = np.ndarray


#: plain columns, one value per key, as attributes of KeyState
KEY_COLUMNS = ("rows_seen", "purged_time", "purged_pos", "sealed")


class KeyState:
    """Columns indexed by key slot."""

    def __init__(self, dimension_types: Sequence[np.dtype]) -> None:
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
                state[name] = _pad(state[name], more, default)
        for number, (states, heads) in self.free_forms.items():
            self.free_forms[number] = (_pad(states, more, None), _pad(heads, more, NEVER))
        for number, start in self.given_from.items():
            if isinstance(start, np.ndarray):
                self.given_from[number] = _pad(start, more, _lowest(start.dtype))

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

    def note(self, runs: KeyRuns, dims: Sequence[Array]) -> None:
        """Rows have passed: counts and last values move on."""
        heads, tails = runs.offsets[:-1], runs.offsets[1:] - 1
        self.rows_seen[runs.slots] += runs.offsets[1:] - heads
        for column, values in zip(self.last, dims):
            column[runs.slots] = values[tails]

    def window_state(self, number: int, slots: Array) -> dict[str, Array]:
        return {name: column[slots] for name, column in self.windows[number].items()}

    def store_window_state(self, number: int, slots: Array, state: dict[str, Array]) -> None:
        for name, column in self.windows[number].items():
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
        np.maximum.at(self.purged_time, slots, times)
        np.maximum.at(self.purged_pos, slots, stops)

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
        part = KeyState(self._types[1:])
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
        for name in KEY_COLUMNS:
            getattr(self, name)[slots] = getattr(part, name)
        for mine, theirs in zip(self.last, part.last):
            mine[slots] = theirs
        for number, state in part.windows.items():
            self.store_window_state(number, slots, state)
        for number, (states, heads) in part.free_forms.items():
            self.free_forms[number][0][slots] = states
            self.free_forms[number][1][slots] = heads
        for number, machine in part.machines.items():
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
