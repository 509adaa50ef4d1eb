"""The constructors of counts, sums, extremes, conditions, chosen rows and lists: `pn.sum("price * qty")`.

Arguments are SQL expressions over the columns of a row. `built_in` says what SQL calls each. Several names shadow
builtins on purpose, so nothing else lives in this module.
"""

from __future__ import annotations

from panes.aggregates.extremes import Max, MaxCount, Min, MinCount, Range
from panes.aggregates.flags import BitAnd, BitOr, BitXor, BoolAnd, BoolOr, CountIf
from panes.aggregates.order import M4, AnyValue, ArgMax, ArgMin, First, Last
from panes.aggregates.registry import SORTED_TEXT, built_in
from panes.aggregates.rows import CollectList, SortedStringAgg, StringAgg
from panes.aggregates.totals import Avg, Count, GeometricMean, Product, Sum, TryAvg, TrySum

__all__ = [
    "any_value", "arg_max", "arg_min", "avg", "bit_and", "bit_or", "bit_xor", "bool_and", "bool_or", "collect_list",
    "count", "count_if", "first", "geometric_mean", "last", "m4", "max", "max_count", "min", "min_count", "product",
    "range", "string_agg", "sum", "try_avg", "try_sum",
]  # fmt: skip


@built_in(Count, "count", inputs=None, native=True)
def count(*expressions: str) -> Count:
    """Number of rows, or of rows in which all values are there.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.count("x"), [1, None, 3])
    2
    """
    return Count(() if expressions == ("*",) else expressions)


@built_in(CountIf, "count_if", native=True)
def count_if(condition: str) -> CountIf:
    """How many values are true.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.count_if("x"), [True, False, None, True])
    2
    """
    return CountIf((condition,))


@built_in(Sum, "sum", native=True)
def sum(expression: str) -> Sum:
    """Sum: exact for integers (int64) and decimals, float64 for floats.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.sum("x"), [1, None, 3])
    4
    """
    return Sum((expression,))


@built_in(Avg, "avg", "mean", native=True)
def avg(expression: str) -> Avg:
    """Arithmetic mean: float64, or a decimal with four more digits for decimals.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.avg("x"), [1, 2, 3, 4, 5])
    3.0
    """
    return Avg((expression,))


@built_in(TrySum, "try_sum", native=True)
def try_sum(expression: str) -> TrySum:
    """The sum, or null where it goes beyond 64 bits, or 38 digits of a decimal.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.try_sum("x"), [2**62, 2**62]) is None
    True
    """
    return TrySum((expression,))


@built_in(TryAvg, "try_avg", native=True)
def try_avg(expression: str) -> TryAvg:
    """The mean, or null where it goes beyond 38 digits of a decimal.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.try_avg("x"), [1, 2])
    1.5
    """
    return TryAvg((expression,))


@built_in(Product, "product", duckdb="product(CAST({x} AS DOUBLE))", native=True)
def product(expression: str) -> Product:
    """Product of values, in float64.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.product("x"), [2, 3, 4])
    24.0
    """
    return Product((expression,))


@built_in(
    GeometricMean,
    "geometric_mean",
    duckdb=(
        "CASE WHEN bool_or({x} < 0 OR isnan({x}::DOUBLE)) OR (bool_or({x} = 0) AND bool_or(isinf({x}::DOUBLE))) "
        "THEN 'NaN'::DOUBLE WHEN bool_or({x} = 0) THEN 0::DOUBLE "
        "ELSE exp(avg(ln({x}::DOUBLE)) FILTER (WHERE {x} > 0)) END"
    ),
    native=True,
)
def geometric_mean(expression: str) -> GeometricMean:
    """The n-th root of the product: 0 if any value is 0, NaN if any is negative.

    >>> import panes as pn
    >>> round(pn.testing.evaluate(pn.geometric_mean("x"), [2, 8]), 9)
    4.0
    """
    return GeometricMean((expression,))


@built_in(Min, "min", duckdb="min({x})", native=True)
def min(expression: str) -> Min:
    """Smallest value, of any type with an order; NaN only if there is nothing else.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.min("x"), [5, 9, 2, 7])
    2
    """
    return Min((expression,))


@built_in(Max, "max", duckdb="max({x})", native=True)
def max(expression: str) -> Max:
    """Largest value, of any type with an order; NaN is larger than any number.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.max("x"), ["b", "c", "a"])
    'c'
    """
    return Max((expression,))


@built_in(MinCount, "min_count")
def min_count(expression: str) -> MinCount:
    """How often the smallest value occurs; 0 if there is none.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.min_count("x"), [2, 5, 2])
    2
    """
    return MinCount((expression,))


@built_in(MaxCount, "max_count")
def max_count(expression: str) -> MaxCount:
    """How often the largest value occurs; 0 if there is none.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.max_count("x"), [2, 5, 2])
    1
    """
    return MaxCount((expression,))


