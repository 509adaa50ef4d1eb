"""Aggregates of the engine as DuckDB aggregates, where both mean exactly the same.

What is not in the table below, or not for the type of its argument, is computed by the engine's own aggregate from
the rows of each group: an aggregate is listed here for speed only. Values that are null are skipped, NaN is one
value above all others, and order is that of the rows in the window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from panes.aggregates.base import Aggregate
from panes.aggregates.basic import Avg, Count, GeometricMean, Product, Sum
from panes.aggregates.extremes import Max, Min
from panes.aggregates.holistic import CountDistinct, Mode
from panes.aggregates.lists import CollectList, StringAgg
from panes.aggregates.moments import StdDev, Variance
from panes.aggregates.order import ArgMax, ArgMin, First, Last
from panes.aggregates.types import kind_of


def aggregate_sql(
    aggregate: Aggregate, arguments: Sequence[str], types: Sequence[pa.DataType], order: str
) -> str | None:
    """The SQL of an aggregate over columns named `arguments`; `order` is the order of rows, for ORDER BY.

    None: DuckDB has none that means the same.
    """
    rule = RULES.get(type(aggregate))
    return None if rule is None else rule(aggregate, arguments, types, order)


Rule = Callable[[Any, Sequence[str], Sequence[pa.DataType], str], str | None]


def _simple(template: str) -> Rule:
    """`{x}`: the argument, `{order}`: the order of rows."""
    return lambda aggregate, args, types, order: template.format(x=args[0], order=order)


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


def _arg(direction: str) -> Rule:
    def rule(aggregate: ArgMin, args: Sequence[str], types: Sequence[pa.DataType], order: str) -> str:
        value, by = args
        return f"first({value} ORDER BY {by} {direction}, {order}) FILTER (WHERE {by} IS NOT NULL)"

    return rule


def _string_agg(aggregate: StringAgg, args: Sequence[str], types: Sequence[pa.DataType], order: str) -> str:
    separator = aggregate.separator.replace("'", "''")
    return f"string_agg({args[0]}, '{separator}' ORDER BY {order})"


_GEOMETRIC_MEAN = (
    "CASE WHEN bool_or({x} < 0 OR isnan({x}::DOUBLE)) OR (bool_or({x} = 0) AND bool_or(isinf({x}::DOUBLE))) "
    "THEN 'NaN'::DOUBLE WHEN bool_or({x} = 0) THEN 0::DOUBLE "
    "ELSE exp(avg(ln({x}::DOUBLE)) FILTER (WHERE {x} > 0)) END"
)

RULES: Mapping[type[Any], Rule] = {
    Count: _count,
    CountDistinct: _simple("count(DISTINCT {x})"),
    Sum: _sum,
    Avg: _avg,
    Product: _simple("product(CAST({x} AS DOUBLE))"),
    GeometricMean: _simple(_GEOMETRIC_MEAN),
    Min: _simple("min({x})"),
    Max: _simple("max({x})"),
    Variance: _moment,
    StdDev: _moment,
    Mode: _simple("mode({x} ORDER BY {x})"),
    First: _simple("first({x} ORDER BY {order}) FILTER (WHERE {x} IS NOT NULL)"),
    Last: _simple("last({x} ORDER BY {order}) FILTER (WHERE {x} IS NOT NULL)"),
    ArgMin: _arg("ASC"),
    ArgMax: _arg("DESC"),
    CollectList: _simple("coalesce(list({x} ORDER BY {order}) FILTER (WHERE {x} IS NOT NULL), [])"),
    StringAgg: _string_agg,
}
