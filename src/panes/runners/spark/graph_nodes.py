"""Running nodes of a graph of operators: what each makes, in one step, of what its inputs give in that step.

The embedded runner pulls all rows of its inputs through a graph. Here rows come a little at a time, in the order of
their time, and every node keeps what it needs to go on: a step gives what the embedded runner would give for the
same rows, however many steps they come in. Nodes say, too, up to where their time has come (`Reached`), so that
inputs can be merged by time and windows of time end without a further row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from panes.operators.arrivals import NO_TIME, Given
from panes.plan.flow import Flow
from panes.plan.join import Tagging
from panes.plan.query import QueryPlan
from panes.runners.local.derived import pass_on
from panes.runners.local.operated import passed_on
from panes.runners.local.rejects import Rejects
from panes.runners.local.runner import make_operator
from panes.state.checked import demand, one_row, read_table

State = tuple[dict[str, Any], dict[str, pa.Table]]
NOTHING = np.empty(0, np.int64)
#: All rows are there, and none will come.
ENDED = int(np.iinfo(np.int64).max)


@dataclass(frozen=True)
class Reached:
    """No row that is still to come has a `column` below `tick`, which is in the type of that column."""

    column: str = ""
    kind: pa.DataType | None = None
    tick: int = NO_TIME

    def of(self, column: str, kind: pa.DataType) -> int:
        """The same for a reader that goes by `column`, as `kind`."""
        if self.tick == ENDED:
            return ENDED
        if column != self.column or self.kind is None or self.tick == NO_TIME:
            return NO_TIME
        if kind == self.kind:
            return self.tick
        return int(pa.array([self.tick]).cast(self.kind).cast(kind).cast(pa.int64())[0].as_py())


@dataclass(frozen=True)
class Gave:
    """What a node gives in a step."""

    given: Given
    reached: Reached


class Node(ABC):
    """One node, with the nodes that it reads."""

    inputs: tuple[Node, ...] = ()
    #: whether something happens when time passes without a row
    by_time = False

    @abstractmethod
    def step(self, rejects: Rejects) -> Gave:
        """Do what is to be done with what the leaves have now."""

    def dump(self) -> State:
        """All that is kept from one step to the next."""
        return {}, {}

    def load(self, facts: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> None:
        """Go on from there; for a node that has seen nothing."""
        demand(not facts and not tables, "there is state of a node that keeps none")

    @property
    def nbytes(self) -> int:
        return 0


class Leaf(Node):
    """Rows of a frame: those that the driver of the graph puts here for a step."""

    def __init__(self, schema: pa.Schema, time: str) -> None:
        self.schema = schema
        self.time = time
        self.table = schema.empty_table()
        self.tick = NO_TIME

    def step(self, rejects: Rejects) -> Gave:
        given = Given(self.table, NOTHING, NOTHING, NOTHING)
        return Gave(given, Reached(self.time, self.schema.field(self.time).type, self.tick))


class FlowNode(Node):
    """`where` and `select` between operators."""

    def __init__(self, flow: Flow, source: Node) -> None:
        self.inputs = (source,)
        self._flow = flow

    def step(self, rejects: Rejects) -> Gave:
        gave = self.inputs[0].step(rejects)
        reached, wanted = gave.reached, self._flow.scalars.wanted.get(gave.reached.column)
        if reached.tick != ENDED and (wanted is None or wanted.column != reached.column):
            reached = Reached()
        return Gave(passed_on(self._flow, gave.given), reached)


class TagNode(Node):
    """One stream of a join, among the rows of all its streams."""

    def __init__(self, tagging: Tagging, source: Node) -> None:
        self.inputs = (source,)
        self._tagging = tagging

    def step(self, rejects: Rejects) -> Gave:
        gave = self.inputs[0].step(rejects)
        given = Given(self._tagging.apply(gave.given.table), NOTHING, NOTHING, NOTHING)
        of, reached = self._tagging.columns, gave.reached
        for name in self._tagging.schema.names:
            if reached.tick != ENDED and of.get(name) == reached.column:
                return Gave(given, replace(reached, column=name))
        return Gave(given, reached if reached.tick == ENDED else Reached())


class QueryNode(Node):
    """Windows in the graph: the operator of a query, whose event time follows the rows that it gets."""

    by_time = True

    def __init__(self, plan: QueryPlan, source: Node) -> None:
        self.inputs = (source,)
        self._plan = plan
        self._op = make_operator(plan)
        self.schema = plan.shape.schema

    def step(self, rejects: Rejects) -> Gave:
        gave, stream = self.inputs[0].step(rejects), self._plan.stream
        tables = [self._op.push(gave.given.table).table]
        tick = gave.reached.of(stream.time, stream.schema.field(stream.time).type)
        if tick == ENDED:
            tables.append(self._op.finish().table)
        elif tick > self._op.watermark:
            tables.append(self._op.advance(tick).table)
        pass_on(self._op, rejects)
        table = pa.concat_tables(tables)
        return Gave(Given(table, NOTHING, NOTHING, NOTHING), Reached(tick=ENDED) if tick == ENDED else Reached())

    def dump(self) -> State:
        return {}, {"operator": pa.table({"snapshot": pa.array([self._op.snapshot()], pa.large_binary())})}

    def load(self, facts: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> None:
        kept = one_row(read_table(tables, "operator", {"snapshot": pa.large_binary()}), "operator")["snapshot"]
        self._op = make_operator(self._plan, restore=kept, trusted=self._plan.operator_spec().user_code)

    @property
    def nbytes(self) -> int:
        return int(self._op.metrics["bytes"])


def under(prefix: str, tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The tables whose names begin with this, by the rest of their names."""
    return {name[len(prefix) :]: table for name, table in tables.items() if name.startswith(prefix)}


def every_node(root: Node) -> Iterator[Node]:
    """A node and all that it reads, inputs first, each once."""
    seen: dict[int, Node] = {}

    def visit(node: Node) -> None:
        for each in node.inputs:
            visit(each)
        seen.setdefault(id(node), node)

    visit(root)
    return iter(seen.values())
