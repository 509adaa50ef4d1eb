"""Compiled loops: over rows in any order, and over sorted runs, merging them or selecting a rank across them.

Import this module only where the input is large. Numba compiles each loop once per machine and dtype and keeps it on
disk.
"""

from __future__ import annotations

import numpy as np
from numba import njit

Array = np.ndarray

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
    total: Array = many[0] + many[1] + many[2] + many[3]
    return total


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


@njit(cache=True, inline="always")
def _before(a: float, b: float) -> bool:
    """a sorts before b, NaN last."""
    return a < b or (a == a and b != b)


@njit(cache=True)
def _lower_bound(values: Array, lo: int, hi: int, pivot: float) -> int:
    while lo < hi:
        mid = (lo + hi) >> 1
        if _before(values[mid], pivot):
            lo = mid + 1
        else:
            hi = mid
    return lo


@njit(cache=True)
def _merge_two(v: Array, c: Array, a: int, mid: int, stop: int, out_v: Array, out_c: Array, at: int) -> int:
    """Merge v[a:mid] and v[mid:stop] with their counts to out[at:]; returns where it ends."""
    b = mid
    while a < mid and b < stop:
        x, y = v[a], v[b]
        if _before(x, y):
            out_v[at] = x
            out_c[at] = c[a]
            a += 1
        elif _before(y, x):
            out_v[at] = y
            out_c[at] = c[b]
            b += 1
        else:
            out_v[at] = x
            out_c[at] = c[a] + c[b]
            a += 1
            b += 1
        at += 1
    while a < mid:
        out_v[at] = v[a]
        out_c[at] = c[a]
        a += 1
        at += 1
    while b < stop:
        out_v[at] = v[b]
        out_c[at] = c[b]
        b += 1
        at += 1
    return at


@njit(cache=True)
def merge_runs(values: Array, upto: Array, run_offsets: Array, offsets: Array) -> tuple[Array, Array, Array]:
    """One run per segment of runs, by rounds of pairwise merges: (offsets, values, cumulative counts)."""
    segments = len(offsets) - 1
    out_offsets = np.zeros(segments + 1, np.int64)
    size = run_offsets[offsets[-1]] - run_offsets[offsets[0]]
    out_v = np.empty(size, values.dtype)
    out_c = np.empty(size, np.int64)
    widest = 0
    most = 0
    for s in range(segments):
        widest = max(widest, run_offsets[offsets[s + 1]] - run_offsets[offsets[s]])
        most = max(most, offsets[s + 1] - offsets[s])
    v, w = np.empty(widest, values.dtype), np.empty(widest, values.dtype)
    c, d = np.empty(widest, np.int64), np.empty(widest, np.int64)
    bounds = np.empty(most + 1, np.int64)
    done = 0
    for s in range(segments):
        runs = offsets[s + 1] - offsets[s]
        at = 0
        bounds[0] = 0
        for r in range(runs):
            run = offsets[s] + r
            before = 0
            for i in range(run_offsets[run], run_offsets[run + 1]):
                v[at] = values[i]
                c[at] = upto[i] - before
                before = upto[i]
                at += 1
            bounds[r + 1] = at
        while runs > 1:
            at = 0
            pairs = runs // 2
            for p in range(pairs):
                start, mid, stop = bounds[2 * p], bounds[2 * p + 1], bounds[2 * p + 2]
                bounds[p] = at
                at = _merge_two(v, c, start, mid, stop, w, d, at)
            if runs % 2:
                start, stop = bounds[runs - 1], bounds[runs]
                bounds[pairs] = at
                at = _merge_two(v, c, start, stop, stop, w, d, at)
                pairs += 1
            bounds[pairs] = at
            runs = pairs
            v, w = w, v
            c, d = d, c
        climbing = 0
        for i in range(at):
            climbing += c[i]
            out_v[done] = v[i]
            out_c[done] = climbing
            done += 1
        out_offsets[s + 1] = done
    return out_offsets, out_v[:done].copy(), out_c[:done].copy()


@njit(cache=True)
def select_ranges(
    values: Array,
    upto: Array,
    run_offsets: Array,
    index: Array,
    offsets: Array,
    ranks: Array,
    out: Array,
    following: Array,
) -> None:
    """The ranks[i]-th smallest value over runs index[offsets[i]:offsets[i + 1]], for each i with a rank > 0.

    `following`, unless it is empty, takes the value of the next rank, or the same one if there is no next.

    Each probe of a value finds, by binary search in every run, how many values lie before it; the candidates
    shrink from both sides. The first probe of a range is the answer of the one before: windows that slide
    change little.
    """
    most = 0
    for i in range(len(offsets) - 1):
        most = max(most, offsets[i + 1] - offsets[i])
    lo, hi = np.empty(most, np.int64), np.empty(most, np.int64)
    left, right = np.empty(most, np.int64), np.empty(most, np.int64)
    warm = False
    answer = out[0] if len(out) else values[0]
    for i in range(len(offsets) - 1):
        rank = ranks[i]
        if rank <= 0:
            continue
        first = offsets[i]
        runs = offsets[i + 1] - first
        known_below, known_upto = 0, 0
        for r in range(runs):
            run = index[first + r]
            lo[r], hi[r] = run_offsets[run], run_offsets[run + 1]
            if hi[r] > lo[r]:
                known_upto += upto[hi[r] - 1]
        probe = 0
        while True:
            if probe > 0 or not warm:
                widest = 0
                for r in range(runs):
                    if hi[r] - lo[r] > hi[widest] - lo[widest]:
                        widest = r
                width = hi[widest] - lo[widest]
                # Where the rank would lie if all runs were alike; every third probe halves the widest run
                # instead, so that unlike runs can't make it crawl.
                share = 0.5 if probe % 3 == 2 else (rank - known_below) / (known_upto - known_below + 1)
                answer = values[lo[widest] + min(width - 1, int(share * width))]
            probe += 1
            below, up = 0, 0
            for r in range(runs):
                start = run_offsets[index[first + r]]
                at = _lower_bound(values, lo[r], hi[r], answer)
                left[r] = at
                if at > start:
                    below += upto[at - 1]
                if at < hi[r] and not _before(answer, values[at]):
                    at += 1
                right[r] = at
                if at > start:
                    up += upto[at - 1]
            if rank <= below:
                known_upto = below
                for r in range(runs):
                    hi[r] = left[r]
            elif rank > up:
                known_below = up
                for r in range(runs):
                    lo[r] = right[r]
            else:
                break
        out[i] = answer
        warm = True
        if len(following) > 0:
            next_value, found = answer, rank < up
            for r in range(runs):
                if rank < up:
                    break
                if right[r] < run_offsets[index[first + r] + 1]:
                    value = values[right[r]]
                    if not found or _before(value, next_value):
                        next_value, found = value, True
            following[i] = next_value
