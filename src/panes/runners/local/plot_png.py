"""The picture of a run as an image, through matplotlib."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from panes.runners.local.plot_picture import (
    BLUE,
    CORRECTED,
    DARK,
    FAINT,
    FILL,
    GREY,
    LATE,
    ON_TIME,
    RED,
    RESULTS,
    ROWS,
    Cell,
    Panel,
    Picture,
    cells,
    count,
    fact_lines,
    heading,
    marks,
    panel_height,
    short,
    title_lines,
)

WIDTH = 12.0  # inches, as all lengths here
DELAYS = 1.25
LEFT, RIGHT, GAP = 0.75, 0.3, 0.65


def write_png(picture: Picture, path: str | os.PathLike[str]) -> None:
    """Draw the picture into a PNG file."""
    figure(picture).savefig(os.fspath(path), format="png")


def figure(picture: Picture) -> Any:
    """The picture as a matplotlib figure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

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
    drawn = Figure(figsize=(WIDTH, height), dpi=120, facecolor="white")
    FigureCanvasAgg(drawn)
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
            _delays(axes, picture)
        else:
            _panel(axes, picture, cell.panel)
        _time(axes, picture, cell, width)
    return drawn


def _head(drawn: Any, picture: Picture, titles: list[str], facts: list[str], height: float) -> None:
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


def _legend(mark: str) -> Any:
    from matplotlib.lines import Line2D

    style: dict[str, Any] = {
        RESULTS: {"color": BLUE, "linewidth": 2},
        ROWS: {"color": GREY, "linestyle": "", "marker": ".", "markersize": 6},
        LATE: {"color": RED, "linestyle": "", "marker": "v", "markersize": 5.5},
        CORRECTED: {"color": RED, "linestyle": "", "marker": "o", "markerfacecolor": "none", "markersize": 6.5},
    }[mark]
    return Line2D([], [], label=mark, **style)


def _panel(axes: Any, picture: Picture, panel: Panel) -> None:
    _frame(axes)
    low, high = panel.y
    rows, late = panel.rows, panel.late
    style: dict[str, Any]
    if len(rows.at):
        style = {"markersize": 5 if len(rows.at) < 200 else 3, "color": GREY, "alpha": 0.8, "clip_on": False}
        axes.plot(picture.moments(rows.at, panel.on), rows.values, ".", zorder=2, **style)
    start, end = picture.moments(panel.start, panel.on), picture.moments(panel.end, panel.on)
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
    axes.set_ylim(low, high)
    if panel.measured:
        axes.locator_params(axis="y", nbins=5 if panel_height(picture) > 2 else 3)
    name, what = heading(panel, picture)
    said = axes.annotate(
        name, (0, 1), xytext=(0, 5), xycoords="axes fraction", textcoords="offset points", fontsize=10,
        fontweight="bold", color=DARK, va="bottom",
    )  # fmt: skip
    axes.annotate(
        what, (1, 0), xytext=(7, 0), xycoords=said, textcoords="offset points", fontsize=9, color=FAINT, va="bottom",
    )  # fmt: skip
    axes.annotate(
        count(panel), (1, 1), xytext=(0, 5), xycoords="axes fraction", textcoords="offset points", fontsize=8.5,
        color=FAINT, ha="right", va="bottom",
    )  # fmt: skip


def _delays(axes: Any, picture: Picture) -> None:
    """How far rows came behind the newest one, the watermark, and the rows that were late."""
    delays = picture.delays
    assert delays is not None
    _frame(axes)
    divisor, unit = picture.lateness()
    axes.plot(
        picture.moments(delays.rows.at), delays.rows.values / divisor, ".", markersize=2.5, color=GREY, alpha=0.7,
    )  # fmt: skip
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
    said = axes.annotate(
        "delay", (0, 1), xytext=(0, 5), xycoords="axes fraction", textcoords="offset points", fontsize=10,
        fontweight="bold", color=DARK, va="bottom",
    )  # fmt: skip
    axes.annotate(
        f"of rows behind the newest one, {unit}; the line is the watermark", (1, 0), xytext=(7, 0), xycoords=said,
        textcoords="offset points", fontsize=9, color=FAINT, va="bottom",
    )  # fmt: skip


def _frame(axes: Any) -> None:
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


def _time(axes: Any, picture: Picture, cell: Cell, width: float) -> None:
    """Every panel of a kind shows the same stretch; the last one in a column has the numbers."""
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    low, high = picture.ranges[cell.on]
    axes.set_xlim(*picture.moments(np.array([low, high]), cell.on))
    if _dated(picture, cell.on):
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

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
