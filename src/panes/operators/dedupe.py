"""Dedupe: a row is given if no equal row is in the window that it enters.

Every row enters the window, given or not: rows with an id that keeps coming within a sliding window of 10 s are given
once. Equal means equal in some columns; null is equal to null, and NaN to NaN.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from panes.operators.clauses import Clause, keys_of
from panes.operators.machine import Machine, Port, WindowMachine, columnar
from panes.operators.models import ROW_BY_ROW_FORMS, TUMBLING_FORMS, InputPort, Model, OutputPort, Parameter
from panes.policies.library import SlidingWindow, TumblingWindow

DEDUPE = Model(
    "Dedupe",
    inputs=(InputPort("in", (*TUMBLING_FORMS, *ROW_BY_ROW_FORMS), "window bound", fixed_every="count(1)"),),
    outputs=(OutputPort("out", "preserving", "in"),),
    parameters=(Parameter("on", required=True),),
)


@dataclass(frozen=True)
class DedupeSpec:
    """A Dedupe whose names are known; the clause is in ticks."""

    rows: pa.Schema
    clause: Clause
    keys: tuple[str, ...]
    on: tuple[str, ...]
    schema: pa.Schema  # the columns that are given, all of them in `rows`


def dedupe_machine(spec: DedupeSpec, mechanism: str) -> Machine:
    columnar("Dedupe", mechanism, False)
    return DedupeMachine(spec)


class DedupeMachine(WindowMachine):
    """Dedupe on the containers of the window library, which hold row numbers; values are counted here."""

    spec: DedupeSpec

    def __init__(self, spec: DedupeSpec) -> None:
        super().__init__(spec)
        self._values: dict[int, Hashable] = {}  # of rows in the window
        self._coming: dict[int, Hashable] = {}  # of rows of this batch
        self._seen: dict[Hashable, dict[Hashable, int]] = {}  # key -> values -> rows in the window
        window = self.window
        window.on("before_insert", self._on_insert)
        window.on("partition_evict", self._on_forget)
        if isinstance(window, SlidingWindow):
            window.on("before_evict", self._on_evict)
        else:
            window.on("before_flush", self._on_flush)

    def _taken(self, port: Port, table: pa.Table) -> tuple[list[int], list[Hashable]]:
        numbers, keys = super()._taken(port, table)
        values = keys_of(table, self.spec.on)
        assert values is not None
        self._coming = dict(zip(numbers, values))
        return numbers, keys

    def on_punctuation(self, port: int) -> None:
        super().on_punctuation(port)
        self.mark()

    def _on_insert(self, number: int, key: Hashable, window: SlidingWindow | TumblingWindow) -> None:
        value = self._values[number] = self._coming[number]
        seen = self._seen.setdefault(key, {})
        before = seen.get(value, 0)
        seen[value] = before + 1
        if not before:
            self.give(number)

    def _on_evict(self, number: int, key: Hashable, window: SlidingWindow) -> None:
        value = self._values.pop(number)
        seen = self._seen[key]
        seen[value] -= 1
        if not seen[value]:
            del seen[value]
            if not seen:
                del self._seen[key]

    def _on_flush(self, key: Hashable, window: TumblingWindow) -> None:
        self._forget(key, window.content(key))

    def _on_forget(self, subwindows: Iterator[tuple[Hashable, tuple[int, ...]]]) -> None:
        for key, content in subwindows:
            self._forget(key, content)

    def _forget(self, key: Hashable, numbers: tuple[int, ...]) -> None:
        self._seen.pop(key, None)
        for number in numbers:
            del self._values[number]

    def load(self, facts: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> None:
        super().load(facts, tables)
        for key, content in self.window.subwindows():
            rows = self._port.store.take(np.array(content, np.int64))
            values = keys_of(rows, self.spec.on)
            assert values is not None
            for number, value in zip(content, values):
                self._values[number] = value
                seen = self._seen.setdefault(key, {})
                seen[value] = seen.get(value, 0) + 1
