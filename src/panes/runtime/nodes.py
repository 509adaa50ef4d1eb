"""Running nodes of a graph: what each makes, in one step, of what its inputs give in that step.

Rows come a little at a time, to inlets that the driver fills before a step, and every node keeps what it needs to go
on: what a graph gives does not depend on how many steps its rows come in. Nodes say, too, up to where their time has
come (`Reached`), so that inputs can be merged by time and windows of time end without a further row; and which inlets
they can't go on without (`hungry`). The same nodes run in this process and in Spark's workers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from panes.errors import QueryError
from panes.operators.arrivals import NO_TIME, PortOutput
from panes.plan.arrival import stamped as stamped_on_arrival
from panes.plan.batches import conform
from panes.plan.graph import WINDOW_END, FitNode, SelectNode, StampNode, TagNode, WindowsNode, given_at_end
from panes.plan.query import QueryPlan
from panes.runtime.arrivals import passed_on
from panes.runtime.quiet import Alarm, Beat, ByClock, ClockState, SilenceLimit, moved
from panes.runtime.rejects import Rejects
from panes.slicing.operator import SliceOperator
from panes.state.checked import demand, fact, whole
from panes.state.snapshot import in_cell, of_cell
from panes.windows.base import ALWAYS

State = tuple[dict[str, Any], dict[str, pa.Table]]
Item = PortOutput | Beat
NOTHING = np.empty(0, np.int64)
#: All rows are there, and none will come.
ENDED = int(np.iinfo(np.int64).max)


@dataclass(frozen=True)
class Reached:
    """No row that is still to come has a `column` below `tick`, which is in the type of that column."""

    column: str = ""
    kind: pa.DataType | None = None
    tick: int = NO_TIME

    @property
    def ended(self) -> bool:
        return self.tick == ENDED

    def of(self, column: str, kind: pa.DataType) -> int:
        """The same for a reader that goes by `column`, as `kind`."""
        if self.tick == ENDED:
            return ENDED
        if column != self.column or self.kind is None or self.tick == NO_TIME:
            return NO_TIME
        if kind == self.kind:
            return self.tick
        return int(pa.array([self.tick]).cast(self.kind).cast(kind).cast(pa.int64())[0].as_py())


#: Nothing is known of rows that are still to come.
UNKNOWN = Reached()
#: There are none to come.
END = Reached(tick=ENDED)


@dataclass(frozen=True)
class Gave:
    """What a node gives in a step: rows with punctuations, and beats of the clock between them."""

    items: Sequence[Item]
    reached: Reached = UNKNOWN


def rows_alone(table: pa.Table) -> PortOutput:
    """Rows without punctuations."""
    return PortOutput(table, NOTHING, NOTHING, NOTHING)


class RunningNode(ABC):
    """One node, with the nodes that it reads."""

    inputs: tuple[RunningNode, ...] = ()
    #: what it remembers of the clock, by name; nothing where the run does not go by one
    clocked: Mapping[str, ClockState] = {}
    #: whether something happens when time passes without a row
    by_time = False

    @abstractmethod
    def step(self, rejects: Rejects) -> Gave:
        """Do what is to be done with what the inlets have now."""

    def hungry(self) -> list[Inlet]:
        """The inlets that must have rows, or end, for the node to give more."""
        return [inlet for each in self.inputs for inlet in each.hungry()]

    def dump(self) -> State:
        """All that is kept from one step to the next."""
        facts, tables = self.dump_rows()
        clock = {name: state.dump_clock() for name, state in self.clocked.items()}
        return {**facts, **({"clock": clock} if clock else {})}, tables

    def load(self, facts: Mapping[str, object], tables: Mapping[str, pa.Table]) -> None:
        """Go on from there; for a node that has seen nothing."""
        self.load_rows({name: facts[name] for name in facts if name != "clock"}, tables)
        clock = fact(facts, "clock", dict) if self.clocked or "clock" in facts else {}
        demand(set(clock) == set(self.clocked), "something else is remembered of the clock")
        for name, state in self.clocked.items():
            state.load_clock(fact(clock, name, dict))

    def dump_rows(self) -> State:
        """What is kept of the rows that came."""
        return {}, {}

    def load_rows(self, facts: Mapping[str, object], tables: Mapping[str, pa.Table]) -> None:
        """Go on from there."""
        demand(not facts and not tables, "there is state of a node that keeps none")

    @property
    def nbytes(self) -> int:
        return 0


class Inlet(RunningNode):
    """Where rows come in: those that the driver of the graph puts here for a step."""

    def __init__(self, schema: pa.Schema, time: str | None = None) -> None:
        self.schema = schema
        #: the column that the driver knows the time of, if it does
        self.time = time
        self.tick = NO_TIME
        self.items: Sequence[Item] = ()

    def put(self, table: pa.Table, tick: int = NO_TIME) -> None:
        """Rows for the next step, and up to where time has come after them."""
        self.items = (rows_alone(table),) if table.num_rows else ()
        self.tick = tick

    def clear(self) -> None:
        """The step is done."""
        self.items = ()

    def step(self, rejects: Rejects) -> Gave:
        if self.tick == ENDED:
            return Gave(self.items, END)
        if self.time is None:
            return Gave(self.items)
        return Gave(self.items, Reached(self.time, self.schema.field(self.time).type, self.tick))

    def hungry(self) -> list[Inlet]:
        return [] if self.tick == ENDED else [self]


class RowByRow(RunningNode):
    """A node that makes of each batch of its input what it does, and keeps nothing; beats pass."""

    def __init__(
        self, schema: pa.Schema, source: RunningNode, timeout: int | None = None, alarm: Alarm | None = None
    ) -> None:
        self.inputs = (source,)
        self._schema = schema
        self._timeout = SilenceLimit(timeout, alarm)
        if alarm is not None:
            self.clocked = {"timeout": self._timeout}

    def step(self, rejects: Rejects) -> Gave:
        gave = self.inputs[0].step(rejects)
        items: list[Item] = []
        for item in gave.items:
            if not isinstance(item, Beat):
                self._timeout.row()
                made = self.made(item)
                if made.table.num_rows or len(made.marks):
                    items.append(replace(made, table=conform(made.table, self._schema)))
            elif self._timeout.hear(item):
                break
            else:
                items.append(item)
        ended = gave.reached.ended or self._timeout.over
        return Gave(items, END if ended else self.passed(gave.reached))

    def hungry(self) -> list[Inlet]:
        return [] if self._timeout.over else super().hungry()

    @abstractmethod
    def made(self, given: PortOutput) -> PortOutput:
        """What is made of rows."""

    def passed(self, reached: Reached) -> Reached:
        """What is known of rows to come, by what is known of those of the input."""
        return UNKNOWN


class RunningFit(RowByRow):
    """Columns under the names and in the types that a stream declares."""

    def __init__(self, node: FitNode, source: RunningNode) -> None:
        super().__init__(node.schema, source)
        self._node = node

    def made(self, given: PortOutput) -> PortOutput:
        return rows_alone(self._node.fitted(given.table))


class RunningStamp(RowByRow):
    """Rows with the time at which they came."""

    def __init__(self, node: StampNode, source: RunningNode, alarm: Alarm | None) -> None:
        super().__init__(node.schema, source)
        self._time = node.time
        self._alarm = alarm
        self._reached = NO_TIME

    def made(self, given: PortOutput) -> PortOutput:
        now = None if self._alarm is None else self._alarm.now
        table, self._reached = stamped_on_arrival(given.table, self._time, self._reached, now)
        return rows_alone(table)

    def dump_rows(self) -> State:
        return {"reached": self._reached}, {}

    def load_rows(self, facts: Mapping[str, object], tables: Mapping[str, pa.Table]) -> None:
        self._reached = whole(facts, "reached")


class RunningSelect(RowByRow):
    """`where` and `select`; punctuations pass."""

    def __init__(self, node: SelectNode, source: RunningNode, alarm: Alarm | None = None) -> None:
        super().__init__(node.schema, source, node.silence.timeout, alarm)
        self._flow = node.flow

    def made(self, given: PortOutput) -> PortOutput:
        return passed_on(self._flow, given)

    def passed(self, reached: Reached) -> Reached:
        wanted = self._flow.scalars.wanted.get(reached.column)
        return UNKNOWN if wanted is None or wanted.column != reached.column else reached


class RunningTag(RowByRow):
    """One stream of a join, among the rows of all its streams."""

    def __init__(self, node: TagNode, source: RunningNode) -> None:
        super().__init__(node.schema, source)
        self._tagging = node.tagging

    def made(self, given: PortOutput) -> PortOutput:
        return rows_alone(self._tagging.apply(given.table))

    def passed(self, reached: Reached) -> Reached:
        of = self._tagging.columns
        name = next((name for name in self._schema.names if of.get(name) == reached.column), None)
        return UNKNOWN if name is None else replace(reached, column=name)


class RunningWindows(RunningNode):
    """Windows in the graph: the operator of a query, whose event time follows the rows that it gets."""

    by_time = True

    def __init__(self, node: WindowsNode, source: RunningNode, alarm: Alarm | None = None) -> None:
        self.inputs = (source,)
        self._node = node
        self._op = make_operator(node.plan)
        stream = node.plan.stream
        self._timeout = SilenceLimit(stream.silence.timeout, alarm)
        self._clock = None if alarm is None else ByClock(stream.silence, stream.domain, alarm)
        if self._clock is not None:
            self.clocked = {"timeout": self._timeout, "time": self._clock}
        self._ended = False
        #: the column that says when results are given, if they are given just then
        self._end = node.plan.shape.called(WINDOW_END)
        if self._end is not None and isinstance(given_at_end(node, self._end), str):
            self._end = None

    def step(self, rejects: Rejects) -> Gave:
        gave, stream = self.inputs[0].step(rejects), self._node.plan.stream
        items: list[Item] = []
        for item in gave.items:
            if not isinstance(item, Beat):
                self._timeout.row()
                if self._clock is not None:
                    self._clock.row()
                self._give(items, self._op.push(item.table).table)
            elif self._timeout.hear(item):
                break
            else:
                assert self._clock is not None
                result, passed = moved(self._clock, item, self._op)
                if result is not None:
                    self._give(items, result.table)
                items.append(passed)  # after the results: windows over them may close by it, too
        tick = ENDED if self._timeout.over else gave.reached.of(stream.time, stream.schema.field(stream.time).type)
        if tick == ENDED and not self._ended:
            self._give(items, self._op.finish().table)
            self._ended = True
        elif ENDED > tick > self._op.watermark:
            self._give(items, self._op.advance(tick).table)
        pass_on(self._op, rejects)
        return Gave(items, END if tick == ENDED else self._reached())

    def _reached(self) -> Reached:
        """Windows whose end the watermark has come to are given; those to come end later."""
        if self._end is None or self._op.watermark <= ALWAYS:
            return UNKNOWN
        return Reached(self._end, self._node.schema.field(self._end).type, self._op.watermark + 1)

    def _give(self, items: list[Item], table: pa.Table) -> None:
        if table.num_rows:
            items.append(rows_alone(conform(table, self._node.schema)))

    def hungry(self) -> list[Inlet]:
        return [] if self._timeout.over else super().hungry()

    def dump_rows(self) -> State:
        facts = {"ended": True} if self._ended else {}
        return facts, {"operator": in_cell("snapshot", self._op.snapshot())}

    def load_rows(self, facts: Mapping[str, object], tables: Mapping[str, pa.Table]) -> None:
        self._ended = "ended" in facts
        kept, plan = of_cell(tables, "operator", "snapshot"), self._node.plan
        self._op = make_operator(plan, restore=kept, trusted=plan.operator_spec().user_code)

    @property
    def nbytes(self) -> int:
        return int(self._op.metrics["bytes"])


def under(prefix: str, tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The tables whose names begin with this, by the rest of their names."""
    return {name[len(prefix) :]: table for name, table in tables.items() if name.startswith(prefix)}


