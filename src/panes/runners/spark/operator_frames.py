"""Streams that operators give, on Spark: the operators and what is between them run in Spark's workers.

Rows of all frames go to a key group, are put in order of event time, and run there through the graph of operators
(graph_operator.py), punctuations and windows over the results included: over a static frame all at once, over streams
as far as the watermark has come. Where rows can't meet (operator_spread.py) they are spread over groups; else one task
does all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from panes.errors import QueryError
from panes.plan.query import QueryPlan
from panes.runners.local.source import Source
from panes.runners.spark.check import check_session, check_silence
from panes.runners.spark.event_time import EventTime
from panes.runners.spark.frame_columns import by_group, mapped
from panes.runners.spark.graph_query import LEAF, GraphQuery, LeafSource, operators_in
from panes.runners.spark.operator_spread import split_keys
from panes.runners.spark.packing import PACKED, PACKED_TIME, Packer, in_order
from panes.runners.spark.shipping import packed as shipped
from panes.runners.spark.shipping import unpacked
from panes.runners.spark.source import frame_of, is_stream
from panes.runners.spark.spark_types import spark_schema, storable_schema
from panes.runners.spark.strategies.key_groups import Unpacker, in_groups
from panes.runners.spark.stream_frames import watched

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The watermark as Spark has it.
_MILLIS = EventTime(1, 1, 0, 0)


def has_operators(source: Source) -> bool:
    """Whether the rows of a stream come from an operator."""
    return next(operators_in(source), None) is not None


def over_operators(source: Source) -> bool:
    """Whether the rows of a stream come from operators on streaming frames, so that all of it must be one step.

    Spark's watermark would be past what operators give when it came to the windows of another.
    """
    return has_operators(source) and is_stream(source)


def operator_frame(
    source: Source,
    sequence: str | None = None,
    *,
    windows: QueryPlan | None = None,
    late: bool = False,
    key_groups: int = 16,
    inside: bool = False,
    latest: bool = False,
) -> DataFrame:
    """What an operator gives of frames; with `windows`, what these give of that."""
    query, sources = GraphQuery.of(source, windows, sequence)
    frames = [frame_of(each) for each in sources]
    _check_sequence(query)
    streaming = _streaming(sources, frames)
    keys = split_keys(source, streaming=streaming, windows=windows)
    groups = key_groups if any(keys) else 1
    leaves = query.leaves
    for leaf in leaves:
        leaf.used |= {name for name in leaf.schema.names if late or name == sequence}
    if not streaming:
        rows = [_packed(frame, leaf, k, groups) for frame, leaf, k in zip(frames, leaves, keys)]
        return _static(_union(rows), query)
    for leaf in leaves:
        check_silence(leaf.stream, source)
    check_session(frames[0].sparkSession, key_groups=key_groups)
    times = tuple(EventTime.of(leaf.stream) for leaf in leaves)
    rows = [
        time.mark(_packed(frame, leaf, k, groups, time), PACKED_TIME)
        for frame, leaf, k, time in zip(frames, leaves, keys, times)
    ]
    # the watermark is kept by Spark from here on, the least of all streams
    packed = _union([each.drop(PACKED_TIME) for each in rows])
    running = replace(query, times=times, latest=latest)
    made = in_groups(packed, running, _MILLIS, groups, late=late, inside=inside)
    return made if inside else watched(made, query.facts(groups))


def _check_sequence(query: GraphQuery) -> None:
    wanted = query.sequence
    if wanted is None:
        return
    name = list(operators_in(query.source))[-1].plan.use.model.name
    if not any(wanted in leaf.schema.names for leaf in query.leaves):
        raise QueryError(f"sequence={wanted!r}: none of the streams that {name} reads has such a column")
    if any(wanted in leaf.schema.names and pa.types.is_nested(leaf.schema.field(wanted).type) for leaf in query.leaves):
        raise QueryError(f"sequence={wanted!r} must be a column of single values, which have an order")


def _streaming(sources: Sequence[Source], frames: Sequence[DataFrame]) -> bool:
    streaming = [bool(frame.isStreaming) for frame in frames]
    if any(streaming) and not all(streaming):
        raise QueryError(
            "to_spark(): some of the streams that are matched or merged are streaming and some are static, which "
            "Spark can't have in one query; give it all as streams, or all as static frames"
        )
    if any(each.windowed and on for each, on in zip(sources, streaming)):
        raise QueryError(
            "to_spark(): operators over the results of windows can't be one streaming query: Spark's watermark would "
            "be past these results when they come. Write those of the windows to a table, and read it as a stream of "
            "its own"
        )
    return any(streaming)


def _packed(
    frame: DataFrame, leaf: LeafSource, keys: Sequence[str], groups: int, time: EventTime | None = None
) -> DataFrame:
    packer = Packer(leaf.reading(keys), leaf.columns, groups, time, {LEAF: str(leaf.number).encode()})
    return mapped(frame, leaf.columns, packer, PACKED)


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    first, *others = frames
    for frame in others:
        first = first.union(frame)
    return first


def _static(packed: DataFrame, query: GraphQuery) -> DataFrame:
    """All rows of a group, in one go."""
    schema, data = storable_schema(query.result_schema), shipped(query)
    unpack = Unpacker(schema, None)

    def whole_group(given: pa.Table) -> pa.Table:
        graph = unpacked(data)
        op = graph.operator()
        rows = graph.rows(in_order(*(given.column(i).to_pylist() for i in (1, 2, 3))))
        if rows is not None:
            op.push(rows)
        return unpack.results(op.finish().table)

    return by_group(packed, ["panes_group"], whole_group, spark_schema(schema))
