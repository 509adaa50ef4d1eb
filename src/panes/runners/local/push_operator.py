"""An operator to push rows to: `stream.operator()` of a stream that an operator gives.

In: batches for its ports, in the order in which they come. Out: what its stream shows of what is given now, with the
places of punctuations. The same contract as the operator of a query: pushes of any size, and snapshots anywhere, give
the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from threading import RLock
from typing import Any

import numpy as np
import pyarrow as pa

from panes.errors import OperatorClosed, QueryError
from panes.operators.arrivals import NO_TIME, Arrivals, PortOutput, arrivals_of
from panes.operators.machine import Machine, packed
from panes.plan.flow import Flow
from panes.plan.operator_plan import OperatorPlan
from panes.runners.local.past import Past
from panes.runtime.arrivals import passed_on, stamped
from panes.slicing.ledger import Newest
from panes.slicing.results import Result
from panes.state.checked import MANY, columns_of, demand, fact, reading, same_identity, value, whole
from panes.state.pickles import trusting
from panes.state.snapshot import pack, unpack


class OperatorResult(Result):
    """Rows that are given now. `punctuations`: how many of the rows stand before each; `ports`: the other outputs."""

    def __init__(self, table: pa.Table, punctuations: list[int], ports: Mapping[str, pa.Table]) -> None:
        super().__init__(table)
        self.punctuations = punctuations
        self.ports = dict(ports)


class PushOperator:
    """A running operator. Made by `stream.operator()`.

    A call that raises changes nothing: the operator is as it was before. Calls from several threads take turns.
    """

    def __init__(
        self,
        plan: OperatorPlan,
        port: int,
        flow: Flow,
        restore: bytes | None = None,
        mechanism: str = "auto",
        trusted: bool = False,
    ) -> None:
        self._plan = plan
        self._port = port
        self._flow = flow
        self._names = [each.name for each in plan.use.model.inputs]
        self._tops = [NO_TIME for _ in plan.ports]
        self._finished = False
        self._empty = tuple(each.rows.empty_table() for each in plan.ports)
        self._late = Newest(plan.ports[0].stream.keep_late)
        self._rows_late = 0
        self._turn = RLock()
        self._running = False
        self._past = Past(partial(plan.start, mechanism))
        #: None: a call has failed, and nobody has asked since
        self._machine: Machine | None = plan.start(mechanism) if restore is None else self._restored(restore, trusted)

    def __repr__(self) -> str:
        state = "finished" if self._finished else f"{self.metrics['rows_in']:,} rows in"
        return f"<Operator {self._plan.use.model.name} over {', '.join(self._names)}: {state}>"

    def push(self, batch: Any, port: str | int = 0) -> OperatorResult:
        """Rows come to a port, by its name or number; what is given now."""
        number = self._number(port)
        rows, late = self._plan.ports[number].read(batch)
        with self._turn:
            self._open("push")
            found = self._in_time(arrivals_of(rows, number, self._empty))
            tops = [int(found.times[-1])] * len(self._tops) if len(found.times) else self._tops
            result = self._all_or_nothing("push", found, rows=len(found), tops=tops)
            if late is not None:
                self._late.put(late)
                self._rows_late += late.num_rows
            return result

    def punctuate(self, port: str | int = 0) -> OperatorResult:
        """A punctuation comes to a port."""
        number = self._number(port)
        with self._turn:
            self._open("punctuate")
            now = np.full(1, max(self._tops), np.int64)
            arrival = Arrivals(np.full(1, number, np.int8), now, self._empty, np.ones(1, bool))
            return self._all_or_nothing("push", arrival, rows=1, tops=self._tops)

    def advance(self, time: Any) -> OperatorResult:
        """Time has reached this point (a tick, a datetime or ISO text) without a row."""
        tick = self._plan.ports[0].stream.domain.point(time, argument="advance")
        with self._turn:
            self._open("advance")
            return self._all_or_nothing("advance", tick, tops=[max(top, tick) for top in self._tops])

    def finish(self) -> OperatorResult:
        """The end of all streams."""
        with self._turn:
            self._open("finish")
            result = self._all_or_nothing("finish", tops=self._tops)
            self._finished = True
            return result

    def _all_or_nothing(self, call: str, *arguments: Any, tops: list[int], rows: int = 0) -> OperatorResult:
        """What a call of the machine gives; if it fails, everything is as before."""
        if self._running:
            raise OperatorClosed(
                f"{call}: the operator is in the middle of a call; user code that it runs can't call it"
            )
        self._running = True
        try:
            machine = self._whole()
            result = self._given(getattr(machine, call)(*arguments))
        except BaseException:
            self._machine = None
            self._past.demand()
            raise
        finally:
            self._running = False
        self._past.note(machine, call, arguments, rows)
        self._tops = tops
        return result

    def _whole(self) -> Machine:
        """The machine as the last call left it that succeeded.

        After one that failed it is made when it is next needed, not at once: what made user code fail (a service that
        does not answer, say) may be over then.
        """
        if self._machine is None:
            self._machine = self._past.again()
        return self._machine

    def snapshot(self) -> bytes:
        """The whole state as bytes, for `stream.operator(restore=...)`."""
        facts, tables = self._whole().dump()
        head = {
            "identity": self._plan.identity,
            "tops": self._tops,
            "finished": self._finished,
            "state": facts,
            "rows_late": self._rows_late,
        }
        late = {f"late.{i}": table for i, table in enumerate(self._late.tables())}
        return pack({**head, "pickled": bool(facts.get("pickled"))}, {**tables, **late})

    def _restored(self, blob: bytes, trusted: bool) -> Machine:
        facts, tables = unpack(blob)
        same_identity(facts, self._plan.identity, "operator")
        with trusting(trusted), reading("the snapshot"):
            tops = [value(top, "tops", int, low=NO_TIME, high=MANY) for top in fact(facts, "tops", list)]
            demand(len(tops) == len(self._tops), "there are more inputs than ports, or fewer")
            self._tops, self._finished = tops, fact(facts, "finished", bool)
            self._rows_late = whole(facts, "rows_late", 0, MANY)
            for name in sorted((n for n in tables if n.startswith("late.")), key=lambda n: int(n[5:])):
                self._late.put(self._late_rows(name, tables[name]))
            state = fact(facts, "state", dict)
            mechanism = value(state.get("mechanism", "auto"), "mechanism", str)
            machine = self._plan.start(mechanism)
            machine.load(state, tables)
            self._past = Past(partial(self._plan.start, mechanism), packed(state, tables))
            return machine

    def _late_rows(self, name: str, table: pa.Table) -> pa.Table:
        """Rows without a time, as one of the ports puts them aside."""
        schemas = [each.stream.schema for each in self._plan.ports]
        wanted = next((s for s in schemas if s.names == table.column_names), schemas[0])
        columns_of(table, name, {f.name: f.type for f in wanted})
        return table

    @property
    def metrics(self) -> dict[str, Any]:
        """Rows in, out and held, keys and bytes of state; rows without a time, which are used nowhere."""
        return {**self._whole().metrics, "rows_late": self._rows_late}

    @property
    def late(self) -> pa.Table:
        """Rows without a time, with the reason: the newest `keep_late` of the stream."""
        parts = self._late.tables() or [self._plan.ports[0].stream.schema.empty_table()]
        table = pa.concat_tables(parts, promote_options="default")
        return table.append_column("reason", pa.array(["null time"] * table.num_rows, pa.string()))

    def _in_time(self, found: Arrivals) -> Arrivals:
        times = np.maximum.accumulate(np.maximum(found.times, max(self._tops)))
        return Arrivals(found.ports, times, found.tables, found.marks)

    def _given(self, given: tuple[PortOutput, ...]) -> OperatorResult:
        mine = passed_on(self._flow, stamped(self._plan, self._port, given[self._port]))
        names = [each.name for each in self._plan.use.model.outputs]
        others = {
            name: stamped(self._plan, i, each).table
            for i, (name, each) in enumerate(zip(names, given))
            if i != self._port
        }
        return OperatorResult(mine.table, mine.marks.tolist(), others)

    def _number(self, port: str | int) -> int:
        if isinstance(port, str) and port in self._names:
            return self._names.index(port)
        if isinstance(port, int) and not isinstance(port, bool) and 0 <= port < len(self._names):
            return port
        has = f"{self._plan.use.model.name} has {', '.join(self._names)}"
        if isinstance(port, str | int):
            shown = repr(port)
            raise QueryError(f"port={shown if len(shown) <= 60 else shown[:57] + '...'}: {has}")
        raise QueryError(f"port must be a name or number, and comes after the rows; got {type(port).__name__}: {has}")

    def _open(self, what: str) -> None:
        if self._finished:
            raise OperatorClosed(f"{what}() after finish(): the operator has ended and takes no more rows")
