"""Operators that users write: a model, windows of the library, and what to do with rows.

    class Spread(pn.operators.Operator):
        model = Model("Spread", (InputPort("in", SLIDING_FORMS),), (OutputPort("out"),))
        schema = {"spread": "double"}

        def start(self):
            self.window("in").on("trigger", self.give)

        def give(self, key, window):
            prices = [row["price"] for row in window.content(key)]
            self.emit(spread=max(prices) - min(prices))

    spreads = trades.apply(Spread(), window=sliding(count(100), every=count(1)))

Rows are dicts. The clock of the windows follows the time of the rows. Attributes of the operator are its state:
snapshots hold them and the windows, pickled.
"""

from __future__ import annotations

import copy
import pickle  # its errors only: who reads pickles is state/pickles.py
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from panes.errors import DataError, QueryError, calling, raise_named
from panes.exact import Inexact, exact_array, shown
from panes.operators.arrivals import NO_TIME, Arrivals, PortOutput
from panes.operators.clauses import Clause, RowClock, container
from panes.operators.machine import Machine, columnar, given_rows, load_window
from panes.operators.models import Model
from panes.policies.library import SlidingWindow, TumblingWindow, Window
from panes.state import pickles
from panes.state.checked import MANY, counts, demand, whole
from panes.state.snapshot import in_cell, of_cell

_CONTEXT = "_panes"


class Operator:
    """Base of operators of your own. Fill in `model` and `schema`, and what to do.

    `model` declares ports, the windows each may have, and whether it needs or gives punctuations. `schema` names the
    columns that are given and their types, as SQL names; by output port if there are several.
    """

    model: ClassVar[Model]
    schema: ClassVar[Mapping[str, Any]]

    def start(self) -> None:
        """Called once, before the first row: make windows and register handlers."""

    def on_row(self, port: str, row: dict[str, Any]) -> None:
        """A row comes to an input. Unless you say otherwise it enters the window of the input."""
        self.insert(port, row)

    def on_punctuation(self, port: str) -> None:
        """A punctuation comes. Unless you say otherwise it ends the window of the input, if that is punct()."""
        window = self._context.windows.get(port)
        if isinstance(window, TumblingWindow) and window.evict.kind == "punct":
            window.punctuate()

    def on_finish(self) -> None:
        """The end of all streams."""

    def window(self, port: str) -> TumblingWindow | SlidingWindow:
        """The window of an input, as the query declares it."""
        return self._context.window(port)

    def insert(self, port: str, row: dict[str, Any]) -> None:
        """Put a row into the window of its input, under its key."""
        self._context.insert(port, row)

    def key(self, port: str, row: Mapping[str, Any]) -> Hashable:
        """The key of a row: a value, or a tuple if the stream has several key columns; None without a key."""
        return self._context.key(port, row)

    def emit(self, port: str | None = None, /, **values: Any) -> None:
        """Give a row on an output; on the first one unless named."""
        self._context.emit(port, values)

    def punctuate(self, port: str | None = None) -> None:
        """Give a punctuation on an output whose mode is generating."""
        self._context.punctuate(port)

    @property
    def now(self) -> int:
        """The time, in ticks of the streams."""
        return self._context.clock.tick

    @property
    def _context(self) -> UserMachine:
        found = self.__dict__.get(_CONTEXT)
        if found is None:
            raise QueryError(f"{type(self).__name__} does not run yet: windows and rows are there from start() on")
        return found


def user_machine(mechanism: str, operator: Operator, *ports: Any) -> UserMachine:
    columnar(operator.model.name, mechanism, False)
    return UserMachine(operator, *ports)


