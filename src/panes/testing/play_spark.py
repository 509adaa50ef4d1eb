"""Transcripts on Spark: as a streaming query, micro-batch by micro-batch, or as a static frame.

On Spark the watermark of a micro-batch is that of the rows before it. So that every row meets the watermark
that it would meet in the embedded runner, rows are cut into micro-batches before a row that is late only
because of rows of its own batch.

An explicit watermark is made by rows too: the stream gets one more key column, and a bound that is longer than
the whole transcript; "the watermark is now T" is a row at T + bound under another value of that key, whose
results are left out.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from panes.api.stream import Query
from panes.errors import QueryError
from panes.testing.micro_batches import MicroBatches
from panes.testing.transcript import Ledger, Transcript, TranscriptStep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MARKER = "panes_marker"
_PARTITIONS = "spark.sql.shuffle.partitions"


def play_stream(transcript: Transcript, spark: SparkSession) -> None:
    """Every step is one micro-batch or more of a streaming query."""
    ledger = Ledger(transcript)
    with tempfile.TemporaryDirectory(prefix="panes-transcript-") as folder, _one_partition(spark):
        feed = _Marked(transcript, spark) if transcript.manual else _Feed(transcript, spark)
        running = _Running(feed.query, folder)
        try:
            for step in transcript.steps:
                if step.action == "finish":
                    return  # a stream on Spark has no end, so nothing can be said about what comes with it
                if step.action == "restart":
                    running.stop()
                    running.start()
                else:
                    for table in feed.batches(step):
                        feed.source.add(table)
                        running.catch_up()
                for row in feed.shown(running.take()):
                    _sort_out(row, transcript, ledger)
                ledger.check(step)
        finally:
            running.stop()
    ledger.close()


def play_static(transcript: Transcript, spark: SparkSession) -> None:
    """All rows at once; what the steps expect, together."""
    schema = transcript.query().operator().spec.schema
    feed = MicroBatchCutter(transcript)
    tables = []
    for step in transcript.steps:
        if step.action == "rows":
            table = transcript.rows(step, schema)
            tables.append(table)
            feed.refuse_late(step, table)
        elif step.action == "watermark":
            feed.reached = max(feed.reached, feed.domain.point(step.value))
    if not tables or transcript.steps[-1].action != "finish":
        raise QueryError("a static frame is a stream that has ended: the transcript needs finish as its last step")
    frame = spark.createDataFrame(pa.concat_tables(tables))
    ledger = Ledger(transcript)
    for row in transcript.query(frame).to_spark(late=True, key_groups=2).toArrow().to_pylist():
        _sort_out(row, transcript, ledger)
    ledger.check(all_steps(transcript.steps))
    ledger.close()


def all_steps(steps: Sequence[TranscriptStep]) -> TranscriptStep:
    """One step that expects what these expect together."""
    expect = [row for step in steps for row in step.expect or ()]
    late = [row for step in steps for row in step.late or ()]
    mentions_late = any(step.late is not None for step in steps)
    return TranscriptStep(len(steps), "all steps", None, expect, late if mentions_late else None)


def _sort_out(row: dict[str, Any], transcript: Transcript, ledger: Ledger) -> None:
    """A row of Spark's output is a result or a late row."""
    reason, late = row.pop("late_reason"), row.pop("late_row")
    if reason is None:
        ledger.results.append(row)
    else:
        late.pop(_MARKER, None)
        ledger.late.append({**late, "reason": reason})


class MicroBatchCutter:
    """Knows the watermark of the embedded runner, row by row."""

    def __init__(self, transcript: Transcript) -> None:
        plan = transcript.query()._plan.stream
        self.domain = plan.domain
        self.time = plan.time
        self.bound = None if transcript.manual else int(plan.watermark or 0)
        self.reached = -(2**63)  # by the rows before

    def late(self, table: pa.Table) -> np.ndarray:
        """Of each row whether it is late, given those before it; the watermark then is that of all."""
        times = table.column(self.time).fill_null(-1).cast(pa.int64()).to_numpy()
        valid = table.column(self.time).is_valid().to_numpy(zero_copy_only=False)
        before = np.full(len(times), self.reached)
        if self.bound is not None and len(times):
            highest = np.maximum.accumulate(np.where(valid, times - self.bound, self.reached))
            before[1:] = np.maximum(self.reached, highest[:-1])
            self.reached = max(self.reached, int(highest[-1]))
        return valid & (times < before)

    def refuse_late(self, step: TranscriptStep, table: pa.Table) -> None:
        if self.late(table).any():
            raise QueryError(f"{step} has a late row, and in a static frame there is no watermark to be late for")

    def cut(self, table: pa.Table) -> Iterator[pa.Table]:
        """The rows in micro-batches, such that none is late because of rows of its own batch."""
        first = 0
        for at in np.flatnonzero(self.late(table)):
            if at > first:
                yield table.slice(first, at - first)
            first = int(at)
        yield table.slice(first)


