"""Threshold windows: maximal runs of rows for which a predicate is true."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from panes.units import TimeDomain
from panes.windows.base import DATA, Array, Closed, Discretizer, KeyRuns, Scanned, Window
from panes.windows.scanning import OPEN_STATE, before, finish_open, open_positions, pair_up, truth
from panes.windows.spec import call, count_argument, expression


@dataclass(frozen=True)
class ThresholdScan(Discretizer):
    """A window opens at the first row that matches and ends before the first that doesn't."""

    predicate: str = field(kw_only=True)
    min_rows: int = field(default=1, kw_only=True)

    @property
    def state(self) -> Mapping[str, Any]:  # type: ignore[override]
        return OPEN_STATE

    def scan(self, rows: KeyRuns, state: dict[str, Array]) -> Scanned:
        matches = truth(rows.columns[self.predicate])
        running = before(rows, matches, state["open"])
        scanned = pair_up(rows, matches & ~running, running & ~matches, state)
        return replace(scanned, closed=self._long_enough(scanned.closed))

    def _long_enough(self, closed: Closed) -> Closed:
        keep = closed.stop_pos - closed.start_pos >= self.min_rows
        if keep.all():
            return closed
        return Closed(
            closed.slots[keep],
            closed.start_pos[keep],
            closed.stop_pos[keep],
            closed.start[keep],
            closed.end[keep],
        )

    def finish(self, slots: Array, state: dict[str, Array], rows_seen: Array) -> Closed:
        return self._long_enough(finish_open(slots, state, rows_seen))

    def open_from(self, state: dict[str, Array]) -> Array:
        return open_positions(state)


@dataclass(frozen=True, repr=False)
class Threshold(Window):
    """Runs of rows that match: see `threshold`."""

    predicate: str
    min_rows: int = 1

    def __post_init__(self) -> None:
        expression(self.predicate, "predicate")
        object.__setattr__(self, "min_rows", count_argument(self.min_rows, "min_rows"))

    def __repr__(self) -> str:
        return call("threshold", self.predicate, min_rows=None if self.min_rows == 1 else self.min_rows)

    def bind(self, domain: TimeDomain) -> ThresholdScan:
        return ThresholdScan(DATA, predicate=self.predicate, min_rows=self.min_rows, columns=(self.predicate,))


def threshold(predicate: str, *, min_rows: int = 1) -> Threshold:
    """Maximal runs of rows for which the SQL `predicate` is true, of at least `min_rows` rows.

    >>> threshold("temperature > 90", min_rows=3)
    threshold("temperature > 90", min_rows=3)
    """
    return Threshold(predicate, min_rows)
