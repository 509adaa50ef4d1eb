"""Results of a lane, put together from windows and their answers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from panes.slicing.lane import NO_TIME, Agg, Results

Array = np.ndarray


class FirstResults(Results):
    """Windows on event time given for the first time: `runs` says each window once, with the number of its results
    (None: one each). The columns of `Results` are written out when somebody asks for them.
    """

    runs: tuple[Array, Array, Array, Array | None]  # type: ignore[misc]

    def __init__(
        self,
        number: Array,
        start: Array,
        end: Array,
        counts: Array | None,
        slots: Array,
        values: tuple[pa.Array, ...],
    ) -> None:
        self.runs = number, start, end, counts
        self.slots = slots
        self.values = values

    def __len__(self) -> int:
        return len(self.slots)

    def _each(self, column: Array) -> Array:
        counts = self.runs[3]
        return column if counts is None else column.repeat(counts)

    @cached_property
    def query(self) -> Array:  # type: ignore[override]
        return self._each(self.runs[0])

    @cached_property
    def start(self) -> Array:  # type: ignore[override]
        return self._each(self.runs[1])

    @cached_property
    def end(self) -> Array:  # type: ignore[override]
        return self._each(self.runs[2])

    @cached_property
    def lo(self) -> Array:  # type: ignore[override]
        return np.broadcast_to(np.int64(NO_TIME), len(self))

    @cached_property
    def hi(self) -> Array:  # type: ignore[override]
        return self.lo

    @cached_property
    def revision(self) -> Array:  # type: ignore[override]
        return np.broadcast_to(np.int32(0), len(self))

    @cached_property
    def void(self) -> Array:  # type: ignore[override]
        return np.broadcast_to(np.False_, len(self))


def corrections(
    slot: int, spans: Sequence[tuple[int, int, int, int]], void: int, values: tuple[pa.Array, ...]
) -> Results:
    """Windows of one key given again, as (query, start, end, revision); the last `void` of them are none any more."""
    n = len(spans)
    query, start, end, revision = np.array(spans, np.int64).reshape(n, 4).T
    nowhere = np.full(n, NO_TIME)
    gone = np.arange(n) >= n - void
    if void:
        values = tuple(pa.concat_arrays([v, pa.nulls(void, v.type)]) for v in values)
    slots, revision = np.full(n, slot), revision.astype(np.int32)
    return Results(query, slots, start, end, nowhere, nowhere, revision, gone, values)


def no_results(aggs: Sequence[Agg]) -> Results:
    none = np.empty(0, np.int64)
    return FirstResults(none, none, none, None, none, tuple(pa.nulls(0, a.bound.out_type) for a in aggs))


def join(parts: Sequence[Results], aggs: Sequence[Agg]) -> Results:
    """Several results as one."""
    parts = [p for p in parts if len(p)]
    return Results.concat(parts) if parts else no_results(aggs)
