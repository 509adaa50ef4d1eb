"""How many windows without rows (`emit_empty`), or without new ones (`unchanged`), may be given at once."""

from __future__ import annotations

from typing import Any

from panes.errors import DataError

#: More results than this at once are an accident: a watermark far ahead of the rows.
MOST = 50_000_000


def check_empty(count: float, low: int, upto: int) -> None:
    """DataError if about `count` windows between `low` and `upto` are too many."""
    if count > MOST:
        raise DataError(
            f"emit_empty=True would give more than {MOST} windows between {low} and {upto}: the watermark is "
            "too far ahead of the rows; use longer windows, or emit_empty=False"
        )


def check_unchanged(count: float, low: Any, upto: Any) -> None:
    """DataError if about `count` windows of ticks between `low` and `upto` are too many."""
    if count > MOST:
        raise DataError(
            f"unchanged=True would give more than {MOST} windows between {low} and {upto}: there are no rows for too "
            "long; use a longer slide, or unchanged=False (in CQL: ON CHANGE)"
        )
