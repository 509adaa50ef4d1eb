"""The rows of a stream in Spark's own terms: its conditions and expressions as Columns over a frame.

Whatever Spark would compute in another way than the embedded engine is refused (`NoColumn`), with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from panes.plan.expressions import Expression
from panes.plan.query import StreamPlan
from panes.runners.spark.columns import ColumnBuilder, NoColumn
from panes.runners.spark.spark_types import arrow_schema, spark_type, storable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_ANSI, _ZONE = "spark.sql.ansi.enabled", "spark.sql.session.timeZone"
_UTC = ("UTC", "Etc/UTC", "GMT", "Etc/GMT", "Z", "Zulu", "Etc/Zulu", "UCT", "Etc/UCT", "+00:00", "+0")


class RowColumns:
    """A stream over a frame."""

    def __init__(self, stream: StreamPlan, frame: DataFrame) -> None:
        self.stream = stream
        self.frame = frame

    @property
    def conditions(self) -> list[Expression]:
        return [condition.scalars.wanted[condition.text] for condition in self.stream.where]

    @property
    def builder(self) -> ColumnBuilder:
        schema, frame = self.stream.schema, self.frame.schema

        def find(name: str) -> Column:
            wanted = spark_type(storable(schema.field(name).type))
            return named(name) if frame[name].dataType == wanted else named(name).cast(wanted)

        return ColumnBuilder(schema, find)

    def filtered(self) -> DataFrame:
        """The rows that `where` keeps."""
        frame, builder = self.frame, self.builder
        for condition in self.conditions:
            frame = frame.filter(builder.column(condition))
        return frame

    def check(self, expressions: Iterable[Expression], *, also: Iterable[str] = ()) -> None:
        """Columns must come in the types that the plan counts on: those of expressions and conditions, and `also`."""
        read = {*also, *(c for e in (*self.conditions, *expressions) for c in e.columns)}
        given = arrow_schema(self.frame.select(*(named(n) for n in read)).schema)
        for name in read:
            there, wanted = given.field(name).type, self.stream.schema.field(name).type
            if name == self.stream.time and pa.types.is_integer(there) and pa.types.is_integer(wanted):
                continue
            if pa.types.is_timestamp(there) and pa.types.is_timestamp(wanted) and bool(there.tz) != bool(wanted.tz):
                self.check_zone()
                there = storable(wanted)
            if storable(there) != storable(wanted):
                raise NoColumn(
                    f"column {name!r} is {there} and is read as {wanted}, which Spark would do in another way"
                )
            if self.frame.schema[name].dataType.simpleString().startswith("string collate"):
                raise NoColumn(f"column {name!r} has a collation, which the embedded engine does not know")

    def check_session(self) -> None:
        """Settings under which Spark computes expressions as the embedded engine does."""
        for problem in session_problems(self.frame.sparkSession):
            raise NoColumn(problem)

    def check_zone(self) -> None:
        """Times with and without a zone can stand for each other only in UTC."""
        for problem in session_problems(self.frame.sparkSession):
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


def nullable(frame: DataFrame) -> DataFrame:
    """The same columns, all said to be null perhaps, as they are in every strategy; Spark sees that they are not."""
    from pyspark.sql import functions as F

    there = {f.name for f in frame.schema if not f.nullable}
    columns = [named(name) for name in frame.columns]
    return frame.select(
        *(F.when(c.isNotNull(), c).alias(n) if n in there else c for n, c in zip(frame.columns, columns))
    )


def named(name: str) -> Column:
    """A column by its name, whatever signs are in it."""
    from pyspark.sql import functions as F

    return F.col("`" + name.replace("`", "``") + "`")
