"""A resolved expression to a Spark Column with the meaning that `plan.functions` documents.

Columns are put together from functions of pyspark, never from SQL text. Every node has the type that the embedded
engine gives it, so that results have the same types on both, and integers overflow at the same place. What can't
be done with the same meaning raises `NoColumn` with the reason; the planner then takes another strategy.
Expects a session in ANSI mode (integers that overflow are errors) whose time zone is UTC.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from panes.connectors.spark_types import INSTANT, spark_type, storable
from panes.plan.expressions import Expression, Scope
from panes.plan.functions import function_of
from panes.plan.functions.forms import NoColumn, SparkFunctions, shown
from panes.plan.scalars import Scalars

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["ColumnBuilder", "NoColumn"]


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
