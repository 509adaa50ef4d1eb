"""Windows that are added while running: from where on there is all that they give, and which is the first one given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from panes.slicing.lane import RunningWindow
from panes.slicing.rows.due import Due
from panes.slicing.rows.slice_table import SliceTable
from panes.slicing.shares import places
from panes.slicing.window_set import WindowSet
from panes.windows.base import ALWAYS, ROWS, TIME, ContextFree, LookBack, Sessions

if TYPE_CHECKING:
    from panes.slicing.rows.ordered import OrderedSlicer

Array = np.ndarray


def complete_for(slicer: OrderedSlicer, query: RunningWindow, last_time: int) -> Array | int | None:
    """From where on there are partials of all that a query gives, which is about to be added; None: everywhere.

    In order that is a position of each key. Otherwise it is a time: rows that wait, or may be replayed, are not
    known by their position, and those that have come up to `last_time` have nothing of a new aggregate.
    """
    keys, found = slicer.keys, list[Array | int | None]()
    for place in places(slicer.shares.given_by(query), slicer.aggs):
        if place is None:
            found.append(keys.rows_seen.copy() if slicer.in_order else last_time if last_time > ALWAYS else None)
            continue
        givers = [q.number for q in slicer.queries if place in slicer.shares.of(q.number)]
        known = [keys.complete_from[n] for n in givers if n in keys.complete_from]
        # whoever gave it first has the longest past; if nobody gives it, it is that of a lane without windows
        found.append(np.minimum.reduce(known) if known and len(known) == len(givers) else None)
    partly = np.array([each for each in found if each is not None])
    return np.maximum.reduce(partly) if len(partly) else None


def start_giving(
    slicer: OrderedSlicer,
    query: RunningWindow,
    last_time: int,
    complete: Array | int | None = None,
    lacking: int | None = None,
) -> None:
    """A window added while running is given from the first one on whose rows are all held, in whole slices.

    Slices that are there are closed, so that the new window's edges cut from the next row on. Sessions
    must begin so late that no row before `last_time` can be one of theirs; other data-driven windows
    start afresh with the next row, or the first one after `lacking`: rows that wait have none of their columns.
    `complete`: see `complete_for`.
    """
    window, table = query.window, slicer.slices
    if complete is not None:
        slicer.keys.complete_from[query.number] = complete
    slicer.keys.sealed[np.unique(table.slot)] = True
    if isinstance(window, Sessions) and last_time > ALWAYS:
        slicer.keys.given_from[query.number] = last_time + int(window.gap) + 1
    if isinstance(window, LookBack) and window.back != ROWS:
        # all rows looked back to must have come since: nobody knows what was above the edge before
        slicer.keys.given_from[query.number] = slicer.keys.last[slicer.dimension(window.back)].copy()
    if query.number in slicer.afresh:
        slicer.keys.given_from[query.number] = slicer.keys.rows_seen.copy() if lacking is None else lacking
    if not isinstance(window, ContextFree):
        return
    alone = WindowSet(window.measure, [query])
    if window.measure == ROWS:
        bound = slicer.keys.purged_pos.copy()
        slots, crossed = alone.crossed(table.slot, table.pos, table.stop - 1)
        np.maximum.at(bound, slots, crossed + 1)
        slicer.keys.given_from[query.number] = bound
    elif window.measure == TIME:
        gone = int(slicer.keys.purged_time.max(initial=ALWAYS))
        _, crossed = alone.crossed(table.slot, table.first[0], table.last[0])
        lacks = ALWAYS if complete is None else last_time if isinstance(complete, np.ndarray) else int(complete)
        slicer.keys.given_from[query.number] = max(gone, int(crossed.max(initial=ALWAYS)), lacks) + 1
    else:
        seen = slicer.keys.last[slicer.dimension(window.measure)]
        slicer.keys.given_from[query.number] = np.nextafter(seen, np.inf) if seen.dtype.kind == "f" else seen + 1


def is_complete(slicer: OrderedSlicer, due: Due, table: SliceTable) -> Array:
    """Which windows have all that they give, of all their rows: those of queries added with new aggregates may
    lack some. Windows without rows lack nothing."""
    ok = np.ones(len(due), bool)
    for number, least in slicer.keys.complete_from.items():
        mine = np.flatnonzero((due.number == number) & (due.i1 > due.i0))
        if isinstance(least, np.ndarray):
            ok[mine] = due.start_pos[mine] >= least[due.slot[mine]]
        else:
            ok[mine] = table.first[0][due.i0[mine]] > least
    return ok


def put_before(slicer: OrderedSlicer, slot: int, position: int) -> None:
    """A late row comes at this position: windows that began with a row after it begin with the same row."""
    for number in slicer.afresh & slicer.keys.given_from.keys():
        starts = slicer.keys.given_from[number]
        if isinstance(starts, np.ndarray) and slot < len(starts) and position < starts[slot]:
            slicer.keys.journal.keep(starts, np.array([slot]))
            starts[slot] += 1
