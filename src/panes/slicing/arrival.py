"""Which rows of a batch are late, decided row by row as if they came one by one.

In: event times in order of arrival, and the watermark before them. Out: the watermark each row met, and how
rows are to be treated. Batches never matter: the watermark before row i comes from the rows before it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from panes.slicing.key_index import use_kernels

Array = np.ndarray

#: Rows that are not in order show it soon: so many are looked at before all others.
_HEAD = 1024


class Spread(NamedTuple):
    """Between which times rows lie, and how far at most a row lies behind one that came before it."""

    low: int
    high: int
    lag: int  # 0: rows are in order; of no use if times lie 2**63 apart

    @property
    def in_order(self) -> bool:
        return self.lag == 0


class Arrival(NamedTuple):
    """How the rows of one batch arrive."""

    watermark: int  # after the batch
    late: Array | None  # mask of rows below the watermark they met; None if there are none
    met: Array | None  # the watermark each row met; None if no row is late


def spread(times: Array) -> Spread:
    """The spread of at least one time."""
    if _is_sorted(times):
        return Spread(int(times[0]), int(times[-1]), 0)
    if use_kernels(len(times)):
        from panes.slicing import kernels

        return Spread(*kernels.spread(times))
    lag = int((np.maximum.accumulate(times) - times).max())
    return Spread(int(times.min()), int(times.max()), lag)


def _is_sorted(times: Array) -> bool:
    if use_kernels(len(times)):
        from panes.slicing import kernels

        return bool(kernels.in_order(times, _HEAD))
    return np.count_nonzero(times[1:] < times[:-1]) == 0


def arrive(times: Array, spread: Spread, watermark: int, bound: int | None) -> Arrival:
    """`bound`: how far the watermark stays behind the largest time; None if rows don't move it."""
    after = watermark if bound is None else max(watermark, spread.high - bound)
    if spread.low >= watermark and (bound is None or spread.lag <= bound):
        return Arrival(after, None, None)
    met = _met(times, watermark, bound)
    late = times < met
    return Arrival(after, late, met) if late.any() else Arrival(after, None, None)


def _met(times: Array, watermark: int, bound: int | None) -> Array:
    """The watermark that each row meets."""
    if bound is None:
        return np.full(len(times), watermark)
    met = np.empty(len(times), np.int64)
    if use_kernels(len(times)):
        from panes.slicing import kernels

        kernels.watermarks(times, watermark, bound, met)
        return met
    met[0] = watermark
    np.maximum(np.maximum.accumulate(times[:-1]) - bound, watermark, out=met[1:])
    return met
