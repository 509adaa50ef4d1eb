"""What a columnar window gives: events, and the tuples that each of them sees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Column
from panes.policies.library.tuple_store import to_table

Array = np.ndarray

#: The events that can be watched. "fired" is a flush or trigger, the others are as in events.py.
WATCHABLE = ("fired", "initial_full", "partition_evict")


@dataclass(frozen=True)
class Firings:
    """Events in the order in which they happen. Event i sees tuples `start[i]:stop[i]` of `columns`, oldest first.

    `row` is the row of the batch that caused it, or that time had to pass for; `full` is whether a sliding subwindow
    has been full; `kind` counts WATCHABLE. Ranges of one key overlap where windows do.
    """

    kind: Array
    row: Array
    at: Array
    full: Array
    keys: tuple[pa.Array, ...]
    start: Array
    stop: Array
    columns: Mapping[str, Column]

    def __len__(self) -> int:
        return len(self.kind)

    def table(self) -> pa.Table:
        """The tuples that the ranges refer to."""
        return to_table(self.columns)
