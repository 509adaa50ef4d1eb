"""Compiled loops of the rivals, where a technique works row by row or window by window.

Compiled once per machine (`cache=True`). Operations are the codes of `functions.py`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from bench.rivals.functions import ADD, FIRST, GREATEST, LEAST

Array = np.ndarray

# NaN is the identity of FIRST and LAST only, so sums and extremes may be reordered into vector registers.
_REORDER = {"reassoc", "nsz", "contract"}


@njit(inline="always")
def combine(op: int, a: float, b: float) -> float:
    if op == ADD:
        return a + b
    if op == LEAST:
        return a if a < b else b
    if op == GREATEST:
        return a if a > b else b
    if op == FIRST:
        return b if np.isnan(a) else a
    return a if np.isnan(b) else b


@njit(cache=True, fastmath=_REORDER)
def _sum(values: Array) -> float:
    total = 0.0
    for v in values:
        total += v
    return total


@njit(cache=True, fastmath={"reassoc", "nsz", "nnan"})
def _least(values: Array) -> float:
    best = values[0]
    for v in values:
        best = min(best, v)
    return best


@njit(cache=True, fastmath={"reassoc", "nsz", "nnan"})
def _greatest(values: Array) -> float:
    best = values[0]
    for v in values:
        best = max(best, v)
    return best


@njit(cache=True)
def fold_ranges(op: int, values: Array, lo: Array, hi: Array, identity: float) -> Array:
    """Fold rows lo[i]:hi[i], each range from scratch."""
    out = np.empty(len(lo))
    for i in range(len(lo)):
        part = values[lo[i] : hi[i]]
        if len(part) == 0:
            out[i] = identity
        elif op == ADD:
            out[i] = _sum(part)
        elif op == LEAST:
            out[i] = _least(part)
        elif op == GREATEST:
            out[i] = _greatest(part)
        elif op == FIRST:
            out[i] = part[0]
        else:
            out[i] = part[-1]
    return out


@njit(cache=True)
def merge_columns(op: int, a: Array, b: Array) -> Array:
    """Elementwise a[i] before b[i]."""
    out = np.empty(len(a))
    for i in range(len(a)):
        out[i] = combine(op, a[i], b[i])
    return out


@njit(cache=True)
def running_fold(op: int, column: Array, begins: Array) -> Array:
    """Running fold that starts anew wherever `begins` is true."""
    out = np.empty(len(column))
    for i in range(len(column)):
        out[i] = column[i] if i == 0 or begins[i] else combine(op, out[i - 1], column[i])
    return out


@njit(cache=True)
def scatter(op: int, bucket: Array, slots: Array, values: Array) -> None:
    """Combine each value into the cell of its key."""
    for i in range(len(slots)):
        bucket[slots[i]] = combine(op, bucket[slots[i]], values[i])


@njit(cache=True)
def periodic_windows(sizes: Array, slides: Array, first_end: int, last_end: int, earliest: int, latest: int):  # type: ignore[no-untyped-def]
    """(query, start) of periodic windows with first_end < end <= last_end and earliest <= start <= latest."""
    n = len(sizes)
    first = np.empty(n, np.int64)
    last = np.empty(n, np.int64)
    total = 0
    for q in range(n):
        first[q] = max((first_end - sizes[q]) // slides[q] + 1, -(-earliest // slides[q]))
        last[q] = min((last_end - sizes[q]) // slides[q], latest // slides[q])
        total += max(0, last[q] - first[q] + 1)
    query = np.empty(total, np.int64)
    start = np.empty(total, np.int64)
    i = 0
    for q in range(n):
        for k in range(first[q], last[q] + 1):
            query[i] = q
            start[i] = k * slides[q]
            i += 1
    return query, start


@njit(cache=True)
def refresh(op: int, heap: Array, lo: int, hi: int) -> int:
    """Recompute all ancestors of leaves lo:hi, level by level; how many nodes were combined."""
    capacity = len(heap) // 2
    lo += capacity
    hi += capacity
    work = 0
    while lo > 1:
        lo //= 2
        hi = (hi + 1) // 2
        for node in range(lo, hi):
            heap[node] = combine(op, heap[2 * node], heap[2 * node + 1])
        work += hi - lo
    return work


@njit(cache=True)
def insert_each(op: int, heap: Array, leaf: int, column: Array) -> int:
    """Put values into leaves from `leaf` on, one after another, each with its path to the root."""
    capacity = len(heap) // 2
    work = 0
    for i in range(len(column)):
        node = capacity + (leaf + i) % capacity
        heap[node] = column[i]
        while node > 1:
            node //= 2
            heap[node] = combine(op, heap[2 * node], heap[2 * node + 1])
            work += 1
    return work


@njit(cache=True)
def _cover(op: int, heap: Array, lo: int, hi: int, identity: float):  # type: ignore[no-untyped-def]
    capacity = len(heap) // 2
    left = identity
    right = identity
    lo += capacity
    hi += capacity
    work = 0
    while lo < hi:
        if lo & 1:
            left = combine(op, left, heap[lo])
            lo += 1
            work += 1
        if hi & 1:
            hi -= 1
            right = combine(op, heap[hi], right)
            work += 1
        lo >>= 1
        hi >>= 1
    return combine(op, left, right), work


@njit(cache=True)
def lookup_ranges(op: int, heap: Array, front: int, lo: Array, hi: Array, identity: float):  # type: ignore[no-untyped-def]
    """Fold leaves lo[i]:hi[i], counted from `front` around the circle; (results, nodes combined)."""
    capacity = len(heap) // 2
    out = np.empty(len(lo))
    work = 0
    for i in range(len(lo)):
        a = front + lo[i]
        b = front + hi[i]
        if a >= capacity:
            a -= capacity
            b -= capacity
        if b <= capacity:
            out[i], done = _cover(op, heap, a, b, identity)
        else:
            older, done = _cover(op, heap, a, capacity, identity)
            newer, more = _cover(op, heap, 0, b - capacity, identity)
            out[i] = combine(op, older, newer)
            done += more
        work += done
    return out, work
