"""Compiled loops over rows in any order. Imported only for large batches, since Numba takes time to import.

Numba compiles each loop once per machine and keeps it on disk. All loops write into arrays given by the
caller, who also decides their size, so that nothing here allocates per row.

Loops count from 0 over views, and places in tables are unsigned: what may be negative costs Numba a check per
access (a negative index counts from the end) and keeps the compiler from doing several rows at once.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from panes.slicing.partials.session_kernel import assign

Array = np.ndarray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ONE = np.uint64(1)


@njit(cache=True)
def intern_close(values: Array, begin: int, codes: Array, low: int, limit: int, names: Array, n: int,
                 out: Array) -> tuple[int, int]:  # fmt: skip
    """Look integers up in a table that has a place for each from `low` on (its code, or -1: none yet).

    New ones get the codes n, n + 1, ... Stops at an integer outside, or new when there are `limit` codes.
    Returns (rows done, codes given).
    """
    size = np.uint64(len(codes))
    rest, out = values[begin:], out[begin:]
    for i in range(len(rest)):
        at = np.uint64(rest[i] - low)
        if at >= size:
            return begin + i, n
        code = codes[at]
        if code < 0:
            if n >= limit:
                return begin + i, n
            code = n
            codes[at] = code
            names[n] = rest[i]
            n += 1
        out[i] = code
    return len(values), n


@njit(cache=True)
def intern_narrow(values: Array, begin: int, words: Array, shift: int, limit: int, names: Array, n: int,
                  out: Array) -> tuple[int, int]:  # fmt: skip
    """Look integers of 32 bits up in a table of words (integer << 32 | code, or -1: empty).

    New ones get the codes n, n + 1, ... Stops at an integer that is wider, or new when there are `limit` codes.
    Returns (rows done, codes given).
    """
    down = np.uint64(shift)
    rest, out = values[begin:], out[begin:]
    for i in range(len(rest)):
        value = rest[i]
        at = (np.uint64(value) * _GOLDEN) >> down
        word = words[at]
        if word >> 32 != value or word == -1:
            word, n = _search_narrow(value, at, words, limit, names, n)
            if word == -1:
                return begin + i, n
        out[i] = word & 0xFFFFFFFF
    return len(values), n


@njit(cache=True)
def _search_narrow(value: int, at: np.uint64, words: Array, limit: int, names: Array, n: int) -> tuple[int, int]:
    """The word of an integer, looked for from place `at` on and put in if it is new (-1 if it can't be), and n."""
    mask = np.uint64(len(words) - 1)
    word = words[at]
    while word != -1:
        if word >> 32 == value:
            return word, n
        at = (at + _ONE) & mask
        word = words[at]
    if n >= limit or value < -(1 << 31) or value >= 1 << 31:
        return word, n
    word = value << 32 | n
    words[at] = word
    names[n] = value
    return word, n + 1


@njit(cache=True)
def insert_narrow(values: Array, first_code: int, words: Array, shift: int) -> None:
    """Put integers that are not in the table yet, with codes first_code, first_code + 1, ..."""
    mask = np.uint64(len(words) - 1)
    down = np.uint64(shift)
    for i in range(len(values)):
        at = (np.uint64(values[i]) * _GOLDEN) >> down
        while words[at] != -1:
            at = (at + _ONE) & mask
        words[at] = values[i] << 32 | (first_code + i)


@njit(cache=True)
def intern(values: Array, begin: int, keys: Array, codes: Array, shift: int, limit: int, names: Array, n: int,
           out: Array) -> tuple[int, int]:  # fmt: skip
    """The same for integers of any width, in a table of keys and codes (-1: empty)."""
    mask = np.uint64(len(keys) - 1)
    down = np.uint64(shift)
    for i in range(begin, len(values)):
        value = values[i]
        at = (np.uint64(value) * _GOLDEN) >> down
        while True:
            code = codes[at]
            if code >= 0:
                if keys[at] == value:
                    break
                at = (at + _ONE) & mask
                continue
            if n >= limit:
                return i, n
            code = n
            keys[at] = value
            codes[at] = code
            names[n] = value
            n += 1
            break
        out[i] = code
    return len(values), n


@njit(cache=True)
def insert(values: Array, first_code: int, keys: Array, codes: Array, shift: int) -> None:
    """Put integers that are not in the table yet, with codes first_code, first_code + 1, ..."""
    mask = np.uint64(len(keys) - 1)
    down = np.uint64(shift)
    for i in range(len(values)):
        at = (np.uint64(values[i]) * _GOLDEN) >> down
        while codes[at] >= 0:
            at = (at + _ONE) & mask
        keys[at] = values[i]
        codes[at] = first_code + i


@njit(cache=True)
def in_order(times: Array, head: int) -> bool:
    """Whether no time is below the one before it: looked at for the first `head`, and only then for all others."""
    return _no_step_down(times[:head]) and _no_step_down(times[max(head - 1, 0) :])


@njit(cache=True)
def _no_step_down(times: Array) -> bool:
    """Without a way out, counting from 0 and in words as wide as times: so this runs at the speed of memory."""
    below = np.int64(0)
    after = times[1:]
    for i in range(len(after)):
        below |= np.int64(after[i] < times[i])
    return below == 0


@njit(cache=True)
def spread(times: Array) -> tuple[int, int, int]:
    """The lowest and the highest time, and how far at most one lies behind another before it.

    Only blocks that may add to the last figure are looked at row by row.
    """
    low = high = times[0]
    lag = 0
    for begin in range(0, len(times), 64):
        end = min(begin + 64, len(times))
        bottom = top = times[begin]
        for i in range(begin, end):
            top = max(top, times[i])
            bottom = min(bottom, times[i])
        if max(high, top) - bottom > lag:
            for i in range(begin, end):
                high = max(high, times[i])
                lag = max(lag, high - times[i])
        high = max(high, top)
        low = min(low, bottom)
    return low, high, lag


@njit(cache=True)
def watermarks(times: Array, watermark: int, bound: int, out: Array) -> None:
    """The watermark before each row: `bound` behind the largest time so far, but never back."""
    for i in range(len(times)):
        out[i] = watermark
        watermark = max(watermark, times[i] - bound)


@njit(cache=True)
def locate_few(times: Array, a: int, b: int, c: int, d: int, out: Array) -> None:
    """How many of four edges lie at or before each time. Without a branch, four times at once."""
    for i in range(len(times)):
        t = times[i]
        out[i] = np.int64(t >= a) + np.int64(t >= b) + np.int64(t >= c) + np.int64(t >= d)


@njit(cache=True)
def locate(times: Array, edges: Array, out: Array) -> None:
    """The last edge at or before each time, by number; edges[0] lies at or before all times.

    The last answer is tried before searching, since times near each other come near each other.
    """
    n = len(edges)
    at = 0
    low, high = edges[0], edges[min(1, n - 1)]
    for i in range(len(times)):
        t = times[i]
        if t < low or t >= high:
            at = np.searchsorted(edges, t, side="right") - 1
            low = edges[at]
            high = edges[at + 1] if at + 1 < n else np.iinfo(np.int64).max
        out[i] = at


@njit(cache=True)
def group_rows(index: Array, slots: Array, keys: int, groups: Array) -> None:
    """The number of each row's cell: slice * keys + slot."""
    for i in range(len(slots)):
        groups[i] = index[i] * keys + slots[i]


@njit(cache=True)
def group_segments(offsets: Array, slots: Array, keys: int, groups: Array) -> None:
    """The same for rows in order: slice s holds rows offsets[s]:offsets[s + 1]."""
    for s in range(len(offsets) - 1):
        base = s * keys
        mine, out = slots[offsets[s] : offsets[s + 1]], groups[offsets[s] : offsets[s + 1]]
        for i in range(len(mine)):
            out[i] = base + mine[i]


@njit(cache=True)
def mark(groups: Array, present: Array) -> None:
    for i in range(len(groups)):
        present[np.uint64(groups[i])] = 1


@njit(cache=True)
def atoms(times: Array, groups: Array, deadlines: Array, latest: Array, base: int, atom: Array, group: Array,
          first: Array, last: Array, reach: Array) -> tuple[int, int]:  # fmt: skip
    """Join rows of a group, in any order, into atoms: sets of rows that are in one session under every gap.

    Row i is there from times[i] to deadlines[c, i] under gap c; it joins the latest atom of its group if they
    touch under every gap. `latest[g] - base` is the number of that atom (negative: none yet). Returns the number
    of atoms and of groups met.
    """
    n = 0
    met = 0
    gaps = len(deadlines)
    for i in range(len(times)):
        g = groups[i]
        t = times[i]
        a = latest[g] - base
        joins = a >= 0
        if joins:
            for c in range(gaps):
                if t > reach[c, a] or deadlines[c, i] < first[a]:
                    joins = False
        else:
            met += 1
        if joins:
            if t < first[a]:
                first[a] = t
            if t > last[a]:
                last[a] = t
            for c in range(gaps):
                if deadlines[c, i] > reach[c, a]:
                    reach[c, a] = deadlines[c, i]
        else:
            a = n
            n += 1
            latest[g] = base + a
            group[a] = g
            first[a] = t
            last[a] = t
            for c in range(gaps):
                reach[c, a] = deadlines[c, i]
        atom[i] = a
    return n, met


@njit(cache=True)
def number_ranges(lo: Array, hi: Array, latest: Array, first: Array, which: Array) -> int:
    """The number of each range among distinct ones, and where each of these comes first; returns how many there are.

    Ranges lie by their ends; `latest` has -1 for each place where they may begin.
    """
    n = 0
    for i in range(len(lo)):
        known = latest[lo[i]]
        if known < 0 or hi[first[known]] != hi[i]:
            known = latest[lo[i]] = n
            first[n] = i
            n += 1
        which[i] = known
    return n


@njit(cache=True)
def cover(lo: Array, hi: Array, base: int, valid: Array, rows: Array, offsets: Array, stale: Array) -> int:
    """Nodes of the tree of a ring that together stand for each range of slices, by their rows.

    `valid` says of each node whether it is up to date. Returns how many are not, with those below that they need;
    these go to `stale`, and count as up to date from now on.
    """
    size, n = len(valid) // 2, 0
    for i in range(len(lo)):
        offsets[i] = n
        a, b = base + lo[i], base + hi[i]
        first, last = 0, size - 1  # where the level begins, and the number of its last node
        while a < b:
            # Without a branch: a node is written in any case, and the next one over it if it is not needed.
            odd = a & 1
            rows[n] = first + (a & last)
            n, a = n + odd, a + odd
            odd = b & 1
            b -= odd
            rows[n] = first + (b & last)
            n += odd
            a, b, first, last = a >> 1, b >> 1, size + (first >> 1), last >> 1
    offsets[len(lo)] = n
    found = 0
    for i in range(n):
        row = rows[i]
        if row >= size and not valid[row]:
            valid[row] = 1
            stale[found] = row
            found += 1
    at = 0
    while at < found:
        below = 2 * (stale[at] - size)
        for row in range(below, below + 2):
            if row >= size and not valid[row]:
                valid[row] = 1
                stale[found] = row
                found += 1
        at += 1
    return found


@njit(cache=True)
def add_nodes(matrix: Array, width: int, rows: Array) -> None:
    """Nodes become the sum of the two below them, those at the bottom first."""
    size = len(matrix) // 2
    for i in range(len(rows)):
        out, below = matrix[rows[i]], 2 * (rows[i] - size)
        left, right = matrix[below], matrix[below + 1]
        for k in range(width):
            out[k] = left[k] + right[k]


@njit(cache=True)
def mark_nodes(matrix: Array, width: int, rows: Array) -> None:
    """The same for flags: nodes have those of the two below them."""
    size = len(matrix) // 2
    for i in range(len(rows)):
        out, below = matrix[rows[i]], 2 * (rows[i] - size)
        left, right = matrix[below], matrix[below + 1]
        for k in range(width):
            out[k] = left[k] | right[k]


@njit(cache=True)
def sum_rows(matrix: Array, width: int, rows: Array, cuts: Array, places: Array, stops: Array, slots: Array,
             out: Array) -> None:  # fmt: skip
    """Running sums over rows of a matrix; after row number cuts[w], chosen columns go to out[places[w]:stops[w]].

    The columns are slots[places[w]:stops[w]], sorted. Block by block of columns, so that sums stay in the
    nearest cache.
    """
    size = 1024
    total = np.empty(size, matrix.dtype)
    places = places.copy()
    for begin in range(0, width, size):
        n = min(size, width - begin)
        w = 0
        for j in range(len(rows)):
            block = matrix[rows[j], begin : begin + n]
            if j == 0:
                for k in range(n):
                    total[k] = block[k]
            else:
                for k in range(n):
                    total[k] += block[k]
            while w < len(cuts) and cuts[w] == j:
                at = places[w]
                if at + n <= stops[w] and slots[at] == begin and slots[at + n - 1] == begin + n - 1:
                    into = out[at : at + n]
                    for k in range(n):
                        into[k] = total[k]
                    at += n
                else:
                    columns = slots[at : stops[w]]
                    m = np.searchsorted(columns, begin + n)
                    into = out[at : at + m]
                    for k in range(m):
                        into[k] = total[np.uint64(columns[k] - begin)]  # unsigned: no check for negative ones
                    at += m
                places[w] = at
                w += 1


@njit(cache=True)
def sum_short_ranges(values: Array, lo: Array, hi: Array, out: Array) -> None:
    """The sum of each range of values, in the order in which NumPy adds few numbers: the first to those after it."""
    for i in range(len(lo)):
        first, stop = lo[i], hi[i]
        if first + 1 == stop:
            out[i] = values[first]
        elif first < stop:
            rest = values[first + 1]
            for j in range(first + 2, stop):
                rest += values[j]
            out[i] = values[first] + rest
        else:
            out[i] = 0


@njit(cache=True)
def interleave(ours: Array, theirs: Array, our_stops: Array, their_stops: Array, out: Array) -> None:
    """Ours up to our_stops[0], theirs up to their_stops[0], ours on to our_stops[1], and so on; at last our rest."""
    at = i = j = 0
    for k in range(len(our_stops)):
        while i < our_stops[k]:
            out[at] = ours[i]
            at += 1
            i += 1
        while j < their_stops[k]:
            out[at] = theirs[j]
            at += 1
            j += 1
    for rest in range(i, len(ours)):
        out[at] = ours[rest]
        at += 1


@njit(cache=True)
def windows_at_borders(
    after: Array, begun: Array, passed: Array, reached: Array, lowest: int, slot: Array, pos: Array, times: Array,
    first: int, slide: int, size: int, tumbling: bool, places: Array, out: Array,
) -> None:  # fmt: skip
    """Windows [border - size, border) by border, then by key: lines of `out` are slot, start, end, i0, i1, from and to.

    The slice after[a] of a key is the first at or after its borders passed[a] + 1 to reached[a], which are numbers of
    slides from `first` on; rows of the key count from begun[a] on. `places` has a zero for each border from `lowest`
    on, and one more.
    """
    for a in range(len(after)):
        for k in range(passed[a] + 1, reached[a] + 1):
            places[k - lowest + 1] += 1
    for k in range(1, len(places)):
        places[k] += places[k - 1]
    j = 0
    for a in range(len(after)):
        i = after[a]
        while slot[j] < slot[i] or pos[j] < begun[a]:
            j += 1
        for k in range(passed[a] + 1, reached[a] + 1):
            border = first + k * slide
            if not (tumbling and k == 0):
                while times[j] < border - size:
                    j += 1
            at = places[k - lowest]
            places[k - lowest] += 1
            out[0, at], out[1, at], out[2, at] = slot[i], times[j], border
            out[3, at], out[4, at], out[5, at], out[6, at] = j, i, pos[j], pos[i]


assign_sessions = njit(cache=True)(assign)
