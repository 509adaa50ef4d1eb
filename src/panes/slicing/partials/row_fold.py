"""Windows of many keys as folds of whole rows of a ring, each row one partial per key.

Windows that end together grow out of each other: the shortest is folded first, the next one adds the rows before
it. Many windows over few keys are folded together. Over very many keys, sums are folded and their keys picked in one
compiled pass, since memory is what counts there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from panes.aggregates.base import BoundAggregate, Cells
from panes.slicing import arrays
from panes.slicing.partials.ring import Ring

Array = np.ndarray

#: From this many keys on, the compiled pass is worth it.
_WIDE = 16384
#: Up to this many keys, and from more than a few windows on, calls cost more than copies of rows.
_NARROW = 512
_FEW = 16


@dataclass(frozen=True)
class Plan:
    """Window i folds rows nodes[bounds[i]:bounds[i + 1]], on top of the window before it if grows[i]."""

    nodes: Array
    bounds: Array
    grows: list[bool]

    def __len__(self) -> int:
        return len(self.grows)

    @cached_property
    def rows(self) -> list[list[int]]:
        """The rows of each window."""
        nodes, bounds = self.nodes.tolist(), self.bounds.tolist()
        return [nodes[a:b] for a, b in pairwise(bounds)]

    def chains(self) -> list[tuple[int, int]]:
        """Windows first..last that grow out of each other."""
        firsts = [i for i, more in enumerate(self.grows) if not more]
        return [(a, b - 1) for a, b in zip(firsts, [*firsts[1:], len(self)])]

    @cached_property
    def levels(self) -> list[FoldLevel]:
        """Windows by how many others they grow out of, none first."""
        numbers = np.arange(len(self))
        alone = np.where(self.grows, 0, numbers)
        depth = numbers - np.maximum.accumulate(alone)
        order = np.lexsort((-np.diff(self.bounds), depth))
        cuts = np.searchsorted(depth[order], np.arange(int(depth.max(initial=-1)) + 2))
        return [self._level(order[a:b], first=not d) for d, (a, b) in enumerate(pairwise(cuts.tolist()))]

    def _level(self, windows: Array, *, first: bool) -> FoldLevel:
        """Windows with most rows come first; those of the first level begin with a row, the others with a window."""
        begin, rows = self.bounds[windows] + first, np.diff(self.bounds)[windows] - first
        most = int(rows[0])
        return FoldLevel(
            windows, self.nodes[begin - 1] if first else None, begin, np.searchsorted(-rows, -np.arange(most))
        )

    def together(self, width: int) -> bool:
        """Whether it is faster to fold many windows at once, with copies, than one after the other."""
        if width >= _NARROW or len(self) <= _FEW:
            return False
        rounds = sum(len(level.counts) for level in self.levels)
        return len(self.nodes) > 4 * rounds


@dataclass(frozen=True)
class FoldLevel:
    """Windows that are folded together: in round k the first counts[k] of them add the row nodes[begin + k]."""

    windows: Array
    first: Array | None  # the row that each begins with; None: it grows out of the window before it
    begin: Array
    counts: Array

    def begun(self, field: Array, totals: Array) -> Array:
        """What the windows begin with."""
        return totals[self.windows - 1] if self.first is None else field[self.first]


@dataclass(frozen=True)
class Picks:
    """What is asked for: per result window its number in the plan, and the keys it is given to, sorted."""

    window: Array
    counts: Array  # keys per window
    slots: Array  # one window after the other
    by_presence: bool  # keys are just those that have rows in the window

    @cached_property
    def window_of_each(self) -> Array:
        """The number of the window of each result."""
        return np.repeat(self.window, self.counts)

    @cached_property
    def stops(self) -> Array:
        return np.cumsum(self.counts)


def picks(present: Array, window: Array, news: Mapping[int, Array]) -> Picks:
    """All keys of each window that `present` [windows x keys] says; of result i those that news[i] says, if it does."""
    width = present.shape[1]
    if width < _NARROW and not news:
        asked = present[window]
        return Picks(window, np.count_nonzero(asked, axis=1), asked.nonzero()[1], True)
    every = np.arange(width)
    known = [_slots(p, every) for p in present]
    slots = [_slots(news[w], every) if w in news else known[i] for w, i in enumerate(window.tolist())]
    return Picks(window, np.array([len(s) for s in slots]), arrays.concatenate(slots), not news)


def _slots(present: Array, every: Array) -> Array:
    """The slots with rows; `every` itself if all have."""
    return every if np.count_nonzero(present) == len(every) else present.nonzero()[0]


def plan(ring: Ring, start: Array, end: Array) -> Plan:
    """How to fold windows over slices [start, end), which lie by end, then from short to long."""
    ends, starts = end.tolist(), start.tolist()
    grows = [i > 0 and ends[i] == ends[i - 1] for i in range(len(ends))]
    upto = [starts[i - 1] if more else ends[i] for i, more in enumerate(grows)]
    rows, offsets = ring.cover(start, np.array(upto))
    return Plan(rows, offsets, grows)


def presence(ring: Ring, plan: Plan) -> Array:
    """Which keys have rows, as a matrix [windows x keys]."""
    return _fold(np.bitwise_or, ring.present[:, : ring.width], plan)


def picked(ring: Ring, a: int, agg: BoundAggregate, plan: Plan, picks: Picks) -> Cells:
    """The partials of aggregate number `a` for all picks, one window after the other."""
    if agg.ufuncs is None:
        merged = _merged_together if plan.together(ring.width) else _merged_one_by_one
        return _picked(merged(ring, a, agg, plan), picks)
    sums = all(ufunc is np.add for ufunc in agg.ufuncs)
    if sums and picks.by_presence and ring.width >= _WIDE:
        return Cells(tuple(_summed(field, ring.width, plan, picks) for field in ring.fields[a]))
    return _picked(_folded(ring, a, agg.ufuncs, plan), picks)


def _merged_one_by_one(ring: Ring, a: int, agg: BoundAggregate, plan: Plan) -> Sequence[Sequence[Array]]:
    found: list[Cells] = []
    for i, more in enumerate(plan.grows):
        rows = plan.rows[i]
        cells = found[-1] if more else ring.cells(a, rows[0])
        for row in rows[not more :]:
            cells = agg.merge(cells, ring.cells(a, row))
        found.append(cells)
    return [*zip(*(cells.fields for cells in found))]


def _merged_together(ring: Ring, a: int, agg: BoundAggregate, plan: Plan) -> Sequence[Array]:
    fields = [field[:, : ring.width] for field in ring.fields[a]]
    totals = [_matrix(plan, field) for field in fields]
    for level in plan.levels:
        work = [level.begun(field, total) for field, total in zip(fields, totals)]
        for k, n in enumerate(level.counts.tolist()):
            so_far = Cells(tuple(w[:n].reshape(-1) for w in work))
            merged = agg.merge(so_far, ring.cells(a, plan.nodes[level.begin[:n] + k]))
            for w, values in zip(work, merged.fields):
                w[:n] = values.reshape(n, -1)
        for total, w in zip(totals, work):
            total[level.windows] = w
    return totals


def _folded(ring: Ring, a: int, ufuncs: tuple[np.ufunc, ...], plan: Plan) -> list[Array]:
    """Field by field, as matrices [windows x keys]."""
    return [_fold(ufunc, field[:, : ring.width], plan) for ufunc, field in zip(ufuncs, ring.fields[a])]


def _fold(ufunc: np.ufunc, field: Array, plan: Plan) -> Array:
    totals = _matrix(plan, field)
    fold = _fold_together if plan.together(field.shape[1]) else _fold_one_by_one
    fold(ufunc, field, plan, totals)
    return totals


def _matrix(plan: Plan, field: Array) -> Array:
    """Room for all windows: [windows x keys]."""
    width = field.shape[1]
    return arrays.empty(len(plan) * width, field.dtype).reshape(len(plan), width)


def _fold_one_by_one(ufunc: np.ufunc, field: Array, plan: Plan, totals: Array) -> None:
    for i, more in enumerate(plan.grows):
        rows, out = plan.rows[i], totals[i]
        total = totals[i - 1] if more else field[rows[0]]
        if len(rows) == 1 - more:
            out[:] = total
        for row in rows[not more :]:
            total = ufunc(total, field[row], out=out)


def _fold_together(ufunc: np.ufunc, field: Array, plan: Plan, totals: Array) -> None:
    """Many windows at once, each in the order of its rows: a call per round, and not one per window and row."""
    for level in plan.levels:
        work = level.begun(field, totals)
        for k, n in enumerate(level.counts.tolist()):
            ufunc(work[:n], field[plan.nodes[level.begin[:n] + k]], out=work[:n])
        totals[level.windows] = work


def _picked(fields: Sequence[Sequence[Array] | Array], picks: Picks) -> Cells:
    """Of each field, given window by window, what is asked for."""
    return Cells(tuple(_picked_field(field, picks) for field in fields))


def _picked_field(field: Sequence[Array] | Array, picks: Picks) -> Array:
    size = len(picks.slots)
    if isinstance(field, np.ndarray):
        if size == len(picks.window) * field.shape[1]:
            return field[picks.window].reshape(-1)  # every window is asked for with all keys
        if field.shape[1] < _NARROW:
            return field[picks.window_of_each, picks.slots]
    out = arrays.empty(size, field[0].dtype)
    for window, stop, count in zip(picks.window.tolist(), picks.stops.tolist(), picks.counts.tolist()):
        place, totals = slice(stop - count, stop), field[window]
        if count == len(totals):
            out[place] = totals
        else:
            np.take(totals, picks.slots[place], out=out[place], mode="clip")  # "clip" writes in place, "raise" does not
    return out


def _summed(field: Array, width: int, plan: Plan, picks: Picks) -> Array:
    """Sums of one field: folded and picked in one pass over the rows."""
    from panes.slicing import kernels

    stops = picks.stops
    places = stops - picks.counts
    out = arrays.empty(len(picks.slots), field.dtype)
    first: dict[int, int] = {}
    for w, window in enumerate(picks.window.tolist()):
        first.setdefault(window, w)
    for a, b in plan.chains():
        rows = plan.nodes[plan.bounds[a] : plan.bounds[b + 1]]
        cuts = plan.bounds[a + 1 : b + 2] - plan.bounds[a] - 1
        into = [first[i] for i in range(a, b + 1)]
        kernels.sum_rows(field, width, rows, cuts, places[into], stops[into], picks.slots, out)
    for w, window in enumerate(picks.window.tolist()):
        if first[window] != w:  # another query over the same slices
            source = first[window]
            out[places[w] : stops[w]] = out[places[source] : stops[source]]
    return out
