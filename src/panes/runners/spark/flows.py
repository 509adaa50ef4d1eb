"""Streams without windows on Spark, and the steps that are done to results.

Rows are chosen and computed by Spark's own columns where these are known to give the same. Everything else, and all
steps, run in Spark's workers on Arrow batches, by the same code as in the embedded runner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from panes.connectors.spark_types import arrow_schema, spark_schema, spark_type, storable, storable_schema
from panes.plan.flow import Flow
from panes.plan.steps import Step, apply_steps
from panes.runners.spark.columns import NoColumn
from panes.runners.spark.frame_columns import mapped
from panes.runners.spark.packing import filled, read
from panes.runners.spark.row_columns import RowColumns, made
from panes.runners.spark.workers import tune_worker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def flow_frame(flow: Flow, frame: DataFrame) -> DataFrame:
    """The rows of a stream without windows."""
    from pyspark.errors import AnalysisException

    try:
        return _native(flow, frame)
    except (NoColumn, AnalysisException):  # Spark would compute it in another way, or not at all
        return _in_workers(flow, frame)


def late_frame(flow: Flow, given: pa.Schema, frame: DataFrame) -> DataFrame:
    """The rows of a stream without windows, beside late rows, which pass by; `given`: the columns of the rows."""
    late = arrow_columns(frame, given)
    mapper = ResultMapper(flow.apply, given, storable_schema(flow.schema), late)
    return mapped(frame, frame.columns, mapper, spark_schema(mapper.schema))


def _native(flow: Flow, frame: DataFrame) -> DataFrame:
    """The rows by Spark alone; raises NoColumn if it would give others."""
    rows = RowColumns(flow.stream, frame)
    wanted, types = flow.scalars.wanted, flow.scalars.types
    rows.check(wanted.values())
    if flow.stream.where or any(e.column is None for e in wanted.values()):
        rows.check_session()
    builder = rows.builder
    columns = {name: builder.column(e).cast(spark_type(storable(types[name]))) for name, e in wanted.items()}
    return made(rows.filtered(), columns)


def _in_workers(flow: Flow, frame: DataFrame) -> DataFrame:
    mapper = FlowMapper(flow)
    return mapped(frame, flow.used, mapper, spark_schema(mapper.schema))


class FlowMapper:
    """Batches of the data to batches of what the stream shows."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self.schema = storable_schema(flow.schema)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tune_worker()
        for batch in batches:
            rows = read(self._flow.stream, pa.Table.from_batches([batch]))
            yield from stored(self._flow.project(rows), self.schema).to_batches()


def step_frame(steps: Sequence[Step], given: pa.Schema, frame: DataFrame) -> DataFrame:
    """Results after the steps; `given` is the schema of what the windows give.

    Columns of late rows (`to_spark(late=True)`) come after those of the results, which late rows don't have.
    """
    mapper = ResultMapper.of_steps(steps, given, arrow_columns(frame, given))
    if frame.isStreaming and any(step.withdraws for step in steps) and steps[0].before.called("void"):
        # withdrawals come first among all that a task gives; of a static frame nothing is ever corrected
        mapper = replace(mapper, together=True)
    if any(step.together for step in steps):
        # one task sees all that is given at once, and can put it in order
        frame = frame.repartition(1)
    return mapped(frame, frame.columns, mapper, spark_schema(mapper.schema))


def arrow_columns(frame: DataFrame, given: pa.Schema) -> pa.Schema:
    """The columns of a frame that are not results."""
    return pa.schema([f for f in arrow_schema(frame.schema) if f.name not in given.names])


@dataclass(frozen=True)
class ResultMapper:
    """Batches of results to batches of what is made of them; late rows, if there are any beside them, pass by."""

    make: Callable[[pa.Table], pa.Table]
    given: pa.Schema
    made: pa.Schema
    late: pa.Schema
    together: bool = False  # all batches of a task are made into something at once

    @classmethod
    def of_steps(cls, steps: Sequence[Step], given: pa.Schema, late: pa.Schema) -> ResultMapper:
        together = any(step.together for step in steps)
        return cls(partial(apply_steps, tuple(steps)), given, storable_schema(steps[-1].schema_out), late, together)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([*self.made, *self.late])

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tune_worker()
        for part in [list(batches)] if self.together else ([batch] for batch in batches):
            if part:
                yield from self._applied(pa.Table.from_batches(part)).to_batches()

    def _applied(self, table: pa.Table) -> pa.Table:
        results, late = table, table.slice(0, 0)
        if self.late.names:
            reasons = table.column("late_reason")
            results, late = table.filter(reasons.is_null()), table.filter(reasons.is_valid())
        # as the windows gave them: Spark knows fewer types
        given = pa.table([results.column(f.name).cast(f.type) for f in self.given], schema=self.given)
        out = stored(self.make(given), self.made)
        return pa.concat_tables([filled(out, self.schema), filled(late.select(self.late.names), self.schema)])


def stored(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table in the types that Spark has."""
    return pa.table([table.column(f.name).cast(f.type) for f in schema], schema=schema)
