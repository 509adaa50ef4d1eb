"""Results of many ranges of slices at once, lazily or through an aggregate tree.

Lazy folds every slice of every range. Eager builds a tree over the table once per call (each level folds
pairs of the one below) and answers a range from at most 2*log2(n) nodes, in order, so that it is right for
non-commutative aggregates too. `auto` takes the cheaper one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from panes.aggregates.base import BoundAggregate, Cells
from panes.slicing.arrays import empty, spread
from panes.slicing.key_index import use_kernels

Array = np.ndarray
#: Cells listed at once by a lazy fold.
_AT_ONCE = 1 << 22
#: NumPy adds up to this many numbers one after the other, and more of them in pairs.
_SHORT = 8


def lower_ranges(
    aggregates: Sequence[BoundAggregate], cells: Sequence[Cells], lo: Array, hi: Array, *, store: str = "auto"
) -> tuple[tuple[pa.Array, ...], int]:
    """One Arrow array per aggregate with the result of each range [lo, hi) of cells, and the combines done."""
    total = int((hi - lo).sum())
    size = len(cells[0]) if cells else 0
    eager = store == "eager" or (store == "auto" and total > 4 * size + 20 * len(lo) * max(1, size.bit_length()))
    short = not eager and use_kernels(total) and int((hi - lo).max()) <= _SHORT
    summed = [short and _is_sum(aggregate, partials) for aggregate, partials in zip(aggregates, cells)]
    lazy = [not eager or aggregate.laws.holistic for aggregate in aggregates]
    # all cells of all ranges, listed once for all aggregates if they are few
    listed = spread(lo, hi) if any(lazy) and not all(summed) and total <= _AT_ONCE else None
    values = []
    for aggregate, partials, is_lazy, is_summed in zip(aggregates, cells, lazy, summed):
        if is_summed:
            values.append(aggregate.lower(Cells(tuple([_sums(field, lo, hi) for field in partials.fields]))))
        elif not is_lazy:
            nodes, index, offsets = _tree_cover(aggregate, partials, lo, hi)
            values.append(aggregate.lower_ranges(nodes, index, offsets))
        elif listed is not None:
            values.append(aggregate.lower_ranges(partials, *listed))
        else:
            values.append(_piece_by_piece(aggregate, partials, lo, hi))
    return tuple(values), total


def _is_sum(aggregate: BoundAggregate, partials: Cells) -> bool:
    """Whether partials are numbers that are added up, and nothing else."""
    sums = aggregate.ufuncs is not None and all(ufunc is np.add for ufunc in aggregate.ufuncs)
    return sums and all(field.dtype in (np.int64, np.float64) for field in partials.fields)


def _sums(values: Array, lo: Array, hi: Array) -> Array:
    from panes.slicing import kernels

    out = empty(len(lo), values.dtype)
    kernels.sum_short_ranges(values, lo, hi, out)
    return out


def _piece_by_piece(aggregate: BoundAggregate, partials: Cells, lo: Array, hi: Array) -> pa.Array:
    """Fold every cell of every range, some ranges at a time so that memory stays bounded."""
    piece = (hi - lo).cumsum() // _AT_ONCE
    bounds = np.flatnonzero(np.diff(piece, prepend=-1, append=-1))
    return pa.concat_arrays(
        [aggregate.lower_ranges(partials, *spread(lo[a:b], hi[a:b])) for a, b in pairwise(bounds.tolist())]
    )


def _tree_cover(aggregate: BoundAggregate, leaves: Cells, lo: Array, hi: Array) -> tuple[Cells, Array, Array]:
    """Tree nodes, and for each range the nodes that cover it exactly, left to right."""
    levels = [leaves]
    while len(levels[-1]) > 1:
        n = len(levels[-1])
        levels.append(aggregate.fold(levels[-1], np.append(np.arange(0, n, 2), n)))
    starts = np.cumsum([0, *(len(level) for level in levels)])
    nodes = Cells.concat(levels)
    ranges = np.arange(len(lo))
    left_parts, right_parts = [], []  # (range, node): left ones in order, right ones in reverse order
    a, b = lo.copy(), hi.copy()
    for level in range(len(levels)):
        live = a < b
        if not live.any():
            break
        take_left = live & (a % 2 == 1)
        left_parts.append((ranges[take_left], starts[level] + a[take_left]))
        a = a + take_left
        take_right = live & (a < b) & (b % 2 == 1)
        right_parts.append((ranges[take_right], starts[level] + b[take_right] - 1))
        b = b - take_right
        a, b = a // 2, b // 2
    parts = left_parts + right_parts[::-1]
    owner = np.concatenate([p[0] for p in parts]) if parts else np.empty(0, np.int64)
    node = np.concatenate([p[1] for p in parts]) if parts else np.empty(0, np.int64)
    order = np.argsort(owner, kind="stable")
    counts = np.bincount(owner, minlength=len(lo))
    return nodes, node[order], np.concatenate(([0], np.cumsum(counts)))
