"""Reductions and sorts over segments, and the order of values.

Segment i is rows offsets[i]:offsets[i + 1], possibly empty. All of it is NumPy at memory speed for segments in order;
only sorting rows by group and reducing many short segments go through compiled loops, and only for inputs large enough
to be worth the import of Numba.

Values are ordered as in Spark SQL: NaN is larger than any number and equal to itself. `least`, `greatest` and the like
pick NumPy functions that give this order natively, so that no value is ever converted.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

Array = np.ndarray

#: Functions with a compiled loop for segments of less than so many values on average.
_COMPILED = (np.maximum, np.fmin)
_SHORT = 64
#: Below this many rows NumPy is fast enough, and importing Numba (0.3 s) is never worth it.
SMALL = 4096


def segment_reduce(ufunc: np.ufunc, values: Array, offsets: Array, identity: object) -> Array:
    """Reduce each segment of `values`; empty segments give `identity`. The dtype is that of `values`."""
    return _reduced(ufunc, values, offsets, _filled(offsets), identity)


def segment_reduce_each(
    ufuncs: Sequence[np.ufunc], columns: Sequence[Array], identities: Sequence[object], offsets: Array
) -> tuple[Array, ...]:
    """The same for several columns of values."""
    filled = _filled(offsets)
    each = zip(ufuncs, columns, identities, strict=True)
    return tuple([_reduced(ufunc, values, offsets, filled, none) for ufunc, values, none in each])


def _filled(offsets: Array) -> Array | None:
    """Which segments are not empty; None: all."""
    filled = offsets[1:] > offsets[:-1]
    return None if 0 < len(filled) == np.count_nonzero(filled) else filled


def _reduced(ufunc: np.ufunc, values: Array, offsets: Array, filled: Array | None, identity: object) -> Array:
    """`filled`: which segments are not empty; None: all."""
    starts, stop = offsets[:-1], offsets[-1]
    if len(values) != stop:
        values = values[:stop]
    if filled is None:
        if _pays(ufunc, values, starts):
            return _compiled(ufunc, values, starts)
        return ufunc.reduceat(values, starts, dtype=values.dtype)
    out = np.empty(len(starts), values.dtype)
    out[:] = identity
    if filled.any():
        # The next filled segment starts where this one stops, so reduceat sees the same segments.
        out[filled] = ufunc.reduceat(values, starts[filled], dtype=values.dtype)
    return out


def _pays(ufunc: np.ufunc, values: Array, starts: Array) -> bool:
    many = len(values) >= SMALL and len(starts) * _SHORT > len(values)
    return many and ufunc in _COMPILED and values.dtype.kind in "fiu" and starts[0] == 0


def _compiled(ufunc: np.ufunc, values: Array, starts: Array) -> Array:
    """Many short segments: NumPy needs some time for each of them."""
    from panes.aggregates import kernels

    out = np.empty(len(starts), values.dtype)
    (kernels.segment_max if ufunc is np.maximum else kernels.segment_min)(values, starts, out)
    return out


def segment_count(flags: Array, offsets: Array) -> Array:
    """How many of `flags` are set in each segment."""
    if len(offsets) - 1 <= 64:
        bounds = offsets.tolist()
        return np.array([np.count_nonzero(flags[a:b]) for a, b in pairwise(bounds)], np.int64)
    return np.diff(positions_of(flags, offsets))


def positions_of(flags: Array, offsets: Array) -> Array:
    """The offsets of the same segments once only the flagged rows are kept."""
    before = np.zeros(len(flags) + 1, np.int64)
    np.cumsum(flags, out=before[1:])
    kept: Array = before[offsets]
    return kept


def compress(flags: Array, offsets: Array) -> tuple[Array, Array]:
    """Keep flagged rows only: (their indexes, the offsets of the segments among them)."""
    first, stop = offsets[0], offsets[-1]
    kept = positions_of(flags, offsets)
    return np.flatnonzero(flags[first:stop]) + first, kept - kept[0]


def segment_ids(offsets: Array) -> Array:
    """The number of the segment that each row from offsets[0] on lies in."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def offsets_of(lengths: Array) -> Array:
    """Offsets of consecutive segments of these lengths."""
    out = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=out[1:])
    return out


def sort_by_group(groups: Array, n: int) -> tuple[Array, Array]:
    """Stable order of rows by group, and the offsets of groups 0..n-1 in it."""
    if len(groups) < SMALL:
        order = np.argsort(groups, kind="stable")
        return order, offsets_of(np.bincount(groups, minlength=n))
    from panes.aggregates import kernels

    return kernels.counting_sort(groups, n)


def least(dtype: np.dtype) -> tuple[np.ufunc, object]:
    """The reduction to the smallest value, and its identity (the largest value of the order)."""
    if dtype.kind == "f":
        return np.fmin, np.nan  # fmin passes over NaN unless there is nothing else
    if dtype.kind == "b":
        return np.logical_and, True
    if dtype.kind == "O":
        return np.minimum, None
    return np.minimum, np.iinfo(dtype).max


def greatest(dtype: np.dtype) -> tuple[np.ufunc, object]:
    """The reduction to the largest value, and its identity (the smallest value of the order)."""
    if dtype.kind == "f":
        return np.maximum, -np.inf
    if dtype.kind == "b":
        return np.logical_or, False
    if dtype.kind == "O":
        return np.maximum, None
    return np.maximum, np.iinfo(dtype).min


def same(a: Array, b: Array) -> Array:
    """Elementwise equality, NaN equal to NaN."""
    equal = np.asarray(a == b, bool)
    if a.dtype.kind == "f":
        equal |= np.isnan(a) & np.isnan(b)
    return equal


def less(a: Array, b: Array) -> Array:
    """Elementwise a < b, NaN last."""
    below = np.asarray(a < b, bool)
    if a.dtype.kind == "f":
        below |= np.isnan(b) & ~np.isnan(a)
    return below


def normal(values: Array) -> Array:
    """The same values with -0.0 written as 0.0, so that equal values have equal bits."""
    return values + values.dtype.type(0) if values.dtype.kind == "f" else values
