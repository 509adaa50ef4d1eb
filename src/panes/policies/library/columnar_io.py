"""What a columnar window reads of a batch, and what it gives.

In flow times and attributes, as arrays; rows that they can't be read of are named. Out flow events, and the tuples that
each of them sees.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Column
from panes.errors import DataError, QueryError
from panes.policies.library.specs import Delta, Policy, text
from panes.policies.library.tuple_store import to_table

Array = np.ndarray
NO_VALUES = np.empty(0, np.int64)


def value_type(policy: Policy | None, schema: pa.Schema) -> np.dtype:
    """In what the attribute of a policy is compared; refuses columns that have no difference."""
    if not isinstance(policy, Delta):
        return NO_VALUES.dtype
    type = schema.field(str(policy.attribute)).type
    if pa.types.is_integer(type) or pa.types.is_timestamp(type) or pa.types.is_date(type):
        return np.dtype(np.int64)
    if pa.types.is_floating(type):
        return np.dtype(np.float64)
    raise QueryError(f"{text(policy)}: column {policy.attribute!r} is of type {type}, which has no difference")


def times_of(name: str, column: Column) -> Array:
    """The time of each row."""
    if column.valid is not None and not column.valid.all():
        row = int(np.flatnonzero(~column.valid)[0])
        raise DataError(f"time column {name!r} is null in row {row} of the batch: every row needs its time")
    return _ticks(column)


def values_of(policy: Policy | None, columns: Mapping[str, Column]) -> Array:
    """The attribute of each row that a policy compares; none if it compares none."""
    if not isinstance(policy, Delta):
        return NO_VALUES
    column = columns[str(policy.attribute)]
    values = column.values.astype(np.float64) if pa.types.is_floating(column.type) else _ticks(column)
    bad = values != values if column.valid is None else (values != values) | ~column.valid
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise DataError(f"{text(policy)}: the attribute is no number in row {row} of the batch, it has no difference")
    return values


def _ticks(column: Column) -> Array:
    """Integers as they are, points in time as microseconds."""
    type = column.type
    if pa.types.is_timestamp(type) and type.unit != "us":
        per = {"s": 10**6, "ms": 10**3}.get(type.unit)
        return column.values * per if per is not None else column.values // 1000
    if pa.types.is_date(type):
        return column.values * (86400 * 10**6 if pa.types.is_date32(type) else 1000)
    return column.values.astype(np.int64, copy=False)


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
