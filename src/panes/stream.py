"""What users build queries with: `pn.stream(...).window(...).agg(...)`.

In: data and the names of its time and key columns. Out: a `Query`, which runs here (`to_pandas()`, `rows()`),
explains itself, or gives an operator to push rows to. Every step returns a new value; nothing is read before
a run except what is needed to know the columns.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panes.errors import QueryError
from panes.query import Query
from panes.units import TimeDomain, is_number

if TYPE_CHECKING:
    from panes.aggregates.base import Aggregate
    from panes.plan.query import StreamPlan
    from panes.runners.local.source import Source
    from panes.windows.base import Window

Duration = str | dt.timedelta | int | float


def stream(
    data: Any = None,
    *,
    time: str,
    key: str | Sequence[str] | None = None,
    watermark: Duration | None = None,
    lateness: Duration | None = None,
    schema: Mapping[str, str | pa.DataType] | pa.Schema | None = None,
    time_unit: str | None = None,
) -> Stream:
    """Rows with an event time.

    - `data`: pandas, Polars or Arrow; a list of dicts or a dict of columns; an iterator of those; a path or
      glob of Parquet, CSV or JSON files; a source such as `pn.socket_source(...)`. None: rows will be pushed.
    - `time`: the event-time column, a timestamp or an integer (then `time_unit` says what durations mean).
    - `key`: the column or columns by which windows are kept apart.
    - `watermark`: how much disorder to wait for; None: rows are in order; "manual": only `advance` moves it.
    - `lateness`: how long after the watermark a late row still corrects its windows.
    - `schema`: column types, for data that has none of its own, or to read some columns differently.
    """
    from panes.plan.types import arrow_schema
    from panes.runners.local.sources import open_source

    declared = None if schema is None else arrow_schema(schema)
    if data is None and declared is None:
        raise QueryError("a stream without data needs schema=, for instance {'ts': 'timestamp', 'v': 'double'}")
    source = None if data is None else open_source(data, declared)
    columns = source.schema if source is not None else declared
    assert columns is not None
    kind = _time_type(columns, time)
    if kind != columns.field(time).type:
        columns = pa.schema([pa.field(f.name, kind if f.name == time else f.type) for f in columns])
        if source is not None:
            source.retype(time, kind)
    return Stream(source, _plan(columns, time, key, watermark, lateness, time_unit))


@dataclass(frozen=True)
class Stream:
    """Rows with an event time, and what is done to each of them. Made by `pn.stream`."""

    _source: Source | None
    _plan: StreamPlan

    def where(self, condition: str) -> Stream:
        """Only the rows for which the SQL condition is true. Rows left out don't move the watermark."""
        from panes.plan.query import condition as checked

        more = checked(self._plan.scope, condition)
        return replace(self, _plan=replace(self._plan, where=(*self._plan.where, more)))

    def with_columns(self, **expressions: str) -> Stream:
        """Further columns, each an SQL expression of the row: `with_columns(value="price * qty")`."""
        if not expressions:
            raise QueryError("with_columns() needs at least one column, for instance value='price * qty'")
        return self._derive(expressions, None)

    def select(self, *columns: str, **expressions: str) -> Stream:
        """Only these columns, and the time and key columns; new ones as in `with_columns`."""
        if not columns and not expressions:
            raise QueryError("select() needs at least one column")
        for name in columns:
            if name not in self._plan.scope.names:
                from panes.plan.hints import did_you_mean

                raise QueryError(f"select: there is no column {name!r}{did_you_mean(name, self._plan.scope.names)}")
        return self._derive(expressions, (self._plan.time, *self._plan.keys, *columns, *expressions))

    def window(self, *windows: Window, emit_empty: bool = False, **named: Window) -> WindowedStream:
        """Windows over the stream, one or many; all share slices. A name is the label of its results.

        `emit_empty`: also give windows that hold no row.
        """
        labelled: dict[str, Window] = {}
        for window in windows:
            label = str(window)
            if label in labelled:
                raise QueryError(f"window: {label} is given twice; leave one out, or give them names")
            labelled[label] = window
        for label, window in named.items():
            if label in labelled:
                raise QueryError(f"window: two windows have the label {label!r}; rename one")
            labelled[label] = window
        if not labelled:
            raise QueryError("window() needs at least one window, for instance pn.tumbling('1 min')")
        if not isinstance(emit_empty, bool):
            raise QueryError(f"emit_empty must be True or False; got {emit_empty!r}")
        return WindowedStream(self, labelled, emit_empty)

    def _derive(self, expressions: Mapping[str, str], visible: tuple[str, ...] | None) -> Stream:
        from panes.plan.scalars import Scalars

        plan = self._plan
        for name in expressions:
            if name == plan.time or name in plan.keys:
                raise QueryError(
                    f"{name!r} is the time or a key of the stream and can't be replaced; choose another name"
                )
        resolved = {name: plan.scope.scalar(text) for name, text in expressions.items()}
        Scalars(plan.scope, resolved)  # refuses what can't be computed
        names = tuple(dict.fromkeys(visible or (*plan.scope.names, *expressions)))
        scope = replace(plan.scope, derived={**plan.scope.derived, **resolved}, visible=names)
        return replace(self, _plan=replace(plan, scope=scope))

    def __repr__(self) -> str:
        source = "pushed rows" if self._source is None else str(self._source)
        by = f", key {', '.join(self._plan.keys)}" if self._plan.keys else ""
        return f"<Stream of {source}: time {self._plan.time}{by}; columns {', '.join(self._plan.scope.names)}>"


