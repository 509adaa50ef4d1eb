"""The picture of a run as a page to zoom and hover in, through plotly. One file, no network."""

from __future__ import annotations

import html
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
    panel_height,
    title_lines,
)

PIXELS = 80  # per inch of the image
DELAYS = 1.25


def write_html(picture: Picture, path: str | os.PathLike[str]) -> None:
    """Write the picture as one HTML file that needs nothing else."""
    figure(picture).write_html(os.fspath(path), include_plotlyjs=True, full_html=True)


def figure(picture: Picture) -> Any:
    """The picture as a plotly figure."""
    from plotly.subplots import make_subplots

    placed = cells(picture)
    rows, columns = 1 + max(cell.row for cell in placed), picture.columns
    specs: list[list[Any]] = [[None] * columns for _ in range(rows)]
    heights = [0.0] * rows
    below = [0.0] * rows
    for cell in placed:
        specs[cell.row][cell.column] = {"colspan": columns} if cell.panel is None else {}
        heights[cell.row] = (DELAYS if cell.panel is None else panel_height(picture)) * PIXELS
        titled = 18 if picture.axis_title(cell.on) else 0
        below[cell.row] = max(below[cell.row], 40 + titled if cell.labelled else 8)
    titles, facts = title_lines(picture), fact_lines(picture)
    head = 52 + 26 * len(titles) + 18 * len(facts)
    above = 26
    inner = sum(heights) + above * (rows - 1) + sum(below[:-1])
    grid = make_subplots(rows=rows, cols=columns, specs=specs, horizontal_spacing=0.06)
    top = 0.0
    for i in range(rows):
        for cell in (c for c in placed if c.row == i):
            axis = grid.get_subplot(i + 1, cell.column + 1)
            axis.yaxis.domain = (max(0.0, 1 - (top + heights[i]) / inner), min(1.0, 1 - top / inner))
        top += heights[i] + below[i] + above
    shown: set[str] = set()
    for cell in placed:
        _draw(grid, picture, cell, shown)
    said = "<br>".join(f"<b>{_escaped(line)}</b>" for line in titles)
    small = "<br>".join(_escaped(line) for line in facts)
    said += f"<br><span style='font-size:12px;color:{FAINT}'>{small}</span>" if small else ""
    grid.update_layout(
        title={"text": said, "x": 0, "xref": "paper", "y": 1, "yref": "container", "yanchor": "top",
               "pad": {"t": 18}, "font": {"size": 18, "color": DARK}},
        template="plotly_white",
        height=head + above + int(inner + below[-1]) + 12,
        margin={"l": 70, "r": 30, "t": head + above, "b": int(below[-1]) + 12},
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": 1 + (above + 4) / inner, "yanchor": "bottom"},
        font={"color": FAINT, "size": 11},
        hovermode="closest",
    )  # fmt: skip
    return grid


def _draw(grid: Any, picture: Picture, cell: Cell, shown: set[str]) -> None:
    place = {"row": cell.row + 1, "col": cell.column + 1}
    if cell.panel is None:
        _delays(grid, picture, place, shown)
        _, unit = picture.lateness()
        _heading(grid, cell, "delay", f"of rows behind the newest one, {unit}; the line is the watermark", "")
        grid.update_yaxes(rangemode="tozero", nticks=4, **place)
    else:
        _panel(grid, picture, cell.panel, place, shown)
        name, what = heading(cell.panel, picture)
        _heading(grid, cell, name, what, count(cell.panel))
        grid.update_yaxes(range=list(cell.panel.y), nticks=5, showticklabels=cell.panel.measured, **place)
    low_high = picture.moments(np.array(picture.ranges[cell.on]), cell.on)
    first = next(c for c in cells(picture) if c.on == cell.on)
    shared = grid.get_subplot(first.row + 1, first.column + 1).xaxis.plotly_name.replace("axis", "")
    grid.update_xaxes(
        range=_plain(low_high), matches=shared, showticklabels=cell.labelled, showgrid=False, linecolor=GREY,
        ticks="outside", tickcolor=GREY, title={"text": picture.axis_title(cell.on) if cell.labelled else ""}, **place,
    )  # fmt: skip
    grid.update_yaxes(gridcolor="#e4e6e9", zeroline=False, **place)


