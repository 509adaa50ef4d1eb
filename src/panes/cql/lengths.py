"""Lengths of time: as CQL spells them, as the Python API takes them, and compared with each other."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pyarrow as pa

from panes import units
from panes.cql.tree import Quantity
from panes.errors import QueryError

#: One spelling per unit, which the printer uses and which `panes.units.parse_duration` reads.
UNITS = ("ns", "us", "ms", "sec", "min", "hour", "day", "week", "month", "year")
_OURS = {"s": "sec", "h": "hour"}


def unit_of(word: str) -> str | None:
    """The unit that a word means: "seconds" -> "sec"; None if it is no unit.

    >>> unit_of("Hours"), unit_of("every")
    ('hour', None)
    """
    unit = units.unit_of(word)
    return None if unit is None else _OURS.get(unit, unit)


def number_of(text: str) -> int | float | None:
    """The number that a text is, if it is one and of a size that means anything."""
    if len(text) > 40:
        return None
    try:
        value = int(text) if text.isdecimal() else float(text)
    except ValueError:
        return None
    return value if abs(value) < 2**63 else None


def length_of(text: str) -> Quantity | None:
    """A length in quotes, as Spark writes it: "10 minutes", "1 h 30 min"; None if it is none.

    >>> length_of("1 h 30 min")
    Quantity(number=90, unit='min')
    """
    number, _, word = text.strip().partition(" ")
    value, unit = number_of(number), unit_of(word.strip())
    if value is not None and unit is not None:
        return Quantity(value, unit)
    if len(text) > 100 or not units.looks_like_duration(text):
        return None
    try:
        parsed = units.parse_duration(text)
    except QueryError:
        return None
    number, _, word = str(parsed).partition(" ")
    unit = unit_of(word)
    return Quantity(int(number), unit) if unit else None


def length_of_ticks(ticks: int, domain: units.TimeDomain) -> Quantity:
    """So many ticks of a stream's time."""
    if domain.integer:
        return Quantity(ticks, "ms" if domain.unit == "ms" else None)
    return Quantity(ticks, _OURS.get(domain.unit, domain.unit))


def length_of_micros(micros: int) -> Quantity:
    """A span of the clock, in the largest unit that it is a whole number of."""
    size, unit = next((size, unit) for size, unit in ((1_000_000, "sec"), (1000, "ms"), (1, "us")) if not micros % size)
    return Quantity(micros // size, unit)


def in_units_of(length: Quantity, kind: pa.DataType) -> Quantity:
    """A length on a column of a type: a bare number on a Datetime is in seconds (SPEC Q-01, Q-15)."""
    bare = length.unit is None and pa.types.is_timestamp(kind)
    return replace(length, unit="sec") if bare else length


def duration(length: Quantity) -> int | float | str:
    """A length as the Python API takes it: a number in units of a column, or text with a unit."""
    number = length.number
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    return number if length.unit is None else f"{number} {length.unit}"


def seconds_of(length: Quantity) -> float:
    """How long it is, to compare it with others: in seconds, or in months, or as a bare number."""
    if length.unit is None:
        return float(length.number)
    found = units.parse_duration(str(duration(length)))
    return found.nanos / 1e9 if isinstance(found, units.Duration) else float(found.count)


def is_multiple(size: Quantity, every: Quantity) -> bool:
    """Whether a size is a whole number of slides."""
    if size.unit is None or every.unit is None:
        # a bare number is in units of the attribute, which are seconds if it is a Datetime
        return size.unit == every.unit and _exact(size.number) % _exact(every.number) == 0
    months = [{"month": 1, "year": 12}.get(d.unit or "", 0) * _exact(d.number) for d in (size, every)]
    if all(months):
        return months[0] % months[1] == 0
    if any(months):
        return False
    lengths = [units.parse_duration(f"{d.number} {d.unit}") for d in (size, every)]
    nanos = [length.nanos for length in lengths if isinstance(length, units.Duration)]
    return len(nanos) == 2 and bool(nanos[1]) and nanos[0] % nanos[1] == 0


def _exact(number: int | float) -> Fraction:
    return Fraction(str(number))
