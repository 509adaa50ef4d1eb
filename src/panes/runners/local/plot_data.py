"""What a picture of a run shows, as plain arrays: the same for PNG and HTML.

In: the results of a run and its trace. Out: a `Picture`: per window label a lane of windows in an extract of
the time, and the first output over the whole time; slices; late rows; notes on what was left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panes.errors import QueryError
from panes.plan.query import QueryPlan
from panes.runners.local.trace import Trace
from panes.units import TimeDomain
from panes.windows.base import TIME, Bound, ContextFree

#: What still can be read in a picture.
MAX_LANES = 24
MAX_LEVELS = 8
WINDOWS_IN_EXTRACT = 30
MAX_SLICES = 400
MAX_POINTS = 1_500

Array = np.ndarray


@dataclass(frozen=True)
class Lane:
    """The windows of one label: those of the extract as bars, the first output of all as a line."""

    label: str
    spec: str
    start: Array  # ticks, of windows that touch the extract
    end: Array
    level: Array  # which of the stacked rows of the lane a bar is on
    levels: int
    corrected: Array  # bool: given again because of a late row
    at: Array  # ticks: ends of windows, for the line
    values: Array
    windows: int  # all of this label
    note: str = ""


@dataclass(frozen=True)
class Picture:
    """All that is drawn."""

    domain: TimeDomain
    title: str
    output: str
    lanes: tuple[Lane, ...]
    extract: tuple[int, int]
    whole: tuple[int, int]
    slices: Array
    trace: Trace | None
    late: int
    notes: tuple[str, ...]

    def moments(self, ticks: Array) -> Array:
        """Ticks as what an axis shows: dates for timestamps, numbers for integer times."""
        ticks = np.asarray(ticks, np.int64)
        if self.domain.integer:
            return ticks
        return ticks.astype(f"datetime64[{self.domain.unit}]").astype("datetime64[us]")

    def seconds(self, ticks: Array) -> Array:
        """Distances in time as seconds; integer times stay as they are."""
        return np.asarray(ticks) * (1 if self.domain.integer else self.domain.nanos_per_tick / 1e9)

    @property
    def unit(self) -> str:
        return "ticks" if self.domain.integer else "s"


def picture(plan: QueryPlan, results: pa.Table, trace: Trace | None, late: int) -> Picture:
    """Choose what to show of a run."""
    notes: list[str] = []
    results, whose = _one_key(plan, results)
    output = _numeric_output(plan, results)
    if output is None:
        notes.append("no output is a number, so no results are drawn")
    bounds = {label: _bounds(plan, results, label, output, trace) for label, _ in plan.bound}
    labels = list(bounds)
    if len(labels) > MAX_LANES:
        notes.append(f"{MAX_LANES} of {len(labels)} windows drawn")
        labels = labels[:MAX_LANES]
    whole = _whole([bounds[label] for label in labels], trace)
    extract = _extract([bounds[label] for label in labels], whole, trace)
    specs = {label: str(window) for label, window in plan.windows}
    lanes = tuple(_lane(label, specs[label], bounds[label], extract) for label in labels)
    slices = _slices([b for label, b in plan.bound if label in labels], lanes, extract)
    if len(slices) >= MAX_SLICES:
        notes.append(f"the first {MAX_SLICES} slices of the extract drawn")
    drawn = sum(len(lane.start) for lane in lanes)
    total = sum(lane.windows for lane in lanes)
    if drawn < total:
        notes.append(f"{drawn:,} of {total:,} windows lie in the extract on the left")
    if not plan.stream.domain.integer:
        notes.append("times in UTC")
    title = f"{', '.join(plan.aggregation.outputs)} over {len(plan.windows)} windows{whose}"
    return Picture(plan.stream.domain, title, output or "", lanes, extract, whole, slices, trace, late, tuple(notes))


@dataclass(frozen=True)
class _Bounds:
    start: Array
    end: Array
    corrected: Array
    values: Array
    windows: int


def _one_key(plan: QueryPlan, results: pa.Table) -> tuple[pa.Table, str]:
    """The results of the key that has most of them: the windows of several keys would hide each other."""
    keys = list(plan.stream.keys)
    if not keys or not results.num_rows:
        return results, ""
    counts = results.group_by(keys, use_threads=False).aggregate([([], "count_all")])
    most = counts.take([int(np.argmax(counts["count_all"].to_numpy()))]).to_pylist()[0]
    mask: Array = np.ones(results.num_rows, bool)
    for key in keys:
        column = results[key]
        same = pc.is_null(column) if most[key] is None else pc.fill_null(pc.equal(column, most[key]), False)
        mask &= same.to_numpy(zero_copy_only=False) if isinstance(same, pa.Array) else same.to_numpy()
    named = ", ".join(f"{key} {most[key]}" for key in keys)
    of = f" (of {counts.num_rows:,} keys)" if counts.num_rows > 1 else ""
    return results.filter(pa.array(mask)), f"; {named}{of}"


def _numeric_output(plan: QueryPlan, results: pa.Table) -> str | None:
    for name in plan.aggregation.outputs:
        kind = results.schema.field(name).type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            return name
    return None


def _bounds(plan: QueryPlan, results: pa.Table, label: str, output: str | None, trace: Trace | None) -> _Bounds:
    """The windows of a label as given last, without those that were found to be none."""
    rows = results.filter(pc.equal(results["window"], label))
    if "void" in rows.column_names:
        rows = rows.filter(pc.invert(rows["void"]))
    start, known = _ticks(rows["window_start"])
    end, closed = _ticks(rows["window_end"])
    last = (
        trace.newest if trace is not None and trace.newest is not None else (end[closed].max() if closed.any() else 0)
    )
    end = np.where(closed, end, np.maximum(start, last))
    values = (
        np.full(rows.num_rows, np.nan)
        if output is None
        else pc.cast(rows[output], pa.float64(), safe=False).to_numpy().astype(np.float64)
    )
    corrected = rows["revision"].to_numpy() > 0
    # the last revision of a window is the one that counts
    order = np.lexsort((rows["revision"].to_numpy(), end, start))
    newest = np.ones(len(order), bool)
    s, e = start[order], end[order]
    newest[:-1] = (s[1:] != s[:-1]) | (e[1:] != e[:-1])
    keep = order[newest]
    keep = keep[known[keep]]
    return _Bounds(start[keep], end[keep], corrected[keep], values[keep], len(keep) or rows.num_rows)


def _ticks(column: pa.ChunkedArray) -> tuple[Array, Array]:
    """Ticks, and which of them are there."""
    known = pc.is_valid(column).to_numpy()
    if pa.types.is_timestamp(column.type):
        column = pc.cast(column, pa.int64())
    return pc.fill_null(column, 0).to_numpy().astype(np.int64), known


def _whole(bounds: list[_Bounds], trace: Trace | None) -> tuple[int, int]:
    if trace is not None and trace.oldest is not None and trace.newest is not None:
        return trace.oldest, max(trace.newest, trace.oldest + 1)
    starts = [b.start.min() for b in bounds if len(b.start)]
    ends = [b.end.max() for b in bounds if len(b.end)]
    if not starts:
        raise QueryError("plot: the query gave no windows in time, so there is nothing to draw")
    return int(min(starts)), int(max(max(ends), min(starts) + 1))


def _extract(bounds: list[_Bounds], whole: tuple[int, int], trace: Trace | None) -> tuple[int, int]:
    """A stretch of time in which short windows can be told apart; around late rows, if any."""
    low, high = whole
    scales = sorted(scale for scale in map(_scale, bounds) if scale > 0)
    # not the very shortest: one fine window among twenty would leave nothing to see of the others
    fine = scales[len(scales) // 4] if scales else float(high - low)
    width = int(min(fine * WINDOWS_IN_EXTRACT, float(high - low)))
    late = trace.late()[0] if trace is not None else np.empty(0, np.int64)
    middle = int(np.median(late)) if len(late) else (low + high) // 2
    begin = min(max(middle - width // 2, low), high - width)
    return begin, begin + max(width, 1)


def _scale(bounds: _Bounds) -> float:
    """The distance at which windows of a lane can be told apart: their length, or how far they are apart."""
    starts = np.unique(bounds.start)
    if not len(starts):
        return 0.0
    length = float(np.median(bounds.end - bounds.start))
    return length if len(starts) < 2 else min(length, float(np.median(np.diff(starts))))


def _lane(label: str, spec: str, bounds: _Bounds, extract: tuple[int, int]) -> Lane:
    touch = np.flatnonzero((bounds.end > extract[0]) & (bounds.start < extract[1]))
    touch = touch[np.lexsort((bounds.end[touch], bounds.start[touch]))]
    level, levels = _stack(bounds.start[touch], bounds.end[touch])
    shown = level < MAX_LEVELS
    note = "" if shown.all() else f"{int(shown.sum())} of {len(touch)} drawn"
    if bounds.windows and not len(bounds.start):
        note = "not on time"
    touch, level = touch[shown], level[shown]
    by_end = np.argsort(bounds.end, kind="stable")
    thin = by_end[:: max(1, -(-len(by_end) // MAX_POINTS))]
    return Lane(
        label,
        spec,
        bounds.start[touch],
        bounds.end[touch],
        level,
        min(max(levels, 1), MAX_LEVELS),
        bounds.corrected[touch],
        bounds.end[thin],
        bounds.values[thin],
        bounds.windows,
        note,
    )


def _stack(start: Array, end: Array) -> tuple[Array, int]:
    """Rows for bars so that none hides another: each takes the first row that is free."""
    free: list[int] = []
    level = np.zeros(len(start), np.int64)
    for i, (s, e) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        row = next((r for r, until in enumerate(free) if until <= s), len(free))
        if row == len(free):
            free.append(e)
        free[row] = e
        level[i] = row
    return level, len(free)


def _slices(windows: list[Bound], lanes: tuple[Lane, ...], extract: tuple[int, int]) -> Array:
    """Edges of slices in the extract: those known in advance, and those that windows were seen to have."""
    low, high = extract
    parts = [np.empty(0, np.int64)]
    for window, lane in zip(windows, lanes, strict=True):
        if isinstance(window, ContextFree) and window.measure == TIME:
            # only as far as it can matter: a fine grid over a long extract has more edges than pixels
            parts.append(np.asarray(window.edges(low - 1, high), np.int64)[:MAX_SLICES])
        else:
            parts += [lane.start, lane.end]
    edges = np.unique(np.concatenate(parts))
    return edges[(edges >= low) & (edges <= high)][:MAX_SLICES]
