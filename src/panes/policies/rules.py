"""The rules of triggers and evictions over plain numbers, each written once.

Loops over arrays ask them, compiled or not (triggers.py, evictions.py, library/kernels.py, the join of operators/), and
so do policies and containers that look at one Python object at a time (runtimes.py, library/).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

#: a row, as far as a policy compares it; a distance that is NaN neither triggers nor evicts
Point = Sequence[float] | np.ndarray
EUCLIDEAN, COSINE = "euclidean", "cosine"
# what several evictions say together
MAX, MIN, SUM, PRIORITY = 20, 21, 22, 23


def is_beyond(value: float, first: float, limit: float) -> bool:
    """Whether a value, or a moment, is further from the first one than a window reaches."""
    return value - first > limit


def leaves_by_count(size: int, most: int) -> bool:
    """Whether the oldest of so many tuples leaves for one more."""
    return size >= most and size > 0


def counted(counter: int, every: int) -> int:
    """Tuples since the last that triggered, one more of them come; 0: it triggers."""
    return counter + 1 if counter + 1 < every else 0


def count_leaves(counter: int, size: int, most: int, delete: int, resync: bool) -> tuple[int, int]:
    """How many rows a count lets go for one more, and where it is then. `resync`: others let rows go, too."""
    if resync and counter > size:
        counter = size
    if counter >= most:
        return delete, max(0, counter - delete) + 1
    return 0, counter + 1


def borders_due(border: int, now: int, size: int) -> int:
    """How many borders have come, the next of which is `border`."""
    return max(0, (now - border) // size + 1)


def joined(rule: int, so_far: int, said: int) -> int:
    """What several evictions say together, one more of them heard."""
    if rule == MAX:
        return max(so_far, said)
    if rule == MIN:
        return min(so_far, said)
    if rule == SUM:
        return so_far + said
    return so_far if so_far > 0 else said


def distance(by_angle: bool, n: int, old: Any, first: int, i: int, new: Any, column: int, j: int) -> float:
    """How far n values new[column:, j] are from as many old[first:, i]: in a straight line, or by the angle."""
    if n == 1 and not by_angle:
        return abs(new[column, j] - old[first, i])
    squares, dot, left, right = 0.0, 0.0, 0.0, 0.0
    for c in range(n):
        before, after = old[first + c, i], new[column + c, j]
        squares += (after - before) * (after - before)
        dot += before * after
        left += before * before
        right += after * after
    if not by_angle:
        return math.sqrt(squares)
    length = math.sqrt(left) * math.sqrt(right)
    return math.nan if length == 0 else 1 - dot / length


def euclidean(old: Point, new: Point) -> float:
    """The length of the straight line between two points.

    >>> euclidean((1, 2), (4, 6))
    5.0
    """
    return abs(new[0] - old[0]) if len(old) == 1 else _between(False, old, new)


def cosine(old: Point, new: Point) -> float:
    """One minus the cosine of the angle: 0 in the same direction, 2 in the opposite one, NaN for a zero vector.

    >>> round(cosine((3, 4), (4, 3)), 12)
    0.04
    """
    return _between(True, old, new)


def _between(by_angle: bool, old: Point, new: Point) -> float:
    """`distance` of points, which are lines of one column."""
    before, after = ({(c, 0): value for c, value in enumerate(point)} for point in (old, new))
    return distance(by_angle, len(old), before, 0, 0, after, 0, 0)
