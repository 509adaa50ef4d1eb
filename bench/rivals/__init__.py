"""Rival techniques of window aggregation behind one small interface, each in a module with its card."""

from __future__ import annotations

from bench.rivals.aggregate_buckets import AggregateBuckets
from bench.rivals.aggregate_tree import AggregateTree
from bench.rivals.base import Marked, NotApplicable, Periodic, Query, Results, Rival, Session
from bench.rivals.cutty import Cutty
from bench.rivals.functions import FUNCTIONS, Function
from bench.rivals.naive import Naive
from bench.rivals.pairs import Pairs
from bench.rivals.panes import Panes
from bench.rivals.tuple_buckets import TupleBuckets
from bench.rivals.tuple_buffer import TupleBuffer

#: Every technique, in the order in which tables show them.
RIVALS: tuple[type[Rival], ...] = (
    Naive,
    TupleBuffer,
    AggregateTree,
    AggregateBuckets,
    TupleBuckets,
    Panes,
    Pairs,
    Cutty,
)

__all__ = [
    "FUNCTIONS",
    "RIVALS",
    "AggregateBuckets",
    "AggregateTree",
    "Cutty",
    "Function",
    "Marked",
    "Naive",
    "NotApplicable",
    "Pairs",
    "Panes",
    "Periodic",
    "Query",
    "Results",
    "Rival",
    "Session",
    "TupleBuckets",
    "TupleBuffer",
]
