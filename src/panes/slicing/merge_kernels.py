"""Compiled loops of the row lane. Imported only for large batches, since Numba takes time to import."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def merge_by_time(times, seq, main, late):  # type: ignore[no-untyped-def]
    """Merge two index lists, each sorted by (time, arrival), into one."""
    out = np.empty(len(main) + len(late), np.int64)
    i = 0
    j = 0
    for k in range(len(out)):
        if j == len(late):
            out[k] = main[i]
            i += 1
        elif i == len(main):
            out[k] = late[j]
            j += 1
        else:
            a = main[i]
            b = late[j]
            if times[a] < times[b] or (times[a] == times[b] and seq[a] < seq[b]):
                out[k] = a
                i += 1
            else:
                out[k] = b
                j += 1
    return out
