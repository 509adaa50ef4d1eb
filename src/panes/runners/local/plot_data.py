"""Chooses what a picture of a run shows, as plain arrays; `plot_figure.py` says how it looks.

In: the results of a run and its trace. Out: a `Picture`: a panel per window with its results over time (or over row
numbers, or over the column that it counts in), rows behind them where they are few, late rows, and how late they came.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panes.errors import QueryError
from panes.plan.query import QueryPlan
from panes.runners.local.trace import DELAY, TIME, Trace
from panes.units import TimeDomain

#: What still can be read in a picture.
MAX_PANELS = 24
MAX_OUTPUTS = 6
MAX_SPANS = 300
MAX_POINTS = 1_500
MAX_ROWS = 1_500
MAX_LEVELS = 12
#: Windows are short if so many of them fill the time that is shown.
_FINE = 12

Array = np.ndarray
#: Where a panel lies: on the time of the stream, on row numbers, or on the column of that name.
ON_TIME, ON_ROWS = "time", "row"
#: With more panels than this there are two beside each other.
ONE_COLUMN = 8
#: A line breaks where ends of windows are so many times further apart than usual.
_GAP = 4


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


def picture(plan: QueryPlan, results: pa.Table, trace: Trace | None, late: int) -> Picture:
    """Choose what to show of a run. `late`: how many rows no result uses."""
    everything = results
    key, whose = _one_key(plan, results)
    if key is not None:
        results = _of_key(results, key)
    newest = trace.newest if trace is not None else None
    given = {label: _windows(plan, results, label, newest) for label, _ in plan.windows}
    facts = _counts(everything, results, trace, late, whose)
    labels, outputs = _chosen(plan, results, given, facts)
    panels = [
        panel
        for label in labels
        for output in outputs or [""]
        if (panel := _panel(plan, given[label], label, output)) is not None
    ]
    seen = None if trace is None or trace.sample() is None else trace
    rows = _few_rows(trace, key, plan)
    late_rows = _late_rows(trace, key)
    panels = [_with_rows(panel, plan, rows, late_rows) for panel in panels]
    if not any(len(panel.rows.at) for panel in panels) and outputs:
        panels = [*_only_rows(plan, outputs[0], rows, late_rows), *panels]
    delays = None if seen is None else _delays(seen)
    if not panels and delays is None:
        raise QueryError("plot: the query gave no windows, so there is nothing to draw")
    # panels on time stand together, so that they share an axis
    panels.sort(key=lambda panel: panel.on != ON_TIME)
    domain = plan.stream.domain
    second = 1 if domain.integer else max(1, round(1e9 / domain.nanos_per_tick))
    ranges = {
        on: _range([p for p in panels if p.on == on], seen if on == ON_TIME else None, second) for on in _axes(panels)
    }
    if seen is not None and ON_TIME not in ranges:
        ranges[ON_TIME] = _range([], seen, second)
    if not domain.integer and ON_TIME in ranges:
        facts.append("times in UTC")
    return Picture(
        domain,
        _title(plan, outputs, len(labels)),
        tuple(facts),
        tuple(_clipped(panel, ranges[panel.on]) for panel in panels),
        delays,
        ranges,
    )


def _axes(panels: list[Panel]) -> list[str]:
    return list(dict.fromkeys(panel.on for panel in panels))


def _title(plan: QueryPlan, outputs: list[str], windows: int) -> str:
    written = {name: said for each in plan.aggregations for name, said in each.written.items()}
    named = []
    for name in outputs or list(written):
        said = written.get(name, name)
        named.append(name if said == name else f"{name} = {said}")
    over = str(plan.windows[0][1]) if len(plan.windows) == 1 else f"{len(plan.windows)} windows"
    return f"{', '.join(named)} over {over}"


def _counts(everything: pa.Table, results: pa.Table, trace: Trace | None, late: int, whose: str) -> list[str]:
    facts = [whose] if whose else []
    if trace is not None:
        facts.append(_many(trace.rows, "row") + (f", {trace.late_rows:,} of them late" if trace.late_rows else ""))
    if late:
        facts.append(f"{_many(late, 'row')} in no result")
    if "void" in results.column_names:
        voids = int(pc.sum(results["void"]).as_py() or 0)
        corrected = int((results["revision"].to_numpy() > 0).sum()) - voids
        facts += [_many(corrected, "correction")] * bool(corrected)
        facts += [f"{_many(voids, 'window')} withdrawn"] * bool(voids)
    return facts


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}" + "s" * (number != 1)


def _chosen(
    plan: QueryPlan, results: pa.Table, given: dict[str, _Windows], facts: list[str]
) -> tuple[list[str], list[str]]:
    """Which windows and outputs there is room for."""
    every = dict.fromkeys(name for each in plan.aggregations for name in each.outputs)
    outputs = [name for name in every if _is_number(results.schema.field(name).type)]
    if not outputs:
        facts.append("no output is a number, so windows are drawn without results")
    labels = [label for label, windows in given.items() if len(windows.end)]
    if idle := len(given) - len(labels):
        facts.append(f"{idle} of {len(given)} windows gave no results")
    if len(labels) * len(outputs) > MAX_OUTPUTS:
        most = 1 if len(labels) > 1 else MAX_OUTPUTS
        facts += [f"{most} of {len(outputs)} outputs drawn"] * (len(outputs) > most)
        outputs = outputs[:most]
    if len(labels) > MAX_PANELS:
        facts.append(f"{MAX_PANELS} of {len(labels)} windows drawn")
        labels = labels[:MAX_PANELS]
    return labels, outputs


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def _one_key(plan: QueryPlan, results: pa.Table) -> tuple[dict[str, object] | None, str]:
    """The key that has most results: the windows of several keys would hide each other."""
    keys = list(plan.stream.keys)
    if not keys or not results.num_rows:
        return None, ""
    counts = results.group_by(keys, use_threads=False).aggregate([([], "count_all")])
    most = counts.take([int(np.argmax(counts["count_all"].to_numpy()))]).select(keys).to_pylist()[0]
    named = ", ".join(f"{key} {most[key]}" for key in keys)
    return most, named + (f", one of {counts.num_rows:,} keys" if counts.num_rows > 1 else "")


def _of_key(table: pa.Table, key: dict[str, object]) -> pa.Table:
    mask: Array = np.ones(table.num_rows, bool)
    for name, value in key.items():
        column = table[name]
        same = pc.is_null(column) if value is None else pc.fill_null(pc.equal(column, value), False)
        mask &= np.asarray(same.to_numpy(zero_copy_only=False) if isinstance(same, pa.Array) else same.to_numpy())
    return table.filter(pa.array(mask))


@dataclass(frozen=True)
class _Windows:
    """The windows of a label that count in the end, in order of their ends."""

    on: str
    start: Array
    end: Array
    corrected: Array
    table: pa.Table


def _windows(plan: QueryPlan, results: pa.Table, label: str, newest: int | None) -> _Windows:
    """Of each window the result that was given last; none if that withdrew it."""
    rows = results.filter(pc.fill_null(pc.equal(results["window"], label), False))
    on, start, end = _extent(plan, rows, label, newest)
    revision = rows["revision"].to_numpy()
    order = np.lexsort((revision, start, end))
    s, e = start[order], end[order]
    last = np.ones(len(order), bool)
    last[:-1] = (s[1:] != s[:-1]) | (e[1:] != e[:-1])
    keep = order[last]
    if "void" in rows.column_names:
        keep = keep[~rows["void"].to_numpy()[keep].astype(bool)]
    return _Windows(on, start[keep], end[keep], revision[keep] > 0, rows.take(keep))


def _extent(plan: QueryPlan, rows: pa.Table, label: str, newest: int | None) -> tuple[str, Array, Array]:
    """Where windows lie: in time if their ends are there, else on row numbers or on the column they count in."""
    if rows.num_rows and rows["window_end"].null_count == rows.num_rows and "window_to" in rows.column_names:
        start, _ = _ticks(rows["window_from"])
        end, known = _ticks(rows["window_to"])
        measure = dict(plan.bound)[label].measure
        if known.any():
            return (measure.column or ON_ROWS), start, np.where(known, end, start)
    start, known = _ticks(rows["window_start"])
    end, closed = _ticks(rows["window_end"])
    last = max((int(v[k].max()) for v, k in ((start, known), (end, closed)) if k.any()), default=0)
    end = np.where(closed, end, last if newest is None else max(last, newest))  # still open
    return ON_TIME, np.where(known, start, end), end


def _ticks(column: pa.ChunkedArray) -> tuple[Array, Array]:
    """Numbers, and which of them are there."""
    known = pc.is_valid(column).to_numpy().astype(bool)
    if pa.types.is_timestamp(column.type):
        column = pc.cast(column, pa.int64())
    if not pa.types.is_integer(column.type):
        column = pc.cast(column, pa.float64(), safe=False)
    return pc.fill_null(column, 0).to_numpy(), known


def _panel(plan: QueryPlan, windows: _Windows, label: str, output: str) -> Panel | None:
    start, end, corrected = windows.start, windows.end, windows.corrected
    spec = str(dict(plan.windows)[label])
    apart = _apart(start, end)
    if not output:
        by_start = np.lexsort((end, start))[:MAX_POINTS]
        level = _stack(start[by_start], end[by_start])
        shown = by_start[level < MAX_LEVELS]
        level = -level[level < MAX_LEVELS].astype(float)
        y = (float(level.min(initial=0)) - 0.6, 0.6)
        return Panel(label, spec, "", windows.on, start[shown], end[shown], level, corrected[shown], True, y, len(end))
    values = pc.cast(windows.table[output], pa.float64(), safe=False).to_numpy().astype(np.float64)
    spans = apart and len(end) <= MAX_SPANS
    drawn = np.arange(len(end)) if spans else _thin(values)
    return Panel(
        label, spec, output, windows.on, start[drawn], end[drawn], values[drawn], corrected[drawn], spans,
        _heights(values), len(end),
    )  # fmt: skip


def _apart(start: Array, end: Array) -> bool:
    order = np.argsort(start, kind="stable")
    return bool((start[order][1:] >= end[order][:-1]).all())


def _thin(values: Array) -> Array:
    """Which of many values a line goes through: the least and the greatest of each stretch, so no peak is lost."""
    n = len(values)
    if n <= MAX_POINTS:
        return np.arange(n)
    edges = np.linspace(0, n, MAX_POINTS // 2 + 1).astype(int)[:-1]
    firsts = np.append(edges, n)
    filled = np.where(np.isfinite(values), values, 0.0)
    chosen = [0, n - 1]
    for low, high in zip(firsts[:-1].tolist(), firsts[1:].tolist(), strict=True):
        chosen += [low + int(filled[low:high].argmin()), low + int(filled[low:high].argmax())]
    return np.unique(chosen)


def _heights(values: Array, rows: Array | None = None) -> tuple[float, float]:
    """The heights a panel shows; from zero where the values are not far from it."""
    known = values if rows is None else np.concatenate((values, rows))
    known = known[np.isfinite(known)]
    if not known.any():  # none, or all zero
        return 0.0, 1.0
    low, high = float(known.min()), float(known.max())
    if 0 <= low <= 0.4 * high:
        return 0.0, high * 1.1
    if low == high:
        return low - 0.5 - abs(low) * 0.1, high + 0.5 + abs(high) * 0.1
    return low - 0.1 * (high - low), high + 0.1 * (high - low)


def _stack(start: Array, end: Array) -> Array:
    """Levels for bars so that none hides another: each takes the first that is free."""
    free: list[float] = []
    level = np.zeros(len(start), np.int64)
    for i, (s, e) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        row = next((r for r, until in enumerate(free) if until <= s), len(free))
        if row == len(free):
            free.append(e)
        free[row] = e
        level[i] = row
    return level


def _few_rows(trace: Trace | None, key: dict[str, object] | None, plan: QueryPlan) -> pa.Table | None:
    """The rows of the run, of the key that is drawn, if they are few enough to be drawn one by one."""
    sample = None if trace is None or not trace.complete else trace.sample()
    if sample is None or not set(plan.stream.keys) <= set(sample.column_names):
        return None
    if key is not None:
        sample = _of_key(sample, key)
    return sample if 0 < sample.num_rows <= MAX_ROWS else None


def _input(plan: QueryPlan, output: str, table: pa.Table) -> str | None:
    """The column of numbers that an output is made of, if it is one."""
    aggregation = next(each for each in plan.aggregations if output in each.outputs)
    made_of = aggregation.outputs[output].columns
    inputs = dict.fromkeys(text for agg in aggregation.aggs if agg.name in made_of for text in agg.inputs)
    columns = [aggregation.inputs[text].column for text in inputs if text in aggregation.inputs]
    known = [c for c in columns if c is not None and c in table.column_names and _is_number(table.schema.field(c).type)]
    return known[0] if len(columns) == 1 and known else None


def _late_rows(trace: Trace | None, key: dict[str, object] | None) -> pa.Table | None:
    """The late rows of the key that is drawn, if it can be told."""
    late = trace.late() if trace is not None else None
    if late is None or key is None:
        return late
    return _of_key(late, key) if set(key) <= set(late.column_names) else None


def _with_rows(panel: Panel, plan: QueryPlan, rows: pa.Table | None, late: pa.Table | None) -> Panel:
    """The panel with rows behind its results where they are few and of the same scale, and with late rows."""
    column = None if rows is None or not panel.output else _input(plan, panel.output, rows)
    behind = Points()
    if rows is not None and column is not None:
        values = _numbers(rows, column)
        low, high = _span(values)
        least, most = _span(panel.values)
        room = 0.1 * (high - low)
        if low - room <= least and most <= high + room:
            if panel.on == ON_TIME:
                behind = Points(rows[TIME].to_numpy(), values)
            elif panel.on == ON_ROWS and not late:
                order = np.argsort(rows[TIME].to_numpy(), kind="stable")
                behind = Points(np.arange(len(order)) + 0.5, values[order])
    y = _heights(panel.values, behind.values) if len(behind.at) else panel.y
    marks = Points()
    if late and panel.on == ON_TIME:
        bottom = np.full(late.num_rows, y[0])
        marks = Points(late[TIME].to_numpy(), _numbers(late, column) if len(behind.at) and column else bottom)
    return replace(panel, rows=behind, late=marks, y=y)


def _only_rows(plan: QueryPlan, output: str, rows: pa.Table | None, late: pa.Table | None) -> list[Panel]:
    """A panel for the rows alone, where results are of another scale, as sums are."""
    column = None if rows is None else _input(plan, output, rows)
    if rows is None or column is None:
        return []
    points = Points(rows[TIME].to_numpy(), _numbers(rows, column))
    none = np.empty(0, np.int64)
    heights = _heights(points.values)
    marks = Points(late[TIME].to_numpy(), _numbers(late, column)) if late else Points()
    return [
        Panel(
            column, "rows", column, ON_TIME, none, none, np.empty(0), none.astype(bool), True, heights, 0, points, marks
        )
    ]


def _numbers(table: pa.Table, column: str) -> Array:
    return pc.cast(table[column], pa.float64(), safe=False).to_numpy().astype(np.float64)


def _span(values: Array) -> tuple[float, float]:
    known = values[np.isfinite(values)]
    return (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)


def _range(panels: list[Panel], trace: Trace | None, least: int) -> tuple[float, float]:
    """What an axis shows. On time it is that of the rows: windows begin before them and end after them.

    `least`: how much to show on each side of rows of one time, if no window says how much.
    """
    if trace is not None and trace.oldest is not None and trace.newest is not None:
        first, last = trace.oldest, trace.newest
        if first == last:
            lengths = [int(np.median(p.end - p.start)) for p in panels if len(p.end)]
            half = min((max(length // 2, 1) for length in lengths if length > 0), default=least)
            first, last = first - half, last + half
        # windows that begin with the last row would have no width; long ones must not push all others aside
        begun = [int(p.end[p.start >= trace.newest].max(initial=trace.newest)) for p in panels if p.spans]
        return first, max(last, min(max(begun, default=last), trace.newest + last - first))
    # without rows, short windows tell best where these were: long ones begin and end far from them
    filled = [p for p in panels if len(p.end)]
    whole = max(float(p.end.max()) for p in filled) - min(float(p.end.min()) for p in filled)
    short = [p for p in filled if _FINE * _scale(p) <= whole] or filled
    low = min(float(p.end.min()) - _scale(p) for p in short)
    high = max(float(p.end.max()) for p in short)
    return (low, high) if high > low else (low, low + 1)


def _scale(panel: Panel) -> float:
    """How long windows are, or how far apart if that is less."""
    length = float(np.median(panel.end - panel.start))
    ends = np.unique(panel.end)
    return length if len(ends) < 2 else min(length, float(np.median(np.diff(ends))))


def _clipped(panel: Panel, shown: tuple[float, float]) -> Panel:
    """Windows that reach beyond the axis end at it; a line ends with the last one that is whole, if there is one."""
    low, high = shown
    whole = panel.end <= high
    if not panel.spans and whole.any():
        start, end, values, corrected = (a[whole] for a in (panel.start, panel.end, panel.values, panel.corrected))
        panel = replace(
            panel, start=start, end=end, values=values, corrected=corrected, y=_heights(values, panel.rows.values)
        )
    return replace(panel, start=np.clip(panel.start, low, high), end=np.clip(panel.end, low, high))


def _delays(trace: Trace) -> Delays | None:
    """None for rows in order: there is nothing to see."""
    if not trace.out_of_order:
        return None
    rows, late = trace.sample(), trace.late()
    assert rows is not None
    points = [Points(t[TIME].to_numpy(), t[DELAY].to_numpy()) if t is not None else Points() for t in (rows, late)]
    return Delays(points[0], points[1], Points(*trace.lag()))
