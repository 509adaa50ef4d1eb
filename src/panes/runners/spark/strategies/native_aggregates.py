"""Aggregates as Spark's own: what is computed of the rows of a slice, how slices are combined, and the result.

In: an aggregate of a plan and the Columns of its arguments. Out: named parts, which aggregates that need the same
share, and the result as a Column of them. Null, NaN, ties and overflow are as in `panes.aggregates`; what can't be
raises `NoColumn`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panes.aggregates.base import BoundAggregate, Spec
from panes.aggregates.extremes import BoundExtreme, BoundRange, Max, Min
from panes.aggregates.flags import BitAnd, BitOr, BitXor, BoundBits, BoundCountIf
from panes.aggregates.moments import BoundMoments, MergedMoments
from panes.aggregates.order import BoundArg, BoundEnd, BoundM4
from panes.aggregates.totals import (
    BoundCount,
    BoundGeometricMean,
    BoundProduct,
    DecimalTotal,
    FloatTotal,
    NarrowTotal,
    Product,
    Sum,
    WideTotal,
)
from panes.aggregates.types import kind_of
from panes.runners.spark.columns import NoColumn
from panes.slicing.lane import Agg

if TYPE_CHECKING:
    from pyspark.sql import Column

#: Columns of a row besides the arguments: its time, and a number that breaks ties of time as input order does.
TIME, ORDER = "t", "seq"
_LOW = (1 << 32) - 1


@dataclass(frozen=True)
class SlicePart:
    """Something computed of the rows of a slice (`lift`), and of parts of the same name.

    Spark combines parts by `merge`; the engine by the aggregate `fold`, of the part's `fields` if it is made of such.
    """

    lift: Column
    merge: Callable[[Column], Column]
    fold: type[Spec] | None = None
    fields: tuple[str, ...] = ()
    sorted: bool = False  # of a size that varies: Spark sorts rows to find it

    @property
    def nested(self) -> bool:
        """Whether Spark has no aggregate that combines it, only functions of lists."""
        return bool(self.fields)


@dataclass(frozen=True)
class Native:
    """An aggregate in Spark's terms: its parts by name, and its result from them."""

    parts: Mapping[str, SlicePart]
    lower: Callable[[Callable[[str], Column]], Column]
    ordered: bool = False


def native_aggregate(agg: Agg, names: Sequence[str], types: Sequence[pa.DataType]) -> Native:
    """An aggregate over the columns `names` of the frame, whose Arrow types are `types`."""
    rule = RULES.get(type(agg.bound))
    if rule is None:
        raise NoColumn(f"{agg.name} is not an aggregate that Spark can combine from slices with the same result")
    return rule(agg.bound, tuple(names), tuple(types))


def _count(bound: BoundAggregate, names: tuple[str, ...], types: tuple[pa.DataType, ...]) -> Native:
    parts = _number(*names) if len(names) == 1 else _all_there(names) if names else _rows()
    (name,) = parts
    return Native(parts, lambda part: part(name))


def _rows() -> dict[str, SlicePart]:
    from pyspark.sql import functions as F

    return {"rows": SlicePart(F.count(F.lit(1)), F.sum, Sum)}


def _number(name: str) -> dict[str, SlicePart]:
    """How many values there are."""
    from pyspark.sql import functions as F

    return {f"n_{name}": SlicePart(F.count(name), F.sum, Sum)}


def _all_there(names: tuple[str, ...]) -> dict[str, SlicePart]:
    """How many rows have none of the columns null."""
    from pyspark.sql import functions as F

    there = reduce(and_, (F.col(name).isNotNull() for name in names))
    return {f"n_{'_'.join(names)}": SlicePart(F.count(F.when(there, 1)), F.sum, Sum)}


def _count_if(bound: BoundAggregate, names: tuple[str, ...], types: tuple[pa.DataType, ...]) -> Native:
    from pyspark.sql import functions as F

    (name,) = names
    key = f"true_{name}"
    return Native({key: SlicePart(F.count(F.when(F.col(name), 1)), F.sum, Sum)}, lambda part: part(key))


