"""`pn.progress` and `pn.watch`: what is said of a running stream."""

from __future__ import annotations

import io
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pytest

import panes as pn
from panes.errors import QueryError
from panes.runners.spark.progress import line, progress, watch
from panes.testing import micro_batches


def report(batch: int, *, rows: int = 10, late: int = 0, watermark: str | None = None, worked: bool = True) -> Any:
    from pyspark.sql.streaming.listener import StreamingQueryProgress

    nothing = {"description": "", "numOutputRows": 0}
    return StreamingQueryProgress.fromJson(
        {
            "id": "00000000-0000-0000-0000-000000000001",
            "runId": "00000000-0000-0000-0000-000000000002",
            "name": None,
            "timestamp": "",
            "batchId": batch,
            "batchDuration": 500,
            "durationMs": {"triggerExecution": 500, **({"addBatch": 400} if worked else {})},
            "eventTime": {"watermark": watermark} if watermark else {},
            "stateOperators": [],
            "sources": [],
            "sink": nothing,
            "numInputRows": rows,
            "inputRowsPerSecond": 20.0,
            "processedRowsPerSecond": rows * 2.0,
            "observedMetrics": {
                "panes": {"rows": rows, "rows_late": late, "results": 3, "state_bytes": 2048, "written": 100}
            },
        }
    )


class Stream:
    """A query as Spark shows it; ends once all its reports have been given."""

    name = "q"

    def __init__(self, run: str, *reports: Any) -> None:
        self.runId = run
        self.given: list[Any] = []
        self.coming = list(reports)

    @property
    def isActive(self) -> bool:
        return bool(self.coming)

    @property
    def recentProgress(self) -> list[Any]:
        return self.given[-100:]

    @property
    def lastProgress(self) -> Any:
        return self.given[-1] if self.given else None

    def awaitTermination(self, timeout: float) -> bool:
        if self.coming:
            self.given.append(self.coming.pop(0))
        return not self.coming


def all_given(stream: Stream) -> Any:
    while not stream.awaitTermination(0):
        pass
    return stream


def test_before_the_first_batch_nothing_is_known() -> None:
    facts = progress(Stream("empty"))
    assert facts["batch"] is facts["watermark"] is facts["late_rows"] is None
    assert line(facts) == "waiting for the first rows"


def test_sums_count_every_batch_once() -> None:
    stream = all_given(Stream("sums", *(report(i, late=i % 2) for i in range(10))))
    for _ in range(3):
        facts = progress(stream)
    sums = {"rows": 100, "late_rows": 5, "missed_groups": 0, "results": 30}
    assert facts["total"] == {"from_batch": 0, "batches": 10, **sums}
    assert facts["late_rows"] == 1
    assert facts["seconds"] == 0.5


def test_sums_say_where_they_begin_if_reports_were_missed() -> None:
    stream = all_given(Stream("missed", *(report(i) for i in range(250))))
    assert progress(stream)["total"]["from_batch"] == 150
    assert progress(stream)["total"]["rows"] == 1000


def test_waiting_is_no_batch_and_speed_is_that_of_rows() -> None:
    stream = all_given(Stream("waits", report(0), report(1, rows=0), report(2, rows=0, worked=False)))
    facts = progress(stream)
    assert facts["batch"] == 1
    assert facts["rows_per_second"] == 20.0


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (None, None),
        ("1970-01-01T00:00:00.000Z", None),
        ("2015-09-12T08:05:30.250Z", datetime(2015, 9, 12, 8, 5, 30, 250_000, timezone.utc)),
        ("+73326-09-11T20:14:45.248Z", 0),
        ("+73326-09-11T20:14:44.242Z", -1006),
    ],
)
def test_the_watermark_is_in_terms_of_the_time_column(said: str | None, meant: Any) -> None:
    stream = all_given(Stream(f"watermark {said}", report(0, watermark=said)))
    assert progress(stream)["watermark"] == meant


def test_watch_gives_a_line_per_batch_when_nobody_looks() -> None:
    out = io.StringIO()
    facts = watch(Stream("plain", *(report(i, late=1) for i in range(3))), every="1 ms", file=out)  # type: ignore[arg-type]
    lines = out.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[-1] == "batch 2, 30 rows, 20 rows/s, watermark not yet, 9 results, 3 late, state 2.0 kB"
    assert not facts["running"]


def test_watch_keeps_one_line_in_a_terminal() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    watch(Stream("live", *(report(i) for i in range(5))), every="1 ms", file=out)  # type: ignore[arg-type]
    assert "\x1b[" in out.getvalue()  # the line is drawn over
    assert "batch 4, 50 rows" in out.getvalue()


def test_every_must_be_a_time() -> None:
    with pytest.raises(QueryError, match="every"):
        watch(Stream("wrong"), every="1 month")  # type: ignore[arg-type]


def test_a_stream_of_sparks_own_windows_says_what_they_missed(spark: Any, tmp_path: Any) -> None:
    tables = [pa.table({"t": pa.array(t, pa.int64())}) for t in ([0, 60], [61], [5, 7, 30, 90])]
    query = pn.stream(micro_batches(spark, tables), time="t", watermark=10).window(w=pn.tumbling(20)).agg(n="count(*)")
    writer = query.to_spark().writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    facts = pn.watch(writer.trigger(availableNow=True).start(), file=io.StringIO())
    # 5 and 7 in one window, 30 in another
    assert facts["total"]["missed_groups"] == 2
    assert facts["total"]["late_rows"] is None
    assert "2 late groups of rows" in line(facts)


def test_progress_of_a_stream_counts_as_the_embedded_operator(spark: Any, tmp_path: Any) -> None:
    """Rows, late ones, results and watermark of a stream on Spark, as the embedded operator counts them."""
    times = [[0, 10, 30, 60], [61], [5, 90, 7]]
    tables = [pa.table({"t": pa.array(t, pa.int64()), "v": pa.array(t, pa.int64())}) for t in times]
    query = pn.stream(micro_batches(spark, tables), time="t", watermark=10).window(w=pn.tumbling(20)).agg(n="count(*)")
    stream = (
        query.to_spark(strategy="key_groups")
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    facts = pn.watch(stream, file=io.StringIO())
    assert facts == pn.progress(stream)
    assert facts["watermark"] == 80
    assert {n: facts["total"][n] for n in ("rows", "late_rows", "results")} == {"rows": 8, "late_rows": 2, "results": 3}
    assert facts["store_bytes"] > 0
    with pytest.raises(QueryError, match=r"metrics is known .*; of a stream on Spark, pn\.progress\(running\) has it"):
        _ = query.metrics
    with pytest.raises(QueryError, match=r"late is known .*; of a stream on Spark, to_spark\(late=True\)"):
        _ = query.late
