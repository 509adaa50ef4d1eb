"""Loops that find the tuples of subwindows: those that events refer to, and those that are held."""

from __future__ import annotations

import numpy as np

from panes.policies.library import fields as k
from panes.policies.loop import one_source

Array = np.ndarray


@one_source()
def locate(events: Array, subs: Array, starts: Array, stops: Array, slots: Array) -> tuple[int, int]:
    """Where the tuples of each event lie in the view of all; returns (slots in the view, tuples in it)."""
    n = total = 0
    for j in range(len(events)):
        slot = events[j, k.E_SLOT]
        if events[j, k.E_FROM] == events[j, k.E_TO]:
            starts[j] = stops[j] = 0
            continue
        if subs[slot, k.S_VIEW_AT] == k.NEVER:
            subs[slot, k.S_VIEW_AT] = total
            total += subs[slot, k.S_VIEW_TO] - subs[slot, k.S_VIEW_FROM]
            slots[n] = slot
            n += 1
        shift = subs[slot, k.S_VIEW_AT] - subs[slot, k.S_VIEW_FROM]
        starts[j] = events[j, k.E_FROM] + shift
        stops[j] = events[j, k.E_TO] + shift
    return n, total


@one_source()
def view(slots: Array, subs: Array, rows: Array, out: Array) -> None:
    """The tuples of the view, slot after slot, each from its oldest to its newest. Nothing is in view afterwards."""
    at = 0
    for slot in slots:
        row = subs[slot, k.S_VIEW_ROW]
        for _ in range(subs[slot, k.S_VIEW_TO] - subs[slot, k.S_VIEW_FROM]):
            out[at] = row
            at += 1
            row = rows[row, k.R_NEXT]
        subs[slot, k.S_VIEW_FROM] = k.NEVER
        subs[slot, k.S_VIEW_AT] = k.NEVER


@one_source()
def held_rows(slots: Array, subs: Array, rows: Array, out: Array) -> None:
    """The tuples that these slots hold, slot after slot."""
    at = 0
    for slot in slots:
        row = subs[slot, k.S_HEAD]
        for _ in range(subs[slot, k.S_SIZE]):
            out[at] = row
            at += 1
            row = rows[row, k.R_NEXT]


@one_source()
def relink(slots: Array, subs: Array, rows: Array) -> None:
    """Tuples now lie slot after slot, from row 0 on: link them anew."""
    at = 0
    for slot in slots:
        size = subs[slot, k.S_SIZE]
        subs[slot, k.S_HEAD] = at
        subs[slot, k.S_LAST] = at + size - 1 if size > 0 else k.NEVER
        for j in range(size):
            rows[at + j, k.R_NEXT] = at + j + 1
        at += size


@one_source()
def never_falls(slots: Array, values: Array, first_row: int, subs: Array, last: Array) -> bool:
    """Whether no value is below the one before it of its slot."""
    rises = True
    for i in range(len(slots)):
        slot, row = slots[i], first_row + i
        before = subs[slot, k.S_ROW]
        if before != k.NEVER:
            rises &= values[row] >= values[before]
        elif subs[slot, k.S_ALIVE]:
            rises &= values[row] >= last[slot]
        subs[slot, k.S_ROW] = row
    for slot in slots:
        subs[slot, k.S_ROW] = k.NEVER
    return rises
