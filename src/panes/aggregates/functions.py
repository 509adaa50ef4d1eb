"""The constructors of built-in aggregates, as users write them: `pn.sum("price * qty")`.

Arguments are SQL expressions over the columns of a row. Several names shadow builtins on purpose, so
nothing else lives in this module.
"""

from __future__ import annotations

from collections.abc import Sequence

from panes.aggregates.basic import Avg, Count, GeometricMean, Product, Sum
from panes.aggregates.extremes import Max, MaxCount, Min, MinCount, Range
from panes.aggregates.holistic import CountDistinct, Mode
from panes.aggregates.lists import CollectList, StringAgg
from panes.aggregates.moments import StdDev, Variance
from panes.aggregates.order import M4, ArgMax, ArgMin, First, Last
from panes.aggregates.quantiles import Median, Quantile, Quantiles
from panes.aggregates.sketch import ApproxCountDistinct


def count(*expressions: str) -> Count:
    """Number of rows, or of rows in which all values are there.

    >>> import panes as pn
    >>> from panes.testing import evaluate
    >>> evaluate(pn.count("x"), [1, None, 3])
    2
    """
    return Count(() if expressions == ("*",) else expressions)


def sum(expression: str) -> Sum:
    """Sum: exact for integers (int64) and decimals, float64 for floats.

    >>> import panes as pn
    >>> from panes.testing import evaluate
    >>> evaluate(pn.sum("x"), [1, None, 3])
    4
    """
    return Sum((expression,))


def avg(expression: str) -> Avg:
    """Arithmetic mean: float64, or a decimal with four more digits for decimals.

    >>> import panes as pn
    >>> from panes.testing import evaluate
    >>> evaluate(pn.avg("x"), [1, 2, 3, 4, 5])
    3.0
    """
    return Avg((expression,))


def min(expression: str) -> Min:
    """Smallest value, of any type with an order; NaN only if there is nothing else.

    >>> import panes as pn
    >>> from panes.testing import evaluate
    >>> evaluate(pn.min("x"), [5, 9, 2, 7])
    2
    """
    return Min((expression,))


def max(expression: str) -> Max:
    """Largest value, of any type with an order; NaN is larger than any number.

    >>> import panes as pn
    >>> from panes.testing import evaluate
    >>> evaluate(pn.max("x"), ["b", "c", "a"])
    'c'
    """
    return Max((expression,))


def min_count(expression: str) -> MinCount:
    """How often the smallest value occurs; 0 if there is none.

    >>> import panes as pn
    >>> from panes.testing import evaluate
    >>> evaluate(pn.min_count("x"), [2, 5, 2])
    2
    """
    return MinCount((expression,))


def max_count(expression: str) -> MaxCount:
    """How often the largest value occurs; 0 if there is none.

    >>> import panes as pn
    >>> from panes.testing import evaluate
    >>> evaluate(pn.max_count("x"), [2, 5, 2])
    1
    """
    return MaxCount((expression,))


def range(expression: str) -> Range:
    """Largest value minus smallest; a duration for times.

    >>> import panes as pn
    >>> from panes.testing import evaluate
    >>> evaluate(pn.range("x"), [5, 9, 2, 7])
    7
    """
    return Range((expression,))


def arg_min(value: str, by: str) -> ArgMin:
    """`value` in the row where `by` is smallest; the earliest of those.

    >>> import panes as pn
    >>> from panes.testing import evaluate
    >>> evaluate(pn.arg_min("city", "price"), ["Riga", "Rome", "Oslo"], [3, 1, 2])
    'Rome'
    """
    return ArgMin((value, by))


def arg_max(value: str, by: str) -> ArgMax:
    """`value` in the row where `by` is largest; the earliest of those.

    >>> import panes as pn
    >>> from panes.testing import evaluate
    >>> evaluate(pn.arg_max("city", "price"), ["Riga", "Rome", "Oslo"], [3, 1, 2])
    'Riga'
    """
    return ArgMax((value, by))


def first(expression: str) -> First:
    """The value of the earliest row that has one.

    >>> import panes as pn
    >>> from panes.testing import evaluate
    >>> evaluate(pn.first("x"), [None, 9, 2])
    9
    """
    return First((expression,))


def last(expression: str) -> Last:
    """The value of the latest row that has one.

    >>> import panes as pn
    >>> from panes.testing import evaluate
    >>> evaluate(pn.last("x"), [5, 9, None])
    9
    """
    return Last((expression,))


def stddev(expression: str, *, population: bool = False) -> StdDev:
    """Standard deviation, of a sample unless `population`; a sample of one value has none.

    >>> import panes as pn
    >>> from panes.testing import evaluate
    >>> evaluate(pn.stddev("x", population=True), [1, 3])
    1.0
    """
    return StdDev((expression,), population)


