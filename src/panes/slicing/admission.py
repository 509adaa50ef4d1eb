"""Which rows of a batch can be used at all: those with a usable time, and a usable gap where sessions need one.

The others go to the ledger, with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Column
from panes.aggregates.columns import column_from_arrow
from panes.slicing.arrival import Spread, spread
from panes.slicing.ledger import BAD_GAP, NULL_TIME, OUT_OF_RANGE, LateLedger

Array = np.ndarray
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
