"""A replay on Spark: rows on a tape that workers read by number, and a reader that says how far it has run.

In: a `ReplaySource` (connectors/replay.py), written to a folder once: pieces of rows as Arrow files, and the
event time that each row has reached. Out: a streaming DataFrame. Offsets are numbers of rows, so a query that
goes on from a checkpoint sees the same rows at the same offsets, whoever wrote the tape.
"""

from __future__ import annotations

import json
import time as clock
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from panes.connectors.replay import Pace, ReplaySource
from panes.connectors.spark_types import spark_schema, storable_schema
from panes.errors import QueryError
from panes.runners.spark.sources.folders import RowRange, folder_for, read_rows, register, shares, write_table
from panes.runtime.rejects import Rejects

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = "panes_replay"


def play(replay: ReplaySource, spark: SparkSession | None, partitions: int | None, folder: str | None) -> DataFrame:
    """The streaming DataFrame of a replay."""
    from panes.runners.spark.session import spark as default_session

    session = spark or default_session()
    parts = partitions or session.sparkContext.defaultParallelism
    if isinstance(parts, bool) or not isinstance(parts, int) or parts < 1:
        raise QueryError(f"partitions must be a whole number from 1 on; got {partitions!r}")
    place = folder_for(session, folder)
    record(replay, place)
    register(session, TapeSource)
    options = {"speed": replay.pace.speed, "rows_per_second": replay.pace.rows_per_second}
    reader = session.readStream.format(FORMAT).schema(spark_schema(storable_schema(replay.schema)))
    for name, value in {**options, "batch_rows": replay.batch_rows}.items():
        if value is not None:
            reader = reader.option(name, str(value))
    return reader.option("folder", str(place)).option("partitions", str(parts)).load()


def record(replay: ReplaySource, folder: Path) -> None:
    """Write the rows of a replay to the folder."""
    schema = storable_schema(replay.schema)
    rejects = Rejects()
    ends: list[int] = []
    times: list[np.ndarray] = []
    for table in replay.source.batches(rejects):
        reached = replay.latest_times(table, int(times[-1][-1]) if times else None)
        if table.num_rows:
            write_table(folder / f"{len(ends):06}.arrow", table.cast(schema))
            ends.append((ends[-1] if ends else 0) + table.num_rows)
        if reached is not None:
            times.append(reached)
    if times:
        np.save(folder / "times.npy", np.concatenate(times))
    (folder / "tape.json").write_text(json.dumps({"ends": ends}))
    if rejects.count:
        warnings.warn(
            f"{replay}: {rejects.count} lines can't be read, for instance: {rejects.reasons[0]}", stacklevel=4
        )


class TapeSource(DataSource):
    """Spark's way to a tape."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return TapeReader(dict(self.options))


class TapeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are numbers of rows. What is due depends on the clock; what is at an offset does not."""

    def __init__(self, options: dict[str, str]) -> None:
        speed, rate, most = (options.get(n) for n in ("speed", "rows_per_second", "batch_rows"))
        self._folder = Path(options["folder"])
        self._partitions = int(options["partitions"])
        self._pace = Pace(float(speed) if speed else None, float(rate) if rate else None)
        self._most = int(most) if most else None
        self._ends: list[int] = json.loads((self._folder / "tape.json").read_text())["ends"]
        self._began: tuple[int, float] | None = None

    @property
    def _rows(self) -> int:
        return self._ends[-1] if self._ends else 0

    def initialOffset(self) -> dict:
        return {"row": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable() if self._most is None else ReadMaxRows(self._most)

    def reportLatestOffset(self) -> dict:
        return {"row": self._rows}

    def prepareForTriggerAvailableNow(self) -> None:
        """All rows are there now: who asks for what is available does not wait for the clock."""
        self._pace = Pace()

    def latestOffset(self, start: dict, limit: ReadLimit) -> dict:
        at = start["row"]
        if self._began is None:
            self._began = at, clock.monotonic()
        first, since = self._began
        due = self._pace.due(self._times(), self._rows, first, clock.monotonic() - since)
        if isinstance(limit, ReadMaxRows):
            due = min(due, at + limit.max_rows)
        return {"row": max(at, due)}

    def _times(self) -> np.ndarray | None:
        path = self._folder / "times.npy"
        return np.load(path, mmap_mode="r") if self._pace.speed is not None and path.exists() else None

    def partitions(self, start: dict, end: dict) -> Sequence[InputPartition]:
        if end["row"] > self._rows:
            raise QueryError(
                f"the checkpoint has seen {end['row']} rows of this replay, which has {self._rows}: "
                "it was made with other data; use the same data or a new checkpoint"
            )
        return shares(start["row"], end["row"], self._partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RowRange)
        begin = 0
        for number, end in enumerate(self._ends):
            first, last = max(partition.first, begin), min(partition.end, end)
            if first < last:
                yield from read_rows(self._folder / f"{number:06}.arrow", first - begin, last - begin)
            begin = end
