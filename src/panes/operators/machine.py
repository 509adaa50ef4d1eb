"""The running form of an operator: arrivals in, what its ports give out. A deterministic state machine.

`Machine` is the contract. `NumberMachine` is the general way to fulfil it: windows of the library hold row numbers,
the clock follows the time of the rows, and what the windows of a batch give is taken from a `RowStore` for all of them
at once. Results depend neither on how rows are cut into batches nor on snapshots.

A machine knows no source, no runner and no watermark: whoever drives it brings arrivals in order (runners/local merges
inputs by time; a worker of another engine can sort by time and a sequence), one machine for all rows or, where streams
have keys, one for each group of keys. `dump` and `load` are all of its state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from panes.errors import QueryError
from panes.operators.arrivals import NO_TIME, Arrivals, PortOutput
from panes.operators.clauses import Attribute, Clause, RowClock, container, keys_of
from panes.policies.library import SlidingWindow, TumblingWindow
from panes.state.checked import (
    INT64,
    MANY,
    columns_of,
    demand,
    fact,
    numbers,
    read_table,
    rising,
    value,
    whole,
)
from panes.state.pickles import trusting
from panes.state.snapshot import in_cell, of_cell, pack, unpack

Array = np.ndarray
#: How windows are kept: in columns and compiled loops, or in containers of the library, row by row.
MECHANISMS = ("auto", "columns", "windows")
#: Rows are looked through for those that nobody holds when so many have come, or as many as were held last time.
_OFTEN = 4096
_MANY_CHUNKS = 32


class RowStore:
    """Rows of a port that some window still holds, in order of arrival, under the numbers in which they arrived."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.arrived = 0  # rows ever added
        self._numbers = np.empty(0, np.int64)
        self._table = schema.empty_table()
        self._look_at = _OFTEN

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def nbytes(self) -> int:
        return int(self._table.nbytes + self._numbers.nbytes)

    def add(self, table: pa.Table) -> Array:
        """Take in rows; their numbers."""
        fresh = np.arange(self.arrived, self.arrived + table.num_rows)
        self.arrived += table.num_rows
        self._numbers = np.concatenate((self._numbers, fresh)) if len(self._numbers) else fresh
        self._table = pa.concat_tables([self._table, table]) if self._table.num_rows else table
        if self._table.num_columns and self._table.column(0).num_chunks > _MANY_CHUNKS:
            self._table = self._table.combine_chunks()
        return fresh

    def take(self, numbers: Array) -> pa.Table:
        """The rows with these numbers, in this order."""
        return self._table.take(pa.array(self.places(numbers)))

    def at(self, places: Array) -> pa.Table:
        """The rows at these places among those held; -1: nulls."""
        absent = places < 0
        index = pa.array(places, mask=absent) if absent.any() else pa.array(places)
        return self._table.take(index)

    @property
    def numbers(self) -> Array:
        """The numbers of all rows held."""
        return self._numbers

    def all(self) -> pa.Table:
        """All rows held."""
        return self._table

    def places(self, numbers: Array) -> Array:
        """Where rows lie in the table of what is held."""
        return np.searchsorted(self._numbers, numbers)

    def tidy(self, forget: Callable[[], None]) -> None:
        """Have rows forgotten that nobody holds, now and then."""
        if len(self._numbers) >= self._look_at:
            forget()
            self._look_at = max(_OFTEN, 2 * len(self._numbers))

    def keep(self, numbers: Array) -> None:
        """Forget all rows but these."""
        self.keep_places(self.places(np.unique(numbers.astype(np.int64, copy=False))))

    def keep_places(self, places: Array) -> None:
        """Forget all rows but those at these places, which increase."""
        self._table = self._table.take(pa.array(places)).combine_chunks()
        self._numbers = self._numbers[places]

    def dump(self) -> pa.Table:
        return self._table.append_column("panes.row", pa.array(self._numbers))

    def load(self, table: pa.Table, arrived: int) -> None:
        columns_of(table, "rows", {**{f.name: f.type for f in self.schema}, "panes.row": INT64})
        self._numbers = numbers(table, "panes.row", low=0, high=arrived - 1)
        rising(self._numbers, "the numbers of rows")
        self._table = table.select(self.schema.names).cast(self.schema)
        self.arrived = arrived


def columnar(operator: str, mechanism: str, possible: bool) -> bool:
    """Whether to run in columns."""
    if mechanism not in MECHANISMS:
        raise QueryError(f"mechanism={mechanism!r} must be one of {', '.join(MECHANISMS)}")
    if mechanism == "columns" and not possible:
        raise QueryError(f"mechanism='columns': {operator} with these windows runs row by row only")
    return possible and mechanism != "windows"


