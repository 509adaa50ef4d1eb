"""Results of lanes as an Arrow table: key columns, window, bounds, aggregates, revision.

Which columns it has is known from the query alone.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from panes.aggregates.columns import arrow_from_values
from panes.aggregates.types import plain
from panes.errors import DataError, QueryError
from panes.slicing.identity import Identity, newest, voids_first
from panes.slicing.keys import KeyDirectory
from panes.slicing.lane import NO_TIME, Agg, Results, with_nan
from panes.slicing.outputs import Labels, MixedOutputs
from panes.slicing.rows.measures import measure_dtype
from panes.slicing.showing import html_table, text_table
from panes.slicing.spec import OperatorSpec
from panes.slicing.workload import timed
from panes.windows.base import SINCE_FIRST, Bound

if TYPE_CHECKING:
    import pandas
    import polars


Array = np.ndarray
#: Up to here a Python list is faster than a call of Arrow's take.
_FEW = 256


class Result:
    """What a call to an operator yields: rows, as an Arrow table.

    It prints as a table, and libraries that read Arrow's C stream (Polars, DuckDB, pandas, PyArrow) take it as it is.
    """

    def __init__(
        self,
        table: pa.Table,
        told_apart: Callable[[], Identity] | None = None,
        labels: Callable[[], Labels] | None = None,
    ) -> None:
        self.table = table
        self._told_apart = told_apart  # raises if results can't be; None: these are not results of windows
        self._labels = labels

    def __len__(self) -> int:
        return self.table.num_rows

    def __bool__(self) -> bool:
        return self.table.num_rows > 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.rows()

    def __getitem__(self, label: str) -> Result:
        """The results of one query of the operator, by its label: its rows, and the columns that it has.

        With a `select` the columns are those that it says.
        """
        if self._labels is None:
            raise QueryError(f"[{label!r}]: only results of windows have labels, and these are rows of a stream")
        return Result(self._labels().of(self.table, label), self._told_apart, self._labels)

    def __repr__(self) -> str:
        return text_table(self.table)

    def _repr_html_(self) -> str:
        return html_table(self.table)

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> Any:
        return self.table.schema.__arrow_c_schema__()

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return self.table.num_rows

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        return self.table.schema

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
        return self.table.column_names

    def rows(self) -> Iterator[dict[str, Any]]:
        """Results as dicts."""
        yield from self.table.to_pylist()

    def latest(self) -> Result:
        """Only the newest revision of each identity (`query.identity`) among these, withdrawn ones too.

        A table stays up to date if all of its rows that have one of these identities are deleted, and then these
        are inserted, without those that are `void`.
        """
        if self._told_apart is None:
            raise QueryError("latest(): only results of windows have an identity, and these are rows of a stream")
        return Result(newest(self.table, self._told_apart()), self._told_apart, self._labels)

    def to_arrow(self) -> pa.Table:
        """As an Arrow table."""
        return self.table

    def to_pandas(self) -> pandas.DataFrame:
        """As a pandas frame."""
        needed("pandas", "to_pandas()", "pandas")
        return self.table.to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """As a Polars frame."""
        return needed("polars", "to_polars()", "polars").from_arrow(self.table)


def needed(module: str, what: str, extra: str) -> Any:
    """A library that `what` can't do without; `extra` of the installation brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise QueryError(f"{what} needs {module}: pip install 'panes[{extra}]'") from error


