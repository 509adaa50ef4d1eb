"""Who meets whom in a join, by the containers of the window library: for all windows, row by row."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from panes.operators.clauses import RowClock, keys_of
from panes.operators.join_lists import GONE, PASSING, PUSHED, SIDES, SideSpec
from panes.operators.machine import Port, RowStore, check_rows, load_window
from panes.state.snapshot import in_cell

Array = np.ndarray
#: Candidate pairs per chunk.
_PAIRS = 1 << 16


class WindowMechanism:
    """Two sliding windows of row numbers; rows with the same key and equal values are candidates."""

    def __init__(self, sides: tuple[SideSpec, SideSpec], stores: tuple[RowStore, ...]) -> None:
        self._sides = sides
        self._stores = stores
        self._clock = RowClock()
        self._ports = [Port(store, side.keys, side.clause, self._clock) for store, side in zip(stores, sides)]
        self._windows = [port.window for port in self._ports if port.window is not None]
        #: by side: key and values of the equality parts -> numbers of rows in the window, oldest first
        self._index: tuple[dict[Hashable, dict[int, None]], ...] = ({}, {})
        self._entries: tuple[dict[int, Hashable], ...] = ({}, {})
        self._listen()
        self._arrival = 0
        self._phase = PASSING
        self._current: tuple[int, int, Hashable] = (0, 0, None)  # side, number, entry of the row that arrives
        self._pairs: list[tuple[int, int, int]] = []
        self._evicted: list[tuple[int, int, int, int, int]] = []

    def _listen(self) -> None:
        for i, window in enumerate(self._windows):
            window.on("after_insert", lambda number, key, w, i=i: self._on_insert(i, number))
            window.on("trigger", lambda key, w, i=i: self._on_trigger(i))
            window.on("before_evict", lambda number, key, w, i=i: self._on_leave(i, number))
            window.on("partition_evict", lambda subwindows, i=i: self._on_forget(i, subwindows))

    @property
    def keys(self) -> int:
        return len({key for window in self._windows for key, content in window.subwindows() if content})

    def chunks(self, ports: Array, times: Array, tables: tuple[pa.Table, ...]) -> Iterator[tuple[Array, Array]]:
        coming = [self._coming(i, table) for i, table in enumerate(tables)]
        for arrival, (port, time) in enumerate(zip(ports.tolist(), times.tolist())):
            self._arrival, self._phase = arrival, PASSING
            self._clock.reach(time)
            if port < 2:
                self._arrive(port, *next(coming[port]))
            if len(self._pairs) >= _PAIRS:
                yield self._chunk()
        yield self._chunk()

    def _coming(self, i: int, table: pa.Table) -> Iterator[tuple[int, Hashable, Hashable]]:
        """Number, key, and what is looked up, of each row that is about to arrive."""
        arrived = self._stores[i].arrived
        numbers, _ = self._ports[i].coming(np.arange(arrived - table.num_rows, arrived), table)
        return iter([(number, key, entry) for number, (key, entry) in zip(numbers, self._looked_up(i, table))])

    def _looked_up(self, i: int, table: pa.Table) -> list[tuple[Hashable, Hashable]]:
        """The key of each row, and key and values by which it finds others; None: null is equal to nothing."""
        side = self._sides[i]
        keys = keys_of(table, side.keys) or [None] * table.num_rows
        columns = [keys_of(table, (name,)) or [] for name in side.equal]
        return [(key, None if None in values else (key, *values)) for key, *values in zip(keys, *columns)]

    def _arrive(self, i: int, number: int, key: Hashable, entry: Hashable) -> None:
        self._phase = PUSHED
        self._current = (i, number, entry)
        self._ports[i].insert(number, key)
        if self._sides[i].clause.keeps_none:
            self._note(i, number, GONE)

    def _on_insert(self, i: int, number: int) -> None:
        entry = self._current[2]
        self._entries[i][number] = entry
        if entry is not None:
            self._index[i].setdefault(entry, {})[number] = None

    def _on_trigger(self, i: int) -> None:
        _, number, entry = self._current
        self._phase = GONE  # keys that are forgotten now are forgotten after the match
        if entry is not None:
            found = self._index[1 - i].get(entry, ())
            pairs = ((number, other) if i == 0 else (other, number) for other in found)
            self._pairs += [(self._arrival, left, right) for left, right in pairs]

    def _on_leave(self, i: int, number: int) -> None:
        entry = self._entries[i].pop(number)
        if entry is not None:
            rows = self._index[i][entry]
            del rows[number]
            if not rows:
                del self._index[i][entry]
        self._note(i, number, self._phase)

    def _on_forget(self, i: int, subwindows: Iterator[tuple[Hashable, tuple[int, ...]]]) -> None:
        for _, content in subwindows:
            for number in content:
                self._on_leave(i, number)

    def _note(self, i: int, number: int, phase: int) -> None:
        self._evicted.append((self._arrival, phase, self._clock.tick, i, number))

    def _chunk(self) -> tuple[Array, Array]:
        pairs = np.array(self._pairs, np.int64).reshape(-1, 3)
        evicted = np.array(self._evicted, np.int64).reshape(-1, 5)
        for i, store in enumerate(self._stores):
            pairs[:, i + 1] = store.places(pairs[:, i + 1])
            mine = evicted[:, 3] == i
            evicted[mine, 4] = store.places(evicted[mine, 4])
        self._pairs, self._evicted = [], []
        return pairs, evicted

    def held(self, side: int) -> Array:
        return np.sort(self._stores[side].places(np.array(list(self._entries[side]), np.int64)))

    def moved(self, side: int, kept: Array) -> None:
        pass  # windows hold numbers, which stay

    def dump(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        tables = {f"window.{side}": in_cell("window", window.snapshot()) for side, window in zip(SIDES, self._windows)}
        return {"mechanism": "windows"}, tables

    def load(self, facts: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> None:
        self._clock.reach(facts["time"])
        for i, side in enumerate(SIDES):
            load_window(self._windows[i], tables, f"window.{side}")
            check_rows(self._windows[i], self._stores[i], tuple(self._sides[i].keys))
            numbers = np.sort(np.array([n for _, c in self._windows[i].subwindows() for n in c], np.int64))
            found = self._looked_up(i, self._stores[i].take(numbers))
            for number, (_, entry) in zip(numbers.tolist(), found):
                self._current = (i, number, entry)
                self._on_insert(i, number)
