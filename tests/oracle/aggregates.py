"""Aggregates by plain Python over the rows of one window, in event order.

A spec is a tuple: name, then column names and arguments. Nulls are skipped; over no values the answer
is None (counts: 0, collect_list: []). NaN is larger than any number and equal to itself.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from typing import Any

from tests.oracle.windows import Rows

Values = list[Any]


def aggregate(spec: tuple[Any, ...], rows: Rows) -> Any:
    name, *arguments = spec
    if name == "count_rows":
        return len(rows)
    if name in OF_PAIRS:
        return OF_PAIRS[name](rows, *arguments)
    column, *rest = arguments
    values = [r.data[column] for r in rows]
    return OF_VALUES[name]([v for v in values if v is not None], *rest)


def order(value: Any) -> Any:
    """Sort key: numbers by size, NaN after all of them; strings by themselves."""
    return (value != value, value) if isinstance(value, (int, float)) else value


def same(a: Any, b: Any) -> bool:
    return order(a)[0] == order(b)[0] and (a == b or a != a) if isinstance(a, (int, float)) else a == b


def none_if_empty(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda values, *rest: function(values, *rest) if values else None


def lowest(values: Values) -> Any:
    return min(values, key=order)


def highest(values: Values) -> Any:
    return max(values, key=order)


def quantile(values: Values, p: float, method: str = "linear") -> Any:
    """At the share p of the way from the first to the last in order; "disc": element ceil(p * n), from 1."""
    ordered = sorted(values, key=order)
    if method == "disc":
        return ordered[max(1, math.ceil(p * len(values))) - 1]
    place = p * (len(values) - 1)
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    if method != "linear":
        return {"lower": low, "higher": high}[method]
    if same(low, high):
        return float(low)
    return float(low) + (float(high) - float(low)) * (place - math.floor(place))


def distinct(values: Values) -> Values:
    found: Values = []
    for v in values:
        if not any(same(v, other) for other in found):
            found.append(v)
    return found


def mode(values: Values) -> Any:
    """The most frequent value, the smallest of those."""
    times = {i: sum(same(v, other) for other in values) for i, v in enumerate(values)}
    most = max(times.values())
    return lowest([values[i] for i, n in times.items() if n == most])


def variance(values: Values, population: bool = False) -> float | None:
    n = len(values)
    if n == 1 and not population:
        return None
    mean = math.fsum(values) / n
    return math.fsum((v - mean) ** 2 for v in values) / (n if population else n - 1)


def stddev(values: Values, population: bool = False) -> float | None:
    found = variance(values, population)
    return None if found is None else math.sqrt(found)


def powers(values: Values, power: int) -> float | None:
    """Skewness (3) or kurtosis (4)."""
    if any(not math.isfinite(v) for v in values):
        return math.nan
    mean = sum(map(Fraction, values)) / len(values)
    square, other = (sum((Fraction(v) - mean) ** k for v in values) for k in (2, power))
    if square == 0:
        return None
    if power == 3:
        return math.sqrt(len(values)) * float(other) / float(square) ** 1.5
    return float(len(values) * other / square**2) - 3.0


def histogram(values: Values, bins: int) -> list[dict[str, Any]]:
    """The nearest two bins are put together, the first of several, until few enough are left."""
    found = [(v, sum(same(v, other) for other in values)) for v in sorted(distinct(values), key=order)]
    while len(found) > bins:
        apart = [(b[0] - a[0] if b[0] == b[0] else math.inf, i) for i, (a, b) in enumerate(pairwise(found))]
        i = min(apart)[1]
        (x, n), (y, m) = found[i], found[i + 1]
        found[i : i + 2] = [((x * n + y * m) / (n + m), n + m)]
    return [{"x": x, "y": float(n)} for x, n in found]


def of_pairs(name: str) -> Callable[..., Any]:
    """Correlation, covariance, regression of two columns, over rows that have both; exact but for the last step."""

    def result(rows: Rows, first: str, second: str) -> Any:
        pairs = [(r.data[first], r.data[second]) for r in rows if None not in (r.data[first], r.data[second])]
        n = len(pairs)
        if name == "regr_count":
            return n
        if n < (2 if name in ("covar_samp", "corr") else 1):
            return None
        if any(not math.isfinite(v) for pair in pairs for v in pair):
            # a column in which all values are equal has no spread, whatever the other holds
            still = [len({p[i] for p in pairs}) == 1 and math.isfinite(pairs[0][i]) for i in (0, 1)]
            return None if (still[1] and name in ("corr", "regr_slope")) or (still[0] and name == "corr") else math.nan
        y, x = ([Fraction(pair[i]) for pair in pairs] for i in (0, 1))
        my, mx = sum(y) / n, sum(x) / n
        yy, xx = sum((v - my) ** 2 for v in y), sum((v - mx) ** 2 for v in x)
        xy = sum((a - my) * (b - mx) for a, b in zip(y, x, strict=True))
        if name == "corr":
            return float(xy) / math.sqrt(xx * yy) if xx * yy else None
        if name.startswith("covar"):
            return float(xy / (n if name == "covar_pop" else n - 1))
        return float(xy / xx) if xx else None

    return result


def m4(values: Values) -> dict[str, Any]:
    return {"min": lowest(values), "max": highest(values), "first": values[0], "last": values[-1]}


def arg_min(rows: Rows, result: str, by: str) -> Any:
    """`result` of the first row in event order with the smallest `by`; a null `by` does not count."""
    known = [r for r in rows if r.data[by] is not None]
    return min(known, key=lambda r: order(r.data[by])).data[result] if known else None


def arg_max(rows: Rows, result: str, by: str) -> Any:
    known = [r for r in rows if r.data[by] is not None]
    return max(known, key=lambda r: order(r.data[by])).data[result] if known else None


def weighted_mean(rows: Rows, value: str, weight: str) -> Any:
    """SQL's sum(value * weight) / sum(weight)."""
    products = [r.data[value] * r.data[weight] for r in rows if None not in (r.data[value], r.data[weight])]
    weights = [r.data[weight] for r in rows if r.data[weight] is not None]
    return sum(products) / sum(weights) if products else None


