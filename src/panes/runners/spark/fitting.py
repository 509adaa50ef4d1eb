"""Frames whose columns become those that a stream declares: other names, other types, or lines of text.

Only what Spark can't do otherwise than the embedded engine is left to Spark; all else is done in its workers, by
the code of the embedded runner, so that what can't be read without guessing is an error there and here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from panes.connectors.lines import LineFormat
from panes.connectors.spark_types import arrow_schema, spark_schema, spark_type, storable, storable_schema
from panes.plan.batches import conform
from panes.runners.spark.flows import stored
from panes.runners.spark.frame_columns import Numbered, mapped
from panes.runners.spark.workers import tune_worker
from panes.runtime.rejects import Rejects

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())


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
