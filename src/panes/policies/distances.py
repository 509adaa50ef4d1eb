"""Distances between two rows, for delta policies: over one column or several (SPEC P-25)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

#: how far the second row is from the first; NaN: nobody knows, which neither triggers nor evicts
Distance = Callable[[Any, Any], float]

EUCLIDEAN, COSINE = "euclidean", "cosine"


def euclidean(old: Sequence[float], new: Sequence[float]) -> float:
    """The length of the straight line between two points.

    >>> euclidean((1, 2), (4, 6))
    5.0
    """
    if len(old) == 1:
        return abs(new[0] - old[0])
    return math.sqrt(sum((b - a) ** 2 for a, b in zip(old, new)))


def cosine(old: Sequence[float], new: Sequence[float]) -> float:
    """One minus the cosine of the angle: 0 in the same direction, 2 in the opposite one, NaN for a zero vector.

    >>> round(cosine((3, 4), (4, 3)), 12)
    0.04
    """
    dot = sum(a * b for a, b in zip(old, new))
    length = math.sqrt(sum(a * a for a in old)) * math.sqrt(sum(b * b for b in new))
    return math.nan if length == 0 else 1 - dot / length
