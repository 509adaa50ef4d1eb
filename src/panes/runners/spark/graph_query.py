"""A graph of operators as Spark's workers see it: its frames taken out, and leaves in their place.

In: the source of a stream that operators give, or of windows over it. Out: a `GraphQuery`, which travels to the
workers, says which columns of which frame are sent there, and starts the operator of a key group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panes.errors import QueryError
from panes.plan.expressions import Expression
from panes.plan.query import QueryPlan, StreamPlan
from panes.runners.local.derived import DerivedSource, FlowSource
from panes.runners.local.merged import MergedSource
from panes.runners.local.operated import OperatorSource
from panes.runners.local.rejects import Rejects
from panes.runners.local.sides import SideSource
from panes.runners.local.source import Source
from panes.runners.spark.event_time import EventTime
from panes.runners.spark.graph_merging import MergeNode, OperatorNode
from panes.runners.spark.graph_nodes import FlowNode, Leaf, Node, QueryNode, TagNode
from panes.runners.spark.group_operator import Passed, at_once
from panes.runners.spark.packing import from_bytes
from panes.slicing.operator import SliceOperator
from panes.state.checked import columns_of, demand
from panes.windows.base import ALWAYS

if TYPE_CHECKING:
    from panes.runners.spark.graph_operator import GraphOperator

#: In the metadata of packed rows: the number of the frame that they are of.
LEAF = b"panes.leaf"


class LeafSource(Source):
    """Stands where a frame was: the rows that are sent to workers, as `stream` reads them."""

    def __init__(self, number: int, given: Source, stream: StreamPlan) -> None:
        self.number = number
        self.schema = given.schema
        self.stream = stream
        self.used: set[str] = set()
        self.readers = 0

    def read(self, rejects: Rejects) -> Iterator[pa.Table]:
        raise QueryError("the rows of this graph are brought by Spark")  # never asked for

    @property
    def columns(self) -> tuple[str, ...]:
        """Those that are sent to workers."""
        return tuple(name for name in self.schema.names if name in self.used)

    def reading(self, keys: Sequence[str], *, whole: bool = False) -> StreamPlan:
        """How tasks read its rows before they send them on, and by which keys they are spread."""
        # rows that the only reader leaves out need not be sent; nor do they move the watermark
        where = self.stream.where if self.readers == 1 and not whole else ()
        return replace(self.stream, keys=tuple(keys), where=where)

    def __str__(self) -> str:
        return "rows of a frame"


@dataclass
class Rows:
    """Rows of some frames, by the number of the frame."""

    tables: list[tuple[int, pa.Table]] = field(default_factory=list)

    @property
    def num_rows(self) -> int:
        return sum(table.num_rows for _, table in self.tables)


@dataclass(frozen=True)
class GraphQuery:
    """Operators over frames, and windows over what they give, if there are any."""

    source: Source
    leaves: tuple[LeafSource, ...]
    windows: QueryPlan | None = None
    sequence: str | None = None
    times: tuple[EventTime, ...] = ()  # of streaming frames, one for each leaf
    latest: bool = False  # of what a micro-batch gives, only the newest revision of each identity
    clock: StreamPlan | None = None  # only rows move their watermarks
    follows: bool = False  # rows wait in order of their time until the watermark of a micro-batch has passed them

    @classmethod
    def of(
        cls, source: Source, windows: QueryPlan | None = None, sequence: str | None = None
    ) -> tuple[GraphQuery, list[Source]]:
        """The query, and the sources that its leaves stand for."""
        taking = _Taking()
        stream = None if windows is None else windows.stream
        return cls(taking.without(source, stream, None), tuple(taking.leaves), windows, sequence), taking.sources

    @cached_property
    def result_schema(self) -> pa.Schema:
        if self.windows is None:
            return self.source.schema
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
        operators = list(operators_in(self.source))
        for i, each in enumerate(operators):
            prefix = "" if len(operators) == 1 else f"operator {i + 1}: "
            known |= {prefix + name: value for name, value in each.plan.identity.items()}
        if self.windows is not None:
            known["windows over it"] = self.windows.operator_spec().whole_identity
        order = {} if self.sequence is None else {"sequence": self.sequence}
        columns = [list(leaf.columns) for leaf in self.leaves]
        return {"identity": known, "sent": columns, "key_groups": groups, **order}

    def rows(self, packed: Sequence[bytes]) -> Rows | None:
        """The rows of packed values."""
        tables = [from_bytes(data) for data in packed]
        return Rows([(int(t.schema.metadata[LEAF]), t) for t in tables]) if tables else None

    def checked(self, rows: Rows | None) -> Rows | None:
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

    def passed(self, watermark: int, rows: Rows | None, reached: int = ALWAYS) -> Passed:
        return Passed(watermark, ALWAYS)

    def given(self, tables: Sequence[pa.Table]) -> pa.Table | None:
        """What a micro-batch gives, of what the calls in it gave."""
        if self.windows is None:
            return pa.concat_tables(tables) if tables else None
        return at_once(self.windows, tables, latest=self.latest)

    def operator(self, restore: Sequence[bytes] = ()) -> GraphOperator:
        from panes.runners.spark.graph_operator import GraphOperator

        op = GraphOperator(self)
        for blob in restore:
            op.restore(blob)
        return op

    def start(self) -> tuple[Node, list[Leaf]]:
        """The graph, running: its last node, and its leaves."""
        leaves = [Leaf(each.schema, each.stream.time) for each in self.leaves]

        def node(source: Any) -> Node:
            if isinstance(source, LeafSource):
                return leaves[source.number]
            inputs = [node(each) for each in source.inputs]
            if isinstance(source, OperatorSource):
                return OperatorNode(source.plan, source.port, inputs)
            if isinstance(source, FlowSource):
                return FlowNode(source.flow, inputs[0])
            if isinstance(source, SideSource):
                return TagNode(source.tagging, inputs[0])
            return MergeNode(inputs, source.schema, source.time)

        root = node(self.source)
        return (root if self.windows is None else QueryNode(self.windows, root)), leaves


class _Taking:
    """Takes the frames out of a graph, and notes who looks at which columns."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], LeafSource] = {}
        self.sources: list[Source] = []

    @property
    def leaves(self) -> list[LeafSource]:
        return list(self._known.values())

    def without(self, given: Source, stream: StreamPlan | None, wanted: Sequence[Expression] | None) -> Any:
        """The same with leaves in it; `stream` reads it, and looks at what is `wanted` (None: at all of it)."""
        if isinstance(given, OperatorSource):
            inputs = [
                self.without(each, port.stream, list(port.scalars.wanted.values()))
                for each, port in zip(given.inputs, given.plan.ports)
            ]
            return OperatorSource(given.plan, inputs, given.port)
        if isinstance(given, FlowSource):
            flow = given.flow
            return FlowSource(flow, self.without(given.inputs[0], flow.stream, list(flow.scalars.wanted.values())))
        if isinstance(given, MergedSource):
            return MergedSource([self.without(each, stream, None) for each in given.inputs], given.time)
        if isinstance(given, SideSource):
            return SideSource(given.tagging, given.stream, self.without(given.inner, given.stream, None))
        if stream is None:
            raise QueryError(f"to_spark(): {given} can't be on top of an operator there")
        return self._leaf(given, stream, wanted)

    def _leaf(self, given: Source, stream: StreamPlan, wanted: Sequence[Expression] | None) -> LeafSource:
        at = (id(given), stream.time)
        if at not in self._known:
            self._known[at] = LeafSource(len(self._known), given, stream)
            self.sources.append(given)
        leaf = self._known[at]
        leaf.readers += 1
        if wanted is None:
            leaf.used |= set(given.schema.names)
            return leaf
        conditions = [e for c in stream.where for e in c.scalars.wanted.values()]
        looked = {name for e in (*wanted, *conditions) for name in (*e.columns, e.column) if name is not None}
        leaf.used |= {stream.time, *stream.keys, *looked}
        return leaf


def operators_in(source: Source) -> Iterator[OperatorSource]:
    """The operators of a graph, inputs first."""
    if isinstance(source, DerivedSource):
        for each in source.inputs:
            yield from operators_in(each)
    if isinstance(source, OperatorSource):
        yield source