class Machine(ABC):
    """What drivers see of a running operator."""

    #: one schema per output port
    schemas: tuple[pa.Schema, ...]

    @abstractmethod
    def push(self, arrivals: Arrivals) -> tuple[PortOutput, ...]:
        """Rows and punctuations arrive; what each port gives."""

    @abstractmethod
    def advance(self, time: int) -> tuple[PortOutput, ...]:
        """Time has reached this tick without a row."""

    @abstractmethod
    def finish(self) -> tuple[PortOutput, ...]:
        """The end of the streams."""

    @abstractmethod
    def dump(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        """The state: facts that JSON can hold, and tables."""

    @abstractmethod
    def load(self, facts: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> None:
        """Take over a state; for a machine that has seen nothing."""

    def saved(self) -> Callable[[Machine], None]:
        """What puts the state of now into machines of this kind that have seen nothing, in this process."""
        return packed(*self.dump())

    @property
    @abstractmethod
    def metrics(self) -> dict[str, Any]: ...


def packed(facts: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> Callable[[Machine], None]:
    """What puts a dump into machines, whatever becomes of the one that it is of: they write to what they dumped."""
    state = pack(facts, tables)

    def put_back(machine: Machine) -> None:
        with trusting(True):  # nobody but this process has had it
            machine.load(*unpack(state))

    return put_back


class Port:
    """An input: its rows, and its window, which holds their numbers."""

    def __init__(self, store: RowStore, keys: Sequence[str], clause: Clause | None, clock: RowClock) -> None:
        self.store = store
        self.keys = tuple(keys)
        self.attributes = {name: Attribute(name) for name in (clause.attributes if clause else ())}
        self.window: TumblingWindow | SlidingWindow | None = None
        if clause is not None:
            self.window = container(clause, keyed=bool(keys), clock=clock, attributes=self.attributes)

    def take_in(self, table: pa.Table) -> tuple[list[int], list[Hashable] | None]:
        """Numbers and keys of the rows of a batch."""
        return self.coming(self.store.add(table), table)

    def coming(self, numbers: Array, table: pa.Table) -> tuple[list[int], list[Hashable] | None]:
        """The same of rows that the store has already."""
        for name, attribute in self.attributes.items():
            attribute.coming(numbers, table.column(name))
        return numbers.tolist(), keys_of(table, self.keys)

    def insert(self, number: int, key: Hashable) -> None:
        assert self.window is not None
        if self.keys:
            self.window.insert(number, key)
        else:
            self.window.insert(number)

    def held(self) -> Array:
        """Numbers of all rows in the window."""
        if self.window is None:
            return np.empty(0, np.int64)
        return np.array([n for _, content in self.window.subwindows() for n in content], np.int64)


class NumberMachine(Machine):
    """A machine whose windows hold row numbers. Subclasses hear of rows and punctuations, and say what is given."""

    def __init__(self, ports: Sequence[tuple[pa.Schema, Sequence[str], Clause | None]]) -> None:
        self.clock = RowClock()
        self.ports = [Port(RowStore(schema), keys, clause, self.clock) for schema, keys, clause in ports]
        self._rows_in = 0
        self._rows_out = [0 for _ in self.schemas]

    @property
    def counts_only(self) -> bool:
        """Windows say how many rows are held of each key, and not which they are."""
        return False

    def push(self, arrivals: Arrivals) -> tuple[PortOutput, ...]:
        coming = [iter(zip(*self._taken(port, table))) for port, table in zip(self.ports, arrivals.tables)]
        marks = np.zeros(len(arrivals), bool) if arrivals.marks is None else arrivals.marks
        advance, row, punctuation = self.clock.reach, self.on_row, self.on_punctuation
        for port, time, mark in zip(arrivals.ports.tolist(), arrivals.times.tolist(), marks.tolist()):
            advance(time)
            self.time_passed()
            if mark:
                punctuation(port)
            else:
                row(port, *next(coming[port]))
        return self._collected()

    def _taken(self, port: Port, table: pa.Table) -> tuple[list[int], list[Hashable]]:
        numbers, keys = port.take_in(table)
        self._rows_in += len(numbers)
        return numbers, [None] * len(numbers) if keys is None else keys

    def advance(self, time: int) -> tuple[PortOutput, ...]:
        self.clock.reach(time)
        self.time_passed()
        return self._collected()

    def finish(self) -> tuple[PortOutput, ...]:
        self.on_finish()
        return self._collected()

    def _collected(self) -> tuple[PortOutput, ...]:
        given = self.given()
        for i, each in enumerate(given):
            self._rows_out[i] += each.table.num_rows
        for number, port in enumerate(self.ports):
            port.store.tidy(partial(self._forget_rows, number))
        return given

    def _forget_rows(self, port: int) -> None:
        self.ports[port].store.keep(self.held(port))

    def held(self, port: int) -> Array:
        """Numbers of rows of a port that are still needed."""
        return self.ports[port].held()

    @abstractmethod
    def on_row(self, port: int, number: int, key: Hashable) -> None:
        """A row arrives."""

    def on_punctuation(self, port: int) -> None:
        """A punctuation arrives; one that closes windows does so here."""
        window = self.ports[port].window
        if isinstance(window, TumblingWindow) and window.evict.kind == "punct":
            window.punctuate()

    def time_passed(self) -> None:
        """The clock was moved, and timers have run."""

    def on_finish(self) -> None:
        """The end of the streams."""

    @abstractmethod
    def given(self) -> tuple[PortOutput, ...]:
        """What has come together since the last call."""

    def dump(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        facts: dict[str, Any] = {"mechanism": "windows", "now": self.clock.tick}
        facts |= {"rows_in": self._rows_in, "rows_out": self._rows_out}
        tables = {}
        for i, port in enumerate(self.ports):
            port.store.keep(self.held(i))
            tables[f"rows.{i}"] = port.store.dump()
            facts[f"arrived.{i}"] = port.store.arrived
            if port.window is not None:
                tables[f"window.{i}"] = in_cell("window", port.window.snapshot())
        return facts, tables

    def load(self, facts: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> None:
        self.clock.reach(whole(facts, "now", NO_TIME, MANY))
        self._rows_in = whole(facts, "rows_in", 0, MANY)
        self._rows_out = [value(n, "rows_out", int, low=0, high=MANY) for n in fact(facts, "rows_out", list)]
        demand(len(self._rows_out) == len(self.schemas), "there are more outputs than ports, or fewer")
        for i, port in enumerate(self.ports):
            port.store.load(read_table(tables, f"rows.{i}"), whole(facts, f"arrived.{i}", 0, MANY))
            if port.window is not None:
                load_window(port.window, tables, f"window.{i}")
                (check_counts if self.counts_only else check_rows)(port.window, port.store, port.keys)

    @property
    def metrics(self) -> dict[str, Any]:
        held = [port.window.metrics for port in self.ports if port.window is not None]
        return {
            "rows_in": self._rows_in,
            "rows_out": sum(self._rows_out),
            "rows_held": sum(m["tuples"] for m in held),
            "keys": sum(m["partitions"] for m in held),
            "bytes": sum(port.store.nbytes for port in self.ports),
        }


class WindowMachine(NumberMachine):
    """A machine of one input and one output, whose rows are some of those of its window: which, and when."""

    spec: Any

    def __init__(self, spec: Any) -> None:
        self.schemas, self.spec = (spec.schema,), spec
        super().__init__([(spec.rows, spec.keys, spec.clause)])
        (self._port,) = self.ports
        self._out: list[tuple[int, int]] = []  # row number, time
        self._marks: list[tuple[int, int]] = []  # rows before it, time

    @property
    def window(self) -> TumblingWindow | SlidingWindow:
        assert self._port.window is not None
        return self._port.window

    def on_row(self, port: int, number: int, key: Hashable) -> None:
        if self.spec.clause.keeps_none:
            self.give(number)  # a window that keeps none passes each row on
        else:
            self._port.insert(number, key)

    def give(self, number: int) -> None:
        self._out.append((number, self.clock.tick))

    def mark(self) -> None:
        self._marks.append((len(self._out), self.clock.tick))

    def given(self) -> tuple[PortOutput, ...]:
        out, marks = self._out, self._marks
        table = self._port.store.take(np.array([n for n, _ in out], np.int64)).select(self.schemas[0].names)
        self._out, self._marks = [], []
        return (given_rows(table, [t for _, t in out], [n for n, _ in marks], [t for _, t in marks]),)


def given_rows(table: pa.Table, times: Sequence[int], marks: Sequence[int], mark_times: Sequence[int]) -> PortOutput:
    return PortOutput(table, np.array(times, np.int64), np.array(marks, np.int64), np.array(mark_times, np.int64))


def load_window(
    window: TumblingWindow | SlidingWindow, tables: Mapping[str, pa.Table], name: str, *, trusted: bool = False
) -> None:
    """Go on from there; for a window that has seen nothing, whose clock is at the time of the state.

    `trusted`: it holds what users' own code has put there, and that may be read.
    """
    window.restore(of_cell(tables, name, "window"), trusted=trusted)


def check_rows(window: TumblingWindow | SlidingWindow, store: RowStore, keys: tuple[str, ...]) -> None:
    """Refuse a window that holds numbers of rows that are not there, or of another key, or twice."""
    found = list(window.subwindows())
    every = [number for _, content in found for number in content]
    demand(all(type(number) is int for number in every), "a window holds what is not a number of a row")
    demand(len(set(every)) == len(every), "a row is in two windows")
    numbers_of = np.array(every, np.int64)
    demand(np.isin(numbers_of, store.numbers).all(), "a window holds rows that are not there")
    of = keys_of(store.take(numbers_of), keys)
    owners = [key for key, content in found for _ in content]
    demand(of is None or of == owners, "a window holds rows of another key")


def check_counts(window: TumblingWindow | SlidingWindow, store: RowStore, keys: tuple[str, ...]) -> None:
    """Refuse a window that holds more rows of a key than there are, or fewer."""
    there = Counter(keys_of(store.all(), keys) or [None] * len(store))
    demand(there == Counter({key: len(content) for key, content in window.subwindows() if content}),
           "a window holds more rows of a key than there are, or fewer")  # fmt: skip