def _bits(bound: BoundBits, names: tuple[str, ...], types: tuple[pa.DataType, ...]) -> Native:
    from pyspark.sql import functions as F

    (name,) = names
    fold = next(cls for cls in (BitAnd, BitOr, BitXor) if cls.ufunc is bound.ufunc)
    merge, key = getattr(F, fold.name), f"{fold.name}_{name}"
    return Native({key: SlicePart(merge(name), merge, fold)}, lambda part: part(key))


def _float_total(bound: FloatTotal, names: tuple[str, ...], types: tuple[pa.DataType, ...]) -> Native:
    from pyspark.sql import functions as F

    (name,) = names
    sums = {f"sum_{name}": SlicePart(F.sum(F.col(name).cast("double")), F.sum, Sum)}
    return _total(bound, name, sums, lambda part: part(f"sum_{name}"))


def _narrow_total(bound: NarrowTotal, names: tuple[str, ...], types: tuple[pa.DataType, ...]) -> Native:
    from pyspark.sql import functions as F

    (name,) = names
    sums = {f"sum_{name}": SlicePart(F.sum(F.col(name).cast("bigint")), F.sum, Sum)}
    return _total(bound, name, sums, lambda part: part(f"sum_{name}"))


def _total(
    bound: Any, name: str, sums: dict[str, SlicePart], value: Callable[[Callable[[str], Column]], Column]
) -> Native:
    if not bound.mean:
        return Native(sums, value)
    n = f"n_{name}"
    return Native({**sums, **_number(name)}, lambda part: _over(value(part).cast("double"), part(n)))


def _over(total: Column, n: Column) -> Column:
    from pyspark.sql import functions as F

    return F.when(n > 0, total / n.cast("double"))


def _wide_total(bound: WideTotal, names: tuple[str, ...], types: tuple[pa.DataType, ...]) -> Native:
    """64-bit integers, added in halves that can't overflow: only a result beyond 64 bits is an error."""
    from pyspark.sql import functions as F

    (name,), (type,) = names, types
    if type != pa.int64():
        raise NoColumn(f"sums of {type} are not known to Spark")
    value = F.col(name)
    parts = {
        f"high_{name}": SlicePart(F.sum(F.shiftright(value, 32)), F.sum, Sum),
        f"low_{name}": SlicePart(F.sum(value.bitwiseAND(F.lit(_LOW))), F.sum, Sum),
    }
    message = (
        f"sum of `{bound.argument}` goes beyond the range of a 64-bit integer; "
        f"cast it to a decimal, for instance sum(cast({bound.argument} as decimal(38,0)))"
    )

    def halves(part: Callable[[str], Column]) -> tuple[Column, Column, Column, Column]:
        high, low = part(f"high_{name}"), part(f"low_{name}")
        top = high + F.shiftright(low, 32)
        fits = (top >= F.lit(-(1 << 31))) & (top < F.lit(1 << 31))
        return high, low, fits, F.shiftleft(top, 32).bitwiseOR(low.bitwiseAND(F.lit(_LOW)))

    def total(part: Callable[[str], Column]) -> Column:
        high, _, fits, exact = halves(part)
        found = F.when(high.isNull() | fits, exact)
        return found if bound.tolerant else found.otherwise(F.raise_error(F.lit(message)).cast("bigint"))

    def mean(part: Callable[[str], Column]) -> Column:
        high, low, fits, exact = halves(part)
        near = high.cast("double") * F.lit(float(1 << 32)) + low.cast("double")
        return _over(F.when(fits, exact.cast("double")).otherwise(near), part(f"n_{name}"))

    return Native({**parts, **_number(name)}, mean) if bound.mean else Native(parts, total)


