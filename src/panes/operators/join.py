"""Join: each row that arrives is matched with the rows in the window of the other stream.

In: rows of two ports, merged in one order. Out: the pairs of each arrival, oldest partner first, then a punctuation
(also if there are none); and, for outer joins, each row that leaves its window without ever having matched, on the
output itself with nulls for the other side or on a port of its own.

Who is in which window when is decided by a *mechanism*: compiled lists (`join_lists.py`) or the containers of the
window library (`join_windows.py`), which keys that are forgotten need. Both give places of candidate pairs and of
evicted rows; what is made of them is the same code, here. At the end of the streams all windows are emptied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from panes.operators.arrivals import NO_TIME, Arrivals, PortOutput
from panes.operators.clauses import Clause
from panes.operators.join_lists import MATCHING, SIDES, ListMechanism, SideSpec
from panes.operators.join_windows import WindowMechanism
from panes.operators.machine import Machine, RowStore, columnar
from panes.operators.models import ROW_BY_ROW_FORMS, InputPort, Model, OutputPort, Parameter, Use
from panes.state.checked import MANY, counts, demand, fact, numbers, read_table, value, whole

Array = np.ndarray
HOW = ("inner", "left", "right", "full")
TIES = ("arrival", "include", "exclude")
#: Columns of what mechanisms say of evicted rows, see `join_lists`.
ARRIVAL, PHASE, WHEN, SIDE, PLACE = range(5)


def _same_keys(use: Use) -> str | None:
    left, right = (use.keys.get(side, ()) for side in SIDES)
    if bool(left) != bool(right):
        has, lacks = SIDES if left else SIDES[::-1]
        return f"{has} has a key and {lacks} has none: either both are partitioned, or none; see key_by()"
    if [str(t) for t in left] != [str(t) for t in right]:
        shown = " and ".join(", ".join(map(str, types)) for types in (left, right))
        return f"rows of the same key are matched, so keys must have the same types on both sides; they are {shown}"
    return None


def _something_kept(use: Use) -> str | None:
    empty = all(use.windows[side].keeps_none for side in SIDES)
    return "both windows are count(0), so no row is ever there to match" if empty else None


def looked_up(windows: Mapping[str, Clause]) -> int | None:
    """The side whose rows are looked up and never look up others, if there is one."""
    kept = [i for i, side in enumerate(SIDES) if not windows[side].keeps_none]
    return kept[0] if len(kept) == 1 else None


def _ties_of_one_side(use: Use) -> str | None:
    if use.parameters["ties"] == "arrival" or looked_up(use.windows) is not None:
        return None
    return (
        f"ties={use.parameters['ties']!r} says whether rows see those of the same time that they look up, so one "
        "window must be sliding(count(0)), whose rows only look up; with two windows each row sees the other"
    )


_ports = tuple(InputPort(side, ROW_BY_ROW_FORMS, fixed_every="count(1)") for side in SIDES)
JOIN = Model(
    "Join",
    inputs=_ports,
    outputs=(OutputPort("matches", "generating"), OutputPort("left"), OutputPort("right")),
    parameters=(
        Parameter("match"),
        Parameter("how", choices=HOW),
        Parameter("outer", choices=("inline", "apart")),
        Parameter("ties", choices=TIES),
    ),
    rules=(_same_keys, _something_kept, _ties_of_one_side),
)


@dataclass(frozen=True)
class JoinSpec:
    """A Join whose names and types are known."""

    sides: tuple[SideSpec, SideSpec]
    schema: pa.Schema
    #: rows of both sides, in pairs, to rows of the result
    project: Callable[[pa.Table, pa.Table], pa.Table]
    #: which pairs match, beyond equal keys and equality parts; None: all
    matches: Callable[[pa.Table, pa.Table], Array] | None = None
    how: str = "inner"
    outer: str = "inline"

    def keeps_unmatched(self, side: int) -> bool:
        return self.how in ("full", SIDES[side])


class Mechanism(Protocol):
    """Decides which rows meet. Places are those of the stores."""

    def chunks(self, ports: Array, times: Array, tables: tuple[pa.Table, ...]) -> Iterator[tuple[Array, Array]]:
        """Candidate pairs (arrival, left, right) and evicted rows, some arrivals at a time.

        Arrivals whose port is neither 0 nor 1 only let time pass.
        """

    def held(self, side: int) -> Array:
        """Places of all rows in the window of a side, increasing."""

    def moved(self, side: int, kept: Array) -> None:
        """Only these places of the store are left, under the numbers 0, 1, ..."""

    def dump(self) -> tuple[dict[str, Any], dict[str, pa.Table]]: ...

    def load(self, facts: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> None: ...

    @property
    def keys(self) -> int: ...


class JoinMachine(Machine):
    """A running Join."""

    def __init__(self, spec: JoinSpec, mechanism: str = "auto") -> None:
        self.spec = spec
        self.stores = tuple(RowStore(side.rows) for side in spec.sides)
        self.matched = [np.empty(0, bool) for _ in SIDES]
        alone = [pa.schema([side.rows.field(name) for name in side.alone]) for side in spec.sides]
        self.schemas = (spec.schema, *alone)
        self.mechanism = _mechanism(self, mechanism)
        self._time = NO_TIME
        self._counts = {"rows_in": 0, "rows_out": 0, "candidates": 0}
        self._nothing = tuple(PortOutput.of(schema.empty_table(), np.empty(0, np.int64)) for schema in self.schemas)

    def push(self, arrivals: Arrivals) -> tuple[PortOutput, ...]:
        ports = arrivals.ports
        if arrivals.marks is not None:  # a join has no use for punctuations, but time passes with them
            ports = np.where(arrivals.marks, np.int8(2), ports)
        return self._run(ports, arrivals.times, arrivals.tables)

    def advance(self, time: int) -> tuple[PortOutput, ...]:
        nothing = tuple(side.rows.empty_table() for side in self.spec.sides)
        return self._run(np.full(1, 2, np.int8), np.full(1, time, np.int64), nothing)

    def _run(self, ports: Array, times: Array, tables: tuple[pa.Table, ...]) -> tuple[PortOutput, ...]:
        if not len(ports):
            return self._nothing
        times = np.maximum.accumulate(np.maximum(times, self._time))
        self._time = int(times[-1])
        for i, (store, table) in enumerate(zip(self.stores, tables)):
            store.add(table)
            self._counts["rows_in"] += table.num_rows
            if self.spec.keeps_unmatched(i):
                self.matched[i] = np.concatenate((self.matched[i], np.zeros(table.num_rows, bool)))
        parts = [self._made(*chunk, times) for chunk in self.mechanism.chunks(ports, times, tables)]
        given = tuple(PortOutput.concat(port) for port in zip(*(part for part, _ in parts)))
        of_rows = np.concatenate([arrivals for _, arrivals in parts])
        arrived = np.flatnonzero(ports < 2)
        marks = np.cumsum(np.bincount(of_rows, minlength=len(ports)))[arrived]
        given = (PortOutput(given[0].table, given[0].times, marks, times[arrived]), *given[1:])
        self._counts["rows_out"] += sum(each.table.num_rows for each in given)
        for side, store in enumerate(self.stores):
            store.tidy(partial(self.forget, side))
        return given

    def _made(self, pairs: Array, evicted: Array, times: Array) -> tuple[tuple[PortOutput, ...], Array]:
        """What the ports give of candidate pairs and evicted rows; and of which arrival the rows of the first are."""
        self._counts["candidates"] += len(pairs)
        pairs = self._filtered(pairs)
        alone = self._unmatched(pairs, evicted)
        if self.spec.outer == "apart":
            ports = [self._apart(alone[alone[:, SIDE] == side], side) for side in range(2)]
            return (self._table(pairs[:, 1], pairs[:, 2], times[pairs[:, 0]]), *ports), pairs[:, 0]
        arrivals, left, right, when = pairs[:, 0], pairs[:, 1], pairs[:, 2], times[pairs[:, 0]]
        if len(alone):
            of_left = alone[:, SIDE] == 0
            when = np.concatenate((when, alone[:, WHEN]))
            left = np.concatenate((left, np.where(of_left, alone[:, PLACE], -1)))
            right = np.concatenate((right, np.where(of_left, -1, alone[:, PLACE])))
            order = _in_order(pairs, alone)
            arrivals = np.concatenate((arrivals, alone[:, ARRIVAL]))[order]
            left, right, when = left[order], right[order], when[order]
        return (self._table(left, right, when), *(self._apart(alone[:0], side) for side in range(2))), arrivals

    def _filtered(self, pairs: Array) -> Array:
        if self.spec.matches is not None and len(pairs):
            rows = (store.at(pairs[:, i + 1]) for i, store in enumerate(self.stores))
            pairs = pairs[self.spec.matches(*rows)]
        return pairs

    def _unmatched(self, pairs: Array, evicted: Array) -> Array:
        """Of the evicted rows those that an outer join gives. A row pairs only before it is evicted, so all of its
        pairs are known by now."""
        wanted = np.zeros(len(evicted), bool)
        for side in range(2):
            if self.spec.keeps_unmatched(side):
                self.matched[side][pairs[:, side + 1]] = True
                mine = evicted[:, SIDE] == side
                wanted[mine] = ~self.matched[side][evicted[mine, PLACE]]
        return evicted[wanted]

    def _table(self, left: Array, right: Array, when: Array) -> PortOutput:
        if not len(when):
            return self._nothing[0]
        rows = (store.at(places) for store, places in zip(self.stores, (left, right)))
        return PortOutput.of(self.spec.project(*rows), when)

    def _apart(self, alone: Array, side: int) -> PortOutput:
        if not len(alone):
            return self._nothing[side + 1]
        alone = alone[np.lexsort((alone[:, PLACE], alone[:, WHEN], alone[:, PHASE], alone[:, ARRIVAL]))]
        rows = self.stores[side].at(alone[:, PLACE]).select(self.schemas[side + 1].names)
        return PortOutput.of(rows, alone[:, WHEN])

    def finish(self) -> tuple[PortOutput, ...]:
        left = [self.mechanism.held(side) for side in range(2)]
        evicted = np.zeros((sum(map(len, left)), 5), np.int64)
        evicted[:, WHEN] = self._time
        evicted[:, SIDE] = np.repeat([0, 1], [len(places) for places in left])
        evicted[:, PLACE] = np.concatenate(left)
        (matches, *ports), _ = self._made(np.empty((0, 3), np.int64), evicted, np.empty(0, np.int64))
        if n := matches.table.num_rows:
            matches = PortOutput(matches.table, matches.times, np.array([n]), np.array([self._time]))
        self._counts["rows_out"] += sum(each.table.num_rows for each in (matches, *ports))
        return (matches, *ports)

    def forget(self, side: int) -> None:
        """Forget rows of a side that its window does not hold."""
        kept = self.mechanism.held(side)
        self.stores[side].keep_places(kept)
        if self.spec.keeps_unmatched(side):
            self.matched[side] = self.matched[side][kept]
        self.mechanism.moved(side, kept)

    def dump(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        for side in range(2):
            self.forget(side)
        facts, tables = self.mechanism.dump()
        facts |= {"time": self._time, "counts": self._counts, "arrived": [store.arrived for store in self.stores]}
        for side, name in enumerate(SIDES):
            tables[f"rows.{name}"] = self.stores[side].dump()
            tables[f"matched.{name}"] = pa.table({"matched": pa.array(self.matched[side])})
        return facts, tables

    def load(self, facts: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> None:
        self._time, self._counts = whole(facts, "time", NO_TIME, MANY), counts(facts, "counts", self._counts)
        arrived = fact(facts, "arrived", list)
        demand(len(arrived) == len(SIDES), "a join has two sides")
        for i, side in enumerate(SIDES):
            count = value(arrived[i], "arrived", int, low=0, high=MANY)
            self.stores[i].load(read_table(tables, f"rows.{side}"), count)
            self.matched[i] = numbers(
                read_table(tables, f"matched.{side}", {"matched": pa.bool_()}), "matched", pa.bool_()
            )
            wanted = len(self.stores[i]) if self.spec.keeps_unmatched(i) else 0
            demand(len(self.matched[i]) == wanted, "there are more marks of rows than rows, or fewer")
        self.mechanism.load(facts, tables)

    @property
    def metrics(self) -> dict[str, Any]:
        return {
            **self._counts,
            "rows_held": sum(len(self.mechanism.held(side)) for side in range(2)),
            "keys": self.mechanism.keys,
            "bytes": sum(store.nbytes for store in self.stores),
        }


def _in_order(pairs: Array, alone: Array) -> Array:
    """The order of pairs, then of rows without a partner, as it happened: by arrival, by what happens in it, by
    time, left before right, by arrival of the row."""
    n = len(pairs)
    phase = np.concatenate((np.full(n, MATCHING), alone[:, PHASE]))
    when = np.concatenate((np.zeros(n, np.int64), alone[:, WHEN]))
    side = np.concatenate((np.zeros(n, np.int64), alone[:, SIDE]))
    place = np.concatenate((np.arange(n), alone[:, PLACE]))
    arrival = np.concatenate((pairs[:, 0], alone[:, ARRIVAL]))
    return np.lexsort((place, side, when, phase, arrival))


def _mechanism(machine: JoinMachine, name: str) -> Mechanism:
    sides = machine.spec.sides
    if columnar("Join", name, ListMechanism.takes(sides)):
        return ListMechanism(sides, machine.stores, any(machine.spec.keeps_unmatched(side) for side in range(2)))
    return WindowMechanism(sides, machine.stores)
