"""A Spark DataFrame as data. Embedded runs collect a static one; a streaming one runs on Spark only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from panes.connectors.source import BATCH_ROWS, Source
from panes.connectors.spark_types import arrow_schema
from panes.errors import QueryError
from panes.runtime.rejects import Rejects

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from panes.plan.graph import Node


class FrameSource(Source):
    """The rows of a DataFrame. `make` is called when they are first needed: it may start Spark."""

    def __init__(self, schema: pa.Schema, make: Callable[[], DataFrame], name: str, *, streaming: bool) -> None:
        self.schema = schema
        self.streaming = streaming
        self._make = make
        self._name = name

    @classmethod
    def of(cls, frame: DataFrame) -> FrameSource:
        """A DataFrame that is there."""
        streaming = bool(frame.isStreaming)
        name = "a streaming DataFrame" if streaming else "a DataFrame"
        return cls(arrow_schema(frame.schema), lambda: frame, name, streaming=streaming)

    @property
    def frame(self) -> DataFrame:
        return self._make()

    def read(self, rejects: Rejects, *, promptly: bool = False) -> Iterator[pa.Table]:
        if self.streaming:
            raise QueryError(f"{self} runs on Spark: use to_spark() and writeStream")
        table = self.frame.toArrow()
        for start in range(0, max(table.num_rows, 1), BATCH_ROWS):
            yield table.slice(start, BATCH_ROWS)

    def __str__(self) -> str:
        return self._name


def in_spark(node: Node) -> bool:
    """Whether the data of a graph is in Spark, in whole or in part."""
    return any(isinstance(getattr(leaf, "data", None), FrameSource) for leaf in node.leaves)
