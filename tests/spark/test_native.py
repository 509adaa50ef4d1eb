"""The native strategy on static frames: the results of the key-group operator, and of Spark's own window()."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import pyarrow as pa
import pytest

import panes as pn
from panes.aggregates.registry import SORTED_TEXT, entries
from panes.errors import QueryError
from panes.runners.spark.runner import choose
from panes.runners.spark.strategies import native_aggregates
from panes.runners.spark.strategies.card import StrategyJob
from tests.spark.native_cases import frame_of, random_query, rows, same_results

pytestmark = pytest.mark.xdist_group("spark")
#: What aggregates are asked for beside their arguments.
OPTIONS = dict.fromkeys(("quantile", "percentile", "percentile_disc", "percentile_approx"), (0.5,))
OPTIONS |= {"histogram_numeric": (3,), SORTED_TEXT: (",", False, True)}


@pytest.fixture(scope="module")
def frame(spark: Any) -> Any:
    found = frame_of(spark, rows()).repartition(2).cache()
    found.count()
    return found


def _both(query: Any, strategy: str = "native") -> tuple[Any, Any]:
    return query.to_spark(strategy=strategy), query.to_spark(strategy="key_groups")


@pytest.mark.parametrize("seed", range(12))
def test_random_queries_agree_with_the_key_group_operator(frame: Any, seed: int) -> None:
    native, groups = _both(random_query(frame, seed))
    assert native.schema == groups.schema
    assert same_results(native.toArrow(), groups.toArrow()) is None


def test_spark_window_is_the_oracle(frame: Any) -> None:
    from pyspark.sql import functions as F

    query = pn.stream(frame, time="ts", key="k").window(pn.sliding("7 s", every="2 s")).agg(n="count(*)", s="sum(v)")
    found = query.to_spark(strategy="native").drop("window", "revision").toArrow()
    windows = frame.groupBy("k", F.window("ts", "7 seconds", "2 seconds").alias("w"))
    oracle = windows.agg(F.count("*").alias("n"), F.sum("v").alias("s"))
    expected = oracle.select("k", F.col("w.start").alias("window_start"), F.col("w.end").alias("window_end"), "n", "s")
    assert same_results(found, expected.toArrow().cast(found.schema)) is None


def test_many_windows_stay_one_small_plan(frame: Any) -> None:
    many = {f"w{n}": pn.tumbling(f"{n} s") for n in range(1, 301)}
    query = pn.stream(frame, time="ts").window(**many).agg(n="count(*)")
    native, groups = _both(query)
    assert len(native._jdf.queryExecution().analyzed().toString().splitlines()) < 40
    assert same_results(native.toArrow(), groups.toArrow()) is None


def test_fine_times_of_other_sources(spark: Any) -> None:
    table = pa.table({"ts": pa.array([0, 999, 1000, 2500], pa.timestamp("ms")), "v": [1, 2, 3, 4]})
    query = pn.stream(table, time="ts").window(pn.tumbling("1 s")).agg(s="sum(v)")
    native, groups = _both(query)
    assert same_results(native.toArrow(), groups.toArrow()) is None
    assert sorted(r["s"] for r in native.collect()) == [3, 3, 4]


def test_sums_beyond_64_bits_are_errors_but_their_parts_are_not(spark: Any) -> None:
    from pyspark.errors import PySparkException

    big = 2**63 - 1
    table = pa.table({"t": [0, 1, 2, 10, 11], "v": [big, big, -big, big, 1]})
    stream = pn.stream(spark.createDataFrame(table), time="t")
    fits = stream.where("t < 10").window(pn.tumbling(5)).agg(s="sum(v)").to_spark(strategy="native")
    assert [r["s"] for r in fits.collect()] == [big]
    means = stream.window(pn.tumbling(5)).agg(a="avg(v)")
    assert same_results(*(f.toArrow() for f in _both(means))) is None
    with pytest.raises(PySparkException, match="goes beyond the range of a 64-bit integer"):
        stream.window(pn.tumbling(5)).agg(s="sum(v)").to_spark(strategy="native").collect()


def test_geometric_means_of_zeros_and_negative_values_are_the_embedded_ones(spark: Any) -> None:
    table = pa.table({"t": [0, 1, 10, 11, 20, 21, 30, 31, 40], "v": [2.0, 8, 0, 4, -1, 4, None, 3, None]})

    def means(data: Any) -> Any:
        return pn.stream(data, time="t").window(pn.tumbling(10)).agg(g="geometric_mean(v)")

    embedded = means(table).to_arrow()
    assert [None if g is None else round(g, 9) for g in embedded["g"].to_pylist()[:2]] == [4.0, 0.0]
    assert math.isnan(embedded["g"][2].as_py())
    assert embedded["g"].to_pylist()[3:] == [pytest.approx(3.0), None]
    for frame in _both(means(spark.createDataFrame(table))):
        found = frame.toArrow()
        assert same_results(found, embedded.select(found.column_names).cast(found.schema)) is None


def test_the_table_of_aggregates_says_which_are_native() -> None:
    kinds = (pa.float64(), pa.int64(), pa.bool_(), pa.string())
    for entry in (each for each in entries() if each.names):
        inputs, options = ["x", "y"][: entry.inputs or 1], OPTIONS.get(entry.names[0], ())
        bound = []
        for kind in kinds:
            with contextlib.suppress(QueryError):
                bound.append(entry.make(*inputs, *options).bind([kind] * len(inputs)))
        assert bound, entry.names
        assert any(type(b) in native_aggregates.RULES for b in bound) == entry.native, entry.names


def test_times_that_are_none_are_left_out(spark: Any) -> None:
    table = pa.table({"t": pa.array([None, 2**62 + 1, -(2**62) - 1, 3]), "v": [1, 2, 3, 4]})
    query = pn.stream(spark.createDataFrame(table), time="t").window(pn.tumbling(5)).agg(s="sum(v)")
    assert [r["s"] for r in query.to_spark(strategy="native").collect()] == [4]


def test_lateness_does_not_matter_on_static_frames(frame: Any) -> None:
    stream = pn.stream(frame, time="ts", key="k", watermark="1 s", lateness="1 s")
    native, groups = _both(stream.window(pn.tumbling("3 s")).agg(n="count(*)"))
    assert native.columns[-1] == "void"
    assert native.schema == groups.schema
    assert same_results(native.toArrow(), groups.toArrow()) is None


REFUSED: list[tuple[str, Any, dict[str, Any], dict[str, Any], str]] = [
    ("rows", pn.tumbling(pn.rows(3)), {"a": "count(*)"}, {}, "not multiples of a step of event time"),
    ("session", pn.session("1 s"), {"a": "count(*)"}, {}, "not multiples of a step of event time"),
    ("calendar", pn.tumbling("1 month"), {"a": "count(*)"}, {}, "not multiples of a step of event time"),
    ("landmark", pn.landmark("1970-01-01", every="1 s"), {"a": "count(*)"}, {}, "not multiples of a step"),
    ("median", pn.tumbling("1 s"), {"a": "median(v)"}, {}, "not an aggregate that Spark can combine"),
    ("decimal mean", pn.tumbling("1 s"), {"a": "avg(dec)"}, {}, "rounded in another way"),
    ("text of floats", pn.tumbling("1 s"), {"a": "max(cast(v as string))"}, {}, "writes as text in another way"),
    ("late rows", pn.tumbling("1 s"), {"a": "count(*)"}, {"late": True}, "late rows can't be given"),
    ("restore", pn.tumbling("1 s"), {"a": "count(*)"}, {"restore": b"x"}, "can't start from a snapshot"),
]


@pytest.mark.parametrize(
    ("window", "outputs", "options", "reason"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_refusals_name_the_reason(frame: Any, window: Any, outputs: Any, options: Any, reason: str) -> None:
    query = pn.stream(frame, time="ts", key="k").window(window).agg(**outputs)
    with pytest.raises(QueryError, match=reason):
        query.to_spark(strategy="native", **options)


def test_empty_windows_are_refused(frame: Any) -> None:
    query = pn.stream(frame, time="ts").window(pn.tumbling("1 s"), emit_empty=True).agg(n="count(*)")
    with pytest.raises(QueryError, match="emit_empty"):
        query.to_spark(strategy="native")


@pytest.mark.parametrize(
    ("setting", "value", "time", "output", "refused"),
    [
        ("spark.sql.ansi.enabled", "false", "ts", "sum(j + 1)", True),
        ("spark.sql.ansi.enabled", "false", "ts", "sum(j)", False),
        ("spark.sql.session.timeZone", "Europe/Berlin", "ts", "max(hour(ts))", True),
        ("spark.sql.session.timeZone", "Europe/Berlin", "ntz", "sum(j)", True),
        ("spark.sql.session.timeZone", "Europe/Berlin", "ts", "sum(j)", False),
    ],
)
def test_settings_that_change_results_are_refused(
    spark: Any, frame: Any, setting: str, value: str, time: str, output: str, refused: bool
) -> None:
    query = pn.stream(frame, time=time).window(pn.tumbling("1 s")).agg(s=output)
    before = spark.conf.get(setting)
    spark.conf.set(setting, value)
    try:
        if refused:
            with pytest.raises(QueryError, match=setting):
                query.to_spark(strategy="native")
        else:
            query.to_spark(strategy="native")
    finally:
        spark.conf.set(setting, before)


@pytest.mark.parametrize(
    ("windows", "outputs", "chosen"),
    [
        ({"w": pn.tumbling("1 s")}, {"s": "sum(v)"}, "native"),
        ({"w": pn.sliding("60 s", every="1 s")}, {"s": "sum(v)"}, "native"),
        ({f"w{n}": pn.tumbling(f"{n} s") for n in range(1, 21)}, {"s": "sum(v)"}, "native"),
        ({"w": pn.tumbling("1 s")}, {"s": "variance(v)"}, "native"),
        ({"w": pn.sliding("600 s", every="1 s")}, {"s": "sum(v)"}, "key_groups"),
        ({"w": pn.sliding("60 s", every="1 s")}, {"s": "variance(v)"}, "key_groups"),
        ({"w": pn.tumbling("1 s")}, {"s": "last(v)"}, "key_groups"),
        ({"w": pn.tumbling("1 s")}, {"s": "median(v)"}, "key_groups"),
        ({"w": pn.session("1 s")}, {"s": "sum(v)"}, "key_groups"),
        ({"w": pn.tumbling(pn.rows(5))}, {"s": "sum(v)"}, "key_groups"),
    ],
)
def test_the_cheapest_is_chosen(frame: Any, windows: Any, outputs: Any, chosen: str) -> None:
    query = pn.stream(frame, time="ts", key="k").window(**windows).agg(**outputs)
    assert choose(StrategyJob(query._plan, frame)).name == chosen


def test_unknown_strategies_are_refused_by_name(frame: Any) -> None:
    query = pn.stream(frame, time="ts").window(pn.tumbling("1 s")).agg(n="count(*)")
    with pytest.raises(QueryError, match="native, native_overlaps, native_sessions, key_groups"):
        query.to_spark(strategy="fastest")
