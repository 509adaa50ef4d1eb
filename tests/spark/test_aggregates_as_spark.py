"""Every aggregate on Spark itself, over groupBy(window): Panes gives the same on both runners.

Each window of the data is a case: nulls alone, one value, equal values, NaN, infinities, extremes, random rows. What
Spark leaves open (which value, which order) is compared as far as it is determined.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

import panes as pn
from panes.aggregates.registry import names as aggregate_names

pytestmark = pytest.mark.xdist_group("spark")

NAN, INF, MOST = math.nan, math.inf, 2**63 - 1
SCHEMA = pa.schema(
    {
        "ts": pa.timestamp("us", "UTC"),
        "y": pa.float64(),  # anything that a double can be
        "x": pa.float64(),
        "v": pa.float64(),  # numbers of a common size
        "w": pa.float64(),
        "f": pa.float32(),
        "i": pa.int64(),
        "big": pa.int64(),
        "j": pa.int32(),
        "b": pa.bool_(),
        "s": pa.string(),
        "d": pa.decimal128(10, 2),
        "huge": pa.decimal128(38, 0),
        "day": pa.date32(),
        "e": pa.float64(),  # extremes: squares of them are beyond a double
        "u": pa.int64(),  # differs from row to row
    }
)
#: (y, x) of the rows of a window
PAIRS: list[list[tuple[float | None, float | None]]] = [
    [(None, None)],
    [(1.0, 2.0)],
    [(1.0, 2.0), (2.0, 5.0)],
    [(1.0, None), (None, 2.0)],
    [(1.0, 2.0), (3.0, 2.0)],
    [(1.0, 2.0), (1.0, 3.0)],
    [(0.1, 0.3)] * 3,
    [(NAN, 2.0), (1.0, 3.0)],
    [(1.0, NAN), (None, NAN), (2.0, 1.0)],
    [(INF, 2.0), (1.0, 3.0)],
    [(INF, 2.0)],
    [(INF, -INF), (-INF, INF)],
    [(-INF, 1.0), (2.0, 1.0), (3.0, None)],
    [(1.0, 2.0), (2.0, None), (None, 4.0), (4.0, 4.5), (-3.0, 0.25)],
    [(-0.0, 0.0), (0.0, -0.0)],
    [(1e70, 1.0), (-1e70, 2.0), (1e-70, 5.0)],
    [(5e-324, 1e-300), (0.0, 2.0)],
]


@cache
def table() -> pa.Table:
    """A window of ten seconds for each of `PAIRS`, then ten with random rows."""
    r = random.Random("aggregates")
    rows: list[dict[str, Any]] = []
    for window, pairs in enumerate([*PAIRS, *([None] * r.randint(1, 30) for _ in range(10))]):
        nothing = window == 0
        for place, pair in enumerate(pairs):
            y, x = pair or (r.choice([None, r.uniform(-9, 9)]), r.choice([None, r.uniform(-9, 9)]))

            def some(value: Any, nothing: bool = nothing) -> Any:
                return None if nothing or r.random() < 0.15 else value

            row = {
                "ts": (window * 10 + place * 10 // len(pairs)) * 1_000_000,
                "y": y,
                "x": x,
                "v": some(r.uniform(-5, 5)),
                "w": some(float(r.randint(-3, 3))),
                "f": some(r.randint(-40, 40) / 4),
                "i": some(r.randint(-6, 6)),
                "big": some(r.choice([MOST, -MOST, 1, -1])),
                "j": some(r.randint(-100, 100)),
                "b": some(r.random() < 0.6),
                "s": some(r.choice(["a", "b", "é", "", "a b"])),
                "d": some(Decimal(r.randint(-500, 500)).scaleb(-2)),
                "huge": some(r.choice([Decimal(10**38 - 1), Decimal(5), Decimal(-7)])),
                "day": None if nothing else r.randint(18_000, 18_004),
                "e": some(r.choice([1e308, -1e308, 5e-324, 0.0, 1.0])),
                "u": len(rows),
            }
            rows.append(row)
    columns = [pa.array([row[f.name] for row in rows], pa.int32() if f.name == "day" else None) for f in SCHEMA]
    return pa.table([c.cast(f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


Compare = Callable[[Any, Any], bool]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, float) or isinstance(b, float):
        if a is None or b is None:
            return a is b
        a, b = float(a), float(b)
        return a == b or (a != a and b != b) or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    return bool(a == b)


def in_order(a: list[Any], b: list[Any]) -> bool:
    """The same values, in whatever order."""

    def last_if_nan(value: Any) -> tuple[bool, Any]:
        return value != value, value

    return same(sorted(a, key=last_if_nan), sorted(b, key=last_if_nan))


def joined(a: str | None, b: str | None) -> bool:
    """The same pieces of text, in whatever order."""
    return a is b if a is None or b is None else sorted(a.split("|")) == sorted(b.split("|"))


def one_of(a: Any, b: list[Any]) -> bool:
    """Any of the values that Spark lists, and null only if there are none."""
    return a is None if not b else any(same(a, v) for v in b)


def near(a: int, b: int) -> bool:
    """Within three times the error that Spark promises for its own, 5 %."""
    return abs(a - b) <= 0.15 * b


def same_mass(a: list[dict[str, Any]] | None, b: list[dict[str, Any]] | None) -> bool:
    """Histograms of as many values with the same mean, in bins that are in order."""
    if a is None or b is None:
        return a is b
    weight = [sum(bin["y"] for bin in bins) for bins in (a, b)]
    mean = [sum(bin["x"] * bin["y"] for bin in bins) for bins in (a, b)]
    places = [bin["x"] for bin in a]
    return same(weight[0], weight[1]) and same(mean[0], mean[1]) and places == sorted(places) and len(a) <= 3


#: what Panes is asked for, how it is compared, and what Spark is asked for if not for the same
CASES: list[tuple[str, Compare, str | None]] = [
    *((text, same, None) for text in (
        "count(*)", "count(y)", "count(y, x)", "sum(y)", "sum(i)", "sum(d)", "sum(f)", "avg(y)", "mean(i)", "avg(d)",
        "min(y)", "max(y)", "min(e)", "max(e)", "median(e)", "percentile(e, 0.3)", "count(distinct e)",
        "min(s)", "max(s)", "min(b)", "max(day)", "try_sum(y)", "try_sum(i)", "try_avg(y)",
        "try_avg(j)", "try_avg(d)", "stddev(y)", "std(i)", "stddev_samp(d)", "stddev_pop(y)", "variance(y)",
        "var_samp(v)", "var_pop(y)", "skewness(y)", "kurtosis(y)", "skewness(i)", "kurtosis(d)", "skewness(w)",
        "corr(y, x)", "covar_pop(y, x)", "covar_samp(y, x)", "corr(v, w)", "corr(i, d)", "covar_pop(d, i)",
        *(f"regr_{f}({of})" for of in ("y, x", "i, v", "v, w") for f in (
            "avgx", "avgy", "count", "intercept", "r2", "slope", "sxx", "sxy", "syy")),
        "bool_and(b)", "bool_or(b)", "every(b)", "some(b)", "any(b)", "bool_and(i > 0)",
        "count_if(b)", "count_if(y > 1)",
        "bit_and(i)", "bit_or(j)", "bit_xor(big)", "bit_xor(i)", "median(y)", "median(i)", "median(d)", "median(f)",
        "percentile(y, 0.3)", "percentile(big, 0.9)", "percentile(i, array(0.0, 0.07, 0.5, 1.0))",
        "percentile_approx(i, 0.3)", "percentile_approx(d, array(0.1, 0.5, 0.9))", "approx_percentile(v, 0.5, 100)",
        "approx_percentile(j, 0.005, 100)", "percentile_approx(day, 0.5)", "max_by(s, u)", "min_by(y, u)",
        "count(distinct y)", "count(distinct i, s)", "sum(distinct i)", "avg(distinct w)", "sum(distinct d)",
        "median(distinct i)", "stddev(distinct i)", "corr(distinct i, w)",
        "bit_xor(distinct i)", "count_if(distinct b)",
        "skewness(distinct i)", "max(distinct y)", "sum(distinct i) filter (where b)",
        "sum(i) filter (where b)", "count(*) filter (where i > 0)", "corr(v, w) filter (where b)",
        "median(v) filter (where s <> 'a')", "bool_or(b) filter (where i > 2)", "count(distinct s) filter (where b)",
        "regr_slope(v, w) filter (where b)", "max_by(s, u) filter (where b)",
        "histogram_numeric(w, 20)", "histogram_numeric(i, 20)", "percentile_approx(v, 0.4) filter (where b)",
        "sum(i) / count(i)", "coalesce(bit_or(i), 0) & 3",
    )),
    *((text, same, None) for text in (
        "percentile_cont(0.7) within group (order by y)", "percentile_cont(0.2) within group (order by v desc)",
        "percentile_disc(0.7) within group (order by i) filter (where b)",
        "listagg(s, '|') within group (order by u)", "string_agg(s, '|') within group (order by u desc)",
        "listagg(s) within group (order by u) filter (where b)",
    )),
    ("percentile_cont(y, 0.25)", same, "percentile_cont(0.25) within group (order by y)"),
    ("percentile_disc(y, 0.25)", same, "percentile_disc(0.25) within group (order by y)"),
    ("percentile_disc(d, 0.6)", same, "percentile_disc(0.6) within group (order by d)"),
    ("quantile(i, 0.4, 'disc')", same, "percentile_disc(0.4) within group (order by i)"),
    ("mode(i)", same, "mode(i, true)"),
    ("mode(y, true)", same, "mode(y, true)"),
    ("mode(s)", same, "mode(s, true)"),
    ("collect_set(i)", in_order, None),
    ("collect_set(y)", in_order, None),
    ("collect_set(s)", in_order, None),
    ("collect_list(s)", in_order, None),
    ("array_agg(j)", in_order, None),
    ("collect_list(distinct w)", in_order, None),
    ("collect_set(i) filter (where b)", in_order, None),
    ("listagg(s, '|')", joined, None),
    ("string_agg(s, '|')", joined, None),
    ("listagg(distinct s, '|')", joined, None),
    ("listagg(distinct s, '|') within group (order by s)", same,
     "if(count(s) > 0, array_join(array_sort(collect_set(s)), '|'), null)"),
    ("any_value(s)", one_of, "collect_list(s)"),
    ("first(y)", one_of, "collect_list(y)"),
    ("first_value(i)", one_of, "collect_list(i)"),
    ("last(d)", one_of, "collect_list(d)"),
    ("last_value(s)", one_of, "collect_list(s)"),
    ("any_value(i) filter (where b)", one_of, "collect_list(i) filter (where b)"),
    ("approx_count_distinct(i)", near, None),
    ("histogram_numeric(v, 3)", same_mass, None),
]  # fmt: skip
#: ours, which Spark SQL does not have
OWN = {"arg_max", "arg_min", "argmax", "argmin", "geometric_mean", "m4", "max_count", "min_count", "product", "range"}
OWN |= {"count_distinct", "quantile", "quantiles"}


def test_every_aggregate_is_compared() -> None:
    compared = {text.split("(")[0] for text, _, _ in CASES}
    assert set(aggregate_names()) - OWN - compared == set()


def panes_of(source: Any, texts: list[str]) -> Any:
    stream = pn.stream(source, time="ts")
    return stream.window(pn.tumbling("10 s")).agg(**{f"a{i}": text for i, text in enumerate(texts)})


@pytest.fixture(scope="module")
def frame(spark: Any) -> Any:
    return spark.createDataFrame(table()).repartition(2).cache()


@pytest.fixture(scope="module")
def by_spark(spark: Any) -> list[dict[str, Any]]:
    """In one partition, for its histograms list a value twice that comes in two."""
    from pyspark.sql import functions as F

    frame = spark.createDataFrame(table()).coalesce(1)

    asked = {f"a{i}": spark_text or text for i, (text, _, spark_text) in enumerate(CASES)}
    # Spark 4.3 fails on listagg in a given order beside several DISTINCTs
    apart = {name: text for name, text in asked.items() if "within group (order by u" in text}
    together = {name: text for name, text in asked.items() if name not in apart}
    found: list[dict[str, Any]] = []
    for part in (together, apart):
        outputs = [F.expr(text).alias(name) for name, text in part.items()]
        rows = frame.groupBy(F.window("ts", "10 seconds").alias("w")).agg(*outputs).orderBy("w").toArrow().to_pylist()
        found = [{**one, **other} for one, other in zip(found or rows, rows, strict=True)]
    return found


def differences(found: pa.Table, wanted: list[dict[str, Any]], numbers: list[int]) -> list[str]:
    rows = found.sort_by("window_start").to_pylist()
    assert len(rows) == len(wanted)
    return [
        f"{CASES[i][0]} in window {n}: {row[f'a{k}']!r}, Spark {want[f'a{i}']!r}"
        for n, (row, want) in enumerate(zip(rows, wanted, strict=True))
        for k, i in enumerate(numbers)
        if not CASES[i][1](row[f"a{k}"], want[f"a{i}"])
    ]


def test_the_embedded_runner_gives_what_spark_gives(by_spark: list[dict[str, Any]]) -> None:
    found = panes_of(table(), [text for text, _, _ in CASES]).to_arrow()
    assert "\n".join(differences(found, by_spark, list(range(len(CASES))))) == ""


def test_queries_on_spark_give_what_spark_gives(frame: Any, by_spark: list[dict[str, Any]]) -> None:
    found = panes_of(frame, [text for text, _, _ in CASES]).to_spark(strategy="key_groups").toArrow()
    assert differences(found, by_spark, list(range(len(CASES)))) == []


def test_aggregations_of_spark_give_what_spark_gives(frame: Any, by_spark: list[dict[str, Any]]) -> None:
    """What the native strategy takes, it computes with the same results; the rest it refuses."""
    able = []
    for i, (text, _, _) in enumerate(CASES):
        try:
            panes_of(frame, [text]).to_spark(strategy="native")
        except pn.errors.QueryError:
            continue
        able.append(i)
    taken = {CASES[i][0].split("(")[0] for i in able}
    assert {"count", "sum", "try_sum", "bool_and", "any", "bit_xor", "count_if", "any_value", "max_by"} <= taken
    assert not taken & {"corr", "median", "collect_set", "skewness", "histogram_numeric", "regr_slope"}
    found = panes_of(frame, [CASES[i][0] for i in able]).to_spark(strategy="native").toArrow()
    assert differences(found, by_spark, able) == []


OVERFLOWS = [("sum(big)", "try_sum(big)", "big"), ("sum(huge)", "try_sum(huge)", "huge")]


@pytest.mark.parametrize(("raises", "tries", "column"), OVERFLOWS)
def test_sums_beyond_their_type(frame: Any, raises: str, tries: str, column: str) -> None:
    """Spark adds in no certain order, so its try_sum may be null also where the sum of all fits."""
    for strategy in ("native", "key_groups"):
        with pytest.raises(Exception, match=r"64-bit integer|overflow|OVERFLOW|does not fit|38"):
            panes_of(frame, [raises]).to_spark(strategy=strategy).toArrow()
    with pytest.raises(pn.errors.DataError):
        panes_of(table(), [raises]).to_arrow()
    embedded = panes_of(table(), [tries]).to_arrow().sort_by("window_start").column("a0").to_pylist()
    assert panes_of(frame, [tries]).to_spark().toArrow().sort_by("window_start").column("a0").to_pylist() == embedded
    rows = table().to_pylist()
    limit = 2**63 if column == "big" else 10**38
    for window, found in enumerate(embedded):
        values = [r[column] for r in rows if r["ts"].timestamp() // 10 == window and r[column] is not None]
        exact = sum(map(int, values))
        fits = -limit - (column == "big") < exact < limit
        assert found == (exact if values and fits else None)
    assert None in embedded
