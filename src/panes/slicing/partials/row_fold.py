"""Windows of many keys as folds of whole rows of a ring, each row one partial per key.

Windows that end together grow out of each other: the shortest is folded first, the next one adds the rows before
it. Over very many keys, sums are folded and their keys picked in one compiled pass, since memory is what counts
there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from panes.aggregates.base import BoundAggregate, Cells
from panes.aggregates.fieldwise import Fieldwise
from panes.slicing import memory
from panes.slicing.partials.ring import Ring

Array = np.ndarray

#: From this many keys on, the compiled pass is worth it.
_WIDE = 16384


@dataclass(frozen=True)
class Plan:
    """Window i folds rows nodes[bounds[i]:bounds[i + 1]], on top of the window before it if grows[i]."""

    nodes: list[int]
    bounds: list[int]
    grows: list[bool]

    def __len__(self) -> int:
        return len(self.grows)

    def rows(self, i: int) -> list[int]:
        return self.nodes[self.bounds[i] : self.bounds[i + 1]]

    def chains(self) -> list[tuple[int, int]]:
        """Windows first..last that grow out of each other."""
        firsts = [i for i, more in enumerate(self.grows) if not more]
        return [(a, b - 1) for a, b in zip(firsts, [*firsts[1:], len(self)])]


@dataclass(frozen=True)
class Picks:
    """What is asked for: per result window its number in the plan, and the keys it is given to."""

    window: list[int]
    slots: list[Array]  # sorted
    by_presence: bool  # keys are just those that have rows in the window

    @cached_property
    def counts(self) -> Array:
        return np.array([len(s) for s in self.slots])

    @cached_property
    def all_slots(self) -> Array:
        return memory.concatenate(self.slots)


def plan(ring: Ring, start: Array, end: Array) -> Plan:
    """How to fold windows over slices [start, end), which lie by end, then from short to long."""
    ends, starts = end.tolist(), start.tolist()
    grows = [i > 0 and ends[i] == ends[i - 1] for i in range(len(ends))]
    upto = [starts[i - 1] if more else ends[i] for i, more in enumerate(grows)]
    rows, offsets = ring.cover(start, np.array(upto))
    return Plan(rows.tolist(), offsets.tolist(), grows)


def presence(ring: Ring, plan: Plan) -> list[Array]:
    """Which keys have rows, per window."""
    found: list[Array] = []
    for i, more in enumerate(plan.grows):
        rows = plan.rows(i)
        present = found[-1] if more else ring.present[rows[0], : ring.width]
        for row in rows[not more :]:
            present = present | ring.present[row, : ring.width]
        found.append(present)
    return found


def picked(ring: Ring, a: int, agg: BoundAggregate, plan: Plan, picks: Picks) -> Cells:
    """The partials of aggregate number `a` for all picks, one window after the other."""
    if not isinstance(agg, Fieldwise):
        return _picked([*zip(*(c.fields for c in _merged(ring, a, agg, plan)))], picks)
    sums = all(p.ufunc is np.add for p in agg.parts)
    if sums and picks.by_presence and ring.width >= _WIDE:
        return Cells(tuple(_summed(field, ring.width, plan, picks) for field in ring.fields[a]))
    return _picked(_folded(ring, a, agg, plan), picks)


def _merged(ring: Ring, a: int, agg: BoundAggregate, plan: Plan) -> list[Cells]:
    found: list[Cells] = []
    for i, more in enumerate(plan.grows):
        rows = plan.rows(i)
        cells = found[-1] if more else ring.cells(a, rows[0])
        for row in rows[not more :]:
            cells = agg.merge(cells, ring.cells(a, row))
        found.append(cells)
    return found


def _folded(ring: Ring, a: int, agg: Fieldwise, plan: Plan) -> list[Array]:
    """Field by field, as matrices [windows x keys]."""
    found = []
    for part, field in zip(agg.parts, ring.fields[a]):
        totals = memory.empty(len(plan) * ring.width, field.dtype).reshape(len(plan), ring.width)
        for i, more in enumerate(plan.grows):
            rows, out = plan.rows(i), totals[i]
            total = totals[i - 1] if more else field[rows[0], : ring.width]
            if len(rows) == 1 - more:
                out[:] = total
            for row in rows[not more :]:
                total = part.ufunc(total, field[row, : ring.width], out=out)
        found.append(totals)
    return found


def _picked(fields: Sequence[Sequence[Array] | Array], picks: Picks) -> Cells:
    """Of each field, given window by window, what is asked for."""
    return Cells(tuple(_picked_field(field, picks) for field in fields))


def _picked_field(field: Sequence[Array] | Array, picks: Picks) -> Array:
    size = len(picks.all_slots)
    if isinstance(field, np.ndarray) and size == len(picks.window) * field.shape[1]:
        return field[picks.window].reshape(-1)  # every window is asked for with all keys
    out = memory.empty(size, field[0].dtype)
    at = 0
    for window, slots in zip(picks.window, picks.slots):
        place, totals = out[at : at + len(slots)], field[window]
        if len(slots) == len(totals):
            place[:] = totals
        else:
            np.take(totals, slots, out=place, mode="clip")  # "clip" writes in place, "raise" does not
        at += len(slots)
    return out


def _summed(field: Array, width: int, plan: Plan, picks: Picks) -> Array:
    """Sums of one field: folded and picked in one pass over the rows."""
    from panes.slicing import kernels

    stops = np.cumsum(picks.counts)
    places = stops - picks.counts
    out = memory.empty(len(picks.all_slots), field.dtype)
    first: dict[int, int] = {}
    for w, window in enumerate(picks.window):
        first.setdefault(window, w)
    for a, b in plan.chains():
        rows = np.array(plan.nodes[plan.bounds[a] : plan.bounds[b + 1]])
        cuts = np.array(plan.bounds[a + 1 : b + 2]) - plan.bounds[a] - 1
        into = [first[i] for i in range(a, b + 1)]
        kernels.sum_rows(field, width, rows, cuts, places[into], stops[into], picks.all_slots, out)
    for w, window in enumerate(picks.window):
        if first[window] != w:  # another query over the same slices
            source = first[window]
            out[places[w] : stops[w]] = out[places[source] : stops[source]]
    return out
