"""The picture of a run as an image, through matplotlib."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from panes.runners.local.plot_data import Lane, Picture

COLOURS = (
    "#3b6fb6",
    "#d1793b",
    "#4c9a5b",
    "#b64b4b",
    "#7d62a8",
    "#8a6d4f",
    "#c267a0",
    "#6b7280",
    "#9a9a3c",
    "#3a9fb0",
)
LATE = "#c62828"
GREY = "#9aa0a6"


def write_png(picture: Picture, path: str | os.PathLike[str]) -> None:
    """Draw the picture into a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    heights = [
        1.5 if picture.trace is not None else 0.01,
        0.32,
        *(0.34 + 0.1 * lane.levels for lane in picture.lanes),
    ]
    figure = Figure(figsize=(15, 1.9 + sum(heights) * 1.12), dpi=110)
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(
        len(heights),
        2,
        height_ratios=heights,
        width_ratios=(1.15, 1),
        hspace=0.14,
        wspace=0.06,
        left=0.15,
        right=0.955,
        bottom=0.75 / figure.get_figheight(),
        top=1 - 0.75 / figure.get_figheight(),
    )
    top = figure.add_subplot(grid[0, :])
    _disorder(top, picture)
    left = figure.add_subplot(grid[1, 0])
    _slices(left, picture)
    blank = figure.add_subplot(grid[1, 1])
    blank.set_axis_off()
    heading = f"{picture.output} of all windows, at their ends" if picture.output else ""
    blank.text(0.0, 0.1, heading, fontsize=9.5, transform=blank.transAxes)
    right = None
    for i, lane in enumerate(picture.lanes):
        colour = COLOURS[i % len(COLOURS)]
        bars = figure.add_subplot(grid[i + 2, 0], sharex=left)
        _bars(bars, picture, lane, colour)
        line = figure.add_subplot(grid[i + 2, 1], sharex=right)
        right = right or line
        _line(line, picture, lane, colour)
        last = i == len(picture.lanes) - 1
        for axes in (bars, line):
            axes.tick_params(labelbottom=last, labelsize=8)
    left.tick_params(labelbottom=False)
    for axes in (top, left, *([] if right is None else [right])):
        _short_dates(axes, picture)
    if right is not None:
        right.set_xlim(*picture.moments(np.array(picture.whole)))
    left.set_xlim(*picture.moments(np.array(picture.extract)))
    figure.text(0.012, 1 - 0.3 / figure.get_figheight(), picture.title, fontsize=13, fontweight="bold")
    figure.text(0.012, 0.012, "; ".join(picture.notes), fontsize=8.5, color="#444444")
    figure.savefig(os.fspath(path), format="png")


def _disorder(axes: Any, picture: Picture) -> None:
    """How far rows came behind the newest one, the watermark, and the rows that were late."""
    trace = picture.trace
    if trace is None:
        axes.set_axis_off()
        return
    times, delays = trace.sample()
    axes.plot(
        picture.moments(times),
        picture.seconds(delays),
        ".",
        markersize=2,
        color=GREY,
        rasterized=True,
        label=f"rows ({len(times):,} of {trace.rows:,} drawn)",
    )
    at, lag = trace.lag()
    if len(at):
        axes.plot(picture.moments(at), picture.seconds(lag), color="#202124", linewidth=1.2, label="watermark")
    late, behind = trace.late()
    more = f" ({len(late):,} of {trace.late_rows:,} drawn)" if len(late) < trace.late_rows else ""
    if len(late):
        axes.plot(
            picture.moments(late),
            picture.seconds(behind),
            "v",
            markersize=4.5,
            color=LATE,
            label=f"late rows: {trace.late_rows:,}{more}",
        )
    low, high = picture.moments(np.array(picture.extract))
    axes.axvspan(low, high, color="#3b6fb6", alpha=0.10, linewidth=0, label="extract below")
    axes.set_xlim(*picture.moments(np.array(picture.whole)))
    axes.set_ylabel(f"behind the\nnewest row, {picture.unit}", fontsize=8.5)
    axes.tick_params(labelsize=8)
    axes.xaxis.tick_top()
    axes.legend(loc="upper left", ncols=4, fontsize=8, framealpha=0.9, borderaxespad=0.3)
    axes.set_ylim(bottom=0, top=max(axes.get_ylim()[1] * 1.3, 1e-9))


def _slices(axes: Any, picture: Picture) -> None:
    edges = picture.moments(picture.slices)
    axes.vlines(edges, 0, 1, color="#202124", linewidth=0.7)
    axes.set_ylim(0, 1)
    axes.set_yticks([])
    axes.set_ylabel("slices", rotation=0, ha="right", va="center", fontsize=9)


def _bars(axes: Any, picture: Picture, lane: Lane, colour: str) -> None:
    """The windows of a lane as bars; a corrected one has a dark frame."""
    start, end = picture.moments(lane.start), picture.moments(lane.end)
    if len(start):
        frames = [LATE if c else "white" for c in lane.corrected.tolist()]
        axes.barh(
            -lane.level,
            end - start,
            left=start,
            height=0.8,
            color=colour,
            alpha=0.85,
            edgecolor=frames,
            linewidth=1.2,
        )
    axes.set_ylim(-lane.levels + 0.4, 0.6)
    axes.set_yticks([])
    axes.set_ylabel(
        f"{lane.label}\n{shortened(lane.spec)}", rotation=0, ha="right", va="center", fontsize=8.5, labelpad=6
    )
    if lane.note:
        axes.text(
            0.995,
            0.93,
            lane.note,
            ha="right",
            va="top",
            fontsize=7,
            transform=axes.transAxes,
            color="#444444",
            bbox={"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 1},
        )
    edges = picture.moments(picture.slices)
    axes.vlines(edges, 0, 1, transform=axes.get_xaxis_transform(), color="#202124", alpha=0.07, linewidth=0.5)


def _line(axes: Any, picture: Picture, lane: Lane, colour: str) -> None:
    at = picture.moments(lane.at)
    few = len(lane.at) <= 60
    axes.plot(at, lane.values, color=colour, linewidth=1, marker="o" if few else None, markersize=2.5)
    axes.axvspan(*picture.moments(np.array(picture.extract)), color="#3b6fb6", alpha=0.10, linewidth=0)
    axes.yaxis.tick_right()
    axes.tick_params(axis="y", labelsize=7)
    axes.locator_params(axis="y", nbins=3)
    axes.text(
        0.005,
        0.93,
        f"{lane.windows:,} windows",
        ha="left",
        va="top",
        fontsize=7,
        transform=axes.transAxes,
        color="#444444",
    )


def _short_dates(axes: Any, picture: Picture) -> None:
    """Hours where hours differ, dates where dates differ."""
    if picture.domain.integer:
        return
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator()
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def shortened(text: str) -> str:
    return text if len(text) <= 34 else text[:31] + "..."
