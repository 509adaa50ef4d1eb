"""Random queries for the native strategies, and how their results are compared."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa

import panes as pn

ROWS = 600
#: Whole numbers as doubles: their sums are exact in every order.
AGGREGATES = (
    "count(*)", "count(v)", "sum(v)", "avg(v)", "min(v)", "max(v)", "range(v)", "sum(i)", "avg(i)", "max(i)", "sum(j)",
    "avg(j)", "range(j)", "min(s)", "max(s)", "min(b)", "first(v)", "last(s)", "arg_max(s, v)", "arg_min(v, j)",
    "m4(v)", "sum(dec)", "max(dec)", "range(dec)", "stddev(v)", "var_pop(v)", "product(j)", "geometric_mean(abs(v))",
    "sum(v) / count(v)", "max(v) - min(v)", "sum(v * 2) filter (where j > 3)", "count(s) filter (where s <> 'a')",
    "coalesce(sum(j), 0) % 7", "if(max(v) > 50, 'high', 'low')", "max(ts)", "min(f)", "avg(f)", "sum(nan)", "max(nan)",
    "min(nan)", "count_if(j > 3)", "bool_and(b)", "bool_or(v > 90)", "bit_and(j)", "bit_or(i)", "bit_xor(j)",
    "try_sum(i)", "try_avg(v)", "any_value(s)", "count(v, j)", "geometric_mean(j)", "geometric_mean(v)",
)  # fmt: skip
CONDITIONS = ("j <> 3", "s is not null and v > -20", "i % 2 = 0 or j in (1, 2)")


def rows(seed: int = 1, n: int = ROWS) -> pa.Table:
    """Rows with ties, nulls, null times, NaN and times before 1970."""
    rng = np.random.default_rng(seed)
    t = rng.integers(-20, 400, n) * 50_000  # few different times: many ties
    times = pa.array(t, pa.timestamp("us", tz="UTC"), mask=rng.random(n) < 0.02)
    v = rng.integers(-50, 100, n).astype(float)
    return pa.table(
        {
            "ts": times,
            "ntz": times.cast(pa.timestamp("us")),
            "n": pa.array(t // 50_000, pa.int64()),
            "small": pa.array(t // 50_000, pa.int32()),
            "k": pa.array(rng.integers(0, 4, n), mask=rng.random(n) < 0.1),
            "k2": pa.array(rng.choice(["x", "y"], n)),
            "v": pa.array(v, mask=rng.random(n) < 0.1),
            "nan": pa.array(np.where(rng.random(n) < 0.05, np.nan, v)),
            "f": pa.array(v, pa.float32()),
            "i": pa.array(rng.integers(-(2**61), 2**61, n) // 8),
            "j": pa.array(rng.integers(0, 9, n), pa.int32(), mask=rng.random(n) < 0.1),
            "s": pa.array(rng.choice(["a", "b", "é", None], n)),
            "b": pa.array(rng.random(n) < 0.5),
            "dec": pa.array([round(x, 2) for x in rng.integers(0, 999, n) / 100]).cast(pa.decimal128(10, 2)),
        }
    )


def frame_of(spark: Any, table: pa.Table) -> Any:
    """Rows as a Spark frame with times of both kinds."""
    from pyspark.sql import functions as F

    return spark.createDataFrame(table).withColumn("ntz", F.col("ntz").cast("timestamp_ntz"))


def random_windows(rng: np.random.Generator, most: int, ticks: bool) -> dict[str, Any]:
    """Windows in multiples of 100 ms; on integer time in ticks."""

    def size(low: int, high: int) -> Any:
        n = int(rng.integers(low, high))
        return n if ticks else f"{n * 100} ms"

    def one() -> Any:
        kind = rng.integers(0, 6)
        offset = size(0, 9) if rng.random() < 0.3 else None
        if kind == 0:
            return pn.tumbling(size(1, 40), offset=offset)
        if kind == 1:
            return pn.sliding(size(5, 60), every=size(2, 20), offset=offset)
        if kind == 2:
            return pn.sliding(size(2, 5), every=size(6, 30), offset=offset)
        if kind == 3:
            step = int(rng.integers(1, 9))
            return pn.cumulate(
                step if ticks else f"{step} s", max=step * 4 if ticks else f"{step * 4} s", offset=offset
            )
        if kind == 4 and not ticks:
            return pn.fixed("1970-01-01T00:00:01Z", "1970-01-01T00:00:07.3Z")
        return pn.tumbling(size(1, 40))

    return {f"w{n}": one() for n in range(int(rng.integers(1, most + 1)))}


def random_query(frame: Any, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    time = str(rng.choice(["ts", "ntz", "n", "small"]))
    keys = [None, "k", ("k", "k2")][int(rng.integers(0, 3))]
    stream = pn.stream(frame, time=time, key=keys, watermark=None if rng.random() < 0.5 else "1 s")
    if rng.random() < 0.5:
        stream = stream.where(str(rng.choice(CONDITIONS)))
    chosen = rng.choice(len(AGGREGATES), int(rng.integers(2, 9)), replace=False)
    outputs = {f"o{i}": AGGREGATES[i] for i in chosen}
    return stream.window(**random_windows(rng, 4, time in ("n", "small"))).agg(**outputs)


def same_results(one: pa.Table, other: pa.Table) -> str | None:
    """What differs between two tables of results, whatever their order; floats may differ in the last digits."""
    if one.schema != other.schema:
        return f"{one.schema}\n{other.schema}"
    a, b = (sorted(map(_values, t.to_pylist()), key=_sort_key) for t in (one, other))
    if len(a) != len(b):
        return f"{len(a)} results and {len(b)}"
    names = one.column_names
    for x, y in zip(a, b):
        for name, p, q in zip(names, x, y):
            if not _same(p, q):
                return f"{name}: {p!r} and {q!r} in {dict(zip(names, x))}"
    return None


def _values(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row.values())


def _sort_key(values: tuple[Any, ...]) -> str:
    return repr([v for v in values if not isinstance(v, float | dict)])


def _same(p: Any, q: Any) -> bool:
    if isinstance(p, float) and isinstance(q, float):
        return p == q or (math.isnan(p) and math.isnan(q)) or math.isclose(p, q, rel_tol=1e-12, abs_tol=1e-9)
    return bool(p == q)
