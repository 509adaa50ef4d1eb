"""The protocol of aggregates: lift rows to partials, fold partials, lower them to results.

Everything is columnar: one call handles all slices and keys of a batch. A *partial* of an aggregate
is one row of its `Cells`; `Cells` are a few parallel fields (NumPy arrays, or ragged ones for holistic
aggregates). Specs (`Aggregate`, and `Spec` for those that are built in) are what users write; bound to input types
they become `BoundAggregate`.

Values that every batch makes anew (`Column`, `Inputs`, `Cells`, and those of the lanes) are never changed either,
but not frozen: a frozen dataclass takes four times as long to make.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from panes.aggregates.segments import compress, sort_by_group
from panes.aggregates.types import plain, require, storage_of
from panes.errors import QueryError
from panes.state.checked import demand

Array = np.ndarray


@dataclass(frozen=True)
class Laws:
    """What an aggregate promises; the planner relies on it (SPEC S-05)."""

    associative: bool = True
    commutative: bool = True
    invertible: bool = False
    holistic: bool = False  # partial grows with the number of rows
    idempotent: bool = False  # a value that comes again changes nothing
    by_arrival: bool = False  # looks at arrival numbers: which of two rows of one time came first


@dataclass(eq=False)
class Column:
    """One input column: values, and which are present (None: all). Values where absent are arbitrary.

    dtype: the native one for numbers, booleans; int64 for timestamps and dates (see `type`);
    object for strings, decimals, binary and nested values.
    """

    values: Array
    valid: Array | None
    type: pa.DataType

    def __len__(self) -> int:
        return len(self.values)

    def take(self, index: Array | slice) -> Column:
        return Column(picked(self.values, index), None if self.valid is None else picked(self.valid, index), self.type)


def picked(values: Array, index: Array | slice) -> Array:
    """The same as values[index], and faster for whole numbers; a slice makes a view."""
    return values[index] if isinstance(index, slice) or index.dtype == bool else values.take(index, axis=0)


def present_values(column: Column, offsets: Array) -> tuple[Array, Array]:
    """The values of a column that are not null, and the segments among them, from 0 on."""
    first, stop = offsets[0], offsets[-1]
    if column.valid is None:
        return column.values[first:stop], offsets - first
    index, offsets = compress(column.valid, offsets)
    return column.values[index], offsets


@dataclass(eq=False)
class Inputs:
    """The rows an aggregate sees: its argument columns, and the event order of each row."""

    columns: tuple[Column, ...]
    times: Array  # int64 event time
    seq: Array  # int64 arrival number, breaks ties of time; unique
    rows: int

    def take(self, index: Array) -> Inputs:
        return Inputs(tuple(c.take(index) for c in self.columns), self.times[index], self.seq[index], len(index))

    def arguments(self, index: Array) -> Inputs:
        """The rows at `index` without their order, for whoever doesn't look at it: moving times and arrival numbers
        costs as much as a column each."""
        nothing = np.empty(0, np.int64)
        return Inputs(tuple(c.take(index) for c in self.columns), nothing, nothing, len(index))


@dataclass(frozen=True)
class Field:
    """One field of a partial. `ragged`: a list of `type` per cell. `python`: an opaque user object,
    pickled in snapshots. `arrival`: arrival numbers of rows, which break ties of time."""

    name: str
    type: pa.DataType
    ragged: bool = False
    python: bool = False
    arrival: bool = False


def lists_at(offsets: Array, index: Array) -> tuple[Array, Array]:
    """The offsets of the lists at `index`, and the places of their values, one list after the other."""
    lengths = np.diff(offsets)[index]
    found = np.concatenate(([0], np.cumsum(lengths)))
    return found, np.arange(found[-1]) + np.repeat(offsets[index] - found[:-1], lengths)


@dataclass(frozen=True)
class Ragged:
    """Lists of different lengths: list i is values[offsets[i]:offsets[i + 1]]."""

    offsets: Array  # int64[n + 1]
    values: Array

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def nbytes(self) -> int:
        return int(self.offsets.nbytes + self.values.nbytes)

    @classmethod
    def concat(cls, parts: Sequence[Ragged]) -> Ragged:
        lengths = np.concatenate([np.diff(p.offsets) for p in parts])
        values = np.concatenate([p.values[p.offsets[0] : p.offsets[-1]] for p in parts])
        return cls(np.concatenate(([0], np.cumsum(lengths))), values)


@dataclass(eq=False)
class Cells:
    """n partials of one aggregate: parallel fields of length n, each an array or a Ragged."""

    fields: tuple[Any, ...]  # Array or Ragged each

    def __len__(self) -> int:
        return len(self.fields[0])

    @property
    def nbytes(self) -> int:
        return sum(f.nbytes for f in self.fields)

    def take(self, index: Array) -> Cells:
        """Cells at `index` (an integer array)."""
        found, known, offsets, places = [], None, index, index
        for field in self.fields:
            if not isinstance(field, Ragged):
                found.append(field.take(index, axis=0))
                continue
            if known is not field.offsets:  # as a rule all lists have the same
                known = field.offsets
                offsets, places = lists_at(known, index)
            found.append(Ragged(offsets, field.values[places]))
        return Cells(tuple(found))

    @staticmethod
    def concat(parts: Sequence[Cells]) -> Cells:
        if len(parts) == 1:
            return parts[0]
        columns = zip(*(p.fields for p in parts))
        return Cells(tuple(Ragged.concat(c) if isinstance(c[0], Ragged) else np.concatenate(c) for c in columns))


def blank(n: int, dtype: np.dtype) -> Array:
    """n values that say nothing."""
    return np.full(n, None, object) if dtype.kind == "O" else np.zeros(n, dtype)


def in_pairs(a: Cells, b: Cells) -> tuple[Cells, Array]:
    """Copies a[0], b[0], a[1], b[1] and so on, and the offsets of the pairs."""
    n = len(a)
    index = np.arange(2 * n).reshape(2, n).T.ravel()
    return Cells.concat([a, b]).take(index), np.arange(0, 2 * n + 1, 2)


class Aggregate(ABC):
    """What a user writes: `pn.quantile("price", 0.9)`. Frozen, hashable, readable as text."""

    #: SQL expressions of the arguments, evaluated over rows; () for count(*)
    inputs: tuple[str, ...]

    @property
    @abstractmethod
    def laws(self) -> Laws: ...

    @abstractmethod
    def bind(self, types: Sequence[pa.DataType]) -> BoundAggregate:
        """Check argument types and choose kernels; raises QueryError naming the argument and the rule."""


class BoundAggregate(ABC):
    """An aggregate for known argument types. Segments: segment i is rows offsets[i]:offsets[i + 1]
    (int64, non-decreasing; a segment may be empty, then its cell is the identity)."""

    laws: Laws
    fields: tuple[Field, ...]
    out_type: pa.DataType
    #: all fields are plain numeric arrays and `merge` is elementwise: fit for dense [slices x keys] stores
    dense: bool = False
    #: the NumPy function that combines each field, where all are combined one by one; None: only `merge` can
    ufuncs: tuple[np.ufunc, ...] | None = None
    #: the last field is not zero if any row has arguments that are all there; so, without nulls, if there is a row
    tells_rows: bool = False
    #: a partial from which all rows were taken out again is that of no rows; for those that are invertible
    empties: bool = True
    #: of the outputs that it computes, for messages
    label: str = ""
    #: a cell that has something may have null in a field that holds objects
    keeps_nulls: bool = False
    #: runs Python code of the user's, which may fail on any row
    may_fail: bool = False

    @abstractmethod
    def lift(self, rows: Inputs, offsets: Array) -> Cells:
        """One cell per segment of rows. Rows of a segment are in event order if the laws need it."""

    def lift_groups(self, rows: Inputs, groups: Array, n: int) -> Cells:
        """One cell per group 0..n-1; row i belongs to group groups[i], in any order.

        The default sorts rows by group (stable) and lifts segments; commutative numeric aggregates
        override it with a scatter loop.
        """
        return self.lift(*_by_group(rows, groups, n, in_order=self.laws.by_arrival))

    @abstractmethod
    def fold(self, cells: Cells, offsets: Array) -> Cells:
        """Combine consecutive cells, left to right: one cell per segment of cells."""

    def merge(self, a: Cells, b: Cells) -> Cells:
        """Elementwise a[i] combined with b[i], a first."""
        return self.fold(*in_pairs(a, b))

    def invert(self, a: Cells, b: Cells) -> Cells:
        """Elementwise a[i] with b[i] taken out again; only if laws.invertible."""
        raise TypeError(f"{type(self).__name__} is not invertible")

    def empty(self, n: int) -> Cells:
        """n identity cells: those of no rows. Where nothing else is said, zeros and lists without values."""
        offsets = np.zeros(n + 1, np.int64)
        blanks = [blank(0 if f.ragged else n, storage_of(f.type)) for f in self.fields]
        return Cells(tuple([Ragged(offsets, b) if f.ragged else b for f, b in zip(self.fields, blanks)]))

    @abstractmethod
    def lower(self, cells: Cells) -> pa.Array:
        """Results, null where SQL says null."""

    def check(self, cells: Cells) -> None:
        """Refuse cells of a snapshot that nothing could have written; their types are right already.

        Lists of a cell are as long as each other, and a cell that has something has an object where it keeps one.
        """
        lists = [data.offsets for data in cells.fields if isinstance(data, Ragged)]
        same = all(np.array_equal(lists[0], other) for other in lists[1:])
        demand(same, "the lists of a partial differ in length")
        has = cells.fields[-1]
        for field, data in zip(self.fields, cells.fields):
            if isinstance(data, Ragged) or isinstance(has, Ragged) or data.dtype.kind != "O" or field.python:
                continue
            if has.dtype.kind in "bi" and not self.keeps_nulls:
                missing = np.array([v is None for v in data], bool)
                demand(not (missing & (has > 0)).any(), "a partial lacks the value that it says it has")

    def lower_ranges(self, cells: Cells, index: Array | None, offsets: Array) -> pa.Array:
        """Result of each range of cells: cells[index[offsets[i]:offsets[i+1]]], in that order.

        `index` None means cells are already in order. Holistic aggregates select across sorted runs
        here instead of merging them.
        """
        if index is not None:
            cells = cells.take(index)
        return self.lower(self.fold(cells, offsets))

    def lower_endings(self, cells: Cells, starts: Array) -> pa.Array:
        """Result of each range of cells that goes from starts[i] to the last cell; none is empty."""
        lengths = len(cells) - starts
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        index = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        return self.lower_ranges(cells, index, offsets)


def _by_group(rows: Inputs, groups: Array, n: int, *, in_order: bool) -> tuple[Inputs, Array]:
    """Rows sorted by group, and the offsets of the groups. The permutation is gone before the rows are lifted, so that
    its memory serves them."""
    order, offsets = sort_by_group(groups, n)
    return rows.take(order) if in_order else rows.arguments(order), offsets


#: What many aggregates promise: that a value that comes again changes nothing, that values can be taken out again, and
#: that partials grow with the rows.
IDEMPOTENT = Laws(idempotent=True)
INVERTIBLE = Laws(invertible=True)
HOLISTIC = Laws(holistic=True)


@dataclass(frozen=True, repr=False)
class Spec(Aggregate):
    """A built-in aggregate over SQL expressions. Options are further dataclass fields of subclasses."""

    name: ClassVar[str]
    #: the laws that it has whatever the types of its arguments
    promises: ClassVar[Laws] = Laws()
    #: which kinds of values it takes (`types.kind_of`); None: all, or `bind` says more
    takes: ClassVar[tuple[str, ...] | None] = None
    #: what to do about values of other kinds; `{name}` is its own, `{x}` the argument
    advice: ClassVar[str] = "cast it to a number"

    inputs: tuple[str, ...]

    def __post_init__(self) -> None:
        for text in self.inputs:
            if not isinstance(text, str) or not text.strip():
                raise QueryError(
                    f"{self.name}: argument {text!r} is not an expression; "
                    f"write SQL text over the columns of a row, such as {self.name}('price * qty')"
                )

    @property
    def laws(self) -> Laws:
        return self.promises

    def __repr__(self) -> str:
        shown = list(self.inputs) or ["*"]
        for option in fields(self)[1:]:
            value = getattr(self, option.name)
            if option.default is MISSING or value != option.default:
                shown.append(f"{option.name}={value!r}")
        return f"{self.name}({', '.join(shown)})"

    def argument_types(self, types: Sequence[pa.DataType]) -> list[pa.DataType]:
        """The types of the arguments without dictionary encoding, checked for their number and kind."""
        if len(types) != len(self.inputs):
            raise QueryError(f"{self!r} has {len(self.inputs)} arguments, but {len(types)} types were given")
        if self.takes is not None:
            for text, type in zip(self.inputs, types, strict=True):
                require(repr(self), text, type, self.takes, self.advice_on(text, type))
        return [plain(type) for type in types]

    def advice_on(self, text: str, type: pa.DataType) -> str:
        """What to do about an argument of a type that it doesn't take."""
        return self.advice.format(name=self.name, x=text)
