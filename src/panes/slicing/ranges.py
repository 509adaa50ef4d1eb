"""Ranges of positions, written out."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def spread(lo: Array, hi: Array) -> tuple[Array, Array]:
    """All positions of all ranges, one range after the other, and the offsets of the ranges among them."""
    lengths = np.maximum(hi - lo, 0)
    offsets = np.zeros(len(lo) + 1, np.int64)
    lengths.cumsum(out=offsets[1:])
    return np.arange(offsets[-1]) + (lo - offsets[:-1]).repeat(lengths), offsets
