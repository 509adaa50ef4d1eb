"""An operator to push rows to: `stream.operator()` of a stream that an operator gives.

In: batches for its ports, in the order in which they come. Out: what its stream shows of what is given now, with the
places of punctuations. The same contract as the operator of a query: pushes of any size, and snapshots anywhere, give
the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from panes.errors import OperatorClosed, QueryError, SnapshotMismatch
from panes.operators.arrivals import NO_TIME, Arrivals, Given, arrivals_of
from panes.operators.machine import Machine
from panes.plan.flow import Flow
from panes.plan.operator_plan import OperatorPlan
from panes.runners.local.operated import passed_on, stamped
from panes.slicing.results import Result
from panes.state.snapshot import pack, unpack


class OperatorResult(Result):
    """Rows that are given now. `punctuations`: how many of the rows stand before each; `ports`: the other outputs."""

    def __init__(self, table: pa.Table, punctuations: list[int], ports: Mapping[str, pa.Table]) -> None:
        super().__init__(table)
        self.punctuations = punctuations
        self.ports = dict(ports)


class PushOperator:
    """A running operator. Made by `stream.operator()`."""

    def __init__(
        self, plan: OperatorPlan, port: int, flow: Flow, restore: bytes | None = None, mechanism: str = "auto"
    ) -> None:
        self._plan = plan
        self._port = port
        self._flow = flow
        self._names = [each.name for each in plan.use.model.inputs]
        self._tops = [NO_TIME for _ in plan.ports]
        self._finished = False
        self._empty = tuple(each.rows.empty_table() for each in plan.ports)
        self._late: list[pa.Table] = []
        self._machine = plan.start(mechanism) if restore is None else self._restored(restore)

    def push(self, batch: Any, port: str | int = 0) -> OperatorResult:
        """Rows come to a port, by its name or number; what is given now."""
        self._open("push")
        number = self._number(port)
        rows, late = self._plan.ports[number].read(batch)
        if late is not None:
            self._late.append(late)
        found = arrivals_of(rows, number, self._empty)
        return self._given(self._machine.push(self._in_time(found)))

    def punctuate(self, port: str | int = 0) -> OperatorResult:
        """A punctuation comes to a port."""
        self._open("punctuate")
        number = self._number(port)
        now = np.full(1, max(self._tops), np.int64)
        arrival = Arrivals(np.full(1, number, np.int8), now, self._empty, np.ones(1, bool))
        return self._given(self._machine.push(arrival))

    def advance(self, time: Any) -> OperatorResult:
        """Time has reached this point (a tick, a datetime or ISO text) without a row."""
        self._open("advance")
        tick = self._plan.ports[0].stream.domain.point(time, argument="advance")
        self._tops = [max(top, tick) for top in self._tops]
        return self._given(self._machine.advance(tick))

    def finish(self) -> OperatorResult:
        """The end of all streams."""
        self._open("finish")
        self._finished = True
        return self._given(self._machine.finish())

    def snapshot(self) -> bytes:
        """The whole state as bytes, for `stream.operator(restore=...)`."""
        facts, tables = self._machine.dump()
        head = {"identity": self._plan.identity, "tops": self._tops, "finished": self._finished, "state": facts}
        late = {f"late.{i}": table for i, table in enumerate(self._late)}
        return pack({**head, "pickled": bool(facts.get("pickled"))}, {**tables, **late})

    def _restored(self, blob: bytes) -> Machine:
        facts, tables = unpack(blob)
        theirs, ours = facts.get("identity", {}), self._plan.identity
        changed = [n for n in sorted({*theirs, *ours}) if theirs.get(n) != ours.get(n)]
        if changed:
            said = "; ".join(f"{n} was {theirs.get(n)!r}, is {ours.get(n)!r}" for n in changed)
            raise SnapshotMismatch(f"the snapshot belongs to another operator: {said}")
        self._tops, self._finished = list(facts["tops"]), facts["finished"]
        self._late = [table for name, table in tables.items() if name.startswith("late.")]
        machine = self._plan.start(facts["state"].get("mechanism", "auto"))
        machine.load(facts["state"], tables)
        return machine

    @property
    def metrics(self) -> dict[str, Any]:
        """Rows in, out and held, keys and bytes of state; rows without a time, which are used nowhere."""
        return {**self._machine.metrics, "rows_late": sum(table.num_rows for table in self._late)}

    @property
    def late(self) -> pa.Table:
        """Rows without a time, with the reason."""
        parts = self._late or [self._plan.ports[0].stream.schema.empty_table()]
        table = pa.concat_tables(parts, promote_options="default")
        return table.append_column("reason", pa.array(["null time"] * table.num_rows, pa.string()))

    def _in_time(self, found: Arrivals) -> Arrivals:
        times = np.maximum.accumulate(np.maximum(found.times, max(self._tops)))
        if len(times):
            self._tops = [int(times[-1])] * len(self._tops)
        return Arrivals(found.ports, times, found.tables, found.marks)

    def _given(self, given: tuple[Given, ...]) -> OperatorResult:
        mine = passed_on(self._flow, stamped(self._plan, self._port, given[self._port]))
        names = [each.name for each in self._plan.use.model.outputs]
        others = {
            name: stamped(self._plan, i, each).table
            for i, (name, each) in enumerate(zip(names, given))
            if i != self._port
        }
        return OperatorResult(mine.table, mine.marks.tolist(), others)

    def _number(self, port: str | int) -> int:
        if port in self._names:
            return self._names.index(str(port))
        if isinstance(port, int) and not isinstance(port, bool) and 0 <= port < len(self._names):
            return port
        raise QueryError(f"port={port!r}: {self._plan.use.model.name} has {', '.join(self._names)}")

    def _open(self, what: str) -> None:
        if self._finished:
            raise OperatorClosed(f"{what}() after finish(): the operator has ended and takes no more rows")
