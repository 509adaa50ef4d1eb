"""What flows between the operator and a lane when rows of a batch are behind the watermark (docs/semantics.md).

A row that is not behind it is taken by every window that it belongs to. The others are judged by each lane, window by
window, as if rows came one by one; how they were put into batches makes no difference.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from panes.slicing.lane import Results, Rows

Array = np.ndarray


@dataclass(frozen=True)
class Arriving:
    """A batch of which some rows are behind the watermark that they meet."""

    rows: Rows
    met: Array  # the watermark that each row meets
    at: Array  # the rows that are behind it, in order
    watermark: int  # after the batch

    @cached_property
    def in_time(self) -> Array:
        """The rows that are not behind, in order."""
        mask = np.ones(len(self.rows), bool)
        mask[self.at] = False
        return np.flatnonzero(mask)

    def without(self, behind: Array) -> Rows:
        """The batch without some of the rows behind the watermark: a mask of `at`."""
        if not behind.any():
            return self.rows
        mask = np.ones(len(self.rows), bool)
        mask[self.at[behind]] = False
        return self.rows.take(np.flatnonzero(mask))

    @cached_property
    def times(self) -> Array:
        """When the rows behind the watermark happened."""
        return self.rows.times[self.at]

    @cached_property
    def met_behind(self) -> Array:
        """The watermark that each row behind it meets."""
        return self.met[self.at]


@dataclass
class Taken:
    """What a lane made of a batch: results, and of the rows behind the watermark those that some window of it took, and
    those that a closed one took as a correction."""

    results: list[Results]
    taken: Array  # bool, of `Arriving.at`
    corrected: Array
    #: by number of the query, how many rows some window of it had to miss
    missed: dict[int, int] = field(default_factory=dict)
    #: why rows can't be used here, if that is not their time: by place in `Arriving.at`
    reasons: dict[int, str] = field(default_factory=dict)

    def miss(self, number: int, rows: int) -> None:
        if rows:
            self.missed[number] = self.missed.get(number, 0) + rows


class Corrected(NamedTuple):
    """What came of a row behind the watermark that was taken by itself."""

    results: Results
    taken: bool
    corrected: bool
    reason: str | None = None  # why it can't be used here, if that is not its time
