"""Built-in policies that begin in Python and are compiled when there are rows enough to pay for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import TYPE_CHECKING

import pyarrow as pa

from panes.policies.compiled import Compiled
from panes.policies.compiled_state import to_compiled, to_interpreted
from panes.policies.interpreted import Interpreted
from panes.windows.base import Array, Closed, KeyRuns, Running, Scanned

if TYPE_CHECKING:
    from panes.policies.policy import PolicyMachine


class Adaptive(Running):
    """One of two machines with the same state; which one changes no result."""

    #: rows that are looked at in Python at most, and keys or rows of a restored state that go back to it
    few = 5_000
    small = 500

    def __init__(self, machine: PolicyMachine, *, reduces: bool) -> None:
        self.machine, self.reduces = machine, reduces
        self.running: Interpreted | Compiled = Interpreted(machine, reduces=reduces)
        self.left = self.few

    def _compiled(self) -> Compiled:
        """The state in compiled form, whichever it has now."""
        if isinstance(self.running, Compiled):
            return self.running
        made = Compiled(self.machine, reduces=self.reduces)
        to_compiled(self.running, made)
        return made

    def take(self, rows: KeyRuns) -> Scanned:
        self.left -= len(rows)
        if self.left < 0:
            self.running = self._compiled()
        return self.running.take(rows)

    def advance(self, watermark: int) -> Closed:
        return self.running.advance(watermark)

    def finish(self) -> Closed:
        return self.running.finish()

    def needed(self, slots: int) -> Array:
        return self.running.needed(slots)

    def reached(self, slots: int) -> Array:
        return self.running.reached(slots)

    def select(self, slots: Array) -> Adaptive:
        part = copy(self)
        part.running = self.running.select(slots)
        return part

    def saved(self, slots: Array | None) -> Callable[[], None]:
        running, left, inner = self.running, self.left, self.running.saved(slots)

        def put_back() -> None:
            self.running, self.left = running, left
            inner()

        return put_back

    def put(self, slots: Array, part: Running) -> None:
        assert isinstance(part, Adaptive)
        if isinstance(self.running, Compiled) or isinstance(part.running, Compiled):
            self.running = self._compiled()
            self.running.put(slots, part._compiled())
        else:
            self.running.put(slots, part.running)

    def dump(self, slots: Array) -> dict[str, pa.Table]:
        return self._compiled().dump(slots)

    def load(self, tables: Mapping[str, pa.Table], slot_map: Array) -> None:
        self.running = self._compiled()
        self.running.load(tables, slot_map)
        if len(self.running.states) <= self.small and self.running.arena.size <= self.small:
            made = Interpreted(self.machine, reduces=self.reduces)
            to_interpreted(self.running, made)
            self.running = made

    @property
    def nbytes(self) -> int:
        return self.running.nbytes

    @property
    def plan(self) -> str:
        return self.running.plan

    @property
    def ends_in_rows(self) -> bool:
        return self.running.ends_in_rows
