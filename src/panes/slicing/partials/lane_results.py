"""Results of a lane, put together from windows and their answers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from panes.slicing.lane import Agg, Results

Array = np.ndarray


def corrections(
    slot: int, spans: Sequence[tuple[int, int, int, int]], void: int, values: tuple[pa.Array, ...]
) -> Results:
    """Windows of one key given again, as (query, start, end, revision); the last `void` of them are none any more."""
    n = len(spans)
    query, start, end, revision = np.array(spans, np.int64).reshape(n, 4).T
    gone = np.arange(n) >= n - void
    if void:
        values = tuple(pa.concat_arrays([v, pa.nulls(void, v.type)]) for v in values)
    slots, revision = np.full(n, slot), revision.astype(np.int32)
    return Results(query, slots, start, end, values, revision=revision, void=gone)


@lru_cache(maxsize=256)
def no_results(aggs: tuple[Agg, ...]) -> Results:
    """Nothing is due, as most calls find; nobody changes results, so that one of them will do."""
    none = np.empty(0, np.int64)
    return Results(none, none, none, none, tuple(pa.nulls(0, a.bound.out_type) for a in aggs))


def join(parts: Sequence[Results], aggs: tuple[Agg, ...]) -> Results:
    """Several results as one."""
    parts = [p for p in parts if len(p)]
    return Results.concat(parts) if parts else no_results(aggs)