@dataclass(frozen=True)
class WindowedStream:
    """A stream with windows, waiting to hear what to compute."""

    _stream: Stream
    _windows: Mapping[str, Window]
    _emit_empty: bool

    def agg(self, *aggregates: str | Aggregate, **named: str | Aggregate) -> Query:
        """What to compute per window: SQL text or aggregate objects. A name is the column of the result."""
        from panes.plan.query import plan_query

        outputs: dict[str, str | Aggregate] = {}
        for aggregate in aggregates:
            name = aggregate if isinstance(aggregate, str) else str(aggregate)
            if name in outputs:
                raise QueryError(f"agg: {name} is given twice")
            outputs[name] = aggregate
        for name, aggregate in named.items():
            if name in outputs:
                raise QueryError(f"agg: two aggregates have the name {name!r}; rename one")
            outputs[name] = aggregate
        plan = plan_query(self._stream._plan, self._windows, outputs, emit_empty=self._emit_empty)
        return Query(plan, self._stream._source)


def _time_type(schema: pa.Schema, time: str) -> pa.DataType:
    """The type that the time column is read as: timestamps, or whole numbers in 64 bits."""
    from panes.plan.hints import did_you_mean

    if not isinstance(time, str):
        raise QueryError(f"time must be the name of a column; got {time!r}")
    if time not in schema.names:
        raise QueryError(f"time={time!r}: there is no such column{did_you_mean(time, schema.names)}")
    kind = schema.field(time).type
    if pa.types.is_timestamp(kind):
        return kind
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_string(kind):
        return pa.timestamp("us")
    if pa.types.is_date(kind):
        return pa.timestamp("s")
    raise QueryError(
        f"time={time!r} must be a timestamp or an integer column; it is {kind}"
        + ("; give its type in schema=" if pa.types.is_null(kind) else "")
        + (f"; if its values are whole, give schema={{{time!r}: 'bigint'}}" if pa.types.is_floating(kind) else "")
    )


def _plan(
    schema: pa.Schema,
    time: str,
    key: str | Sequence[str] | None,
    watermark: Duration | None,
    lateness: Duration | None,
    time_unit: str | None,
) -> StreamPlan:
    from panes.plan.expressions import Scope
    from panes.plan.query import StreamPlan

    kind = schema.field(time).type
    integer = pa.types.is_integer(kind)
    if time_unit is not None and not integer:
        raise QueryError(
            f"time_unit={time_unit!r}: the column {time!r} is a timestamp and has its own unit, {kind.unit}"
        )
    domain = TimeDomain(time_unit or "ms", True) if integer else TimeDomain(kind.unit, False, kind.tz)
    return StreamPlan(
        scope=Scope(schema),
        time=time,
        domain=domain,
        keys=_keys(schema, time, key),
        watermark=_bound(watermark, domain),
        lateness=None if lateness is None else _ticks(lateness, domain, "lateness"),
    )


def _keys(schema: pa.Schema, time: str, key: str | Sequence[str] | None) -> tuple[str, ...]:
    from panes.plan.hints import did_you_mean
    from panes.plan.query import RESERVED

    keys = (key,) if isinstance(key, str) else tuple(key or ())
    for name in keys:
        if name not in schema.names:
            raise QueryError(f"key={name!r}: there is no such column{did_you_mean(str(name), schema.names)}")
        if keys.count(name) > 1:
            raise QueryError(f"key={name!r} is given twice")
        if name == time:
            raise QueryError(f"key={name!r} is the time column: every instant would be a key of its own")
        if name in RESERVED:
            raise QueryError(f"key={name!r}: every result has a column of that name; rename the key column")
        kind = schema.field(name).type
        if pa.types.is_nested(kind):
            raise QueryError(f"key={name!r} must be a column of single values; it is {kind}")
    return keys


def _bound(watermark: Duration | None, domain: TimeDomain) -> int | str | None:
    if watermark is None or watermark == "manual":
        return watermark  # type: ignore[return-value]
    return _ticks(watermark, domain, "watermark")


def _ticks(size: Duration, domain: TimeDomain, argument: str) -> int:
    if isinstance(size, bool) or not (isinstance(size, str | dt.timedelta) or is_number(size)):
        manual = ", 'manual'" if argument == "watermark" else ""
        raise QueryError(f"{argument} must be a duration such as '2 s', a timedelta{manual} or None; got {size!r}")
    ticks = domain.ticks(size, argument=argument, positive=False)
    if ticks < 0:
        raise QueryError(f"{argument}={size!r} must not be negative")
    return ticks
