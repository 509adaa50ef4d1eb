"""Aggregate tree: a FlatFAT over all rows.

ordering   any; a row out of order moves the leaves behind it and rebuilds what lies above them
needs      an associative operation with a partial of fixed size
time       O(log n) combines per row alone, O(1) per row of a batch; O(log n) per window
space      n rows and n - 1 partials (SPEC S-08: n*T + (n-1)*A)
idea       every window is a range of leaves; the partials above the leaves are shared by all windows
paper      Tangwongsan et al. (PVLDB 2015), called RA by Carbone (2018); SPEC S-10, W-11
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.rivals.base import Query
from bench.rivals.flatfat import FlatFat
from bench.rivals.functions import Function
from bench.rivals.tuple_buffer import TupleBuffer

Array = np.ndarray


class AggregateTree(TupleBuffer):
    name = "aggregate tree"
    takes_holistic = False

    def __init__(self, queries: Sequence[Query], function: Function, *, ooo: bool = False, each: bool = False) -> None:
        super().__init__(queries, function, ooo=ooo)
        self.each = each  # update the whole path of every row, as the literature counts it
        self.trees = [FlatFat(op) for op in function.ops]

    @property
    def bytes(self) -> int:
        return super().bytes + 8 * self._partials() * len(self.trees)

    def _moved(self, kept: int) -> None:
        lifted = self.function.lift(self.rows.values[kept:])
        before = self.trees[0].work
        for tree, column in zip(self.trees, lifted):
            if self.each and kept == len(tree):
                tree.append(column, each=True)
            else:
                tree.rewrite(kept, column)
        self.counters.update += self.trees[0].work - before

    def _dropped(self, count: int) -> None:
        before = self.trees[0].work
        for tree in self.trees:
            tree.purge(count)
        self.counters.update += self.trees[0].work - before

    def _partials(self) -> int:
        return max(0, len(self.rows) - 1)

    def _fold(self, lo: Array, hi: Array) -> Array:
        found = [tree.lookup(lo, hi) for tree in self.trees]
        self.counters.merge += found[0][1]
        return self.function.lower([values for values, _ in found])
