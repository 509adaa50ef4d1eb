"""Which aggregates the windows of a lane give: each distinct one is kept once, whoever gives it and under what name.

A lane has the aggregates of all its windows side by side, and results have a column for each of them. Windows that give
the same ones are answered together, and nothing is computed for a window that does not give it: what stands in such a
column is never looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa

from panes.slicing.lane import Agg, RunningWindow

Array = np.ndarray
Column = TypeVar("Column")


class Shares:
    """The aggregates of some windows, and which of them each window gives."""

    def __init__(self, queries: Sequence[RunningWindow], default: Sequence[Agg]) -> None:
        """`default`: those of windows that have none of their own, and of a lane without windows."""
        self.default = tuple(default)
        sets = {id(q.aggs): self.default if q.aggs is None else q.aggs for q in queries}
        self.aggs = distinct([*sets.values()] or [self.default])
        positions = {key: tuple(i for i in places(aggs, self.aggs) if i is not None) for key, aggs in sets.items()}
        self._sets = [*dict.fromkeys(positions.values())]
        number = {given: i for i, given in enumerate(self._sets)}
        self._set_of = np.zeros(max((q.number for q in queries), default=0) + 1, np.int64)
        for query in queries:
            self._set_of[query.number] = number[positions[id(query.aggs)]]
        #: whether every window gives all of them
        self.whole = all(sorted(given) == [*range(len(self.aggs))] for given in self._sets)

    def of(self, number: int) -> tuple[int, ...]:
        """The positions of what a window gives, in its own order."""
        return self._sets[self._set_of[number]]

    def given_by(self, query: RunningWindow) -> tuple[Agg, ...]:
        """The aggregates of a window, one that is here or one that is about to come."""
        return self.default if query.aggs is None else query.aggs

    def groups(self, numbers: Array) -> list[tuple[tuple[int, ...], Array]]:
        """Windows by what they give: positions of aggregates, and which of the windows give these."""
        of = self._set_of[numbers]
        found = ((given, np.flatnonzero(of == i)) for i, given in enumerate(self._sets))
        return [(given, which) for given, which in found if len(which)]

    def in_place(self, parts: Sequence[tuple[tuple[int, ...], Array, Sequence[pa.Array]]]) -> tuple[pa.Array, ...]:
        """One column for each aggregate, of parts: which aggregates, of which results, and their values."""
        types = {a: agg.bound.out_type for a, agg in enumerate(self.aggs)}
        return tuple(side_by_side(types, [(which, dict(zip(given, values))) for given, which, values in parts]))

    def spread(self, number: int, values: Sequence[pa.Array]) -> tuple[pa.Array, ...]:
        """The values of one window, in its own order, as columns of all aggregates."""
        given = self.of(number)
        if given == (*range(len(self.aggs)),):
            return tuple(values)
        return self.in_place([(given, np.arange(len(values[0])), values)])


def distinct(sets: Sequence[Sequence[Agg]]) -> tuple[Agg, ...]:
    """Each aggregate once. What all sets end with stays at the end: early results look for the number of rows there."""
    found: list[Agg] = []
    for aggs in sets:
        found += [agg for agg in aggs if not any(agg.same(known) for known in found)]
    last = sets[0][-1] if sets[0] else None
    if last is not None and len(sets) > 1 and all(aggs and aggs[-1].same(last) for aggs in sets):
        found = [*(agg for agg in found if not agg.same(last)), last]
    return tuple(found)


def places(aggs: Sequence[Agg], among: Sequence[Agg]) -> list[int | None]:
    """Where aggregates are among others, whatever they are called; None: nowhere."""
    return [next((i for i, known in enumerate(among) if known.same(agg)), None) for agg in aggs]


def side_by_side(
    types: Mapping[Column, pa.DataType], parts: Sequence[tuple[Array, Mapping[Column, pa.Array]]]
) -> list[pa.Array]:
    """One column of each type, of parts: of which results, and their values; null where a part has no such column."""
    if not parts:
        return [pa.nulls(0, type) for type in types.values()]
    back = pa.array(np.argsort(np.concatenate([which for which, _ in parts]), kind="stable"))
    return [
        pa.concat_arrays([values.get(name, pa.nulls(len(which), type)) for which, values in parts]).take(back)
        for name, type in types.items()
    ]


def laid_out(values: Sequence[pa.Array], at: Sequence[int | None], aggs: Sequence[Agg], n: int) -> tuple[pa.Array, ...]:
    """Columns as others have them: of each aggregate where it is among `values`, if it is there."""
    return tuple(pa.nulls(n, agg.bound.out_type) if place is None else values[place] for place, agg in zip(at, aggs))
