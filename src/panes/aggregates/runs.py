"""Sorted runs with repetitions counted: the partial of holistic aggregates (SPEC S-35).

A run lists distinct values in order, and for each how many values of the run are up to and including it.
These cumulative counts let a rank be found by binary search, in one run or across many.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from panes.aggregates.base import Array, Cells, Column, Ragged
from panes.aggregates.ordering import normal, same
from panes.aggregates.segments import (
    SMALL,
    compress,
    offsets_of,
    positions_of,
    segment_ids,
    segment_reduce,
    sort_by_group,
)


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
        out = (
            np.full(len(self), None, object)
            if self.values.dtype.kind == "O"
            else np.zeros(len(self), self.values.dtype)
        )
        out[found] = self.values[at]
        return out, found


def runs_of_rows(column: Column, offsets: Array) -> Runs:
    """Sort each segment of a column and count repetitions; nulls are left out."""
    values = column.values
    if column.valid is not None:
        index, offsets = compress(column.valid, offsets)
        values = values[index]
    else:
        values = values[offsets[0] : offsets[-1]]
        offsets = offsets - offsets[0]
        if values.dtype.kind != "f":
            values = values.copy()
    ordered = _sorted_segments(normal(values), offsets)
    return _encoded(ordered, None, offsets)


def merged(runs: Runs, offsets: Array) -> Runs:
    """Merge consecutive runs: one run per segment of runs."""
    bounds = runs.offsets[offsets]
    if np.all(np.diff(offsets) == 1):
        return runs if len(offsets) == len(runs.offsets) else runs.take(np.arange(offsets[0], offsets[-1]))
    if bounds[-1] - bounds[0] >= SMALL and runs.values.dtype.kind != "O":
        from panes.aggregates import run_kernels

        out = run_kernels.merge_runs(runs.values, runs.upto, runs.offsets, offsets)
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
    return values[order[by_segment]]


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
