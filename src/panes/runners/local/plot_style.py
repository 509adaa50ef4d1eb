"""What both kinds of picture have in common: colours, words, and which panel stands where."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from panes.runners.local.plot_data import ON_TIME, Panel, Picture

BLUE = "#2f6db5"
FILL = "#cfe0f3"
RED = "#c62828"
GREY = "#8b9199"
DARK = "#202124"
FAINT = "#5f6368"

ROWS, LATE, RESULTS, CORRECTED = "rows", "late rows", "results", "corrected results"
_TITLE_WIDTH = 92
_TITLE_LINES = 3


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
