"""Panes: slices of equal length, the greatest common divisor of all sizes and slides.

ordering   in order only
needs      an associative operation with a partial of fixed size; periodic windows
time       one combine per row; size/gcd combines per window (lazy), log of it (eager)
space      size/gcd partials (eager: twice)
idea       every window is a whole number of panes, and panes are shared by overlapping windows
paper      Li et al., No Pane, No Gain (SIGMOD Record 2005); SPEC W-12
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bench.rivals.base import NotApplicable, Periodic, Query
from bench.rivals.functions import Function
from bench.rivals.in_order_slices import InOrderSlices

Array = np.ndarray


def pane_length(queries: Sequence[Query]) -> int:
    """The one slice length that divides every size and slide."""
    if not all(isinstance(q, Periodic) for q in queries):
        raise NotApplicable("panes: windows must be periodic, other windows have no common divisor")
    return math.gcd(*(n for q in queries if isinstance(q, Periodic) for n in (q.size, q.slide)))


class Panes(InOrderSlices):
    name = "panes (Li 2005)"  # not to be mistaken for this project in tables

    def __init__(self, queries: Sequence[Query], function: Function, *, ooo: bool = False, eager: bool = False) -> None:
        super().__init__(queries, function, ooo=ooo, eager=eager)
        self.length = pane_length(queries)

    def _edges(self, lo: int, hi: int) -> Array:
        return np.arange(lo // self.length + 1, hi // self.length + 1) * self.length
