"""Streams that go quiet, on Spark: beats of a clock that stands in a file, so nothing waits for time to pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

import panes as pn
from panes.errors import QueryError
from panes.plan.query import StreamPlan
from panes.plan.silence import Silence
from panes.runners.spark.beats import BEAT, PULSE, Clocked, Heard, Packed, beat_bytes, heard, period_of
from panes.runners.spark.sources.beats import ClockReader
from panes.testing import FileClock, MicroBatches
from panes.windows.base import ALWAYS

SECOND = 1_000_000
SCHEMA = {"ts": "bigint", "k": "string"}


def rows(*seconds: int, k: str = "a") -> list[dict[str, Any]]:
    return [{"ts": s * 1000, "k": k} for s in seconds]


def plan_of(**silence: Any) -> StreamPlan:
    made = pn.stream([{"ts": 1}], time="ts")._plan
    return StreamPlan(made.scope, made.time, made.domain, silence=Silence(**silence))


def test_groups_go_by_what_the_clock_said() -> None:
    stream = plan_of(idle=30 * SECOND)
    state, tick = Clocked().hear(Heard(100 * SECOND, False), stream, ALWAYS)
    assert (state, tick) == (Clocked(100 * SECOND, 100 * SECOND), ALWAYS)
    state, tick = state.hear(Heard(110 * SECOND, True), stream, 5_000)  # rows came, for some group or another
    assert (state, tick) == (Clocked(110 * SECOND, 110 * SECOND), ALWAYS)
    state, tick = state.hear(Heard(139 * SECOND, False), stream, 8_000)
    assert tick == ALWAYS
    state, tick = state.hear(Heard(140 * SECOND, False), stream, 8_000)
    assert tick == 38_000
    state, tick = state.hear(Heard(150 * SECOND, False), stream, 38_000)  # from where the rows left it, not the clock
    assert tick == 48_000
    state, tick = state.hear(Heard(None, True), stream, 48_000)  # rows that come now are judged by it
    assert (state, tick) == (Clocked(150 * SECOND, 150 * SECOND), 48_000)


def test_arrival_is_where_the_clock_is() -> None:
    state, tick = Clocked().hear(Heard(7 * SECOND, False), plan_of(arrives=True), ALWAYS)
    assert tick == 7 * SECOND
    assert state.hear(Heard(None, False), plan_of(arrives=True), tick)[1] == tick


def test_beats_and_pulses_are_no_rows() -> None:
    packed = Packed([BEAT, 0, PULSE], [0, 3, 0], [beat_bytes(5), b"rows", b""])
    assert heard(packed) == (Heard(5, True), Packed([0], [3], [b"rows"]))
    assert heard(Packed([PULSE], [0], [b""])) == (Heard(None, True), Packed([], [], []))
    assert heard(Packed([], [], [])) == (Heard(None, False), Packed([], [], []))


def test_offsets_are_what_the_clock_said(tmp_path: Path) -> None:
    clock = FileClock(tmp_path / "now", start=3_500_000)
    reader = ClockReader([7, 8], SECOND, str(clock.path))
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert end == {"now": 3 * SECOND}
    (partition,) = reader.partitions(start, end)
    (batch,) = reader.read(partition)
    assert batch.column("panes_group").to_pylist() == [7, 8]
    assert batch.column("panes_rows").to_pylist() == [beat_bytes(3 * SECOND)] * 2
    clock.advance(400_000)
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    assert reader.partitions(end, end) == []
    clock.advance(SECOND)
    reader.prepareForTriggerAvailableNow()
    assert reader.latestOffset(end, ReadAllAvailable()) == end


def test_how_often_it_beats() -> None:
    assert [period_of(Silence(idle=s * SECOND)) for s in (1, 8, 600)] == [SECOND, 2 * SECOND, 10 * SECOND]


class Live:
    """A query that runs, into files."""

    def __init__(self, spark: Any, frame: Any, place: Path) -> None:
        self._spark, self._frame, self._place = spark, frame, place
        self.start()

    def start(self) -> None:
        writer = self._frame.writeStream.format("parquet").option("checkpointLocation", str(self._place / "ck"))
        self.query = writer.option("path", str(self._place / "out")).start()

    def given(self) -> list[tuple[Any, ...]]:
        self.query.processAllAvailable()
        table: pa.Table = self._spark.read.schema(self._frame.schema).parquet(str(self._place / "out")).toArrow()
        return sorted((r["k"], r["window_start"], r["n"]) for r in table.to_pylist())


def test_windows_close_on_a_quiet_stream(spark: Any, tmp_path: Path) -> None:
    clock = FileClock(tmp_path / "now", start=1000 * SECOND)
    data = MicroBatches(spark, [rows(1, 4) + rows(3, k="b")], schema=SCHEMA, folder=tmp_path / "in")
    made = pn.stream(data.frame, time="ts", key="k", idle="4 s", clock=clock)
    query = made.window(pn.tumbling("10 s")).agg(n="count(*)")
    live = Live(spark, query.to_spark(key_groups=2), tmp_path)
    assert live.given() == []
    clock.advance(3 * SECOND)
    assert live.given() == []  # 4 + 3 s, and it has been silent for 3 s only
    clock.advance(4 * SECOND)
    closed = [("a", 0, 2), ("b", 0, 1)]
    assert live.given() == closed  # 4 + 7 s
    data.add(rows(5, 12))  # the clock is past the first of them
    clock.advance(SECOND)
    assert live.given() == closed
    # the driver dies before the last micro-batch is committed: it is repeated, and the clock says the same
    live.query.stop()
    last = max((tmp_path / "ck" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    live.start()
    clock.advance(20 * SECOND)
    assert live.given() == [("a", 0, 2), ("a", 10_000, 1), ("b", 0, 1)]
    live.query.stop()


def test_with_available_now_it_does_nothing(spark: Any, run_stream: Callable[..., pa.Table], tmp_path: Path) -> None:
    clock = FileClock(tmp_path / "now", start=1000 * SECOND)
    data = MicroBatches(spark, [rows(1, 4), rows(6)], schema=SCHEMA, folder=tmp_path / "in")
    made = pn.stream(data.frame, time="ts", idle="4 s", clock=clock).window(pn.tumbling("5 s")).agg(n="count(*)")
    assert run_stream(made.to_spark())["n"].to_pylist() == [2]


def test_system_time_windows_close(spark: Any, tmp_path: Path) -> None:
    data = MicroBatches(spark, [rows(1, 4)], schema=SCHEMA, folder=tmp_path / "in")
    by_arrival = pn.stream(data.frame, time=pn.arrival(), key="k")
    made = by_arrival.window(pn.tumbling("1 s")).agg(n="count(*)")
    assert "key_groups" in str(made.explain())
    with pytest.raises(QueryError, match="the clock moves the watermark"):
        made.to_spark(strategy="native")
    # rows are stamped by Spark; the clock of the beats stands still until it is told, and then is far ahead
    clock = FileClock(tmp_path / "now")
    told = replace(by_arrival._plan, silence=Silence(arrives=True, clock=clock))
    made = replace(by_arrival, _plan=told).window(pn.tumbling("1 s")).agg(n="count(*)")
    live = Live(spark, made.to_spark(key_groups=2), tmp_path)
    assert live.given() == []
    clock.advance_to(4_000_000_000 * SECOND)
    assert [(k, n) for k, _, n in live.given()] == [("a", 2)]
    live.query.stop()


def test_a_silent_side_does_not_hold_up_system_time(spark: Any, tmp_path: Path) -> None:
    clock = FileClock(tmp_path / "now")
    busy = MicroBatches(spark, [rows(1, 4)], schema=SCHEMA, folder=tmp_path / "in").frame
    silent = MicroBatches(spark, schema=SCHEMA, folder=tmp_path / "none").frame
    both = pn.merge(*(pn.stream(frame, time=pn.arrival(), key="k") for frame in (busy, silent)))
    both = replace(both, _plan=replace(both._plan, silence=Silence(arrives=True, clock=clock)))
    live = Live(spark, both.window(pn.tumbling("1 s")).agg(n="count(*)").to_spark(key_groups=2), tmp_path)
    assert live.given() == []
    clock.advance_to(4_000_000_000 * SECOND)
    assert [(k, n) for k, _, n in live.given()] == [("a", 2)]
    live.query.stop()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda s: s(timeout="1 s").window(pn.tumbling(5)).agg(n="count(*)"), "timeout='1 s'"),
        (lambda s: s(timeout="1 s").select("k"), "timeout='1 s'"),
        (lambda s: pn.merge(s(idle="1 s"), s(idle="1 s")).window(pn.tumbling(5)).agg(n="count(*)"), "merged"),
        (lambda s: s(idle="1 s").dedupe("k", window=pn.operators.sliding(pn.operators.count(3))), "operators"),
        (lambda s: s(idle="1 s", clock=pn.testing.FakeClock()).window(pn.tumbling(5)).agg(n="count(*)"), "clock of"),
    ],
)
def test_wrong_uses_of_clocks_on_spark_are_refused(
    spark: Any, tmp_path: Path, make: Callable[..., Any], message: str
) -> None:
    frame = MicroBatches(spark, schema=SCHEMA, folder=tmp_path / "in").frame
    with pytest.raises(QueryError, match=message):
        make(lambda **options: pn.stream(frame, time="ts", **options)).to_spark()
