"""The rule by which a tree is slower than another, from the ratios of turns in which both ran.

A ratio is time of this tree / time of the other, so above 1 means that this tree took longer. The interval is that of
the median by order statistics (as in a sign test): it supposes nothing about how times are spread, and one disturbed
turn can't move it. Of seven ratios it goes from the second smallest to the second largest.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

SLOWER, FASTER, SAME, UNJUDGED = "slower", "faster", "same", "not judged"
#: How much longer the median turn must take before it counts.
LIMIT = 1.05
#: How sure the interval must be.
LEVEL = 0.8


@dataclass(frozen=True)
class Verdict:
    """The median ratio, the interval around it (None: too few ratios for one), and what that means."""

    ratio: float
    interval: tuple[float, float] | None
    word: str


def judge(ratios: Sequence[float]) -> Verdict:
    """Slower: the median is above 1.05 and the 80 % interval lies above 1. Faster: the same, turned round."""
    ratio = statistics.median(ratios)
    interval = median_interval(ratios)
    if interval is None:
        return Verdict(ratio, None, UNJUDGED)
    low, high = interval
    if ratio > LIMIT and low > 1:
        return Verdict(ratio, interval, SLOWER)
    if ratio < 1 / LIMIT and high < 1:
        return Verdict(ratio, interval, FASTER)
    return Verdict(ratio, interval, SAME)


def median_interval(values: Sequence[float], level: float = LEVEL) -> tuple[float, float] | None:
    """The narrowest pair of ordered values that holds the median with at least this probability, if there is one."""
    n = len(values)
    ordered = sorted(values)
    outside = 0.0  # probability that the median lies below the k-th smallest
    found = None
    for k in range(n // 2):
        outside += comb(n, k) / 2**n
        if 1 - 2 * outside < level:
            break
        found = ordered[k], ordered[n - 1 - k]
    return found
