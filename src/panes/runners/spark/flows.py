"""Streams without windows on Spark, and the steps that are done to results.

Rows are chosen and computed by Spark's own columns where these are known to give the same. Everything else, and all
steps, run in Spark's workers on Arrow batches, by the same code as in the embedded runner. So do frames whose columns
become those that a stream declares (other names, other types, lines of text): what can't be read without guessing is an
error there and here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from panes.connectors.lines import LineFormat
from panes.connectors.spark_types import arrow_schema, spark_schema, spark_type, storable, storable_schema
from panes.plan.batches import conform
from panes.plan.flow import Flow
from panes.plan.steps import Step, apply_steps
from panes.runners.spark.columns import NoColumn, RowColumns, made
from panes.runners.spark.frame_columns import Numbered, mapped
from panes.runners.spark.packing import filled, read
from panes.runners.spark.workers import tune_worker
from panes.runtime.rejects import Rejects

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())


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


def fit(frame: DataFrame, columns: Mapping[str, str], schema: pa.Schema) -> DataFrame:
    """The frame with the columns of `schema`; `columns` says which column of the frame each of them is."""
    numbered, given = Numbered(frame), arrow_schema(frame.schema)
    if all(_only_wider(given.field(columns[f.name]).type, storable(f.type)) for f in schema):
        wider = {f.name: numbered.column(columns[f.name]).cast(spark_type(storable(f.type))) for f in schema}
        return numbered.select(wider)
    chosen = numbered.select({name: numbered.column(columns[name]) for name in schema.names})
    return mapped(chosen, schema.names, Conforming(schema), spark_schema(storable_schema(schema)))


def _only_wider(given: pa.DataType, wanted: pa.DataType) -> bool:
    if given in _INTEGERS and wanted in _INTEGERS:
        return _INTEGERS.index(given) <= _INTEGERS.index(wanted)
    return bool(given == wanted or (given == pa.float32() and wanted == pa.float64()))


@dataclass(frozen=True)
class Conforming:
    """Batches in the declared types; DataError where a value would change its meaning."""

    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tune_worker()
        for batch in batches:
            table = conform(pa.Table.from_batches([batch]), self.schema)
            yield from stored(table, storable_schema(self.schema)).to_batches()


def parse_lines(frame: DataFrame, form: LineFormat, schema: pa.Schema, header: bool) -> DataFrame:
    """A frame of lines as the rows that are written in them; `header`: without lines that repeat the names.

    Lines that can't be read are left out.
    """
    return mapped(frame, frame.columns, LineMapper(form, schema, header), spark_schema(storable_schema(schema)))


@dataclass(frozen=True)
class LineMapper:
    """Batches of lines to rows."""

    form: LineFormat
    schema: pa.Schema
    header: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tune_worker()
        for batch in batches:
            lines = batch.column(0)
            records = [line.encode() for line in self._rows(lines).to_pylist() if line.strip()]
            table = self.form.parse(records, self.schema, Rejects())
            yield from stored(table, storable_schema(self.schema)).to_batches()

    def _rows(self, lines: pa.StringArray) -> pa.StringArray:
        lines = pc.replace_substring_regex(lines, "^\ufeff", "")
        if not self.header:
            return lines
        # no task knows which line is the first one of a file, so such a line is no row wherever it is
        plain = pc.utf8_lower(pc.replace_substring_regex(lines, r'[\s"]', ""))
        delimiter = getattr(self.form, "delimiter", ",")
        columns = getattr(self.form, "names", self.schema.names)
        names = delimiter.join("".join(name.split()) for name in columns).lower()
        return lines.filter(pc.not_equal(plain, names.replace('"', "")))
