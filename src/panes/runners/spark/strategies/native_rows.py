"""What all native strategies share: rows with their arguments computed, and results in their final columns.

Inside, columns have short names of their own (k0, x0, t, ...), so that names of the user never meet them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from panes.errors import QueryError
from panes.plan.query import QueryPlan
from panes.runners.spark.columns import ColumnBuilder, NoColumn
from panes.runners.spark.group_operator import GroupQuery, used_columns
from panes.runners.spark.spark_types import arrow_schema, spark_schema, spark_type, storable, storable_schema
from panes.runners.spark.strategies.card import Job
from panes.runners.spark.strategies.native_aggregates import ORDER, TIME, Native, Part, native_aggregate
from panes.runners.spark.strategies.native_windows import TIME_LIMIT, label_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_ANSI, _ZONE = "spark.sql.ansi.enabled", "spark.sql.session.timeZone"
_UTC = ("UTC", "Etc/UTC", "GMT", "Etc/GMT", "Z", "Zulu", "Etc/Zulu", "UCT", "Etc/UCT", "+00:00", "+0")


class NativeQuery:
    """A job whose rows, aggregates and outputs are computed by Spark alone."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.plan: QueryPlan = job.plan
        self.stream = job.plan.stream
        self.keys = [f"k{i}" for i in range(len(self.stream.keys))]
        self._inputs = {text: f"x{i}" for i, text in enumerate(job.plan.aggregation.inputs)}

    @cached_property
    def aggregates(self) -> list[Native]:
        types = self.plan.scalars.types
        return [
            native_aggregate(a, [self._inputs[i] for i in a.inputs], [types[i] for i in a.inputs])
            for a in self.plan.aggregation.aggs
        ]

    @cached_property
    def parts(self) -> Mapping[str, Part]:
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
        frame, builder = self.job.frame, self._builder
        for condition in self.stream.where:
            frame = frame.filter(builder.column(condition.scalars.wanted[condition.text]))
        return frame

    @property
    def _builder(self) -> ColumnBuilder:
        schema, frame = self.stream.schema, self.job.frame.schema

        def find(name: str) -> Column:
            wanted = spark_type(storable(schema.field(name).type))
            return _named(name) if frame[name].dataType == wanted else _named(name).cast(wanted)

        return ColumnBuilder(schema, find)

    def arguments(self) -> list[Column]:
        """Keys and arguments of aggregates, under their names inside."""
        builder = self._builder
        keys = [_named(key).alias(name) for key, name in zip(self.stream.keys, self.keys)]
        inputs = self.plan.aggregation.inputs
        return keys + [builder.column(inputs[text]).alias(name) for text, name in self._inputs.items()]

    def rows(self) -> DataFrame:
        """Rows with a usable time, as numbers: microseconds, or the ticks of an integer column."""
        from pyspark.sql import functions as F

        time = _named(self.stream.time)
        number = time.cast("bigint") if self.stream.domain.integer else F.unix_micros(time.cast("timestamp"))
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
        return _nullable(frame.select(*(found[f.name].cast(f.dataType).alias(f.name) for f in self.schema)))

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
        if job.restore:
            raise NoColumn("it can't start from a snapshot: its state is Spark's own")
        if self.plan.emit_empty:
            raise NoColumn("windows without rows (emit_empty) are not known to Spark")
        self._check_columns()
        self._check_session()

    def _check_columns(self) -> None:
        """Columns must come in the types that the plan counts on."""
        expressions = [e for c in self.stream.where for e in c.scalars.wanted.values()]
        expressions += self.plan.aggregation.inputs.values()
        read = {self.stream.time, *self.stream.keys, *(c for e in expressions for c in e.columns)}
        given = arrow_schema(self.job.frame.select(*(_named(n) for n in read)).schema)
        for name in read:
            there, wanted = given.field(name).type, self.stream.schema.field(name).type
            if name == self.stream.time and pa.types.is_integer(there) and pa.types.is_integer(wanted):
                continue
            if pa.types.is_timestamp(there) and pa.types.is_timestamp(wanted) and bool(there.tz) != bool(wanted.tz):
                self._check_zone()
                there = storable(wanted)
            if storable(there) != storable(wanted):
                raise NoColumn(
                    f"column {name!r} is {there} and is read as {wanted}, which Spark would do in another way"
                )
            if self.job.frame.schema[name].dataType.simpleString().startswith("string collate"):
                raise NoColumn(f"column {name!r} has a collation, which the embedded engine does not know")

    def _check_session(self) -> None:
        domain = self.stream.domain
        if not domain.integer and domain.tz is None:
            self._check_zone()
        inputs, outputs = self.plan.aggregation.inputs, self.plan.aggregation.outputs
        if self.stream.where or any(e.column is None for e in (*inputs.values(), *outputs.values())):
            for problem in session_problems(self.job.frame.sparkSession):
                raise NoColumn(problem)

    def _check_zone(self) -> None:
        """Times with and without a zone can stand for each other only in UTC."""
        for problem in session_problems(self.job.frame.sparkSession):
            if _ZONE in problem:
                raise NoColumn(problem)


def session_problems(session: SparkSession) -> list[str]:
    """Settings with which Spark computes expressions, or reads times without a zone, in another way."""
    problems = []
    zone = str(session.conf.get(_ZONE, "UTC"))
    if zone not in _UTC:
        problems.append(f"{_ZONE} is {zone}, and Panes reads times in UTC")
    if str(session.conf.get(_ANSI, "true")).lower() != "true":
        problems.append(f"{_ANSI} is false, so integers that overflow give wrong numbers instead of an error")
    return problems


def _nullable(frame: DataFrame) -> DataFrame:
    """The same columns, all said to be null perhaps, as they are in every strategy; Spark sees that they are not."""
    from pyspark.sql import functions as F

    there = {f.name for f in frame.schema if not f.nullable}
    columns = [_named(name) for name in frame.columns]
    return frame.select(
        *(F.when(c.isNotNull(), c).alias(n) if n in there else c for n, c in zip(frame.columns, columns))
    )


def built(name: str, build: Callable[[Job], DataFrame], job: Job) -> DataFrame:
    """The frame of a strategy, made at the first time of asking."""
    if name not in job.built:
        job.built[name] = build(job)
    return job.built[name]


def refusal(name: str, build: Callable[[Job], DataFrame], job: Job) -> str | None:
    """Why Spark can't run a job by itself, found by trying: nothing runs before somebody asks for results."""
    from pyspark.errors import AnalysisException

    try:
        built(name, build, job)
    except QueryError as error:
        return str(error)
    except AnalysisException as error:
        return f"Spark does not accept it: {str(error).splitlines()[0]}"
    return None


def _named(name: str) -> Column:
    from pyspark.sql import functions as F

    return F.col("`" + name.replace("`", "``") + "`")
