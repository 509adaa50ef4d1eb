"""The attribute that a delta policy reads, as a number. A bad one stops the window and names tuple and policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any

from panes.errors import DataError
from panes.policies.library.specs import Delta
from panes.units import is_number, nanos_since_epoch


def reader(policy: Delta) -> Callable[[Any, Any], Any]:
    """A function of (tuple, value of the tuple before it in the subwindow or None) to the value to compare."""
    extract = policy.attribute if callable(policy.attribute) else _named(policy)

    def read(row: Any, before: Any) -> Any:
        value = _number(extract(row), row, policy)
        if before is not None and value < before:
            raise DataError(
                f"{policy!r}: the attribute fell from {before} to {value} at {row!r}; a delta policy needs an "
                "attribute that never decreases"
            )
        return value

    return read


def _named(policy: Delta) -> Callable[[Any], Any]:
    name = str(policy.attribute)

    def extract(row: Any) -> Any:
        try:
            return row[name] if isinstance(row, Mapping) else getattr(row, name)
        except (KeyError, AttributeError):
            raise DataError(f"{policy!r}: the tuple {row!r} has no attribute {name!r}") from None

    return extract


def _number(value: Any, row: Any, policy: Delta) -> Any:
    if is_number(value) and value == value:
        return value
    if isinstance(value, (datetime, date)):
        return nanos_since_epoch(value) // 1000
    raise DataError(f"{policy!r}: {value!r} at {row!r} is no number and no point in time, it has no difference")
