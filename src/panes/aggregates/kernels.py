"""Compiled loops over rows in any order. Import this module only where the input is large.

Numba compiles each loop once per machine and dtype and keeps it on disk.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from panes.aggregates.base import Array

# Rows that hit the same group wait for each other's store. Up to this many groups, four copies of the
# accumulators are kept and added at the end, which breaks the chain; beyond, such rows are seldom neighbours,
# and the copies would crowd the nearest cache.
_COPIED_GROUPS = 256


@njit(cache=True)
def counting_sort(groups: Array, n: int) -> tuple[Array, Array]:
    """Stable order of rows by group 0..n-1, and the offsets of the groups."""
    offsets = np.zeros(n + 1, np.int64)
    for i in range(len(groups)):
        offsets[groups[i] + 1] += 1
    for g in range(n):
        offsets[g + 1] += offsets[g]
    place = offsets[:-1].copy()
    order = np.empty(len(groups), np.int64)
    for i in range(len(groups)):
        g = groups[i]
        order[place[g]] = i
        place[g] += 1
    return order, offsets


@njit(cache=True)
def count_by_group(groups: Array, n: int) -> Array:
    """Rows per group."""
    if n > _COPIED_GROUPS:
        out = np.zeros(n, np.int64)
        for i in range(len(groups)):
            out[np.uint64(groups[i])] += 1
        return out
    many = np.zeros((4, n), np.int64)
    whole = len(groups) // 4 * 4
    for i in range(0, whole, 4):
        many[0, groups[i]] += 1
        many[1, groups[i + 1]] += 1
        many[2, groups[i + 2]] += 1
        many[3, groups[i + 3]] += 1
    for i in range(whole, len(groups)):
        many[0, groups[i]] += 1
    return many[0] + many[1] + many[2] + many[3]


@njit(cache=True)
def sum_by_group(values: Array, groups: Array, sums: Array, counts: Array) -> None:
    """Add values and row counts into `sums` and `counts`, per group."""
    n = len(sums)
    if n > _COPIED_GROUPS:
        for i in range(len(groups)):
            at = np.uint64(groups[i])
            sums[at] += values[i]
            counts[at] += 1
        return
    s = np.zeros((4, n), sums.dtype)
    c = np.zeros((4, n), np.int64)
    whole = len(groups) // 4 * 4
    for i in range(0, whole, 4):
        g0, g1, g2, g3 = groups[i], groups[i + 1], groups[i + 2], groups[i + 3]
        s[0, g0] += values[i]
        s[1, g1] += values[i + 1]
        s[2, g2] += values[i + 2]
        s[3, g3] += values[i + 3]
        c[0, g0] += 1
        c[1, g1] += 1
        c[2, g2] += 1
        c[3, g3] += 1
    for i in range(whole, len(groups)):
        s[0, groups[i]] += values[i]
        c[0, groups[i]] += 1
    for g in range(n):
        sums[g] += (s[0, g] + s[1, g]) + (s[2, g] + s[3, g])
        counts[g] += c[0, g] + c[1, g] + c[2, g] + c[3, g]


@njit(cache=True)
def min_by_group(values: Array, groups: Array, best: Array, some: Array) -> None:
    """Smallest value per group into `best`, which holds identities; NaN only where there is nothing else."""
    for i in range(len(groups)):
        g = groups[i]
        v = values[i]
        held = best[g]
        if v < held or held != held:
            best[g] = v
        some[g] = True


@njit(cache=True)
def max_by_group(values: Array, groups: Array, best: Array, some: Array) -> None:
    """Largest value per group into `best`, which holds identities; NaN is larger than any number."""
    for i in range(len(groups)):
        g = groups[i]
        v = values[i]
        if v > best[g] or v != v:
            best[g] = v
        some[g] = True


@njit(cache=True)
def segment_max(values: Array, starts: Array, out: Array) -> None:
    """Largest value of each segment, none empty; NaN is larger than any number."""
    for s in range(len(starts)):
        part = values[starts[s] : starts[s + 1] if s + 1 < len(starts) else len(values)]
        best = part[0]
        for i in range(len(part)):
            best = part[i] if part[i] > best or part[i] != part[i] else best
        out[s] = best


@njit(cache=True)
def segment_min(values: Array, starts: Array, out: Array) -> None:
    """Smallest value of each segment, none empty; NaN only where there is nothing else."""
    for s in range(len(starts)):
        part = values[starts[s] : starts[s + 1] if s + 1 < len(starts) else len(values)]
        best = part[0]
        for i in range(len(part)):
            best = part[i] if part[i] < best or best != best else best
        out[s] = best


@njit(cache=True)
def choose_by_group(
    by: Array,
    largest: bool,
    times: Array,
    seq: Array,
    latest: bool,
    present: Array,
    groups: Array,
    winner: Array,
) -> None:
    """Per group the row with the best `by` (NaN largest), then the earliest or latest; -1 if none."""
    for i in range(len(groups)):
        if not present[i]:
            continue
        g = groups[i]
        w = winner[g]
        if w < 0:
            winner[g] = i
            continue
        new, old = by[i], by[w]
        above = new > old or (new != new and old == old)
        below = new < old or (new == new and old != old)
        if above or below:
            better = above == largest
        else:
            after = times[i] > times[w] or (times[i] == times[w] and seq[i] > seq[w])
            better = after == latest
        if better:
            winner[g] = i
