"""A histogram of a few bins that follow the data: the two nearest bins are put together until few enough are left.

Spark's `histogram_numeric` does this row by row and so depends on the order of rows; here the partial is all values
in order, and the result depends on them alone. With no more different values than bins both are the same.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Array, Cells
from panes.aggregates.columns import arrow_from_values
from panes.aggregates.holistic import BoundRuns, Holistic
from panes.aggregates.runs import Runs
from panes.aggregates.segments import offsets_of
from panes.aggregates.types import NUMERIC, kind_of, require
from panes.errors import QueryError

_FEWEST = 2


@dataclass(frozen=True, repr=False)
class HistogramNumeric(Holistic):
    """Bins as a list of structs: x, where a bin lies, and y, how many values it stands for."""

    name: ClassVar[str] = "histogram_numeric"

    bins: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.bins, bool) or not isinstance(self.bins, int) or self.bins < _FEWEST:
            raise QueryError(f"{self.name}: bins = {self.bins!r} is not a whole number of at least {_FEWEST}")

    def bind(self, types: Sequence[pa.DataType]) -> BoundHistogram:
        require(repr(self), self.inputs[0], types[0], (*NUMERIC, "temporal"), "cast it to a number")
        return BoundHistogram(self.ordered_type(types), self.bins)


class BoundHistogram(BoundRuns):
    def __init__(self, type: pa.DataType, bins: int) -> None:
        item = pa.struct([pa.field("x", type), pa.field("y", pa.float64())])
        super().__init__(type, pa.list_(item))
        self.bins = bins

    def lower(self, cells: Cells) -> pa.Array:
        runs = Runs.of(cells)
        bounds = runs.offsets - runs.offsets[0]
        values, counts = runs.values[runs.offsets[0] : runs.offsets[-1]], runs.counts().astype(np.float64)
        if np.diff(bounds).max(initial=0) > self.bins:
            parts = [self._few(values[a:b], counts[a:b]) for a, b in pairwise(bounds.tolist())]
            values, counts = (np.concatenate(side) for side in zip(*parts))
            bounds = offsets_of(np.array([len(x) for x, _ in parts]))
        items = [arrow_from_values(values, None, self.type), pa.array(counts)]
        bins = pa.StructArray.from_arrays(items, fields=list(self.out_type.value_type))
        empty = pa.array(bounds[1:] == bounds[:-1])
        return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), bins, type=self.out_type, mask=empty)

    def _few(self, values: Array, counts: Array) -> tuple[Array, Array]:
        if len(values) <= self.bins:
            return values, counts
        x, y = merged_bins(values.tolist(), counts.tolist(), self.bins)
        kind = kind_of(self.type)
        places: list[Any] = x
        if kind in ("integer", "temporal"):
            places = [int(v) for v in x]  # towards zero, as a cast does
        elif kind == "decimal":
            unit = Decimal(1).scaleb(-self.type.scale)
            places = [Decimal(v).quantize(unit) for v in x]
        return np.array(places, values.dtype), np.array(y)


def _distance(low: float, high: float) -> float:
    """How far apart two bins are; NaN, which is larger than any number, is far from all."""
    found = high - low
    return found if found == found else math.inf


def merged_bins(values: list[Any], y: list[float], bins: int) -> tuple[list[float], list[float]]:
    """Put the nearest two neighbours together until `bins` are left; of several that are equally near the first."""
    x = [float(v) for v in values]
    before, after = [i - 1 for i in range(len(x))], [i + 1 for i in range(len(x))]
    stamp = [0] * len(x)
    near = [(_distance(x[i], x[i + 1]), i, 0, 0) for i in range(len(x) - 1)]
    heapq.heapify(near)
    left = len(x)
    while left > bins and near:
        _, i, mine, other = heapq.heappop(near)
        j = after[i]
        if stamp[i] != mine or j >= len(x) or stamp[j] != other or stamp[i] < 0:
            continue
        total = y[i] + y[j]
        x[i], y[i] = (x[i] * y[i] + x[j] * y[j]) / total, total
        stamp[i], stamp[j] = stamp[i] + 1, -1
        after[i] = after[j]
        if after[i] < len(x):
            before[after[i]] = i
            heapq.heappush(near, (_distance(x[i], x[after[i]]), i, stamp[i], stamp[after[i]]))
        if before[i] >= 0:
            k = before[i]
            heapq.heappush(near, (_distance(x[k], x[i]), k, stamp[k], stamp[i]))
        left -= 1
    kept = [i for i in range(len(x)) if stamp[i] >= 0]
    return [x[i] for i in kept], [y[i] for i in kept]
