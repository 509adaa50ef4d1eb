"""Aggregates by the names that SQL text uses, for the compiler of expressions.

A constructor takes the argument expressions as text, then options as keywords or plain values:
`by_name("percentile")("price", 0.9)`.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from functools import partial

from panes.aggregates import functions as f
from panes.aggregates import statistics as s
from panes.aggregates.base import Aggregate
from panes.aggregates.holistic import CountDistinct
from panes.aggregates.lists import StringAgg
from panes.aggregates.pairs import FUNCTIONS as PAIRS
from panes.aggregates.pairs import OfPairs
from panes.aggregates.quantiles import Quantile, Quantiles
from panes.aggregates.sketch import ApproxCountDistinct
from panes.aggregates.sorted_text import SortedStringAgg
from panes.errors import ExpressionError

Constructor = Callable[..., Aggregate]


def _quantile(
    expression: str, p: float | list[float] | tuple[float, ...], method: str = "linear"
) -> Quantile | Quantiles:
    if isinstance(p, (list, tuple)):
        return f.quantiles(expression, p, method=method)
    return f.quantile(expression, p, method=method)


def _percentile(expression: str, p: float | list[float]) -> Quantile | Quantiles:
    return _quantile(expression, p)


def _percentile_disc(expression: str, p: float | list[float]) -> Quantile | Quantiles:
    return _quantile(expression, p, "disc")


def _percentile_approx(expression: str, p: float | list[float], accuracy: int = 10_000) -> Quantile | Quantiles:
    return s.percentile_approx(expression, p, accuracy=accuracy)


def _approx_count_distinct(expression: str, relative_error: float = 0.02) -> ApproxCountDistinct:
    return f.approx_count_distinct(expression, relative_error=relative_error)


def _string_agg(expression: str, separator: str = "") -> StringAgg:
    return f.string_agg(expression, separator=separator)


def _count_distinct(expression: str) -> CountDistinct:
    return f.count_distinct(expression)


def _of_pairs(function: str, y: str, x: str) -> OfPairs:
    return OfPairs((y, x), function)


#: min_by and max_by, by their names in other engines too.
_BY = ("min_by", "arg_min", "argmin", "max_by", "arg_max", "argmax")
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
    "quantile": _quantile,
    "quantiles": _quantile,
    "percentile": _percentile,
    "percentile_cont": _percentile,
    "percentile_disc": _percentile_disc,
    "percentile_approx": _percentile_approx,
    "approx_percentile": _percentile_approx,
    "mode": f.mode,
    "collect_list": f.collect_list,
    "array_agg": f.collect_list,
    "string_agg": _string_agg,
    "listagg": _string_agg,
    "m4": f.m4,
    "any_value": s.any_value,
    "bool_and": s.bool_and,
    "every": s.bool_and,
    "bool_or": s.bool_or,
    "some": s.bool_or,
    "any": s.bool_or,
    "count_if": s.count_if,
    "bit_and": s.bit_and,
    "bit_or": s.bit_or,
    "bit_xor": s.bit_xor,
    "skewness": s.skewness,
    "kurtosis": s.kurtosis,
    "try_sum": s.try_sum,
    "try_avg": s.try_avg,
    "collect_set": s.collect_set,
    "histogram_numeric": s.histogram_numeric,
    **{name: partial(_of_pairs, name) for name in PAIRS},
}
#: listagg(x, ',') WITHIN GROUP (ORDER BY y), which no name stands for.
SORTED_TEXT = "listagg within group"


def _sorted_text(expression: str, by: str, separator: str, descending: bool, nulls_first: bool) -> SortedStringAgg:
    return SortedStringAgg((expression, by), separator, descending, nulls_first)


_UNNAMED: dict[str, Constructor] = {SORTED_TEXT: _sorted_text}
#: How many of the arguments are expressions over a row, where it is not one; options follow.
_INPUTS = {**dict.fromkeys(PAIRS, 2), **dict.fromkeys(_BY, 2), SORTED_TEXT: 2}


def names() -> tuple[str, ...]:
    """Every name that `by_name` knows, in order."""
    return tuple(sorted(_BY_NAME))


def inputs_of(name: str) -> int | None:
    """How many arguments are expressions over a row; None: all of them (count)."""
    return None if name.lower() == "count" else _INPUTS.get(name.lower(), 1)


def by_name(name: str) -> Constructor:
    """The constructor of the aggregate that SQL text calls `name`, in any case.

    >>> by_name("STDDEV_POP")("price")
    stddev(price, population=True)
    """
    found = _BY_NAME.get(name.lower()) or _UNNAMED.get(name.lower())
    if found is None:
        near = get_close_matches(name.lower(), _BY_NAME, 3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise ExpressionError(f"there is no aggregate named {name!r}{hint}")
    return found
