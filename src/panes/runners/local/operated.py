"""Streams that operators give, run in this process: the inputs merged in order of time, one machine, its outputs.

Punctuations stand between rows, not in them: `punctuated` reads them along with the rows, through the `where` and
`select` of streams in between. Whoever reads `batches` sees rows alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from panes.errors import QueryError
from panes.operators.arrivals import NO_TIME, Arrivals, Given, arrivals_of
from panes.operators.graph import Node, Wire, check_node
from panes.operators.graph import source as source_node
from panes.operators.models import InputPort, Model, OutputPort, Use
from panes.plan.flow import Flow
from panes.plan.operator_plan import OperatorPlan
from panes.plan.operator_ports import RESULT_TIME, PortPlan, chosen
from panes.plan.silence import merged
from panes.runners.local.by_clock import ByClock
from panes.runners.local.derived import DerivedSource, FlowSource, through
from panes.runners.local.listening import Beat, Ear, until_silent
from panes.runners.local.merged import MergedSource, as_they_come
from panes.runners.local.rejects import Rejects
from panes.runners.local.rounds import Side, rounds
from panes.runners.local.source import Source
from panes.slicing.key_index import LARGE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FUNCTOR = Model("Functor", (InputPort("in"),), (OutputPort("out", "preserving", "in"),))
MERGE = Model("Merge", (InputPort("in"),), (OutputPort("out", "preserving", "in"),))


class NoData(Source):
    """Stands for rows that will be pushed."""

    repeatable = True

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    def read(self, rejects: Rejects) -> Iterator[pa.Table]:
        raise QueryError(
            "this stream has no data of its own, so there is nothing to run: give pn.stream(data, ...), or push "
            "rows to stream.operator()"
        )

    def __str__(self) -> str:
        return "pushed rows"


class OperatorSource(DerivedSource):
    """What one output port of an operator gives."""

    def __init__(self, plan: OperatorPlan, sources: Sequence[Source], port: int = 0, node: Node | None = None) -> None:
        output = plan.outputs[port]
        super().__init__(output.stream.schema, sources)
        self.windowed = True
        self.silences += tuple(each.stream.silence for each in plan.ports)
        self.plan = plan
        self.port = port
        self._sources = tuple(sources)
        inputs = {p.name: [wire_of(source)] for p, source in zip(plan.use.model.inputs, sources)}
        self.node = node or Node(plan.use.model.name, plan.use, inputs)
        if node is None:
            check_node(self.node)

    def other(self, port: int) -> OperatorSource:
        """Another output of the same operator."""
        return OperatorSource(self.plan, self._sources, port, self.node)

    def derive(self, rejects: Rejects) -> Iterator[pa.Table | Beat]:
        return through(lambda given: given.table, self.punctuated(rejects))

    def punctuated(self, rejects: Rejects) -> Iterator[Given | Beat]:
        """Rows and punctuations of the output; beats of the inputs pass."""
        counts = [source.rows for source in self._sources]
        few = None not in counts and sum(c or 0 for c in counts) < LARGE
        # so few rows are done before compiled code is loaded
        machine = self.plan.start("windows" if few else "auto")
        ear, ports = self.ear, self.plan.ports
        arrivals: Iterator[Arrivals | Beat]
        if len(self._sources) > 1 and self.live and ear is None:
            arrivals = live(ports, self._sources, rejects)
        else:
            inputs = [
                until_silent(punctuated(source, rejects), port.stream.silence.timeout, ear)
                for source, port in zip(self._sources, ports)
            ]
            arrivals = by_time(ports, inputs, rejects, self.plan.first, ear, live=self.live)
        domain = self.plan.outputs[0].stream.domain
        clock = None if ear is None else ByClock(merged([port.stream.silence for port in ports]), domain, ear)
        reached = NO_TIME
        for each in arrivals:
            if isinstance(each, Beat):
                assert clock is not None
                tick = clock.reached(each, lambda: reached)  # noqa: B023 - asked at once
                if tick is not None and tick > reached:
                    reached = tick
                    yield self._stamped(machine.advance(tick)[self.port])
                if tick is not None and each.waits:
                    clock.due(each, None, reached)
                yield each._replace(reached=None if tick is None else reached)
                continue
            if clock is not None and len(each):
                clock.row()
                # the clock may be past the time of a row, which then arrives now
                each = Arrivals(each.ports, np.maximum(each.times, reached), each.tables, each.marks)
                reached = int(each.times[-1])
            yield self._stamped(machine.push(each)[self.port])
        yield self._stamped(machine.finish()[self.port])

    def _stamped(self, given: Given) -> Given:
        return stamped(self.plan, self.port, given)

    def explain(self) -> tuple[str, ...]:
        from panes.runners.local.derived import explain_inputs

        inputs = [text for source in self._sources for text in (explain_inputs(source) or (f"Stream      {source}",))]
        inside = "\n".join(f"  {line}".rstrip() for text in inputs for line in text.splitlines())
        return (f"Operator    {self.plan.text}\n{inside}",)

    def to_spark(self) -> DataFrame:
        from panes.runners.spark.operator_frames import operator_frame

        return operator_frame(self)

    def __str__(self) -> str:
        return f"{self.plan.use.model.name} over {', '.join(map(str, self._sources))}"


def stamped(plan: OperatorPlan, port: int, given: Given) -> Given:
    """What a machine gives as rows of the stream: under their own names, with the time they were given at."""
    output = plan.outputs[port]
    table = pa.Table.from_arrays(given.table.columns, schema=output.rows)
    if output.stamped:
        kind = output.stream.schema.field(RESULT_TIME).type
        table = table.append_column(RESULT_TIME, pa.array(given.times).cast(kind))
    return Given(table, given.times, given.marks, given.mark_times)


def wire_of(source: Source) -> Wire:
    """The stream that a source gives, in the graph of operators."""
    if isinstance(source, OperatorSource):
        return source.node.out(source.plan.use.model.outputs[source.port].name)
    if isinstance(source, FlowSource):
        return Node("Functor", Use(FUNCTOR), {"in": [wire_of(source.inputs[0])]}).out()
    if isinstance(source, MergedSource):
        return Node("Merge", Use(MERGE), {"in": [wire_of(each) for each in source.inputs]}).out()
    return source_node(str(source)).out()


def punctuated(source: Source, rejects: Rejects) -> Iterator[Given | Beat]:
    """Batches with punctuations, if the source has any."""
    if isinstance(source, OperatorSource):
        yield from source.punctuated(rejects)
    elif isinstance(source, FlowSource):
        items = until_silent(punctuated(source.inputs[0], rejects), source.silence.timeout, source.ear)
        yield from through(partial(passed_on, source.flow), items)
    else:
        nothing = np.empty(0, np.int64)
        yield from through(lambda table: Given(table, nothing, nothing, nothing), source.batches(rejects))


def passed_on(flow: Flow, given: Given) -> Given:
    """What a stream without windows makes of rows, with their punctuations."""
    table, marks = chosen(flow.stream, given.table, given.marks)
    return Given(flow.project(table), np.empty(0, np.int64), marks, given.mark_times)


def read(port: PortPlan, given: Given, rejects: Rejects) -> Given:
    """What the port keeps of a batch; rows without a time are rejected."""
    kept, left_out = port.read(given.table, given.marks, given.mark_times)
    for row in left_out.to_pylist() if left_out is not None else ():
        rejects.add("null time in an operator", str(row))
    return kept


class _Side(Side):
    """One input while it is merged: arrivals that wait, and the largest time up to each of them."""

    def __init__(
        self,
        number: int,
        ports: Sequence[PortPlan],
        batches: Iterator[Given | Beat],
        rejects: Rejects,
        patience: int | None = None,
        ear: Ear | None = None,
    ) -> None:
        super().__init__(batches, patience, ear)
        self.number = number
        self._port = ports[number]
        self._empty = [port.rows.empty_table() for port in ports]
        self._rejects = rejects
        self._top = NO_TIME
        self.waiting: Arrivals | None = None

    @property
    def holds(self) -> bool:
        return self.waiting is not None and len(self.waiting) > 0

    def put(self, given: Given) -> None:
        self.waiting = self.arrivals(given)

    def arrivals(self, given: Given) -> Arrivals:
        found = arrivals_of(read(self._port, given, self._rejects), self.number, self._empty)
        times = np.maximum.accumulate(np.maximum(found.times, self._top))
        if len(times):
            self._top = int(times[-1])
        return Arrivals(found.ports, times, found.tables, found.marks)

    @property
    def reached(self) -> int:
        """The time of the last arrival that waits."""
        assert self.waiting is not None
        return int(self.waiting.times[-1])

    def take(self, limit: int, *, before: bool = False) -> Arrivals | None:
        """Arrivals up to which no more than `limit` was reached; `before`: less than it."""
        assert self.waiting is not None
        n = int(np.searchsorted(self.waiting.times, limit, side="left" if before else "right"))
        if not n:
            return None
        taken, self.waiting = split(self.waiting, self.number, n)
        return taken


def split(arrivals: Arrivals, port: int, n: int) -> tuple[Arrivals, Arrivals]:
    """The first `n` arrivals at one port, and the others."""
    marks = arrivals.marks
    rows = n if marks is None else int(n - marks[:n].sum())
    halves = []
    for place, part in ((slice(0, n), slice(0, rows)), (slice(n, None), slice(rows, None))):
        tables = tuple(
            t.slice(part.start, None if part.stop is None else part.stop - part.start) if i == port else t
            for i, t in enumerate(arrivals.tables)
        )
        halves.append(
            Arrivals(arrivals.ports[place], arrivals.times[place], tables, None if marks is None else marks[place])
        )
    return halves[0], halves[1]


def by_time(
    ports: Sequence[PortPlan],
    inputs: Sequence[Iterator[Given | Beat]],
    rejects: Rejects,
    first: int | None = None,
    ear: Ear | None = None,
    *,
    live: bool = False,
) -> Iterator[Arrivals | Beat]:
    """Arrivals of all inputs, merged by the largest time that each has reached; ties by the order of inputs.

    `first`: the input that comes first of those with the same time, however inputs are cut into batches. `live`: none
    waits for another.
    """
    sides = [
        _Side(i, ports, batches, rejects, 0 if live else ports[i].stream.silence.patience, ear)
        for i, batches in enumerate(inputs)
    ]
    sides.sort(key=lambda side: side.number != first)
    for waiting in rounds(sides):
        if isinstance(waiting, Beat):
            yield waiting
            continue
        limit = min(side.reached for side in waiting)
        # the first input may have more rows of this very time, which the others then wait for
        more = any(side.number == first and side.reached == limit for side in waiting)
        parts = [side.take(limit, before=more and side.number != first) for side in waiting]
        yield merge([part for part in parts if part is not None])


def merge(parts: Sequence[Arrivals]) -> Arrivals:
    """Arrivals of several ports as one, by time; ties by the order of the parts."""
    if len(parts) == 1:
        return parts[0]
    times = np.concatenate([part.times for part in parts])
    order = np.argsort(times, kind="stable")
    tables = tuple(max(each, key=len) for each in zip(*(part.tables for part in parts)))
    marks = None
    if any(part.marks is not None for part in parts):
        marks = np.concatenate([np.zeros(len(p), bool) if p.marks is None else p.marks for p in parts])[order]
    return Arrivals(np.concatenate([part.ports for part in parts])[order], times[order], tables, marks)


def live(ports: Sequence[PortPlan], sources: Sequence[Source], rejects: Rejects) -> Iterator[Arrivals]:
    """Arrivals as they come, each input read in a thread of its own."""
    sides = [_Side(i, ports, iter(()), rejects) for i in range(len(sources))]

    def reader(i: int) -> Iterator[Arrivals]:
        return through(sides[i].arrivals, punctuated(sources[i], rejects))

    return as_they_come([lambda i=i: reader(i) for i in range(len(sources))])  # type: ignore[misc]
