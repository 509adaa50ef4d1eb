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

from panes.operators.arrivals import PortOutput
from panes.operators.clauses import Clause, keys_of
from panes.operators.machine import Machine, NumberMachine, Port, columnar, dump_ports, given_rows, load_ports
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


class DedupeMachine(NumberMachine):
    """Dedupe on the containers of the window library, which hold row numbers; values are counted here."""

    def __init__(self, spec: DedupeSpec) -> None:
        self.schemas = (spec.schema,)
        self.spec = spec
        super().__init__([(spec.rows, spec.keys, spec.clause)])
        (self._port,) = self.ports
        self._values: dict[int, Hashable] = {}  # of rows in the window
        self._coming: dict[int, Hashable] = {}  # of rows of this batch
        self._seen: dict[Hashable, dict[Hashable, int]] = {}  # key -> values -> rows in the window
        self._out: list[tuple[int, int]] = []  # row number, time
        self._marks: list[tuple[int, int]] = []
        window = self._port.window
        assert window is not None
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

    def on_row(self, port: int, number: int, key: Hashable) -> None:
        if self.spec.clause.keeps_none:  # count(0) keeps nothing to compare with
            self._out.append((number, self.clock.tick))
        else:
            self._port.insert(number, key)

    def on_punctuation(self, port: int) -> None:
        super().on_punctuation(port)
        self._marks.append((len(self._out), self.clock.tick))

    def _on_insert(self, number: int, key: Hashable, window: SlidingWindow | TumblingWindow) -> None:
        value = self._values[number] = self._coming[number]
        seen = self._seen.setdefault(key, {})
        before = seen.get(value, 0)
        seen[value] = before + 1
        if not before:
            self._out.append((number, self.clock.tick))

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

    def given(self) -> tuple[PortOutput, ...]:
        table = self._port.store.take(np.array([n for n, _ in self._out], np.int64)).select(self.spec.schema.names)
        marks = [n for n, _ in self._marks], [t for _, t in self._marks]
        given = given_rows(table, [t for _, t in self._out], *marks)
        self._out, self._marks = [], []
        return (given,)

    def dump(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        return dump_ports(self)

    def load(self, facts: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> None:
        load_ports(self, facts, tables)
        for key, content in self.window.subwindows():
            rows = self._port.store.take(np.array(content, np.int64))
            values = keys_of(rows, self.spec.on)
            assert values is not None
            for number, value in zip(content, values):
                self._values[number] = value
                seen = self._seen.setdefault(key, {})
                seen[value] = seen.get(value, 0) + 1

    @property
    def window(self) -> SlidingWindow | TumblingWindow:
        assert self._port.window is not None
        return self._port.window