class _Feed:
    """Steps to micro-batches, for a stream whose watermark follows its rows."""

    def __init__(self, transcript: Transcript, spark: SparkSession) -> None:
        self._transcript = transcript
        self._cutter = MicroBatchCutter(transcript)
        self.schema = transcript.query().operator().spec.schema
        self.source = MicroBatches(spark, schema=self.schema)
        self.query = transcript.query(self.source.frame)

    def batches(self, step: TranscriptStep) -> Iterator[pa.Table]:
        return self._cutter.cut(self._transcript.rows(step, self.schema))

    def shown(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return rows


class _Marked(_Feed):
    """The same for explicit watermarks: rows under another key move it."""

    def __init__(self, transcript: Transcript, spark: SparkSession) -> None:
        self._transcript = transcript
        plain = transcript.query().operator().spec
        self._domain, self._time = plain.domain, transcript.stream["time"]
        tables = [transcript.rows(s, plain.schema) for s in transcript.steps if s.action == "rows"]
        points = [plain.domain.point(s.value) for s in transcript.steps if s.action == "watermark"]
        times = [t for table in tables for t in table.column(self._time).drop_null().cast(pa.int64()).to_pylist()]
        self._bound = max([*times, *points, 0]) - min([*times, *points, 0]) + 1
        self.plain = plain.schema
        # a row like those of the transcript: windows of users' own may not expect nulls
        nulls = pa.Table.from_arrays([pa.nulls(1, f.type) for f in self.plain], schema=self.plain)
        self._example = next((table.slice(0, 1) for table in tables if table.num_rows), nulls)
        schema = self.plain.append(pa.field(_MARKER, pa.bool_()))
        self.source = MicroBatches(spark, schema=schema)
        key = transcript.stream.get("key") or []
        where = transcript.stream.get("where")
        unit = {} if plain.domain.integer else {"watermark": f"{self._bound} {plain.domain.unit}"}
        self.query = transcript.query(
            self.source.frame,
            key=[*([key] if isinstance(key, str) else key), _MARKER],
            **{"watermark": self._bound, **unit},
            **({} if where is None else {"where": f"({where}) or {_MARKER}"}),
        )

    def batches(self, step: TranscriptStep) -> Iterator[pa.Table]:
        marked = step.action == "watermark"
        if marked:
            at = pa.array([self._domain.point(step.value) + self._bound]).cast(self.plain.field(self._time).type)
            rows = self._example.set_column(self.plain.get_field_index(self._time), self._time, at)
        else:
            rows = self._transcript.rows(step, self.plain)
        yield rows.append_column(_MARKER, pa.array([marked] * rows.num_rows, pa.bool_()))

    def shown(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        ours = []
        for row in rows:
            marker = row.pop(_MARKER)
            if not (marker if row["late_row"] is None else row["late_row"][_MARKER]):
                ours.append(row)
        return ours


class _Running:
    """A streaming query whose results are kept here, by micro-batch: a repeated one replaces itself."""

    def __init__(self, query: Query, folder: str) -> None:
        # a transcript says what rows make due, and Spark's own windows would come a micro-batch later
        self._frame = query.to_spark(late=True, key_groups=2, close="at once")
        self._folder = folder
        self._given: dict[int, list[dict[str, Any]]] = {}
        self._taken = -1
        self.start()

    def start(self) -> None:
        def keep(batch: Any, number: int) -> None:
            self._given[number] = batch.toArrow().to_pylist()

        writer = self._frame.writeStream.foreachBatch(keep).option("checkpointLocation", self._folder)
        self._query = writer.start()

    def stop(self) -> None:
        self._query.stop()

    def catch_up(self) -> None:
        self._query.processAllAvailable()

    def take(self) -> list[dict[str, Any]]:
        """Rows of the micro-batches since the last call."""
        new = sorted(number for number in self._given if number > self._taken)
        self._taken = new[-1] if new else self._taken
        return [row for number in new for row in self._given[number]]


@contextlib.contextmanager
def _one_partition(spark: SparkSession) -> Iterator[None]:
    """Transcripts are small: one task per micro-batch is quickest."""
    before = spark.conf.get(_PARTITIONS)
    spark.conf.set(_PARTITIONS, "1")
    try:
        yield
    finally:
        spark.conf.set(_PARTITIONS, str(before))
