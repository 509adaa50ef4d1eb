"""A binary heap in an array, compiled: lines of four numbers, ordered by the first three."""

from __future__ import annotations

import numpy as np
from numba import njit

Array = np.ndarray


@njit(cache=True)
def _less(heap: Array, a: int, b: int) -> bool:
    for k in range(3):
        if heap[a, k] != heap[b, k]:
            return bool(heap[a, k] < heap[b, k])
    return False


@njit(cache=True)
def _swap(heap: Array, a: int, b: int) -> None:
    for k in range(4):
        heap[a, k], heap[b, k] = heap[b, k], heap[a, k]


@njit(cache=True)
def heap_push(heap: Array, n: int, a: int, b: int, c: int, d: int) -> int:
    """Put (a, b, c, d) into a heap of n entries ordered by the first three; returns its new size."""
    heap[n, 0], heap[n, 1], heap[n, 2], heap[n, 3] = a, b, c, d
    at = n
    while at > 0:
        parent = (at - 1) // 2
        if not _less(heap, at, parent):
            break
        _swap(heap, at, parent)
        at = parent
    return n + 1


@njit(cache=True)
def heap_drop(heap: Array, n: int) -> int:
    """Remove the first entry; returns the new size."""
    n -= 1
    _swap(heap, 0, n)
    at = 0
    while True:
        child = 2 * at + 1
        if child >= n:
            return n
        if child + 1 < n and _less(heap, child + 1, child):
            child += 1
        if not _less(heap, child, at):
            return n
        _swap(heap, at, child)
        at = child
