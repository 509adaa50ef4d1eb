"""Where slices are cut: before each row at which a window begins or ends, on any measure."""

from __future__ import annotations

import numpy as np

from panes.aggregates.base import Column
from panes.slicing.window_set import WindowSet

Array = np.ndarray


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
