"""DISTINCT in front of the arguments of any aggregate: each value, or combination of values, counts once.

A partial lists the different values of its rows in order; the aggregate itself is computed from them when a window
is due. Aggregates that take them in order, such as collect_list, so get them by value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa

from panes.aggregates.base import (
    HOLISTIC,
    Aggregate,
    Array,
    BoundAggregate,
    Cells,
    Column,
    Field,
    Inputs,
    Laws,
    Ragged,
    Spec,
)
from panes.aggregates.segments import compress, normal, offsets_of, same, segment_ids
from panes.aggregates.types import ORDERED, kept_as, plain, require


@dataclass(frozen=True, repr=False)
class Distinct(Spec):
    """Another aggregate, over the different values of its arguments only."""

    name: ClassVar[str] = "distinct"
    promises: ClassVar[Laws] = HOLISTIC

    #: the aggregate, whatever its arguments: they are those of this one
    of: Spec

    def __repr__(self) -> str:
        first, *rest = self.inputs
        return repr(replace(self.of, inputs=(f"DISTINCT {first}", *rest)))

    def bind(self, types: Sequence[pa.DataType]) -> BoundAggregate:
        self.argument_types(types)
        inner = replace(self.of, inputs=self.inputs).bind(types)
        for text, type in zip(self.inputs, types, strict=True):
            require(repr(self), text, type, ORDERED, "DISTINCT needs values that have an order")
        return BoundDistinct(inner, [plain(type) for type in types])


def distinct(aggregate: Aggregate) -> Aggregate:
    """A built-in aggregate over different values; itself, if a value that comes again changes nothing."""
    if aggregate.laws.idempotent:
        return aggregate
    assert isinstance(aggregate, Spec)
    return Distinct(aggregate.inputs, replace(aggregate, inputs=("x",) * len(aggregate.inputs)))


class BoundDistinct(BoundAggregate):
    laws = HOLISTIC

    def __init__(self, inner: BoundAggregate, types: Sequence[pa.DataType]) -> None:
        self.inner = inner
        self.types = tuple(types)
        self.fields = tuple(Field(f"v{i}", kept_as(type), ragged=True) for i, type in enumerate(types))
        self.out_type = inner.out_type

    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        present = [c.valid for c in rows.columns if c.valid is not None]
        if present:
            index, offsets = compress(np.logical_and.reduce(present), offsets)
            columns = [c.values[index] for c in rows.columns]
        else:
            columns = [c.values[offsets[0] : offsets[-1]] for c in rows.columns]
            offsets = offsets - offsets[0]
        return _different([normal(values) for values in columns], offsets)

    def fold(self, cells: Cells, offsets: Array) -> Cells:
        bounds = cells.fields[0].offsets[offsets]
        columns = [f.values[bounds[0] : bounds[-1]] for f in cells.fields]
        return _different(columns, bounds - bounds[0])

    def lower(self, cells: Cells) -> pa.Array:
        bounds = cells.fields[0].offsets
        values = [f.values[bounds[0] : bounds[-1]] for f in cells.fields]
        columns = tuple(Column(v, None, type) for v, type in zip(values, self.types, strict=True))
        order = np.arange(len(values[0]))
        return self.inner.lower(self.inner.lift(Inputs(columns, order, order, len(order)), bounds - bounds[0]))


def _different(columns: Sequence[Array], offsets: Array) -> Cells:
    """Each combination of values once per segment, in order."""
    segments = segment_ids(offsets)
    order = np.lexsort((*(_sortable(values) for values in reversed(columns)), segments))
    fresh = np.ones(len(order), bool)
    if len(order):
        repeated = segments[order[1:]] == segments[order[:-1]]
        for values in columns:
            repeated &= same(values[order[1:]], values[order[:-1]])
        fresh[1:] = ~repeated
    kept = order[fresh]
    bounds = offsets_of(np.bincount(segments[kept], minlength=len(offsets) - 1))
    return Cells(tuple(Ragged(bounds, values[kept]) for values in columns))


def _sortable(values: Array) -> Array:
    """The same order in numbers: NumPy can't sort objects by several keys."""
    return np.unique(values, return_inverse=True)[1] if values.dtype.kind == "O" else values
