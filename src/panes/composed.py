"""Streams that are made of other streams, of queries, or of rows without a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from panes.errors import QueryError
from panes.stream import Stream, stream

if TYPE_CHECKING:
    from panes.plan.query import QueryPlan
    from panes.plan.silence import Silence
    from panes.plan.streams import Duration
    from panes.runners.local.arrival import Arrival
    from panes.runners.local.source import Source


def merge(*streams: Stream) -> Stream:
    """The rows of several streams as one, in the order in which they arrive.

    All must have the same columns, time and keys. Streams that are in order give one that is in order of time.
    """
    from panes.plan.merging import merge_plans
    from panes.runners.local.merged import MergedSource

    for i, given in enumerate(streams):
        if not isinstance(given, Stream):
            raise QueryError(f"merge: argument {i + 1} must be a stream; got {type(given).__name__}")
    plan, names = merge_plans([s._plan for s in streams])
    sides = [s._flow_source(f"merge: stream {i + 1}", names) for i, s in enumerate(streams)]
    return Stream(MergedSource(sides, plan.time), plan)


def stream_of_query(plan: QueryPlan, source: Source | None, *, time: str | Arrival, **options: Any) -> Stream:
    """`query.stream(...)`: the results of a query as rows of a stream."""
    from panes.plan.silence import followed
    from panes.plan.steps import passing
    from panes.runners.local.derived import QuerySource
    from panes.slicing.spec import MANUAL

    if source is None:
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
    if options["time_unit"] is None and domain.integer and time in ("window_start", "window_end"):
        options["time_unit"] = domain.unit
    results = QuerySource(plan, source)
    made = stream(results, time=time, keep_late=plan.stream.keep_late, **options)
    silence = made._plan.silence
    if isinstance(time, str) and options["watermark"] != MANUAL and not isinstance(results.passed(time), str):
        # a window is given as soon as time there reaches its end: windows over it can go by the same clock
        silence = followed(plan.stream.silence)
    return replace(made, _plan=replace(made._plan, shown=shown, silence=silence))


def stamped(
    source: Source | None,
    time: Arrival,
    key: str | Sequence[str] | None,
    watermark: Duration | None,
    lateness: Duration | None,
    time_unit: str | None,
    silence: Silence,
) -> Stream:
    """A stream whose rows are stamped as they arrive; the stamp is there to be used, and shown if asked for."""
    from panes.plan.streams import plan_stream
    from panes.runners.local.arrival import ARRIVAL_TIME, Arrival, ArrivalSource

    if not isinstance(time, Arrival):
        raise QueryError(f"time must be the name of a column, or pn.arrival(); got {time!r}")
    if source is None:
        raise QueryError("time=pn.arrival() needs data: rows that are pushed bring their own time")
    for name, value in (("watermark", watermark), ("lateness", lateness)):
        if value is not None:
            raise QueryError(f"{name}={value!r}: with time=pn.arrival() rows are in order, so nothing is late")
    if silence.idle is not None:
        raise QueryError("idle: with time=pn.arrival() the clock moves the watermark at any moment; leave idle out")
    if silence.clock is not None:
        raise QueryError("clock: with time=pn.arrival() give the clock there: pn.arrival(clock=...)")
    with_stamps = ArrivalSource(source, time)
    plan = plan_stream(with_stamps.schema, ARRIVAL_TIME, key, None, None, time_unit)
    silence = replace(time.silence, timeout=silence.timeout)
    return Stream(with_stamps, replace(plan, shown=tuple(source.schema.names), silence=silence))
