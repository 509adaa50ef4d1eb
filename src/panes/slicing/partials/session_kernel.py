"""Which session each row joins, one by one in order of arrival: sessions close as the watermark passes them.

One source, run by Python for a few rows and compiled for many (slicing/kernels.py).
"""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def assign(row_bounds: Array, times: Array, ends: Array, met: Array, held_bounds: Array, first: Array, end: Array,
           into: Array, closed: Array, is_open: Array, session: Array) -> int:  # fmt: skip
    """Rows of key k are row_bounds[k]:row_bounds[k + 1], in order of arrival: from times to ends, meeting watermarks.

    Sessions are numbered: those of key k that are open before are held_bounds[k]:held_bounds[k + 1], with `first` and
    `end` filled in; new ones follow. `into[s]` is the session that s became part of (s itself: none), `closed[s]`
    whether the watermark has passed it, `session[i]` that of row i, -1 if it comes too late for any. `is_open` is room
    for the numbers of a key's open sessions. Returns the number of sessions.
    """
    n = held_bounds[-1]
    for k in range(len(row_bounds) - 1):
        opened = 0
        for s in range(held_bounds[k], held_bounds[k + 1]):
            is_open[opened] = s
            opened += 1
        for i in range(row_bounds[k], row_bounds[k + 1]):
            target = -1
            left = 0
            for o in range(opened):
                s = is_open[o]
                if end[s] < met[i]:
                    closed[s] = True
                elif first[s] <= ends[i] and end[s] >= times[i] and target >= 0:
                    into[s] = target
                    first[target] = min(first[target], first[s])
                    end[target] = max(end[target], end[s])
                else:
                    if first[s] <= ends[i] and end[s] >= times[i]:
                        target = s
                    is_open[left] = s
                    left += 1
            opened = left
            if target < 0:
                if ends[i] < met[i]:
                    session[i] = -1
                    continue
                target = n
                n += 1
                first[target] = times[i]
                end[target] = ends[i]
                is_open[opened] = target
                opened += 1
            else:
                first[target] = min(first[target], times[i])
                end[target] = max(end[target], ends[i])
            session[i] = target
    return int(n)


def roots(into: Array) -> Array:
    """The session that each one is part of in the end."""
    while True:
        further = into[into]
        if np.array_equal(further, into):
            return into
        into = further
