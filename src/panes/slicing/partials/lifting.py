"""From rows to partials: the one pass over rows, shared by all windows.

`lift_slices` gives one partial per (slice, key). `lift_atoms` serves sessions too: an atom is a set of rows of
one key, within one slice, that belong to one session whatever the gap. Atoms are all that sessions and
slices need, so each row is lifted once for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from panes.aggregates.base import Cells
from panes.slicing import arrays
from panes.slicing.key_index import IntIndex, use_kernels
from panes.slicing.lane import Agg, RowBatch
from panes.slicing.partials.slices import EdgeCache
from panes.slicing.partials.store import order_by, segments
from panes.windows.base import NEVER

Array = np.ndarray

#: Cells are numbered slice by slice if that wastes no more than this; otherwise only those met are.
_WASTE = 8
_SPARE = 4096


class Block(NamedTuple):
    """Partials of all slots 0..keys-1 of slices that start at `starts`, slice by slice."""

    starts: Array
    keys: int
    present: Array | None  # which cells hold rows; None: all
    cells: tuple[Cells, ...]


class Loose(NamedTuple):
    """Partials of single cells: slice number at[i] of `starts`, slot slots[i], each pair once."""

    starts: Array
    at: Array
    slots: Array
    cells: tuple[Cells, ...]


@dataclass(eq=False)
class Placed:
    """In which slice rows lie: slice index[i] of `starts` (sorted; some may hold no row)."""

    starts: Array
    index: Array | None  # None: rows are in order, slice s holds rows offsets[s]:offsets[s + 1]
    offsets: Array | None

    def per_row(self) -> Array:
        if self.index is not None:
            return self.index
        assert self.offsets is not None
        return np.repeat(np.arange(len(self.starts)), np.diff(self.offsets))


def place(rows: RowBatch, edges: EdgeCache, lo: int, hi: int) -> Placed:
    """Find the slice of each row; times lie between lo and hi."""
    times = rows.times
    starts = edges.between(lo, hi, len(times))
    if starts is None:
        starts, index = np.unique(edges.starts(times), return_inverse=True)
        return Placed(starts, index, None)
    if rows.in_order:
        starts, offsets = _segments(times, starts)
        return Placed(starts, None, offsets)
    if len(starts) == 1:
        return Placed(starts, np.zeros(len(times), np.int64), None)
    if use_kernels(len(times)):
        from panes.slicing import kernels

        index = arrays.empty(len(times))
        if len(starts) <= 5:
            a, b, c, d = (*starts[1:].tolist(), NEVER, NEVER, NEVER, NEVER)[:4]
            kernels.locate_few(times, a, b, c, d, index)
        else:
            kernels.locate(times, starts, index)
    else:
        index = np.searchsorted(starts, times, side="right") - 1
    return Placed(starts, index, None)


def _segments(times: Array, starts: Array) -> tuple[Array, Array]:
    """The slices that sorted times lie in, and the offsets of slices among the times."""
    if len(starts) == 1:
        return starts, np.array((0, len(times)))
    offsets = np.zeros(len(starts) + 1, np.int64)
    offsets[1:-1] = times.searchsorted(starts[1:])
    offsets[-1] = len(times)
    filled = offsets[1:] > offsets[:-1]
    if np.count_nonzero(filled) < len(filled):
        starts, offsets = starts[filled], np.append(offsets[:-1][filled], len(times))
    return starts, offsets


def lift_slices(rows: RowBatch, placed: Placed, aggs: Sequence[Agg], keys: int, *, dense: bool) -> Block | Loose:
    """One partial per (slice, key); a block if the store is dense and it is not mostly empty."""
    n, slices = len(rows), len(placed.starts)
    if rows.slots is None and placed.offsets is not None:
        cells = tuple([a.bound.lift(rows.inputs(a.inputs), placed.offsets) for a in aggs])
        return Block(placed.starts, 1, None, cells)
    if slices * keys > _WASTE * n + _SPARE or not dense:
        return _lift_loose(rows, placed, aggs, keys)
    groups = _cells_met(rows, placed, keys)
    cells = tuple([a.bound.lift_groups(rows.inputs(a.inputs), groups, slices * keys) for a in aggs])
    present = _present(rows, groups, slices * keys, aggs, cells)
    starts = placed.starts
    filled = present.reshape(slices, keys).any(axis=1) if slices > 1 else np.ones(1, bool)
    if not filled.all():
        chosen = np.flatnonzero(np.repeat(filled, keys))
        starts, present, cells = starts[filled], present[chosen], tuple(c.take(chosen) for c in cells)
    return Block(starts, keys, present, cells)


def _cells_met(rows: RowBatch, placed: Placed, keys: int) -> Array:
    """The number of each row's cell: slice * keys + slot."""
    slots = rows.slots
    if slots is None:
        return placed.per_row()
    if len(placed.starts) == 1:
        return slots
    if not use_kernels(len(rows)):
        return placed.per_row() * keys + slots
    from panes.slicing import kernels

    groups = arrays.empty(len(rows))
    if placed.offsets is not None:
        kernels.group_segments(placed.offsets, slots, keys, groups)
    else:
        kernels.group_rows(placed.per_row(), slots, keys, groups)
    return groups


