"""The constructors of aggregates that users of Spark SQL know, beyond those of `functions.py`.

Names, arguments and results are Spark's.
"""

from __future__ import annotations

from collections.abc import Sequence

from panes.aggregates.basic import TryAvg, TrySum
from panes.aggregates.flags import BitAnd, BitOr, BitXor, BoolAnd, BoolOr, CountIf
from panes.aggregates.histogram import HistogramNumeric
from panes.aggregates.holistic import CollectSet
from panes.aggregates.order import AnyValue
from panes.aggregates.pairs import OfPairs
from panes.aggregates.quantiles import Quantile, Quantiles
from panes.aggregates.shape import Kurtosis, Skewness
from panes.errors import QueryError


def any_value(expression: str) -> AnyValue:
    """Any value that is not null; the earliest, so that the same rows always give the same.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.any_value("x"), [None, 3, 4])
    3
    """
    return AnyValue((expression,))


def try_sum(expression: str) -> TrySum:
    """The sum, or null where it goes beyond 64 bits, or 38 digits of a decimal.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.try_sum("x"), [2**62, 2**62]) is None
    True
    """
    return TrySum((expression,))


def try_avg(expression: str) -> TryAvg:
    """The mean, or null where it goes beyond 38 digits of a decimal.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.try_avg("x"), [1, 2])
    1.5
    """
    return TryAvg((expression,))


def bool_and(condition: str) -> BoolAnd:
    """Whether all values are true.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.bool_and("x"), [True, None, True])
    True
    """
    return BoolAnd((condition,))


def bool_or(condition: str) -> BoolOr:
    """Whether any value is true.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.bool_or("x"), [False, None, False])
    False
    """
    return BoolOr((condition,))


def count_if(condition: str) -> CountIf:
    """How many values are true.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.count_if("x"), [True, False, None, True])
    2
    """
    return CountIf((condition,))


def bit_and(expression: str) -> BitAnd:
    """The bits that are set in all integers.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.bit_and("x"), [6, 3])
    2
    """
    return BitAnd((expression,))


def bit_or(expression: str) -> BitOr:
    """The bits that are set in any of the integers.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.bit_or("x"), [6, 3])
    7
    """
    return BitOr((expression,))


def bit_xor(expression: str) -> BitXor:
    """The bits that are set in an odd number of the integers.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.bit_xor("x"), [6, 3])
    5
    """
    return BitXor((expression,))


def skewness(expression: str) -> Skewness:
    """How lopsided values lie around their mean (0: not at all); null if all are equal.

    >>> import panes as pn
    >>> round(pn.testing.evaluate(pn.skewness("x"), [1, 1, 4]), 6)
    0.707107
    """
    return Skewness((expression,))


def kurtosis(expression: str) -> Kurtosis:
    """How heavy the tails of values are (0: as those of a normal distribution); null if all are equal.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.kurtosis("x"), [1, 2])
    -2.0
    """
    return Kurtosis((expression,))


def corr(y: str, x: str) -> OfPairs:
    """Pearson's correlation, over the rows that have both; null if one is the same in all of them.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.corr("y", "x"), [1, 2, 5, None], [4, 3, 0, 9])
    -1.0
    """
    return OfPairs((y, x), "corr")


def covar_pop(y: str, x: str) -> OfPairs:
    """Covariance of a population, over the rows that have both.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.covar_pop("y", "x"), [1, 2], [2, 5])
    0.75
    """
    return OfPairs((y, x), "covar_pop")


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
    known = ("slope", "intercept", "r2", "count", "avgx", "avgy", "sxx", "sxy", "syy")
    if function not in known:
        raise QueryError(f"regr: function = {function!r} is not known; there are {', '.join(map(repr, known))}")
    return OfPairs((y, x), f"regr_{function}")


def collect_set(expression: str) -> CollectSet:
    """All different values, in order; an empty list if there are none.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.collect_set("x"), [3, 1, None, 3])
    [1, 3]
    """
    return CollectSet((expression,))


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


def _outwards(p: float, accuracy: int) -> float:
    if isinstance(p, bool) or not isinstance(p, (int, float)) or not 0 <= p <= 1:
        return p  # refused where other quantiles are
    return 0.0 if p <= 1 / accuracy else 1.0 if p >= 1 - 1 / accuracy else p


def histogram_numeric(expression: str, bins: int) -> HistogramNumeric:
    """A histogram of at most so many bins, each at the mean of its values: the nearest two were put together.

    With no more different values than bins it is Spark's; beyond, Spark's depends on the order of rows.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.histogram_numeric("x", 2), [1.0, 2.0, 9.0])
    [{'x': 1.5, 'y': 2.0}, {'x': 9.0, 'y': 1.0}]
    """
    return HistogramNumeric((expression,), bins)
