"""What the harness found, for people: Rich tables, JSON files, and plots.

Flows in: a workload and its points. Flows out: a table, `out/bench/<name>.json`, `out/bench/<name>.png`.
"""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.contenders import ENGINE
from bench.harness import RATE, SUM_PASS, Goal, Options, Point, Workload

#: Values that differ by more are drawn on a logarithmic axis.
_FAR_APART = 20


def figure(value: float, metric: str) -> str:
    """A number in the shape that suits its metric."""
    if metric == RATE:
        return f"{short(value / 1e6)} M/s" if value >= 1e5 else f"{value:,.0f} /s"
    if metric == "seconds":
        return f"{short(value * 1e6)} µs" if value < 1e-3 else f"{short(value * 1e3)} ms"
    return short(value)


def short(value: float) -> str:
    """Three digits that matter, never in scientific notation."""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def goal_text(goal: Goal) -> str:
    parts = []
    if goal.rows_per_s is not None:
        parts.append(f"≥ {figure(goal.rows_per_s, RATE)}")
    if goal.sum_passes is not None:
        parts.append(f"≤ {goal.sum_passes:g} passes")
    if goal.least is not None:
        parts.append(f"≥ {goal.least:g}")
    if goal.most is not None:
        parts.append(f"≤ {goal.most:g}")
    return ", ".join(parts)


def notes(point: Point) -> str:
    """What a reader must know about this figure."""
    extra = point.extra
    said = []
    if extra.get("cut"):
        said.append(f"cut after {extra['rows']:,} rows")
    if extra.get("results_per_row", 0) >= 0.01:
        said.append(f"{extra['results_per_row']:.2g} results/row")
    if extra.get("agree") is False:
        said.append("RESULTS DIFFER")
    if extra.get("busy", 1) > 1.15:
        said.append("machine busy")
    if extra.get("spread", 1) > 1.5:
        said.append(f"repeats differ {extra['spread']:.1f}x")
    if "note" in extra:
        said.append(str(extra["note"]))
    return "; ".join(said)


def table(workload: Workload, points: list[Point]) -> Table:
    """One line per point; rates also as a multiple of Panes, and as passes of numpy.sum."""
    shown = Table(title=f"{workload.name}: {workload.title}", title_justify="left", title_style="bold")
    names = list(dict.fromkeys(name for p in points for name in p.params))
    for name in names:
        shown.add_column(name)
    for column in ("contender", "metric"):
        shown.add_column(column)
    for column in ("figure", "Panes is", "sum passes", "goal"):
        shown.add_column(column, justify="right")
    shown.add_column("met")
    shown.add_column("notes", style="dim")
    engine = {_case(p): p.value for p in points if p.contender == ENGINE}
    for point in points:
        mine = engine.get(_case(point))
        ratio = ""
        if mine and point.value and point.metric == RATE and point.contender not in (ENGINE, SUM_PASS):
            ratio = (
                f"{short(mine / point.value)}x faster"
                if mine >= point.value
                else f"{short(point.value / mine)}x slower"
            )
        passes = point.extra.get("sum_passes")
        met = {None: "", True: "[green]met[/]", False: "[red]not met[/]"}[point.met]
        shown.add_row(
            *(str(point.params.get(name, "")) for name in names),
            f"[bold]{point.contender}[/]" if point.contender == ENGINE else point.contender,
            "" if point.metric == RATE else point.metric,
            figure(point.value, point.metric),
            ratio,
            short(passes) if passes else "",
            goal_text(point.goal) if point.goal else "",
            met,
            notes(point),
        )
    return shown


def _case(point: Point) -> tuple[Any, ...]:
    return point.metric, tuple(sorted((k, str(v)) for k, v in point.params.items()))


def claims(workload: Workload, points: list[Point], console: Console) -> list[dict[str, Any]]:
    """Say for each claim whether it holds here, and by which figures."""
    said = []
    for claim in workload.claims:
        try:
            holds, why = claim.check(points)
        except (KeyError, IndexError, ZeroDivisionError, StopIteration) as error:
            holds, why = False, f"the points it needs are missing ({type(error).__name__}: {error})"
        mark = "[green]holds[/]" if holds else "[red]does not hold[/]"
        console.print(f"  {claim.id} {claim.text}: {mark} ({why})", highlight=False)
        said.append({"id": claim.id, "text": claim.text, "holds": holds, "figures": why})
    return said