def _panel(grid: Any, picture: Picture, panel: Panel, place: dict[str, int], shown: set[str]) -> None:
    rows, late = panel.rows, panel.late
    if len(rows.at):
        marker = {"size": 5, "color": GREY}
        _points(grid, picture.moments(rows.at, panel.on), rows.values, ROWS, marker, place, shown)
    start, end = picture.moments(panel.start, panel.on), picture.moments(panel.end, panel.on)
    text = [
        f"{_escaped(panel.label)} [{a}, {b})" + (f"<br>{panel.output} {v:,.10g}" if panel.measured else "")
        for a, b, v in zip(start, end, panel.values.tolist(), strict=True)
    ]
    if len(end):
        if panel.spans:
            x, y, words = _outline(start, end, panel, text)
            filled = panel.y[0] == 0 or not panel.measured
            grid.add_scatter(
                x=x, y=y, mode="lines", fill="toself" if filled else "none", fillcolor=FILL,
                line={"color": BLUE, "width": 1.2 if filled else 1.8}, text=words, hoverinfo="text",
                **_legend(RESULTS, shown), **place,
            )  # fmt: skip
        else:
            at, heights = panel.line
            words = np.insert(np.array(text, object), panel.gaps, "").tolist()
            mode = "lines+markers" if len(end) <= 80 else "lines"
            grid.add_scatter(
                x=_plain(picture.moments(at, panel.on)), y=heights, mode=mode, line={"color": BLUE, "width": 1.6},
                marker={"size": 5}, text=words, hoverinfo="text", **_legend(RESULTS, shown), **place,
            )  # fmt: skip
    if panel.corrected.any():
        middle = (start + (end - start) / 2 if panel.spans else end)[panel.corrected]
        ring = {"size": 10, "color": RED, "symbol": "circle-open", "line": {"width": 1.5}}
        _points(grid, middle, panel.values[panel.corrected], CORRECTED, ring, place, shown)
    if len(late.at):
        _points(grid, picture.moments(late.at), late.values, LATE, _triangle(len(late.at)), place, shown)


def _outline(start: Any, end: Any, panel: Panel, text: list[str]) -> tuple[list[Any], list[Any], list[str]]:
    """Spans as one line with gaps: along the tops of windows that touch, and down to the ground where it is zero."""
    x: list[Any] = []
    y: list[Any] = []
    words: list[str] = []

    def to(at: Any, height: Any, said: str) -> None:
        x.append(at)
        y.append(height)
        words.append(said)

    before, ground = None, panel.y[0] == 0
    for a, b, value, said in zip(_plain(start), _plain(end), panel.values.tolist(), text, strict=True):
        if not panel.measured:
            for at, height in ((a, -0.4), (a, 0.4), (b, 0.4), (b, -0.4), (a, -0.4)):
                to(at, value + height, said)
            to(None, None, "")
            continue
        if before is not None and before != a:
            if ground:
                to(before, 0, "")
            to(None, None, "")
        if ground and before != a:
            to(a, 0, said)
        to(a, value, said)
        to(b, value, said)
        before = b
    if before is not None and ground:
        to(before, 0, "")
    return x, y, words


def _escaped(text: str) -> str:
    """Plotly reads tags, and leaves the entities of quotes as they are."""
    return html.escape(text, quote=False)


def _delays(grid: Any, picture: Picture, place: dict[str, int], shown: set[str]) -> None:
    delays = picture.delays
    assert delays is not None
    divisor, _ = picture.lateness()
    _points(
        grid,
        picture.moments(delays.rows.at),
        delays.rows.values / divisor,
        ROWS,
        {"size": 3, "color": GREY},
        place,
        shown,
    )
    if len(delays.watermark.at):
        grid.add_scatter(
            x=_plain(picture.moments(delays.watermark.at)), y=delays.watermark.values / divisor, mode="lines",
            line={"color": DARK, "width": 1.2}, name="watermark", showlegend=False, hoverinfo="name", **place,
        )  # fmt: skip
    if len(delays.late.at):
        marker = _triangle(len(delays.late.at))
        _points(grid, picture.moments(delays.late.at), delays.late.values / divisor, LATE, marker, place, shown)


def _triangle(marks: int) -> dict[str, Any]:
    size, opacity = (8, 1.0) if marks <= 60 else (5, 0.6)
    return {"size": size, "color": RED, "symbol": "triangle-down", "opacity": opacity}


def _points(
    grid: Any, x: Any, y: Any, mark: str, marker: dict[str, Any], place: dict[str, int], shown: set[str]
) -> None:
    style = {"mode": "markers", "marker": marker, "cliponaxis": False, "hoverinfo": "x+y"}
    grid.add_scatter(x=_plain(x), y=y, **style, **_legend(mark, shown), **place)


def _legend(mark: str, shown: set[str]) -> dict[str, Any]:
    """A name in the legend once, however many panels have such marks."""
    first = mark not in shown
    shown.add(mark)
    return {"name": mark, "legendgroup": mark, "showlegend": first}


def _heading(grid: Any, cell: Cell, name: str, what: str, right: str) -> None:
    subplot = grid.get_subplot(cell.row + 1, cell.column + 1)
    left_edge, right_edge = subplot.xaxis.domain
    common = {"y": subplot.yaxis.domain[1], "xref": "paper", "yref": "paper", "yanchor": "bottom", "showarrow": False}
    said = f"<b style='color:{DARK}'>{_escaped(name)}</b>  {_escaped(what)}"
    grid.add_annotation(text=said, x=left_edge, xanchor="left", font={"size": 12}, **common)
    if right:
        grid.add_annotation(text=right, x=right_edge, xanchor="right", font={"size": 11}, **common)


def _plain(values: Any) -> list[Any]:
    """Dates as text, which is read the same everywhere; numbers as they are."""
    values = np.asarray(values)
    return [str(v) for v in values] if values.dtype.kind == "M" else values.tolist()
