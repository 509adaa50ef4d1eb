"""Windows on event time as arithmetic on Spark Columns: the slice of a row, and the windows of a slice.

All edges of all windows of a query lie on one grid, so the slice of a row is one remainder, whatever the number of
windows. The windows that hold a slice are listed by their ends, which are one step apart; start and end follow
from the number of the window and its end.

On a stream Spark gives what it has aggregated when the watermark has passed the end of a window of its own, and these
are all of one length: cells. Where edges of windows lie about one step apart, cells are slices. Elsewhere a slice is
what lies in one cell and between two edges; the last edge before a row is the latest of a few remainders, whatever
the number of windows that have it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from panes.plan.query import QueryPlan
from panes.runners.spark.columns import NoColumn
from panes.units import TimeDomain
from panes.windows.anchored import Cumulating, FixedWindow
from panes.windows.base import NEVER, TIME, Bound
from panes.windows.periodic import Periodic

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: Times beyond this are no times, as for the embedded engine.
TIME_LIMIT = 2**62
_TYPE = (
    "array<struct<number:int,step:bigint,first:bigint,size:bigint,offset:bigint,round:bigint,low:bigint,high:bigint>>"
)
#: Edges of so many different rhythms are looked for, row by row.
_MOST = 32
#: Cells that have all edges between them may be so many times more than edges.
_MORE = 1.5
#: A window that is there only once is long enough for so many cells.
_CELLS_PER_FIXED = 8
#: Edges per cell: with fewer there are more slices, with more of them windows are given later.
_EDGES_PER_CELL = 4


@dataclass(frozen=True)
class Ends:
    """The windows of one query, by their ends: those at `first` + k * `step`.

    A window that ends at e starts at the last multiple of `round` (plus offset) that is at least `back` before e.
    Only rows in [low, high) belong to it. Numbers are ticks of the query, or microseconds.
    """

    number: int
    step: int
    first: int
    size: int
    offset: int
    round: int
    low: int = -TIME_LIMIT
    high: int = NEVER

    @classmethod
    def of(cls, number: int, window: Bound, scale: Scale) -> Ends:
        if window.changes_only:
            raise NoColumn("it is given only when its rows have changed, which is known window after window")
        if isinstance(window, Periodic) and window.measure == TIME:
            size, slide, offset = (scale.count(int(n)) for n in (window.size, window.slide, window.offset))
            return cls(number, slide, (offset + size) % slide, size, offset % slide, 1)
        if isinstance(window, Cumulating) and window.measure == TIME:
            step, size, offset = (scale.count(int(n)) for n in (window.step, window.size, window.offset))
            return cls(number, step, offset % step, size, offset % size, size)
        if isinstance(window, FixedWindow) and window.measure == TIME:
            start, end = scale.count(int(window.start)), scale.count(int(window.end))
            size = end - start
            if max(abs(start), abs(end)) > TIME_LIMIT:
                raise NoColumn("a fixed window reaches beyond the times that windows are found for")
            return cls(number, size, start % size, size, start % size, 1, start, end)
        raise NoColumn(
            "its edges are not multiples of a step of event time: only tumbling, sliding, cumulate and fixed windows "
            "on event time are"
        )

    @property
    def overlap(self) -> float:
        """How many windows hold a slice, on average."""
        return self.size / self.step if self.round == 1 else (self.size // self.step + 1) / 2

    @property
    def alone(self) -> bool:
        """Whether no slice is in two windows."""
        return self.size <= self.step

    @property
    def back(self) -> int:
        return self.size if self.round == 1 else 1


@dataclass(frozen=True)
class Scale:
    """What native windows count in: microseconds for timestamps, the ticks themselves for integers."""

    up: int
    down: int

    @classmethod
    def of(cls, domain: TimeDomain) -> Scale:
        if domain.integer:
            return cls(1, 1)
        nanos = domain.nanos_per_tick
        return cls(nanos // 1000, 1) if nanos >= 1000 else cls(1, 1000 // nanos)

    def count(self, ticks: int) -> int:
        count, rest = divmod(ticks * self.up, self.down)
        if rest:
            raise NoColumn(f"a size of {ticks} ticks is no whole number of microseconds, the finest that Spark has")
        return count


@dataclass(frozen=True)
class Slices:
    """The grid that all edges of a query lie on, and its windows."""

    ends: tuple[Ends, ...]
    length: int
    phase: int

    @classmethod
    def of(cls, plan: QueryPlan) -> Slices:
        scale = Scale.of(plan.stream.domain)
        ends = []
        for number, (label, window) in enumerate(plan.bound):
            try:
                ends.append(Ends.of(number, window, scale))
            except NoColumn as error:
                raise NoColumn(f"window {label!r}: {error}") from None
        phase = ends[0].offset
        length = math.gcd(*(n for e in ends for n in (e.step, e.size, e.round if e.round > 1 else 0)))
        length = math.gcd(length, *(e.offset - phase for e in ends))
        return cls(tuple(ends), length, phase % length)

    @property
    def overlap(self) -> float:
        """How many windows hold a slice, on average."""
        return sum(e.overlap for e in self.ends)

    @property
    def alone(self) -> bool:
        """Whether slices are windows already: one query, whose windows have no row in common."""
        return len(self.ends) == 1 and self.ends[0].alone

    def slice_of(self, time: Column) -> Column:
        """Where the slice of a time begins."""
        from pyspark.sql import functions as F

        return time - F.pmod(time - F.lit(self.phase), F.lit(self.length))

    def window_of(self, frame: DataFrame, time: str) -> DataFrame:
        """With the end of the one window that a row is in; rows that are in none are left out."""
        from pyspark.sql import functions as F

        (only,) = self.ends
        at = F.col(time)
        if only.high < NEVER:
            return frame.filter((at >= only.low) & (at < only.high)).withColumn("w_end", F.lit(only.high))
        start = at - F.pmod(at - F.lit(only.offset), F.lit(only.step))
        held = frame.withColumn("w_end", start + F.lit(only.size))
        return held if only.size == only.step else held.filter(F.col("w_end") > at)

    def windows_of(self, frame: DataFrame, at: str) -> DataFrame:
        """One row for each window that holds a slice: its number and its end."""
        from pyspark.sql import functions as F

        listed = frame.withColumn("w", F.explode(_specs(self.ends)))
        w, s = F.col("w"), F.col(at)
        if any(e.high < NEVER for e in self.ends):
            listed = listed.filter((s >= w.low) & (s < w.high))
        first = s + w.step - F.pmod(s - w["first"], w.step)
        bound = s - F.pmod(s - w.offset, w["round"]) + w["size"]
        if all(e.alone for e in self.ends):
            listed = listed.withColumn("w_end", first).filter(F.col("w_end") <= bound)
        else:
            if any(e.size < e.step for e in self.ends):
                listed = listed.filter(first <= bound)
            listed = listed.withColumn("w_end", F.explode(F.sequence(first, bound, w.step)))
        return listed.withColumn("w_number", w.number).drop("w", at)

    def start_of(self, number: Column, end: Column) -> Column:
        """Where the window begins that ends at `end`."""
        from pyspark.sql import functions as F

        kinds = {(e.back, e.round, e.offset if e.round > 1 else 0) for e in self.ends}
        if len(kinds) == 1:
            back, rounds, offset = (F.lit(n) for n in kinds.pop())
        else:
            w = F.element_at(_specs(self.ends), number + 1)
            grows = w["round"] > 1
            back = F.when(grows, F.lit(1)).otherwise(w["size"])
            rounds, offset = w["round"], w.offset
        at = end - back
        return at - F.pmod(at - offset, rounds)


def _specs(ends: Sequence[Ends]) -> Column:
    """All windows as one constant: an expression that stays small, however many they are."""
    from pyspark.sql import functions as F

    return F.from_json(F.lit(json.dumps([asdict(e) for e in ends])), _TYPE)


def label_of(labels: Sequence[str], number: Column) -> Column:
    """The label of a window by its number."""
    from pyspark.sql import functions as F

    if len(labels) == 1:
        return F.lit(labels[0])
    return F.element_at(F.from_json(F.lit(json.dumps(list(labels))), "array<string>"), number + 1)


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
