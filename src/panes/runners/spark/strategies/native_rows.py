"""What all native strategies share: rows with their arguments computed, and results in their final columns.

Inside, columns have short names of their own (k0, x0, t, ...), so that names of the user never meet them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panes.connectors.spark_types import INSTANT, spark_schema, spark_type, storable, storable_schema
from panes.errors import QueryError
from panes.plan.query import QueryPlan
from panes.runners.spark.columns import ColumnBuilder, NoColumn, RowColumns, made
from panes.runners.spark.group_operator import GroupQuery, used_columns
from panes.runners.spark.strategies.card import Strategy, StrategyJob
from panes.runners.spark.strategies.native_aggregates import ORDER, TIME, Native, SlicePart, native_aggregate
from panes.runners.spark.strategies.native_windows import TIME_LIMIT, label_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType


class NativeQuery:
    """A job whose rows, aggregates and outputs are computed by Spark alone."""

    def __init__(self, job: StrategyJob) -> None:
        self.job = job
        self.plan: QueryPlan = job.plan
        self.stream = job.plan.stream
        self.keys = [f"k{i}" for i in range(len(self.stream.keys))]
        self._rows = RowColumns(self.stream, job.frame)
        self._inputs = {text: f"x{i}" for i, text in enumerate(job.plan.aggregation.inputs)}

    @cached_property
    def aggregates(self) -> list[Native]:
        types = self.plan.scalars.types
        return [
            native_aggregate(a, [self._inputs[i] for i in a.inputs], [types[i] for i in a.inputs])
            for a in self.plan.aggregation.aggs
        ]

    @cached_property
    def parts(self) -> Mapping[str, SlicePart]:
        """Every part of every aggregate once."""
        return {name: part for aggregate in self.aggregates for name, part in aggregate.parts.items()}

    @property
    def ordered(self) -> bool:
        """Whether ties of time matter."""
        return any(aggregate.ordered for aggregate in self.aggregates)

    def lift(self) -> list[Column]:
        return [part.lift.alias(name) for name, part in self.parts.items()]

    def merge(self) -> list[Column]:
        from pyspark.sql import functions as F

        return [part.merge(F.col(name)).alias(name) for name, part in self.parts.items()]

    def filtered(self) -> DataFrame:
        """The rows that `where` keeps."""
        return self._rows.filtered()

    @property
    def time(self) -> Column:
        """The time of the stream."""
        return self._rows.named(self.stream.time)

    def arguments(self) -> list[Column]:
        """Keys and arguments of aggregates, under their names inside."""
        builder = self._rows.builder
        keys = [self._rows.named(key).alias(name) for key, name in zip(self.stream.keys, self.keys)]
        inputs = self.plan.aggregation.inputs
        return keys + [builder.column(inputs[text]).alias(name) for text, name in self._inputs.items()]

    def rows(self) -> DataFrame:
        """Rows with a usable time, as numbers: microseconds, or the ticks of an integer column."""
        from pyspark.sql import functions as F

        time = self.time
        number = time.cast("bigint") if self.stream.domain.integer else F.unix_micros(time.cast(INSTANT))
        columns = [*self.arguments(), number.alias(TIME)]
        if self.ordered:
            # by input partition and place in it, as the key-group operator does
            columns.append(F.monotonically_increasing_id().alias(ORDER))
        rows = self.filtered().select(*columns)
        usable = F.col(TIME).isNotNull()
        if self.stream.domain.integer:
            usable = F.col(TIME).between(-TIME_LIMIT, TIME_LIMIT)
        return rows.filter(usable)

    def results(self, frame: DataFrame, number: Column, start: Column, end: Column) -> DataFrame:
        """Results from parts: labels, bounds, outputs, in the columns and types of every strategy."""
        from pyspark.sql import functions as F

        aggs = self.plan.aggregation.aggs
        kept = [
            *map(F.col, self.keys),
            number.alias("w_label"),
            self._time(start).alias("w_from"),
            self._time(end).alias("w_to"),
        ]
        lowered = [
            native.lower(F.col).cast(spark_type(storable(agg.bound.out_type))).alias(f"a{i}")
            for i, (agg, native) in enumerate(zip(aggs, self.aggregates))
        ]
        frame = frame.select(*kept, *lowered)
        places = {agg.name: f"a{i}" for i, agg in enumerate(aggs)}
        schema = pa.schema([pa.field(agg.name, agg.bound.out_type) for agg in aggs])
        builder = ColumnBuilder(schema, lambda name: F.col(places[name]))
        found: dict[str, Column] = {
            **{key: F.col(name) for key, name in zip(self.stream.keys, self.keys)},
            "window": label_of([label for label, _ in self.plan.windows], F.col("w_label")),
            "window_start": F.col("w_from"),
            "window_end": F.col("w_to"),
            "revision": F.lit(0),
            "void": F.lit(False),
            **{name: builder.column(e) for name, e in self.plan.aggregation.outputs.items()},
        }
        return made(frame, {f.name: found[f.name].cast(f.dataType) for f in self.schema})

    @cached_property
    def schema(self) -> StructType:
        """The columns of results, as every strategy gives them."""
        query = GroupQuery(self.plan, used_columns(self.plan))
        return spark_schema(storable_schema(query.result_schema))

    def _time(self, number: Column) -> Column:
        from pyspark.sql import functions as F

        return number if self.stream.domain.integer else F.timestamp_micros(number)

    def check(self) -> None:
        """Raise NoColumn, with the reason, where Spark alone would give other results."""
        job = self.job
        if job.late:
            raise NoColumn("late rows can't be given: Spark drops them without a word")
        if job.passed:
            raise NoColumn("its rows are results of windows, which come behind Spark's watermark")
        if job.restore:
            raise NoColumn("it can't start from a snapshot: its state is Spark's own")
        if job.sequence is not None and any(part.sorted for part in self.parts.values()):
            raise NoColumn("rows with the same time are in an order of Spark's own, not in that of sequence=")
        if self.plan.early is not None:
            raise NoColumn("windows that have not closed (early) are given by key groups only")
        if self.plan.own:
            raise NoColumn(f"the window {self.plan.own[0][0]!r} has aggregates of its own, which key groups compute")
        if self.plan.emit_empty:
            raise NoColumn("windows without rows (emit_empty) are not known to Spark")
        inputs, outputs = self.plan.aggregation.inputs, self.plan.aggregation.outputs
        self._rows.check(inputs.values(), also=(self.stream.time, *self.stream.keys))
        if not self.stream.domain.integer and self.stream.domain.tz is None:
            self._rows.check_zone()
        if self.stream.where or any(e.column is None for e in (*inputs.values(), *outputs.values())):
            self._rows.check_session()


def native_strategy(name: str, build: Callable[[StrategyJob], DataFrame], **card: Any) -> Strategy:
    """A strategy of Spark's own aggregations. Whether it can run a job is found by building its frame, which is done
    once: nothing runs before somebody asks for results."""

    def built(job: StrategyJob) -> DataFrame:
        if name not in job.built:
            job.built[name] = build(job)
        return job.built[name]

    def refusal(job: StrategyJob) -> str | None:
        from pyspark.errors import AnalysisException

        if job.clocked:
            return "the clock moves the watermark when no rows come, which Spark's own windows don't hear of"
        try:
            built(job)
        except QueryError as error:
            return str(error)
        except AnalysisException as error:
            return f"Spark does not accept it: {str(error).splitlines()[0]}"
        return None

    return Strategy(name=name, refuses=refusal, build=built, **card)
