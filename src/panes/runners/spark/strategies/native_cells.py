"""Slices of a stream as Spark's own aggregation finds them: cells of one length, cut at the edges of windows.

Spark gives what it has aggregated of a stream when the watermark has passed the end of a window of its own, and these
are all of one length: cells. Where edges of windows lie about one step apart, cells are slices. Elsewhere a slice is
what lies in one cell and between two edges; the last edge before a row is the latest of a few remainders, whatever
the number of windows that have it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from panes.runners.spark.columns import NoColumn
from panes.runners.spark.strategies.native_windows import Slices
from panes.windows.base import NEVER

if TYPE_CHECKING:
    from pyspark.sql import Column

#: Edges of so many different rhythms are looked for, row by row.
_MOST = 32
#: Cells that have all edges between them may be so many times more than edges.
_MORE = 1.5
#: A window that is there only once is long enough for so many cells.
_CELLS_PER_FIXED = 8
#: Edges per cell: with fewer there are more slices, with more of them windows are given later.
_EDGES_PER_CELL = 4


@dataclass(frozen=True)
class Rhythm:
    """Edges at `phase` + k * `step`."""

    step: int
    phase: int

    def has(self, other: Rhythm) -> bool:
        """Whether all edges of another are edges here, too."""
        return other.step % self.step == 0 and (other.phase - self.phase) % self.step == 0


@dataclass(frozen=True)
class StreamCells:
    """Cells at `phase` + k * `length`, and the edges inside of them: `rhythms`, and `points` that come once."""

    length: int
    phase: int
    rhythms: tuple[Rhythm, ...] = ()
    points: tuple[int, ...] = ()

    @classmethod
    def of(cls, slices: Slices, unit: int) -> StreamCells:
        """The cells of a query; lengths are multiples of `unit` where windows leave a choice."""
        once = [e for e in slices.ends if e.high < NEVER]
        found = {Rhythm(e.step, e.first % e.step) for e in slices.ends if e.high == NEVER}
        found |= {Rhythm(e.step, e.offset % e.step) for e in slices.ends if e.high == NEVER and e.round == 1}
        rhythms = [r for r in found if not any(other.has(r) for other in found - {r})]
        rhythms.sort(key=lambda r: (r.step, r.phase))
        points = tuple(sorted({at for e in once for at in (e.low, e.high)}))
        rate = sum(1 / r.step for r in rhythms) + sum(_CELLS_PER_FIXED / e.size for e in once)
        if 1 / slices.length <= _MORE * rate:
            return cls(slices.length, slices.phase)
        if len(rhythms) + len(points) > _MOST:
            raise NoColumn(
                f"edges of its windows come in {len(rhythms) + len(points)} different rhythms, and Spark would look "
                f"for each of them at every row; up to {_MOST} are worth it"
            )
        return cls(max(1, round(_EDGES_PER_CELL / rate / unit)) * unit, 0, tuple(rhythms), points)

    @property
    def cut(self) -> bool:
        """Whether there are edges inside of cells."""
        return bool(self.rhythms or self.points)

    def edge_before(self, time: Column) -> Column:
        """The last edge of a window at or before a time; null if there is none."""
        from pyspark.sql import functions as F

        since = [F.pmod(time - F.lit(r.phase), F.lit(r.step)) for r in self.rhythms]
        since += [F.when(time >= F.lit(at), time - F.lit(at)) for at in self.points]
        return time - (since[0] if len(since) == 1 else F.least(*since))
