"""Whether streams can be merged, and what the merged stream is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from panes.errors import QueryError
from panes.plan.expressions import Scope
from panes.plan.flow import Flow
from panes.plan.hints import did_you_mean
from panes.plan.query import StreamPlan
from panes.plan.silence import merged as merged_silence
from panes.slicing.spec import MANUAL


def merge_plans(plans: Sequence[StreamPlan]) -> tuple[StreamPlan, tuple[str, ...]]:
    """The plan of the merged stream, and the columns that each of the streams has to bring.

    Raises QueryError that names the first difference between the first stream and another.
    """
    if len(plans) < 2:
        raise QueryError(f"merge() needs at least two streams; got {len(plans)}")
    first = plans[0]
    schema = Flow.of(first).schema
    for i, plan in enumerate(plans[1:], 2):
        _same_columns(schema, Flow.of(plan).schema, i)
        for what, one, other in (
            ("time", first.time, plan.time),
            ("time unit", str(first.domain.unit), str(plan.domain.unit)),
            ("key", ", ".join(first.keys) or "none", ", ".join(plan.keys) or "none"),
        ):
            if one != other:
                advice = {"time": "; see with_time()", "key": "; see key_by()"}.get(what, "")
                raise QueryError(f"merge: the {what} of stream 1 is {one}, that of stream {i} is {other}{advice}")
    names = tuple(dict.fromkeys((*schema.names, first.time, *first.keys)))
    whole = Flow.of(first, names).schema
    for i, plan in enumerate(plans[1:], 2):
        _same_columns(whole, Flow.of(plan, names).schema, i)
    merged = replace(
        first,
        scope=Scope(whole),
        where=(),
        shown=tuple(schema.names),
        watermark=_watermark([p.watermark for p in plans]),
        lateness=max((p.lateness for p in plans if p.lateness is not None), default=None),
        keep_late=most_kept(plans),
        silence=merged_silence(p.silence for p in plans),
    )
    return merged, names


def most_kept(plans: Sequence[StreamPlan]) -> int | None:
    """As many late rows as any of the streams wants to be held."""
    wanted = [p.keep_late for p in plans]
    return None if None in wanted else max(n for n in wanted if n is not None)


def _same_columns(one: pa.Schema, other: pa.Schema, number: int) -> None:
    for field in one:
        if field.name not in other.names:
            hint = did_you_mean(field.name, other.names)
            raise QueryError(f"merge: stream 1 has a column {field.name!r}, stream {number} has none{hint}")
        kind = other.field(field.name).type
        if kind != field.type:
            raise QueryError(f"merge: column {field.name!r} is {field.type} in stream 1, {kind} in stream {number}")
    for name in other.names:
        if name not in one.names:
            hint = did_you_mean(name, one.names)
            raise QueryError(f"merge: stream {number} has a column {name!r}, stream 1 has none{hint}")


def _watermark(given: Sequence[int | str | None]) -> int | str | None:
    """As long as the most patient of the streams waits; in order if all are."""
    if MANUAL in given:
        if any(w != MANUAL for w in given):
            raise QueryError("merge: watermark='manual' must hold for all streams, or for none")
        return MANUAL
    if all(w is None for w in given):
        return None
    return max(int(w or 0) for w in given)
