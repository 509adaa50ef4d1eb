"""Columns of frames by their place, so that they may have any name.

PySpark looks the columns of `mapInArrow` up as if their names were expressions, in which a dot, a backtick, or a name
that differs from another in case alone has a meaning. So frames of users get names of ours first. What is run in
workers sees the columns under their own names, in the types that Arrow has for them by default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panes.connectors.spark_types import large, storable
from panes.runners.spark.workers import errors_first

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

Mapper = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Numbered:
    """A frame whose columns are numbered, and found by the names that they had."""

    def __init__(self, frame: DataFrame) -> None:
        names = frame.columns
        self._places = {name: f"c{i}" for i, name in enumerate(names)}
        self.frame = frame.toDF(*(f"c{i}" for i in range(len(names))))

    def column(self, name: str) -> Column:
        from pyspark.sql import functions as F

        return F.col(self._places[name])

    def select(self, columns: Mapping[str, Column]) -> DataFrame:
        """The frame of these columns."""
        return self.frame.select(*(column.alias(name) for name, column in columns.items()))

    def map(self, names: Sequence[str], function: Mapper, schema: StructType | str) -> DataFrame:
        """What a function makes of batches with these columns."""
        chosen = self.frame.select(*(self.column(name) for name in names))
        return chosen.mapInArrow(NamedBatches(tuple(names), function), schema)


def mapped(frame: DataFrame, names: Sequence[str], function: Mapper, schema: StructType | str) -> DataFrame:
    """`frame.mapInArrow` over the columns with these names, whatever these are."""
    return Numbered(frame).map(names, function, schema)


def by_group(frame: DataFrame, by: Sequence[str], function: Callable[[pa.Table], pa.Table], schema: Any) -> DataFrame:
    """`frame.groupBy(...).applyInArrow(...)` over rows that hold binary values.

    Spark checks what the function gives, and wants large types if it sends them, so what it sends says which.
    """

    # a plain function: Spark counts the arguments that it takes
    def of_group(given: pa.Table) -> pa.Table:
        with errors_first():
            made = function(given)
        if not any(pa.types.is_large_binary(kind) for kind in given.schema.types):
            return made
        return made.cast(pa.schema([pa.field(f.name, large(f.type)) for f in made.schema]))

    return frame.groupBy(*by).applyInArrow(of_group, schema)


class NamedBatches:
    """A function over batches, called with columns under their own names and in the types that users expect: Spark
    sends others if spark.sql.execution.arrow.useLargeVarTypes is set."""

    def __init__(self, names: tuple[str, ...], function: Mapper) -> None:
        self._names = names
        self._function = function

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with errors_first():
            yield from self._function(map(self._named, batches))

    def _named(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns: list[Any] = [_plain(column) for column in batch.columns]
        fields = [pa.field(name, column.type) for name, column in zip(self._names, columns, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _plain(column: pa.Array) -> pa.Array:
    wanted = storable(column.type)
    return column if wanted == column.type else column.cast(wanted)
