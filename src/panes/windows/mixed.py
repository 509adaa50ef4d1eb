"""Windows whose size and slide lie on different measures: "last 10 rows every 5 s", "last 5 s every 10 rows".

Size and slide may each be event time, rows, or an advancing column. Steps of the slide are ticks; at each tick
the window holds the last `size` of the rows before it (`LookBack`). What the same looks like on one measure,
"windows end at multiples of the slide", is here too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from panes.errors import QueryError
from panes.units import Rows, TimeDomain, is_number
from panes.windows.base import ROWS, SINCE, TIME, Bound, ContextFree, LookBack, Measure
from panes.windows.spec import columns_of


@dataclass(frozen=True)
class Length:
    """A size and the column it is measured on (None: event time, or rows)."""

    value: Any
    on: str | None

    def measure(self) -> Measure:
        if isinstance(self.value, Rows):
            return ROWS
        return TIME if self.on is None else Measure("column", self.on)


def lengths(size: Any, every: Any, on: str | None, every_on: str | None) -> tuple[Length, Length]:
    """Which measure size and slide are on.

    `on` is the column of the size, and of the slide unless that is in rows or a duration or has `every_on`;
    with a size in rows it is the column of the slide.
    """
    if isinstance(size, Rows) and not isinstance(every, Rows):
        if on is not None and every_on is not None:
            raise QueryError(
                f"on={on!r} and every_on={every_on!r} with size={size!r}: rows need no column; leave out on"
            )
        return Length(size, None), Length(every, on if every_on is None else every_on)
    if every_on is not None:
        if not is_number(every):
            raise QueryError(f"every={every!r} with every_on={every_on!r} must be a number: it is no event time")
        return Length(size, on), Length(every, every_on)
    if isinstance(size, Rows) or isinstance(every, Rows):
        if isinstance(size, Rows) and on is not None:
            raise QueryError(
                f"on={on!r} with size={size!r}, every={every!r}: rows are counted per key, they need no column"
            )
        return Length(size, on), Length(every, None)
    return Length(size, on), Length(every, on if is_number(every) else None)


def bind_back(domain: TimeDomain, length: Length, ticks: Bound, *, at_end: bool, unchanged: bool = False) -> LookBack:
    """The last `length` at each tick."""
    if not isinstance(ticks, ContextFree):
        raise QueryError(f"every: {ticks!r} has no regular steps")
    if ticks.measure == SINCE:
        raise QueryError('offset="first row" is for windows whose size is on event time as well')
    if at_end and ticks.measure != ROWS:
        raise QueryError(f"partial=True is for slides in rows: on {ticks.measure} every window has an end")
    measure, size = length.measure(), length.value
    if measure == ROWS:
        size = size.count
    elif measure == TIME:
        size = domain.ticks(size, argument="size")
    elif not is_number(size):
        raise QueryError(f"size={size!r} on the column {length.on!r} must be a number: it is no event time")
    columns = tuple(dict.fromkeys((*columns_of(ticks.measure), *columns_of(measure))))
    return LookBack(
        ticks.measure, back=measure, size=size, ticks=ticks, at_end=at_end, unchanged=unchanged, columns=columns
    )
