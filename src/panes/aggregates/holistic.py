"""Median, quantiles, mode and exact distinct count: aggregates whose partial grows with the rows.

All of them keep sorted runs (`runs.py`), so a query with several of them on one column sorts alike.
Quantiles of a window are selected across the runs of its slices without merging them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Array, BoundAggregate, Cells, Field, Inputs, Laws, Ragged
from panes.aggregates.columns import arrow_from_values
from panes.aggregates.order import choose
from panes.aggregates.runs import Runs, merged, runs_of_rows
from panes.aggregates.segments import SMALL, rows_by_group, segment_reduce
from panes.aggregates.spec import Spec
from panes.aggregates.types import ORDERED, kept_as, plain, require, storage_of
from panes.errors import QueryError

_HOLISTIC = Laws(holistic=True)
_ADVICE = "use something that has an order"


@dataclass(frozen=True, repr=False)
class _Holistic(Spec):
    promises: ClassVar[Laws] = _HOLISTIC

    def _type(self, types: Sequence[pa.DataType]) -> pa.DataType:
        (type,) = self.argument_types(types)
        require(repr(self), self.inputs[0], type, ORDERED, _ADVICE)
        return plain(type)


@dataclass(frozen=True, repr=False)
class Median(_Holistic):
    """The lower median: value number ceil(n / 2) in order."""

    name: ClassVar[str] = "median"

    def bind(self, types: Sequence[pa.DataType]) -> BoundQuantile:
        return BoundQuantile(self._type(types), Fraction(1, 2))


@dataclass(frozen=True, repr=False)
class Quantile(_Holistic):
    """Value number ceil(p * n) in order, at least the first."""

    name: ClassVar[str] = "quantile"

    p: float

    def __post_init__(self) -> None:
        super().__post_init__()
        share(self.name, self.p)

    def bind(self, types: Sequence[pa.DataType]) -> BoundQuantile:
        return BoundQuantile(self._type(types), share(self.name, self.p))


@dataclass(frozen=True, repr=False)
class Quantiles(_Holistic):
    """Several quantiles of the same values, as a list."""

    name: ClassVar[str] = "quantiles"

    ps: tuple[float, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.ps:
            raise QueryError("quantiles: ps is empty; give at least one number between 0 and 1")
        for p in self.ps:
            share(self.name, p)

    def bind(self, types: Sequence[pa.DataType]) -> BoundQuantiles:
        return BoundQuantiles(self._type(types), [share(self.name, p) for p in self.ps])


@dataclass(frozen=True, repr=False)
class Mode(_Holistic):
    """The most frequent value, the smallest of those."""

    name: ClassVar[str] = "mode"

    def bind(self, types: Sequence[pa.DataType]) -> BoundMode:
        return BoundMode(self._type(types))


@dataclass(frozen=True, repr=False)
class CountDistinct(_Holistic):
    """How many different values there are, exactly."""

    name: ClassVar[str] = "count_distinct"

    def bind(self, types: Sequence[pa.DataType]) -> BoundCountDistinct:
        return BoundCountDistinct(self._type(types))


def share(what: str, p: float) -> Fraction:
    """p as the decimal number that was written, so that ceil(p * n) is what it says: 0.07 of 100 is 7."""
    if isinstance(p, bool) or not isinstance(p, (int, float)) or not 0 <= p <= 1:
        raise QueryError(f"{what}: p = {p!r} is not a number between 0 and 1; the median is 0.5")
    return Fraction(repr(p))


def ranks_of(part: Fraction, n: Array) -> Array:
    """ceil(part * n), at least 1, and 0 where n is 0; exact."""
    top, bottom = part.numerator, part.denominator
    if top * int(n.max(initial=0)) < 1 << 63:
        ranks = -(-top * n // bottom)
    else:
        ranks = np.array([-(-top * k // bottom) for k in n.tolist()], np.int64)
    return np.where(n > 0, np.maximum(ranks, 1), 0)


class BoundRuns(BoundAggregate):
    """Lift to sorted runs, fold by merging them."""

    laws = _HOLISTIC

    def __init__(self, type: pa.DataType, out_type: pa.DataType) -> None:
        self.type = type
        self.dtype = storage_of(type)
        self.fields = (Field("values", kept_as(type), ragged=True), Field("upto", pa.int64(), ragged=True))
        self.out_type = out_type

    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        return runs_of_rows(rows.columns[0], offsets).cells()

    def lift_groups(self, rows: Inputs, groups: Array, n: int) -> Cells:
        return self.lift(*rows_by_group(rows, groups, n))

    def fold(self, cells: Cells, offsets: Array) -> Cells:
        return merged(Runs.of(cells), offsets).cells()

    def empty(self, n: int) -> Cells:
        offsets = np.zeros(n + 1, np.int64)
        return Cells((Ragged(offsets, np.empty(0, self.dtype)), Ragged(offsets, np.empty(0, np.int64))))

    def _select(self, runs: Runs, index: Array | None, offsets: Array, parts: list[Fraction]) -> list[pa.Array]:
        """For each part the quantile of each range of runs."""
        if index is None:
            index = np.arange(len(runs))
        sizes = np.diff(runs.offsets)[index]
        totals = segment_reduce(np.add, runs.totals()[index], offsets, 0)
        ranks = [ranks_of(part, totals) for part in parts]
        if sizes.sum() < SMALL or self.dtype.kind == "O":
            whole = merged(runs.take(index), offsets)
            found = [whole.kth(rank) for rank in ranks]
        else:
            from panes.aggregates import run_kernels

            found = []
            for rank in ranks:
                out = np.zeros(len(totals), self.dtype)
                run_kernels.select_ranges(runs.values, runs.upto, runs.offsets, index, offsets, rank, out)
                found.append((out, rank > 0))
        return [arrow_from_values(values, some, self.type) for values, some in found]


class BoundQuantile(BoundRuns):
    def __init__(self, type: pa.DataType, part: Fraction) -> None:
        super().__init__(type, type)
        self.part = part

    def lower(self, cells: Cells) -> pa.Array:
        runs = Runs.of(cells)
        return arrow_from_values(*runs.kth(ranks_of(self.part, runs.totals())), self.type)

    def lower_ranges(self, cells: Cells, index: Array | None, offsets: Array) -> pa.Array:
        (result,) = self._select(Runs.of(cells), index, offsets, [self.part])
        return result


class BoundQuantiles(BoundRuns):
    def __init__(self, type: pa.DataType, parts: list[Fraction]) -> None:
        super().__init__(type, pa.list_(type))
        self.parts = parts

    def lower(self, cells: Cells) -> pa.Array:
        return self.lower_ranges(cells, None, np.arange(len(cells) + 1))

    def lower_ranges(self, cells: Cells, index: Array | None, offsets: Array) -> pa.Array:
        columns = self._select(Runs.of(cells), index, offsets, self.parts)
        n, k = len(offsets) - 1, len(self.parts)
        side_by_side = pa.concat_arrays(columns).take(pa.array(np.arange(n * k).reshape(k, n).T.ravel()))
        none = columns[0].is_null()
        bounds = pa.array(np.arange(0, n * k + 1, k), pa.int32())
        return pa.ListArray.from_arrays(bounds, side_by_side, mask=none)


class BoundMode(BoundRuns):
    def __init__(self, type: pa.DataType) -> None:
        super().__init__(type, type)

    def lower(self, cells: Cells) -> pa.Array:
        runs = Runs.of(cells)
        counts = np.zeros(len(runs.values), np.int64)
        counts[runs.offsets[0] : runs.offsets[-1]] = runs.counts()
        # Values are in order within a run, so the first of the most frequent is the smallest.
        winner, found = choose([(counts, True)], None, runs.offsets)
        values = runs.values[winner] if len(runs.values) else np.zeros(len(runs), self.dtype)
        return arrow_from_values(values, found, self.type)


class BoundCountDistinct(BoundRuns):
    def __init__(self, type: pa.DataType) -> None:
        super().__init__(type, pa.int64())

    def lower(self, cells: Cells) -> pa.Array:
        return pa.array(np.diff(Runs.of(cells).offsets))
