"""Rows pushed one by one wait here until something may be due, and are then worked on together.

That is invisible: lateness is decided row by row anyway, and a row after which a result may be due is never
held back. What is malformed is refused at once, by a trial read of each new combination of value types.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from panes.slicing.spec import MANUAL, OperatorSpec
from panes.windows.base import ALWAYS

#: Rows held at most: enough to make the cost per row small, few enough to hold in memory.
LIMIT = 8192


class RowBuffer:
    """Single rows, not yet worked on."""

    def __init__(self, spec: OperatorSpec, next_due: Callable[[], tuple[int, int]]) -> None:
        self._spec = spec
        self._next_due = next_due
        self._rows: list[dict[str, Any]] = []
        self._shapes: set[tuple[Any, ...]] = set()
        self._highest = ALWAYS
        #: nothing is due before the watermark reaches the first, or so many rows have come; None: ask
        self._due: tuple[int, int] | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def forget_due(self) -> None:
        """The watermark moved or windows changed: ask anew what is due next, when that is needed."""
        self._due = None

    def takes(self, batch: dict[str, Any]) -> bool:
        """Whether a dict is one row, and not columns."""
        value = batch.get(self._spec.time)
        return isinstance(value, int | datetime | str) or value is None

    def add(self, row: dict[str, Any], watermark: int) -> bool:
        """Hold a row; True if the rows held must be worked on now."""
        shape = (*row, *map(type, row.values()))
        if shape not in self._shapes:
            self._spec.read([row])
            self._shapes.add(shape)
        self._rows.append(row)
        time = row.get(self._spec.time)
        if time is None:
            return False
        if type(time) is not int:
            time = self._spec.domain.point(time, argument=self._spec.time)
        if len(self._rows) >= LIMIT:
            return True
        if self._due is None:
            self._due = self._next_due()
        due, rows_until_due = self._due
        if len(self._rows) >= rows_until_due:
            return True
        if self._spec.watermark == MANUAL:
            # behind the watermark: it may complete a window that counts rows, or correct one
            return time <= watermark and (due == ALWAYS or self._spec.lateness is not None)
        bound = self._spec.bound
        reached = max(watermark, self._highest - bound)
        if time > self._highest:
            self._highest = time
        return time - bound >= due or (self._spec.lateness is not None and time < reached)

    def drain(self) -> list[dict[str, Any]]:
        """All rows held, which are held no longer."""
        rows, self._rows = self._rows, []
        return rows
