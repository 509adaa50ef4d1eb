"""Mode, distinct values and their exact count, and what they share with quantiles: partials that grow with the rows.

All of them keep sorted runs (`runs.py`), so a query with several of them on one column sorts alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Array, BoundAggregate, Cells, Field, Inputs, Laws, Ragged
from panes.aggregates.columns import arrow_from_values
from panes.aggregates.order import choose
from panes.aggregates.runs import Runs, merged, runs_of_rows
from panes.aggregates.segments import rows_by_group
from panes.aggregates.spec import Spec
from panes.aggregates.types import ORDERED, kept_as, plain, require, storage_of
from panes.state.checked import MANY, demand

_HOLISTIC = Laws(holistic=True)
_OF_DISTINCT = Laws(holistic=True, idempotent=True)
_ADVICE = "use something that has an order"


@dataclass(frozen=True, repr=False)
class Holistic(Spec):
    promises: ClassVar[Laws] = _HOLISTIC

    def ordered_type(self, types: Sequence[pa.DataType]) -> pa.DataType:
        (type,) = self.argument_types(types)
        require(repr(self), self.inputs[0], type, ORDERED, _ADVICE)
        return plain(type)


@dataclass(frozen=True, repr=False)
class Mode(Holistic):
    """The most frequent value, the smallest of those."""

    name: ClassVar[str] = "mode"

    def bind(self, types: Sequence[pa.DataType]) -> BoundMode:
        return BoundMode(self.ordered_type(types))


@dataclass(frozen=True, repr=False)
class CountDistinct(Holistic):
    """How many different values there are, exactly."""

    name: ClassVar[str] = "count_distinct"
    promises: ClassVar[Laws] = _OF_DISTINCT

    def bind(self, types: Sequence[pa.DataType]) -> BoundCountDistinct:
        return BoundCountDistinct(self.ordered_type(types))


@dataclass(frozen=True, repr=False)
class CollectSet(Holistic):
    """All different values, in order."""

    name: ClassVar[str] = "collect_set"
    promises: ClassVar[Laws] = _OF_DISTINCT

    def bind(self, types: Sequence[pa.DataType]) -> BoundCollectSet:
        return BoundCollectSet(self.ordered_type(types))


class BoundRuns(BoundAggregate):
    """Lift to sorted runs, fold by merging them."""

    laws = _HOLISTIC

    def __init__(self, type: pa.DataType, out_type: pa.DataType) -> None:
        self.type = type
        self.dtype = storage_of(type)
        self.fields = (Field("values", kept_as(type), ragged=True), Field("upto", pa.int64(), ragged=True))
        self.out_type = out_type

    def check(self, cells: Cells) -> None:
        super().check(cells)
        runs = Runs.of(cells)
        demand(runs.values.dtype.kind != "O" or None not in runs.values.tolist(), "null occurs, which never counts")
        demand(bool((runs.counts() > 0).all()), "a value occurs less than once")
        demand(bool((runs.totals() < MANY).all()), "values occur more often than can be")

    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        return runs_of_rows(rows.columns[0], offsets).cells()

    def lift_groups(self, rows: Inputs, groups: Array, n: int) -> Cells:
        return self.lift(*rows_by_group(rows, groups, n))

    def fold(self, cells: Cells, offsets: Array) -> Cells:
        return merged(Runs.of(cells), offsets).cells()

    def empty(self, n: int) -> Cells:
        offsets = np.zeros(n + 1, np.int64)
        return Cells((Ragged(offsets, np.empty(0, self.dtype)), Ragged(offsets, np.empty(0, np.int64))))


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


class BoundCollectSet(BoundRuns):
    def __init__(self, type: pa.DataType) -> None:
        super().__init__(type, pa.list_(type))

    def lower(self, cells: Cells) -> pa.Array:
        runs = Runs.of(cells)
        first, stop = runs.offsets[0], runs.offsets[-1]
        values = arrow_from_values(runs.values[first:stop], None, self.type)
        return pa.ListArray.from_arrays(pa.array(runs.offsets - first, pa.int32()), values)
