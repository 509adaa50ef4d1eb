"""What flows between operators: rows and punctuations that come to ports, and those that ports give.

`Arrivals` are all that comes to an operator, in one order over all its ports. `PortOutput` is what one output port
gives: a table, and the places in it where punctuations stand. Times are ticks of the streams' time column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

Array = np.ndarray
#: The time before any row that has one.
NO_TIME = int(np.iinfo(np.int64).min)


@dataclass(frozen=True)
class Arrivals:
    """Rows and punctuations in order of arrival."""

    ports: Array  # int8 number of the port of each arrival
    times: Array  # int64 tick of each arrival, never decreasing
    tables: tuple[pa.Table, ...]  # the rows of each port, in order
    marks: Array | None = None  # which arrivals are punctuations; None: none

    def __len__(self) -> int:
        return len(self.ports)

    def rows_of(self, port: int) -> Array:
        """Which arrivals are rows of the port."""
        mine = self.ports == port
        return mine if self.marks is None else mine & ~self.marks


@dataclass(frozen=True)
class PortOutput:
    """What one output port gives. `marks`: how many rows of the table stand before each punctuation."""

    table: pa.Table
    times: Array  # tick at which each row is given
    marks: Array
    mark_times: Array

    @classmethod
    def of(
        cls, table: pa.Table, times: Array, marks: Array | None = None, mark_times: Array | None = None
    ) -> PortOutput:
        none = np.empty(0, np.int64)
        return cls(table, times, none if marks is None else marks, none if mark_times is None else mark_times)

    @classmethod
    def concat(cls, parts: Sequence[PortOutput]) -> PortOutput:
        if len(parts) == 1:
            return parts[0]
        before = np.cumsum([0, *(p.table.num_rows for p in parts)])
        return cls(
            pa.concat_tables([p.table for p in parts]),
            np.concatenate([p.times for p in parts]),
            np.concatenate([p.marks + n for p, n in zip(parts, before)]),
            np.concatenate([p.mark_times for p in parts]),
        )

    def filter(self, keep: Array) -> PortOutput:
        """Only some rows, with all punctuations."""
        before = np.concatenate(([0], np.cumsum(keep)))
        return PortOutput(self.table.filter(pa.array(keep)), self.times[keep], before[self.marks], self.mark_times)


def arrivals_of(given: PortOutput, port: int, tables: Sequence[pa.Table]) -> Arrivals:
    """Rows and punctuations of one stream as arrivals at a port; `tables`: empty ones for the other ports."""
    n, m = given.table.num_rows, len(given.marks)
    at = given.marks + np.arange(m)  # among rows and punctuations
    marks = np.zeros(n + m, bool)
    marks[at] = True
    times = np.empty(n + m, np.int64)
    times[at], times[~marks] = given.mark_times, given.times
    every = tuple(given.table if i == port else table for i, table in enumerate(tables))
    ports = np.full(n + m, port, np.int8)
    return Arrivals(ports, np.maximum.accumulate(times), every, marks if m else None)
