"""A logical graph as Spark frames: each node to the DataFrame of what it gives.

In: nodes of plan/graph.py. Out: frames, streaming if the data is. What windows and operators are made into is chosen in
runner.py and operator_frames.py; here is the way through the graph to them, and the public doors of the room.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from panes.connectors.frames import FrameSource
from panes.connectors.replay import ReplaySource
from panes.connectors.sockets import SocketSource
from panes.connectors.source import Source
from panes.connectors.spark_types import spark_schema, spark_type, storable, storable_schema
from panes.errors import QueryError
from panes.plan.arrival import ARRIVAL_TIME
from panes.plan.arrival import stamped as stamped_on_arrival
from panes.plan.explain import Explanation
from panes.plan.graph import (
    FitNode,
    MergeNode,
    Node,
    OperateNode,
    ReadNode,
    SelectNode,
    StampNode,
    TagNode,
    WindowsNode,
    operators_in,
)
from panes.plan.query import StreamPlan
from panes.plan.relation_query import SIDE
from panes.runners.spark.check import check_silence
from panes.runners.spark.event_time import EVENT_TIME, EventTime
from panes.runners.spark.explain import SparkExplanation, explain
from panes.runners.spark.flows import fit, flow_frame, late_frame
from panes.runners.spark.frame_columns import Numbered
from panes.runners.spark.operator_frames import GraphRows, all_streaming, one_step, operator_frame, union
from panes.runners.spark.runner import to_spark
from panes.runners.spark.session import spark
from panes.runners.spark.sources.socket import listen
from panes.runners.spark.sources.tape import play
from panes.runners.spark.strategies.card import StrategyJob
from panes.runtime.rejects import Rejects
from panes.slicing.spec import MANUAL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def query_frame(query: WindowsNode, **options: Any) -> DataFrame:
    """`query.to_spark(...)`."""
    return to_spark(query.plan, rows_of(query.source), **options)


def stream_frame(stream: SelectNode, *, sequence: str | None, late: bool, key_groups: int) -> DataFrame:
    """`stream.to_spark(...)`."""
    node = stream.source
    if is_stream(node):
        check_silence(stream.flow.stream, node)
    if sequence is None and not late and key_groups == 16:
        return flow_frame(stream.flow, frame_of(node))
    if next(operators_in(node), None) is None:
        asked = "sequence=" if sequence is not None else "late=" if late else "key_groups="
        raise QueryError(f"{asked} is for streams that operators give: rows of other streams stay where they are")
    given = operator_frame(rows_of(node), sequence, late=late, key_groups=key_groups)
    return late_frame(stream.flow, node.schema, given) if late else flow_frame(stream.flow, given)


def explain_on_spark(explained: Explanation, query: WindowsNode) -> SparkExplanation:
    """An explanation with how Spark would run the query."""
    rows = rows_of(query.source)
    return explain(explained, StrategyJob(replace(query.plan, steps=()), rows.frame()), in_one_step=one_step(rows))


def rows_of(node: Node) -> GraphRows:
    """What windows and operators over a node read."""
    return GraphRows(node, is_stream(node), frame_of, marked_frame)


def is_stream(node: Node) -> bool:
    """Whether the data of a graph, or some of it, would be a streaming DataFrame."""
    return any(isinstance(leaf, ReadNode) and _streams(leaf.data) for leaf in node.leaves)


def _streams(data: object) -> bool:
    return data.streaming if isinstance(data, FrameSource) else isinstance(data, ReplaySource | SocketSource)


def frame_of(node: Node) -> DataFrame:
    """What a node gives, as a DataFrame."""
    match node:
        case ReadNode():
            return _data_frame(cast(Source, node.data))
        case FitNode():
            return fit(frame_of(node.source), node.columns, node.schema)
        case StampNode():
            return _stamped(node, frame_of(node.source))
        case SelectNode():
            return flow_frame(node.flow, frame_of(node.source))
        case TagNode():
            return _tagged(node, frame_of(node.source))
        case MergeNode():
            return _union(node)
        case WindowsNode():
            return to_spark(node.plan, rows_of(node.source), inside=True)
        case OperateNode():
            return operator_frame(rows_of(node))
        case _:
            raise QueryError("to_spark(): this stream has no data of its own; give pn.stream(data, ...)")


def marked_frame(node: Node, windows: StreamPlan) -> DataFrame | None:
    """The same for windows on the time of a stream, if it is merged of several: on a streaming frame each of these has
    a watermark of its own, and Spark goes by the slowest. None: it is not."""
    if isinstance(node, MergeNode):
        return _union(node, windows)
    if not isinstance(node, SelectNode):
        return None
    time = node.flow.scalars.wanted.get(windows.time)
    if time is None or time.column != windows.time:
        return None
    frame = marked_frame(node.source, windows)
    return None if frame is None else flow_frame(node.flow, frame)


def _data_frame(data: Source) -> DataFrame:
    """Data as a DataFrame; replays and sockets become streaming ones, all else static ones."""
    if isinstance(data, FrameSource):
        return data.frame
    if isinstance(data, ReplaySource):
        return play(data, None, None, None)
    if isinstance(data, SocketSource):
        return listen(data, None, None)
    return frame_of_tables(data.schema, data.batches(Rejects()), spark())


def frame_of_tables(schema: pa.Schema, tables: Iterable[pa.Table], session: SparkSession) -> DataFrame:
    """Tables as a static DataFrame, in types that Spark has; rows stay in order."""
    wanted = storable_schema(schema)
    found = [pa.table([t.column(f.name).cast(f.type) for f in wanted], schema=wanted) for t in tables]
    # with the types: Spark would take times without a zone for times in the zone of the session
    return session.createDataFrame(pa.concat_tables([wanted.empty_table(), *found]), spark_schema(wanted))


def _stamped(node: StampNode, frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    if node.time.clock is not None:
        if frame.isStreaming:
            raise QueryError("pn.arrival(clock=...) can't be on a streaming frame: Spark stamps its rows")
        # a clock of the program is asked in the program
        table, _ = stamped_on_arrival(frame.toArrow(), node.time, -(2**63))
        return frame_of_tables(node.schema, [table] if table.num_rows else [], frame.sparkSession)
    now = F.to_utc_timestamp(F.current_timestamp(), F.current_timezone()).cast("timestamp_ntz")
    return frame.withColumn(ARRIVAL_TIME, now)


def _tagged(node: TagNode, frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    rows, columns = Numbered(frame), {}
    for field in node.tagging.schema:
        if field.name in node.tagging.columns:
            column = rows.column(node.tagging.columns[field.name])
        else:
            column = F.lit(node.tagging.number if field.name == SIDE else None)
        columns[field.name] = column.cast(spark_type(storable(field.type)))
    return rows.select(columns)


def _union(node: MergeNode, windows: StreamPlan | None = None) -> DataFrame:
    frames = [frame_of(each) for each in node.inputs]
    streaming = all_streaming(frames, "merged or joined")
    numbered = [Numbered(frame) for frame in frames]
    rows = [each.frame.select(*map(each.column, node.schema.names)) for each in numbered]
    if windows is not None and streaming and windows.watermark != MANUAL:
        rows = _with_watermarks(rows, numbered, windows)
    return union(rows).toDF(*node.schema.names)


def _with_watermarks(rows: Sequence[DataFrame], of: Sequence[Numbered], windows: StreamPlan) -> list[DataFrame]:
    time, at = EventTime.of(windows), windows.time
    return [
        time.with_watermark(frame, windows, numbered.column(at)).drop(EVENT_TIME) for frame, numbered in zip(rows, of)
    ]