def _decimal_total(bound: DecimalTotal, names: tuple[str, ...], types: tuple[pa.DataType, ...]) -> Native:
    from pyspark.sql import functions as F

    (name,), (type,) = names, types
    if bound.mean:
        raise NoColumn("averages of decimals are rounded in another way by Spark")
    if bound.tolerant:
        raise NoColumn("a sum of decimals in Spark is null as soon as a part of it goes beyond 38 digits")
    exact = F.col(name).cast(f"decimal(38,{type.scale})")
    return Native({f"sum_{name}": SlicePart(F.sum(exact), F.sum, Sum)}, lambda part: part(f"sum_{name}"))


def _product(bound: BoundAggregate, names: tuple[str, ...], types: tuple[pa.DataType, ...]) -> Native:
    from pyspark.sql import functions as F

    (name,) = names
    parts = {f"product_{name}": SlicePart(F.product(F.col(name).cast("double")), F.product, Product)}
    return Native(parts, lambda part: part(f"product_{name}"))


def _geometric_mean(bound: BoundAggregate, names: tuple[str, ...], types: tuple[pa.DataType, ...]) -> Native:
    from pyspark.sql import functions as F

    (name,) = names
    value = F.col(name).cast("double")
    # Spark has no logarithm of 0 and below
    log = F.when(value == F.lit(0.0), F.lit(float("-inf"))).when(value < F.lit(0.0), F.lit(float("nan")))
    parts = {f"logs_{name}": SlicePart(F.sum(log.otherwise(F.log(value))), F.sum, Sum), **_number(name)}
    return Native(parts, lambda part: F.exp(_over(part(f"logs_{name}"), part(f"n_{name}"))))


def _moments(bound: BoundMoments, names: tuple[str, ...], types: tuple[pa.DataType, ...]) -> Native:
    from pyspark.sql import functions as F

    (name,) = names
    value = F.col(name).cast("double")
    n = F.count(name)
    lift = F.struct(n.alias("n"), F.avg(value).alias("mean"), (F.var_pop(value) * n).alias("m2"))

    def lower(part: Callable[[str], Column]) -> Column:
        found = part(f"moments_{name}")
        freedom = found["n"] if bound.population else found["n"] - 1
        variance = F.when(freedom > 0, found["m2"] / freedom)
        return F.sqrt(variance) if bound.root else variance

    fields = tuple(field.name for field in bound.fields)
    return Native({f"moments_{name}": SlicePart(lift, _merged_moments, MergedMoments, fields)}, lower)


def _merged_moments(part: Column) -> Column:
    """Moments around the mean of all: two passes over the slices of a window, no difference of large squares."""
    from pyspark.sql import functions as F

    some = F.filter(F.collect_list(part), lambda p: p["n"] > 0)
    total = F.aggregate(some, F.lit(0).cast("bigint"), lambda sum, p: sum + p["n"])
    weighted = F.aggregate(some, F.lit(0.0), lambda sum, p: sum + p["n"] * p["mean"])
    centre = F.when(total > 0, weighted / total)

    def around(sum: Column, p: Column) -> Column:
        away = p["mean"] - centre
        return sum + p["m2"] + p["n"] * away * away

    return F.struct(total.alias("n"), centre.alias("mean"), F.aggregate(some, F.lit(0.0), around).alias("m2"))


def _extreme(bound: BoundExtreme, names: tuple[str, ...], types: tuple[pa.DataType, ...]) -> Native:
    (name,), (type,) = names, types
    parts = _end(name, type, largest=bound.largest)
    (key,) = parts
    return Native(parts, lambda part: _normal(part(key), type))


def _end(name: str, type: pa.DataType, *, largest: bool) -> dict[str, SlicePart]:
    from pyspark.sql import functions as F

    choose, fold = (F.max, Max) if largest else (F.min, Min)
    part = SlicePart(choose(name), choose, fold, sorted=kind_of(type) in ("text", "binary"))
    return {f"{fold.name}_{name}": part}


def _normal(value: Column, type: pa.DataType) -> Column:
    """-0.0 as 0.0, so that equal values look equal."""
    from pyspark.sql import functions as F

    return value + F.lit(0.0).cast("float" if type == pa.float32() else "double") if _is_float(type) else value


