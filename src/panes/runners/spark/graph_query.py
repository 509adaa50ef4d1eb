"""A graph of operators as Spark's workers see it: its frames taken out, and leaves in their place.

In: the node of a stream that operators give, or of windows over it. Out: a `GraphQuery`, which travels to the
workers, says which columns of which frame are sent there, and starts the operator of a key group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from panes.errors import QueryError
from panes.plan.expressions import Expression
from panes.plan.graph import MergeNode, Node, OperateNode, SelectNode, TagNode, WindowsNode, operators_in, queries_in
from panes.plan.query import QueryPlan, StreamPlan
from panes.runners.spark.event_time import EventTime
from panes.runners.spark.graph_operator import FrameRows, GraphOperator
from panes.runners.spark.group_operator import Passed, at_once
from panes.runners.spark.packing import from_bytes
from panes.slicing.operator import SliceOperator
from panes.state.checked import columns_of, demand
from panes.windows.base import ALWAYS

#: In the metadata of packed rows: the number of the frame that they are of.
LEAF = b"panes.leaf"


@dataclass(frozen=True, eq=False, repr=False)
class Leaf(Node):
    """Stands where a frame was: the rows that are sent to workers, as `stream` reads them."""

    number: int
    stream: StreamPlan
    used: set[str] = field(default_factory=set)
    #: the streams that read it
    readers: list[StreamPlan] = field(default_factory=list)

    @property
    def columns(self) -> tuple[str, ...]:
        """Those that are sent to workers."""
        return tuple(name for name in self.schema.names if name in self.used)

    def reading(self, keys: Sequence[str], *, whole: bool = False) -> StreamPlan:
        """How tasks read its rows before they send them on, and by which keys they are spread."""
        # rows that the only reader leaves out need not be sent; nor do they move the watermark
        where = self.stream.where if len(self.readers) == 1 and not whole else ()
        return replace(self.stream, keys=tuple(keys), where=where)

    def __str__(self) -> str:
        return "rows of a frame"


@dataclass(frozen=True)
class GraphQuery:
    """Operators over frames, and windows over what they give, if there are any."""

    root: Node
    leaves: tuple[Leaf, ...]
    windows: QueryPlan | None = None
    sequence: str | None = None
    times: tuple[EventTime, ...] = ()  # of streaming frames, one for each leaf
    latest: bool = False  # of what a micro-batch gives, only the newest revision of each identity
    clock: StreamPlan | None = None  # only rows move their watermarks
    follows: bool = False  # rows wait in order of their time until the watermark of a micro-batch has passed them

    @classmethod
    def of(
        cls,
        node: Node,
        windows: QueryPlan | None = None,
        sequence: str | None = None,
        *,
        streaming: bool = True,
    ) -> tuple[GraphQuery, list[Node]]:
        """The query, and the nodes that its leaves stand for.

        `streaming`: windows inside run in it; those of static frames are frames of their own.
        """
        taking = _Taking(streaming)
        stream = None if windows is None else windows.stream
        return cls(taking.without(node, stream, None), tuple(taking.leaves), windows, sequence), taking.nodes

    @cached_property
    def graph(self) -> Node:
        """All of it, windows included."""
        return self.root if self.windows is None else WindowsNode.of(self.root, self.windows)

    @cached_property
    def result_schema(self) -> pa.Schema:
        if self.windows is None:
            return self.root.schema
        return SliceOperator(self.windows.operator_spec()).finish().table.schema

    @cached_property
    def late_schema(self) -> pa.Schema:
        """Columns of late rows: those of all frames, where they don't differ in type, and the reason."""
        types: dict[str, set[pa.DataType]] = {}
        for leaf in self.leaves:
            for each in leaf.schema:
                types.setdefault(each.name, set()).add(each.type)
        fields = [pa.field(name, *kinds) for name, kinds in types.items() if len(kinds) == 1]
        return pa.schema([*fields, pa.field("reason", pa.string())])

    def facts(self, groups: int) -> dict[str, Any]:
        """What must stay the same for a checkpoint to be of use."""
        known: dict[str, Any] = {}
        operators = list(operators_in(self.root))
        for i, each in enumerate(operators):
            prefix = "" if len(operators) == 1 else f"operator {i + 1}: "
            known |= {prefix + name: value for name, value in each.plan.identity.items()}
        inside = [each.plan.operator_spec().whole_identity for each in queries_in(self.root)]
        if inside:
            known["windows inside"] = inside
        if self.windows is not None:
            known["windows over it"] = self.windows.operator_spec().whole_identity
        order = {} if self.sequence is None else {"sequence": self.sequence}
        columns = [list(leaf.columns) for leaf in self.leaves]
        return {"identity": known, "sent": columns, "key_groups": groups, **order}

    def rows(self, packed: Sequence[bytes]) -> FrameRows | None:
        """The rows of packed values."""
        tables = [from_bytes(data) for data in packed]
        return FrameRows([(int(t.schema.metadata[LEAF]), t) for t in tables]) if tables else None

    def checked(self, rows: FrameRows | None) -> FrameRows | None:
        """The rows of a step that was stored, if they can be rows of its frames."""
        for number, table in () if rows is None else rows.tables:
            demand(0 <= number < len(self.leaves), "rows are of a frame that is not there")
            self.check(number, table)
        return rows

    def check(self, number: int, table: pa.Table) -> None:
        """Refuse rows that can't be of a frame."""
        leaf = self.leaves[number]
        table.validate(full=True)
        columns_of(table, "rows", {name: leaf.schema.field(name).type for name in leaf.columns})

    def passed(self, watermark: int, rows: FrameRows | None, reached: int = ALWAYS) -> Passed:
        return Passed(watermark, ALWAYS)

    def given(self, tables: Sequence[pa.Table]) -> pa.Table | None:
        """What a micro-batch gives, of what the calls in it gave."""
        if self.windows is None:
            return pa.concat_tables(tables) if tables else None
        return at_once(self.windows, tables, latest=self.latest)

    def operator(self, restore: Sequence[bytes] = ()) -> GraphOperator:
        op = GraphOperator(self)
        for blob in restore:
            op.restore(blob)
        return op


