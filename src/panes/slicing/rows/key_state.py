"""What the row lane remembers of each key beside slices: counts, last values, state of data-driven windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from copy import copy
from typing import Any

import numpy as np
import pyarrow as pa

from panes.slicing.window_set import WindowSet
from panes.state.bank import Bank, BankColumn
from panes.state.checked import number_type, numbers
from panes.state.entries import Held, SlotMap
from panes.state.journal import Journal, Replaced, Watched
from panes.windows.base import ALWAYS, NEVER, Discretizer, FreeForm, KeyRuns, Running

Array = np.ndarray


#: columns of every key: how many rows it has had, the largest time and position of rows that are not held any more,
#: and whether the next row begins a new slice
_PLAIN = {
    "rows_seen": BankColumn(np.int64(0)),
    "purged_time": BankColumn(np.int64(ALWAYS)),
    "purged_pos": BankColumn(np.int64(0)),
    "sealed": BankColumn(np.bool_(False)),
}


class KeyState(Held):
    """A bank by key slot, its columns at hand by what they are; and machines, which have state of their own.

    How many rows a key has had is part of what its windows mean: none is forgotten.
    """

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
        "complete_from",
        "_states",
        "_forms",
        "_numbers",
    )

    def __init__(self, dimension_types: Sequence[np.dtype], journal: Journal | None = None) -> None:
        self.journal = journal or Journal()
        self._types = [np.dtype(np.int64), *dimension_types]
        last = {f"last.{d}": BankColumn(kind.type(_lowest(kind))) for d, kind in enumerate(self._types)}
        self._always = {**_PLAIN, **last}
        self.bank = Bank(self._always, self.journal)
        self._states: dict[int, tuple[str, ...]] = {}  # by window, what its columns are called
        self._forms: tuple[int, ...] = ()
        self._numbers: list[int] = []  # of all windows
        self.machines: dict[int, Running] = {}
        #: windows added while running are given only from here on: number -> (smallest start, per slot or scalar)
        self.given_from: dict[int, Any] = {}
        #: of windows that were added with new aggregates: from which position (per slot) on, or after which time, there
        #: are partials of all that they give
        self.complete_from: dict[int, Any] = {}
        self._at_hand()

    def __len__(self) -> int:
        return len(self.rows_seen)

    def _at_hand(self) -> None:
        """Columns are others: those that are read row by row are attributes."""
        columns = self.bank.columns
        self.rows_seen, self.sealed = columns["rows_seen"], columns["sealed"]
        self.purged_time, self.purged_pos = columns["purged_time"], columns["purged_pos"]
        #: the last value on each dimension
        self.last = tuple(columns[f"last.{d}"] for d in range(len(self._types)))
        self.windows = {n: {name: columns[f"window.{n}.{name}"] for name in names} for n, names in self._states.items()}
        #: the user's state, and the first row held
        self.free_forms = {n: (columns[f"free.{n}.state"], columns[f"free.{n}.head"]) for n in self._forms}

    def begin(self) -> list[Watched]:
        """A call begins: objects whose attributes it may replace."""
        for starts in (self.given_from, self.complete_from):
            if starts:
                self.journal.keep_container(starts)
        return [self, self.bank]

    def dump(self, slots: Array) -> pa.Table:
        self.grow(int(slots.max(initial=-1)) + 1)  # rows of keys may wait of which nothing else is known
        table = self.bank.dump(slots)
        for kind, known in self._starts.items():
            for number, starts in known.items():
                if isinstance(starts, np.ndarray):
                    table = table.append_column(f"{kind}.{number}", pa.array(starts[slots]))
        return table

    @property
    def _starts(self) -> dict[str, dict[int, Any]]:
        """From where on windows are given, by what columns with it are called."""
        return {"from": self.given_from, "complete": self.complete_from}

    def load(self, table: pa.Table, slot_map: SlotMap, name: str) -> None:
        slots = slot_map[numbers(table, "slot")]
        names = {f"{kind}.{n}": (known, n) for kind, known in self._starts.items() for n in self._numbers}
        added = {name: names[name] for name in table.column_names if name in names}
        self.grow(int(slots.max(initial=-1)) + 1)
        self.bank.load(table.drop_columns(list(added)), slot_map, "the state of a window of your own")
        for column, (starts, number) in added.items() if len(slots) else ():
            values = numbers(table, column, number_type(table, column))
            known = starts.get(number)
            if not isinstance(known, np.ndarray):
                known = starts[number] = np.zeros(len(self), values.dtype)
            known[slots] = values

    @property
    def nbytes(self) -> int:
        return self.bank.nbytes

    def grow(self, n: int) -> None:
        """Room for slots 0..n-1."""
        if n > len(self) and self.bank.grow(n):
            self._at_hand()
            for starts in (self.given_from, self.complete_from):
                for number, start in starts.items():
                    if isinstance(start, np.ndarray):
                        starts[number] = _pad(start, len(self) - len(start), _lowest(start.dtype))

    def set_windows(
        self,
        states: Mapping[int, Mapping[str, BankColumn]],
        free_forms: Sequence[tuple[int, FreeForm]],
        machines: Mapping[int, Callable[[], Running]],
        numbers_of: Set[int],
    ) -> None:
        """State columns (by window: names and defaults); windows that stay keep theirs. `numbers_of`: all there are."""
        of_windows = {f"window.{n}.{name}": column for n, state in states.items() for name, column in state.items()}
        of_forms = {
            f"free.{n}.{name}": BankColumn(default)
            for n, _ in free_forms
            for name, default in (("state", None), ("head", np.int64(NEVER)))
        }
        self.bank.declare({**self._always, **of_windows, **of_forms})
        self._states, self._forms = {n: tuple(state) for n, state in states.items()}, tuple(n for n, _ in free_forms)
        self._at_hand()
        running = self.machines
        self.machines = {number: running.get(number) or start() for number, start in machines.items()}
        self.given_from, self.complete_from = (
            {n: start for n, start in starts.items() if n in numbers_of}
            for starts in (self.given_from, self.complete_from)
        )
        self._numbers = sorted(numbers_of)

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
        self.journal.changed.note(slots)
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

    def select(self, slots: Array, journal: Journal | None = None) -> KeyState:
        """A copy of these slots' state, renumbered 0, 1, ..."""
        part = copy(self)
        part.journal = journal or Journal()
        part.bank = self.bank.select(slots, part.journal)
        part._at_hand()
        part.machines = {n: m.select(slots) for n, m in self.machines.items()}
        part.given_from, part.complete_from = (
            {n: (s[slots] if isinstance(s, np.ndarray) else s) for n, s in starts.items()}
            for starts in (self.given_from, self.complete_from)
        )
        return part

    def put(self, slots: Array, part: KeyState) -> None:
        """Write the state of `select` back to these slots."""
        self.grow(int(slots.max()) + 1 if len(slots) else 0)
        self.bank.put(slots, part.bank)
        for number, machine in part.machines.items():
            self.journal.undo_by(self.machines[number].saved(slots))
            self.machines[number].put(slots, machine)


def horizons(windows: WindowSet, progress: Array) -> Array:
    """`windows.horizon` for each key, asked once per distinct progress."""
    if len(progress) < 2:
        return np.array([windows.horizon(p) for p in progress.tolist()], progress.dtype)
    distinct, back = np.unique(progress, return_inverse=True)
    return np.array([windows.horizon(p) for p in distinct.tolist()], progress.dtype)[back]


def _pad(column: Array, more: int, fill: object) -> Array:
    tail = np.empty(more, column.dtype)
    tail[:] = fill
    return np.concatenate((column, tail))


def _lowest(dtype: np.dtype) -> Any:
    return -np.inf if dtype == np.float64 else ALWAYS