class ResultBuilder:
    """Turns what lanes give into tables of one schema."""

    def __init__(
        self,
        spec: OperatorSpec,
        keys: KeyDirectory | None,
        labels: Mapping[int, str],
        *,
        positions: pa.DataType | None,
        told_apart: Callable[[], Identity] | None = None,
        mixed: MixedOutputs | None = None,
        aggs: Sequence[Agg] | None = None,
        owners: Callable[[], Labels] | None = None,
    ) -> None:
        """`aggs`: of all windows, as results have them; `mixed`: what is made of them, if windows don't all give the
        same; `owners`: which columns belong to which window."""
        self._spec = spec
        self._told_apart = told_apart
        self._owners = owners
        self._mixed = mixed
        self._aggs = spec.aggs if aggs is None else aggs
        self._keys = keys
        self._positions = positions  # type of window_from and window_to; None: no window has them
        self._label_at = np.zeros(max(labels, default=0) + 1, np.int64)
        self._label_at[list(labels)] = np.arange(len(labels))
        self._names = pa.array(list(labels.values()), pa.string())
        self._texts = [label.encode() for label in labels.values()]
        shown = spec.aggs if spec.early is None else spec.aggs[:-1]  # the last one counts rows, which nobody asked for
        self._shown, self._early = len(shown), spec.early is not None
        self._given_again = spec.lateness is not None or self._early
        outputs = [pa.field(a.name, a.bound.out_type) for a in shown] if mixed is None else mixed.fields
        schema = result_schema(
            spec.schema, spec.time, spec.keys, outputs, positions=positions, early=self._early, again=self._given_again
        )
        self._column_names, self._time_type = schema.names, schema.types[len(spec.keys) + 1]
        self._finalize = spec.finalize if mixed is None else spec.steps
        self._empty: Result | None = None

    def empty(self) -> Result:
        if self._empty is None:
            none = np.empty(0, np.int64)
            self._empty = self._table(
                Results(none, none, none, none, tuple(pa.nulls(0, a.bound.out_type) for a in self._aggs))
            )
        return self._empty

    def build(self, parts: Sequence[Results]) -> Result:
        """One table of all parts: withdrawals, then the others, in the order of windows' ends, no end last."""
        parts = [p for p in parts if len(p)]
        if not parts:
            return self.empty()
        return self._table(Results.concat(parts))

    def joined(self, tables: Sequence[pa.Table]) -> Result:
        """Tables that were built before, as what one call gives."""
        return Result(voids_first(pa.concat_tables(tables), self._spec.void), self._told_apart, self._owners)

    def conformed(self, table: pa.Table) -> pa.Table:
        """A table that was built when there were other windows, with the columns of now."""
        wanted = self.empty().table.schema
        known = set(table.column_names)
        columns = [table[f.name] if f.name in known else pa.nulls(table.num_rows, f.type) for f in wanted]
        return pa.table(columns, schema=wanted)

    def _table(self, given: Results) -> Result:
        order = _order(given)
        if order is not None and given.counts is None:  # numbers move faster than the columns made of them
            given, order = given.take(order), None
        n = len(given)
        columns = [] if self._keys is None else self._keys.key_columns(given.slots)
        columns += self._windows(given)
        if self._positions is not None:
            columns += [_position(bounds, n, self._positions) for bounds in (given.lo, given.hi)]
        if self._mixed is None:
            columns += given.values[: self._shown]
        else:
            numbers = given.query if given.counts is None else given.query.repeat(given.counts)
            columns += self._mixed.columns(numbers, given.values, given.void)
        columns.append(_revisions(given.revision, n))
        if self._early:
            columns.append(pa.array(np.ones(n, bool) if given.final is None else given.final))
        if self._given_again:
            columns.append(pa.array(np.zeros(n, bool) if given.void is None else given.void))
        table = pa.Table.from_arrays(columns, self._column_names)
        if order is not None:
            table = table.take(order)
        if self._finalize is not None:
            table = self._finalize(table)
        return Result(table, self._told_apart, self._owners)

    def _windows(self, given: Results) -> list[pa.Array]:
        """Labels, starts and ends."""
        times = [given.start, given.end]
        if given.counts is not None:
            times = [ticks.repeat(given.counts) for ticks in times]
        # those on event time all have a start and an end
        known = [None if given.lo is None else ticks != NO_TIME for ticks in times]
        columns = [arrow_from_values(ticks, valid, self._time_type) for ticks, valid in zip(times, known)]
        return [self._labels(given.query, given.counts), *columns]

    def _labels(self, query: Array, counts: Array | None) -> pa.Array:
        """The label of each query, so many times; once if that is not said."""
        if counts is not None or len(query) < _FEW:
            return _strings([self._texts[i] for i in self._label_at[query].tolist()], counts)
        starts = np.flatnonzero(np.concatenate(([True], query[1:] != query[:-1])))
        if len(starts) * 8 > len(query):
            return self._names.take(pa.array(self._label_at[query]))
        return self._labels(query[starts], np.diff(starts, append=len(query)))