def every_node(root: RunningNode) -> Iterator[RunningNode]:
    """A node and all that it reads, inputs first, each once."""
    seen: dict[int, RunningNode] = {}

    def visit(node: RunningNode) -> None:
        for each in node.inputs:
            visit(each)
        seen.setdefault(id(node), node)

    visit(root)
    return iter(seen.values())


def make_operator(
    plan: QueryPlan,
    *,
    restore: bytes | Sequence[bytes] | None = None,
    store: str = "auto",
    trusted: bool = False,
    keep_late: int | None = None,
) -> SliceOperator:
    """An operator for the plan, empty or as it was when a snapshot (or its parts by key group) was taken.

    `keep_late`: how many rows that no result uses are held; None: all, for whoever takes them after each batch.
    """
    if plan.early is not None and plan.early.by_batch:
        raise QueryError(
            "early('batch'): micro-batches are Spark's, and this run has none; say how often, as in early('10 s')"
        )
    operator = SliceOperator(plan.operator_spec(store=store, keep_late=keep_late))
    return operator if restore is None else operator.restore(restore, trusted=trusted)


def pass_on(op: SliceOperator, rejects: Rejects) -> None:
    """What the query has not used, to whoever runs it."""
    for row in op.take_late().to_pylist():
        reason = row.pop("reason")
        rejects.add(f"{reason} in a query inside", str(row))
