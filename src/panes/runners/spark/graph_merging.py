"""Nodes of a graph of operators that read several inputs: they merge them by time, as the embedded runner does.

Rows of an input wait until all others have come as far, so that the order does not depend on the steps they come in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from panes.operators.arrivals import NO_TIME, Arrivals, Given, arrivals_of
from panes.plan.operator_plan import OperatorPlan
from panes.plan.operator_ports import RESULT_TIME, PortPlan
from panes.runners.local.operated import merge, read, split, stamped
from panes.runners.local.rejects import Rejects
from panes.runners.spark.graph_nodes import ENDED, NOTHING, Gave, Node, Reached, State, under
from panes.state.checked import INT64, columns_of, demand, fact, numbers, read_table, value


class MergeNode(Node):
    """Several streams as one, by the largest time that each has reached, as the embedded runner merges them."""

    def __init__(self, sources: Sequence[Node], schema: pa.Schema, time: str) -> None:
        self.inputs = tuple(sources)
        self._schema = schema
        self._time = time
        self._tops = [NO_TIME for _ in sources]
        self._waiting = [(schema.empty_table(), NOTHING) for _ in sources]

    def step(self, rejects: Rejects) -> Gave:
        kind, came = self._schema.field(self._time).type, []
        for i, node in enumerate(self.inputs):
            gave = node.step(rejects)
            self._take_in(i, gave.given.table.select(self._schema.names))
            came.append(gave.reached.of(self._time, kind))
        limit = min(max(top, tick) for top, tick in zip(self._tops, came))
        table = self._before(limit)
        reached = Reached(tick=ENDED) if limit == ENDED else Reached(self._time, kind, min(came))
        return Gave(Given(table, NOTHING, NOTHING, NOTHING), reached)

    def _take_in(self, i: int, table: pa.Table) -> None:
        times = table.column(self._time).cast(pa.int64()).fill_null(NO_TIME).to_numpy()
        tops = np.maximum.accumulate(np.maximum(times, self._tops[i]))
        self._tops[i] = int(tops[-1]) if len(tops) else self._tops[i]
        before, known = self._waiting[i]
        self._waiting[i] = (pa.concat_tables([before, table]), np.concatenate((known, tops)))

    def _before(self, limit: int) -> pa.Table:
        """Rows before a time, of all streams."""
        taken = []
        for i, (table, tops) in enumerate(self._waiting):
            n = len(tops) if limit == ENDED else int(np.searchsorted(tops, limit))
            taken.append((table.slice(0, n), tops[:n]))
            self._waiting[i] = (table.slice(n), tops[n:])
        order = np.argsort(np.concatenate([tops for _, tops in taken]), kind="stable")
        return pa.concat_tables([part for part, _ in taken]).take(pa.array(order))

    def dump(self) -> State:
        tables = {f"rows{i}": table for i, (table, _) in enumerate(self._waiting)}
        return {"tops": self._tops}, tables | {
            f"tops{i}": pa.table({"top": pa.array(tops)}) for i, (_, tops) in enumerate(self._waiting)
        }

    def load(self, facts: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> None:
        self._tops = _tops(facts, len(self.inputs))
        for i in range(len(self.inputs)):
            rows, tops = read_table(tables, f"rows{i}"), read_table(tables, f"tops{i}", {"top": INT64})
            columns_of(rows, f"rows{i}", {f.name: f.type for f in self._schema})
            demand(rows.num_rows == tops.num_rows, "there are more times of rows than rows, or fewer")
            self._waiting[i] = (rows.select(self._schema.names), _in_order(numbers(tops, "top")))

    @property
    def nbytes(self) -> int:
        return sum(int(table.nbytes) for table, _ in self._waiting)


class OperatorNode(Node):
    """An operator: its machine, and rows that wait until all of its inputs have come as far."""

    def __init__(self, plan: OperatorPlan, port: int, sources: Sequence[Node]) -> None:
        self.inputs = tuple(sources)
        self._plan = plan
        self._port = port
        self._machine = plan.start("auto")
        self._sides = [Side(i, plan.ports) for i in range(len(sources))]
        self._ended = False
        self.by_time = any("time" in clause.form for clause in plan.use.windows.values())

    def step(self, rejects: Rejects) -> Gave:
        came, limits = [], []
        for side, node in zip(self._sides, self.inputs):
            gave = node.step(rejects)
            side.take_in(gave.given, rejects)
            came.append(gave.reached.of(side.port.stream.time, side.port.time_type))
            limits.append(max(side.top, came[-1]))
        limit = min(limits)
        # of one input all rows can be taken; of several those before which no other can come
        before = ENDED if len(self._sides) == 1 else limit
        in_order = sorted(self._sides, key=lambda side: side.number != self._plan.first)
        parts = [part for side in in_order if (part := side.before(before)) is not None]
        found = [self._machine.push(merge(parts))[self._port]] if parts else []
        if limit == ENDED:
            found += [] if self._ended else [self._machine.finish()[self._port]]
            self._ended = True
        elif limit > NO_TIME:
            found.append(self._machine.advance(limit - 1)[self._port])
        return Gave(Given.concat([stamped(self._plan, self._port, f) for f in found]) if found else self._nothing(),
                    self._reached(limit, came[0]))  # fmt: skip

    def _nothing(self) -> Given:
        schema = self._plan.outputs[self._port].stream.schema
        return Given(schema.empty_table(), NOTHING, NOTHING, NOTHING)

    def _reached(self, limit: int, came: int) -> Reached:
        output, port = self._plan.outputs[self._port], self._plan.ports[0]
        if limit == ENDED:
            return Reached(tick=ENDED)
        if output.stamped:
            return Reached(RESULT_TIME, port.time_type, limit)
        # rows with their own times: known of operators that hold none back
        passes = self._plan.use.model.name in ("Dedupe", "Punctuate")
        return Reached(port.stream.time, port.time_type, came) if passes else Reached()

    def dump(self) -> State:
        facts, tables = self._machine.dump()
        kept = {f"machine.{name}": table for name, table in tables.items()}
        for i, side in enumerate(self._sides):
            kept |= {f"side{i}.{name}": table for name, table in side.dump().items()}
        return {"machine": facts, "tops": [side.top for side in self._sides]}, kept

    def load(self, facts: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> None:
        machine = fact(facts, "machine", dict)
        self._machine = self._plan.start(value(machine.get("mechanism", "auto"), "mechanism", str))
        self._machine.load(machine, under("machine.", tables))
        for i, (side, top) in enumerate(zip(self._sides, _tops(facts, len(self._sides)))):
            side.load(top, under(f"side{i}.", tables))

    @property
    def nbytes(self) -> int:
        machine = self._machine.metrics
        # of operators of users only the number of rows is known
        return int(machine.get("bytes", 200 * machine.get("rows_held", 0))) + sum(s.nbytes for s in self._sides)


class Side:
    """One input of an operator: arrivals that wait, and the largest time up to each of them."""

    def __init__(self, number: int, ports: Sequence[PortPlan]) -> None:
        self.number = number
        self.port = ports[number]
        self._empty = [port.rows.empty_table() for port in ports]
        self.top = NO_TIME
        self._waiting: list[Arrivals] = []

    def take_in(self, given: Given, rejects: Rejects) -> None:
        found = arrivals_of(read(self.port, given, rejects), self.number, self._empty)
        if len(found):
            times = np.maximum.accumulate(np.maximum(found.times, self.top))
            self.top = int(times[-1])
            self._waiting.append(Arrivals(found.ports, times, found.tables, found.marks))

    def before(self, limit: int) -> Arrivals | None:
        """Arrivals before a time; None if there are none."""
        if not self._waiting:
            return None
        whole = joined(self._waiting, self.number)
        n = len(whole) if limit == ENDED else int(np.searchsorted(whole.times, limit))
        taken, rest = split(whole, self.number, n)
        self._waiting = [rest] if len(rest) else []
        return taken if n else None

    def dump(self) -> dict[str, pa.Table]:
        if not self._waiting:
            return {}
        whole = joined(self._waiting, self.number)
        marks = np.zeros(len(whole), bool) if whole.marks is None else whole.marks
        order = pa.table({"time": pa.array(whole.times), "mark": pa.array(marks)})
        return {"rows": whole.tables[self.number], "order": order}

    def load(self, top: int, tables: Mapping[str, pa.Table]) -> None:
        self.top = top
        if tables:
            order, rows = read_table(tables, "order", {"time": INT64, "mark": pa.bool_()}), read_table(tables, "rows")
            times, marks = _in_order(numbers(order, "time")), numbers(order, "mark", pa.bool_())
            schema = self._empty[self.number].schema
            columns_of(rows, "rows", {f.name: f.type for f in schema})
            demand(rows.num_rows == len(marks) - int(marks.sum()), "there are more arrivals than rows, or fewer")
            every = tuple(rows.select(schema.names) if i == self.number else t for i, t in enumerate(self._empty))
            self._waiting = [Arrivals(np.full(len(times), self.number, np.int8), times, every, marks)]

    @property
    def nbytes(self) -> int:
        return sum(int(part.tables[self.number].nbytes) for part in self._waiting)


def _tops(facts: Mapping[str, Any], inputs: int) -> list[int]:
    """The largest time of each input."""
    found = [value(top, "tops", int, low=NO_TIME, high=ENDED) for top in fact(facts, "tops", list)]
    demand(len(found) == inputs, "there are more inputs than there should be, or fewer")
    return found


def _in_order(times: np.ndarray) -> np.ndarray:
    demand((times[1:] >= times[:-1]).all(), "rows that wait are out of order")
    return times


def joined(parts: Sequence[Arrivals], port: int) -> Arrivals:
    """Arrivals of one port, end to end."""
    if len(parts) == 1:
        return parts[0]
    tables = tuple(
        pa.concat_tables([part.tables[i] for part in parts]) if i == port else table
        for i, table in enumerate(parts[0].tables)
    )
    marks = None
    if any(part.marks is not None for part in parts):
        marks = np.concatenate([np.zeros(len(p), bool) if p.marks is None else p.marks for p in parts])
    return Arrivals(np.concatenate([p.ports for p in parts]), np.concatenate([p.times for p in parts]), tables, marks)
