"""The flow of built-in policies under central ones, as compiled loops (SPEC P-43). Import it only where there are rows.

Triggers have been looked at before (triggers.py). What is left is the order of things: fake items, results, evictions,
the row itself, and what the centre says to all keys. A level (one key, or the centre) is a table of lines (program.py)
and a row of state words; rows are numbered in an arena, where `follows` leads to the next row of the key.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from panes.policies.program import (
    CHILDREN,
    COLUMN,
    COUNT,
    EUCLID,
    FLOATS,
    HEAD,
    KIND,
    MAX,
    MIN,
    OPTION,
    PRIORITY,
    PUNCT,
    SEEN,
    SUM,
    TAIL,
    TAIL_AT,
    TIME,
    TUMBLE,
    WORD,
    A,
    B,
)

Array = np.ndarray
MOST = 2**31 - 1
# what evictions are told of: a row, a fake item with a time, or a row of another key as a fake item
ROW, FAKE, ROW_AS_FAKE = 0, 1, 2
# words of `meta`: windows found, row that brought too many fake items (-1: none)
FOUND, WRONG = 0, 1


@njit(cache=True)
def _length(kind: int, squares: float, dot: float, left: float, right: float) -> float:
    if kind == EUCLID:
        return np.sqrt(squares)
    length = np.sqrt(left) * np.sqrt(right)
    if length == 0.0:
        return np.nan
    return 1.0 - dot / length


@njit(cache=True)
def _distance(kind: int, n: int, cols: Array, column: int, i: int, j: int) -> float:
    """From row i to row j, over n columns."""
    if kind == EUCLID and n == 1:
        return abs(cols[column, j] - cols[column, i])
    squares, dot, left, right = 0.0, 0.0, 0.0, 0.0
    for c in range(column, column + n):
        a, b = cols[c, i], cols[c, j]
        squares += (b - a) * (b - a)
        dot += a * b
        left += a * a
        right += b * b
    return _length(kind, squares, dot, left, right)


@njit(cache=True)
def _moved_by(kind: int, n: int, floats: Array, k: int, at: int, cols: Array, j: int, column: int) -> float:
    """From the values that key k remembers to row j."""
    if kind == EUCLID and n == 1:
        return abs(cols[column, j] - floats[k, at])
    squares, dot, left, right = 0.0, 0.0, 0.0, 0.0
    for c in range(n):
        a, b = floats[k, at + c], cols[column + c, j]
        squares += (b - a) * (b - a)
        dot += a * b
        left += a * a
        right += b * b
    return _length(kind, squares, dot, left, right)


@njit(cache=True)
def ask_evictions(
    lines: Array, limits: Array, states: Array, k: int, ticks: Array, cols: Array, follows: Array, contiguous: bool,
    j: int, what: int, now: int, triggered: bool, stack: Array, asked: Array,
) -> int:  # fmt: skip
    """Tell all evictions of row j (or the active ones of a fake item at `now`); how many rows leave."""
    top = 0
    head, tail = states[k, HEAD], states[k, TAIL]
    size = tail - head
    for t in range(len(lines)):
        kind, word = lines[t, KIND], lines[t, WORD]
        answer, is_asked = 0, True
        if kind >= MAX:
            n = lines[t, CHILDREN]
            top -= n
            answer = MOST if kind == MIN else 0
            for c in range(top, top + n):
                if asked[c] == 0:
                    continue
                value = stack[c]
                if kind == MAX:
                    answer = max(answer, value)
                elif kind == MIN:
                    answer = min(answer, value)
                elif kind == SUM:
                    answer += value
                elif kind == PRIORITY and answer == 0:
                    answer = value
        elif (what != ROW and lines[t, OPTION] == 0) or (what == FAKE and kind == TUMBLE):
            is_asked = False
        elif kind == COUNT:
            if lines[t, FLOATS] == 1 and states[k, word] > size:
                states[k, word] = size
            if states[k, word] >= lines[t, A]:
                answer = lines[t, B]
                states[k, word] = max(0, states[k, word] - answer) + 1
            else:
                states[k, word] += 1
        elif kind == TUMBLE:
            if what != ROW or triggered:
                answer = size
        elif kind == PUNCT:
            if what != FAKE and cols[lines[t, COLUMN], j] == 1.0:  # a time alone matches nothing
                answer = size
        else:
            # an own queue of rows: position and place of its first one; rows that others removed leave it first
            at, place = states[k, word], states[k, word + 1]
            while at < head:
                at += 1
                if at < tail:
                    place = place + 1 if contiguous else follows[place]
            column = lines[t, COLUMN]
            if kind == TIME:
                oldest = (now if what == FAKE else ticks[column, j]) - lines[t, A]
                while at < tail and ticks[column, place] < oldest:
                    answer += 1
                    at += 1
                    if at < tail:
                        place = place + 1 if contiguous else follows[place]
            else:
                n = lines[t, A]
                while what != FAKE and at < tail and _distance(kind, n, cols, column, place, j) > limits[t]:
                    answer += 1
                    at += 1
                    if at < tail:
                        place = place + 1 if contiguous else follows[place]
            if at == tail and what == ROW:
                place = j
            states[k, word], states[k, word + 1] = at, place
        stack[top], asked[top] = answer, 1 if is_asked else 0
        top += 1
    return stack[0]


@njit(cache=True)
def emit(out: Array, meta: Array, slot: int, lo: int, hi: int, end: int) -> Array:
    """Note a window of rows lo..hi-1, unless it is empty; the list grows as it must."""
    if hi > lo:
        n = meta[FOUND]
        if n == len(out):
            more = np.empty((2 * n + 16, 4), np.int64)
            more[:n] = out
            out = more
        out[n, 0], out[n, 1], out[n, 2], out[n, 3] = slot, lo, hi, end
        meta[FOUND] = n + 1
    return out


@njit(cache=True)
def next_run(rows: Array, firsts: Array, counts: Array, r: int, i: int) -> int:
    """Of the runs from r on that are before row i, the one with the earliest fake item that is left; -1: none is.

    Triggers thus take turns by time (SPEC K-10), and no run is ever written out.
    """
    best = -1
    while r < len(rows) and rows[r] == i:
        if counts[r] > 0 and (best < 0 or firsts[r] < firsts[best]):
            best = r
        r += 1
    return best


@njit(cache=True)
def _forward(states: Array, centre: Array, slots: Array, positions: Array, n: int) -> None:
    """The centre lets its n oldest rows go: each leaves its key, unless it has left before."""
    n = min(n, centre[0, TAIL] - centre[0, HEAD])
    for _ in range(n):
        place = centre[0, TAIL_AT]
        k = slots[place]
        if states[k, HEAD] <= positions[place]:
            states[k, HEAD] = positions[place] + 1
        centre[0, TAIL_AT] = place + 1
    centre[0, HEAD] += n


@njit(cache=True)
def tell_others(
    e_lines: Array, e_limits: Array, states: Array, ticks: Array, cols: Array, follows: Array, k: int, j: int,
    what: int, now: int, end: int, out: Array, meta: Array, stack: Array, asked: Array,
) -> Array:  # fmt: skip
    """A fake item for every key (evict, then emit), or a row of key k for all others (emit, then evict)."""
    for other in range(len(states)):
        if states[other, SEEN] == 0 or (what == ROW_AS_FAKE and other == k):
            continue
        if what == ROW_AS_FAKE:
            out = emit(out, meta, other, states[other, HEAD], states[other, TAIL], end)
        n = 0
        if len(e_lines) > 1:
            n = ask_evictions(
                e_lines, e_limits, states, other, ticks, cols, follows, False, max(j, 0), what, now, True, stack, asked
            )
        states[other, HEAD] = min(states[other, HEAD] + n, states[other, TAIL])
        if what == FAKE:
            out = emit(out, meta, other, states[other, HEAD], states[other, TAIL], end)
            if e_lines[-1, OPTION] == 1:
                states[other, HEAD] = states[other, TAIL]
    return out


@njit(cache=True)
def _none_held(states: Array) -> bool:
    held = 0
    for k in range(len(states)):
        held += states[k, SEEN] * (states[k, TAIL] - states[k, HEAD])
    return held == 0


@njit(cache=True)
def run_grouped(
    ce_lines: Array, ce_limits: Array, centre: Array, e_lines: Array, e_limits: Array, keeps: bool, rows: bool,
    by_clock: bool, states: Array, ticks: Array, cols: Array, follows: Array, slots: Array, positions: Array,
    owner: Array, base: int,
    c_fired: Array, c_row: Array, c_first: Array, c_step: Array, c_count: Array, c_timed: Array,
    fired: Array, f_row: Array, f_first: Array, f_step: Array, f_count: Array, f_timed: Array,
    out: Array, meta: Array, most: int, stack: Array, asked: Array,
) -> Array:  # fmt: skip
    """Rows base..base+n-1 in the order in which they came, row i of slot owner[i]. Without `rows` only fake items come.

    `c_...` is what central triggers said, the rest what those of the keys did; fake items of both come by time, unless
    central ones go `by_clock`, which waits for no row. Evictions of one line are none at all. Fake items give no more
    than about `most` windows: meta[WRONG] is then the row before which they were sent.
    """
    c, f, sent = 0, 0, 0
    own, central = len(e_lines) > 1, len(ce_lines) > 1
    for i in range(len(owner)):
        k = owner[i]
        j = base + i if rows else 0
        if rows:
            states[k, SEEN] = 1
        end = ticks[0, j] if rows else 0
        while (c < len(c_row) and c_row[c] == i) or (f < len(f_row) and f_row[f] == i):
            at, mine = next_run(c_row, c_first, c_count, c, i), next_run(f_row, f_first, f_count, f, i)
            if states[k, HEAD] == states[k, TAIL]:
                mine = -1  # the key's own give nothing
            if mine < 0 and (at < 0 or _none_held(states)):
                while c < len(c_row) and c_row[c] == i:
                    c += 1
                while f < len(f_row) and f_row[f] == i:
                    f += 1
                break
            before = meta[FOUND]
            if mine < 0 or (at >= 0 and (by_clock or c_first[at] <= f_first[mine])):
                border = c_first[at]
                c_first[at] += c_step[at]
                c_count[at] -= 1
                if central:
                    n = ask_evictions(
                        ce_lines, ce_limits, centre, 0, ticks, cols, follows, True, j, FAKE, border, True, stack, asked
                    )
                    _forward(states, centre, slots, positions, n)
                out = tell_others(
                    e_lines, e_limits, states, ticks, cols, follows, k, j, FAKE, border,
                    border if c_timed[at] else end, out, meta, stack, asked,
                )  # fmt: skip
                if ce_lines[-1, OPTION] == 1:
                    _forward(states, centre, slots, positions, centre[0, TAIL] - centre[0, HEAD])
            else:
                border = f_first[mine]
                f_first[mine] += f_step[mine]
                f_count[mine] -= 1
                if own:
                    n = ask_evictions(
                        e_lines, e_limits, states, k, ticks, cols, follows, False, j, FAKE, border, True, stack, asked
                    )
                    states[k, HEAD] = min(states[k, HEAD] + n, states[k, TAIL])
                out = emit(out, meta, k, states[k, HEAD], states[k, TAIL], border if f_timed[mine] else end)
                if e_lines[-1, OPTION] == 1:
                    states[k, HEAD] = states[k, TAIL]
            sent += max(1, meta[FOUND] - before)
            if sent > most:
                meta[WRONG] = j
                return out
        if not rows:
            continue
        triggered = fired[i] or c_fired[i]
        if triggered:
            out = emit(out, meta, k, states[k, HEAD], states[k, TAIL], end)
        if own:
            n = ask_evictions(
                e_lines, e_limits, states, k, ticks, cols, follows, False, j, ROW, 0, triggered, stack, asked
            )
            states[k, HEAD] = min(states[k, HEAD] + n, states[k, TAIL])
        states[k, TAIL] += 1
        if keeps:
            if states[k, TAIL_AT] >= 0:
                follows[states[k, TAIL_AT]] = j
            states[k, TAIL_AT] = j
        if c_fired[i]:
            out = tell_others(
                e_lines, e_limits, states, ticks, cols, follows, k, j, ROW_AS_FAKE, 0, end, out, meta, stack, asked
            )
        if central:
            n = ask_evictions(
                ce_lines, ce_limits, centre, 0, ticks, cols, follows, True, j, ROW, 0, c_fired[i], stack, asked
            )
            _forward(states, centre, slots, positions, n)
            if centre[0, HEAD] == centre[0, TAIL]:
                centre[0, TAIL_AT] = j
            centre[0, TAIL] += 1
    return out
