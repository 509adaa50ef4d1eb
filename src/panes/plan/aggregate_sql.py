"""Aggregates of the engine as DuckDB aggregates, where both mean exactly the same.

The table of aggregates has the form of most; the rules below are for those whose form depends on types or options.
What has neither is computed by the engine's own aggregate from the rows of each group: DuckDB's are for speed only.
Values that are null are skipped, NaN is one value above all others, and order is that of the rows in the window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from panes.aggregates.base import Aggregate
from panes.aggregates.moments import StdDev, Variance
from panes.aggregates.registry import entry_of
from panes.aggregates.rows import StringAgg
from panes.aggregates.totals import Avg, Count, Sum
from panes.aggregates.types import kind_of


def aggregate_sql(
    aggregate: Aggregate, arguments: Sequence[str], types: Sequence[pa.DataType], order: str
) -> str | None:
    """The SQL of an aggregate over columns named `arguments`; `order` is the order of rows, for ORDER BY.

    None: DuckDB has none that means the same.
    """
    if rule := RULES.get(type(aggregate)):
        return rule(aggregate, arguments, types, order)
    entry = entry_of(aggregate)
    if entry is None or entry.duckdb is None:
        return None
    return entry.duckdb.format(order=order, **dict(zip("xy", arguments, strict=False)))


Rule = Callable[[Any, Sequence[str], Sequence[pa.DataType], str], str | None]


def _count(aggregate: Count, args: Sequence[str], types: Sequence[pa.DataType], order: str) -> str:
    if len(args) > 1:
        there = " AND ".join(f"{arg} IS NOT NULL" for arg in args)
        return f"count(*) FILTER (WHERE {there})"
    return f"count({args[0] if args else '*'})"


def _sum(aggregate: Sum, args: Sequence[str], types: Sequence[pa.DataType], order: str) -> str:
    # DuckDB adds integers in 128 bits, so only a result beyond 64 is an error, whatever the order
    kind = kind_of(types[0])
    return f"CAST(sum({args[0]}) AS BIGINT)" if kind == "integer" else f"sum({args[0]})"


def _avg(aggregate: Avg, args: Sequence[str], types: Sequence[pa.DataType], order: str) -> str | None:
    return None if kind_of(types[0]) == "decimal" else f"avg({args[0]})"


def _moment(aggregate: Variance, args: Sequence[str], types: Sequence[pa.DataType], order: str) -> str:
    name = "stddev" if aggregate.root else "var"
    return f"{name}_{'pop' if aggregate.population else 'samp'}(CAST({args[0]} AS DOUBLE))"


def _string_agg(aggregate: StringAgg, args: Sequence[str], types: Sequence[pa.DataType], order: str) -> str:
    separator = aggregate.separator.replace("'", "''")
    return f"string_agg({args[0]}, '{separator}' ORDER BY {order})"


RULES: Mapping[type[Any], Rule] = {
    Count: _count,
    Sum: _sum,
    Avg: _avg,
    Variance: _moment,
    StdDev: _moment,
    StringAgg: _string_agg,
}
