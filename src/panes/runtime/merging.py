"""Nodes that read several inputs: they merge them by time.

What is all there, or read from files, has no order of arrival between inputs. Rows are merged by the largest time
that their own input has reached, ties by the order of inputs: inputs that are in order give one that is in order, and
a row is late among the others only if it was late in its own input. Rows of an input wait until all others have come
as far, so that the order does not depend on the steps they come in. Where a run goes by a clock, an input that is
silent for as long as its stream says (`idle`) is not waited for; it counts again as soon as something comes. Live
inputs (sockets) are not waited for at all: their rows are taken as they come.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from panes.operators.arrivals import NO_TIME, Arrivals, PortOutput, arrivals_of
from panes.plan.graph import MergeNode, OperateNode
from panes.plan.operator_ports import RESULT_TIME, PortPlan
from panes.plan.silence import merged
from panes.runtime.arrivals import joined, merge, read, split, stamped
from panes.runtime.nodes import (
    END,
    ENDED,
    NOTHING,
    UNKNOWN,
    Gave,
    Inlet,
    Item,
    Reached,
    RunningNode,
    State,
    rows_alone,
    under,
)
from panes.runtime.quiet import Alarm, Beat, ByClock, ClockState, Quiet, SilenceLimit
from panes.runtime.rejects import Rejects
from panes.slicing.key_index import LARGE
from panes.state.checked import INT64, columns_of, demand, fact, numbers, read_table, value


class Line(ClockState, ABC):
    """One input while it is merged: rows that wait, in the order in which they came.

    `patience`: silent for so long by the clock, it is not waited for; None: for ever.
    """

    remembers = ("_quiet", "_timeout", "came_to", "silent", "beat", "before")

    def __init__(self, patience: int | None, alarm: Alarm | None, timeout: int | None = None) -> None:
        self._patience = patience
        self._alarm = alarm
        self._quiet = Quiet()
        self._timeout = SilenceLimit(timeout, alarm)
        #: the largest time of the rows that have come, and of those that the input says have
        self.top = NO_TIME
        self.came_to = NO_TIME
        #: nothing waits here, and it is not waited for
        self.silent = False
        #: what was heard last, and before the rows that wait
        self.beat: Beat | None = None
        self.before: Beat | None = None

    @property
    @abstractmethod
    def waits(self) -> bool:
        """Whether rows wait here."""

    @abstractmethod
    def put(self, given: PortOutput, rejects: Rejects) -> None:
        """Rows come."""

    @abstractmethod
    def times(self) -> np.ndarray:
        """The largest time up to each of the rows that wait."""

    @property
    def ended(self) -> bool:
        return self.came_to == ENDED

    @property
    def reached(self) -> int:
        """No row that is still to come is before this."""
        return ENDED if self.silent else max(self.top, self.came_to)

    def take_in(self, gave: Gave, tick: int, rejects: Rejects) -> None:
        """What the input gives in a step."""
        for item in gave.items:
            if isinstance(item, Beat):
                self._hear(item)
                if self._timeout.hear(item):
                    break
            else:
                self._timeout.row()
                self.put(item, rejects)
                if self.waits:
                    self._quiet.row()
                    self.silent = False
        self.came_to = ENDED if self._timeout.over else tick

    def _hear(self, beat: Beat) -> None:
        self.beat = beat
        quiet = self._quiet.hear(beat)
        if not beat.waits:
            self.before = beat
        elif not self.waits and self._patience is not None and self._alarm is not None:
            self.silent = quiet >= self._patience
            if not self.silent:
                self._alarm.wake_at(self._quiet.since + self._patience)

    def hungry(self, node: RunningNode) -> list[Inlet]:
        """The inlets that must be filled for rows to wait here."""
        return [] if self.waits or self.ended else node.hungry()

    def due(self, sooner: Sequence[Line], later: Sequence[Line]) -> int:
        """How many of the rows that wait can be taken: none can come that belongs before them.

        Of rows of one time those of `sooner` lines come before these, those of `later` lines after.
        """
        times = self.times()
        strictly = min((line.reached for line in sooner), default=ENDED)
        before = len(times) if strictly == ENDED else int(np.searchsorted(times, strictly))
        upto = int(np.searchsorted(times, min((line.reached for line in later), default=ENDED), side="right"))
        return min(before, upto)


def heard(lines: Sequence[Line]) -> tuple[Beat | None, bool]:
    """By the clock: what the lines have heard, as one beat, and whether their rows can be taken.

    When no line has anything, their silence is that of all of them.
    """
    open_lines = [line for line in lines if line.waits or not line.ended]
    holding = [line for line in open_lines if line.waits]
    beats = [line.beat for line in open_lines if line.beat is not None]
    if holding and all(line.waits or line.silent for line in open_lines):
        came = [line.before for line in holding if line.before is not None]
        if not came:
            return None, True
        # what rows meet is the silence before the first of them
        since = [beat.since for beat in came] + [line.beat.since for line in open_lines if line.silent and line.beat]
        return Beat(min(beat.now for beat in came), max(since), False), True
    if not beats:
        return None, False
    now = max(beat.now for beat in beats)
    return Beat(now, now if holding else max(beat.since for beat in beats), True), False


class Merging(RunningNode):
    """A node that reads several inputs, one line each."""

    lines: Sequence[Line]

    def listen(self, **clocks: ClockState) -> None:
        """The run goes by a clock, which its lines remember, and `clocks`."""
        self.clocked = {f"line{i}": line for i, line in enumerate(self.lines)} | clocks

    def hungry(self) -> list[Inlet]:
        return [inlet for line, node in zip(self.lines, self.inputs) for inlet in line.hungry(node)]


class RunningMerge(Merging):
    """Several streams with the same columns as one."""

    def __init__(self, node: MergeNode, sources: Sequence[RunningNode], alarm: Alarm | None = None) -> None:
        self.inputs = tuple(sources)
        self._schema = node.schema
        self._time = node.time
        self._clocked = alarm is not None
        live = node.live
        self.lines: list[RowsLine] = [
            RowsLine(node.schema, node.time, 0 if live else each.silence.patience, alarm) for each in node.inputs
        ]
        if self._clocked:
            self.listen()
        #: nobody waits for another
        self._live = live and alarm is None

    def step(self, rejects: Rejects) -> Gave:
        kind = self._schema.field(self._time).type
        for line, node in zip(self.lines, self.inputs):
            gave = node.step(rejects)
            line.take_in(gave, gave.reached.of(self._time, kind), rejects)
        items: list[Item] = []
        ready = True
        if self._clocked:
            beat, ready = heard(self.lines)
            items += [] if beat is None else [beat]
        table = self._taken() if ready else self._schema.empty_table()
        items += [rows_alone(table)] if table.num_rows else []
        came = min(line.came_to for line in self.lines)
        if came == ENDED and not any(line.waits for line in self.lines):
            return Gave(items, END)
        return Gave(items, UNKNOWN if came in (NO_TIME, ENDED) else Reached(self._time, kind, came))

    def _taken(self) -> pa.Table:
        lines = self.lines
        due = [len(each.times()) if self._live else each.due(lines[:i], lines[i + 1 :]) for i, each in enumerate(lines)]
        taken = [line.take(n) for line, n in zip(lines, due) if n]
        if not taken:
            return self._schema.empty_table()
        table = pa.concat_tables([part for part, _ in taken])
        if len(taken) == 1:
            return table
        return table.take(pa.array(np.argsort(np.concatenate([tops for _, tops in taken]), kind="stable")))

    def dump_rows(self) -> State:
        waiting = [line.kept() for line in self.lines]
        tables = {f"rows{i}": table for i, (table, _) in enumerate(waiting)}
        tops = {f"tops{i}": pa.table({"top": pa.array(tops)}) for i, (_, tops) in enumerate(waiting)}
        return {"tops": [line.top for line in self.lines]}, tables | tops

    def load_rows(self, facts: Mapping[str, object], tables: Mapping[str, pa.Table]) -> None:
        for i, (line, top) in enumerate(zip(self.lines, _tops(facts, len(self.lines)))):
            rows, tops = read_table(tables, f"rows{i}"), read_table(tables, f"tops{i}", {"top": INT64})
            columns_of(rows, f"rows{i}", {f.name: f.type for f in self._schema})
            demand(rows.num_rows == tops.num_rows, "there are more times of rows than rows, or fewer")
            line.restore(top, rows.select(self._schema.names), _in_order(numbers(tops, "top")))

    @property
    def nbytes(self) -> int:
        return sum(int(line.kept()[0].nbytes) for line in self.lines)


class RowsLine(Line):
    """Rows of one of the streams that are merged."""

    def __init__(self, schema: pa.Schema, time: str, patience: int | None, alarm: Alarm | None) -> None:
        super().__init__(patience, alarm)
        self._names = schema.names
        self._time = time
        self._table = schema.empty_table()
        self._tops = NOTHING

    @property
    def waits(self) -> bool:
        return len(self._tops) > 0

    def put(self, given: PortOutput, rejects: Rejects) -> None:
        table = given.table.select(self._names)
        if not table.num_rows:
            return
        times = table.column(self._time).cast(pa.int64()).fill_null(NO_TIME).to_numpy()
        tops = np.maximum.accumulate(np.maximum(times, self.top))
        self.top = int(tops[-1])
        self._table = pa.concat_tables([self._table, table]) if self.waits else table
        self._tops = np.concatenate((self._tops, tops))

    def times(self) -> np.ndarray:
        return self._tops

    def take(self, n: int) -> tuple[pa.Table, np.ndarray]:
        """The first rows that wait, and the largest time up to each."""
        taken = self._table.slice(0, n), self._tops[:n]
        self._table, self._tops = self._table.slice(n), self._tops[n:]
        return taken

    def kept(self) -> tuple[pa.Table, np.ndarray]:
        return self._table, self._tops

    def restore(self, top: int, table: pa.Table, tops: np.ndarray) -> None:
        self.top, self._table, self._tops = top, table, tops


class RunningOperator(Merging):
    """An operator: its machine, and rows that wait until all of its inputs have come as far."""

    def __init__(self, node: OperateNode, sources: Sequence[RunningNode], alarm: Alarm | None = None) -> None:
        self.inputs = tuple(sources)
        self._plan = node.plan
        self._port = node.port
        counts = [each.rows for each in node.inputs]
        few = None not in counts and sum(count or 0 for count in counts) < LARGE
        # so few rows are done before compiled code is loaded
        self._machine = node.plan.start("windows" if few else "auto")
        live = node.live
        self.lines: list[PortLine] = [PortLine(i, node.plan.ports, live, alarm) for i in range(len(sources))]
        self._live = live and alarm is None
        self._ended = False
        self._clock: ByClock | None = None
        if alarm is not None:
            silence = merged([port.stream.silence for port in node.plan.ports])
            self._clock = ByClock(silence, node.plan.outputs[0].stream.domain, alarm)
            self.listen(time=self._clock)
        #: where the clock, or a row, has brought the time of the machine
        self._time = NO_TIME
        self.by_time = any("time" in clause.form for clause in node.plan.use.windows.values())

    def step(self, rejects: Rejects) -> Gave:
        for line, node in zip(self.lines, self.inputs):
            gave = node.step(rejects)
            line.take_in(gave, gave.reached.of(line.port.stream.time, line.port.time_type), rejects)
        items: list[Item] = []
        ready = True
        if self._clock is not None:
            beat, ready = heard(self.lines)
            if beat is not None:
                self._hear(self._clock, beat, items)
        arrivals = self._taken() if ready else None
        if arrivals is not None:
            if self._clock is not None:
                self._clock.row()
                # the clock may be past the time of a row, which then arrives now
                times = np.maximum(arrivals.times, self._time)
                self._time = int(times[-1])
                arrivals = Arrivals(arrivals.ports, times, arrivals.tables, arrivals.marks)
            self._give(items, self._machine.push(arrivals))
        limit = min(line.reached for line in self.lines)
        if limit == ENDED and all(line.ended and not line.waits for line in self.lines):
            if not self._ended:
                self._give(items, self._machine.finish())
            self._ended = True
            return Gave(items, END)
        if self._clock is None and NO_TIME < limit < ENDED:
            self._give(items, self._machine.advance(limit - 1))
        return Gave(items, self._reached(limit))

    def _hear(self, clock: ByClock, beat: Beat, items: list[Item]) -> None:
        tick = clock.reached(beat, lambda: self._time)
        if tick is not None and tick > self._time:
            self._time = tick
            self._give(items, self._machine.advance(tick))
        if tick is not None and beat.waits:
            clock.due(beat, None, self._time)
        items.append(beat._replace(reached=None if tick is None else self._time))

    def _taken(self) -> Arrivals | None:
        # of one input all rows can be taken; of several those before which no other can come
        order = sorted(self.lines, key=lambda line: line.number != self._plan.first)
        parts = []
        for i, line in enumerate(order):
            n = len(line.times()) if self._live or len(order) == 1 else line.due(order[:i], order[i + 1 :])
            if n:
                parts.append(line.take(n))
        return merge(parts) if parts else None

    def _give(self, items: list[Item], given: tuple[PortOutput, ...]) -> None:
        made = stamped(self._plan, self._port, given[self._port])
        if made.table.num_rows or len(made.marks):
            items.append(made)

    def _reached(self, limit: int) -> Reached:
        output, port = self._plan.outputs[self._port], self._plan.ports[0]
        if limit in (NO_TIME, ENDED):
            return UNKNOWN
        if output.stamped:
            return Reached(RESULT_TIME, port.time_type, limit)
        # rows with their own times: known of operators that hold none back
        passes = self._plan.use.model.name in ("Dedupe", "Punctuate")
        came = self.lines[0].came_to
        return Reached(port.stream.time, port.time_type, came) if passes and came > NO_TIME else UNKNOWN

    def dump_rows(self) -> State:
        facts, tables = self._machine.dump()
        kept = {f"machine.{name}": table for name, table in tables.items()}
        for i, line in enumerate(self.lines):
            kept |= {f"side{i}.{name}": table for name, table in line.dump().items()}
        known = {"time": self._time} if self._time > NO_TIME else {}
        ended = {"ended": True} if self._ended else {}
        return {"machine": facts, "tops": [line.top for line in self.lines], **known, **ended}, kept

    def load_rows(self, facts: Mapping[str, object], tables: Mapping[str, pa.Table]) -> None:
        machine = fact(facts, "machine", dict)
        self._machine = self._plan.start(value(machine.get("mechanism", "auto"), "mechanism", str))
        self._machine.load(machine, under("machine.", tables))
        for i, (line, top) in enumerate(zip(self.lines, _tops(facts, len(self.lines)))):
            line.load(top, under(f"side{i}.", tables))
        self._time = value(facts.get("time", NO_TIME), "time", int, low=NO_TIME, high=ENDED)
        self._ended = "ended" in facts

    @property
    def nbytes(self) -> int:
        machine = self._machine.metrics
        # of operators of users only the number of rows is known
        return int(machine.get("bytes", 200 * machine.get("rows_held", 0))) + sum(line.nbytes for line in self.lines)


class PortLine(Line):
    """What comes to one port of an operator: arrivals that wait."""

    def __init__(self, number: int, ports: Sequence[PortPlan], live: bool, alarm: Alarm | None) -> None:
        self.number = number
        self.port = ports[number]
        silence = self.port.stream.silence
        super().__init__(0 if live else silence.patience, alarm, silence.timeout)
        self._empty = [port.rows.empty_table() for port in ports]
        self._waiting: list[Arrivals] = []

    @property
    def waits(self) -> bool:
        return bool(self._waiting)

    def put(self, given: PortOutput, rejects: Rejects) -> None:
        found = arrivals_of(read(self.port, given, rejects), self.number, self._empty)
        if len(found):
            times = np.maximum.accumulate(np.maximum(found.times, self.top))
            self.top = int(times[-1])
            self._waiting.append(Arrivals(found.ports, times, found.tables, found.marks))

    def times(self) -> np.ndarray:
        self._waiting = [joined(self._waiting, self.number)] if len(self._waiting) > 1 else self._waiting
        return self._waiting[0].times if self._waiting else NOTHING

    def take(self, n: int) -> Arrivals:
        """The first arrivals that wait."""
        taken, rest = split(self._waiting[0], self.number, n)
        self._waiting = [rest] if len(rest) else []
        return taken

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


def _tops(facts: Mapping[str, object], inputs: int) -> list[int]:
    """The largest time of each input."""
    found = [value(top, "tops", int, low=NO_TIME, high=ENDED) for top in fact(facts, "tops", list)]
    demand(len(found) == inputs, "there are more inputs than there should be, or fewer")
    return found


def _in_order(times: np.ndarray) -> np.ndarray:
    demand((times[1:] >= times[:-1]).all(), "rows that wait are out of order")
    return times
