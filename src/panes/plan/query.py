"""A query, resolved: what the operator is built from, and what tells it from another query.

In: a stream's columns, time and keys, with windows and outputs as the user wrote them. Out: a frozen
`QueryPlan` in which every name, type and unit is known; `operator_spec()` is what `slicing` takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from panes.aggregates.base import Aggregate
from panes.errors import QueryError
from panes.plan.aggregation import Aggregation, compile_aggregates
from panes.plan.batches import conform
from panes.plan.expressions import Scope
from panes.plan.scalars import Scalars
from panes.slicing.rows.measures import measure_dtype
from panes.slicing.spec import OperatorSpec
from panes.units import TimeDomain
from panes.windows.base import Bound, Window

#: Columns of every result, which keys and outputs can't be named.
RESERVED = ("window", "window_start", "window_end", "window_from", "window_to", "revision", "void")


@dataclass(frozen=True)
class Condition:
    """Rows for which an expression is true; null is not true."""

    text: str
    scalars: Scalars

    def filter(self, table: pa.Table) -> pa.Table:
        return table.filter(self.scalars.evaluate(table)[self.text])


@dataclass(frozen=True)
class StreamPlan:
    """The rows a query sees: columns, time, keys, order, and which rows are left out."""

    scope: Scope
    time: str
    domain: TimeDomain
    keys: tuple[str, ...] = ()
    watermark: int | str | None = None  # ticks, "manual", or None: declared in order
    lateness: int | None = None
    where: tuple[Condition, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        return self.scope.schema

    def read(self, data: Any) -> pa.Table:
        """Any batch to a table of the schema, without the rows that `where` leaves out."""
        table = conform(data, self.schema)
        # one after the other, as written: a later one need not cope with rows that an earlier one leaves out
        for condition in self.where:
            table = condition.filter(table)
        return table


@dataclass(frozen=True)
class QueryPlan:
    """A stream, the windows over it, and what is computed per window."""

    stream: StreamPlan
    windows: tuple[tuple[str, Window], ...]
    bound: tuple[tuple[str, Bound], ...]
    aggregation: Aggregation
    scalars: Scalars
    emit_empty: bool = False

    def operator_spec(self, *, store: str = "auto") -> OperatorSpec:
        """What `slicing` builds an operator from."""
        stream = self.stream
        return OperatorSpec(
            schema=stream.schema,
            time=stream.time,
            domain=stream.domain,
            aggs=self.aggregation.aggs,
            windows=self.windows,
            expressions=self.scalars,
            read=stream.read,
            keys=stream.keys,
            watermark=stream.watermark,
            lateness=stream.lateness,
            emit_empty=self.emit_empty,
            store=store,
            finalize=None if self.aggregation.direct else self.aggregation.finish,
            identity=self.identity,
        )

    @property
    def identity(self) -> Mapping[str, Any]:
        """Everything that must be the same for a snapshot to be of this query, apart from its windows."""
        stream = self.stream
        return {
            "columns": [f"{f.name} {f.type}" for f in stream.schema],
            "time": f"{stream.time} ({stream.domain.unit}{', integer' if stream.domain.integer else ''})",
            "keys": list(stream.keys),
            "watermark": stream.watermark,
            "lateness": stream.lateness,
            "where": [e.text for e in stream.where],
            "aggregates": dict(self.aggregation.computed),
            "emit_empty": self.emit_empty,
        }


def plan_query(
    stream: StreamPlan,
    windows: Mapping[str, Window],
    outputs: Mapping[str, str | Aggregate],
    *,
    emit_empty: bool = False,
) -> QueryPlan:
    """Resolve a query; raises QueryError naming the argument for anything that can't be."""
    if not windows:
        raise QueryError("window() needs at least one window, for instance pn.tumbling('1 min')")
    if not outputs:
        raise QueryError("agg() needs at least one aggregate, for instance n='count(*)'")
    check_names(outputs, stream.keys, "agg")
    bound = []
    scalars = Scalars(stream.scope, {})
    for label, window in windows.items():
        if not isinstance(window, Window):
            raise QueryError(f"the window {label!r} must be a window such as pn.tumbling('1 min'); got {window!r}")
        try:
            bound.append((label, window.bind(stream.domain)))
            scalars = scalars.including(bound[-1][1].columns)
        except QueryError as error:
            raise type(error)(f"window {label!r}: {error}") from error
    for label, found in bound:
        if found.measure.column is not None:
            measure_dtype(label, found.measure.column, scalars.types[found.measure.column])
    aggregation = compile_aggregates(outputs, stream.scope)
    everything = Scalars(stream.scope, {**scalars.wanted, **aggregation.inputs})
    return QueryPlan(stream, tuple(windows.items()), tuple(bound), aggregation, everything, emit_empty)


def check_names(names: Mapping[str, Any], keys: Sequence[str], where: str) -> None:
    """Refuse output names that a result column has already."""
    for name in names:
        if name in RESERVED:
            raise QueryError(f"{where}: {name!r} is a column of every result; choose another name")
        if name in keys:
            raise QueryError(f"{where}: {name!r} is a key column already; choose another name")


def condition(scope: Scope, text: str) -> Condition:
    """A `where` condition: an expression that is true, false or null for each row."""
    expression = scope.scalar(text)
    scalars = Scalars(scope, {expression.text: expression})
    kind = scalars.types[expression.text]
    if not pa.types.is_boolean(kind):
        raise QueryError(f"where({text!r}) must be a condition, true or false for each row; it is {kind}")
    return Condition(expression.text, scalars)
