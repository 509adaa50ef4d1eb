"""explain() over a Spark frame: the strategy chosen and why, the others, the watermark, the settings."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import panes as pn
from panes import operators
from panes.plan.explain import Explanation

pytestmark = pytest.mark.xdist_group("spark")


def _query(frame: Any, window: Any, **options: Any) -> Any:
    return pn.stream(frame, time="ts", key="k", **options).window(w=window).agg(n="count(*)")


@pytest.fixture(scope="module")
def frame(spark: Any) -> Any:
    return spark.createDataFrame([], "ts timestamp, k bigint")


def test_explain_of_a_static_frame_says_why_each_strategy_can_or_can_not(frame: Any) -> None:
    text = str(_query(frame, pn.tumbling("1 s")).explain())
    assert text.startswith("Stream      time ts, per k")
    for part in (
        "Chosen      native, the cheapest of the 2 that can run this query",
        "native_sessions  can't: window 'w' is no session",
        "key_groups       can, at 1 times the cost of key_groups",
        "16 for key_groups, over 2 shuffle partitions",
        "a static frame has none",
        "nothing need change",
        "limits   no late rows",
    ):
        assert part in text


def test_explain_says_when_only_one_strategy_can(frame: Any) -> None:
    found = _query(frame, pn.tumbling(pn.rows(3))).explain()
    assert found.chosen == "key_groups, the only one that can run this query"
    assert [c.strategy.name for c in found.choices if c.refusal is None] == ["key_groups"]


def test_explain_of_a_stream_says_strategy_and_watermark(spark: Any) -> None:
    frame = spark.readStream.format("rate").load().selectExpr("timestamp as ts", "value as k")
    found = _query(frame, pn.tumbling("1 s"), watermark="2 s").explain()
    assert found.chosen.startswith("native, the cheapest of the")
    assert "minus 2000 ms" in found.watermark
    assert "native_overlaps  can, at" in str(found)
    often = _query(frame, pn.sliding("60 s", every="1 s"), watermark="2 s").explain()
    assert often.chosen.startswith("key_groups, the cheapest of the")
    assert "native           can, but only if asked for: on a stream it may call other rows late" in str(often)
    manual = _query(frame, pn.tumbling("1 s"), watermark="manual").explain()
    assert "no meaning on Spark" in manual.watermark


def test_settings_that_should_change_are_named(spark: Any, frame: Any) -> None:
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        found = _query(frame, pn.tumbling("1 s")).explain()
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)
    assert any("spark.sql.ansi.enabled is false" in said for said in found.settings)


def test_embedded_queries_are_explained_as_before() -> None:
    table = pa.table({"ts": [1, 2], "k": [1, 2]})
    found = _query(table, pn.tumbling(5)).explain()
    assert type(found) is Explanation
    assert "On Spark" not in str(found)


def test_explain_says_what_windows_over_operators_run_on(spark: Any) -> None:
    frame = spark.readStream.format("rate").load().selectExpr("timestamp as ts", "value as k")
    once = pn.stream(frame, time="ts", watermark="2 s").dedupe("k", window=operators.sliding(operators.time("9 s")))
    found = once.window(w=pn.tumbling("1 s")).agg(n="count(*)").explain()
    assert found.key_groups.startswith("1 for key_groups, with the operators")
