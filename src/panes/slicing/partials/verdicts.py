"""Rows behind the watermark, judged window by window: which are taken, and which have to wait (docs/semantics.md).

What becomes of a row depends on which windows lie around it and which of these have closed: on the slice that it lies
in and the slice that the watermark is in. Of rows that are many one of each kind is judged.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from panes.slicing.partials.slice_side import SliceSide

Array = np.ndarray

#: From so many pairs of a row and a query on it is looked at which rows are of a kind.
_MANY = 1 << 14


class Verdicts(NamedTuple):
    """Of each row: whether a window takes it, the last end that has closed when it comes, and whether it has to wait
    until windows up to there are given; and how many rows some window of a query (by number) has to miss."""

    taken: Array
    closed: Array
    waits: Array
    missed: dict[int, int]


class Kinds(NamedTuple):
    """Rows that fare alike: the kind of each row, and of each kind one row and how many there are."""

    of: Array
    example: Array
    counts: Array


def judge(side: SliceSide, times: Array, met: Array, lateness: int | None, reached: int) -> Verdicts:
    """Rows at `times` come when the watermark is `met`, which never falls; what ends up to `reached` was given before
    them all. `lateness`: None if windows are not corrected."""
    gone = met - (lateness or 0)
    many = len(times) * len(side.windows.queries) >= _MANY
    kinds = _kinds(side, times, (met,) if lateness is None else (met, gone)) if many else None
    if kinds is None:
        return _judge(side, times, met, gone, np.ones(len(times), np.int64), lateness, reached)
    some = kinds.example
    found = _judge(side, times[some], met[some], gone[some], kinds.counts, lateness, reached)
    return Verdicts(found.taken[kinds.of], found.closed[kinds.of], found.waits[kinds.of], found.missed)


def _judge(
    side: SliceSide, times: Array, met: Array, gone: Array, counts: Array, lateness: int | None, reached: int
) -> Verdicts:
    """Windows that end up to `gone` are closed for good; each row stands for `counts`."""
    last, missed = np.full(len(times), np.iinfo(np.int64).min), {}
    for number, first_end, last_end in side.windows.ends_over(times):
        np.maximum(last, last_end, out=last)
        missed[number] = int(counts[first_end <= gone].sum())
    taken = last > gone
    closed = side.windows.closed_ends(int(times.min()), met)
    waits = taken & (closed > times)
    if lateness is None:
        waits &= closed > reached
    return Verdicts(taken, closed, waits, missed)


def _kinds(side: SliceSide, times: Array, watermarks: tuple[Array, ...]) -> Kinds | None:
    """Kinds of rows by their slice and that of each watermark; None if they are not many fewer than rows."""
    if len(side.edges.frozen[0]):
        return None  # slices that are there don't tell new windows apart
    low, high = min(int(w[0]) for w in watermarks), max(int(w[-1]) for w in watermarks)
    edges = side.edges.between(min(int(times.min()), low), high, len(times))
    if edges is None or len(edges) ** (1 + len(watermarks)) > len(times):
        return None
    kind = np.searchsorted(edges, times, side="right") - 1
    for watermark in watermarks:
        bounds = np.append(watermark.searchsorted(edges), len(watermark))
        kind = kind * len(edges) + np.repeat(np.arange(len(edges)), np.diff(bounds))
    counts = np.bincount(kind)
    example = np.empty(len(counts), np.int64)
    example[kind] = np.arange(len(kind))
    some = np.flatnonzero(counts)
    number = np.empty(len(counts), np.int64)
    number[some] = np.arange(len(some))
    return Kinds(number[kind], example[some], counts[some])
