"""The constructors of aggregates of distributions: moments, pairs of values, distinct values, quantiles, histograms.

Where Spark SQL has them, names, arguments and results are Spark's. `built_in` says what SQL calls each.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from panes.aggregates.moments import Kurtosis, Skewness, StdDev, Variance
from panes.aggregates.pairs import OfPairs
from panes.aggregates.quantiles import LINEAR, HistogramNumeric, Median, Quantile, Quantiles
from panes.aggregates.registry import built_in
from panes.aggregates.runs import CollectSet, CountDistinct, Mode
from panes.aggregates.sketch import ApproxCountDistinct
from panes.errors import QueryError

__all__ = [
    "approx_count_distinct", "collect_set", "corr", "count_distinct", "covar_pop", "covar_samp",
    "histogram_numeric", "kurtosis", "median", "mode", "percentile_approx", "quantile", "quantiles", "regr",
    "skewness", "stddev", "variance",
]  # fmt: skip

#: What `regr` computes; in SQL, regr_slope and so on.
_REGRESSION = ("slope", "intercept", "r2", "count", "avgx", "avgy", "sxx", "sxy", "syy")


@built_in(StdDev, "stddev", "std", "stddev_samp", native=True)
def stddev(expression: str, *, population: bool = False) -> StdDev:
    """Standard deviation, of a sample unless `population`; a sample of one value has none.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.stddev("x", population=True), [1, 3])
    1.0
    """
    return StdDev((expression,), population)


built_in(StdDev, "stddev_pop", native=True)(partial(stddev, population=True))


@built_in(Variance, "variance", "var_samp", native=True)
def variance(expression: str, *, population: bool = False) -> Variance:
    """Variance, of a sample unless `population`; a sample of one value has none.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.variance("x"), [1, 3])
    2.0
    """
    return Variance((expression,), population)


built_in(Variance, "var_pop", native=True)(partial(variance, population=True))


@built_in(Skewness, "skewness")
def skewness(expression: str) -> Skewness:
    """How lopsided values lie around their mean (0: not at all); null if all are equal.

    >>> import panes as pn
    >>> round(pn.testing.evaluate(pn.skewness("x"), [1, 1, 4]), 6)
    0.707107
    """
    return Skewness((expression,))


@built_in(Kurtosis, "kurtosis")
def kurtosis(expression: str) -> Kurtosis:
    """How heavy the tails of values are (0: as those of a normal distribution); null if all are equal.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.kurtosis("x"), [1, 2])
    -2.0
    """
    return Kurtosis((expression,))


@built_in(OfPairs, "corr", inputs=2)
def corr(y: str, x: str) -> OfPairs:
    """Pearson's correlation, over the rows that have both; null if one is the same in all of them.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.corr("y", "x"), [1, 2, 5, None], [4, 3, 0, 9])
    -1.0
    """
    return OfPairs((y, x), "corr")


@built_in(OfPairs, "covar_pop", inputs=2)
def covar_pop(y: str, x: str) -> OfPairs:
    """Covariance of a population, over the rows that have both.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.covar_pop("y", "x"), [1, 2], [2, 5])
    0.75
    """
    return OfPairs((y, x), "covar_pop")


@built_in(OfPairs, "covar_samp", inputs=2)
def covar_samp(y: str, x: str) -> OfPairs:
    """Covariance of a sample, over the rows that have both; null for a single one.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.covar_samp("y", "x"), [1, 2], [2, 5])
    1.5
    """
    return OfPairs((y, x), "covar_samp")


def regr(function: str, y: str, x: str) -> OfPairs:
    """Linear regression of y on x, over the rows that have both: "slope", "intercept", "r2", and the sums behind
    them, "count", "avgx", "avgy", "sxx", "sxy" and "syy". In SQL, `regr_slope(y, x)` and so on.

    >>> import panes as pn
    >>> [pn.testing.evaluate(pn.regr(f, "y", "x"), [1, 3, 5], [0, 1, 2]) for f in ("slope", "intercept", "r2")]
    [2.0, 1.0, 1.0]
    """
    if function not in _REGRESSION:
        raise QueryError(f"regr: function = {function!r} is not known; there are {', '.join(map(repr, _REGRESSION))}")
    return OfPairs((y, x), f"regr_{function}")


for _function in _REGRESSION:
    built_in(OfPairs, f"regr_{_function}", inputs=2)(partial(regr, _function))


@built_in(CountDistinct, "count_distinct", duckdb="count(DISTINCT {x})")
def count_distinct(expression: str) -> CountDistinct:
    """How many different values there are, exactly.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.count_distinct("x"), ["a", "b", "a"])
    2
    """
    return CountDistinct((expression,))


def approx_count_distinct(expression: str, *, relative_error: float = 0.02) -> ApproxCountDistinct:
    """How many different values there are, within a relative standard error, in bounded memory.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.approx_count_distinct("x"), ["a", "b", "a"])
    2
    """
    return ApproxCountDistinct((expression,), relative_error)


@built_in(ApproxCountDistinct, "approx_count_distinct")
def _approx_count_distinct(expression: str, relative_error: float = 0.02) -> ApproxCountDistinct:
    return ApproxCountDistinct((expression,), relative_error)


@built_in(CollectSet, "collect_set")
def collect_set(expression: str) -> CollectSet:
    """All different values, in order; an empty list if there are none.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.collect_set("x"), [3, 1, None, 3])
    [1, 3]
    """
    return CollectSet((expression,))


@built_in(Mode, "mode", duckdb="mode({x} ORDER BY {x})")
def mode(expression: str) -> Mode:
    """The most frequent value, the smallest of those.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.mode("x"), [3, 1, 3, 1, 2])
    1
    """
    return Mode((expression,))


@built_in(Median, "median")
def median(expression: str) -> Median:
    """The value in the middle, or halfway between the two that are there, as in Spark and pandas: a double.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.median("x"), [1, 2, 4, 3])
    2.5
    """
    return Median((expression,))


def quantile(expression: str, p: float, *, method: str = "linear") -> Quantile:
    """The value at the share p of the way from the smallest (p = 0) to the largest (p = 1).

    Where that lies between two values, `method` says what to give: "linear" goes the right part of the way from
    one to the other and gives a double, as `percentile` in Spark and `quantile` in pandas do; "lower", "higher" and
    "nearest" give one of both, of their type. "disc" gives value number ceil(p * n), as `percentile_disc` does.

    >>> import panes as pn
    >>> [pn.testing.evaluate(pn.quantile("x", 0.9, method=m), [1, 2, 3, 4]) for m in ("linear", "lower")]
    [3.7, 3]
    """
    return Quantile((expression,), p, method)


@built_in(Quantiles)
def quantiles(expression: str, ps: Sequence[float], *, method: str = "linear") -> Quantiles:
    """Several quantiles of the same values, as a list; `method` is that of `quantile`.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.quantiles("x", [0, 0.5, 1]), [3, 1, 2])
    [1.0, 2.0, 3.0]
    """
    return Quantiles((expression,), tuple(ps), method)


@built_in(Quantile, "quantile", "quantiles")
def _quantile(
    expression: str, p: float | list[float] | tuple[float, ...], method: str = LINEAR
) -> Quantile | Quantiles:
    if isinstance(p, (list, tuple)):
        return quantiles(expression, p, method=method)
    return quantile(expression, p, method=method)


@built_in(Quantile, "percentile", "percentile_cont")
def _percentile(expression: str, p: float | list[float]) -> Quantile | Quantiles:
    return _quantile(expression, p)


@built_in(Quantile, "percentile_disc")
def _percentile_disc(expression: str, p: float | list[float]) -> Quantile | Quantiles:
    return _quantile(expression, p, "disc")


def percentile_approx(expression: str, p: float | Sequence[float], *, accuracy: int = 10_000) -> Quantile | Quantiles:
    """Value number ceil(p * n); the first or last one where p is within 1 / accuracy of 0 or 1.

    What Spark gives of up to some thousand values; of more, it gives one whose rank is up to n / accuracy away,
    where this stays exact, and keeps all values.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.percentile_approx("x", [0.5, 0.9]), [1, 2, 3, 4])
    [2, 4]
    """
    if isinstance(accuracy, bool) or not isinstance(accuracy, int) or not 0 < accuracy < 1 << 31:
        raise QueryError(f"percentile_approx: accuracy = {accuracy!r} is not a whole number from 1 to 2147483647")
    if isinstance(p, (list, tuple)):
        return Quantiles((expression,), tuple(_outwards(one, accuracy) for one in p), "disc")
    return Quantile((expression,), _outwards(p, accuracy), "disc")  # type: ignore[arg-type]


@built_in(Quantile, "percentile_approx", "approx_percentile")
def _percentile_approx(expression: str, p: float | list[float], accuracy: int = 10_000) -> Quantile | Quantiles:
    return percentile_approx(expression, p, accuracy=accuracy)


def _outwards(p: float, accuracy: int) -> float:
    if isinstance(p, bool) or not isinstance(p, (int, float)) or not 0 <= p <= 1:
        return p  # refused where other quantiles are
    return 0.0 if p <= 1 / accuracy else 1.0 if p >= 1 - 1 / accuracy else p


@built_in(HistogramNumeric, "histogram_numeric")
def histogram_numeric(expression: str, bins: int) -> HistogramNumeric:
    """A histogram of at most so many bins, each at the mean of its values: the nearest two were put together.

    With no more different values than bins it is Spark's; beyond, Spark's depends on the order of rows.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.histogram_numeric("x", 2), [1.0, 2.0, 9.0])
    [{'x': 1.5, 'y': 2.0}, {'x': 9.0, 'y': 1.0}]
    """
    return HistogramNumeric((expression,), bins)