def variance(expression: str, *, population: bool = False) -> Variance:
    """Variance, of a sample unless `population`; a sample of one value has none.

    >>> import panes as pn
    >>> from panes.testing import evaluate
    >>> evaluate(pn.variance("x"), [1, 3])
    2.0
    """
    return Variance((expression,), population)


def geometric_mean(expression: str) -> GeometricMean:
    """The n-th root of the product: 0 if any value is 0, NaN if any is negative.

    >>> import panes as pn
    >>> from panes.testing import evaluate
    >>> round(evaluate(pn.geometric_mean("x"), [2, 8]), 9)
    4.0
    """
    return GeometricMean((expression,))


def product(expression: str) -> Product:
    """Product of values, in float64.

    >>> import panes as pn
    >>> from panes.testing import evaluate
    >>> evaluate(pn.product("x"), [2, 3, 4])
    24.0
    """
    return Product((expression,))


def count_distinct(expression: str) -> CountDistinct:
    """How many different values there are, exactly.

    >>> import panes as pn
    >>> from panes.testing import evaluate
    >>> evaluate(pn.count_distinct("x"), ["a", "b", "a"])
    2
    """
    return CountDistinct((expression,))


def approx_count_distinct(expression: str, *, relative_error: float = 0.02) -> ApproxCountDistinct:
    """How many different values there are, within a relative standard error, in bounded memory.

    >>> import panes as pn
    >>> from panes.testing import evaluate
    >>> evaluate(pn.approx_count_distinct("x"), ["a", "b", "a"])
    2
    """
    return ApproxCountDistinct((expression,), relative_error)


def median(expression: str) -> Median:
    """The value in the middle, or halfway between the two that are there, as in Spark and pandas: a double.

    >>> import panes as pn
    >>> from panes.testing import evaluate
    >>> evaluate(pn.median("x"), [1, 2, 4, 3])
    2.5
    """
    return Median((expression,))


def quantile(expression: str, p: float, *, method: str = "linear") -> Quantile:
    """The value at the share p of the way from the smallest (p = 0) to the largest (p = 1).

    Where that lies between two values, `method` says what to give: "linear" goes the right part of the way from
    one to the other and gives a double, as `percentile` in Spark and `quantile` in pandas do; "lower", "higher" and
    "nearest" give one of both, of their type. "disc" gives value number ceil(p * n), as `percentile_disc` does.

    >>> import panes as pn
    >>> from panes.testing import evaluate
    >>> evaluate(pn.quantile("x", 0.9), [1, 2, 3, 4]), evaluate(pn.quantile("x", 0.9, method="lower"), [1, 2, 3, 4])
    (3.7, 3)
    """
    return Quantile((expression,), p, method)


def quantiles(expression: str, ps: Sequence[float], *, method: str = "linear") -> Quantiles:
    """Several quantiles of the same values, as a list; `method` is that of `quantile`.

    >>> import panes as pn
    >>> from panes.testing import evaluate
    >>> evaluate(pn.quantiles("x", [0, 0.5, 1]), [3, 1, 2])
    [1.0, 2.0, 3.0]
    """
    return Quantiles((expression,), tuple(ps), method)


def mode(expression: str) -> Mode:
    """The most frequent value, the smallest of those.

    >>> import panes as pn
    >>> from panes.testing import evaluate
    >>> evaluate(pn.mode("x"), [3, 1, 3, 1, 2])
    1
    """
    return Mode((expression,))


def collect_list(expression: str) -> CollectList:
    """All values that are not null, in event order; an empty list if there are none.

    >>> import panes as pn
    >>> from panes.testing import evaluate
    >>> evaluate(pn.collect_list("x"), [3, None, 1])
    [3, 1]
    """
    return CollectList((expression,))


def string_agg(expression: str, *, separator: str = "") -> StringAgg:
    """Strings joined, with a separator between them if there is one, in event order.

    >>> import panes as pn
    >>> from panes.testing import evaluate
    >>> evaluate(pn.string_agg("x", separator="-"), ["b", None, "a"])
    'b-a'
    """
    return StringAgg((expression,), separator)


def m4(expression: str) -> M4:
    """Min, max, first and last in one: what a line chart needs of a pixel column.

    >>> import panes as pn
    >>> from panes.testing import evaluate
    >>> evaluate(pn.m4("x"), [5, 9, 2, 7])
    {'min': 2, 'max': 9, 'first': 5, 'last': 7}
    """
    return M4((expression,))
