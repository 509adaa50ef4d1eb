"""Streams as users build them: a node of the graph, and how its rows are read as a stream.

In: nodes, and the time, keys and watermark as users write them. Out: a node with the `StreamPlan` over it, for
`pn.stream`, `stream.with_time`, `query.stream` and CQL alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from panes.errors import QueryError
from panes.plan.arrival import ARRIVAL_TIME, Arrival
from panes.plan.graph import Node, StampNode, WindowsNode, given_at_end
from panes.plan.query import StreamPlan
from panes.plan.silence import BY_ROWS, Silence, followed
from panes.plan.steps import passing
from panes.plan.streams import Duration, plan_stream, time_type
from panes.plan.types import check_columns
from panes.slicing.ledger import KEEP_LATE
from panes.slicing.spec import MANUAL

Streamed = tuple[Node, StreamPlan]


def stream_over(
    node: Node,
    *,
    time: str | Arrival,
    key: str | Sequence[str] | None = None,
    watermark: Duration | None = None,
    lateness: Duration | None = None,
    time_unit: str | None = None,
    keep_late: int | None = KEEP_LATE,
    silence: Silence = BY_ROWS,
) -> Streamed:
    """The rows of a node as a stream."""
    check_columns(node.schema.names)
    if not isinstance(time, str):
        return _stamped(node, time, key, watermark, lateness, time_unit, silence)
    kind = time_type(node.schema, time)
    if kind != node.schema.field(time).type:
        node = node.retyped(time, kind)
    plan = plan_stream(node.schema, time, key, watermark, lateness, time_unit, keep_late)
    return node, replace(plan, silence=silence)


def _stamped(
    node: Node,
    time: Arrival,
    key: str | Sequence[str] | None,
    watermark: Duration | None,
    lateness: Duration | None,
    time_unit: str | None,
    silence: Silence,
) -> Streamed:
    """A stream whose rows are stamped as they arrive; the stamp is there to be used, and shown if asked for."""
    if not isinstance(time, Arrival):
        raise QueryError(f"time must be the name of a column, or pn.arrival(); got {time!r}")
    if node.pushed:
        raise QueryError("time=pn.arrival() needs data: rows that are pushed bring their own time")
    for name, value in (("watermark", watermark), ("lateness", lateness)):
        if value is not None:
            raise QueryError(f"{name}={value!r}: with time=pn.arrival() rows are in order, so nothing is late")
    if silence.idle is not None:
        raise QueryError("idle: with time=pn.arrival() the clock moves the watermark at any moment; leave idle out")
    if silence.clock is not None:
        raise QueryError("clock: with time=pn.arrival() give the clock there: pn.arrival(clock=...)")
    stamp = StampNode.of(node, time)
    plan = plan_stream(stamp.schema, ARRIVAL_TIME, key, None, None, time_unit)
    silence = replace(time.silence, timeout=silence.timeout)
    return stamp, replace(plan, shown=tuple(node.schema.names), silence=silence)


def stream_of_results(
    query: WindowsNode,
    *,
    time: str | Arrival,
    key: str | Sequence[str] | None,
    watermark: Duration | None,
    lateness: Duration | None,
    time_unit: str | None,
) -> Streamed:
    """`query.stream(...)`: the results of a query as rows of a stream."""
    plan = query.plan
    if query.pushed:
        raise QueryError("stream(): the query has no data of its own; give pn.stream(data, ...)")
    if plan.stream.lateness is not None:
        raise QueryError(
            "stream(): the results of this query may be corrected (lateness=), and what was made of them can't be; "
            "leave lateness out and wait longer instead (watermark=)"
        )
    if plan.early is not None:
        raise QueryError(
            "stream(): this query gives windows before they close (early()), and what was made of these results can't "
            "be taken back; put windows over a query without early()"
        )
    shown = tuple(plan.shape.names)
    if isinstance(time, str) and time not in shown and time in plan.given.naming:
        plan = replace(plan, steps=passing(plan.steps, plan.given, time))
    domain = plan.stream.domain
    if time_unit is None and domain.integer and time in ("window_start", "window_end"):
        time_unit = domain.unit
    node, made = stream_over(
        WindowsNode.of(query.source, plan),
        time=time,
        key=key,
        watermark=watermark,
        lateness=lateness,
        time_unit=time_unit,
        keep_late=plan.stream.keep_late,
    )
    silence = made.silence
    if isinstance(time, str) and watermark != MANUAL and not isinstance(given_at_end(node, time), str):
        # a window is given as soon as time there reaches its end: windows over it can go by the same clock
        silence = followed(plan.stream.silence)
    return node, replace(made, shown=shown, silence=silence)
