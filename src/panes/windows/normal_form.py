"""The normal form: every window, whatever word it was written with, as the cheapest kind that is equal to it.

`FORMS` is the table. A line says which bound windows it is about, and what they become; it must give None wherever the
two could differ in any result, bound, order or count of late rows, which the fuzz of forms tries to refute
(tests/fuzz/forms.py). A room below adds the lines of its own kinds. Plans, identities and snapshots keep the window as
it was written; only who computes windows asks for this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from panes.windows.base import ROWS, Bound, KeyBorders, LookBack
from panes.windows.periodic import Periodic


@dataclass(frozen=True)
class Form:
    """One line of the table: windows of one kind, and what those that meet the conditions become."""

    name: str
    kind: type[Bound]
    becomes: Callable[[Any], Bound | None]


def normal_form(window: Bound) -> Bound:
    """The cheapest kind that is equal to a window; the window itself if the table knows none."""
    for form in FORMS:
        if isinstance(window, form.kind):
            found = form.becomes(window)
            if found is not None:
                return replace(found, changes_only=window.changes_only, label=window.label)
    return window


def _rows_at_rows(window: LookBack) -> KeyBorders | None:
    """The last n rows at every m-th row: both edges are known in advance, and no row need be kept for them."""
    ticks = window.ticks
    if not (window.measure == window.back == ROWS and isinstance(ticks, Periodic)):
        return None
    return KeyBorders(
        ROWS,
        by_time=False,
        first=int(ticks.offset % ticks.slide + ticks.slide),
        slide=int(ticks.slide),
        size=int(window.size),
        passed=False,
        at_end="after a border" if window.at_end and ticks.slide > 1 else "never",
        afresh=False,
    )


FORMS: list[Form] = [Form("the last n rows at every m-th row", LookBack, _rows_at_rows)]
