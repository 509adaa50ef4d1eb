"""The picture of a run, through matplotlib: an image, or a page whose marks say what they are. One file, no network."""

from __future__ import annotations

import html
import io
import os
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from panes.runners.local.plot_data import ON_TIME, Array, Panel, Picture, Points

BLUE = "#2f6db5"
FILL = "#cfe0f3"
RED = "#c62828"
GREY = "#8b9199"
DARK = "#202124"
FAINT = "#5f6368"

ROWS, LATE, RESULTS, CORRECTED = "rows", "late rows", "results", "corrected results"
_TITLE_WIDTH = 92
_TITLE_LINES = 3

WIDTH = 12.0  # inches, as all lengths here
DELAYS = 1.25
LEFT, RIGHT, GAP = 0.75, 0.3, 0.65


#: Around a mark the pointer need not be more exact than this.
NEAR = 4.0  # points
_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>body {{ margin: 0 }} svg {{ display: block; margin: auto; max-width: 100%; height: auto }}</style>
{svg}</html>
"""


class Spots(NamedTuple):
    """Marks of one kind in a panel: the rectangles that they cover, and what each of them says."""

    axes: Axes
    left: Array
    right: Array
    low: Array
    high: Array
    said: list[str]


class RunFigure(Figure):
    """A figure with what its marks say; notebooks show it as SVG."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        FigureCanvasAgg(self)
        self.spots: list[Spots] = []

    def svg(self) -> str:
        """The figure as SVG: browsers show what a mark says when the pointer is on it."""
        out = io.StringIO()
        with rc_context({"svg.fonttype": "none", "svg.hashsalt": "panes"}):
            self.savefig(out, format="svg", metadata={"Date": None})
        text = out.getvalue()
        titles = "\n".join(line for spots in self.spots for line in self._titles(spots))
        return f'{text[text.index("<svg") : text.rindex("</svg>")]}<g fill="transparent">\n{titles}\n</g>\n</svg>\n'

    def _titles(self, spots: Spots) -> list[str]:
        """A rectangle for each mark, in points from the upper left corner."""
        corners = [(spots.left, spots.high), (spots.right, spots.low)]
        to_points = [
            spots.axes.transData.transform(np.column_stack((spots.axes.convert_xunits(x), y))) * 72 / self.dpi
            for x, y in corners
        ]
        first, last = (np.column_stack((at[:, 0], self.get_figheight() * 72 - at[:, 1])) for at in to_points)
        room = np.maximum(NEAR - (last - first) / 2, 0)
        return [
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}"><title>{html.escape(said)}</title></rect>'
            for (x, y), (w, h), said in zip(first - room, last - first + 2 * room, spots.said, strict=True)
        ]

    def _repr_html_(self) -> str:
        return self.svg()


def write(picture: Picture, path: str | os.PathLike[str], kind: str) -> None:
    """Draw the picture into a file: kind "png" or "html"."""
    drawn = figure(picture)
    if kind == "png":
        drawn.savefig(os.fspath(path), format="png")
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(_PAGE.format(title=html.escape(picture.title), svg=drawn.svg()))


def figure(picture: Picture) -> RunFigure:
    """The picture as a matplotlib figure."""
    placed = cells(picture)
    rows = 1 + max(cell.row for cell in placed)
    heights = [0.0] * rows
    below = [0.0] * rows  # room under each row for the numbers of its axes
    for cell in placed:
        heights[cell.row] = DELAYS if cell.panel is None else panel_height(picture)
        titled = 0.2 if picture.axis_title(cell.on) or _dated(picture, cell.on) else 0.0
        below[cell.row] = max(below[cell.row], (0.34 + titled) if cell.labelled else 0.06)
    above = 0.3  # for the name of a panel
    titles, facts = title_lines(picture), fact_lines(picture)
    head = 0.24 + 0.27 * len(titles) + 0.2 * len(facts) + 0.3
    height = head + sum(heights) + rows * above + sum(below) + 0.08
    drawn = RunFigure(figsize=(WIDTH, height), dpi=120, facecolor="white")
    _head(drawn, picture, titles, facts, height)
    top = head
    tops = []
    for i in range(rows):
        tops.append(top + above)
        top += above + heights[i] + below[i]
    wide = (WIDTH - LEFT - RIGHT - GAP * (picture.columns - 1)) / picture.columns
    for cell in placed:
        left = LEFT + cell.column * (wide + GAP)
        width = WIDTH - LEFT - RIGHT if cell.panel is None else wide
        bottom = height - tops[cell.row] - heights[cell.row]
        axes = drawn.add_axes((left / WIDTH, bottom / height, width / WIDTH, heights[cell.row] / height))
        if cell.panel is None:
            _delays(drawn, axes, picture)
        else:
            _panel(drawn, axes, picture, cell.panel)
        _time(axes, picture, cell, width)
    return drawn


