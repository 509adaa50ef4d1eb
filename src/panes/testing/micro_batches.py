"""What a test feeds a streaming query: the micro-batches it wants, one by one, and a clock that all processes see."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panes.clock import FakeClock
from panes.errors import QueryError
from panes.plan.batches import conform, infer_rows, to_table
from panes.plan.types import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def micro_batches(
    spark: SparkSession,
    tables: Iterable[Any] = (),
    *,
    schema: Mapping[str, Any] | pa.Schema | None = None,
    partitions: int = 1,
    folder: str | Path | None = None,
) -> DataFrame:
    """A streaming DataFrame with one micro-batch per table; `MicroBatches` can be given more later."""
    return MicroBatches(spark, tables, schema=schema, partitions=partitions, folder=folder).frame


class MicroBatches:
    """Micro-batches of a streaming DataFrame, exactly these, also after a restart from a checkpoint.

    - `tables`: Arrow tables, pandas frames, or lists of dicts; one micro-batch each. More come with `add`.
    - `schema`: the columns, if they can't be told from the first table.
    - `partitions`: how many tasks read a micro-batch; each has a run of its rows.
    - `folder`: where the batches are kept; batches that are in it already come first. Without it a temporary
      folder, which goes when the session or the process does.
    """

    def __init__(
        self,
        spark: SparkSession,
        tables: Iterable[Any] = (),
        *,
        schema: Mapping[str, Any] | pa.Schema | None = None,
        partitions: int = 1,
        folder: str | Path | None = None,
    ) -> None:
        from panes.connectors.spark_types import storable_schema
        from panes.runners.spark.sources.folders import folder_for
        from panes.runners.spark.sources.micro_batches import read_micro_batches

        given = list(tables)
        if schema is None and not given:
            raise QueryError("micro_batches() without any table needs schema=, for instance {'ts': 'timestamp'}")
        if isinstance(partitions, bool) or not isinstance(partitions, int) or partitions < 1:
            raise QueryError(f"partitions must be a whole number from 1 on; got {partitions!r}")
        found = arrow_schema(schema) if schema is not None else _schema_of(given[0])
        self.schema = storable_schema(found)
        self.folder = folder_for(spark, folder)
        self.frame = read_micro_batches(spark, self.folder, self.schema, partitions)
        for table in given:
            self.add(table)

    def add(self, table: Any) -> None:
        """One more micro-batch."""
        from panes.runners.spark.sources.micro_batches import batches_in, write_batch

        write_batch(self.folder, batches_in(self.folder), conform(table, self.schema))


def _schema_of(table: Any) -> pa.Schema:
    return infer_rows(table) if isinstance(table, list | tuple) else to_table(table).schema


class FileClock(FakeClock):
    """A `FakeClock` whose time stands in a file: for `pn.stream(streaming_frame, idle=..., clock=...)`."""

    def __init__(self, path: str | os.PathLike[str], start: int = 0) -> None:
        super().__init__(start)
        self.path = Path(path)
        self._write()

    def advance_to(self, moment: int) -> None:
        super().advance_to(moment)
        self._write()

    def _write(self) -> None:
        # whoever reads meanwhile sees the one time or the other
        new = self.path.with_suffix(".new")
        new.write_text(str(self.now()))
        new.replace(self.path)
