"""Rows pushed one by one wait here until something may be due, and are then worked on together.

That is invisible: lateness is decided row by row anyway, and a row after which a result may be due is never
held back. What is malformed is refused at once: each new combination of value types is read on trial, and so is
each row whose values may not fit though their types do.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pyarrow as pa

from panes.exact import quick_check
from panes.slicing.spec import MANUAL, OperatorSpec
from panes.state.journal import Journal, Replaced
from panes.windows.base import ALWAYS

#: Rows held at most: enough to make the cost per row small, few enough to hold in memory.
LIMIT = 8192
_TIMES = (int, datetime, str, type(None))
LOWEST, HIGHEST = -(2**63), 2**63 - 1
#: the columns of whole numbers of 64 bits, whose range is checked on the spot, and quick checks of other columns
Checks = tuple[tuple[str, ...], tuple[tuple[str, Callable[[Any], bool]], ...]]


class RowBuffer:
    """Single rows, not yet worked on."""

    replaced = Replaced("rows", "_highest", "_due")

    def __init__(self, spec: OperatorSpec, next_due: Callable[[], tuple[int, int, bool]], journal: Journal) -> None:
        self._spec = spec
        self._time, self._bound = spec.time, spec.bound
        self._manual = spec.watermark == MANUAL
        self._journal = journal
        self._next_due = next_due
        self.rows: list[dict[str, Any]] = []
        #: names and types of a row's values that were read on trial -> what to check of the next such row
        self._shapes: dict[tuple[Any, ...], Checks] = {}
        self._highest = ALWAYS
        #: nothing is due before the watermark reaches the first, or so many rows have come, or (the last) a row comes
        #: behind the watermark; None: ask
        self._due: tuple[int, int, bool] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def forget_due(self) -> None:
        """The watermark moved or windows changed: ask anew what is due next, when that is needed."""
        self._due = None

    def takes(self, batch: dict[str, Any]) -> bool:
        """Whether a dict is one row, and not columns."""
        return isinstance(batch.get(self._time), _TIMES)

    def add(self, row: dict[str, Any], watermark: int) -> bool:
        """Hold a row; True if the rows held must be worked on now."""
        shape = (*row, *map(type, row.values()))
        checks = self._shapes.get(shape)
        if checks is None:
            self._spec.read([row])
            checks = self._shapes[shape] = self._checks(row)
        long, others = checks
        for name in long:
            if not LOWEST <= row[name] <= HIGHEST:
                self._spec.read([row])
        for name, fits in others:
            if not fits(row[name]):
                self._spec.read([row])
        time = row.get(self._time)
        if time is not None and type(time) is not int:
            time = self._spec.domain.point(time, argument=self._time)
        rows = self.rows
        rows.append(row.copy())  # whoever pushes may fill the same dict again
        if time is None:
            return False
        if self._due is None:
            self._due = self._next_due()
        due, rows_until_due, behind = self._due
        if len(rows) >= rows_until_due or len(rows) >= LIMIT:
            return True
        if self._manual:
            # behind the watermark: it may complete a window that counts rows, or correct one
            return time <= watermark and (due == ALWAYS or behind)
        highest = self._highest
        if time > highest:
            self._highest = time
        return time - self._bound >= due or (behind and time < max(watermark, highest - self._bound))

    def _checks(self, row: dict[str, Any]) -> Checks:
        long, others = [], []
        for field in self._spec.schema:
            if field.name in row:
                given = type(row[field.name])
                check = quick_check(given, field.type)
                if given is int and pa.types.is_int64(field.type):
                    long.append(field.name)
                elif check is not None:
                    others.append((field.name, check))
        return tuple(long), tuple(others)

    def take_back(self, count: int) -> None:
        """Only the first `count` rows were ever added."""
        del self.rows[count:]
        self._highest, self._due = ALWAYS, None
        for row in self.rows:
            time = row.get(self._time)
            if time is not None:
                self._highest = max(self._highest, self._spec.domain.point(time, argument=self._time))

    def drain(self) -> list[dict[str, Any]]:
        """All rows held, which are held no longer."""
        self._journal.keep_attributes(self)
        rows, self.rows = self.rows, []
        return rows
