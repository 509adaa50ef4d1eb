"""What Python data sources share: folders through which rows reach Spark's workers, how many rows a task reads, and how
a session gets to know a source.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, InputPartition

from panes.runners.spark.scratch import scratch


def folder_for(spark: SparkSession, folder: str | os.PathLike[str] | None) -> Path:
    """The folder that the user named, or a temporary one that goes with the session."""
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        return Path(folder).absolute()
    made = Path(tempfile.mkdtemp(prefix="rows-", dir=scratch()))
    weakref.finalize(spark, shutil.rmtree, made, ignore_errors=True)
    return made


def write_table(path: Path, table: pa.Table) -> None:
    """Write an Arrow file, all at once: a query that runs may look at any time."""
    unfinished = path.with_suffix(".unfinished")
    with pa.OSFile(str(unfinished), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    os.replace(unfinished, path)


def read_rows(path: Path, first: int, end: int) -> Iterator[pa.RecordBatch]:
    """Rows of an Arrow file, without reading the others."""
    with pa.memory_map(str(path)) as file:
        yield from pa.ipc.open_file(file).read_all().slice(first, end - first).to_batches()


@dataclass
class RowRange(InputPartition):
    """A run of rows for one task, by their numbers in the stream."""

    first: int
    end: int


def shares(first: int, end: int, partitions: int) -> list[RowRange]:
    """Rows in as many runs of about the same length, in order; none of them empty."""
    edges = [first + (end - first) * i // partitions for i in range(partitions + 1)]
    return [RowRange(a, b) for a, b in pairwise(edges) if a < b]


def register(spark: SparkSession, source: type[DataSource]) -> None:
    """Register `source`; a session that knows it already keeps it."""
    if _registered(spark, source):
        return
    # Spark asks the active session whether the name is taken, which another session than this one may be
    sessions: Any = getattr(getattr(spark, "_jvm", None), "SparkSession", None)
    if sessions is not None:
        active = sessions.getActiveSession()
        sessions.setActiveSession(spark._jsparkSession)
        _registered(spark, source)
        if active.isDefined():
            sessions.setActiveSession(active.get())


def _registered(spark: SparkSession, source: type[DataSource]) -> bool:
    """Whether the name was still free."""
    from pyspark.errors import AnalysisException

    try:
        spark.dataSource.register(source)
    except AnalysisException as error:
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
            raise
        return False
    return True
