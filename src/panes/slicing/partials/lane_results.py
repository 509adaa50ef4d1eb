"""Results of a lane, put together from windows and their answers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from panes.slicing.lane import NO_TIME, Agg, Results

Array = np.ndarray


class _Same:
    """The same value many times, written down once for all results (not for very many: that would stay in memory)."""

    def __init__(self, value: np.generic) -> None:
        self._value = value
        self._written = np.full(4096, value)

    def __call__(self, n: int) -> Array:
        if n > _MANY:
            return np.broadcast_to(self._value, n)
        if n > len(self._written):
            self._written = np.full(_MANY, self._value)
        return self._written[:n]


_MANY = 1 << 16
_nowhere, _first, _not_void = _Same(np.int64(NO_TIME)), _Same(np.int32(0)), _Same(np.bool_(False))


class RunResults(Results):
    """Windows on event time given for the first time, each to many keys.

    What belongs to a window is kept once per window (`runs`: number, start, end, how many results); the columns
    of `Results` are written out when somebody asks for them.
    """

    def __init__(
        self,
        number: Array,
        start: Array,
        end: Array,
        counts: Array,
        slots: Array,
        values: tuple[pa.Array, ...],
    ) -> None:
        n = len(slots)
        nowhere = _nowhere(n)
        columns = {
            "runs": (number, start, end, counts),
            "slots": slots,
            "lo": nowhere,
            "hi": nowhere,
            "revision": _first(n),
            "void": _not_void(n),
            "values": values,
        }
        self.__dict__.update(columns)

    runs: tuple[Array, Array, Array, Array]  # type: ignore[misc]

    def __len__(self) -> int:
        return len(self.slots)

    @cached_property
    def query(self) -> Array:
        return np.repeat(self.runs[0], self.runs[3])

    @cached_property
    def start(self) -> Array:
        return np.repeat(self.runs[1], self.runs[3])

    @cached_property
    def end(self) -> Array:
        return np.repeat(self.runs[2], self.runs[3])


def first_results(query: Array, slots: Array, start: Array, end: Array, values: tuple[pa.Array, ...]) -> Results:
    """Windows on event time given for the first time."""
    n = len(query)
    nowhere = _nowhere(n)
    return Results(query, slots, start, end, nowhere, nowhere, _first(n), _not_void(n), values)


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
    return first_results(none, none, none, none, tuple(pa.nulls(0, a.bound.out_type) for a in aggs))


def join(parts: Sequence[Results], aggs: Sequence[Agg]) -> Results:
    """Several results as one."""
    parts = [p for p in parts if len(p)]
    return Results.concat(parts) if parts else no_results(aggs)