OF_VALUES: dict[str, Callable[..., Any]] = {
    "count": len,
    "count_distinct": lambda values: len(distinct(values)),
    "collect_list": list,
    "string_agg": none_if_empty(lambda values, separator: separator.join(values)),
    "sum": none_if_empty(sum),
    "product": none_if_empty(math.prod),
    "avg": none_if_empty(lambda values: sum(values) / len(values)),
    "geometric_mean": none_if_empty(lambda values: math.exp(math.fsum(map(math.log, values)) / len(values))),
    "min": none_if_empty(lowest),
    "max": none_if_empty(highest),
    "min_count": lambda values: sum(same(v, lowest(values)) for v in values),
    "max_count": lambda values: sum(same(v, highest(values)) for v in values),
    "range": none_if_empty(lambda values: highest(values) - lowest(values)),
    "median": none_if_empty(lambda values: quantile(values, 0.5)),
    "quantile": none_if_empty(quantile),
    "quantiles": none_if_empty(lambda values, ps, *method: [quantile(values, p, *method) for p in ps]),
    "bool_and": none_if_empty(all),
    "bool_or": none_if_empty(any),
    "every": none_if_empty(all),
    "any": none_if_empty(any),
    "count_if": sum,
    "bit_and": none_if_empty(lambda values: reduce(operator.and_, values)),
    "bit_or": none_if_empty(lambda values: reduce(operator.or_, values)),
    "bit_xor": none_if_empty(lambda values: reduce(operator.xor, values)),
    "try_sum": none_if_empty(sum),
    "skewness": none_if_empty(lambda values: powers(values, 3)),
    "kurtosis": none_if_empty(lambda values: powers(values, 4)),
    "collect_set": lambda values: sorted(distinct(values), key=order),
    "histogram_numeric": none_if_empty(histogram),
    "sum_distinct": none_if_empty(lambda values: sum(distinct(values))),
    "avg_distinct": none_if_empty(lambda values: sum(distinct(values)) / len(distinct(values))),
    "list_distinct": lambda values: sorted(distinct(values), key=order),
    "any_value": none_if_empty(lambda values: values[0]),
    "first": none_if_empty(lambda values: values[0]),
    "last": none_if_empty(lambda values: values[-1]),
    "mode": none_if_empty(mode),
    "variance": none_if_empty(variance),
    "stddev": none_if_empty(stddev),
    "m4": none_if_empty(m4),
}

OF_PAIRS: dict[str, Callable[..., Any]] = {
    "arg_min": arg_min,
    "arg_max": arg_max,
    "weighted_mean": weighted_mean,
    "count_distinct_pairs": lambda rows, a, b: len(
        {(order(r.data[a]), order(r.data[b])) for r in rows if None not in (r.data[a], r.data[b])}
    ),
    "sum_filtered": lambda rows, value, where: OF_VALUES["sum"](
        [r.data[value] for r in rows if r.data[where] and r.data[value] is not None]
    ),
    **{name: of_pairs(name) for name in ("corr", "covar_pop", "covar_samp", "regr_slope", "regr_count")},
}
