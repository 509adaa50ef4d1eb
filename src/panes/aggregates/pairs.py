"""Correlation, covariance and linear regression: aggregates of rows in which two values are there.

A partial holds the means of both columns and the sums of squares and products around them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from panes.aggregates.base import (
    INVERTIBLE,
    Array,
    BoundAggregate,
    Cells,
    Column,
    Field,
    Inputs,
    Laws,
    Spec,
)
from panes.aggregates.columns import arrow_from_values
from panes.aggregates.fieldwise import count_field
from panes.aggregates.moments import complete_rows, held_cells, mean_near, sums
from panes.aggregates.segments import segment_ids, segment_reduce
from panes.aggregates.totals import BoundCount, FloatTotal, as_float, float_sum_field
from panes.aggregates.types import NUMERIC
from panes.errors import QueryError


@dataclass(frozen=True, repr=False)
class OfPairs(Spec):
    """An aggregate of y and x, in this order as in SQL, over the rows that have both."""

    takes: ClassVar[tuple[str, ...] | None] = NUMERIC

    #: which of `RESULTS` it is; a name of its own, so that each is a value like others
    function: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.function not in FUNCTIONS:
            raise QueryError(f"{self.function!r} is no aggregate of two columns; there are {', '.join(FUNCTIONS)}")

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.function

    @property
    def laws(self) -> Laws:
        return INVERTIBLE if self.function == "regr_count" else Laws()

    def __repr__(self) -> str:
        return f"{self.function}({', '.join(self.inputs)})"

    def bind(self, types: Sequence[pa.DataType]) -> BoundAggregate:
        self.argument_types(types)
        if self.function == "regr_count":
            return BoundPairCount((count_field(),), INVERTIBLE, pa.int64())
        if self.function in _MEANS:
            parts = (float_sum_field(), count_field())
            return BoundPairMean(parts, Laws(), pa.float64(), mean=True, of=_MEANS[self.function])
        return BoundPairs(self.function)


#: Means that need nothing but a sum, and whose it is: 0 of y, 1 of x.
_MEANS = {"regr_avgy": 0, "regr_avgx": 1}


class BoundPairs(BoundAggregate):
    laws = Laws()
    fields = (Field("n", pa.int64()), *(Field(name, pa.float64()) for name in ("y", "x", "yy", "xx", "xy")))
    out_type = pa.float64()
    dense = True

    def __init__(self, function: str) -> None:
        self.function = function

    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        (y, x), offsets = complete_rows(rows.columns, offsets)
        segments = segment_ids(offsets)
        with np.errstate(invalid="ignore", over="ignore"):
            my, mx = mean_near(y, None, offsets), mean_near(x, None, offsets)
            dy, dx = y - my[segments], x - mx[segments]
            return _around(np.diff(offsets), my, mx, *sums([dy, dx, dy * dy, dx * dx, dx * dy], offsets))

    def fold(self, cells: Cells, offsets: Array) -> Cells:
        (n, y, x, *products), offsets = held_cells(cells, offsets)
        segments = segment_ids(offsets)
        with np.errstate(invalid="ignore", over="ignore"):
            my, mx = mean_near(y, n, offsets), mean_near(x, n, offsets)
            moved = _moved(n, y - my[segments], x - mx[segments], *products)
            return _around(segment_reduce(np.add, n, offsets, 0), my, mx, *sums(moved, offsets))

    def merge(self, a: Cells, b: Cells) -> Cells:
        (n, y, x, *p), (m, v, u, *q) = a.fields, b.fields
        both = (n > 0) & (m > 0)
        with np.errstate(invalid="ignore", over="ignore"):
            share = m / np.maximum(n + m, 1)
            my = np.where(n > 0, y + np.where(both, v - y, 0.0) * share, v)
            mx = np.where(n > 0, x + np.where(both, u - x, 0.0) * share, u)
            left = _moved(n, np.where(n > 0, y - my, 0.0), np.where(n > 0, x - mx, 0.0), *p)
            right = _moved(m, np.where(m > 0, v - my, 0.0), np.where(m > 0, u - mx, 0.0), *q)
            return Cells((n + m, my, mx, *(i + j for i, j in zip(left[2:], right[2:], strict=True))))

    def lower(self, cells: Cells) -> pa.Array:
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            found, there = RESULTS[self.function](*cells.fields)
        return arrow_from_values(found, there & (cells.fields[0] > 0), self.out_type)


def _moved(n: Array, dy: Array, dx: Array, yy: Array, xx: Array, xy: Array) -> list[Array]:
    """Sums around a point, from those around means that lie dy and dx away from it."""
    return [n * dy, n * dx, yy + n * dy * dy, xx + n * dx * dx, xy + n * dx * dy]


def _around(n: Array, my: Array, mx: Array, sy: Array, sx: Array, yy: Array, xx: Array, xy: Array) -> Cells:
    """Cells from sums around rounded means: the true ones lie a little away from them."""
    divisor = np.maximum(n, 1)
    ey, ex = sy / divisor, sx / divisor
    squares = np.maximum(yy - n * ey * ey, 0.0), np.maximum(xx - n * ex * ex, 0.0)
    return Cells((n, my + ey, mx + ex, *squares, xy - n * ex * ey))


_Result = Callable[[Array, Array, Array, Array, Array, Array], tuple[Array, Array]]


def _corr(n: Array, y: Array, x: Array, yy: Array, xx: Array, xy: Array) -> tuple[Array, Array]:
    return xy / np.sqrt(xx * yy), (n > 1) & (xx != 0) & (yy != 0)


def _r2(n: Array, y: Array, x: Array, yy: Array, xx: Array, xy: Array) -> tuple[Array, Array]:
    r = xy / np.sqrt(xx * yy)
    return np.where(yy == 0, 1.0, r * r), xx != 0


#: From n, both means and the sums of squares and products: the result, and where there is one. As Spark has it.
RESULTS: Mapping[str, _Result] = {
    "corr": _corr,
    "covar_pop": lambda n, y, x, yy, xx, xy: (xy / n, n > 0),
    "covar_samp": lambda n, y, x, yy, xx, xy: (xy / (n - 1), n > 1),
    "regr_sxx": lambda n, y, x, yy, xx, xy: (xx, n > 0),
    "regr_syy": lambda n, y, x, yy, xx, xy: (yy, n > 0),
    "regr_sxy": lambda n, y, x, yy, xx, xy: (xy, n > 0),
    "regr_slope": lambda n, y, x, yy, xx, xy: (xy / xx, xx != 0),
    "regr_intercept": lambda n, y, x, yy, xx, xy: (y - xy / xx * x, xx != 0),
    "regr_r2": _r2,
}
#: All functions of pairs.
FUNCTIONS = (*RESULTS, "regr_count", *_MEANS)


class BoundPairCount(BoundCount):
    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        return super().lift(_of_pairs(rows, 0), offsets)

    def lift_groups(self, rows: Inputs, groups: Array, n: int) -> Cells:
        return super().lift_groups(_of_pairs(rows, 0), groups, n)


class BoundPairMean(FloatTotal):
    def __init__(self, *args: object, of: int, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.of = of

    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        return super().lift(_of_pairs(rows, self.of), offsets)

    def lift_groups(self, rows: Inputs, groups: Array, n: int) -> Cells:
        return super().lift_groups(_of_pairs(rows, self.of), groups, n)


def _of_pairs(rows: Inputs, of: int) -> Inputs:
    """One column of a pair in float64, null where the other is."""
    y, x = rows.columns
    valid = y.valid if x.valid is None else x.valid if y.valid is None else x.valid & y.valid
    column = rows.columns[of]
    values = column.values
    if values.dtype.kind == "O" and valid is not None:
        values = np.where(valid, values, 0.0)
    return Inputs((Column(as_float(values), valid, pa.float64()),), rows.times, rows.seq, rows.rows)