def _is_float(type: pa.DataType) -> bool:
    return bool(pa.types.is_floating(type))


def _range(bound: BoundRange, names: tuple[str, ...], types: tuple[pa.DataType, ...]) -> Native:
    (name,), (type,) = names, types
    fine = pa.types.is_signed_integer(type) or _is_float(type) or (pa.types.is_decimal(type) and type.precision < 38)
    if not fine:
        raise NoColumn(f"the range of {type} is of a type that Spark computes in another way")
    parts = {**_end(name, type, largest=False), **_end(name, type, largest=True)}

    def lower(part: Callable[[str], Column]) -> Column:
        low, high = part(f"min_{name}"), part(f"max_{name}")
        if pa.types.is_integer(type):
            low, high = low.cast("bigint"), high.cast("bigint")
        return high - low

    return Native(parts, lower)


def _chosen(bound: BoundEnd, names: tuple[str, ...], types: tuple[pa.DataType, ...]) -> Native:
    """First or last: the least or greatest of (time, order, value), of rows that have a value."""
    (name,) = names
    parts = _chosen_part(name, last=bound.last)
    (key,) = parts
    return Native(parts, lambda part: part(key)["value"], ordered=True)


def _chosen_part(name: str, *, last: bool) -> dict[str, SlicePart]:
    from pyspark.sql import functions as F

    choose = F.max if last else F.min
    row = F.struct(F.col(TIME), F.col(ORDER), F.col(name).alias("value"))
    return {
        f"{'last' if last else 'first'}_{name}": SlicePart(
            choose(F.when(F.col(name).isNotNull(), row)), choose, sorted=True
        )
    }


def _arg(bound: BoundArg, names: tuple[str, ...], types: tuple[pa.DataType, ...]) -> Native:
    """The value where another is extreme; the earliest of those."""
    from pyspark.sql import functions as F

    (value, by), (_, by_type) = names, types
    largest = bound.keys[0][1]
    choose, sign = (F.max, F.lit(-1)) if largest else (F.min, F.lit(1))
    key = f"{'arg_max' if largest else 'arg_min'}_{value}_{by}"
    row = F.struct(
        _normal(F.col(by), by_type).alias("by"),
        (F.col(TIME) * sign).alias(TIME),
        (F.col(ORDER) * sign).alias(ORDER),
        F.col(value).alias("value"),
    )
    parts = {key: SlicePart(choose(F.when(F.col(by).isNotNull(), row)), choose, sorted=True)}
    return Native(parts, lambda part: part(key)["value"], ordered=True)


def _m4(bound: BoundM4, names: tuple[str, ...], types: tuple[pa.DataType, ...]) -> Native:
    from pyspark.sql import functions as F

    (name,), (type,) = names, types
    ends = {"min": f"min_{name}", "max": f"max_{name}"}
    chosen = {"first": f"first_{name}", "last": f"last_{name}"}
    parts = {
        **_end(name, type, largest=False),
        **_end(name, type, largest=True),
        **_chosen_part(name, last=False),
        **_chosen_part(name, last=True),
    }

    def lower(part: Callable[[str], Column]) -> Column:
        values = [_normal(part(key), type).alias(label) for label, key in ends.items()]
        values += [part(key)["value"].alias(label) for label, key in chosen.items()]
        return F.when(part(ends["min"]).isNotNull(), F.struct(*values))

    return Native(parts, lower, ordered=True)


RULES: Mapping[type, Callable[[Any, tuple[str, ...], tuple[pa.DataType, ...]], Native]] = {
    BoundCount: _count,
    BoundCountIf: _count_if,
    BoundBits: _bits,
    FloatTotal: _float_total,
    NarrowTotal: _narrow_total,
    WideTotal: _wide_total,
    DecimalTotal: _decimal_total,
    BoundProduct: _product,
    BoundGeometricMean: _geometric_mean,
    BoundMoments: _moments,
    BoundExtreme: _extreme,
    BoundRange: _range,
    BoundEnd: _chosen,
    BoundArg: _arg,
    BoundM4: _m4,
}
