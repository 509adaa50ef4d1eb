"""Pairs: slices end wherever a window starts or ends; for one query they alternate between two lengths.

ordering   in order only
needs      an associative operation with a partial of fixed size; periodic windows
time       one combine per row; at most 2 * size/slide combines per window (lazy), log of it (eager: "Pairs+")
space      2 * size/slide partials (eager: twice)
idea       size mod slide and the rest of the slide are enough; many queries: the union of their edges
paper      Krishnamurthy et al., On-the-Fly Sharing for Streamed Aggregation (SIGMOD 2006); SPEC W-12
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.rivals.base import NotApplicable, Periodic, Query
from bench.rivals.functions import Function
from bench.rivals.in_order_slices import InOrderSlices

Array = np.ndarray


def pair(query: Periodic) -> tuple[int, ...]:
    """The alternating slice lengths of one query (the first ends at window starts); one if tumbling fits."""
    second = query.size % query.slide
    first = query.slide - second
    return (first, second) if second else (first,)


class Pairs(InOrderSlices):
    name = "pairs"

    def __init__(self, queries: Sequence[Query], function: Function, *, ooo: bool = False, eager: bool = False) -> None:
        if not all(isinstance(q, Periodic) for q in queries):
            raise NotApplicable("pairs: windows must be periodic, other windows have no fixed pair of lengths")
        super().__init__(queries, function, ooo=ooo, eager=eager)

    def _edges(self, lo: int, hi: int) -> Array:
        return np.union1d(self.windows.starts(lo, hi), self.windows.ends(lo, hi))