def save(workload: Workload, points: list[Point], said: list[dict[str, Any]], options: Options, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "workload": workload.name,
        "title": workload.title,
        "machine": {"cpu": _cpu(), "python": sys.version.split()[0], "numpy": np.__version__},
        "options": vars(options),
        "claims": said,
        "points": [p.as_json() for p in points],
    }
    (folder / f"{workload.name}.json").write_text(json.dumps(content, indent=1, default=str) + "\n", "utf-8")


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()


def plot(workload: Workload, points: list[Point], folder: Path) -> Path | None:
    """A line per contender over what is swept, or bars; one panel per metric. None without matplotlib."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        return None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    metrics = list(dict.fromkeys(p.metric for p in points))
    if not metrics:
        return None
    size = (7.5 * len(metrics), 4.5)
    drawn, panels = pyplot.subplots(1, len(metrics), figsize=size, squeeze=False, layout="constrained")
    for panel, metric in zip(panels[0], metrics):
        chosen = [p for p in points if p.metric == metric and p.value > 0]
        (_lines if workload.x else _bars)(panel, workload, chosen)
        panel.set_title(f"{workload.name}: {metric}", loc="right")  # over the labels, which leave narrow panels
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{workload.name}.png"
    drawn.savefig(path, dpi=110)
    pyplot.close(drawn)
    return path


def _lines(panel: Any, workload: Workload, points: list[Point]) -> None:
    assert workload.x is not None
    points = [p for p in points if workload.x in p.params]
    series: dict[str, list[tuple[Any, float]]] = {}
    for point in points:
        others = [str(v) for k, v in point.params.items() if k != workload.x]
        label = ", ".join([point.contender, *others])
        series.setdefault(label, []).append((point.params[workload.x], point.value))
    numeric = all(isinstance(x, (int, float)) for line in series.values() for x, _ in line)
    for label, line in series.items():
        line = sorted(line) if numeric else line
        heavy = label.startswith(ENGINE)
        panel.plot(*zip(*line), marker="o", label=label, linewidth=2.5 if heavy else 1)
    if numeric and min((x for line in series.values() for x, _ in line), default=0) > 0:
        panel.set_xscale("log")
        _plain_numbers(panel.xaxis)
    panel.set_yscale("log")
    _plain_numbers(panel.yaxis)
    panel.set_xlabel(workload.x)
    if series:
        panel.legend(fontsize=7)
    panel.grid(alpha=0.3)


def _bars(panel: Any, workload: Workload, points: list[Point]) -> None:
    if not points:
        return
    labels = [", ".join([p.contender, *(_said(k, v) for k, v in p.params.items())]) for p in points]
    colours = ["tab:orange" if p.contender.startswith(ENGINE) else "tab:blue" for p in points]
    places, values = range(len(points)), [p.value for p in points]
    if max(values) < _FAR_APART * min(values):
        panel.barh(places, values, color=colours)
        panel.set_xlim(0, max(values) * 1.25)  # room for the numbers
    else:  # a bar has no length on an axis without zero
        panel.scatter(values, places, color=colours, s=70)
        panel.set_xscale("log")
        panel.set_xlim(min(values) / 2, max(values) * 6)
    _plain_numbers(panel.xaxis)
    for place, point in zip(places, points):
        said = figure(point.value, point.metric)
        panel.annotate(said, (point.value, place), xytext=(7, -3), textcoords="offset points", fontsize=7)
    panel.set_yticks(places, labels, fontsize=7)
    panel.invert_yaxis()
    panel.grid(alpha=0.3, axis="x")


def _said(name: str, value: Any) -> str:
    return f"{value:,} {name}" if isinstance(value, (int, float)) else str(value)


def _plain_numbers(axis: Any) -> None:
    """0.2 and 1,000,000, not powers of ten; on a logarithmic axis 1, 2 and 5 of each decade if these are few."""
    from matplotlib import ticker

    if axis.get_scale() == "log":
        low, high = axis.get_view_interval()
        axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,), numticks=12))
        axis.set_minor_formatter(ticker.NullFormatter())
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_tick_params(labelsize=7)
