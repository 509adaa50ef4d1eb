"""Rows on column measures: slices are cut where windows begin or end on one.

In event-time order of a key, values must be there and must not go back; rows that break the rule are turned away.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Column
from panes.errors import QueryError
from panes.slicing.lane import RowBatch
from panes.slicing.rows.key_state import KeyState
from panes.slicing.window_set import WindowSet

Array = np.ndarray


NULL = "null measure"
OUT_OF_RANGE = "measure out of range"
BACK = "measure went back"
#: Why a row is turned away; with several measures there may be several reasons, and the first of these counts.
REASONS = (NULL, OUT_OF_RANGE, BACK)

Limits = Mapping[str, tuple[float, float]]


def measure_dtype(label: str, name: str, kind: pa.DataType) -> np.dtype:
    """How slices keep the values of a column measure; QueryError if they are no numbers."""
    if pa.types.is_floating(kind):
        return np.dtype(np.float64)
    if pa.types.is_integer(kind) or pa.types.is_timestamp(kind):
        return np.dtype(np.int64)
    raise QueryError(f"window {label!r}: on={name!r} must be a number, so that it can advance; it is {kind}")


def broken(
    rows: RowBatch, dimensions: Mapping[str, np.dtype], limits: Limits, keys: KeyState
) -> list[tuple[Array, str]]:
    """Masks of rows (in event-time order) that break the rule, with the reasons; none if all are fine."""
    if not dimensions:
        return []
    missing = np.zeros(len(rows), bool)
    outside = np.zeros(len(rows), bool)
    for name in dimensions:
        column = rows.columns[name]
        if column.valid is not None:
            missing |= ~column.valid
        if column.values.dtype.kind == "f":
            missing |= np.isnan(column.values)
        low, high = limits[name]
        outside |= ~missing & ((column.values < low) | (column.values >= high))
    unusable = missing | outside
    slots = np.zeros(len(rows), np.int64) if rows.slots is None else rows.slots
    keys.grow(int(slots.max()) + 1 if len(slots) else 0)
    back = np.zeros(len(rows), bool)
    # With several measures, a row rejected on one must not count on another: look again after each.
    while True:
        fine = np.flatnonzero(~(unusable | back))
        found = np.zeros(len(rows), bool)
        for d, name in enumerate(dimensions, start=1):
            values = rows.columns[name].values[fine]
            found[fine[_behind(slots[fine], values, keys.last[d])]] = True
        if len(dimensions) == 1:
            back = found
            break
        first = _first_of_each(found, slots)
        if not len(first):
            break
        back[first] = True
    return [(mask, reason) for mask, reason in zip((missing, outside & ~missing, back), REASONS) if mask.any()]


def _behind(slots: Array, values: Array, last: Array) -> Array:
    """Indexes of rows whose value is below one before it in the same key."""
    order = np.argsort(slots, kind="stable")
    s, v = slots[order], values[order]
    if not len(s):
        return order
    heads = np.flatnonzero(np.concatenate(([True], s[1:] != s[:-1])))
    with_last = np.insert(v.astype(last.dtype), heads, last[s[heads]])
    groups = np.insert(s, heads, s[heads])
    _, ranks = np.unique(with_last, return_inverse=True)
    codes = groups * (len(with_last) + 1) + ranks
    behind = codes < np.maximum.accumulate(codes)
    behind = np.delete(behind, heads + np.arange(len(heads)))
    return order[behind]


def _first_of_each(found: Array, slots: Array) -> Array:
    """The first found row of each key."""
    index = np.flatnonzero(found)
    _, first = np.unique(slots[index], return_index=True)
    return index[first]


def mark_cuts(cut: Array, values: Array, heads: Array, previous: Array, windows: WindowSet) -> None:
    """Set cut where an edge lies in (value before, value]; `previous` is the value before each key's first row."""
    if len(heads) == 1:
        edges, jumps = windows.edges_among(np.concatenate((previous, values)))
        for marks in (edges, jumps):
            at = values.searchsorted(marks)
            cut[at[at < len(cut)]] = True
        return
    edges, jumps = windows.edges_among(np.sort(np.concatenate((previous, values))))
    marks = np.concatenate((edges, jumps))
    marks.sort()
    place = marks.searchsorted(values, side="right")
    changed = np.empty(len(cut), bool)
    changed[1:] = place[1:] != place[:-1]
    changed[heads] = place[heads] != marks.searchsorted(previous, side="right")
    cut |= changed


def plain(column: Column) -> Array:
    """A column as discretizers see it: null is False for booleans, NaN for numbers, None for the rest."""
    if column.valid is None or column.valid.all():
        return column.values
    if column.values.dtype == bool:
        return column.values & column.valid
    if column.values.dtype == object:
        return np.where(column.valid, column.values, np.array(None))
    return np.where(column.valid, column.values.astype(np.float64), np.nan)
