"""Distances between two rows, for delta policies: over one column or several (SPEC P-25).

Tuples in Python, lines of arrays in loops: one source for both (loop.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

#: a row, as far as a policy compares it; a distance that is NaN neither triggers nor evicts
Point = Sequence[float] | np.ndarray
EUCLIDEAN, COSINE = "euclidean", "cosine"


def euclidean(old: Point, new: Point) -> float:
    """The length of the straight line between two points.

    >>> euclidean((1, 2), (4, 6))
    5.0
    """
    if len(old) == 1:
        return abs(new[0] - old[0])
    squares = 0.0
    for i in range(len(old)):
        squares += (new[i] - old[i]) * (new[i] - old[i])
    return math.sqrt(squares)


def cosine(old: Point, new: Point) -> float:
    """One minus the cosine of the angle: 0 in the same direction, 2 in the opposite one, NaN for a zero vector.

    >>> round(cosine((3, 4), (4, 3)), 12)
    0.04
    """
    dot, left, right = 0.0, 0.0, 0.0
    for i in range(len(old)):
        dot += old[i] * new[i]
        left += old[i] * old[i]
        right += new[i] * new[i]
    length = math.sqrt(left) * math.sqrt(right)
    return math.nan if length == 0 else 1 - dot / length
