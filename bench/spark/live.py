"""A stream that comes row by row by the clock: row n of a run is there n / rate seconds after its beginning.

Spark's own rate source gives a whole second of rows at a time, at a fraction of the second that depends on when it
was started. That is up to a second of waiting which has nothing to do with what is measured.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from bench.spark.data import SCHEMA
from panes.runners.spark.sources.folders import RowRange, register, shares

_KEYS = 1000
_PARTITIONS = 2


def live(spark: Any, rows_per_s: int, began: float) -> Any:
    """Events from the second `began` of the clock on, each with the time at which it comes."""
    register(spark, LiveEvents)
    reader = spark.readStream.format(LiveEvents.name())
    return reader.option("rows_per_s", str(rows_per_s)).option("began", repr(began)).load()


class LiveEvents(DataSource):
    @classmethod
    def name(cls) -> str:
        return "panes_bench_live"

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return _Reader(int(self.options["rows_per_s"]), float(self.options["began"]))


class _Reader(DataSourceStreamReader):
    def __init__(self, rows_per_s: int, began: float) -> None:
        self._rows_per_s = rows_per_s
        self._began = began

    def initialOffset(self) -> dict[str, int]:
        return {"row": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        return {"row": max(start["row"], int((time.time() - self._began) * self._rows_per_s))}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return shares(start["row"], end["row"], _PARTITIONS)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RowRange)
        numbers = np.arange(partition.first, partition.end)
        times = int(self._began * 1e6) + numbers * 1_000_000 // self._rows_per_s
        yield pa.RecordBatch.from_arrays(
            [pa.array(times, pa.timestamp("us", "UTC")), pa.array(numbers % _KEYS), pa.array(numbers.astype(float))],
            names=["ts", "k", "v"],
        )
