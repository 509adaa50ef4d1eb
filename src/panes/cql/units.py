"""Units of time as CQL writes them: every spelling that `panes.units` knows, in one."""

from __future__ import annotations

from panes import units
from panes.cql.tree import Duration
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


def length_of(text: str) -> Duration | None:
    """A length in quotes, as Spark writes it: "10 minutes", "1 h 30 min"; None if it is none.

    >>> length_of("1 h 30 min")
    Duration(number=90, unit='min')
    """
    number, _, word = text.strip().partition(" ")
    value, unit = number_of(number), unit_of(word.strip())
    if value is not None and unit is not None:
        return Duration(value, unit)
    if len(text) > 100 or not units.looks_like_duration(text):
        return None
    try:
        parsed = units.parse_duration(text)
    except QueryError:
        return None
    number, _, word = str(parsed).partition(" ")
    unit = unit_of(word)
    return Duration(int(number), unit) if unit else None
