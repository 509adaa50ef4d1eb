"""Arrays: ranges of positions written out, and memory for large ones that come and go with every batch.

NumPy takes and returns large blocks from and to the system, and touching fresh pages costs more than the arithmetic
on them. Arrow's pool keeps blocks, and what is handed out as an Arrow array lies in it anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

Array = np.ndarray


def spread(lo: Array, hi: Array) -> tuple[Array, Array]:
    """All positions of all ranges, one range after the other, and the offsets of the ranges among them."""
    lengths = np.maximum(hi - lo, 0)
    offsets = np.zeros(len(lo) + 1, np.int64)
    lengths.cumsum(out=offsets[1:])
    return np.arange(offsets[-1]) + (lo - offsets[:-1]).repeat(lengths), offsets


_LARGE = 1 << 17


def empty(n: int, dtype: Any = np.int64) -> Array:
    """Like `numpy.empty`."""
    size = n * np.dtype(dtype).itemsize
    if size < _LARGE:
        return np.empty(n, dtype)
    return np.frombuffer(pa.allocate_buffer(size), dtype)


def concatenate(parts: Sequence[Array]) -> Array:
    """Like `numpy.concatenate`, of arrays of one type."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts, out=empty(sum(map(len, parts)), parts[0].dtype))
