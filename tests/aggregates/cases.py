"""Which aggregates are tested on which types, and random columns of each type."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from panes import aggregates as pn
from panes.aggregates.base import Aggregate, Inputs
from panes.aggregates.columns import column_from_arrow
from panes.aggregates.distinct import distinct
from panes.aggregates.pairs import FUNCTIONS as PAIRS
from panes.aggregates.pairs import OfPairs
from panes.aggregates.rows import SortedStringAgg

AGGREGATES: dict[str, Aggregate] = {
    "count": pn.count("x"),
    "sum": pn.sum("x"),
    "avg": pn.avg("x"),
    "min": pn.min("x"),
    "max": pn.max("x"),
    "min_count": pn.min_count("x"),
    "max_count": pn.max_count("x"),
    "range": pn.range("x"),
    "first": pn.first("x"),
    "last": pn.last("x"),
    "stddev": pn.stddev("x"),
    "variance": pn.variance("x"),
    "stddev_pop": pn.stddev("x", population=True),
    "var_pop": pn.variance("x", population=True),
    "geometric_mean": pn.geometric_mean("x"),
    "product": pn.product("x"),
    "count_distinct": pn.count_distinct("x"),
    "median": pn.median("x"),
    "q90": pn.quantile("x", 0.9),
    "q07": pn.quantile("x", 0.07, method="disc"),
    "lower": pn.quantile("x", 0.3, method="lower"),
    "higher": pn.quantile("x", 0.3, method="higher"),
    "nearest": pn.quantile("x", 0.75, method="nearest"),
    "quantiles": pn.quantiles("x", [0, 0.25, 1.0]),
    "elements": pn.quantiles("x", [0, 0.25, 1.0], method="disc"),
    "mode": pn.mode("x"),
    "collect_list": pn.collect_list("x"),
    "string_agg": pn.string_agg("x", separator="|"),
    "m4": pn.m4("x"),
    "arg_min": pn.arg_min("x", "y"),
    "arg_max": pn.arg_max("x", "y"),
    "any_value": pn.any_value("x"),
    "bool_and": pn.bool_and("x"),
    "bool_or": pn.bool_or("x"),
    "count_if": pn.count_if("x"),
    "bit_and": pn.bit_and("x"),
    "bit_or": pn.bit_or("x"),
    "bit_xor": pn.bit_xor("x"),
    "try_sum": pn.try_sum("x"),
    "try_avg": pn.try_avg("x"),
    "skewness": pn.skewness("x"),
    "kurtosis": pn.kurtosis("x"),
    "collect_set": pn.collect_set("x"),
    "histogram_numeric": pn.histogram_numeric("x", 3),
    "percentile_approx": pn.percentile_approx("x", 0.4),
    "sorted text": SortedStringAgg(("x", "y"), "|"),
    "sorted text, last first": SortedStringAgg(("x", "y"), "|", descending=True, nulls_first=False),
    "count both": pn.count("x", "y"),
    "sum distinct": distinct(pn.sum("x")),
    "count distinct both": distinct(pn.count("x", "y")),
    "list distinct": distinct(pn.collect_list("x")),
    **{name: OfPairs(("x", "y"), name) for name in PAIRS},
}

_ANY = ["count", "min", "max", "min_count", "max_count", "first", "last", "count_distinct"]
_ANY += ["q07", "lower", "higher", "nearest", "elements", "mode", "collect_list", "m4", "arg_min", "arg_max"]
_ANY += ["any_value", "collect_set", "percentile_approx", "count both", "count distinct both", "list distinct"]
_NUMERIC = ["sum", "avg", "stddev", "variance", "stddev_pop", "var_pop", "product", "geometric_mean", "range"]
_NUMERIC += ["try_sum", "try_avg", "skewness", "kurtosis", "histogram_numeric", "sum distinct", *PAIRS]
_TEXT = ["string_agg", "sorted text", "sorted text, last first"]
_BITS = ["bit_and", "bit_or", "bit_xor"]
_BETWEEN = ["median", "q90", "quantiles"]
_NUMERIC += _BETWEEN

_NANS = [math.nan, math.inf, -math.inf, -0.0, 0.0]


def _small(r: random.Random) -> int:
    return r.randint(-4, 4)


def _wide(bits: int, signed: bool) -> Callable[[random.Random], int]:
    low = -(1 << (bits - 1)) if signed else 0
    high = (1 << (bits - 1 if signed else bits)) - 1

    def draw(r: random.Random) -> int:
        return r.choice([low, high, high - 1, low + 1, 0, 1, 2, r.randint(low, high)])

    return draw


def _word(r: random.Random) -> str:
    return r.choice(["", "a", "b", "ab", "ä", "z", "\U0001f600", "zz"])


#: type name -> (Arrow type, how to draw a value, aggregates it is fit for)
TYPES: dict[str, tuple[pa.DataType, Callable[[random.Random], Any], list[str]]] = {
    "int64": (pa.int64(), _small, _ANY + _NUMERIC + _BITS),
    "int32": (pa.int32(), _small, _ANY + _NUMERIC),
    "int8": (pa.int8(), _wide(8, True), [*_ANY, *_BITS, *_BETWEEN, "sum", "avg", "range"]),
    "int16": (pa.int16(), _wide(16, True), [*_ANY, *_BETWEEN, "sum", "avg", "range"]),
    "uint8": (pa.uint8(), _wide(8, False), [*_ANY, *_BETWEEN, "sum", "avg", "range"]),
    "uint32": (pa.uint32(), _wide(32, False), [*_ANY, *_BITS, *_BETWEEN, "sum", "avg", "range"]),
    "wide int64": (pa.int64(), _wide(64, True), [*_ANY, *_BITS, "try_sum", "try_avg", *_BETWEEN, "avg"]),
    "wide uint64": (pa.uint64(), _wide(64, False), [*_ANY, *_BETWEEN, "avg", "range"]),
    "float64": (pa.float64(), lambda r: r.choice([r.uniform(-5, 5), float(_small(r))]), _ANY + _NUMERIC),
    "float64 with NaN": (
        pa.float64(),
        lambda r: r.choice([*_NANS, 1.0, 2.0, 3.0]),
        [
            *_ANY,
            *_BETWEEN,
            "sum",
            "avg",
            "variance",
            "stddev",
            "var_pop",
            "product",
            "geometric_mean",
            "skewness",
            "kurtosis",
            "try_sum",
            "sum distinct",
            *PAIRS,
        ],
    ),
    "float32": (pa.float32(), lambda r: float(np.float32(r.uniform(-5, 5))), [*_ANY, *_BETWEEN, "sum", "avg"]),
    "float16": (pa.float16(), lambda r: float(np.float16(r.uniform(-5, 5))), [*_ANY, *_BETWEEN, "sum", "avg"]),
    "time": (pa.time32("s"), lambda r: dt.time(0, 0, r.randint(0, 5)), _ANY),
    "boolean": (pa.bool_(), lambda r: r.random() < 0.5, [*_ANY, "bool_and", "bool_or", "count_if"]),
    "decimal": (
        pa.decimal128(20, 2),
        lambda r: Decimal(r.randint(-500, 500)).scaleb(-2),
        [*_ANY, *_BETWEEN, "sum", "avg", "range"],
    ),
    "long decimal": (
        pa.decimal128(38, 3),
        lambda r: Decimal(r.randint(-(10**33), 10**33)).scaleb(-3),
        [*_ANY, *_BETWEEN, "sum", "range", "try_sum"],
    ),
    "timestamp": (
        pa.timestamp("us"),
        lambda r: dt.datetime(1969, 12, 31, 23, 59, 58) + dt.timedelta(microseconds=r.randint(0, 5)),
        [*_ANY, "range"],
    ),
    "timestamp with zone": (
        pa.timestamp("ms", "UTC"),
        lambda r: dt.datetime(2024, 1, 1, 0, 0, r.randint(0, 5), tzinfo=dt.timezone.utc),
        _ANY,
    ),
    "date": (pa.date32(), lambda r: dt.date(1970, 1, 1) + dt.timedelta(days=_small(r)), [*_ANY, "range"]),
    "duration": (pa.duration("us"), lambda r: dt.timedelta(seconds=_small(r)), [*_ANY, "range"]),
    "string": (pa.string(), _word, [*_ANY, *_TEXT]),
    "large string": (pa.large_string(), _word, [*_ANY, *_TEXT]),
    "binary": (pa.binary(), lambda r: r.choice([b"", b"a", b"\xff"]), _ANY),
    "list": (pa.list_(pa.int64()), lambda r: [_small(r)], ["count", "first", "last", "collect_list", "any_value"]),
}

MATRIX = [(name, type_name) for type_name, (_, _, fit) in TYPES.items() for name in fit]


class Sample:
    """Random rows of one type in random segments, and the same rows as Python values."""

    def __init__(self, type_name: str, seed: int, *, rows: int | None = None, shuffled: bool = True) -> None:
        self.type, draw, _ = TYPES[type_name]
        r = random.Random(f"{type_name}/{seed}")
        n = r.choice([0, 1, 2, 7, 40]) if rows is None else rows
        nulls = r.choice([0.0, 0.3, 1.0]) if rows is None else r.choice([0.0, 0.1])
        self.values = [None if r.random() < nulls else draw(r) for _ in range(n)]
        self.by = [None if r.random() < 0.2 else r.choice([1.0, 2.0, math.nan, r.random()]) for _ in range(n)]
        segments = r.choice([1, 2, 3, 9]) if rows is None else r.choice([1, 3, 700])
        cuts = sorted(r.randint(0, n) for _ in range(segments - 1))
        self.offsets = np.array([0, *cuts, n], np.int64)
        self.times = [r.randint(-3, 3) if rows is None else r.randint(0, n) for _ in range(n)]
        self.seq = list(range(n))
        if shuffled:
            r.shuffle(self.seq)
        else:
            self.times.sort()

    def inputs(self, name: str) -> Inputs:
        columns = [column_from_arrow(pa.array(self.values, self.type))]
        if len(AGGREGATES[name].inputs) == 2:
            columns.append(column_from_arrow(pa.array(self.by, pa.float64())))
        return Inputs(tuple(columns), np.array(self.times, np.int64), np.array(self.seq, np.int64), len(self.values))

    def types(self, name: str) -> list[pa.DataType]:
        return [self.type, pa.float64()][: len(AGGREGATES[name].inputs)]

    def rows(self, name: str, index: Any) -> list[tuple[Any, ...]]:
        if len(AGGREGATES[name].inputs) == 2:
            return [(self.values[i], self.by[i], self.times[i], self.seq[i]) for i in index]
        return [(self.values[i], self.times[i], self.seq[i]) for i in index]

    def segment_rows(self, name: str) -> list[list[tuple[Any, ...]]]:
        bounds = self.offsets.tolist()
        return [self.rows(name, range(a, b)) for a, b in pairwise(bounds)]
