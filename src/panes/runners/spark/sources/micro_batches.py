"""Micro-batches that are given one by one: what tests feed to a streaming query.

In: Arrow tables, each written to a file of a folder. Out: a streaming DataFrame that reads one file per
micro-batch. Workers and restarted queries read the same files, so a batch that is repeated has the same rows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from panes.connectors.spark_types import spark_schema
from panes.runners.spark.sources.folders import register, write_table

FORMAT = "panes_micro_batches"
_FILE = re.compile(r"(\d{6})\.arrow")


def write_batch(folder: Path, number: int, table: pa.Table) -> None:
    """Put micro-batch `number` into the folder."""
    write_table(folder / f"{number:06}.arrow", table)


def batches_in(folder: Path) -> int:
    """How many micro-batches are there."""
    return sum(_FILE.fullmatch(name) is not None for name in os.listdir(folder))


def read_micro_batches(spark: SparkSession, folder: Path, schema: pa.Schema, partitions: int) -> DataFrame:
    """The streaming DataFrame that reads the folder, each batch in so many partitions."""
    register(spark, MicroBatchSource)
    reader = spark.readStream.format(FORMAT).schema(spark_schema(schema))
    return reader.option("folder", str(folder)).option("partitions", str(partitions)).load()


class MicroBatchSource(DataSource):
    """Spark's way to the folder; options `folder` and `partitions`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return MicroBatchReader(Path(self.options["folder"]), int(self.options.get("partitions", "1")))


@dataclass
class Slice(InputPartition):
    """Part `part` of `parts` of a micro-batch, in the order of its rows."""

    batch: int
    part: int
    parts: int


class MicroBatchReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are numbers of micro-batches; every call for more gives one more."""

    def __init__(self, folder: Path, partitions: int) -> None:
        self._folder = folder
        self._partitions = partitions
        self._target: int | None = None

    def initialOffset(self) -> dict:
        return {"batch": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxFiles(1)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = batches_in(self._folder)

    def latestOffset(self, start: dict, limit: ReadLimit) -> dict:
        there = batches_in(self._folder) if self._target is None else self._target
        most = there if isinstance(limit, ReadAllAvailable) else start["batch"] + 1
        return {"batch": max(start["batch"], min(there, most))}

    def partitions(self, start: dict, end: dict) -> Sequence[InputPartition]:
        numbers = range(start["batch"], end["batch"])
        return [Slice(number, part, self._partitions) for number in numbers for part in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Slice)
        with pa.OSFile(str(self._folder / f"{partition.batch:06}.arrow")) as file:
            table = pa.ipc.open_file(file).read_all()
        first = table.num_rows * partition.part // partition.parts
        end = table.num_rows * (partition.part + 1) // partition.parts
        return iter(table.slice(first, end - first).to_batches())
