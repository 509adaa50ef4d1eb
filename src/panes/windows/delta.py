"""Delta windows: a row joins while it differs from the window's first value by no more than a threshold."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from panes.errors import QueryError, calling
from panes.units import TimeDomain, is_number
from panes.windows.base import DATA, Array, KeyRuns, Scanned, StateDefaults
from panes.windows.scanning import (
    OPEN_STATE,
    OneOpen,
    numbers,
    pair_up,
    stops_of_begins,
)
from panes.windows.spec import WrittenWindow

#: Below this many rows a plain loop is faster than the first call of a compiled one.
_FEW = 500

Distance = Callable[[Any, Any], float]


@dataclass(frozen=True)
class DeltaScan(OneOpen):
    """The window's first value that is not null is what the others are compared with; a null joins."""

    threshold: float = field(kw_only=True)
    column: str = field(kw_only=True)
    function: Distance | None = field(default=None, kw_only=True)

    @property
    def state(self) -> StateDefaults:
        if self.function is None:
            return {**OPEN_STATE, "has_ref": np.bool_(False), "ref": np.float64(0)}
        return {**OPEN_STATE, "ref": None}

    def scan(self, rows: KeyRuns, state: dict[str, Array]) -> Scanned:
        values = rows.columns[self.column]
        if self.function is not None:
            begin = self._begins_by_function(self.function, values, rows, state)
        else:
            begin = self._begins(numbers(values), rows, state)
        return pair_up(rows, begin, stops_of_begins(rows, begin, state["open"]), state)

    def _begins(self, values: Array, rows: KeyRuns, state: dict[str, Array]) -> Array:
        if len(values) >= _FEW:
            from panes.windows.kernels import delta_begins

            return delta_begins(
                values, rows.offsets, state["open"], state["has_ref"], state["ref"], float(self.threshold)
            )
        begin = np.zeros(len(values), bool)
        plain = values.tolist()
        for g in range(len(rows.slots)):
            opened, known, ref = state["open"][g], state["has_ref"][g], float(state["ref"][g])
            for i in range(rows.offsets[g], rows.offsets[g + 1]):
                value = plain[i]
                if not opened or (known and abs(value - ref) > self.threshold):
                    begin[i] = True
                    opened, known = True, False
                if not known and value == value:
                    known, ref = True, value
            state["has_ref"][g], state["ref"][g] = known, ref
        return begin

    @property
    def user_code(self) -> str:
        return f"{self.where}: delta" if self.where else "delta"

    def _begins_by_function(self, function: Distance, values: Array, rows: KeyRuns, state: dict[str, Array]) -> Array:
        begin = np.zeros(len(values), bool)
        plain = values.tolist()
        with calling(self, "function") as call:
            for g in range(len(rows.slots)):
                opened, ref = state["open"][g], state["ref"][g]
                for i in range(rows.offsets[g], rows.offsets[g + 1]):
                    value = None if plain[i] is None or plain[i] != plain[i] else plain[i]
                    call.arguments = (ref, value)
                    if not opened or (ref is not None and value is not None and function(ref, value) > self.threshold):
                        begin[i] = True
                        opened, ref = True, None
                    ref = value if ref is None else ref
                state["ref"][g] = ref
        return begin


@dataclass(frozen=True, repr=False)
class Delta(WrittenWindow):
    """Windows of little change: see `delta`."""

    threshold: float
    on: str
    function: Distance | None = None

    def __post_init__(self) -> None:
        if not is_number(self.threshold) or not math.isfinite(self.threshold) or self.threshold < 0:
            raise QueryError(f"threshold={self.threshold!r} must be a number, 0 or more: it bounds a difference")
        super().__post_init__()
        if self.function is not None and not callable(self.function):
            raise QueryError(f"function={self.function!r} must be callable, as f(reference, value) -> number")

    def bind(self, domain: TimeDomain) -> DeltaScan:
        return DeltaScan(DATA, threshold=self.threshold, column=self.on, function=self.function, columns=(self.on,))


def delta(threshold: float, *, on: str, function: Distance | None = None) -> Delta:
    """Windows whose values of `on` stay within `threshold` of the first; a row further away starts the next.

    `function(reference, value)` measures the difference; the absolute difference unless given.

    >>> delta(10, on="temperature")
    delta(10, on="temperature")
    """
    return Delta(threshold, on, function)
