"""Compiled loops of windows that are sequential by nature. Imported only when there are rows enough."""

from __future__ import annotations

import numpy as np
from numba import njit

Array = np.ndarray


@njit(cache=True)
def delta_begins(values: Array, offsets: Array, is_open: Array, has_ref: Array, ref: Array, limit: float) -> Array:
    """Rows at which a delta window begins; moves on `has_ref` and `ref` of each group."""
    begin = np.zeros(len(values), np.bool_)
    for g in range(len(offsets) - 1):
        opened, known, base = is_open[g], has_ref[g], ref[g]
        for i in range(offsets[g], offsets[g + 1]):
            value = values[i]
            if not opened or (known and abs(value - base) > limit):
                begin[i] = True
                opened, known = True, False
            if not known and value == value:
                known, base = True, value
        has_ref[g], ref[g] = known, base
    return begin
