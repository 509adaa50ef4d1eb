"""Streams that operators give, on Spark: the operators and what is between them run in Spark's workers.

Rows of all frames go to a key group, are put in order of event time, and run there through the graph of operators
(graph_operator.py), punctuations and windows over the results included: over a static frame all at once, over streams
as far as the watermark has come. Where rows can't meet (`split_keys`) they are spread over groups; else one task does
all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa

from panes.connectors.spark_types import spark_schema, storable_schema
from panes.errors import QueryError
from panes.operators.clauses import SLIDING, Clause
from panes.operators.models import Use
from panes.plan.graph import Node, OperateNode, operators_in, puts_results_together
from panes.plan.operator_plan import OperatorPlan
from panes.plan.query import QueryPlan, StreamPlan
from panes.runners.spark.check import check_session, check_silence
from panes.runners.spark.event_time import EventTime
from panes.runners.spark.frame_columns import by_group, mapped
from panes.runners.spark.graph_query import LEAF, GraphQuery, Leaf
from panes.runners.spark.packing import PACKED, PACKED_TIME, Packer, in_order
from panes.runners.spark.shipping import packed as shipped
from panes.runners.spark.shipping import unpacked
from panes.runners.spark.strategies.key_groups import Unpacker, in_groups
from panes.runners.spark.stream_frames import watched

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The watermark as Spark has it.
_MILLIS = EventTime(1, 1, 0, 0)
#: Columns of a port that hold what must be equal for rows to meet.
_EQUAL = {"Join": "panes.equal.", "Dedupe": "panes.on."}


@dataclass(frozen=True)
class GraphRows:
    """The rows that windows or operators read: a node, and the way from nodes to frames (frames.py)."""

    node: Node
    streaming: bool
    frame_of: Callable[[Node], DataFrame]
    #: for windows on the time of a stream, with a watermark for each of the streams that it is merged of, if it is
    marked: Callable[[Node, StreamPlan], DataFrame | None]

    def frame(self) -> DataFrame:
        return self.frame_of(self.node)


def one_step(rows: GraphRows) -> bool:
    """Whether the rows of streaming frames go through operators, or are put together with results of windows, so that
    all of it must be one step: Spark's watermark would be past what comes out when it came to the next.
    """
    operated = next(operators_in(rows.node), None) is not None
    return rows.streaming and (operated or puts_results_together(rows.node))


def operator_frame(
    given: GraphRows,
    sequence: str | None = None,
    *,
    windows: QueryPlan | None = None,
    late: bool = False,
    key_groups: int = 16,
    inside: bool = False,
    latest: bool = False,
) -> DataFrame:
    """What an operator gives of frames; with `windows`, what these give of that."""
    node = given.node
    query, sources = GraphQuery.of(node, windows, sequence, streaming=given.streaming)
    frames = [given.frame_of(each) for each in sources]
    _check_sequence(query)
    streaming = all_streaming(frames, "matched or merged")
    keys = split_keys(node, streaming=streaming, windows=windows)
    groups = key_groups if any(keys) else 1
    leaves = query.leaves
    for leaf in leaves:
        leaf.used.update(name for name in leaf.schema.names if late or name == sequence)
    if not streaming:
        rows = [_packed(frame, leaf, k, groups) for frame, leaf, k in zip(frames, leaves, keys)]
        return _static(union(rows), query)
    for leaf in leaves:
        check_silence(leaf.stream, node)
    check_session(frames[0].sparkSession, key_groups=key_groups)
    times = tuple(EventTime.of(leaf.stream) for leaf in leaves)
    rows = [
        time.mark(_packed(frame, leaf, k, groups, time), PACKED_TIME)
        for frame, leaf, k, time in zip(frames, leaves, keys, times)
    ]
    # the watermark is kept by Spark from here on, the least of all streams
    packed = union([each.drop(PACKED_TIME) for each in rows])
    running = replace(query, times=times, latest=latest)
    made = in_groups(packed, running, _MILLIS, groups, late=late, inside=inside)
    return made if inside else watched(made, query.facts(groups))


def _check_sequence(query: GraphQuery) -> None:
    wanted = query.sequence
    if wanted is None:
        return
    if not any(wanted in leaf.schema.names for leaf in query.leaves):
        names = [each.plan.use.model.name for each in operators_in(query.root)] or ["the query"]
        raise QueryError(f"sequence={wanted!r}: none of the streams that {names[-1]} reads has such a column")
    if any(wanted in leaf.schema.names and pa.types.is_nested(leaf.schema.field(wanted).type) for leaf in query.leaves):
        raise QueryError(f"sequence={wanted!r} must be a column of single values, which have an order")


def all_streaming(frames: Sequence[DataFrame], what: str) -> bool:
    """Whether frames are streaming, which all must be, or none; `what` is done to them."""
    streaming = [bool(frame.isStreaming) for frame in frames]
    if any(streaming) and not all(streaming):
        raise QueryError(
            f"to_spark(): some of the streams that are {what} are streaming and some are static, which Spark can't "
            "have in one query; give it all as streams, or all as static frames"
        )
    return any(streaming)


def _packed(frame: DataFrame, leaf: Leaf, keys: Sequence[str], groups: int, time: EventTime | None = None) -> DataFrame:
    packer = Packer(leaf.reading(keys), leaf.columns, groups, time, {LEAF: str(leaf.number).encode()})
    return mapped(frame, leaf.columns, packer, PACKED)


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """The rows of all frames."""
    return reduce(lambda first, other: first.union(other), frames)


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


def split_keys(node: Node, *, streaming: bool = False, windows: QueryPlan | None = None) -> list[tuple[str, ...]]:
    """For each frame the columns by which its rows may be spread; none: all rows must be in one place.

    Rows of different keys never meet, unless windows forget keys by the rows of all. Without keys, rows that must be
    equal to meet, in a match or to be duplicates, can be spread by what must be equal, if windows go by time alone:
    then no other row pushes one out of its window.

    Time in a static frame comes as far as the last row of all, so that there what the end gives, and what time alone
    gives, would differ; over streams it comes as far as the watermark, for all groups alike.
    """
    frames = GraphQuery.of(node, windows, streaming=streaming)[1]
    together: list[tuple[str, ...]] = [() for _ in frames]
    if not isinstance(node, OperateNode) or windows is not None:
        return together  # windows over operators may have other keys
    plan = node.plan
    if [id(each) for each in node.inputs] != [id(each) for each in frames]:
        return together
    if any(clause.partition_evict is not None or clause.punctuated for clause in plan.use.windows.values()):
        return together
    found = [port.stream.keys for port in plan.ports] if _keyed(plan) else _equal_columns(plan)
    alike = _of_keys(plan.use) if streaming else _same_at_the_end(plan, node.port)
    return found if found and alike else together


def _keyed(plan: OperatorPlan) -> bool:
    return all(p.stream.keys and all(k in p.stream.schema.names for k in p.stream.keys) for p in plan.ports)


def _equal_columns(plan: OperatorPlan) -> list[tuple[str, ...]]:
    """Of each port the columns that must be equal for rows to meet; none if windows are not by time alone."""
    prefix = _EQUAL.get(plan.use.model.name)
    if (
        prefix is None
        or any(port.stream.keys for port in plan.ports)
        or not all(map(_by_time, plan.use.windows.values()))
    ):
        return []
    names = [name for name in plan.ports[0].scalars.wanted if name.startswith(prefix)]
    kept = [n for n in names if all(p.scalars.wanted[n].column in p.stream.schema.names for p in plan.ports)]
    found = [tuple(str(port.scalars.wanted[name].column) for name in kept) for port in plan.ports]
    types = [[port.stream.schema.field(c).type for c in columns] for port, columns in zip(plan.ports, found)]
    return found if kept and all(each == types[0] for each in types) else []


def _by_time(clause: Clause) -> bool:
    return clause.kind == SLIDING and (clause.evict.kind == "time" or clause.keeps_none)


def _of_keys(use: Use) -> bool:
    """Whether keys know nothing of each other; those of a user's operator may."""
    return use.model.name in ("Aggregate", "Join", "Sort", "Dedupe", "Punctuate")


def _same_at_the_end(plan: OperatorPlan, port: int) -> bool:
    """Whether they don't either where time stops at the last row, and the end gives something."""
    name, parameters = plan.use.model.name, plan.use.parameters
    if name == "Dedupe":
        return True
    if name == "Join":
        return bool(parameters["how"] == "inner")
    if any("time" in clause.form for clause in plan.use.windows.values()):
        return False
    if name == "Aggregate":
        return not parameters["partial"]
    return name == "Sort" and not plan.outputs[port].stamped
