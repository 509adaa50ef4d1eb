"""Evaluate an aggregate on plain Python lists, without a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from panes.aggregates.base import Aggregate, Inputs
from panes.aggregates.columns import column_from_arrow


def evaluate(
    aggregate: Aggregate, *columns: Sequence[Any] | pa.Array, types: Sequence[pa.DataType] | None = None
) -> Any:
    """The result of an aggregate over rows given as one list per argument, in event order.

    >>> import panes as pn
    >>> evaluate(pn.arg_max("name", "size"), ["a", "b"], [1, 2])
    'b'
    """
    arrays = arrow_columns(columns, types)
    bound = aggregate.bind([a.type for a in arrays])
    rows = inputs_of(arrays)
    return bound.lower(bound.lift(rows, np.array([0, rows.rows])))[0].as_py()


def arrow_columns(columns: Sequence[Sequence[Any] | pa.Array], types: Sequence[pa.DataType] | None) -> list[pa.Array]:
    """Arrow arrays of the given types, or of those that the values suggest (float64 if there are none)."""
    out = []
    for i, column in enumerate(columns):
        array = column if isinstance(column, pa.Array) else pa.array(column, types[i] if types else None)
        out.append(array.cast(pa.float64()) if pa.types.is_null(array.type) else array)
    return out


def inputs_of(arrays: Sequence[pa.Array], rows: int | None = None) -> Inputs:
    """Rows at times 0, 1, 2, ... with these argument columns; `rows` says how many where there are none."""
    n = len(arrays[0]) if arrays else (rows or 0)
    order = np.arange(n)
    return Inputs(tuple(column_from_arrow(a) for a in arrays), order, order, n)