class _Taking:
    """Takes the frames out of a graph, and notes who looks at which columns."""

    def __init__(self, streaming: bool) -> None:
        self._streaming = streaming
        self._known: dict[tuple[Node, str], Leaf] = {}
        self.nodes: list[Node] = []

    @property
    def leaves(self) -> list[Leaf]:
        return list(self._known.values())

    def without(self, node: Node, stream: StreamPlan | None, wanted: Sequence[Expression] | None) -> Node:
        """The same with leaves in it; `stream` reads it, and looks at what is `wanted` (None: at all of it)."""
        match node:
            case OperateNode():
                ports = [(port.stream, list(port.scalars.wanted.values())) for port in node.plan.ports]
                return node.over([self.without(each, *port) for each, port in zip(node.inputs, ports)])
            case SelectNode():
                flow = node.flow
                return node.over([self.without(node.source, flow.stream, list(flow.scalars.wanted.values()))])
            case MergeNode():
                return node.over([self.without(each, stream, None) for each in node.inputs])
            case WindowsNode() if self._streaming:
                return node.over([self.without(node.source, node.plan.stream, None)])
            case TagNode():
                rows = node.source
                return node.over([rows.over([self.without(rows.source, node.stream, None)])])
        if stream is None:
            raise QueryError(f"to_spark(): {node} can't be on top of an operator there")
        return self._leaf(node, stream, wanted)

    def _leaf(self, node: Node, stream: StreamPlan, wanted: Sequence[Expression] | None) -> Leaf:
        at = (node, stream.time)
        if at not in self._known:
            self._known[at] = Leaf(node.schema, (), len(self._known), stream)
            self.nodes.append(node)
        leaf = self._known[at]
        leaf.readers.append(stream)
        if wanted is None:
            leaf.used.update(node.schema.names)
            return leaf
        conditions = [e for c in stream.where for e in c.scalars.wanted.values()]
        looked = {name for e in (*wanted, *conditions) for name in (*e.columns, e.column) if name is not None}
        leaf.used.update({stream.time, *stream.keys, *looked})
        return leaf
