"""The clock as a streaming source: a beat for every key group, now and then.

Offsets are what the clock said, in microseconds, so a micro-batch that is repeated hears the same. With the trigger
availableNow it says nothing: nobody waits for rows that are not there yet.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from panes.runners.spark.beats import BEAT, beat_bytes
from panes.runners.spark.packing import PACKED_ROWS, packed_rows
from panes.runners.spark.sources.folders import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = "panes_clock"


def beats(spark: SparkSession, labels: Sequence[int], period: int, clock: str | None = None) -> DataFrame:
    """Beats every so many microseconds, packed for the groups with these labels; `clock`: a file that has the time."""
    register(spark, ClockSource)
    reader = spark.readStream.format(FORMAT).schema(PACKED_ROWS)
    if clock is not None:
        reader = reader.option("clock", clock)
    return reader.option("labels", json.dumps(list(labels))).option("period", str(period)).load()


class ClockSource(DataSource):
    """Spark's way to the clock; options `labels`, `period` and, for tests, `clock`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        clock = self.options.get("clock")
        return ClockReader(json.loads(self.options["labels"]), int(self.options["period"]), clock)


@dataclass
class ClockBeat(InputPartition):
    """What the clock said."""

    now: int


class ClockReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are moments, whole periods since 1970."""

    def __init__(self, labels: Sequence[int], period: int, clock: str | None = None) -> None:
        self._labels = labels
        self._period = period
        self._clock = None if clock is None else Path(clock)
        self._silent = False

    def initialOffset(self) -> dict:
        return {"now": 0}

    def prepareForTriggerAvailableNow(self) -> None:
        self._silent = True

    def latestOffset(self, start: dict, limit: ReadLimit) -> dict:
        if self._silent:
            return start
        now = time.time_ns() // 1000 if self._clock is None else int(self._clock.read_text())
        return {"now": max(start["now"], now // self._period * self._period)}

    def partitions(self, start: dict, end: dict) -> Sequence[InputPartition]:
        return [ClockBeat(end["now"])] if end["now"] > start["now"] else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ClockBeat)
        n = len(self._labels)
        yield packed_rows(self._labels, [BEAT] * n, [0] * n, [beat_bytes(partition.now)] * n)
