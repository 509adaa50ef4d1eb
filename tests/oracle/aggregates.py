"""Aggregates by plain Python over the rows of one window, in event order.

A spec is a tuple: name, then column names and arguments. Nulls are skipped; over no values the answer
is None (counts: 0, collect_list: []). NaN is larger than any number and equal to itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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


def quantile(values: Values, p: float) -> Any:
    """Element ceil(p * n), counted from one, at least the first."""
    return sorted(values, key=order)[max(1, math.ceil(p * len(values))) - 1]


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
    "quantiles": none_if_empty(lambda values, ps: [quantile(values, p) for p in ps]),
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
}
