"""One stream of a join as a source of rows of all its streams: each row says of which side it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from panes.plan.flow import Flow
from panes.plan.join import Tagging
from panes.plan.query import StreamPlan
from panes.plan.relation_query import SIDE
from panes.runners.local.derived import DerivedSource, FlowSource, through
from panes.runners.local.listening import Beat
from panes.runners.local.rejects import Rejects
from panes.runners.local.source import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SideSource(DerivedSource):
    """The rows of a stream, tagged with the number of their side."""

    def __init__(self, tagging: Tagging, stream: StreamPlan, source: Source) -> None:
        flow = Flow.of(stream, tuple(dict.fromkeys(tagging.columns.values())))
        self._rows = FlowSource(flow, source)
        self.tagging = tagging
        self.stream = stream
        self.inner = source
        super().__init__(tagging.schema, [self._rows])
        self.rows = self._rows.rows
        self.silence = stream.silence

    def derive(self, rejects: Rejects) -> Iterator[pa.Table | Beat]:
        return through(self.tagging.apply, self._rows.batches(rejects))

    def explain(self) -> tuple[str, ...]:
        return self._rows.explain()

    def to_spark(self) -> DataFrame:
        from pyspark.sql import functions as F

        from panes.runners.spark.frame_columns import Numbered
        from panes.runners.spark.spark_types import spark_type, storable

        rows = Numbered(self._rows.to_spark())
        columns = {}
        for field in self.tagging.schema:
            if field.name in self.tagging.columns:
                column = rows.column(self.tagging.columns[field.name])
            else:
                column = F.lit(self.tagging.number if field.name == SIDE else None)
            columns[field.name] = column.cast(spark_type(storable(field.type)))
        return rows.select(columns)

    def __str__(self) -> str:
        return str(self._rows)
