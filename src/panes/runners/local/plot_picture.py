"""A picture of a run as plain arrays, and how it looks: colours, words, which panel stands where."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from panes.units import TimeDomain

Array = np.ndarray


BLUE = "#2f6db5"
FILL = "#cfe0f3"
RED = "#c62828"
GREY = "#8b9199"
DARK = "#202124"
FAINT = "#5f6368"

ROWS, LATE, RESULTS, CORRECTED = "rows", "late rows", "results", "corrected results"
#: Where a panel lies: on the time of the stream, on row numbers, or on the column of that name.
ON_TIME, ON_ROWS = "time", "row"
#: With more panels than this there are two beside each other.
ONE_COLUMN = 8
#: A line breaks where ends of windows are so many times further apart than usual.
_GAP = 4
_TITLE_WIDTH = 92
_TITLE_LINES = 3


def _nothing() -> Array:
    return np.empty(0)


@dataclass(frozen=True)
class Points:
    """Places in a panel: ticks, row numbers or values of a column, and heights."""

    at: Array = field(default_factory=_nothing)
    values: Array = field(default_factory=_nothing)


@dataclass(frozen=True)
class Panel:
    """One output of one window."""

    label: str
    spec: str
    output: str
    on: str
    start: Array  # of each window that counts in the end, in order of their ends
    end: Array
    values: Array
    corrected: Array  # bool: given again because of a late row
    spans: bool  # drawn from start to end; else as a line through the ends
    y: tuple[float, float]
    windows: int  # all of this label, also those that are not drawn
    rows: Points = field(default_factory=Points)
    late: Points = field(default_factory=Points)

    @property
    def line(self) -> tuple[Array, Array]:
        """Where a line through the ends goes; not a number where windows are missing, so that it breaks there."""
        gaps = self.gaps
        return np.insert(self.end, gaps, self.end[gaps]), np.insert(self.values, gaps, np.nan)

    @property
    def gaps(self) -> Array:
        """Numbers of the windows before which others are missing."""
        steps = np.diff(self.end)
        return np.flatnonzero(steps > _GAP * max(float(np.median(steps)), 1e-9)) + 1 if len(steps) else steps

    @property
    def joints(self) -> tuple[Array, Array, Array]:
        """Where one span ends and the next begins, and the heights of both."""
        touch = np.flatnonzero(self.end[:-1] == self.start[1:])
        return self.end[touch], self.values[touch], self.values[touch + 1]

    @property
    def measured(self) -> bool:
        """Whether heights mean something: windows without a number are stacked."""
        return bool(self.output)


@dataclass(frozen=True)
class Delays:
    """How far rows came behind the newest one, and where the watermark was."""

    rows: Points
    late: Points
    watermark: Points


@dataclass(frozen=True)
class Picture:
    """All that is drawn. `ranges`: what the axis of each kind of panel shows."""

    domain: TimeDomain
    title: str
    facts: tuple[str, ...]
    panels: tuple[Panel, ...]
    delays: Delays | None
    ranges: dict[str, tuple[float, float]]

    @property
    def columns(self) -> int:
        return 1 if len(self.panels) <= ONE_COLUMN else 2

    def moments(self, at: Array, on: str = ON_TIME) -> Array:
        """What an axis shows: dates for timestamps, numbers for all else."""
        at = np.asarray(at)
        if on != ON_TIME or self.domain.integer:
            return at
        return at.astype(np.int64).astype(f"datetime64[{self.domain.unit}]").astype("datetime64[us]")

    def lateness(self) -> tuple[float, str]:
        """What delays are divided by, and the unit that makes: the largest that suits the longest of them."""
        assert self.delays is not None
        if self.domain.integer:
            return 1.0, "ticks"
        seconds = self.domain.nanos_per_tick / 1e9
        drawn = (self.delays.rows.values, self.delays.late.values, self.delays.watermark.values)
        most = max(float(v.max()) for v in drawn if len(v)) * seconds
        for unit, length in (("days", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
            if most >= 2 * length:
                return length / seconds, unit
        return 1e-3 / seconds, "ms"

    def axis_title(self, on: str) -> str:
        if on == ON_ROWS:
            return "number of the row"
        return "" if on == ON_TIME else on


@dataclass(frozen=True)
class Cell:
    """A panel in its place; None: the panel of delays, which is as wide as the picture."""

    panel: Panel | None
    row: int
    column: int
    on: str
    labelled: bool  # whether its axis has numbers, being the last of its kind in its column


def cells(picture: Picture) -> list[Cell]:
    """Panels on time first, then delays, which lie on time too, then all others."""
    on_time = [panel for panel in picture.panels if panel.on == ON_TIME]
    others = [panel for panel in picture.panels if panel.on != ON_TIME]
    columns = picture.columns
    placed: list[tuple[Panel | None, int, int, str]] = []
    for some in (on_time, others):
        first = 1 + max((row for _, row, _, _ in placed), default=-1)
        height = -(-len(some) // columns)  # filled column by column, so that one reads downwards
        placed += [(p, first + i % height, i // height, p.on) for i, p in enumerate(some)]
        if some is on_time and picture.delays is not None:
            placed.append((None, first + height, 0, ON_TIME))
    return [Cell(p, row, column, on, _last(placed, row, column, on)) for p, row, column, on in placed]


def _last(placed: list[tuple[Panel | None, int, int, str]], row: int, column: int, on: str) -> bool:
    below = [(r, o) for _, r, c, o in placed if c == column and r > row]
    return not below or min(below)[1] != on


def panel_height(picture: Picture) -> float:
    """Inches of one panel."""
    n = len(picture.panels)
    return 4.2 if n <= 1 else 2.3 if n <= 3 else 1.7 if n <= 8 else 1.25


def heading(panel: Panel, picture: Picture) -> tuple[str, str]:
    """The name of a panel, and what it is."""
    several = len({p.output for p in picture.panels if p.windows}) > 1
    name = f"{panel.output} of {panel.label}" if several and panel.windows and panel.measured else panel.label
    return name, panel.spec if len(panel.spec) <= 60 else panel.spec[:57] + "..."


def count(panel: Panel) -> str:
    if not panel.windows:  # the panel of rows alone
        return f"{len(panel.rows.at):,} rows"
    return f"{panel.windows:,} windows" if panel.windows != 1 else "1 window"


def title_lines(picture: Picture) -> list[str]:
    """The title, in as many lines as it takes; what is longer ends in dots."""
    lines = textwrap.wrap(picture.title, _TITLE_WIDTH, break_long_words=True)
    if len(lines) > _TITLE_LINES:
        lines = [*lines[: _TITLE_LINES - 1], lines[_TITLE_LINES - 1][: _TITLE_WIDTH - 3] + "..."]
    return lines


def fact_lines(picture: Picture) -> list[str]:
    return textwrap.wrap(" · ".join(picture.facts), 150)


def short(value: float) -> str:
    """A number on an axis: 20,000 as 20 k."""
    for limit, unit in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if abs(value) >= limit:
            return f"{value / (1e3 if limit == 1e4 else limit):,.6g}{unit}"
    return f"{value:,.6g}"


def marks(picture: Picture) -> Iterator[str]:
    """What the legend must explain."""
    if any(len(panel.end) for panel in picture.panels):
        yield RESULTS
    if any(len(panel.rows.at) for panel in picture.panels):
        yield ROWS
    if any(len(panel.late.at) for panel in picture.panels) or (picture.delays and len(picture.delays.late.at)):
        yield LATE
    if any(panel.corrected.any() for panel in picture.panels):
        yield CORRECTED
