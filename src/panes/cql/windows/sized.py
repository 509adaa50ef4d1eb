"""Windows of a length: their edges lie on time, on an attribute or on rows.

    [SIZE 10 min EVERY 5 sec ON ts]      [SIZE 100]                 [CUMULATE 10 min MAX 1 hour ON ts]
    [LANDMARK '2015-01-01' EVERY 1 hour ON ts]                      [FIXED 0 TO 100 ON ts]
    [BAND 0 SIZE 100 ON ts]

Windows with a SIZE end at every slide (SPEC K-11), also if no row has come since the last one (K-12); ALIGN START
and ON CHANGE say otherwise. Those on rows hold what there is at the start, and the end of a stream ends the last of
them (Q-17, Q-34).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sqlglot import exp

from panes import windows as pn
from panes.cql.lengths import duration, is_multiple
from panes.cql.tree import Extent, Model, Quantity
from panes.cql.windows.clause import (
    ClauseWriter,
    WindowClause,
    built_extent,
    built_point,
    cannot_write,
    held,
)
from panes.units import Rows, TimeDomain, is_number
from panes.windows.anchored import Cumulate, Fixed, FixedBand, Landmark
from panes.windows.base import Window
from panes.windows.periodic import Sliding, Tumbling


@dataclass(frozen=True)
class SizeClause(WindowClause):
    """`[SIZE 3 hours EVERY 1 hour]`, `[SIZE 100]`"""

    word = "SIZE"
    options = frozenset({"every", "on", "offset", "time_zone", "align", "changes"})
    windows = (Tumbling, Sliding)

    size: Extent = field(metadata=held("length", called="SIZE"))
    every: Extent | None = field(default=None, metadata=held("length", "EVERY"))
    offset: Quantity | None = field(default=None, metadata=held("offset", "OFFSET"))
    time_zone: str | None = field(default=None, metadata=held("zone", "AT TIME ZONE"))
    #: whether windows start or end at every slide; None: it is not said, so they end there
    align: Literal["start", "end"] | None = field(default=None, metadata=held("align", "ALIGN"))
    #: a window is given only if its rows are others than those of the one before it
    changes: bool = field(default=False, metadata=held("flag", "ON CHANGE"))

    @property
    def is_mixed(self) -> bool:
        """Whether size and slide are on different measures: rows, system time, or one attribute and another."""
        if self.every is None:
            return False
        size, every = (None if m.on is None else m.on.text.lower() for m in (self.size, self.every))
        return self.size.kind != self.every.kind or size != every

    @property
    def same_for_parts(self) -> bool:
        """Not where a window is given only if its last step holds a row (SPEC Q-17), or if its rows have changed."""
        return not self.changes and self.is_time_based and (self.every is None or self.size.on == self.every.on)

    def shape(self) -> object:
        starts = self.every is not None and self.align == "start"
        alike = replace(self, every=self.every or self.size, align="start" if starts else None)
        return super(SizeClause, alike).shape()

    def refused(self) -> tuple[str, str] | None:
        if self.align != "start" or not self.is_mixed:
            return None
        return (
            "ALIGN START needs a size and a slide of one kind: otherwise windows end at the slide",
            "leave ALIGN START out",
        )

    def refused_in_joins(self, alias: str) -> tuple[str, str] | None:
        if self.is_time_based and self.changes:
            return "ON CHANGE is about the rows of one stream, and a join has those of several", "leave ON CHANGE out"
        return super().refused_in_joins(alias)

    def note(self) -> tuple[str, str] | None:
        """Windows that start at the slide are others wherever the size is no multiple of it: say which are meant."""
        if self.every is None or self.align is not None or self.is_mixed:
            return None
        if is_multiple(self.size.length, self.every.length):
            return None
        size, every = (f"{d.number} {d.unit or ''}".rstrip() for d in (self.size.length, self.every.length))
        return (
            f"windows of {size} every {every} end at every slide, and {size} is not a multiple of {every}",
            "write ALIGN START for windows that start there, as HOP and GROUP BY window(...) have them, or ALIGN END",
        )

    def window(self, time: str | None) -> Window:
        size, on = built_extent(self.size, time)
        options: dict[str, Any] = {"tz": self.time_zone}
        if self.offset is not None:
            options["offset"] = duration(self.offset)
        if self.every is None or self.every == self.size:
            return pn.tumbling(size, on=on, partial=self.size.kind == "rows", **options)
        every, every_on = built_extent(self.every, time)
        if self.every.kind == "rows":
            if not self.is_mixed and self.align == "start":
                return pn.sliding(size, every=every, **options)
            return pn.sliding(size, every=every, on=on, align="end", partial=True, **options)
        if not self.is_mixed:
            return pn.sliding(size, every=every, on=on, align=self.align or "end", **options)
        return pn.sliding(size, every=every, on=on, every_on=every_on, unchanged=not self.changes, **options)

    def evaluated(self, time: str | None, model: Model | None, domain: TimeDomain) -> Window:
        """The window as a model evaluates it (SPEC Q-40..Q-44).

        Time-driven: windows on time start at the first row, and are given when their content changes; windows on rows
        are looked at once per instant. Batch-driven: the same on time, but every row counts.
        """
        clause = self._with_units(time, domain)
        if model in (None, "tuple"):
            made = clause.window(time)
            return pn.on_change(made) if self.changes and not self.is_mixed else made
        made = replace(clause, changes=True).window(time)
        if (self.every or self.size).kind == "rows":
            return pn.once_per_instant(made) if model == "time" else made
        if self.offset is None and self.every is None and isinstance(made, Tumbling):
            made = pn.tumbling(made.size, on=made.on, offset="first row")
        return pn.on_change(made)

    def _with_units(self, time: str | None, domain: TimeDomain) -> SizeClause:
        """With units for a bare slide on the time, which Python would take to be on the column of the size."""
        every = self.every
        bare = every is not None and every.length.unit is None
        if every is None or every.on is None or not (bare and self.is_mixed and every.on.text == time):
            return self
        return replace(self, every=replace(every, length=replace(every.length, unit=domain.unit)))

    @classmethod
    def of(cls, window: Tumbling | Sliding, writer: ClauseWriter) -> SizeClause:
        size = writer.extent(window.size, window.on)
        clause = cls(size, offset=writer.offset(window.offset), time_zone=window.tz)
        if isinstance(window, Tumbling):
            if isinstance(window.size, Rows) and not window.partial:
                raise cannot_write(window, "windows on rows have partial=True there")
            return clause
        on = window.every_on
        if on is None and (is_number(window.every) or isinstance(window.size, Rows)):
            on = window.on
        clause = replace(clause, every=writer.extent(window.every, on))
        if isinstance(window.every, Rows):
            if isinstance(window.size, Rows) and window.align == "start":
                return replace(clause, align="start")
            if not window.partial:
                raise cannot_write(window, "windows that end after so many rows have partial=True there")
            return clause
        if clause.is_mixed:
            return replace(clause, changes=not window.unchanged)
        return clause if window.align == "end" else replace(clause, align="start")


@dataclass(frozen=True)
class CumulateClause(WindowClause):
    """`[CUMULATE 10 min MAX 1 hour ON ts]`: windows that grow by a step up to the longest one"""

    word = "CUMULATE"
    breaks = ("MAX",)
    options = frozenset({"on", "offset"})
    windows = (Cumulate,)

    step: Extent = field(metadata=held("length", called="SIZE"))
    longest: Extent = field(metadata=held("length", "MAX", called="the longest window"))
    offset: Quantity | None = field(default=None, metadata=held("offset", "OFFSET"))

    def window(self, time: str | None) -> Window:
        step, on = built_extent(self.step, time)
        longest, _ = built_extent(self.longest, time)
        return pn.cumulate(step, max=longest, on=on, offset=None if self.offset is None else duration(self.offset))

    @classmethod
    def of(cls, window: Cumulate, writer: ClauseWriter) -> CumulateClause:
        step, longest = (writer.extent(size, window.on) for size in (window.step, window.max))
        return cls(step, longest, writer.offset(window.offset))


@dataclass(frozen=True)
class LandmarkClause(WindowClause):
    """`[LANDMARK '2015-01-01' EVERY 1 hour ON ts]`"""

    word = "LANDMARK"
    words = ("FROM",)
    options = frozenset({"every", "on"})
    windows = (Landmark,)

    #: a literal: a number, or a date and time
    start: exp.Expr = field(metadata=held("point"))
    every: Extent = field(metadata=held("length", "EVERY"))

    @property
    def same_for_parts(self) -> bool:
        return False

    def window(self, time: str | None) -> Window:
        every, on = built_extent(self.every, time)
        return pn.landmark(built_point(self.start), every=every, on=on)

    @classmethod
    def of(cls, window: Landmark, writer: ClauseWriter) -> LandmarkClause:
        return cls(writer.point(window.start), writer.extent(window.every, window.on))


@dataclass(frozen=True)
class FixedClause(WindowClause):
    """`[FIXED 0 TO 100 ON ts]`"""

    word = "FIXED"
    words = ("FROM",)
    windows = (Fixed,)

    start: exp.Expr = field(metadata=held("point"))
    end: exp.Expr = field(metadata=held("point", "TO"))
    on: exp.Expr | None = field(default=None, metadata=held("column", "ON"))

    def window(self, time: str | None) -> Window:
        on = None if self.on is None or self.on.name == time else self.on.name
        return pn.fixed(built_point(self.start), built_point(self.end), on=on)

    @classmethod
    def of(cls, window: Fixed, writer: ClauseWriter) -> FixedClause:
        return cls(writer.point(window.start), writer.point(window.end), writer.column(window.on))


@dataclass(frozen=True)
class BandClause(WindowClause):
    """`[BAND 0 SIZE 100 ON ts]`"""

    word = "BAND"
    words = ("FROM",)
    windows = (FixedBand,)

    start: exp.Expr = field(metadata=held("point"))
    size: Extent = field(metadata=held("length", "SIZE"))

    def window(self, time: str | None) -> Window:
        size, on = built_extent(self.size, time)
        return pn.fixed_band(built_point(self.start), size=size, on=on)

    @classmethod
    def of(cls, window: FixedBand, writer: ClauseWriter) -> BandClause:
        return cls(writer.point(window.start), writer.extent(window.size, window.on))
