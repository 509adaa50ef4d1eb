"""The state of operators that keep row numbers in windows of the library: clock, rows, and windows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panes.policies.library import SlidingWindow, TumblingWindow

if TYPE_CHECKING:
    from panes.operators.machine import NumberMachine


def dump_window(window: TumblingWindow | SlidingWindow) -> pa.Table:
    """The state of a window as a table of one cell."""
    return pa.table({"window": pa.array([window.snapshot()], pa.binary())})


def load_window(window: TumblingWindow | SlidingWindow, table: pa.Table) -> None:
    """Go on from there; for a window that has seen nothing, whose clock is at the time of the state."""
    window.restore(table["window"][0].as_py())


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


def load_ports(machine: NumberMachine, facts: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> None:
    machine.clock.reach(facts["now"])
    machine._rows_in, machine._rows_out = facts["rows_in"], list(facts["rows_out"])
    for i, port in enumerate(machine.ports):
        port.store.load(tables[f"rows.{i}"], facts[f"arrived.{i}"])
        if port.window is not None:
            load_window(port.window, tables[f"window.{i}"])
