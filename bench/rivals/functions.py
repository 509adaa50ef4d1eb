"""The aggregates that rivals compute: a partial is a few float columns, each folded by one operation.

Flows in: a column of values. Flows out: columns of partials (`lift`), and of results (`lower`).
The median has no partial of fixed size; techniques that keep rows compute it from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

Array = np.ndarray

ADD, LEAST, GREATEST, FIRST, LAST = range(5)
IDENTITY = {ADD: 0.0, LEAST: np.inf, GREATEST: -np.inf, FIRST: np.nan, LAST: np.nan}


@dataclass(frozen=True)
class Function:
    """One aggregate: the operation of each partial column, and how results are read off."""

    name: str
    ops: tuple[int, ...]
    lower: Callable[[Sequence[Array]], Array]
    #: partial columns that count rows instead of holding values
    counts: tuple[int, ...] = ()
    holistic: bool = False

    @property
    def commutative(self) -> bool:
        return not {FIRST, LAST} & set(self.ops)

    def lift(self, values: Array) -> list[Array]:
        """One partial per row."""
        return [np.ones(len(values)) if i in self.counts else values for i in range(len(self.ops))]


def _only(partials: Sequence[Array]) -> Array:
    return partials[0]


def _mean(partials: Sequence[Array]) -> Array:
    return partials[0] / partials[1]


def _spread(partials: Sequence[Array]) -> Array:
    """One number that depends on all four parts of M4, so that results can be compared as floats."""
    least, greatest, first, last = partials
    return least + 2 * greatest + 3 * first + 5 * last


SUM = Function("sum", (ADD,), _only)
COUNT = Function("count", (ADD,), _only, counts=(0,))
AVG = Function("avg", (ADD, ADD), _mean, counts=(1,))
MIN = Function("min", (LEAST,), _only)
MAX = Function("max", (GREATEST,), _only)
FIRST_VALUE = Function("first", (FIRST,), _only)
LAST_VALUE = Function("last", (LAST,), _only)
M4 = Function("m4", (LEAST, GREATEST, FIRST, LAST), _spread)
MEDIAN = Function("median", (), _only, holistic=True)

FUNCTIONS = {f.name: f for f in (SUM, COUNT, AVG, MIN, MAX, FIRST_VALUE, LAST_VALUE, M4, MEDIAN)}


def fold_segments(op: int, column: Array, starts: Array) -> Array:
    """Fold consecutive rows: segment i is rows starts[i] up to starts[i + 1] (none may be empty)."""
    if op == ADD:
        return np.add.reduceat(column, starts)
    if op == LEAST:
        return np.minimum.reduceat(column, starts)
    if op == GREATEST:
        return np.maximum.reduceat(column, starts)
    if op == FIRST:
        return column[starts]
    return column[np.append(starts[1:], len(column)) - 1]


def fold_rows(function: Function, values: Array, starts: Array) -> list[Array]:
    """Partials of consecutive segments of rows; columns that count rows don't read them."""
    lengths = np.diff(np.append(starts, len(values))).astype(np.float64)
    return [lengths if i in function.counts else fold_segments(op, values, starts) for i, op in enumerate(function.ops)]


def middle(values: Array) -> float:
    """The value in the middle, or the mean of the two that are there."""
    low, high = (len(values) - 1) // 2, len(values) // 2
    if low == high:
        return float(np.partition(values, low)[low])
    around = np.partition(values, (low, high))
    return 0.5 * float(around[low]) + 0.5 * float(around[high])
