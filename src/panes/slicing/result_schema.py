"""Which columns results have, known from the query alone: keys, window, bounds, aggregates, revision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from panes.aggregates.types import plain
from panes.slicing.rows.measures import measure_dtype
from panes.slicing.spec import OperatorSpec
from panes.slicing.workload import order_free, timed
from panes.windows.base import SINCE_FIRST, Bound

REVISION = pa.int32()


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


def result_schema(spec: OperatorSpec, positions: pa.DataType | None) -> pa.Schema:
    """The columns that an operator gives, before its `finalize`."""
    time = time_type(spec)
    fields = [(name, plain(spec.schema.field(name).type)) for name in spec.keys]
    fields += [("window", pa.string()), ("window_start", time), ("window_end", time)]
    if positions is not None:
        fields += [("window_from", positions), ("window_to", positions)]
    fields += [*((a.name, a.bound.out_type) for a in spec.shown_aggs), ("revision", REVISION)]
    if spec.early is not None:
        fields.append(("final", pa.bool_()))
    if spec.given_again:
        fields.append(("void", pa.bool_()))
    return pa.schema(fields)


def schema_at_first(spec: OperatorSpec, windows: Sequence[tuple[str, Bound]]) -> pa.Schema:
    """The columns of an operator to which no window has been added yet; `windows` are those of `spec`, bound."""
    bound = [w for _, w in windows]
    ordered = [(label, w) for label, w in windows if not order_free(w)]
    if not ordered:
        return result_schema(spec, None)
    kinds = dimensions(ordered, spec.expressions.including(c for w in bound for c in w.columns).types)
    return result_schema(spec, positions(bound, kinds.values()))


def time_type(spec: OperatorSpec) -> pa.DataType:
    """The type of window_start and window_end."""
    time = spec.schema.field(spec.time).type
    return time if pa.types.is_timestamp(time) else pa.int64()