class UserMachine(Machine):
    """A running operator of a user."""

    def __init__(
        self,
        operator: Operator,
        rows: Mapping[str, pa.Schema],
        clauses: Mapping[str, Clause],
        keys: Mapping[str, tuple[str, ...]],
        schemas: Mapping[str, pa.Schema],
    ) -> None:
        self.clock = RowClock()
        self.schemas = tuple(schemas.values())
        self.windows: dict[str, TumblingWindow | SlidingWindow] = {}
        self._inputs = list(rows)
        self._clauses = dict(clauses)
        self._keys = dict(keys)
        self._outputs = {name: i for i, name in enumerate(schemas)}
        self._names = [tuple(schema.names) for schema in self.schemas]
        self._made: list[list[tuple[int, dict[str, Any]]]] = [[] for _ in self.schemas]
        self._marks: list[list[tuple[int, int]]] = [[] for _ in self.schemas]
        self._counts = {"rows_in": 0, "rows_out": 0}
        self.operator = copy.deepcopy(operator)
        self.operator.__dict__[_CONTEXT] = self
        for port in clauses:
            self.window(port)
        with calling(self, "start"):
            self.operator.start()

    def window(self, port: str) -> TumblingWindow | SlidingWindow:
        if port not in self.windows:
            if port not in self._clauses:
                raise QueryError(f"{self._name}: input {port!r} has no window")
            self.windows[port] = container(self._clauses[port], keyed=bool(self._keys[port]), clock=self.clock)
        return self.windows[port]

    def insert(self, port: str, row: dict[str, Any]) -> None:
        window = self.window(port)
        if self._keys[port]:
            window.insert(row, self.key(port, row))
        else:
            window.insert(row)

    def key(self, port: str, row: Mapping[str, Any]) -> Hashable:
        names = self._keys[port]
        if not names:
            return None
        return row[names[0]] if len(names) == 1 else tuple(row[name] for name in names)

    def emit(self, port: str | None, values: dict[str, Any]) -> None:
        number = self._output(port)
        names = self._names[number]
        if tuple(values) != names:
            unknown = [name for name in values if name not in names]
            if unknown:
                raise DataError(
                    f"{self._name}: emit({unknown[0]}=...) is not a column of its schema: {', '.join(names)}"
                )
            values = {name: values.get(name) for name in names}
        self._made[number].append((self.clock.tick, values))

    def punctuate(self, port: str | None) -> None:
        number = self._output(port)
        if self.operator.model.outputs[number].mode == "free":
            raise QueryError(f"{self._name}: output {list(self._outputs)[number]!r} is declared free of punctuations")
        self._marks[number].append((len(self._made[number]), self.clock.tick))

    def _output(self, port: str | None) -> int:
        if port is None:
            return 0
        if port not in self._outputs:
            raise QueryError(f"{self._name}: there is no output {port!r}; there are {', '.join(self._outputs)}")
        return self._outputs[port]

    @property
    def user_code(self) -> str:
        return f"operator {self._name!r}: {type(self.operator).__name__}"

    @property
    def _name(self) -> str:
        return self.operator.model.name

    def push(self, arrivals: Arrivals) -> tuple[PortOutput, ...]:
        coming = [iter(table.to_pylist()) for table in arrivals.tables]
        marks = np.zeros(len(arrivals), bool) if arrivals.marks is None else arrivals.marks
        on_row, on_punctuation = self.operator.on_row, self.operator.on_punctuation
        no_arguments: tuple[Any, ...] = ()
        for port, time, mark in zip(arrivals.ports.tolist(), arrivals.times.tolist(), marks.tolist()):
            method, given = "window", no_arguments
            try:
                self.clock.reach(time)
                name = self._inputs[port]
                if mark:
                    self._preserve(port)
                    method, given = "on_punctuation", (name,)
                    on_punctuation(name)
                else:
                    self._counts["rows_in"] += 1
                    method, given = "on_row", (name, next(coming[port]))
                    on_row(*given)
            except Exception as error:
                raise_named(error, self, method, given)
        return self._given()

    def _preserve(self, port: int) -> None:
        for output in self.operator.model.outputs:
            if output.preserves == self._inputs[port]:
                self.punctuate(output.name)

    def advance(self, time: int) -> tuple[PortOutput, ...]:
        with calling(self, "window"):
            self.clock.reach(time)
        return self._given()

    def finish(self) -> tuple[PortOutput, ...]:
        with calling(self, "on_finish"):
            self.operator.on_finish()
        return self._given()

    def _given(self) -> tuple[PortOutput, ...]:
        given = []
        for i, schema in enumerate(self.schemas):
            made, marks = self._made[i], self._marks[i]
            columns = [self._column([row[f.name] for _, row in made], f) for f in schema]
            table = pa.table(columns, schema=schema)
            given.append(given_rows(table, [t for t, _ in made], [n for n, _ in marks], [t for _, t in marks]))
            self._counts["rows_out"] += len(made)
            self._made[i], self._marks[i] = [], []
        return tuple(given)

    def _column(self, values: list[Any], field: pa.Field) -> pa.Array:
        try:
            return exact_array(values, field.type)
        except Inexact as error:
            what = f"column {field.name!r} must be {field.type}, and got {shown(error.value)}: {error.reason}"
            raise DataError(f"{self._name}: what was emitted does not fit its schema: {what}") from None

    def dump(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        facts: dict[str, Any] = {"now": self.clock.tick, "counts": self._counts, "pickled": True}
        tables = {f"window.{port}": in_cell("window", window.snapshot()) for port, window in self.windows.items()}
        try:
            kept = pickles.dumps(self._attributes())  # in one: attributes may share objects
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise QueryError(
                f"{self._name}: a snapshot holds the attributes of the operator, and one can't be pickled: {error}; "
                "windows and handlers must be attributes of their own, made in start()"
            ) from error
        tables["attributes"] = in_cell("values", kept)
        return facts, tables

    def _attributes(self) -> dict[str, Any]:
        every = self.operator.__dict__.items()
        return {n: v for n, v in every if n != _CONTEXT and not isinstance(v, Window)}

    def load(self, facts: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> None:
        self.clock.reach(whole(facts, "now", NO_TIME, MANY))
        self._counts = counts(facts, "counts", self._counts)
        found = pickles.loads(of_cell(tables, "attributes", "values"), f"{self._name}: the operator's attributes")
        demand(isinstance(found, dict) and _CONTEXT not in found, "an attribute is none of the operator's")
        self.operator.__dict__.update(found)
        for port, window in self.windows.items():
            load_window(window, tables, f"window.{port}", trusted=pickles.trusted())

    @property
    def metrics(self) -> dict[str, Any]:
        held = [window.metrics for window in self.windows.values()]
        return {
            **self._counts,
            "rows_held": sum(m["tuples"] for m in held),
            "keys": sum(m["partitions"] for m in held),
        }
