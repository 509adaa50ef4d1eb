"""A Spark DataFrame as the data of a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from panes.errors import QueryError
from panes.runners.local.derived import DerivedSource
from panes.runners.local.rejects import Rejects
from panes.runners.local.replay import Replay
from panes.runners.local.sockets import SocketSource
from panes.runners.local.source import BATCH_ROWS, Source
from panes.runners.spark.spark_types import arrow_schema, spark_schema, storable_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class FrameSource(Source):
    """A DataFrame. Embedded runs collect a static one; a streaming one runs on Spark only."""

    on_spark = True

    def __init__(self, frame: DataFrame) -> None:
        self.frame = frame
        self.schema = arrow_schema(frame.schema)

    def read(self, rejects: Rejects) -> Iterator[pa.Table]:
        if self.frame.isStreaming:
            raise QueryError("a streaming DataFrame runs on Spark: use to_spark() and writeStream")
        table = self.frame.toArrow()
        for start in range(0, max(table.num_rows, 1), BATCH_ROWS):
            yield table.slice(start, BATCH_ROWS)

    def __str__(self) -> str:
        return "a streaming DataFrame" if self.frame.isStreaming else "a DataFrame"


def frame_of(source: Source) -> DataFrame:
    """The data of a stream as a DataFrame; replays and sockets become streaming ones, all else static ones.

    What is made of other streams and queries is what it is made of.
    """
    if isinstance(source, FrameSource):
        return source.frame
    if isinstance(source, Replay | SocketSource | DerivedSource):
        return source.to_spark()
    from panes.runners.spark.session import spark

    return frame_of_tables(source.schema, source.batches(Rejects()), spark())


def is_stream(source: Source) -> bool:
    """Whether the data of a stream, or some of it, would be a streaming DataFrame."""
    if isinstance(source, FrameSource):
        return bool(source.frame.isStreaming)
    if isinstance(source, DerivedSource):
        return any(map(is_stream, source.inputs)) if source.inputs else bool(source.to_spark().isStreaming)
    return isinstance(source, Replay | SocketSource)


def frame_of_tables(schema: pa.Schema, tables: Iterable[pa.Table], session: SparkSession) -> DataFrame:
    """Tables as a static DataFrame, in types that Spark has; rows stay in order."""
    wanted = storable_schema(schema)
    found = [pa.table([t.column(f.name).cast(f.type) for f in wanted], schema=wanted) for t in tables]
    # with the types: Spark would take times without a zone for times in the zone of the session
    return session.createDataFrame(pa.concat_tables([wanted.empty_table(), *found]), spark_schema(wanted))
