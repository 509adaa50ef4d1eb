"""The logical graph: what a user has built, in Python or CQL, as a tree of frozen nodes.

A node knows the columns of the rows that it gives, and what it reads. `explain()`, `to_cql()` and both runners read
the tree, and nothing else; none of them is known here. Nodes are told apart by what they are, not by what they hold:
one that is read twice is one node with two readers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import pyarrow as pa

from panes.errors import QueryError
from panes.operators.models import InputPort, Model, OutputPort, Use, Wire, check_node
from panes.operators.models import Wired as Wired
from panes.operators.models import source as source_node
from panes.plan.arrival import ARRIVAL_TIME, ARRIVAL_TYPE, Arrival
from panes.plan.batches import conform
from panes.plan.flow import Flow
from panes.plan.operator_plan import OperatorPlan
from panes.plan.query import QueryPlan, StreamPlan
from panes.plan.silence import BY_ROWS, Silence
from panes.plan.together import Tagging
from panes.plan.types import canonical_schema
from panes.windows.base import TIME, Bound, ContextFree
from panes.windows.session import SessionScan

FUNCTOR = Model("Functor", (InputPort("in"),), (OutputPort("out", "preserving", "in"),))
MERGE = Model("Merge", (InputPort("in"),), (OutputPort("out", "preserving", "in"),))
#: The end of a window, as results have it.
WINDOW_END = "window_end"


class Data(Protocol):
    """What a graph is told of the data at its edge; how it is read is a matter of runners."""

    schema: pa.Schema
    rows: int | None
    repeatable: bool
    live: bool
    waits: bool

    def retype(self, name: str, kind: pa.DataType) -> None: ...


@dataclass(frozen=True, eq=False)
class Node(ABC):
    """Rows with these columns, made of what the inputs give."""

    schema: pa.Schema
    inputs: tuple[Node, ...]

    @property
    def source(self) -> Node:
        """The input of a node that has one."""
        (only,) = self.inputs
        return only

    @property
    def silence(self) -> Silence:
        """What the stream whose rows it gives does when nothing comes."""
        return BY_ROWS

    @cached_property
    def silences(self) -> tuple[Silence, ...]:
        """What the streams inside do when nothing comes."""
        return tuple(silence for each in self.inputs for silence in each.silences) + self._own_silences

    @property
    def _own_silences(self) -> tuple[Silence, ...]:
        return ()

    @property
    def rows(self) -> int | None:
        """How many rows there are in all, if that is known before reading."""
        return None

    @cached_property
    def leaves(self) -> tuple[ReadNode | PushedNode, ...]:
        """The data at the edge, as often as it is read."""
        return tuple([leaf for each in self.inputs for leaf in each.leaves])

    @property
    def live(self) -> bool:
        """Whether rows come while time passes, so that waiting for them holds up everything else."""
        return any(isinstance(leaf, ReadNode) and leaf.data.live for leaf in self.leaves)

    @property
    def waits(self) -> bool:
        """Whether the next rows may be a while coming."""
        return any(isinstance(leaf, ReadNode) and leaf.data.waits for leaf in self.leaves)

    @property
    def repeatable(self) -> bool:
        """Whether it can be read more than once."""
        return all(isinstance(leaf, ReadNode) and leaf.data.repeatable for leaf in self.leaves)

    @property
    def pushed(self) -> bool:
        """Whether there is no data of its own in it: rows will be pushed."""
        return any(isinstance(leaf, PushedNode) for leaf in self.leaves)

    @property
    def windowed(self) -> bool:
        """Whether there are windows inside, whose results the rows are."""
        return any(each.windowed for each in self.inputs)

    def over(self, inputs: Sequence[Node]) -> Node:
        """The same made of other inputs."""
        return replace(self, inputs=tuple(inputs))

    def retyped(self, name: str, kind: pa.DataType) -> Node:
        """The same where one column is read as another type."""
        return replace(self, schema=_retyped(self.schema, name, kind))

    def __repr__(self) -> str:
        return f"<{self}>"

    @abstractmethod
    def __str__(self) -> str:
        """What the rows are, in a few words."""


@dataclass(frozen=True, eq=False, repr=False)
class PushedNode(Node):
    """Rows that will be pushed: there is no data yet."""

    @classmethod
    def of(cls, schema: pa.Schema) -> PushedNode:
        return cls(schema, ())

    @property
    def leaves(self) -> tuple[ReadNode | PushedNode, ...]:
        return (self,)

    def __str__(self) -> str:
        return "pushed rows"


@dataclass(frozen=True, eq=False, repr=False)
class ReadNode(Node):
    """The rows of some data."""

    data: Data

    @classmethod
    def of(cls, data: Data) -> ReadNode:
        return cls(data.schema, (), data)

    @property
    def leaves(self) -> tuple[ReadNode | PushedNode, ...]:
        return (self,)

    @property
    def rows(self) -> int | None:
        return self.data.rows

    def retyped(self, name: str, kind: pa.DataType) -> ReadNode:
        self.data.retype(name, kind)  # once, where the rows are, and not for every batch
        return ReadNode.of(self.data)

    def __str__(self) -> str:
        return str(self.data)


class RowForRow(Node):
    """A node that gives a row for each of its input."""

    @property
    def rows(self) -> int | None:
        return self.source.rows


@dataclass(frozen=True, eq=False, repr=False)
class FitNode(RowForRow):
    """Rows with the columns that a stream declares; `columns` says which column of the input each of them is."""

    columns: Mapping[str, str]

    @classmethod
    def of(cls, source: Node, schema: pa.Schema, columns: Mapping[str, str]) -> FitNode:
        return cls(canonical_schema(schema), (source,), dict(columns))

    def fitted(self, table: pa.Table) -> pa.Table:
        """A batch of the input as rows of these columns."""
        return conform(table.select(list(self.columns.values())).rename_columns(list(self.columns)), self.schema)

    def __str__(self) -> str:
        return str(self.source)


@dataclass(frozen=True, eq=False, repr=False)
class StampNode(RowForRow):
    """Rows with one more column, the time at which each of them came."""

    time: Arrival

    @classmethod
    def of(cls, source: Node, time: Arrival) -> StampNode:
        if ARRIVAL_TIME in source.schema.names:
            raise QueryError(
                f"time=pn.arrival(): the data has a column {ARRIVAL_TIME!r} already; rename it, or give it as time"
            )
        schema = source.schema.append(pa.field(ARRIVAL_TIME, ARRIVAL_TYPE))
        return cls(canonical_schema(schema), (source,), time)

    def __str__(self) -> str:
        return f"{self.source}, stamped on arrival"


@dataclass(frozen=True, eq=False, repr=False)
class SelectNode(Node):
    """The rows of a stream without windows: those that `where` leaves, in the columns that are asked for."""

    flow: Flow

    @classmethod
    def of(cls, source: Node, flow: Flow) -> SelectNode:
        return cls(canonical_schema(flow.schema), (source,), flow)

    @property
    def silence(self) -> Silence:
        return self.flow.stream.silence

    @property
    def _own_silences(self) -> tuple[Silence, ...]:
        return (self.silence,)

    @property
    def rows(self) -> int | None:
        return None if self.flow.stream.where else self.source.rows

    def __str__(self) -> str:
        return f"a stream of {self.source}"


@dataclass(frozen=True, eq=False, repr=False)
class WindowsNode(Node):
    """Windows over a stream, and what is computed of each: aggregates, relations, joins of tagged streams."""

    plan: QueryPlan

    @classmethod
    def of(cls, source: Node, plan: QueryPlan) -> WindowsNode:
        return cls(canonical_schema(plan.shape.schema), (source,), plan)

    @property
    def windowed(self) -> bool:
        return True

    @property
    def _own_silences(self) -> tuple[Silence, ...]:
        return (self.plan.stream.silence,)

    def __str__(self) -> str:
        return f"a query over {self.source}"


@dataclass(frozen=True, eq=False, repr=False)
class MergeNode(Node):
    """The rows of several streams with the same columns, in the order in which they arrive."""

    time: str

    @classmethod
    def of(cls, sources: Sequence[Node], time: str) -> MergeNode:
        return cls(canonical_schema(sources[0].schema), tuple(sources), time)

    @property
    def rows(self) -> int | None:
        counts = [each.rows for each in self.inputs]
        return None if None in counts else sum(count for count in counts if count is not None)

    def __str__(self) -> str:
        return f"{len(self.inputs)} streams merged"


@dataclass(frozen=True, eq=False, repr=False)
class TagNode(RowForRow):
    """The rows of one stream of a join, among those of all its streams: each says of which it is."""

    tagging: Tagging

    @classmethod
    def of(cls, source: Node, tagging: Tagging, stream: StreamPlan) -> TagNode:
        flow = Flow.of(stream, tuple(dict.fromkeys(tagging.columns.values())))
        return cls(canonical_schema(tagging.schema), (SelectNode.of(source, flow),), tagging)

    @property
    def stream(self) -> StreamPlan:
        """The stream that is joined."""
        assert isinstance(self.source, SelectNode)
        return self.source.flow.stream

    @property
    def silence(self) -> Silence:
        return self.source.silence

    def __str__(self) -> str:
        return str(self.source)


@dataclass(frozen=True, eq=False, repr=False)
class OperateNode(Node):
    """What one output port of an operator gives."""

    plan: OperatorPlan
    port: int
    wired: Wired

    @classmethod
    def of(cls, sources: Sequence[Node], plan: OperatorPlan) -> OperateNode:
        inputs = {port.name: [wire_of(source)] for port, source in zip(plan.use.model.inputs, sources)}
        wired = Wired(plan.use.model.name, plan.use, inputs)
        check_node(wired)
        return cls(canonical_schema(plan.outputs[0].stream.schema), tuple(sources), plan, 0, wired)

    def output(self, port: int) -> OperateNode:
        """Another output of the same operator."""
        return replace(self, schema=canonical_schema(self.plan.outputs[port].stream.schema), port=port)

    @property
    def windowed(self) -> bool:
        return True

    @property
    def _own_silences(self) -> tuple[Silence, ...]:
        return tuple(each.stream.silence for each in self.plan.ports)

    def __str__(self) -> str:
        return f"{self.plan.use.model.name} over {', '.join(map(str, self.inputs))}"


def wire_of(node: Node) -> Wire:
    """The stream that a node gives, in the graph of operators, which knows where punctuations come through."""
    if isinstance(node, OperateNode):
        return node.wired.out(node.plan.use.model.outputs[node.port].name)
    if isinstance(node, SelectNode):
        return Wired("Functor", Use(FUNCTOR), {"in": [wire_of(node.source)]}).out()
    if isinstance(node, MergeNode):
        return Wired("Merge", Use(MERGE), {"in": [wire_of(each) for each in node.inputs]}).out()
    return source_node(str(node)).out()


def operators_in(node: Node) -> Iterator[OperateNode]:
    """The operators of a graph, inputs first."""
    for each in node.inputs:
        yield from operators_in(each)
    if isinstance(node, OperateNode):
        yield node


def queries_in(node: Node) -> Iterator[WindowsNode]:
    """The queries that a graph is made of, the outermost first."""
    if isinstance(node, WindowsNode):
        yield node
    for each in node.inputs:
        yield from queries_in(each)


def puts_results_together(node: Node) -> bool:
    """Whether results of windows are merged or joined with other rows somewhere in it."""
    together = isinstance(node, MergeNode) and node.windowed
    return together or any(puts_results_together(each) for each in node.inputs)


def given_at_end(node: Node, time: str) -> StreamPlan | str:
    """The stream that windows inside are on, if the column `time` is the end of these, and each is given as soon as
    event time there reaches it; else why not."""
    if isinstance(node, SelectNode):
        read = node.flow.scalars.wanted.get(time)
        if read is None or read.column is None or not node.source.inputs:
            return "the time of the outer windows is computed"
        return given_at_end(node.source, read.column)
    if not isinstance(node, WindowsNode):
        return "they are put together from several streams, or changed, on their way to the outer windows"
    column: str | None = time
    for step in reversed(node.plan.steps):
        column = None if column is None else step.origin(column)
    if column != WINDOW_END:
        return "the time of the outer windows is not the end of the windows inside"
    odd = [label for label, bound in node.plan.bound if not _given_at_end(bound)]
    if odd:
        return f"the window {odd[0]!r} inside is not given just when event time reaches its end"
    return node.plan.stream


def _given_at_end(window: Bound) -> bool:
    return isinstance(window, ContextFree | SessionScan) and window.measure == TIME


def _retyped(schema: pa.Schema, name: str, kind: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(f.name, kind if f.name == name else f.type) for f in schema])
