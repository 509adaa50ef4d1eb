"""Aggregates written by users in Python: one value at a time, or vectorised over segments.

Subclass `UserAggregate`, or pass functions to `aggregate`. The laws you declare are relied upon: partials
are combined in any grouping, and in any order if you declare `commutative`. `panes.testing.check_laws` tries
to refute them.

At work, partials are Python objects (`BoundObjects`) or numeric columns (`BoundColumns`). User code may change the
partials that it is handed: those that can be changed are copies. So nothing that a store holds changes but through the
store, and a call that fails leaves no trace.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import reduce
from itertools import pairwise, repeat
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Aggregate, Array, BoundAggregate, Cells, Column, Field, Inputs, Laws, in_pairs
from panes.aggregates.columns import arrow_from_values
from panes.aggregates.segments import compress
from panes.aggregates.types import arrow_type, storage_of
from panes.errors import DataError, QueryError, calling
from panes.exact import Inexact, exact_array, shown
from panes.state.pickles import all_constant, copied


class UserAggregate(Aggregate):
    """Subclass this for an aggregate of your own.

    `lift` makes a partial of one row, `combine` joins two partials (the earlier first), `lower` makes the
    result. Partials may be any Python object that can be pickled. `combine`, `invert` and `lower` may change the
    partials that they are given, as in `a.extend(b)`: those that can be changed are copies.

    >>> import panes as pn
    >>> class Vwap(pn.UserAggregate):
    ...     commutative = True
    ...     def lift(self, price, qty):
    ...         return price * qty, qty
    ...     def combine(self, a, b):
    ...         return a[0] + b[0], a[1] + b[1]
    ...     def lower(self, a):
    ...         return a[0] / a[1]
    >>> from panes.testing import evaluate
    >>> evaluate(Vwap("price", "qty"), [10.0, 20.0], [3, 1])
    12.5

    Two vectorised forms are open. `lift_segments(columns, offsets)` and `fold_segments(partials, offsets)`
    return one partial per segment, and replace `lift` and `combine` for speed. With `state`, a mapping of
    names to types, partials are numeric columns instead of objects: `lift_segments` and `fold_segments` then
    take and return tuples of arrays, and `lower_segments` makes results of them. Partials may be changed there, too;
    `columns` can only be read.
    """

    associative: ClassVar[bool] = True
    commutative: ClassVar[bool] = False
    invertible: ClassVar[bool] = False
    holistic: ClassVar[bool] = False
    #: The type of the result: an Arrow type, or its name.
    returns: ClassVar[str | pa.DataType] = "double"
    #: Leave out rows in which an argument is null, as SQL does. Otherwise nulls arrive as None.
    skip_nulls: ClassVar[bool] = True
    #: Names and types of numeric partials, for the vectorised form; None: partials are Python objects.
    state: ClassVar[Mapping[str, str | pa.DataType] | None] = None

    def __init__(self, *inputs: str) -> None:
        for text in inputs:
            if not isinstance(text, str) or not text.strip():
                raise QueryError(f"{type(self).__name__}: argument {text!r} is not an expression; write SQL text")
        self.inputs = inputs

    def lift(self, *values: Any) -> Any:
        """The partial of one row, from the values of its arguments."""
        raise NotImplementedError

    def combine(self, a: Any, b: Any) -> Any:
        """The partial of the rows of a followed by those of b."""
        raise NotImplementedError

    def lower(self, a: Any) -> Any:
        """The result of a partial; None is null."""
        raise NotImplementedError

    def invert(self, a: Any, b: Any) -> Any:
        """The partial a without the rows of b, which it holds."""
        raise NotImplementedError

    def identity(self) -> Any:
        """The partial of no rows. Without it, the result over no rows is null."""
        raise NotImplementedError

    def lift_segments(self, columns: tuple[Array, ...], offsets: Array) -> Any:
        """Partials of all segments at once."""
        raise NotImplementedError

    def fold_segments(self, partials: Any, offsets: Array) -> Any:
        """Partials combined left to right, segment by segment."""
        raise NotImplementedError

    def lower_segments(self, partials: tuple[Array, ...]) -> Any:
        """Results of numeric partials: an array, an Arrow array, or (values, valid)."""
        raise NotImplementedError

    def invert_segments(self, a: tuple[Array, ...], b: tuple[Array, ...]) -> tuple[Array, ...]:
        """Elementwise a without b, for numeric partials."""
        raise NotImplementedError

    @property
    def laws(self) -> Laws:
        return Laws(self.associative, self.commutative, self.invertible, self.holistic)

    def has(self, method: str) -> bool:
        """Whether this aggregate defines an optional method."""
        return getattr(type(self), method) is not getattr(UserAggregate, method)

    def bind(self, types: Sequence[pa.DataType]) -> BoundAggregate:
        self._check(types)
        if self.state is None:
            return BoundObjects(self, arrow_type(self.returns))
        return BoundColumns(self, list(types), arrow_type(self.returns))

    def _check(self, types: Sequence[pa.DataType]) -> None:
        name = type(self).__name__
        if len(types) != len(self.inputs):
            raise QueryError(f"{self!r} has {len(self.inputs)} arguments, but {len(types)} types were given")
        if not self.associative:
            raise QueryError(f"{name} is declared not associative; windows are assembled from slices, which needs it")
        if self.state is not None:
            needed = ["lift_segments", "fold_segments", "lower_segments"]
            needed += ["invert_segments"] if self.invertible else []
        else:
            needed = ["lower"]
            needed += ["invert"] if self.invertible else []
            needed += [] if self.has("lift_segments") else ["lift"]
            needed += [] if self.has("lift_segments") and self.has("fold_segments") else ["combine"]
        missing = [m for m in needed if not self.has(m)]
        if missing:
            raise QueryError(f"{name} must define {', '.join(missing)}, since its declarations say so")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.inputs)})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((type(self), self.inputs))


class FunctionAggregate(UserAggregate):
    """What `aggregate` returns: a user aggregate made of functions."""

    def __init__(
        self,
        inputs: tuple[str, ...],
        functions: dict[str, Callable[..., Any]],
        laws: Laws,
        returns: str | pa.DataType,
        skip_nulls: bool,
        name: str,
    ) -> None:
        super().__init__(*inputs)
        vars(self).update(functions)
        self._laws = laws
        self._name = name
        self.returns = returns  # type: ignore[misc]
        self.skip_nulls = skip_nulls  # type: ignore[misc]
        self.invertible = laws.invertible  # type: ignore[misc]

    def has(self, method: str) -> bool:
        return method in vars(self)

    @property
    def laws(self) -> Laws:
        return self._laws

    def __repr__(self) -> str:
        return f"{self._name}({', '.join(self.inputs)})"


def aggregate(
    *inputs: str,
    lift: Callable[..., Any],
    combine: Callable[[Any, Any], Any],
    lower: Callable[[Any], Any],
    identity: Callable[[], Any] | None = None,
    invert: Callable[[Any, Any], Any] | None = None,
    commutative: bool = False,
    holistic: bool = False,
    returns: str | pa.DataType = "double",
    skip_nulls: bool = True,
    name: str = "aggregate",
) -> FunctionAggregate:
    """An aggregate of your own, from functions; see `UserAggregate` for what each must do.

    `identity` is called without arguments. Giving `invert` declares the aggregate invertible.

    >>> import panes as pn
    >>> from panes.testing import evaluate
    >>> longest = pn.aggregate("word", lift=len, combine=max, lower=int, commutative=True, returns="bigint")
    >>> evaluate(longest, ["a", "pane", None])
    4
    """
    functions: dict[str, Callable[..., Any]] = {"lift": lift, "combine": combine, "lower": lower}
    for word, function in (("identity", identity), ("invert", invert)):
        if function is not None:
            functions[word] = function
    for word, function in functions.items():
        if not callable(function):
            raise QueryError(f"aggregate: {word} = {function!r} is not a function")
    laws = Laws(commutative=commutative, invertible=invert is not None, holistic=holistic)
    return FunctionAggregate(inputs, functions, laws, returns, skip_nulls, name)


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
