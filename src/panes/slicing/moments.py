"""Where a batch is cut, so that windows are given early as if its rows came one by one.

In: a batch, and the watermark before it. Out: the batch in pieces, each up to the row with which the watermark passes a
moment at which open windows are given.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from panes.aggregates.columns import column_from_arrow
from panes.slicing.admission import TIME_LIMIT
from panes.slicing.spec import OperatorSpec
from panes.windows.base import ALWAYS, NEVER


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
