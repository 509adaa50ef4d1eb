"""How a batch arrives: which of its rows can be used at all, which are late, and where it is cut.

In: rows in order of arrival, and the watermark before them. Rows without a usable time (or gap, where sessions need
one) go to the ledger, with the reason. Which rows are late is decided row by row as if they came one by one: the
watermark before row i comes from the rows before it, so that batches never matter. With early results a batch is cut
where the watermark passes a moment at which open windows are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Column
from panes.aggregates.columns import column_from_arrow
from panes.slicing.key_index import use_kernels
from panes.slicing.ledger import BAD_GAP, NULL_TIME, OUT_OF_RANGE, LateLedger
from panes.slicing.spec import OperatorSpec
from panes.windows.base import ALWAYS, NEVER

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


class BatchArrival(NamedTuple):
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


def arrive(times: Array, spread: Spread, watermark: int, bound: int | None) -> BatchArrival:
    """`bound`: how far the watermark stays behind the largest time; None if rows don't move it."""
    after = watermark if bound is None else max(watermark, spread.high - bound)
    if spread.low >= watermark and (bound is None or spread.lag <= bound):
        return BatchArrival(after, None, None)
    met = _met(times, watermark, bound)
    late = times < met
    return BatchArrival(after, late, met) if late.any() else BatchArrival(after, None, None)


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


#: Times beyond this are no times: sums of a time and two sizes then never leave int64.
TIME_LIMIT = 2**62


#: rows of a batch, with the reason why they can't be used
Rejected = tuple[tuple[pa.Table, str], ...]


def with_time(table: pa.Table, time: str) -> tuple[pa.Table, Array, Spread | None, Array | None, Rejected]:
    """The batch without rows that have no usable time, the other rows' times and their spread (None if there
    are none), which rows they are (None: all), and the rows left out."""
    column = column_from_arrow(table[time])
    times = column.values.astype(np.int64, copy=False)
    if not len(times):
        return table, times, None, None, ()
    around = spread(times)
    if column.valid is None and around.low >= -TIME_LIMIT and around.high <= TIME_LIMIT:
        return table, times, around, None, ()
    valid = np.ones(len(times), bool) if column.valid is None else column.valid
    out = valid & ((times > TIME_LIMIT) | (times < -TIME_LIMIT))
    others = (table.filter(pa.array(~valid)), NULL_TIME), (table.filter(pa.array(out)), OUT_OF_RANGE)
    usable = np.flatnonzero(valid & ~out)
    times = times[usable]
    return table.take(pa.array(usable)), times, spread(times) if len(times) else None, usable, others


def bad_gaps(table: pa.Table, gaps: Sequence[Column], ledger: LateLedger) -> Array | None:
    """Rows of which one of these session gaps is no gap; None if there are none."""
    if not gaps:
        return None
    bad = np.zeros(table.num_rows, bool)
    for gap in gaps:
        bad |= ~(gap.values >= 0)  # negative, or NaN
        if gap.valid is not None:
            bad |= ~gap.valid
    if not bad.any():
        return None
    ledger.put(table.filter(pa.array(bad)), BAD_GAP)
    return bad


def pieces(table: pa.Table, spec: OperatorSpec, watermark: int) -> list[pa.Table]:
    """The pieces of a batch whose rows move the watermark, of a query with early results."""
    every = NEVER if spec.early is None or spec.early.every is None else spec.early.every
    column = column_from_arrow(table[spec.time])
    times = column.values.astype(np.int64)
    usable = (times <= TIME_LIMIT) & (times >= -TIME_LIMIT)
    usable = usable if column.valid is None else usable & column.valid
    times = np.where(usable, times, -TIME_LIMIT)
    moments = np.maximum(np.maximum.accumulate(times) - spec.bound, watermark) // every
    passes = np.append(moments[0] > watermark // every, moments[1:] > moments[:-1])
    if watermark == ALWAYS:  # with the first row that has a time the watermark begins, and passes nothing yet
        passes[: int(np.argmax(usable))] = False
    ends = [*(np.flatnonzero(passes[:-1]) + 1).tolist(), len(times)]
    return [table.slice(a, b - a) for a, b in zip([0, *ends], ends)]
