"""Aggregates by the names that SQL text uses, for the compiler of expressions.

A constructor takes the argument expressions as text, then options as keywords or plain values:
`by_name("percentile")("price", 0.9)`.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from functools import partial

from panes.aggregates import functions as f
from panes.aggregates.base import Aggregate
from panes.aggregates.holistic import CountDistinct, Quantile, Quantiles
from panes.aggregates.lists import StringAgg
from panes.aggregates.sketch import ApproxCountDistinct
from panes.errors import ExpressionError

Constructor = Callable[..., Aggregate]


def _percentile(expression: str, p: float | list[float] | tuple[float, ...]) -> Quantile | Quantiles:
    return f.quantiles(expression, p) if isinstance(p, (list, tuple)) else f.quantile(expression, p)


def _approx_count_distinct(expression: str, relative_error: float = 0.02) -> ApproxCountDistinct:
    return f.approx_count_distinct(expression, relative_error=relative_error)


def _string_agg(expression: str, separator: str = ",") -> StringAgg:
    return f.string_agg(expression, separator=separator)


def _count_distinct(expression: str) -> CountDistinct:
    return f.count_distinct(expression)


_BY_NAME: dict[str, Constructor] = {
    "count": f.count,
    "count_distinct": _count_distinct,
    "approx_count_distinct": _approx_count_distinct,
    "sum": f.sum,
    "avg": f.avg,
    "mean": f.avg,
    "min": f.min,
    "max": f.max,
    "min_count": f.min_count,
    "max_count": f.max_count,
    "range": f.range,
    "min_by": f.arg_min,
    "arg_min": f.arg_min,
    "argmin": f.arg_min,
    "max_by": f.arg_max,
    "arg_max": f.arg_max,
    "argmax": f.arg_max,
    "first": f.first,
    "first_value": f.first,
    "last": f.last,
    "last_value": f.last,
    "stddev": f.stddev,
    "std": f.stddev,
    "stddev_samp": f.stddev,
    "stddev_pop": partial(f.stddev, population=True),
    "variance": f.variance,
    "var_samp": f.variance,
    "var_pop": partial(f.variance, population=True),
    "geometric_mean": f.geometric_mean,
    "product": f.product,
    "median": f.median,
    "quantile": _percentile,
    "quantiles": f.quantiles,
    "percentile": _percentile,
    "percentile_disc": _percentile,
    "percentile_approx": _percentile,
    "approx_percentile": _percentile,
    "mode": f.mode,
    "collect_list": f.collect_list,
    "array_agg": f.collect_list,
    "string_agg": _string_agg,
    "listagg": _string_agg,
    "m4": f.m4,
}


def names() -> tuple[str, ...]:
    """Every name that `by_name` knows, in order."""
    return tuple(sorted(_BY_NAME))


def by_name(name: str) -> Constructor:
    """The constructor of the aggregate that SQL text calls `name`, in any case.

    >>> by_name("STDDEV_POP")("price")
    stddev(price, population=True)
    """
    try:
        return _BY_NAME[name.lower()]
    except KeyError:
        near = get_close_matches(name.lower(), _BY_NAME, 3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise ExpressionError(f"there is no aggregate named {name!r}{hint}") from None
