"""Every aggregate once more, naively in Python, over (value, ..., time, seq) rows."""

from __future__ import annotations

import math
import operator
import statistics
from collections import Counter
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

from panes.aggregates.pairs import FUNCTIONS as PAIRS


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


def place(values: list[Any], p: Any, method: str) -> Any:
    at = Fraction(str(p)) * (len(values) - 1)
    return in_order(values)[{"lower": math.floor, "higher": math.ceil, "nearest": round}[method](at)]


def between(values: list[Any], p: float) -> float:
    """Between the two nearest, in doubles as Spark has it."""
    at = (len(values) - 1) * p
    low, high = (in_order(values)[round_(at)] for round_ in (math.floor, math.ceil))
    if Ordered(low) == Ordered(high):
        return float(low)
    return float(low) + (float(high) - float(low)) * (at - math.floor(at))


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


def bits(values: list[int], operation: Any) -> int:
    out = values[0]
    for v in values[1:]:
        out = operation(out, v)
    return out


def fits(total: Any) -> Any:
    return None if isinstance(total, int) and not -(2**63) <= total < 2**63 else total


def shape(values: list[Any], power: int) -> float | None:
    if any(not math.isfinite(v) for v in values):
        return math.nan
    exact = [Fraction(v) for v in values]
    mean = sum(exact) / len(exact)
    m2, m = (sum((v - mean) ** k for v in exact) for k in (2, power))
    if m2 == 0:
        return None
    if power == 3:
        return math.sqrt(len(values)) * float(m) / math.sqrt(float(m2) ** 3)
    return float(len(values) * m / (m2 * m2)) - 3.0


def distinct(values: list[Any]) -> list[Any]:
    return [v.value if not v.nan else math.nan for v in sorted({Ordered(v) for v in values})]


def histogram(values: list[Any], bins: int) -> list[dict[str, Any]]:
    whole = isinstance(values[0], int)
    found = [[float(v), float(sum(Ordered(o) == Ordered(v) for o in values))] for v in distinct(values)]
    while len(found) > bins:
        i = min(range(len(found) - 1), key=lambda i: found[i + 1][0] - found[i][0])
        (a, n), (b, m) = found[i : i + 2]
        found[i : i + 2] = [[(a * n + b * m) / (n + m), n + m]]
    return [{"x": int(x) if whole else x, "y": y} for x, y in found]


def of_pairs(name: str, pairs: list[tuple[Any, Any]]) -> Any:
    n = len(pairs)
    if name == "regr_count":
        return n
    if n == 0:
        return None
    if name.startswith("regr_avg"):
        return plain_sum([float(p[name == "regr_avgx"]) for p in pairs]) / n

    def around(i: int, j: int) -> float | Fraction:
        if any(not math.isfinite(p[k]) for p in pairs for k in (i, j)):
            return math.nan
        exact = [(Fraction(p[i]), Fraction(p[j])) for p in pairs]
        a, b = (sum(e[k] for e in exact) / n for k in (0, 1))
        return sum((u - a) * (v - b) for u, v in exact)

    yy, xx, xy = around(0, 0), around(1, 1), around(0, 1)
    sums = {"regr_syy": yy, "regr_sxx": xx, "regr_sxy": xy, "covar_pop": xy / n}
    if name in sums:
        return float(sums[name])
    if name == "covar_samp":
        return float(xy / (n - 1)) if n > 1 else None
    if name == "corr":
        return None if n == 1 or 0 in (xx, yy) else float(xy) / math.sqrt(xx * yy)
    if xx == 0:
        return None
    if name == "regr_r2":
        return 1.0 if yy == 0 else float(xy * xy / (xx * yy))
    slope = xy / xx
    if name == "regr_slope":
        return float(slope)
    if isinstance(slope, float):
        return math.nan
    return float(sum(Fraction(p[0]) for p in pairs) / n - slope * sum(Fraction(p[1]) for p in pairs) / n)


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
    "median": (lambda v: between(v, 0.5), None),
    "q90": (lambda v: between(v, 0.9), None),
    "q07": (lambda v: kth(v, "0.07"), None),
    "lower": (lambda v: place(v, "0.3", "lower"), None),
    "higher": (lambda v: place(v, "0.3", "higher"), None),
    "nearest": (lambda v: place(v, "0.75", "nearest"), None),
    "quantiles": (lambda v: [between(v, p) for p in (0.0, 0.25, 1.0)], None),
    "elements": (lambda v: [kth(v, p) for p in ("0", "0.25", "1")], None),
    "mode": (mode, None),
    "any_value": (lambda v: v[0], None),
    "bool_and": (all, None),
    "bool_or": (any, None),
    "count_if": (sum, 0),
    "bit_and": (lambda v: bits(v, operator.and_), None),
    "bit_or": (lambda v: bits(v, operator.or_), None),
    "bit_xor": (lambda v: bits(v, operator.xor), None),
    "try_sum": (lambda v: fits(plain_sum(v)), None),
    "try_avg": (mean, None),
    "skewness": (lambda v: shape(v, 3), None),
    "kurtosis": (lambda v: shape(v, 4), None),
    "collect_set": (distinct, []),
    "histogram_numeric": (lambda v: histogram(v, 3), None),
    "percentile_approx": (lambda v: kth(v, "0.4"), None),
    "sum distinct": (lambda v: plain_sum(distinct(v)), None),
    "list distinct": (distinct, []),
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
    both = [r[:2] for r in rows if len(r) == 4 and None not in r[:2]]
    if name in PAIRS:
        return of_pairs(name, both)
    if name.startswith("sorted text"):
        there = [r for r in rows if r[0] is not None]
        nulls, others = [r for r in there if r[1] is None], [r for r in there if r[1] is not None]
        if name == "sorted text":
            ordered = [*nulls, *sorted(others, key=lambda r: Ordered(r[1]))]
        else:
            distinct_keys = sorted({Ordered(r[1]) for r in others}, reverse=True)
            ordered = [*(r for key in distinct_keys for r in others if Ordered(r[1]) == key), *nulls]
        return "|".join(r[0] for r in ordered) if there else None
    if name == "count both":
        return len(both)
    if name == "count distinct both":
        return len({(Ordered(a), Ordered(b)) for a, b in both})
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