def _head(drawn: Figure, picture: Picture, titles: list[str], facts: list[str], height: float) -> None:
    at = 0.36
    for line in titles:
        drawn.text(LEFT / WIDTH, 1 - at / height, line, fontsize=14, fontweight="bold", color=DARK)
        at += 0.27
    at -= 0.04
    for line in facts:
        drawn.text(LEFT / WIDTH, 1 - at / height, line, fontsize=9, color=FAINT)
        at += 0.2
    drawn.legend(
        handles=[_legend(mark) for mark in marks(picture)],
        loc="upper left",
        bbox_to_anchor=(LEFT / WIDTH, 1 - (at - 0.1) / height),
        ncols=4,
        fontsize=9,
        frameon=False,
        borderpad=0,
        handlelength=1.4,
        borderaxespad=0,
    )


def _legend(mark: str) -> Line2D:
    style: dict[str, Any] = {
        RESULTS: {"color": BLUE, "linewidth": 2},
        ROWS: {"color": GREY, "linestyle": "", "marker": ".", "markersize": 6},
        LATE: {"color": RED, "linestyle": "", "marker": "v", "markersize": 5.5},
        CORRECTED: {"color": RED, "linestyle": "", "marker": "o", "markerfacecolor": "none", "markersize": 6.5},
    }[mark]
    return Line2D([], [], label=mark, **style)


def _panel(drawn: RunFigure, axes: Axes, picture: Picture, panel: Panel) -> None:
    _frame(axes)
    low, high = panel.y
    rows, late = panel.rows, panel.late
    style: dict[str, Any]
    if len(rows.at):
        style = {"markersize": 5 if len(rows.at) < 200 else 3, "color": GREY, "alpha": 0.8, "clip_on": False}
        axes.plot(picture.moments(rows.at, panel.on), rows.values, ".", zorder=2, **style)
    start, end = picture.moments(panel.start, panel.on), picture.moments(panel.end, panel.on)
    both = _results(axes, panel, start, end), _points(axes, picture, rows, panel.on)
    drawn.spots += both if panel.spans else both[::-1]  # what is small lies above what is large
    if not panel.measured:
        axes.barh(panel.values, end - start, left=start, height=0.8, color=FILL, edgecolor=BLUE, linewidth=0.8)
        axes.set_yticks([])
    elif panel.spans:
        if low == 0:
            axes.bar(start, panel.values, end - start, align="edge", color=FILL, alpha=0.75, linewidth=0, zorder=1)
        axes.hlines(panel.values, start, end, color=BLUE, linewidth=2, zorder=3)
        at, before, after = panel.joints
        axes.vlines(picture.moments(at, panel.on), before, after, color=BLUE, linewidth=0.7, alpha=0.6, zorder=3)
    else:
        at, heights = panel.line
        broken = len(at) > len(end)  # a point between two gaps is seen only by its mark
        dot = 3.5 if len(end) <= 80 else 1.5 if broken else 0.0
        style = {"color": BLUE, "linewidth": 1.3, "marker": "o", "markersize": dot}
        axes.plot(picture.moments(at, panel.on), heights, zorder=3, **style)
    if panel.corrected.any():
        middle = start + (end - start) / 2 if panel.spans else end
        chosen = panel.corrected
        style = {"marker": "o", "markersize": 7, "markerfacecolor": "none", "color": RED, "linestyle": ""}
        axes.plot(middle[chosen], panel.values[chosen], zorder=5, **style)
    if len(late.at):
        size, alpha = (5.5, 1.0) if len(late.at) <= 60 else (3.5, 0.6)
        style = {"markersize": size, "alpha": alpha, "color": RED, "clip_on": False}
        axes.plot(picture.moments(late.at), late.values, "v", zorder=6, **style)
        drawn.spots.append(_points(axes, picture, late))
    axes.set_ylim(low, high)
    if panel.measured:
        axes.locator_params(axis="y", nbins=5 if panel_height(picture) > 2 else 3)
    _heading(axes, *heading(panel, picture))
    axes.annotate(
        count(panel), (1, 1), xytext=(0, 5), xycoords="axes fraction", textcoords="offset points", fontsize=8.5,
        color=FAINT, ha="right", va="bottom",
    )  # fmt: skip


