"""First, last, arg min, arg max and M4: aggregates that choose a row.

Event time and arrival number of the chosen row stay in the partial, so that these are commutative: the
choice never depends on the order in which partials are combined. Ties go by event time, then arrival.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Array, BoundAggregate, Cells, Field, Inputs, Laws, Spec, blank
from panes.aggregates.columns import arrow_from_values
from panes.aggregates.extremes import BoundExtreme
from panes.aggregates.segments import (
    SMALL,
    compress,
    greatest,
    least,
    less,
    positions_of,
    same,
    segment_ids,
    segment_reduce,
)
from panes.aggregates.types import ORDERED, kept_as, require, storage_of

_OF_ONE_ROW = Laws(idempotent=True, by_arrival=True)


@dataclass(frozen=True, repr=False)
class First(Spec):
    """The value of the earliest row that has one."""

    name: ClassVar[str] = "first"
    promises: ClassVar[Laws] = _OF_ONE_ROW
    last: ClassVar[bool] = False

    def bind(self, types: Sequence[pa.DataType]) -> BoundEnd:
        (type,) = self.argument_types(types)
        return BoundEnd(type, last=self.last)


@dataclass(frozen=True, repr=False)
class AnyValue(First):
    """Any value that is there; the earliest, so that the same rows always give the same."""

    name: ClassVar[str] = "any_value"


@dataclass(frozen=True, repr=False)
class Last(First):
    """The value of the latest row that has one."""

    name: ClassVar[str] = "last"
    last: ClassVar[bool] = True


@dataclass(frozen=True, repr=False)
class ArgMin(Spec):
    """The first argument in the row where the second is smallest."""

    name: ClassVar[str] = "arg_min"
    promises: ClassVar[Laws] = _OF_ONE_ROW
    largest: ClassVar[bool] = False

    def bind(self, types: Sequence[pa.DataType]) -> BoundArg:
        value, by = self.argument_types(types)
        require(repr(self), self.inputs[1], by, ORDERED, "order by something that has an order")
        return BoundArg(value, by, largest=self.largest)


@dataclass(frozen=True, repr=False)
class ArgMax(ArgMin):
    """The first argument in the row where the second is largest."""

    name: ClassVar[str] = "arg_max"
    largest: ClassVar[bool] = True


@dataclass(frozen=True, repr=False)
class M4(Spec):
    """Min, max, first and last in one: what a line chart needs of a pixel column."""

    name: ClassVar[str] = "m4"
    promises: ClassVar[Laws] = _OF_ONE_ROW
    takes: ClassVar[tuple[str, ...] | None] = ORDERED
    advice: ClassVar[str] = "draw something that has an order"

    def bind(self, types: Sequence[pa.DataType]) -> BoundM4:
        (type,) = self.argument_types(types)
        return BoundM4(type)


class Chosen(BoundAggregate):
    """A partial is the fields of one row. `keys` says which fields decide, and in which direction."""

    laws = _OF_ONE_ROW

    def __init__(self, fields: tuple[Field, ...], keys: tuple[tuple[int, bool], ...], out_type: pa.DataType) -> None:
        self.fields = (
            *fields,
            Field("time", pa.int64()),
            Field("seq", pa.int64(), arrival=True),
            Field("some", pa.bool_()),
        )
        self.dtypes = tuple(storage_of(f.type) for f in self.fields)
        self.keys = keys
        self.out_type = out_type
        self.dense = all(d.kind != "O" for d in self.dtypes)

    def fold(self, cells: Cells, offsets: Array) -> Cells:
        keys = [(cells.fields[i], largest) for i, largest in self.keys]
        return self._rows(cells.fields[:-1], *choose(keys, cells.fields[-1], offsets))

    def lift_groups(self, rows: Inputs, groups: Array, n: int) -> Cells:
        fields, present = self._row_fields(rows)
        keys = [fields[i] for i, _ in self.keys]
        if len(groups) < SMALL or any(k.dtype.kind == "O" for k in keys):
            return super().lift_groups(rows, groups, n)
        from panes.aggregates import kernels

        winner = np.full(n, -1, np.int64)
        everything = np.ones(len(groups), bool) if present is None else present
        (_, largest), (_, latest) = self.keys[0], self.keys[-1]
        kernels.choose_by_group(keys[0], largest, rows.times, rows.seq, latest, everything, groups, winner)
        return self._rows(fields, winner, winner >= 0)

    @abstractmethod
    def _row_fields(self, rows: Inputs) -> tuple[tuple[Array, ...], Array | None]:
        """The fields of a cell for every row, but the last, and which rows take part."""

    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        fields, present = self._row_fields(rows)
        keys = [(fields[i], largest) for i, largest in self.keys]
        return self._rows(fields, *choose(keys, present, offsets))

    def merge(self, a: Cells, b: Cells) -> Cells:
        if any(self.dtypes[i].kind == "O" for i, _ in self.keys):
            return super().merge(a, b)
        held, other = a.fields[-1], b.fields[-1]
        better, tied = np.zeros(len(a), bool), np.ones(len(a), bool)
        for i, largest in self.keys:
            x, y = a.fields[i], b.fields[i]
            better |= tied & (less(x, y) if largest else less(y, x))
            tied &= same(x, y)
        take = other & (~held | better)
        return Cells(tuple(np.where(take, y, x) for x, y in zip(a.fields, b.fields, strict=True)))

    def _rows(self, fields: Sequence[Array], winner: Array, found: Array) -> Cells:
        """Cells made of the winning rows; the last field is `found`."""
        whole = bool(found.all())
        out = []
        for source, dtype in zip(fields, self.dtypes[:-1], strict=True):
            if whole:
                out.append(source[winner])
                continue
            field = blank(len(found), dtype)
            field[found] = source[winner[found]]
            out.append(field)
        return Cells((*out, found))


class BoundEnd(Chosen):
    """First or last: the key is (time, seq) alone."""

    def __init__(self, type: pa.DataType, *, last: bool) -> None:
        super().__init__((Field("value", kept_as(type)),), ((1, last), (2, last)), type)
        self.last = last

    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        if not _in_order(rows):
            return super().lift(rows, offsets)
        fields, present = self._row_fields(rows)
        return self._rows(fields, *self._ends(present, offsets))

    def _row_fields(self, rows: Inputs) -> tuple[tuple[Array, ...], Array | None]:
        (column,) = rows.columns
        return (column.values, rows.times, rows.seq), column.valid

    def _ends(self, valid: Array | None, offsets: Array) -> tuple[Array, Array]:
        index = None
        if valid is not None:
            index, offsets = compress(valid, offsets)
        found = offsets[1:] > offsets[:-1]
        at = offsets[1:] - 1 if self.last else offsets[:-1]
        if index is None:
            return at, found
        if not found.all():
            at = np.where(found, at, 0)
        return (index[at] if len(index) else at), found

    def lower(self, cells: Cells) -> pa.Array:
        return arrow_from_values(cells.fields[0], cells.fields[-1], self.out_type)


class BoundArg(Chosen):
    """Arg min or arg max: the key is the second argument, then the earliest row."""

    keeps_nulls = True

    def __init__(self, value: pa.DataType, by: pa.DataType, *, largest: bool) -> None:
        fields = (Field("value", kept_as(value)), Field("present", pa.bool_()), Field("by", kept_as(by)))
        super().__init__(fields, ((2, largest), (3, False), (4, False)), value)

    def _row_fields(self, rows: Inputs) -> tuple[tuple[Array, ...], Array | None]:
        value, by = rows.columns
        present = np.ones(len(value), bool) if value.valid is None else value.valid
        return (value.values, present, by.values, rows.times, rows.seq), by.valid

    def lower(self, cells: Cells) -> pa.Array:
        return arrow_from_values(cells.fields[0], cells.fields[1] & cells.fields[-1], self.out_type)


class BoundM4(BoundAggregate):
    """Four aggregates side by side; their fields are one after the other."""

    laws = _OF_ONE_ROW

    def __init__(self, type: pa.DataType) -> None:
        self.parts: dict[str, BoundAggregate] = {
            "min": BoundExtreme(type, largest=False),
            "max": BoundExtreme(type, largest=True),
            "first": BoundEnd(type, last=False),
            "last": BoundEnd(type, last=True),
        }
        self.fields = tuple(
            replace(field, name=f"{name}_{field.name}") for name, part in self.parts.items() for field in part.fields
        )
        self.out_type = pa.struct([(name, part.out_type) for name, part in self.parts.items()])
        self.dense = all(part.dense for part in self.parts.values())

    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        return _joined(part.lift(rows, offsets) for part in self.parts.values())

    def lift_groups(self, rows: Inputs, groups: Array, n: int) -> Cells:
        return _joined(part.lift_groups(rows, groups, n) for part in self.parts.values())

    def fold(self, cells: Cells, offsets: Array) -> Cells:
        return _joined(part.fold(own, offsets) for part, own in self._apart(cells))

    def merge(self, a: Cells, b: Cells) -> Cells:
        pairs = zip(self._apart(a), self._apart(b), strict=True)
        return _joined(part.merge(x, y) for (part, x), (_, y) in pairs)

    def empty(self, n: int) -> Cells:
        return _joined(part.empty(n) for part in self.parts.values())

    def lower(self, cells: Cells) -> pa.Array:
        values = [part.lower(own) for part, own in self._apart(cells)]
        none = pa.array(~cells.fields[-1])
        return pa.StructArray.from_arrays(values, fields=list(self.out_type), mask=none)

    def _apart(self, cells: Cells) -> list[tuple[BoundAggregate, Cells]]:
        out, at = [], 0
        for part in self.parts.values():
            stop = at + len(part.fields)
            out.append((part, Cells(cells.fields[at:stop])))
            at = stop
        return out


def choose(keys: Sequence[tuple[Array, bool]], present: Array | None, offsets: Array) -> tuple[Array, Array]:
    """The winning row of each segment among those present, and whether there is one.

    Keys are compared in turn; each says whether the largest wins. Rows that don't have the best first key
    drop out before the second is looked at.
    """
    if present is None:
        index, offsets = np.arange(offsets[0], offsets[-1]), offsets - offsets[0]
    else:
        index, offsets = compress(present, offsets)
    found = offsets[1:] > offsets[:-1]
    for values, largest in keys:
        if len(index) == np.count_nonzero(found):
            break
        candidates = values[index]
        ufunc, identity = (greatest if largest else least)(candidates.dtype)
        best = segment_reduce(ufunc, candidates, offsets, identity)
        hit = same(candidates, best[segment_ids(offsets)])
        index, offsets = index[hit], positions_of(hit, offsets)
    winner = np.zeros(len(found), np.int64)
    winner[found] = index[offsets[:-1][found]]
    return winner, found


def _in_order(rows: Inputs) -> bool:
    return bool(np.all(rows.times[1:] >= rows.times[:-1]) and np.all(rows.seq[1:] >= rows.seq[:-1]))


def _joined(parts: Iterable[Cells]) -> Cells:
    return Cells(tuple(f for cells in parts for f in cells.fields))