@built_in(Range, "range", native=True)
def range(expression: str) -> Range:
    """Largest value minus smallest; a duration for times.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.range("x"), [5, 9, 2, 7])
    7
    """
    return Range((expression,))


@built_in(BoolAnd, "bool_and", "every", native=True)
def bool_and(condition: str) -> BoolAnd:
    """Whether all values are true.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.bool_and("x"), [True, None, True])
    True
    """
    return BoolAnd((condition,))


@built_in(BoolOr, "bool_or", "some", "any", native=True)
def bool_or(condition: str) -> BoolOr:
    """Whether any value is true.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.bool_or("x"), [False, None, False])
    False
    """
    return BoolOr((condition,))


@built_in(BitAnd, "bit_and", native=True)
def bit_and(expression: str) -> BitAnd:
    """The bits that are set in all integers.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.bit_and("x"), [6, 3])
    2
    """
    return BitAnd((expression,))


@built_in(BitOr, "bit_or", native=True)
def bit_or(expression: str) -> BitOr:
    """The bits that are set in any of the integers.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.bit_or("x"), [6, 3])
    7
    """
    return BitOr((expression,))


@built_in(BitXor, "bit_xor", native=True)
def bit_xor(expression: str) -> BitXor:
    """The bits that are set in an odd number of the integers.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.bit_xor("x"), [6, 3])
    5
    """
    return BitXor((expression,))


@built_in(
    ArgMin,
    *("arg_min", "min_by", "argmin"),
    inputs=2,
    duckdb="first({x} ORDER BY {y} ASC, {order}) FILTER (WHERE {y} IS NOT NULL)",
    native=True,
)
def arg_min(value: str, by: str) -> ArgMin:
    """`value` in the row where `by` is smallest; the earliest of those.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.arg_min("city", "price"), ["Riga", "Rome", "Oslo"], [3, 1, 2])
    'Rome'
    """
    return ArgMin((value, by))


@built_in(
    ArgMax,
    *("arg_max", "max_by", "argmax"),
    inputs=2,
    duckdb="first({x} ORDER BY {y} DESC, {order}) FILTER (WHERE {y} IS NOT NULL)",
    native=True,
)
def arg_max(value: str, by: str) -> ArgMax:
    """`value` in the row where `by` is largest; the earliest of those.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.arg_max("city", "price"), ["Riga", "Rome", "Oslo"], [3, 1, 2])
    'Riga'
    """
    return ArgMax((value, by))


@built_in(
    First, "first", "first_value", duckdb="first({x} ORDER BY {order}) FILTER (WHERE {x} IS NOT NULL)", native=True
)
def first(expression: str) -> First:
    """The value of the earliest row that has one.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.first("x"), [None, 9, 2])
    9
    """
    return First((expression,))


@built_in(Last, "last", "last_value", duckdb="last({x} ORDER BY {order}) FILTER (WHERE {x} IS NOT NULL)", native=True)
def last(expression: str) -> Last:
    """The value of the latest row that has one.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.last("x"), [5, 9, None])
    9
    """
    return Last((expression,))


@built_in(AnyValue, "any_value", native=True)
def any_value(expression: str) -> AnyValue:
    """Any value that is not null; the earliest, so that the same rows always give the same.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.any_value("x"), [None, 3, 4])
    3
    """
    return AnyValue((expression,))


@built_in(M4, "m4", native=True)
def m4(expression: str) -> M4:
    """Min, max, first and last in one: what a line chart needs of a pixel column.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.m4("x"), [5, 9, 2, 7])
    {'min': 2, 'max': 9, 'first': 5, 'last': 7}
    """
    return M4((expression,))


@built_in(
    CollectList,
    *("collect_list", "array_agg"),
    duckdb="coalesce(list({x} ORDER BY {order}) FILTER (WHERE {x} IS NOT NULL), [])",
)
def collect_list(expression: str) -> CollectList:
    """All values that are not null, in event order; an empty list if there are none.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.collect_list("x"), [3, None, 1])
    [3, 1]
    """
    return CollectList((expression,))


def string_agg(expression: str, *, separator: str = "") -> StringAgg:
    """Strings joined, with a separator between them if there is one, in event order.

    >>> import panes as pn
    >>> pn.testing.evaluate(pn.string_agg("x", separator="-"), ["b", None, "a"])
    'b-a'
    """
    return StringAgg((expression,), separator)


@built_in(StringAgg, "string_agg", "listagg")
def _string_agg(expression: str, separator: str = "") -> StringAgg:
    return StringAgg((expression,), separator)


@built_in(SortedStringAgg, SORTED_TEXT, inputs=2)
def _sorted_text(expression: str, by: str, separator: str, descending: bool, nulls_first: bool) -> SortedStringAgg:
    return SortedStringAgg((expression, by), separator, descending, nulls_first)
