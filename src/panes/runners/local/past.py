"""How a running operator goes back to before a call that failed: from a state it wrote, by doing again what came since.

Machines of operators change in too many places, and run too much code of users, for each change to be taken back. They
are deterministic, though. The calls since the last dump are kept with the rows they brought, and once these are several
times as many as the rows that are held, the state is written anew; so that costs next to nothing per row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from panes.errors import OperatorClosed
from panes.operators.machine import Machine

#: Rows that calls may have brought before the state is written anew, beside as many times as many as are held.
_ROWS = 1 << 15
_TIMES = 4


class Past:
    """What it takes to have a machine again as it was after the last call that succeeded."""

    def __init__(self, start: Callable[[], Machine], state: Callable[[Machine], None] | None = None) -> None:
        """`state`: what puts into a machine what it began with; None: nothing."""
        self._start = start
        self._state = state
        self._calls: list[tuple[str, tuple[Any, ...]]] = []
        self._rows = 0
        self._lost: Exception | None = None

    def note(self, machine: Machine, call: str, arguments: tuple[Any, ...], rows: int) -> None:
        """A call has succeeded, which brought so many rows."""
        if self._lost is not None:
            return
        self._calls.append((call, arguments))
        self._rows += rows + 1
        if self._rows > _ROWS and self._rows > _ROWS + _TIMES * machine.metrics["rows_held"]:
            try:
                self._state = machine.saved()
            except Exception as error:  # of users' own objects, which may not be pickled for any reason
                self._lost = error
            self._calls, self._rows = [], 0

    def demand(self) -> None:
        """Refuses if nobody can have the machine again."""
        if self._lost is not None:
            raise OperatorClosed(
                "a call has failed, and the operator can't go back to before it, since its state can't be written: "
                f"{type(self._lost).__name__}: {self._lost}"
            )

    def again(self) -> Machine:
        """The machine as it was."""
        self.demand()
        machine = self._start()
        if self._state is not None:
            self._state(machine)
        for call, arguments in self._calls:
            getattr(machine, call)(*arguments)
        return machine
