"""User-defined aggregates at work: partials as Python objects, or as numeric columns.

User code may change the partials that it is handed: those that can be changed are copies. So nothing that a store
holds changes but through the store, and a call that fails leaves no trace.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import reduce
from itertools import pairwise, repeat
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Array, BoundAggregate, Cells, Column, Field, Inputs, in_pairs
from panes.aggregates.columns import arrow_from_values
from panes.aggregates.segments import compress
from panes.aggregates.types import arrow_type, storage_of
from panes.errors import DataError, calling
from panes.exact import Inexact, exact_array, shown
from panes.state.pickles import all_constant, copied

if TYPE_CHECKING:
    from panes.aggregates.user import UserAggregate


class _BoundUser(BoundAggregate):
    """What both forms share: their errors name the output."""

    spec: UserAggregate

    @property
    def user_code(self) -> str:
        return f"aggregate {self.label}: {self.spec!r}" if self.label else repr(self.spec)


class BoundObjects(_BoundUser):
    """Partials are Python objects; a second field says which cells hold one."""

    may_fail = True
    fields = (Field("partial", pa.large_binary(), python=True), Field("some", pa.bool_()))

    def __init__(self, spec: UserAggregate, out_type: pa.DataType) -> None:
        self.spec = spec
        self.laws = spec.laws
        self.out_type = out_type
        # a user's inverse can't say that only nulls are left
        self.empties = not (spec.skip_nulls and spec.inputs)
        #: a partial has been made, or read, that can be changed: from now on user code is handed copies
        self._copies = False

    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        rows, offsets = _used_rows(self.spec, rows, offsets)
        if self.spec.has("lift_segments"):
            with calling(self, "lift_segments"):
                partials = self.spec.lift_segments(tuple(_plain(c) for c in rows.columns), offsets)
            lifted = self._cells(partials, offsets)
        else:
            lifted = self._fold(self._lifted(rows), offsets, own=True)
        self._note(lifted)
        return lifted

    def _lifted(self, rows: Inputs) -> list[object]:
        """The partial of each row."""
        columns = [_python_values(c) for c in rows.columns]
        lift, lifted = self.spec.lift, list[object]()
        add = lifted.append
        with calling(self, "lift") as call:
            for call.arguments in zip(*columns, strict=True) if columns else repeat((), rows.rows):
                add(lift(*call.arguments))
        return lifted

    def fold(self, cells: Cells, offsets: Array) -> Cells:
        folded = self._folded(cells, offsets)
        self._note(folded)
        return folded

    def lower_ranges(self, cells: Cells, index: Array | None, offsets: Array) -> pa.Array:
        # no store will hold what is folded here
        return self.lower(self._folded(cells if index is None else cells.take(index), offsets))

    def _folded(self, cells: Cells, offsets: Array) -> Cells:
        partials, some = cells.fields
        index, offsets = compress(some, offsets)
        if self.spec.has("fold_segments"):
            with calling(self, "fold_segments"):
                folded = self.spec.fold_segments(self._changeable(partials[index]), offsets)
            return self._cells(folded, offsets)
        return self._fold(partials[index].tolist(), offsets, own=not self._copies)

    def _fold(self, partials: list[object], offsets: Array, *, own: bool) -> Cells:
        """`own`: nobody else has these partials, or nobody can change them."""
        combine, folded = self.spec.combine, []
        with calling(self, "combine"):
            for a, b in pairwise(offsets.tolist()):
                if b == a + 1:
                    folded.append(partials[a])
                elif b > a:
                    stretch = partials[a:b]
                    folded.append(reduce(combine, stretch if own else self._copied(stretch)))
                else:
                    folded.append(None)
        return self._cells(folded, offsets)

    def _cells(self, partials: Collection[object], offsets: Array) -> Cells:
        some = offsets[1:] > offsets[:-1]
        if len(partials) != len(some):
            raise DataError(
                f"{self.user_code} returned {len(partials)} partials for {len(some)} segments; return one each"
            )
        return Cells((_objects(partials, some), some))

    def _note(self, cells: Cells) -> None:
        """A store may hold these from now on."""
        self._copies = self._copies or not all_constant(cells.fields[0].tolist())

    def _copied(self, partials: list[object]) -> list[object]:
        """What user code is handed for partials that can be changed."""
        try:
            return [copied(partial) for partial in partials]
        except Exception as error:  # of users' classes, which may raise anything
            why = f"{type(error).__name__}: {error}"
            raise DataError(
                f"{self.user_code}: partials must be objects that can be pickled or copied; {why}"
            ) from error

    def _changeable(self, partials: Array) -> Array:
        return _objects(self._copied(partials.tolist()), np.ones(len(partials), bool)) if self._copies else partials

    def check(self, cells: Cells) -> None:
        super().check(cells)
        self._note(cells)

    def merge(self, a: Cells, b: Cells) -> Cells:
        if self.spec.has("fold_segments"):
            return super().merge(a, b)
        return self._pairwise("combine", a, b, alone=True)

    def invert(self, a: Cells, b: Cells) -> Cells:
        if not self.laws.invertible:
            return super().invert(a, b)
        return self._pairwise("invert", a, b, alone=False)

    def _pairwise(self, method: str, a: Cells, b: Cells, *, alone: bool) -> Cells:
        """method(x, y) where both are there, else x; or y where only it is there and may stand `alone`."""
        function = getattr(self.spec, method)
        (x, has_x), (y, has_y) = a.fields, b.fields
        out, both = np.where(has_x, x, y) if alone else x.copy(), has_x & has_y
        with calling(self, method) as call:
            made = []
            for call.arguments in zip(self._changeable(x[both]).tolist(), self._changeable(y[both]).tolist()):
                made.append(function(*call.arguments))
        out[both] = _objects(made, np.ones(len(made), bool))
        merged = Cells((out, has_x | has_y if alone else has_x))
        self._note(merged)
        return merged

    def empty(self, n: int) -> Cells:
        return Cells((np.full(n, None, object), np.zeros(n, bool)))

    def lower(self, cells: Cells) -> pa.Array:
        partials, some = cells.fields
        nothing, results = self._of_no_rows(), []
        with calling(self, "lower") as call:
            for partial, ok in zip(self._changeable(partials).tolist(), some.tolist(), strict=True):
                call.arguments = (partial,)
                results.append(self.spec.lower(partial) if ok else nothing)
        try:
            return exact_array(results, self.out_type)
        except Inexact as error:
            got = f"got {shown(error.value)}: {error.reason}"
            raise DataError(f"{self.user_code}: a result is not of type {self.out_type}, {got}") from None

    def _of_no_rows(self) -> object:
        if not self.spec.has("identity"):
            return None
        with calling(self, "identity"):
            nothing = self.spec.identity()
        with calling(self, "lower") as call:
            call.arguments = (nothing,)
            return self.spec.lower(nothing)


class BoundColumns(_BoundUser):
    """Partials are numeric columns, and user code sees whole arrays."""

    may_fail = True

    def __init__(self, spec: UserAggregate, types: list[pa.DataType], out_type: pa.DataType) -> None:
        assert spec.state is not None
        self.spec = spec
        self.laws = spec.laws
        self.types = types
        self.out_type = out_type
        self.fields = tuple(Field(name, arrow_type(type)) for name, type in spec.state.items())
        self.dtypes = tuple(storage_of(f.type) for f in self.fields)
        self.dense = all(d.kind != "O" for d in self.dtypes)

    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        rows, offsets = _used_rows(self.spec, rows, offsets)
        columns = tuple(_plain(c) for c in rows.columns)
        with calling(self, "lift_segments"):
            return self._cells(self.spec.lift_segments(columns, offsets), len(offsets) - 1)

    def fold(self, cells: Cells, offsets: Array) -> Cells:
        return self._fold(_copies(cells), offsets)

    def merge(self, a: Cells, b: Cells) -> Cells:
        return self._fold(*in_pairs(a, b))

    def _fold(self, cells: Cells, offsets: Array) -> Cells:
        """User code may change these cells."""
        with calling(self, "fold_segments"):
            return self._cells(self.spec.fold_segments(cells.fields, offsets), len(offsets) - 1)

    def invert(self, a: Cells, b: Cells) -> Cells:
        if not self.laws.invertible:
            return super().invert(a, b)
        with calling(self, "invert_segments"):
            return self._cells(self.spec.invert_segments(_copies(a).fields, _copies(b).fields), len(a))

    def empty(self, n: int) -> Cells:
        none = tuple(Column(np.empty(0, storage_of(t)), None, t) for t in self.types)
        times = np.empty(0, np.int64)
        return self.lift(Inputs(none, times, times, 0), np.zeros(n + 1, np.int64))

    def lower(self, cells: Cells) -> pa.Array:
        with calling(self, "lower_segments"):
            result = self.spec.lower_segments(_copies(cells).fields)
            if isinstance(result, pa.Array):
                return result.cast(self.out_type)
            values, valid = result if isinstance(result, tuple) else (result, None)
            return arrow_from_values(np.asarray(values), valid, self.out_type)

    def _cells(self, fields: Iterable[object], n: int) -> Cells:
        arrays = tuple(np.asarray(f, d) for f, d in zip(fields, self.dtypes, strict=True))
        if any(len(a) != n for a in arrays):
            raise DataError(f"{self.user_code} returned partials of another length than its {n} segments")
        return Cells(arrays)


def _used_rows(spec: UserAggregate, rows: Inputs, offsets: Array) -> tuple[Inputs, Array]:
    """Rows without nulls in the arguments (if the aggregate skips them), from offset 0 on."""
    keep = np.ones(rows.rows, bool)
    if spec.skip_nulls:
        for column in rows.columns:
            if column.valid is not None:
                keep &= column.valid
    if keep.all() and offsets[0] == 0 and offsets[-1] == rows.rows:
        return rows, offsets
    index, offsets = compress(keep, offsets)
    return rows.arguments(index), offsets


def _python_values(column: Column) -> list[object]:
    if column.valid is None and column.values.dtype.kind in "bifu" and not pa.types.is_temporal(column.type):
        plain: list[object] = column.values.tolist()
        return plain
    values: list[object] = arrow_from_values(column.values, column.valid, column.type).to_pylist()
    return values


def _plain(column: Column) -> Array:
    """Values for vectorised user code, to read only: others read them, too. Where a null is left, it is None."""
    if pa.types.is_nested(column.type):
        return _objects(_python_values(column), np.ones(len(column), bool))
    values = column.values
    if column.valid is None or column.valid.all():
        values = values.view()
        values.flags.writeable = False
        return values
    values = values.astype(object)
    values[~column.valid] = None
    return values


def _copies(cells: Cells) -> Cells:
    """For user code to change: what is handed out here is what a store holds, or part of it."""
    return Cells(tuple([field.copy() for field in cells.fields]))


def _objects(partials: Collection[object], some: Array) -> Array:
    """An object array, filled one by one so that NumPy doesn't take tuples or lists for dimensions."""
    out = np.fromiter(partials, object, len(some))
    if not some.all():
        out[~some] = None
    return out
