"""Sums of powers around the mean, up to the fourth, of one column or of pairs, and how they move to another mean.

The mean is found as a distance from one of the values. So it is exact where all values are equal, and sums of
squares of such values are exactly 0, which is when correlation, slope, skewness and kurtosis are null.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from panes.aggregates.base import Array, Cells, Column
from panes.aggregates.segments import compress, segment_ids, segment_reduce
from panes.aggregates.totals import as_float


def complete_rows(columns: Sequence[Column], offsets: Array) -> tuple[list[Array], Array]:
    """The values in float64 of the rows in which no column is null, and the segments among them."""
    valid = None
    for column in columns:
        if column.valid is not None:
            valid = column.valid if valid is None else valid & column.valid
    if valid is None:
        first, stop = offsets[0], offsets[-1]
        return [as_float(c.values[first:stop]) for c in columns], offsets - first
    index, offsets = compress(valid, offsets)
    return [as_float(c.values[index]) for c in columns], offsets


def held_cells(cells: Cells, offsets: Array) -> tuple[list[Array], Array]:
    """The fields of the cells that hold any value (the first field counts them), and the segments among them."""
    index, offsets = compress(cells.fields[0] > 0, offsets)
    return [f[index] for f in cells.fields], offsets


def mean_near(values: Array, weights: Array | None, offsets: Array) -> Array:
    """The weighted mean of each segment, exact if all of its values are equal; 0 for an empty one."""
    filled = offsets[1:] > offsets[:-1]
    total = np.diff(offsets) if weights is None else segment_reduce(np.add, weights, offsets, 0)
    near = np.zeros(len(filled))
    near[filled] = values[offsets[:-1][filled]]
    away = values - near[segment_ids(offsets)]
    if weights is not None:
        away = away * weights
    return near + segment_reduce(np.add, away, offsets, 0.0) / np.maximum(total, 1)


def sums(columns: Sequence[Array], offsets: Array) -> list[Array]:
    """The sum of each column per segment."""
    return [segment_reduce(np.add, column, offsets, 0.0) for column in columns]
