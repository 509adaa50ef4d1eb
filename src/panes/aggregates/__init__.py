"""What is computed over windows: lift rows to partials, combine partials, lower them to results.

`base.py` is the protocol, `functions.py` the constructors that users write; one module per family computes.
"""

from __future__ import annotations

from panes.aggregates.functions import (
    approx_count_distinct,
    arg_max,
    arg_min,
    avg,
    collect_list,
    count,
    count_distinct,
    first,
    geometric_mean,
    last,
    m4,
    max,
    max_count,
    median,
    min,
    min_count,
    mode,
    product,
    quantile,
    quantiles,
    range,
    stddev,
    string_agg,
    sum,
    variance,
)
from panes.aggregates.registry import by_name
from panes.aggregates.user import UserAggregate, aggregate

__all__ = [
    "UserAggregate",
    "aggregate",
    "approx_count_distinct",
    "arg_max",
    "arg_min",
    "avg",
    "by_name",
    "collect_list",
    "count",
    "count_distinct",
    "first",
    "geometric_mean",
    "last",
    "m4",
    "max",
    "max_count",
    "median",
    "min",
    "min_count",
    "mode",
    "product",
    "quantile",
    "quantiles",
    "range",
    "stddev",
    "string_agg",
    "sum",
    "variance",
]
