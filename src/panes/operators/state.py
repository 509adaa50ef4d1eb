"""The state of operators that keep row numbers in windows of the library: clock, rows, and windows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from panes.operators.arrivals import NO_TIME
from panes.operators.row_store import RowStore
from panes.operators.windows import keys_of
from panes.policies.library import SlidingWindow, TumblingWindow
from panes.state.checked import MANY, demand, fact, one_row, read_table, value, whole

if TYPE_CHECKING:
    from panes.operators.machine import NumberMachine


def dump_window(window: TumblingWindow | SlidingWindow) -> pa.Table:
    """The state of a window as a table of one cell."""
    return pa.table({"window": pa.array([window.snapshot()], pa.binary())})


def load_window(
    window: TumblingWindow | SlidingWindow, tables: Mapping[str, pa.Table], name: str, *, trusted: bool = False
) -> None:
    """Go on from there; for a window that has seen nothing, whose clock is at the time of the state.

    `trusted`: it holds what users' own code has put there, and that may be read.
    """
    window.restore(one_row(read_table(tables, name, {"window": pa.binary()}), name)["window"], trusted=trusted)


def check_rows(window: TumblingWindow | SlidingWindow, store: RowStore, keys: tuple[str, ...]) -> None:
    """Refuse a window that holds numbers of rows that are not there, or of another key, or twice."""
    found = list(window.subwindows())
    every = [number for _, content in found for number in content]
    demand(all(type(number) is int for number in every), "a window holds what is no number of a row")
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


def dump_ports(machine: NumberMachine) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """The state of a machine: its clock, and rows and window of each port."""
    facts: dict[str, Any] = {"mechanism": "windows", "now": machine.clock.tick}
    facts |= {"rows_in": machine._rows_in, "rows_out": machine._rows_out}
    tables = {}
    for i, port in enumerate(machine.ports):
        port.store.keep(machine.held(i))
        tables[f"rows.{i}"] = port.store.dump()
        facts[f"arrived.{i}"] = port.store.arrived
        if port.window is not None:
            tables[f"window.{i}"] = dump_window(port.window)
    return facts, tables


def load_ports(
    machine: NumberMachine, facts: Mapping[str, Any], tables: Mapping[str, pa.Table], *, counts_only: bool = False
) -> None:
    """`counts_only`: windows say how many rows are held of each key, and not which they are."""
    machine.clock.reach(whole(facts, "now", NO_TIME, MANY))
    machine._rows_in = whole(facts, "rows_in", 0, MANY)
    machine._rows_out = [value(n, "rows_out", int, low=0, high=MANY) for n in fact(facts, "rows_out", list)]
    demand(len(machine._rows_out) == len(machine.schemas), "there are more outputs than ports, or fewer")
    for i, port in enumerate(machine.ports):
        port.store.load(read_table(tables, f"rows.{i}"), whole(facts, f"arrived.{i}", 0, MANY))
        if port.window is not None:
            load_window(port.window, tables, f"window.{i}")
            (check_counts if counts_only else check_rows)(port.window, port.store, port.keys)
