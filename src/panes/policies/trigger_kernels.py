"""Triggers of one key over whole batches, one policy at a time. Import it only where there are rows.

Triggers look at rows only, never at what is held, so each runs over all rows before any eviction does: `fired` says at
which rows, and runs of fake items say which borders lie before a row.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from panes.policies.kernels import _moved_by

Array = np.ndarray


@njit(cache=True)
def count_fires(slots: Array, offsets: Array, states: Array, word: int, size: int) -> Array:
    fired = np.zeros(offsets[-1], np.bool_)
    for g in range(len(slots)):
        k, stop = slots[g], offsets[g + 1]
        at = offsets[g] + max(0, size - states[k, word])
        if at >= stop:
            states[k, word] += stop - offsets[g]
            continue
        while at < stop:
            fired[at] = True
            at += size
        states[k, word] = stop - (at - size)
    return fired


@njit(cache=True)
def delta_fires(
    kind: int, n: int, limit: float, slots: Array, offsets: Array, states: Array, word: int, floats: Array, at: int,
    cols: Array, column: int, base: int,
) -> Array:  # fmt: skip
    fired = np.zeros(offsets[-1], np.bool_)
    for g in range(len(slots)):
        k = slots[g]
        for i in range(offsets[g], offsets[g + 1]):
            j = base + i
            if states[k, word] == 0:
                known = True
                for c in range(n):
                    floats[k, at + c] = cols[column + c, j]
                    known = known and cols[column + c, j] == cols[column + c, j]
                if known:
                    states[k, word] = 1
            elif _moved_by(kind, n, floats, k, at, cols, j, column) > limit:
                for c in range(n):
                    floats[k, at + c] = cols[column + c, j]
                fired[i] = True
    return fired


@njit(cache=True)
def border_runs(
    slots: Array, offsets: Array, states: Array, word: int, size: int, ticks: Array, base: int
) -> tuple[Array, Array, Array]:
    """Rows with borders up to their time: (row, first border, how many); each border once."""
    n = 0
    for g in range(len(slots)):
        border = states[slots[g], word]
        for i in range(offsets[g], offsets[g + 1]):
            if border <= ticks[base + i]:
                border += ((ticks[base + i] - border) // size + 1) * size
                n += 1
    rows, firsts, counts = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    at = 0
    for g in range(len(slots)):
        border = states[slots[g], word]
        for i in range(offsets[g], offsets[g + 1]):
            if border <= ticks[base + i]:
                many = (ticks[base + i] - border) // size + 1
                rows[at], firsts[at], counts[at] = i, border, many
                border += many * size
                at += 1
        states[slots[g], word] = border
    return rows, firsts, counts