def _present(rows: RowBatch, groups: Array, n: int, aggs: Sequence[Agg], cells: Sequence[Cells]) -> Array:
    """Which of n cells hold rows."""
    for agg, partials in zip(aggs, cells):
        if agg.bound.tells_rows and all(rows.columns[name].valid is None for name in agg.inputs):
            found = partials.fields[-1]
            assert isinstance(found, np.ndarray)
            return (found != 0).view(np.uint8)
    present = np.zeros(n, np.uint8)
    if use_kernels(len(rows)):
        from panes.slicing import kernels

        kernels.mark(groups, present)
    else:
        present[groups] = 1
    return present


def _lift_loose(rows: RowBatch, placed: Placed, aggs: Sequence[Agg], keys: int) -> Loose:
    groups = placed.per_row()
    if rows.slots is not None:
        groups = groups * keys + rows.slots
    met = IntIndex()
    codes = met.codes(groups)
    numbers = met.names(np.arange(len(met)))
    cells = tuple(a.bound.lift_groups(rows.inputs(a.inputs), codes, len(met)) for a in aggs)
    return Loose(*_used(placed.starts, numbers // keys), numbers % keys, cells)


def _used(starts: Array, at: Array) -> tuple[Array, Array]:
    """Without slices that hold nothing: their starts, and `at` renumbered."""
    filled = np.zeros(len(starts), bool)
    filled[at] = True
    return (starts, at) if filled.all() else (starts[filled], (np.cumsum(filled) - 1)[at])


@dataclass(frozen=True)
class Atoms:
    """Sets of rows: of which key, from when to when, and until when a row would join, under each gap."""

    slots: Array
    first: Array
    last: Array
    reach: Array  # [gaps x atoms]
    starts: Array | None  # slices, and in which each atom lies
    at: Array | None
    cells: tuple[Cells, ...]
    one_per_key: bool  # no two atoms are of the same key
    one_per_cell: bool  # no two atoms are of the same key and slice


class AtomLifter:
    """Makes atoms. Remembers per key where the latest atom of the running batch is, without clearing it."""

    def __init__(self) -> None:
        self._latest = np.empty(0, np.int64)
        self._base = 0

    def lift(self, rows: RowBatch, placed: Placed | None, deadlines: Array, aggs: Sequence[Agg], keys: int) -> Atoms:
        """`deadlines[c, i]`: until when a row joins row i under gap c."""
        if rows.slots is None and rows.in_order:
            return self._in_order(rows, placed, deadlines, aggs)
        slices = 1 if placed is None else len(placed.starts)
        if use_kernels(len(rows)) and slices * keys <= _WASTE * len(rows) + max(_SPARE, keys):
            return self._any_order(rows, placed, deadlines, aggs, keys)
        return self._sorted(rows, placed, deadlines, aggs, keys)

    def _in_order(self, rows: RowBatch, placed: Placed | None, deadlines: Array, aggs: Sequence[Agg]) -> Atoms:
        times = rows.times
        cut = np.zeros(len(times), bool)
        cut[0] = True
        for c in range(len(deadlines)):
            cut[1:] |= times[1:] > np.maximum.accumulate(deadlines[c])[:-1]
        if placed is not None:
            if placed.offsets is not None:
                cut[placed.offsets[:-1]] = True
            else:
                index = placed.per_row()
                cut[1:] |= index[1:] != index[:-1]
        heads = np.flatnonzero(cut)
        at = None if placed is None else placed.per_row()[heads]
        return self._cut(
            rows, np.append(heads, len(times)), np.zeros(len(heads), np.int64), placed, at, deadlines, aggs
        )

    def _sorted(self, rows: RowBatch, placed: Placed | None, deadlines: Array, aggs: Sequence[Agg], keys: int) -> Atoms:
        """Through sorting: for small batches, and for keys and slices too many to have a place each."""
        slots = np.zeros(len(rows), np.int64) if rows.slots is None else rows.slots
        index = np.zeros(len(rows), np.int64) if placed is None else placed.per_row()
        order = order_by(slots, index, rows.times)
        times, slots, index = rows.times[order], slots[order], index[order]
        deadlines = deadlines[:, order]
        group = np.cumsum((slots != np.roll(slots, 1)) | (index != np.roll(index, 1)))
        cut = np.ones(len(times), bool)
        cut[1:] = group[1:] != group[:-1]
        for c in range(len(deadlines)):
            cut[1:] |= times[1:] > running_max(deadlines[c], group)[:-1]
        heads = np.flatnonzero(cut)
        offsets = np.append(heads, len(times))
        return self._cut(rows.take(order), offsets, slots[heads], placed, index[heads], deadlines, aggs)

    def _cut(
        self, rows: RowBatch, offsets: Array, slots: Array, placed: Placed | None, at: Array | None,
        deadlines: Array, aggs: Sequence[Agg],
    ) -> Atoms:  # fmt: skip
        """Atoms that are runs of rows."""
        heads, tails = offsets[:-1], offsets[1:] - 1
        starts = None
        if placed is None:
            at = None
        else:
            assert at is not None
            starts, at = _used(placed.starts, at)
        one_per_key = len(slots) == 1 or len(segments(slots)) == len(slots) + 1
        return Atoms(
            slots, rows.times[heads], rows.times[tails], np.maximum.reduceat(deadlines, heads, axis=1), starts, at,
            tuple(a.bound.lift(rows.inputs(a.inputs), offsets) for a in aggs),
            one_per_key, at is None or one_per_key or len(segments(slots, at)) == len(slots) + 1,
        )  # fmt: skip

    def _any_order(
        self, rows: RowBatch, placed: Placed | None, deadlines: Array, aggs: Sequence[Agg], keys: int
    ) -> Atoms:
        from panes.slicing import kernels

        n = len(rows)
        slots = np.zeros(n, np.int64) if rows.slots is None else rows.slots
        if placed is None:
            if len(self._latest) < keys:
                self._latest = np.full(max(keys, 2 * len(self._latest)), -1, np.int64)
            groups, latest, base = slots, self._latest, self._base
        else:
            groups = placed.per_row() * keys + slots
            latest, base = np.full(len(placed.starts) * keys, -1, np.int64), 0
        atom, group, first, last = (arrays.empty(n) for _ in range(4))
        reach = arrays.empty(len(deadlines) * n).reshape(-1, n)
        count, met = kernels.atoms(rows.times, groups, deadlines, latest, base, atom, group, first, last, reach)
        if placed is None:
            self._base += count
        group = group[:count]
        cells = tuple(a.bound.lift_groups(rows.inputs(a.inputs), atom, count) for a in aggs)
        starts, at = (None, None) if placed is None else _used(placed.starts, group // keys)
        return Atoms(
            group % keys, first[:count].copy(), last[:count].copy(), reach[:, :count].copy(), starts, at, cells,
            count == met and placed is None, count == met,
        )  # fmt: skip


def running_max(values: Array, group: Array) -> Array:
    """The largest value so far within each group; groups are numbered from low to high."""
    rank = np.empty(len(values), np.int64)
    order = np.argsort(values, kind="stable")
    rank[order] = np.arange(len(values))
    best = np.maximum.accumulate((group - group[0]) * len(values) + rank) % len(values)
    return values[order[best]]
