"""Sorted runs with repetitions counted: the partial of mode, distinct values, quantiles and histograms.

A run lists distinct values in order, and for each how many values of the run are up to and including it.
These cumulative counts let a rank be found by binary search, in one run or across many. A query with several
aggregates of this kind on one column sorts alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pyarrow as pa

from panes.aggregates.base import (
    HOLISTIC,
    Array,
    BoundAggregate,
    Cells,
    Column,
    Field,
    Inputs,
    Laws,
    Ragged,
    Spec,
    blank,
    present_values,
)
from panes.aggregates.columns import arrow_from_values
from panes.aggregates.order import choose
from panes.aggregates.segments import (
    SMALL,
    normal,
    offsets_of,
    positions_of,
    same,
    segment_ids,
    segment_reduce,
    sort_by_group,
)
from panes.aggregates.types import ORDERED, kept_as, storage_of
from panes.state.checked import MANY, demand


@dataclass(frozen=True)
class Runs:
    """n runs: run i holds values[offsets[i]:offsets[i + 1]], and `upto` beside them."""

    offsets: Array
    values: Array
    upto: Array

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def of(cls, cells: Cells) -> Runs:
        values, upto = cells.fields
        return cls(values.offsets, values.values, upto.values)

    def cells(self) -> Cells:
        return Cells((Ragged(self.offsets, self.values), Ragged(self.offsets, self.upto)))

    def totals(self) -> Array:
        """How many values each run stands for."""
        filled = self.offsets[1:] > self.offsets[:-1]
        out = np.zeros(len(self), np.int64)
        out[filled] = self.upto[self.offsets[1:][filled] - 1]
        return out

    def counts(self) -> Array:
        """How often each distinct value occurs, from offsets[0] on."""
        first, stop = self.offsets[0], self.offsets[-1]
        counts = np.diff(self.upto[first:stop], prepend=0)
        filled = self.offsets[1:] > self.offsets[:-1]
        starts = self.offsets[:-1][filled]
        counts[starts - first] = self.upto[starts]
        return counts

    def take(self, index: Array) -> Runs:
        return Runs.of(self.cells().take(index))

    def kth(self, ranks: Array) -> tuple[Array, Array]:
        """The ranks[i]-th value (from 1) of run i; the second array says where there is one."""
        found = ranks > 0
        first, stop = self.offsets[0], self.offsets[-1]
        base = offsets_of(self.totals())[:-1]
        climbing = self.upto[first:stop] + np.repeat(base, np.diff(self.offsets))
        at = first + np.searchsorted(climbing, (base + ranks)[found])
        out = blank(len(self), self.values.dtype)
        out[found] = self.values[at]
        return out, found


def runs_of_rows(column: Column, offsets: Array) -> Runs:
    """Sort each segment of a column and count repetitions; nulls are left out."""
    values, offsets = present_values(column, offsets)
    if column.valid is None and values.dtype.kind != "f":  # those that are sorted in place are ours
        values = values.copy()
    ordered = _sorted_segments(normal(values), offsets)
    return _encoded(ordered, None, offsets)


def merged(runs: Runs, offsets: Array) -> Runs:
    """Merge consecutive runs: one run per segment of runs."""
    bounds = runs.offsets[offsets]
    if np.all(np.diff(offsets) == 1):
        return runs if len(offsets) == len(runs.offsets) else runs.take(np.arange(offsets[0], offsets[-1]))
    if bounds[-1] - bounds[0] >= SMALL and runs.values.dtype.kind != "O":
        from panes.aggregates import kernels

        out = kernels.merge_runs(runs.values, runs.upto, runs.offsets, offsets)
        return Runs(*out)
    first, stop = bounds[0], bounds[-1]
    values, counts = runs.values[first:stop], runs.counts()[first - runs.offsets[0] :][: stop - first]
    bounds = bounds - first
    order = _argsort_segments(values, bounds)
    return _encoded(values[order], counts[order], bounds)


def _sorted_segments(values: Array, offsets: Array) -> Array:
    """Each segment sorted; may reuse the memory of `values`."""
    n = len(offsets) - 1
    if values.dtype.kind == "O" or n <= max(8, len(values) // 8):  # NumPy sorts values many times faster than indexes
        bounds = offsets.tolist()
        for start, stop in pairwise(bounds):
            values[start:stop].sort()
        return values
    order = np.argsort(values)
    by_segment, _ = sort_by_group(segment_ids(offsets)[order], n)
    ordered: Array = values[order[by_segment]]
    return ordered


def _argsort_segments(values: Array, offsets: Array) -> Array:
    if values.dtype.kind != "O":
        return np.lexsort((values, segment_ids(offsets)))
    bounds = offsets.tolist()
    pairs = pairwise(bounds)
    parts = [start + np.argsort(values[start:stop], kind="stable") for start, stop in pairs]
    return np.concatenate([np.empty(0, np.int64), *parts])


def _encoded(values: Array, counts: Array | None, offsets: Array) -> Runs:
    """Collapse repetitions in sorted segments; counts are one each unless given."""
    n = len(values)
    starts = offsets[:-1]
    filled = offsets[1:] > starts
    fresh = np.ones(n, bool)
    if n:
        fresh[1:] = ~_repeats(values, offsets[1:][filled] - 1)
        fresh[starts[filled]] = True
    if counts is None and fresh.all():
        return Runs(offsets, values, np.arange(1, n + 1) - np.repeat(starts, offsets[1:] - starts))
    at = np.flatnonzero(fresh)
    bounds = positions_of(fresh, offsets)
    if counts is None:
        ends = np.append(at[1:], n)
        upto = ends - np.repeat(starts, np.diff(bounds))
    else:
        per_value = segment_reduce(np.add, counts, np.append(at, n), 0)
        climbing = np.cumsum(per_value)
        before = np.concatenate(([0], climbing))[bounds[:-1]]
        upto = climbing - np.repeat(before, np.diff(bounds))
    return Runs(bounds, values[at], upto)


def _repeats(values: Array, ends: Array) -> Array:
    """Whether each value equals the one before it."""
    after, before = values[1:], values[:-1]
    # NaN sorts last, so one look at the ends of segments tells if any is there.
    if values.dtype.kind == "f" and np.isnan(values[ends]).any():
        return same(after, before)
    return np.asarray(after == before, bool)


_OF_DISTINCT = Laws(holistic=True, idempotent=True)


@dataclass(frozen=True, repr=False)
class Holistic(Spec):
    promises: ClassVar[Laws] = HOLISTIC
    takes: ClassVar[tuple[str, ...] | None] = ORDERED
    advice: ClassVar[str] = "use something that has an order"


@dataclass(frozen=True, repr=False)
class Mode(Holistic):
    """The most frequent value, the smallest of those."""

    name: ClassVar[str] = "mode"

    def bind(self, types: Sequence[pa.DataType]) -> BoundMode:
        (type,) = self.argument_types(types)
        return BoundMode(type, type)


@dataclass(frozen=True, repr=False)
class CountDistinct(Holistic):
    """How many different values there are, exactly."""

    name: ClassVar[str] = "count_distinct"
    promises: ClassVar[Laws] = _OF_DISTINCT

    def bind(self, types: Sequence[pa.DataType]) -> BoundCountDistinct:
        (type,) = self.argument_types(types)
        return BoundCountDistinct(type, pa.int64())


@dataclass(frozen=True, repr=False)
class CollectSet(Holistic):
    """All different values, in order."""

    name: ClassVar[str] = "collect_set"
    promises: ClassVar[Laws] = _OF_DISTINCT

    def bind(self, types: Sequence[pa.DataType]) -> BoundCollectSet:
        (type,) = self.argument_types(types)
        return BoundCollectSet(type, pa.list_(type))


class BoundRuns(BoundAggregate):
    """Lift to sorted runs, fold by merging them."""

    laws = HOLISTIC

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

    def fold(self, cells: Cells, offsets: Array) -> Cells:
        return merged(Runs.of(cells), offsets).cells()


class BoundMode(BoundRuns):
    def lower(self, cells: Cells) -> pa.Array:
        runs = Runs.of(cells)
        counts = np.zeros(len(runs.values), np.int64)
        counts[runs.offsets[0] : runs.offsets[-1]] = runs.counts()
        # Values are in order within a run, so the first of the most frequent is the smallest.
        winner, found = choose([(counts, True)], None, runs.offsets)
        values = runs.values[winner] if len(runs.values) else np.zeros(len(runs), self.dtype)
        return arrow_from_values(values, found, self.type)


class BoundCountDistinct(BoundRuns):
    laws = _OF_DISTINCT

    def lower(self, cells: Cells) -> pa.Array:
        return pa.array(np.diff(Runs.of(cells).offsets))


class BoundCollectSet(BoundRuns):
    laws = _OF_DISTINCT

    def lower(self, cells: Cells) -> pa.Array:
        runs = Runs.of(cells)
        first, stop = runs.offsets[0], runs.offsets[-1]
        values = arrow_from_values(runs.values[first:stop], None, self.type)
        return pa.ListArray.from_arrays(pa.array(runs.offsets - first, pa.int32()), values)
