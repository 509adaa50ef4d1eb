"""Rows held until the watermark has passed them: only then is their number in event order known."""

from __future__ import annotations

import numpy as np

from bench.rivals.sorted_rows import SortedRows

Array = np.ndarray


class Reorder:
    """Takes rows in any order, gives them back in event-time order."""

    def __init__(self) -> None:
        self.rows = SortedRows()

    def __len__(self) -> int:
        return len(self.rows)

    def hold(self, times: Array, values: Array) -> None:
        self.rows.insert(times, values)

    def release(self, watermark: int) -> tuple[Array, Array]:
        count = int(np.searchsorted(self.rows.times, watermark, "right"))
        times, values = self.rows.times[:count].copy(), self.rows.values[:count].copy()
        self.rows.evict(count)
        return times, values
