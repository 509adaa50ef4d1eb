"""Columns, time, keys and watermark of a stream as users write them, to a `StreamPlan`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import pyarrow as pa

from panes.errors import QueryError
from panes.plan.expressions import Scope
from panes.plan.hints import did_you_mean
from panes.plan.query import StreamPlan
from panes.plan.steps import RESERVED
from panes.slicing.ledger import KEEP_LATE
from panes.units import TimeDomain, is_number

Duration = str | dt.timedelta | int | float


def time_type(schema: pa.Schema, time: str) -> pa.DataType:
    """The type that the time column is read as: timestamps, or whole numbers in 64 bits."""
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


def plan_stream(
    schema: pa.Schema,
    time: str,
    key: str | Sequence[str] | None,
    watermark: Duration | None,
    lateness: Duration | None,
    time_unit: str | None,
    keep_late: int | None = KEEP_LATE,
) -> StreamPlan:
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
        keys=key_columns(schema, time, key),
        watermark=_bound(watermark, domain),
        lateness=None if lateness is None else _ticks(lateness, domain, "lateness"),
        keep_late=_kept(keep_late),
    )


def _kept(keep_late: int | None) -> int | None:
    if keep_late is None or (isinstance(keep_late, int) and not isinstance(keep_late, bool) and keep_late >= 0):
        return keep_late
    raise QueryError(f"keep_late must be a number of rows, or None for all of them; got {keep_late!r}")


def key_columns(schema: pa.Schema, time: str, key: str | Sequence[str] | None) -> tuple[str, ...]:
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
