"""The compiled loop of the common pairs (simple.py). Import it only where there are rows.

Places in the inner loops are unsigned: of one that may be negative Numba looks at the sign at every access.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from panes.policies.program import COUNT, HEAD, TAIL, TAIL_AT, TIME, TUMBLE

Array = np.ndarray


@njit(cache=True)
def _note(out: Array, found: int, slot: int, lo: int, hi: int, end: int) -> Array:
    if found == len(out):
        more = np.empty((2 * found + 16, 4), np.int64)
        more[:found] = out
        out = more
    out[found, 0], out[found, 1], out[found, 2], out[found, 3] = slot, lo, hi, end
    return out


@njit(cache=True)
def run_pair(
    trigger: int, every: int, evict: int, size: int, word: int, place_word: int, states: Array, ticks: Array,
    follows: Array, slots: Array, offsets: Array, base: int, out: Array, meta: Array, most: int,
) -> Array:  # fmt: skip
    """Rows base..base+n-1, those of slot slots[g] from offsets[g] on.

    Between two rows at which something is due, rows only come in: they are not looked at one by one.
    """
    found = 0
    for g in range(len(slots)):
        k, i, stop = slots[g], base + offsets[g], base + offsets[g + 1]
        head, tail, state = states[k, HEAD], states[k, TAIL], states[k, word]
        place = np.int64(-1)
        if evict == TIME:
            place = states[k, place_word]
            after = follows[i : max(i, stop - 1)]
            for j in range(len(after)):
                after[j] = i + 1 + j
            if states[k, TAIL_AT] >= 0:
                follows[states[k, TAIL_AT]] = i
            states[k, TAIL_AT] = stop - 1
        while True:
            due = i
            if trigger == TIME:
                while due < stop and ticks[np.uint64(due)] < state:
                    due += 1
            else:
                due = min(stop, i + max(0, every - state))
                state += due - i
            if due > i:
                if head == tail:
                    place = i
                tail += due - i
                if evict == COUNT:
                    head = max(head, tail - size)
            if due == stop:
                break
            now = ticks[due]
            if trigger == TIME:
                while state <= now:
                    if evict == TIME:
                        while head < tail and ticks[np.uint64(place)] < state - size:
                            head += 1
                            if head < tail:
                                place = follows[np.uint64(place)]
                    if head == tail:
                        state += ((now - state) // every + 1) * every
                        break
                    out = _note(out, found, k, head, tail, state)
                    found += 1
                    state += every
                    if evict == TUMBLE:
                        head = tail
                    elif found > most:
                        meta[1] = due
                        return out
                i = due
                continue
            if evict == TIME and due > base + offsets[g]:
                while head < tail - 1 and ticks[place] < ticks[due - 1] - size:
                    head += 1
                    place = follows[place]
            if head < tail:
                out = _note(out, found, k, head, tail, now)
                found += 1
            state = 1
            if evict == TUMBLE or head == tail:
                head, place = tail, due
            tail += 1
            if evict == COUNT:
                head = max(head, tail - size)
            i = due + 1
        if evict == TIME:
            while head < tail - 1 and ticks[place] < ticks[stop - 1] - size:
                head += 1
                place = follows[place]
            states[k, place_word - 1], states[k, place_word] = head, place
        states[k, HEAD], states[k, TAIL], states[k, word] = head, tail, state
    meta[0] = found
    return out
