"""The rows of a stream in Spark's own terms: its conditions and expressions as Columns over a frame.

Whatever Spark would compute in another way than the embedded engine is refused (`NoColumn`), with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from panes.connectors.spark_types import arrow_schema, spark_type, storable
from panes.plan.expressions import Expression
from panes.plan.query import StreamPlan
from panes.runners.spark.columns import ColumnBuilder, NoColumn
from panes.runners.spark.frame_columns import Numbered

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_ANSI, _ZONE = "spark.sql.ansi.enabled", "spark.sql.session.timeZone"
_UTC = ("UTC", "Etc/UTC", "GMT", "Etc/GMT", "Z", "Zulu", "Etc/Zulu", "UCT", "Etc/UCT", "+00:00", "+0")


class RowColumns:
    """A stream over a frame."""

    def __init__(self, stream: StreamPlan, frame: DataFrame) -> None:
        self.stream = stream
        self._given = frame.schema
        self._columns = Numbered(frame)

    @property
    def frame(self) -> DataFrame:
        """The frame, whose columns `named` finds."""
        return self._columns.frame

    def named(self, name: str) -> Column:
        return self._columns.column(name)

    @property
    def conditions(self) -> list[Expression]:
        return [condition.scalars.wanted[condition.text] for condition in self.stream.where]

    @property
    def builder(self) -> ColumnBuilder:
        schema = self.stream.schema

        def find(name: str) -> Column:
            wanted = spark_type(storable(schema.field(name).type))
            column = self.named(name)
            return column if self._given[name].dataType == wanted else column.cast(wanted)

        return ColumnBuilder(schema, find)

    def filtered(self) -> DataFrame:
        """The rows that `where` keeps."""
        frame, builder = self.frame, self.builder
        for condition in self.conditions:
            frame = frame.filter(builder.column(condition))
        return frame

    def check(self, expressions: Iterable[Expression], *, also: Iterable[str] = ()) -> None:
        """Columns must come in the types that the plan counts on: those of expressions and conditions, and `also`."""
        from pyspark.sql.types import StructType

        read = {*also, *(c for e in (*self.conditions, *expressions) for c in e.columns)}
        given = arrow_schema(StructType([self._given[name] for name in read]))
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
            if self._given[name].dataType.simpleString().startswith("string collate"):
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


def made(frame: DataFrame, columns: Mapping[str, Column]) -> DataFrame:
    """The frame with these columns, all said to be null perhaps, as in every strategy; Spark may know better."""
    from pyspark.sql import functions as F

    frame = frame.select(*(column.alias(f"c{i}") for i, column in enumerate(columns.values())))
    found = [F.col(f.name) if f.nullable else F.when(F.col(f.name).isNotNull(), F.col(f.name)) for f in frame.schema]
    return frame.select(*(column.alias(name) for column, name in zip(found, columns)))
