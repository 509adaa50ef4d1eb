"""Results of lanes as an Arrow table: key columns, window, bounds, aggregates, revision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from panes.errors import DataError
from panes.slicing.keys import KeyDirectory
from panes.slicing.lane import NO_TIME, Results, with_nan
from panes.slicing.spec import OperatorSpec

if TYPE_CHECKING:
    import pandas

Array = np.ndarray
#: Up to here a Python list is faster than a call of Arrow's take.
_FEW = 256


class Result:
    """What a call to an operator yields: an Arrow table, and shorthands for looking at it."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __len__(self) -> int:
        return self.table.num_rows

    def __bool__(self) -> bool:
        return self.table.num_rows > 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.rows()

    def __repr__(self) -> str:
        return f"Result({self.table.num_rows} rows)"

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Results as dicts."""
        yield from self.table.to_pylist()

    def to_arrow(self) -> pa.Table:
        return self.table

    def to_pandas(self) -> pandas.DataFrame:
        return self.table.to_pandas()


class ResultBuilder:
    """Turns what lanes give into tables of one schema."""

    def __init__(
        self,
        spec: OperatorSpec,
        keys: KeyDirectory | None,
        labels: Mapping[int, str],
        *,
        positions: pa.DataType | None,
    ) -> None:
        self._spec = spec
        self._keys = keys
        self._time_type = spec.schema.field(spec.time).type
        self._is_timestamp = pa.types.is_timestamp(self._time_type)
        self._positions = positions  # type of window_from and window_to; None: no window has them
        self._label_at = np.zeros(max(labels, default=0) + 1, np.int64)
        self._label_at[list(labels)] = np.arange(len(labels))
        self._name_list = list(labels.values())
        self._names = pa.array(self._name_list, pa.string())
        self._empty: Result | None = None

    def empty(self) -> Result:
        if self._empty is None:
            none = np.empty(0, np.int64)
            values = tuple(pa.nulls(0, a.bound.out_type) for a in self._spec.aggs)
            nothing = Results(none, none, none, none, none, none, none.astype(np.int32), none.astype(bool), values)
            self._empty = self._table(nothing)
        return self._empty

    def build(self, parts: Sequence[Results]) -> Result:
        """One table of all parts; windows that have an end in time are in the order of it."""
        parts = [p for p in parts if len(p)]
        if not parts:
            return self.empty()
        return self._table(Results.concat(parts))

    def _table(self, given: Results) -> Result:
        columns: dict[str, pa.Array] = {}
        if self._keys is not None:
            columns.update(zip(self._spec.keys, self._keys.key_columns(given.slots)))
        columns["window"] = self._labels(given)
        columns["window_start"] = self._time(given.start)
        columns["window_end"] = self._time(given.end)
        if self._positions is not None:
            columns["window_from"] = _position(given.lo, self._positions)
            columns["window_to"] = _position(given.hi, self._positions)
        for agg, values in zip(self._spec.aggs, given.values):
            columns[agg.name] = values
        columns["revision"] = pa.array(given.revision.astype(np.int32, copy=False))
        if self._spec.lateness is not None:
            columns["void"] = pa.array(given.void)
        table = pa.Table.from_arrays(list(columns.values()), list(columns))
        end = given.end
        if len(end) > 1 and (end[1:] < end[:-1]).any():
            table = table.take(np.argsort(end, kind="stable"))
        if self._spec.finalize is not None:
            table = self._spec.finalize(table)
        return Result(table)

    def _labels(self, given: Results) -> pa.Array:
        names = self._name_list
        if len(given) < _FEW:
            return pa.array([names[i] for i in self._label_at[given.query].tolist()], pa.string())
        query = given.query
        starts = np.flatnonzero(np.concatenate(([True], query[1:] != query[:-1])))
        if len(starts) * 8 > len(query):
            return self._names.take(pa.array(self._label_at[query]))
        labels = [names[i].encode() for i in self._label_at[query[starts]].tolist()]
        return _repeated(labels, np.diff(starts, append=len(query)))

    def _time(self, ticks: Array) -> pa.Array:
        # NO_TIME is the smallest integer there is
        missing = ticks == NO_TIME if len(ticks) and ticks.min() == NO_TIME else None
        array = pa.array(ticks, mask=missing)
        return array.view(self._time_type) if self._is_timestamp else array


def _repeated(texts: Sequence[bytes], counts: Array) -> pa.Array:
    """Each text so many times: written as blocks of bytes, since results come in long runs of one window."""
    lengths = np.repeat(np.array([len(t) for t in texts], np.int64), counts)
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    data = b"".join(text * count for text, count in zip(texts, counts.tolist()))
    if len(data) >= 2**31:
        raise DataError(f"one call gives {len(lengths):,} results, too many for one table: push smaller batches")
    return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data))


def _position(bounds: Array, type: pa.DataType) -> pa.Array:
    if pa.types.is_floating(type):
        bounds = with_nan(bounds)
        return pa.array(bounds, type, mask=np.isnan(bounds))
    return pa.array(bounds, type, mask=bounds == NO_TIME)