def _delays(drawn: RunFigure, axes: Axes, picture: Picture) -> None:
    """How far rows came behind the newest one, the watermark, and the rows that were late."""
    delays = picture.delays
    assert delays is not None
    _frame(axes)
    divisor, unit = picture.lateness()
    axes.plot(
        picture.moments(delays.rows.at), delays.rows.values / divisor, ".", markersize=2.5, color=GREY, alpha=0.7,
    )  # fmt: skip
    drawn.spots += [_points(axes, picture, Points(p.at, p.values / divisor)) for p in (delays.rows, delays.late)]
    if len(delays.watermark.at):
        axes.plot(
            picture.moments(delays.watermark.at), delays.watermark.values / divisor, color=DARK, linewidth=1.1,
        )  # fmt: skip
    if len(delays.late.at):
        axes.plot(
            picture.moments(delays.late.at), delays.late.values / divisor, "v", markersize=4, color=RED, zorder=4,
        )  # fmt: skip
    axes.set_ylim(0, max(axes.get_ylim()[1], 1e-9))
    axes.locator_params(axis="y", nbins=3)
    _heading(axes, "delay", f"of rows behind the newest one, {unit}; the line is the watermark")


def _heading(axes: Axes, name: str, what: str) -> None:
    said = axes.annotate(
        name, (0, 1), xytext=(0, 5), xycoords="axes fraction", textcoords="offset points", fontsize=10,
        fontweight="bold", color=DARK, va="bottom",
    )  # fmt: skip
    axes.annotate(
        what, (1, 0), xytext=(7, 0), xycoords=said, textcoords="offset points", fontsize=9, color=FAINT, va="bottom",
    )  # fmt: skip


def _results(axes: Axes, panel: Panel, start: Array, end: Array) -> Spots:
    """Windows from start to end, or where they end; down to the ground where they are filled."""
    said = [
        f"{panel.label} [{a}, {b})" + (f"\n{panel.output} {v:,.10g}" if panel.measured else "")
        for a, b, v in zip(start, end, panel.values.tolist(), strict=True)
    ]
    if not panel.measured:
        return Spots(axes, start, end, panel.values - 0.4, panel.values + 0.4, said)
    ground = np.minimum(panel.values, 0) if panel.spans and panel.y[0] == 0 else panel.values
    return Spots(axes, start if panel.spans else end, end, ground, np.maximum(panel.values, ground), said)


def _points(axes: Axes, picture: Picture, points: Points, on: str = ON_TIME) -> Spots:
    at = picture.moments(points.at, on)
    said = [f"{x}\n{y:,.10g}" for x, y in zip(at, points.values.tolist(), strict=True)]
    return Spots(axes, at, at, points.values, points.values, said)


def _frame(axes: Axes) -> None:
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(GREY)
    axes.grid(axis="y", color="#e4e6e9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0, labelsize=8.5, labelcolor=FAINT)
    axes.tick_params(axis="x", labelsize=8.5, labelcolor=FAINT, color=GREY)
    axes.yaxis.set_major_formatter(lambda value, _: short(value))


def _dated(picture: Picture, on: str) -> bool:
    return on == ON_TIME and not picture.domain.integer


def _time(axes: Axes, picture: Picture, cell: Cell, width: float) -> None:
    """Every panel of a kind shows the same stretch; the last one in a column has the numbers."""
    low, high = picture.ranges[cell.on]
    axes.set_xlim(*picture.moments(np.array([low, high]), cell.on))
    if _dated(picture, cell.on):
        locator = AutoDateLocator(minticks=3, maxticks=int(width) + 1)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=int(width), integer=high - low >= 5))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))
    axes.tick_params(labelbottom=cell.labelled)
    offset = axes.xaxis.get_offset_text()  # the date that all numbers have in common
    offset.set(visible=cell.labelled, fontsize=8.5, color=FAINT)
    if not cell.labelled:
        return
    if title := picture.axis_title(cell.on):
        axes.set_xlabel(title, fontsize=9, color=FAINT)


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
