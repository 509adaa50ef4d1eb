"""Every aggregate once more, naively in Python, over (value, ..., time, seq) rows."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any


class Ordered:
    """A sort key with NaN after every number and equal to itself."""

    def __init__(self, value: Any) -> None:
        self.nan = isinstance(value, float) and math.isnan(value)
        self.value = None if self.nan else value

    def __lt__(self, other: Ordered) -> bool:
        if self.nan or other.nan:
            return other.nan and not self.nan
        return self.value < other.value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ordered) and (self.nan, self.value) == (other.nan, other.value)

    def __hash__(self) -> int:
        return hash((self.nan, self.value))


def in_order(values: list[Any]) -> list[Any]:
    return sorted(values, key=Ordered)


def kth(values: list[Any], p: Any) -> Any:
    rank = max(1, math.ceil(Fraction(str(p)) * len(values)))
    return in_order(values)[rank - 1]


def moments(values: list[Any], *, population: bool, root: bool) -> float | None:
    free = len(values) if population else len(values) - 1
    if free <= 0:
        return None
    if any(not math.isfinite(v) for v in values):
        return math.nan
    exact = [Fraction(v) for v in values]
    mean = sum(exact) / len(exact)
    var = float(sum((v - mean) ** 2 for v in exact) / free)
    return math.sqrt(var) if root else var


def mean(values: list[Any]) -> Any:
    if isinstance(values[0], Decimal):
        context = Context(prec=100, rounding=ROUND_HALF_UP)
        total = Decimal(0)
        for v in values:
            total = context.add(total, v)
        exponent = values[0].as_tuple().exponent
        assert isinstance(exponent, int)
        unit = Decimal(1).scaleb(exponent - 4)
        return context.divide(total, Decimal(len(values))).quantize(unit, context=context)
    if isinstance(values[0], float):
        return plain_sum(values) / len(values)
    return float(Fraction(sum(values), len(values)))


def plain_sum(values: list[Any]) -> Any:
    if isinstance(values[0], float):
        if all(math.isfinite(v) for v in values):
            return math.fsum(values)
        return sum(values)
    if isinstance(values[0], Decimal):
        context, total = Context(prec=100), Decimal(0)
        for v in values:
            total = context.add(total, v)
        return total
    return sum(values)


def product(values: list[Any]) -> float:
    out = 1.0
    for v in values:
        out *= float(v)
    return out


def geometric_mean(values: list[Any]) -> float:
    if any(math.isnan(v) or v < 0 for v in values):
        return math.nan
    if any(v == 0 for v in values):
        return math.nan if any(math.isinf(v) for v in values) else 0.0
    if any(math.isinf(v) for v in values):
        return math.inf
    return statistics.geometric_mean([float(v) for v in values])


def mode(values: list[Any]) -> Any:
    counts = Counter(Ordered(v) for v in values)
    most = max(counts.values())
    return in_order([v for v in values if counts[Ordered(v)] == most])[0]


def extreme_count(values: list[Any], best: Any) -> int:
    return sum(Ordered(v) == Ordered(best) for v in values)


def distance(values: list[Any]) -> Any:
    ordered = in_order(values)
    return ordered[-1] - ordered[0]


#: name -> (function of the non-null values in event order, result where there are none)
BY_VALUES: dict[str, tuple[Any, Any]] = {
    "count": (len, 0),
    "sum": (plain_sum, None),
    "avg": (mean, None),
    "min": (lambda v: in_order(v)[0], None),
    "max": (lambda v: in_order(v)[-1], None),
    "min_count": (lambda v: extreme_count(v, in_order(v)[0]), 0),
    "max_count": (lambda v: extreme_count(v, in_order(v)[-1]), 0),
    "range": (distance, None),
    "first": (lambda v: v[0], None),
    "last": (lambda v: v[-1], None),
    "stddev": (lambda v: moments(v, population=False, root=True), None),
    "variance": (lambda v: moments(v, population=False, root=False), None),
    "stddev_pop": (lambda v: moments(v, population=True, root=True), None),
    "var_pop": (lambda v: moments(v, population=True, root=False), None),
    "geometric_mean": (geometric_mean, None),
    "product": (product, None),
    "count_distinct": (lambda v: len({Ordered(x) for x in v}), 0),
    "median": (lambda v: kth(v, "0.5"), None),
    "q90": (lambda v: kth(v, "0.9"), None),
    "q07": (lambda v: kth(v, "0.07"), None),
    "quantiles": (lambda v: [kth(v, p) for p in ("0", "0.25", "1")], None),
    "mode": (mode, None),
    "collect_list": (list, []),
    "string_agg": ("|".join, None),
    "m4": (
        lambda v: {"min": in_order(v)[0], "max": in_order(v)[-1], "first": v[0], "last": v[-1]},
        None,
    ),
}


def expected(name: str, rows: list[tuple[Any, ...]]) -> Any:
    """The result over rows (value, [by,] time, seq) in any order."""
    rows = sorted(rows, key=lambda r: r[-2:])
    if name in ("arg_min", "arg_max"):
        present = [r for r in rows if r[1] is not None]
        if not present:
            return None
        best = in_order([r[1] for r in present])[0 if name == "arg_min" else -1]
        return next(r[0] for r in present if Ordered(r[1]) == Ordered(best))
    function, nothing = BY_VALUES[name]
    values = [r[0] for r in rows if r[0] is not None]
    return function(values) if values else nothing


def alike(a: Any, b: Any) -> bool:
    """Equal, floats up to rounding."""
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(alike(a[k], b[k]) for k in a)
    return type(a) is type(b) and bool(a == b)
