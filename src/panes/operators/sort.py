"""Sort: rows in order of some columns, as far as a window can see.

Batch: a tumbling window is given in order each time it is full, then a punctuation. Progressive: rows wait in a
sliding window; for each that leaves it, the one that is first in order of all that wait is given, so that rows whose
disorder is smaller than the window come out in order. At the end of the stream, and when a key is forgotten, all that
wait are given: no row is lost.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from panes.operators.arrivals import PortOutput
from panes.operators.clauses import Clause, keys_of, plain_values
from panes.operators.machine import Machine, WindowMachine, columnar
from panes.operators.models import ROW_BY_ROW_FORMS, TUMBLING_FORMS, InputPort, Model, OutputPort, Parameter
from panes.policies.library import SlidingWindow, TumblingWindow

SORT = Model(
    "Sort",
    inputs=(InputPort("in", (*TUMBLING_FORMS, *ROW_BY_ROW_FORMS), "window bound", fixed_every="count(1)"),),
    outputs=(OutputPort("out", "generating"),),
    parameters=(Parameter("by", required=True),),
)


@dataclass(frozen=True)
class SortSpec:
    """A Sort whose names are known; the clause is in ticks. `by`: column, descending, nulls first."""

    rows: pa.Schema
    clause: Clause
    keys: tuple[str, ...]
    by: tuple[tuple[str, bool, bool], ...]
    schema: pa.Schema  # the columns that are given, all of them in `rows`


class Descending:
    """A value that compares the other way round."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: Descending) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Descending) and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash(self.value)


def ranks(spec: SortSpec, rows: pa.Table) -> list[tuple[Any, ...]]:
    """For each row a tuple that compares as the row is ordered: null where it belongs, NaN above all numbers."""
    columns = []
    for name, descending, nulls_first in spec.by:
        column: list[tuple[int, Any]] = []
        for value in plain_values(rows.column(name)):
            if value is None:
                column.append((0 if nulls_first else 2, 0))
                continue
            rank = (value != value, 0.0 if value != value else value)
            column.append((1, Descending(rank) if descending else rank))
        columns.append(column)
    return list(zip(*columns))


def sort_machine(spec: SortSpec, mechanism: str) -> Machine:
    columnar("Sort", mechanism, False)
    return SortMachine(spec)


class SortMachine(WindowMachine):
    """Sort on the containers of the window library."""

    spec: SortSpec

    def __init__(self, spec: SortSpec) -> None:
        super().__init__(spec)
        self._ranks: dict[int, tuple[Any, ...]] = {}  # of all rows that wait
        self._waiting: dict[Hashable, list[tuple[tuple[Any, ...], int]]] = {}  # progressive: a heap for each key
        window = self.window
        window.on("partition_evict", self._on_forget)
        if isinstance(window, SlidingWindow):
            window.on("after_insert", self._on_insert)
            window.on("before_evict", self._on_evict)
        else:
            window.on("before_flush", self._on_flush)

    def _taken(self, port: Any, table: pa.Table) -> tuple[list[int], list[Hashable]]:
        numbers, keys = super()._taken(port, table)
        self._ranks.update(zip(numbers, ranks(self.spec, table)))
        return numbers, keys

    def _on_insert(self, number: int, key: Hashable, window: SlidingWindow) -> None:
        heapq.heappush(self._waiting.setdefault(key, []), (self._ranks[number], number))

    def _on_evict(self, number: int, key: Hashable, window: SlidingWindow) -> None:
        # The window says that one must go; which one, order decides.
        heap = self._waiting[key]
        self.give(heapq.heappop(heap)[1])
        if not heap:
            del self._waiting[key]

    def _on_flush(self, key: Hashable, window: TumblingWindow) -> None:
        self._batch(window.content(key))

    def _on_forget(self, subwindows: Iterator[tuple[Hashable, tuple[int, ...]]]) -> None:
        for key, content in subwindows:
            self._give_all(key, content)

    def on_finish(self) -> None:
        for key, content in sorted(self.window.subwindows(), key=lambda subwindow: subwindow[1]):
            self._give_all(key, content)

    def _give_all(self, key: Hashable, content: tuple[int, ...]) -> None:
        if isinstance(self._port.window, SlidingWindow):
            self._batch(tuple(n for _, n in self._waiting.pop(key, [])))
        else:
            self._batch(content)

    def _batch(self, numbers: tuple[int, ...]) -> None:
        if numbers:
            for number in sorted(numbers, key=lambda n: (self._ranks[n], n)):
                self.give(number)
            self.mark()

    def given(self) -> tuple[PortOutput, ...]:
        for number, _ in self._out:
            del self._ranks[number]
        return super().given()

    def held(self, port: int) -> np.ndarray:
        return np.array(list(self._ranks), np.int64)

    @property
    def counts_only(self) -> bool:
        return isinstance(self._port.window, SlidingWindow)  # what leaves it first is not what came first

    def load(self, facts: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> None:
        super().load(facts, tables)
        store = self._port.store
        rows, numbers = store.all(), store.numbers.tolist()
        self._ranks = dict(zip(numbers, ranks(self.spec, rows)))
        if self.counts_only:
            keys = keys_of(rows, self.spec.keys) or [None] * len(numbers)
            for number, key in zip(numbers, keys):
                heapq.heappush(self._waiting.setdefault(key, []), (self._ranks[number], number))