def _order(given: Results) -> Array | None:
    """Withdrawals, then the others, in the order of windows' ends; None: they are."""
    due = given.end - 1  # NO_TIME is the lowest number and becomes the highest: windows without an end come last
    void = None if given.void is None or not given.void.any() else given.void
    if void is None and not np.count_nonzero(due[1:] < due[:-1]):
        return None
    due = due if given.counts is None else due.repeat(given.counts)
    return due.argsort(kind="stable") if void is None else np.lexsort((due, ~void))


def _strings(texts: Sequence[bytes], counts: Array | None) -> pa.Array:
    """Each text so many times: written as blocks of bytes, since results come in long runs of one window."""
    lengths = [0, *map(len, texts)]
    if counts is None:
        data, offsets = b"".join(texts), np.array([*accumulate(lengths)], np.int32)
    else:
        times = counts.tolist()
        data = b"".join([text * n for text, n in zip(texts, times)])
        if len(data) >= 2**31:
            raise DataError(f"one call gives {sum(times):,} results, too many for one table: push smaller batches")
        offsets = np.array(lengths, np.int32).repeat([1, *times]).cumsum(dtype=np.int32)
    return pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))


_NOT_REVISED = pa.array(np.zeros(4096, np.int32))


def _revisions(numbers: Array | None, n: int) -> pa.Array:
    if numbers is not None and numbers.any():
        return arrow_from_values(numbers.astype(np.int32, copy=False), None, REVISION)
    return _NOT_REVISED.slice(0, n) if n <= len(_NOT_REVISED) else pa.array(np.zeros(n, np.int32))


def _position(bounds: Array | None, n: int, type: pa.DataType) -> pa.Array:
    if bounds is None:
        return pa.nulls(n, type)
    if pa.types.is_floating(type):
        bounds = with_nan(bounds)
        return pa.array(bounds, type, mask=np.isnan(bounds))
    return pa.array(bounds, type, mask=bounds == NO_TIME)


REVISION = pa.int32()
#: Columns of windows that are known by rows or by a measure, and not by time alone.
POSITIONS = ("window_from", "window_to")


def dimensions(windows: Iterable[tuple[str, Bound]], types: Mapping[str, pa.DataType]) -> dict[str, np.dtype]:
    """Column measures in use, as expressions, with the type their values have in slices."""
    names = [(label, d) for label, w in windows for m in w.measures if (d := m.dimension) is not None]
    types = {**types, SINCE_FIRST: pa.int64()}
    return {name: measure_dtype(label, name, types[name]) for label, name in names}


def positions(windows: Iterable[Bound], kinds: Iterable[np.dtype]) -> pa.DataType | None:
    """The type of window_from and window_to; None: no window has them. `kinds` are those of the dimensions."""
    if all(timed(w) for w in windows):
        return None
    return pa.float64() if any(kind.kind == "f" for kind in kinds) else pa.int64()


def result_schema(
    rows: pa.Schema,
    time: str,
    keys: Sequence[str],
    outputs: Sequence[pa.Field],
    *,
    positions: pa.DataType | None,
    early: bool,
    again: bool,
) -> pa.Schema:
    """The columns that windows over `rows` give, with these outputs, early or again."""
    kind = rows.field(time).type
    bounds = kind if pa.types.is_timestamp(kind) else pa.int64()
    fields = [(name, plain(rows.field(name).type)) for name in keys]
    fields += [("window", pa.string()), ("window_start", bounds), ("window_end", bounds)]
    if positions is not None:
        fields += [(name, positions) for name in POSITIONS]
    fields += [*outputs, ("revision", REVISION)]
    if early:
        fields.append(("final", pa.bool_()))
    if again:
        fields.append(("void", pa.bool_()))
    return pa.schema(fields)
