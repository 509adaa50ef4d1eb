"""Evictions of one key over whole batches, after triggers have been looked at. Import it only where there are rows.

One loop, and in it everything: called per row, functions would spend more time on their arguments than on their work.
It says the same as `ask_evictions` in kernels.py, where the reasons are.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from panes.policies.kernels import _distance, next_run
from panes.policies.program import (
    CHILDREN,
    COLUMN,
    COUNT,
    FLOATS,
    HEAD,
    KIND,
    MAX,
    MIN,
    OPTION,
    PRIORITY,
    PUNCT,
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


@njit(cache=True)
def run_evictions(
    lines: Array, limits: Array, keeps: bool, rows: bool, slots: Array, offsets: Array, base: int, states: Array,
    ticks: Array, cols: Array, follows: Array, fired: Array,
    f_row: Array, f_first: Array, f_step: Array, f_count: Array, f_timed: Array,
    out: Array, meta: Array, most: int, stack: Array, asked: Array,
) -> Array:  # fmt: skip
    """Windows of rows base..base+n-1, those of slots[g] from offsets[g] on. Without `rows` only fake items come."""
    found, r, sent, runs = 0, 0, 0, len(f_row)
    clears = lines[-1, OPTION] == 1
    count = len(lines)
    for g in range(len(slots)):
        k = slots[g]
        head, tail = states[k, HEAD], states[k, TAIL]
        for i in range(offsets[g], offsets[g + 1]):
            j = base + i if rows else 0
            while True:
                is_row, now, end, triggered = True, np.int64(0), np.int64(0), True
                if r < runs and f_row[r] == i:
                    next_ = next_run(f_row, f_first, f_count, r, i)
                    if next_ < 0 or head == tail:
                        while r < runs and f_row[r] == i:
                            r += 1
                    else:
                        is_row, now = False, f_first[next_]
                        end = now if f_timed[next_] else ticks[0, j]
                        f_first[next_] += f_step[next_]
                        f_count[next_] -= 1
                        sent += 1
                        if sent > most:
                            meta[1] = j
                            return out
                if is_row:
                    if not rows:
                        break
                    triggered = fired[i]
                    end = ticks[0, j]
                    if triggered and head < tail:
                        if found == len(out):
                            more = np.empty((2 * found + 16, 4), np.int64)
                            more[:found] = out
                            out = more
                        out[found, 0], out[found, 1], out[found, 2], out[found, 3] = k, head, tail, end
                        found += 1
                size, top = tail - head, 0
                for t in range(count):
                    kind, word = lines[t, KIND], lines[t, WORD]
                    answer, is_asked = np.int64(0), 1
                    if kind >= MAX:
                        n = lines[t, CHILDREN]
                        top -= n
                        if kind == MIN:
                            answer = np.int64(MOST)
                        for c in range(top, top + n):
                            if asked[c] == 1:
                                if kind == MAX:
                                    answer = max(answer, stack[c])
                                elif kind == MIN:
                                    answer = min(answer, stack[c])
                                elif kind == SUM:
                                    answer += stack[c]
                                elif kind == PRIORITY and answer == 0:
                                    answer = stack[c]
                    elif not is_row and (lines[t, OPTION] == 0 or kind == TUMBLE):
                        is_asked = 0
                    elif kind == COUNT:
                        counter = states[k, word]
                        if lines[t, FLOATS] == 1 and counter > size:
                            counter = size
                        if counter >= lines[t, A]:
                            answer = lines[t, B]
                            counter = max(0, counter - answer)
                        states[k, word] = counter + 1
                    elif kind == TUMBLE:
                        if triggered:
                            answer = size
                    elif kind == PUNCT:
                        if is_row and cols[lines[t, COLUMN], j] == 1.0:
                            answer = size
                    else:
                        at, place, column = states[k, word], states[k, word + 1], lines[t, COLUMN]
                        while at < head:
                            at += 1
                            if at < tail:
                                place = follows[place]
                        if kind == TIME:
                            oldest = (ticks[column, j] if is_row else now) - lines[t, A]
                            while at < tail and ticks[column, place] < oldest:
                                answer += 1
                                at += 1
                                if at < tail:
                                    place = follows[place]
                        else:
                            while (
                                is_row and at < tail
                                and _distance(kind, lines[t, A], cols, column, place, j) > limits[t]
                            ):  # fmt: skip
                                answer += 1
                                at += 1
                                if at < tail:
                                    place = follows[place]
                        if at == tail and is_row:
                            place = j
                        states[k, word], states[k, word + 1] = at, place
                    stack[top], asked[top] = answer, is_asked
                    top += 1
                if stack[0] > 0:
                    head = min(head + stack[0], tail)
                if is_row:
                    break
                if head < tail:
                    if found == len(out):
                        more = np.empty((2 * found + 16, 4), np.int64)
                        more[:found] = out
                        out = more
                    out[found, 0], out[found, 1], out[found, 2], out[found, 3] = k, head, tail, end
                    found += 1
                if clears:
                    head = tail
            if rows:
                tail += 1
                if keeps:
                    if states[k, TAIL_AT] >= 0:
                        follows[states[k, TAIL_AT]] = j
                    states[k, TAIL_AT] = j
        states[k, HEAD], states[k, TAIL] = head, tail
    meta[0] = found
    return out
