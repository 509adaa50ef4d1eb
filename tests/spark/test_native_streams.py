"""Native strategies on streams: the results of the operator where no row is late; and what is refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import panes as pn
from panes.errors import QueryError
from panes.runners.spark.event_time import PassedTime
from panes.runners.spark.runner import choose
from panes.runners.spark.strategies.card import StrategyJob
from panes.runners.spark.strategies.native_windows import Slices, StreamCells
from panes.windows.base import ALWAYS, ContextFree
from tests.spark.native_cases import random_windows, rows, same_results

pytestmark = pytest.mark.xdist_group("spark")

COLUMNS = ["ts", "n", "k", "v", "i", "j"]


def in_order() -> pa.Table:
    """Rows in the order of time, after 1970."""
    table = rows(3, 300)
    table = table.filter(pc.and_(pc.is_valid(table["ts"]), pc.greater_equal(table["n"], 0))).sort_by("n")
    return table.select(COLUMNS)


@pytest.fixture(scope="module")
def stream(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Rows in the order of time, after 1970, in three micro-batches."""
    folder = tmp_path_factory.mktemp("rows")
    table = in_order()
    for part in range(3):
        path = folder / f"{part}.parquet"
        pq.write_table(table.slice(part * len(table) // 3, len(table) // 3), path)
        os.utime(path, (part + 1, part + 1))
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


MANY = {
    "a": pn.tumbling("700 ms"),
    "b": pn.sliding("5 s", every="1300 ms", offset="300 ms"),
    "c": pn.sliding("400 ms", every="3 s"),
    "d": pn.cumulate("1 s", max="4 s"),
    "e": pn.tumbling("2 s"),
    "f": pn.fixed("1970-01-01 00:00:03", "1970-01-01 00:00:09"),
}
CASES: list[tuple[str, str, str | None, dict[str, Any], str]] = [
    ("tumbling", "ts", "k", {"w": pn.tumbling("1 s", offset="300 ms")}, "native"),
    ("integer time", "n", None, {"w": pn.sliding(20, every=5, offset=3), "v": pn.tumbling(7)}, "native"),
    ("many", "ts", "k", MANY, "native"),
    ("sessions", "ts", "k", {"w": pn.session("100 ms")}, "native_sessions"),
]


@pytest.mark.parametrize(("time", "key", "windows", "strategy"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_agree_with_the_operator_where_no_row_is_late(
    stream: Any, run_stream: Callable[..., pa.Table], time: str, key: str | None, windows: Any, strategy: str
) -> None:
    def query(data: Any) -> Any:
        rows_of = pn.stream(data, time=time, key=key, watermark="1 s" if time == "ts" else 20)
        return rows_of.where("j <> 3").window(**windows).agg(n="count(*)", s="sum(v)", i="avg(i)", d="stddev(v)")

    found = run_stream(query(stream).to_spark(strategy=strategy), "native")
    expected = query(in_order()).operator().push(in_order()).table.cast(found.schema)
    # windows that end in the cell that the watermark is in come when it has passed that
    given = expected.filter(pc.less_equal(expected["window_end"], pc.max(found["window_end"])))
    assert len(given) >= max(5, 0.9 * len(expected))
    assert same_results(found, given) is None


@pytest.mark.parametrize(
    ("windows", "outputs", "options", "reason"),
    [
        ({f"w{i}": pn.tumbling(f"{997 + 2 * i} ms") for i in range(40)}, {"n": "count(*)"}, {}, "40 different rhythms"),
        ({"a": pn.tumbling("1 s"), "b": pn.session("2 s")}, {"n": "count(*)"}, {}, "window 'b'"),
        ({"a": pn.tumbling("1 s")}, {"n": "last(v)"}, {}, "order of rows of one time"),
        ({"a": pn.tumbling("1 s")}, {"n": "count(*)"}, {"lateness": "1 s"}, "can't be corrected"),
        ({"a": pn.tumbling("1 s")}, {"n": "count(*)"}, {"watermark": "manual"}, "no meaning on Spark"),
    ],
)
def test_refusals_name_the_reason(stream: Any, windows: Any, outputs: Any, options: Any, reason: str) -> None:
    query = pn.stream(stream, time="ts", **{"watermark": "1 s", **options}).window(**windows).agg(**outputs)
    with pytest.raises(QueryError, match=reason):
        query.to_spark(strategy="native")


def test_many_windows_go_on_after_a_restart(spark: Any, run_stream: Callable[..., pa.Table], tmp_path: Path) -> None:
    """Rows up to a second late, in four micro-batches, with a restart after two of them."""
    rng = np.random.default_rng(5)
    times = pa.array(np.arange(400) * 50_000 + rng.integers(0, 900_000, 400), pa.timestamp("us", tz="UTC"))
    times = pc.if_else(rng.random(400) < 0.95, times, None)
    table = pa.table({"ts": times, "k": rng.integers(0, 3, 400)})
    (tmp_path / "rows").mkdir()
    one = spark.readStream.option("maxFilesPerTrigger", 1)
    frame = one.schema("ts timestamp, k bigint").parquet(f"{tmp_path}/rows")

    def query(data: Any) -> Any:
        return pn.stream(data, time="ts", key="k", watermark="1 s").window(**MANY).agg(n="count(*)", last="max(ts)")

    for part in range(4):
        path = tmp_path / "rows" / f"{part}.parquet"
        pq.write_table(table.slice(part * 100, 100), path)
        os.utime(path, (part + 1, part + 1))
        if part % 2:
            found = run_stream(query(frame).to_spark(strategy="native", key_groups=4), "native")
    expected = query(table).operator().push(table).table.cast(found.schema)
    given = expected.filter(pc.less_equal(expected["window_end"], pc.max(found["window_end"])))
    assert len(given) > 0.9 * len(expected)
    assert same_results(found, given) is None


@pytest.mark.parametrize("seed", range(40))
def test_every_edge_of_every_window_is_one_of_a_slice(seed: int) -> None:
    rng = np.random.default_rng(seed)
    query = pn.stream(in_order(), time="n").window(**random_windows(rng, 5, ticks=True)).agg(n="count(*)")
    cells = StreamCells.of(Slices.of(query._plan), 1)
    low, high = -200, 700
    windows = [window for _, window in query._plan.bound if isinstance(window, ContextFree)]
    assert len(windows) == len(query._plan.bound)
    wanted = {int(e) for window in windows for e in window.edges(low, high)}
    found = {t for t in range(low, high + 1) if (t - cells.phase) % cells.length == 0 or t in cells.points}
    found |= {t for t in range(low, high + 1) for r in cells.rhythms if (t - r.phase) % r.step == 0}
    assert wanted <= found
    assert len(found) <= 2 * len(wanted) + 20


def test_the_watermark_is_at_the_beginning_of_its_cell() -> None:
    time = PassedTime(up=1, down=1000, shift=0, bound=0, length=700_000, phase=100_000)
    assert [time.watermark(ms) for ms in (99, 100, 799, 800, 801)] == [-600_000, 100_000, 100_000, 800_000, 800_000]
    assert [time.millis(us) for us in (99_999, 100_000, 100_001, 800_000)] == [100, 100, 800, 800]
    assert time.watermark(0) == ALWAYS


def test_sessions_without_a_key_are_refused(stream: Any) -> None:
    query = pn.stream(stream, time="ts").window(pn.session("1 s")).agg(n="count(*)")
    with pytest.raises(QueryError, match="without a key"):
        query.to_spark(strategy="native_sessions")


def test_the_planner_takes_what_is_fastest_and_gives_the_same(stream: Any) -> None:
    """Slices are shared by windows, but natively a row is late that is behind its slice: that must be asked for."""
    chosen = {}
    for name, window in {
        "tumbling": pn.tumbling("1 s"),
        "twice": pn.sliding("2 s", every="1 s"),
        "often": pn.sliding("60 s", every="1 s"),
        "apart": pn.sliding("1 s", every="3 s"),
        "session": pn.session("1 s"),
        "rows": pn.tumbling(pn.rows(5)),
    }.items():
        query = pn.stream(stream, time="ts").window(window).agg(n="count(*)")
        chosen[name] = choose(StrategyJob(query._plan, stream)).name
    assert chosen == {
        "tumbling": "native", "twice": "native_overlaps", "often": "key_groups", "apart": "native",
        "session": "key_groups", "rows": "key_groups",
    }  # fmt: skip
    query = pn.stream(stream, time="ts").window(pn.tumbling("1 s")).agg(n="count(*)")
    for asked in ({"late": True}, {"at_once": True}, {"inside": True}):
        assert choose(StrategyJob(query._plan, stream, **asked)).name == "key_groups"


def test_a_row_behind_the_watermark_counts_in_windows_that_are_open(
    spark: Any, run_stream: Callable[..., pa.Table], tmp_path: Path
) -> None:
    """On both strategies, as in Spark itself."""
    times = ([0, 4_500], [3_000, 1_000], [20_000], [20_001])
    for part, millis in enumerate(times):
        path = tmp_path / f"{part}.parquet"
        pq.write_table(pa.table({"ts": pa.array(millis, pa.timestamp("ms", tz="UTC"))}), path)
        os.utime(path, (part + 1, part + 1))
    frame = spark.readStream.schema("ts timestamp").option("maxFilesPerTrigger", 1).parquet(f"{tmp_path}/*.parquet")
    query = pn.stream(frame, time="ts", watermark="1 s").window(pn.tumbling("5 s")).agg(n="count(*)")
    counts = {s: run_stream(query.to_spark(strategy=s), s)["n"].to_pylist() for s in ("native", "key_groups")}
    assert counts == {"native": [4], "key_groups": [4]}
