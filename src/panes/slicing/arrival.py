"""Which rows of a batch are late, decided row by row as if they came one by one.

In: event times in order of arrival, and the watermark before them. Out: the watermark each row met, and how
rows are to be treated. Batches never matter: the watermark before row i comes from the rows before it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Arrival:
    """How the rows of one batch arrive."""

    watermark: int  # after the batch
    in_order: bool
    late: Array | None  # mask of rows below the watermark they met; None if there are none
    met: Array | None  # the watermark each row met; None if no row is late


def is_sorted(times: Array) -> bool:
    return bool((times[1:] >= times[:-1]).all())


def arrive(times: Array, watermark: int, bound: int | None, *, in_order: bool) -> Arrival:
    """`bound`: how far the watermark stays behind the largest time; None if rows don't move it."""
    if in_order:
        after = watermark if bound is None else max(watermark, int(times[-1]) - bound)
        if times[0] >= watermark:
            return Arrival(after, True, None, None)
        # in order, rows can only be below the watermark that was there before the batch
        late = times < watermark
        met = np.full(len(times), watermark)
        if bound is not None:
            met[1:] = np.maximum(watermark, times[:-1] - bound)
        return Arrival(after, True, late, met)
    if bound is None:
        late = times < watermark
        return Arrival(watermark, False, late if late.any() else None, np.full(len(times), watermark))
    highest = np.maximum.accumulate(times)
    after = max(watermark, int(highest[-1]) - bound)
    if times.min() >= watermark and (highest - times).max() <= bound:
        return Arrival(after, False, None, None)
    met = np.empty(len(times), np.int64)
    met[0] = watermark
    np.subtract(highest[:-1], bound, out=met[1:])
    np.maximum(met, watermark, out=met)
    late = times < met
    return Arrival(after, False, late, met) if late.any() else Arrival(after, False, None, None)
