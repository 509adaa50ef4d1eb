"""What all window specs share: arguments checked as they are written, and printed back as code.

An argument of one name is checked in one way, whatever window it is of: `CHECKS`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import date, timedelta
from typing import Any, ClassVar

import numpy as np

from panes.errors import QueryError
from panes.units import (
    Duration,
    Point,
    Rows,
    Size,
    TimeDomain,
    check_size,
    is_number,
    nanos_since_epoch,
    parse_duration,
    zone,
)
from panes.windows.base import ROWS, TIME, Measure, Window


def call(name: str, *args: object, **options: object) -> str:
    """The call that makes a spec, as code; options that are None are left out."""
    shown = [_literal(a) for a in args]
    shown += [f"{key}={_literal(value)}" for key, value in options.items() if value is not None]
    return f"{name}({', '.join(shown)})"


def _literal(value: object) -> str:
    if callable(value) and hasattr(value, "__qualname__"):
        return str(value.__qualname__)  # the same in every process, as an address is not
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def size_argument(value: Size, argument: str, *, positive: bool = True) -> Size:
    """Check a size as far as it can be without a stream: a duration (kept as text), number or `Rows`."""
    if isinstance(value, Rows):
        return value
    if is_number(value):
        if not math.isfinite(value):
            raise QueryError(f"{argument}={value!r} must be finite: a window needs an end")
        value = int(value) if value == int(value) else float(value)
        return check_size(value, argument, value, positive=positive)
    if isinstance(value, timedelta):
        value = str(parse_duration(value, argument=argument))
    if isinstance(value, Duration):
        value = str(value)
    if not isinstance(value, str):
        raise QueryError(
            f'{argument}={value!r} is not a size: use a duration like "10 s", pn.rows(n), or a number with on='
        )
    parsed = parse_duration(value, argument=argument)
    count = parsed.nanos if isinstance(parsed, Duration) else parsed.count
    if positive and count <= 0:
        check_size(count, argument, value)
    return value


def measured(domain: TimeDomain, on: str | None, **sizes: Size | None) -> tuple[Measure, tuple[float, ...]]:
    """The measure that all `sizes` are on, and their numbers there, 0 for None."""
    given = {argument: size for argument, size in sizes.items() if size is not None}
    in_rows = [isinstance(size, Rows) for size in given.values()]
    shown = ", ".join(f"{argument}={size!r}" for argument, size in given.items())
    if any(in_rows):
        if not all(in_rows):
            raise QueryError(f"{shown}: give all of them in rows or none, windows have one measure")
        if on is not None:
            raise QueryError(f"on={on!r} with {shown}: rows are counted per key, they need no column")
        return ROWS, tuple(size.count if isinstance(size, Rows) else 0 for size in sizes.values())
    if on is not None:
        for argument, size in given.items():
            if not is_number(size):
                raise QueryError(f"{argument}={size!r} on the column {on!r} must be a number: it is not an event time")
        return Measure("column", on), tuple(size if is_number(size) else 0 for size in sizes.values())
    ticks = {argument: domain.ticks(size, argument=argument, positive=False) for argument, size in given.items()}
    return TIME, tuple(ticks.get(argument, 0) for argument in sizes)


def place(domain: TimeDomain, measure: Measure, value: Point, argument: str) -> float:
    """A fixed point on a measure: a time, a position of the key, or a value of the column."""
    if measure == TIME:
        return domain.point(value, argument=argument)
    if not is_number(value) or not math.isfinite(value):
        raise QueryError(f"{argument}={value!r} must be a number: it is a point on {measure}")
    if measure == ROWS and (value != int(value) or value < 0):
        raise QueryError(f"{argument}={value!r} must be a position: 0 is the first row of a key")
    return int(value) if value == int(value) else float(value)


def point_argument(value: Point, argument: str) -> Point:
    """Check a point in time, or on a measure, as far as it can be without a stream; dates become ISO text."""
    if isinstance(value, date):
        value = value.isoformat()
    elif isinstance(value, np.datetime64):
        value = str(value)
    if isinstance(value, str):
        nanos_since_epoch(value, argument=argument)
    elif not is_number(value) or not math.isfinite(value):
        raise QueryError(f"{argument}={value!r} is not a point: use a datetime, an ISO date or a number")
    return value


def columns_of(measure: Measure) -> tuple[str, ...]:
    return () if measure.column is None else (measure.column,)


def expression(value: object, argument: str) -> str:
    """Check that an argument is SQL text; what it says is resolved when the query is built."""
    if not isinstance(value, str) or not value.strip():
        raise QueryError(f"{argument}={value!r} must be a column or SQL expression, as text")
    return value


def count_argument(value: object, argument: str) -> int:
    """Check a whole, positive number."""
    if not is_number(value) or value != int(value) or value <= 0:
        raise QueryError(f"{argument}={value!r} must be a positive whole number")
    return int(value)


def _flag(value: object, argument: str) -> object:
    if not isinstance(value, bool):
        raise QueryError(f"{argument}={value!r} must be True or False")
    return value


def _zone_name(value: str, argument: str) -> str:
    zone(value, argument=argument)
    return value


def shift(value: Size, argument: str) -> Size:
    return size_argument(value, argument, positive=False)


#: How arguments are checked, by their names: what is kept of them is returned.
CHECKS: Mapping[str, Callable[[Any, str], object]] = {
    **dict.fromkeys(("size", "every", "step", "max"), size_argument),
    **dict.fromkeys(("start", "end"), point_argument),
    **dict.fromkeys(("on", "every_on", "predicate"), expression),
    **dict.fromkeys(("partial", "unchanged"), _flag),
    "offset": shift,
    "min_rows": count_argument,
    "tz": _zone_name,
}


@dataclass(frozen=True, repr=False)
class WrittenWindow(Window):
    """A window that is a call with arguments; it prints as this call."""

    #: so many arguments come first, without their names
    bare: ClassVar[int] = 1
    checks: ClassVar[Mapping[str, Callable[[Any, str], object]]] = CHECKS

    def __post_init__(self) -> None:
        for argument in fields(self):
            value = getattr(self, argument.name)
            if argument.name in self.checks and (value is not None or argument.default is MISSING):
                object.__setattr__(self, argument.name, self.checks[argument.name](value, argument.name))

    def __repr__(self) -> str:
        given = [(f.name, getattr(self, f.name), f.default) for f in fields(self)]
        options = {name: value for name, value, default in given[self.bare :] if value != default}
        name = re.sub(r"\B[A-Z]", r"_\g<0>", type(self).__name__).lower()
        return call(name, *(value for _, value, _ in given[: self.bare]), **options)
