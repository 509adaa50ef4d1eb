"""The picture of a run as a page to zoom and hover in, through plotly. One file, no network."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from panes.runners.local.plot_data import Lane, Picture
from panes.runners.local.plot_png import COLOURS, GREY, LATE, shortened


def figure(picture: Picture) -> Any:
    """The picture as a plotly figure."""
    from plotly.subplots import make_subplots

    lanes = picture.lanes
    heights = [3.2 if picture.trace is not None else 0.02, 0.5, *(0.7 + 0.22 * lane.levels for lane in lanes)]
    grid = make_subplots(
        rows=len(heights),
        cols=2,
        row_heights=heights,
        column_widths=[0.54, 0.46],
        vertical_spacing=0.12 / len(heights),
        horizontal_spacing=0.04,
        specs=[[{"colspan": 2}, None], *[[{}, {}] for _ in heights[1:]]],
    )
    _disorder(grid, picture)
    _slices(grid, picture)
    for i, lane in enumerate(lanes):
        colour = COLOURS[i % len(COLOURS)]
        _bars(grid, picture, lane, i + 3, colour)
        _line(grid, picture, lane, i + 3, colour)
    _axes(grid, picture, len(heights))
    notes = "; ".join(picture.notes)
    grid.update_layout(
        title={
            "text": f"<b>{picture.title}</b><br><sub>{notes}</sub>",
            "x": 0.01,
            "y": 0.985,
            "yref": "container",
            "yanchor": "top",
        },
        template="plotly_white",
        height=190 + int(62 * sum(heights)),
        margin={"l": 190, "r": 50, "t": 130, "b": 40},
        legend={
            "orientation": "h",
            "y": 0.995,
            "yref": "container",
            "yanchor": "top",
            "x": 0.8,
            "xanchor": "right",
        },
        bargap=0.1,
    )
    return grid


def write_html(picture: Picture, path: str | os.PathLike[str]) -> None:
    """Write the picture as one HTML file that needs nothing else."""
    figure(picture).write_html(os.fspath(path), include_plotlyjs=True, full_html=True)


def _disorder(grid: Any, picture: Picture) -> None:
    trace = picture.trace
    if trace is None:
        return
    times, delays = trace.sample()
    grid.add_scattergl(
        x=picture.moments(times),
        y=picture.seconds(delays),
        mode="markers",
        marker={"size": 3, "color": GREY},
        name=f"rows ({len(times):,} of {trace.rows:,} drawn)",
        row=1,
        col=1,
    )
    at, lag = trace.lag()
    if len(at):
        grid.add_scatter(
            x=picture.moments(at),
            y=picture.seconds(lag),
            mode="lines",
            line={"color": "#202124", "width": 1.5},
            name="watermark",
            row=1,
            col=1,
        )
    late, behind = trace.late()
    if len(late):
        more = f" ({len(late):,} drawn)" if len(late) < trace.late_rows else ""
        grid.add_scattergl(
            x=picture.moments(late),
            y=picture.seconds(behind),
            mode="markers",
            name=f"late rows: {trace.late_rows:,}{more}",
            marker={"size": 7, "color": LATE, "symbol": "triangle-down"},
            row=1,
            col=1,
        )
    low, high = picture.moments(np.array(picture.extract))
    grid.add_vrect(x0=low, x1=high, fillcolor=COLOURS[0], opacity=0.1, line_width=0, row=1, col=1)


def _slices(grid: Any, picture: Picture) -> None:
    x, y = _strokes(picture.moments(picture.slices))
    grid.add_scatter(
        x=x,
        y=y,
        mode="lines",
        line={"color": "#202124", "width": 1},
        hoverinfo="x",
        showlegend=False,
        row=2,
        col=1,
    )


def _strokes(at: np.ndarray) -> tuple[list[Any], list[Any]]:
    """Vertical strokes as one line with gaps: hundreds of single shapes would make the page slow."""
    x: list[Any] = []
    y: list[Any] = []
    for moment in at:
        x += [moment, moment, None]
        y += [0, 1, None]
    return x, y


def _bars(grid: Any, picture: Picture, lane: Lane, row: int, colour: str) -> None:
    """Bars as filled outlines; hovering tells which window it is, a red frame that it was corrected."""
    for corrected, frame in ((False, "white"), (True, LATE)):
        chosen = np.flatnonzero(lane.corrected == corrected)
        x: list[Any] = []
        y: list[Any] = []
        text: list[Any] = []
        starts, ends = picture.moments(lane.start[chosen]), picture.moments(lane.end[chosen])
        for start, end, level in zip(starts, ends, lane.level[chosen].tolist(), strict=True):
            x += [start, end, end, start, start, None]
            y += [-level - 0.4, -level - 0.4, -level + 0.4, -level + 0.4, -level - 0.4, None]
            text += [f"{lane.label} [{start}, {end}){', corrected' if corrected else ''}"] * 6
        grid.add_scatter(
            x=x,
            y=y,
            mode="lines",
            fill="toself",
            fillcolor=colour,
            line={"color": frame, "width": 1},
            text=text,
            hoverinfo="text",
            hoveron="points+fills",
            name=lane.label,
            showlegend=False,
            row=row,
            col=1,
        )


def _line(grid: Any, picture: Picture, lane: Lane, row: int, colour: str) -> None:
    mode = "lines+markers" if len(lane.at) <= 60 else "lines"
    grid.add_scatter(
        x=picture.moments(lane.at),
        y=lane.values,
        mode=mode,
        line={"color": colour, "width": 1.3},
        marker={"size": 4},
        name=f"{picture.output} of {lane.label}",
        showlegend=False,
        row=row,
        col=2,
    )
    low, high = picture.moments(np.array(picture.extract))
    grid.add_vrect(x0=low, x1=high, fillcolor=COLOURS[0], opacity=0.1, line_width=0, row=row, col=2)


def _axes(grid: Any, picture: Picture, rows: int) -> None:
    """Columns share their time axis; labels stand at the left, numbers at the right."""
    whole = list(picture.moments(np.array(picture.whole)))
    extract = list(picture.moments(np.array(picture.extract)))
    grid.update_xaxes(range=whole, side="top", row=1, col=1)
    grid.update_yaxes(title_text=f"behind the newest<br>row, {picture.unit}", rangemode="tozero", row=1, col=1)
    left, right = grid.get_subplot(2, 1).xaxis.plotly_name, grid.get_subplot(2, 2).xaxis.plotly_name
    for row in range(2, rows + 1):
        last = row == rows
        grid.update_xaxes(range=extract, matches=left.replace("axis", ""), showticklabels=last, row=row, col=1)
        grid.update_xaxes(range=whole, matches=right.replace("axis", ""), showticklabels=last, row=row, col=2)
        if row > 2:
            lane = picture.lanes[row - 3]
            grid.update_yaxes(range=[-lane.levels + 0.4, 0.6], showticklabels=False, showgrid=False, row=row, col=1)
            grid.update_yaxes(side="right", nticks=4, tickfont={"size": 9}, row=row, col=2)
            small = "<br>".join(part for part in (shortened(lane.spec), lane.note) if part)
            _label(grid, f"{lane.label}<br><span style='font-size:10px'>{small}</span>", row)
    grid.update_yaxes(range=[0, 1], showticklabels=False, showgrid=False, row=2, col=1)
    grid.update_yaxes(visible=False, row=2, col=2)
    grid.update_xaxes(visible=False, row=2, col=2)
    _label(grid, "slices", 2)
    if picture.output:
        at = grid.get_subplot(2, 2).xaxis.domain[0]
        y = grid.get_subplot(2, 2).yaxis.domain[0]
        heading = f"{picture.output} of all windows, at their ends"
        grid.add_annotation(
            text=heading,
            x=at,
            y=y,
            xref="paper",
            yref="paper",
            xanchor="left",
            yanchor="bottom",
            showarrow=False,
        )


def _label(grid: Any, text: str, row: int) -> None:
    low, high = grid.get_subplot(row, 1).yaxis.domain
    grid.add_annotation(
        text=text,
        x=0,
        y=(low + high) / 2,
        xref="paper",
        yref="paper",
        xanchor="right",
        yanchor="middle",
        xshift=-8,
        showarrow=False,
        align="right",
        font={"size": 12},
    )
