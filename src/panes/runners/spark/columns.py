"""Expressions, and the rows of a stream, in Spark's own terms, with the meaning that `plan.functions` documents.

Columns are put together from functions of pyspark, never from SQL text. Every node has the type that the embedded
engine gives it, so that results have the same types on both, and integers overflow at the same place. What can't
be done with the same meaning raises `NoColumn` with the reason; the planner then takes another strategy.
Expects a session in ANSI mode (integers that overflow are errors) whose time zone is UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from panes.connectors.spark_types import INSTANT, arrow_schema, spark_type, storable
from panes.plan.expressions import Expression, Scope
from panes.plan.functions import function_of
from panes.plan.functions.forms import NoColumn, SparkFunctions, shown
from panes.plan.query import StreamPlan
from panes.plan.scalars import Scalars
from panes.runners.spark.frame_columns import Numbered

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["ColumnBuilder", "NoColumn"]
_ANSI, _ZONE = "spark.sql.ansi.enabled", "spark.sql.session.timeZone"
_UTC = ("UTC", "Etc/UTC", "GMT", "Etc/GMT", "Z", "Zulu", "Etc/Zulu", "UCT", "Etc/UCT", "+00:00", "+0")


class ColumnBuilder:
    """Columns for expressions over `schema`; `find` gives the Column of a name of the schema."""

    def __init__(self, schema: pa.Schema, find: Callable[[str], Column]) -> None:
        self._scope = Scope(schema)
        self._find = find

    @property
    def F(self) -> SparkFunctions:
        from pyspark.sql import functions

        return functions

    def call(self, name: str, *arguments: Column | str | int) -> Column:
        found: Column = getattr(self.F, name)(*arguments)
        return found

    def column(self, expression: Expression) -> Column:
        """The Column of an expression, in the type that the embedded engine gives it."""
        return self.of(expression.tree)

    def of(self, node: exp.Expr) -> Column:
        """The Column of a node, in its type."""
        if isinstance(node, exp.Paren):
            return self.of(node.this)
        if isinstance(node, exp.Column):
            return self._find(node.name)
        function = function_of(node)
        if function is None or function.spark is None:
            raise NoColumn(f"{shown(node)} has no form in Spark that is known to be the same")
        return self.cast(function.spark(self, node), self.type(node))

    def type(self, node: exp.Expr) -> pa.DataType:
        """The type that the embedded engine gives a node."""
        expression = Expression.of(node.copy())
        return Scalars(self._scope, {"": expression}).types[""]

    def cast(self, column: Column, kind: pa.DataType) -> Column:
        return column if pa.types.is_null(kind) else column.cast(spark_type(storable(kind)))

    def try_cast(self, column: Column, kind: pa.DataType) -> Column:
        """The same, with null where a value can't be cast."""
        return column.try_cast(spark_type(storable(kind)))

    def as_type_of(self, node: exp.Expr, *parts: exp.Expr) -> list[Column]:
        """Parts of a node, cast to the node's own type."""
        kind = self.type(node)
        return [self.cast(self.of(part), kind) for part in parts]

    def text(self, node: exp.Expr) -> Column:
        """A value as text; only where both engines write it alike."""
        kind = self.type(node)
        if pa.types.is_floating(kind) or (pa.types.is_timestamp(kind) and kind.tz) or pa.types.is_nested(kind):
            raise NoColumn(f"{shown(node)} is {kind}, which Spark writes as text in another way")
        return self.of(node).cast("string")

    def instant(self, node: exp.Expr) -> Column:
        """A time as a Spark timestamp with zone; the session's zone is UTC."""
        if not pa.types.is_temporal(self.type(node)):
            raise NoColumn(f"{shown(node)} must be a time")
        return self.of(node).cast(INSTANT)


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
