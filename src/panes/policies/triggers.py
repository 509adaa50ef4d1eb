"""From the triggers of one key to the rows at which they fire and the timer ticks before rows, over a whole batch.

Triggers look at rows only, never at what is held, so each runs over all rows before any eviction does: `fired` says at
which rows, and runs of timer ticks say which borders lie before a row. The loops are one source, plain or compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from panes.policies.distances import cosine, euclidean
from panes.policies.evictions import distance
from panes.policies.loop import Loop, one_source
from panes.policies.program import (
    ALL,
    ANY,
    CHILDREN,
    COLUMN,
    COSINE_,
    COUNT,
    EUCLID,
    FLOATS,
    KIND,
    ON_ROW,
    PASSIVE,
    PUNCT,
    TIME,
    WORD,
    A,
    B,
    Level,
)
from panes.windows.base import Array

_NONE = np.empty(0, np.int64)
#: of a loop, what runs for so many rows as there are
Form = Callable[[Loop], Callable[..., Any]]


@dataclass(frozen=True)
class Fakes:
    """Runs of timer ticks by row: before `row`, `count` of them from `first` in `step`s.

    Those before the same row are sent in the order of their times, then of the runs (`next_run` in evictions.py).
    """

    row: Array
    first: Array
    step: Array
    count: Array
    timed: Array  # their results have the time of the timer tick, not of the row

    @classmethod
    def none(cls) -> Fakes:
        return cls(_NONE, _NONE, _NONE, _NONE, np.empty(0, bool))

    def columns(self) -> tuple[Array, ...]:
        return self.row, self.first, self.step, self.count, self.timed

    def at(self, places: Array) -> Fakes:
        """The same with row i at places[i], in the order of places."""
        row = places[self.row]
        order = row.argsort(kind="stable")
        return Fakes(*(column[order] for column in (row, *self.columns()[1:])))

    def without(self, rows: Array) -> Fakes:
        """All but those before these rows."""
        left = ~np.isin(self.row, rows) if len(rows) else slice(None)
        return Fakes(self.row[left], self.first[left], self.step[left], self.count[left], self.timed[left])

    @classmethod
    def joined(cls, parts: list[Fakes]) -> Fakes:
        """Those of several triggers: by row, then in the order of the triggers."""
        if not parts:
            return cls.none()
        if len(parts) == 1:
            return parts[0]
        columns = [np.concatenate(each) for each in zip(*(part.columns() for part in parts))]
        order = columns[0].argsort(kind="stable")
        return cls(*(column[order] for column in columns))


def borders_due(border: int, now: int, size: int) -> int:
    """How many borders have come, the next of which is `border`."""
    return max(0, (now - border) // size + 1)


@one_source()
def count_fires(slots: Array, offsets: Array, states: Array, word: int, size: int) -> Array:
    fired = np.zeros(offsets[-1], np.bool_)
    for g in range(len(slots)):
        k, stop = slots[g], offsets[g + 1]
        at = offsets[g] + max(0, size - states[k, word])
        if at >= stop:
            states[k, word] += stop - offsets[g]
            continue
        fired[at:stop:size] = True
        states[k, word] = (stop - 1 - at) % size + 1
    return fired


@one_source(cosine, euclidean, distance)
def delta_fires(
    kind: int, n: int, limit: float, slots: Array, offsets: Array, states: Array, word: int, floats: Array, at: int,
    cols: Array, column: int, base: int,
) -> Array:  # fmt: skip
    fired, last = np.zeros(offsets[-1], np.bool_), floats.T
    for g in range(len(slots)):
        k = slots[g]
        for i in range(offsets[g], offsets[g + 1]):
            moves = states[k, word] == 0
            if moves:
                states[k, word] = 0 if np.isnan(cols[column : column + n, base + i]).any() else 1
            elif distance(kind, n, last, at, k, cols, column, base + i) > limit:
                moves = fired[i] = True
            if moves:
                last[at : at + n, k] = cols[column : column + n, base + i]
    return fired


@one_source(borders_due)
def border_runs(
    slots: Array, offsets: Array, states: Array, word: int, size: int, ticks: Array, base: int
) -> tuple[Array, Array, Array]:
    """Rows with borders up to their time: (row, first border, how many); each border once."""
    n = offsets[-1]
    rows, firsts, counts = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    at = 0
    for g in range(len(slots)):
        border = states[slots[g], word]
        for i in range(offsets[g], offsets[g + 1]):
            now = ticks[base + i]
            if border <= now:
                rows[at], firsts[at], counts[at] = i, border, borders_due(border, now, size)
                border += counts[at] * size
                at += 1
        states[slots[g], word] = border
    return rows[:at].copy(), firsts[:at].copy(), counts[:at].copy()


def look(
    level: Level, form: Form, slots: Array, offsets: Array, states: Array, floats: Array, ticks: Array, cols: Array,
    base: int, *, empty: Array, fakes_only: bool = False,
) -> tuple[Array, Fakes]:  # fmt: skip
    """Run all triggers of a level over rows base.. of slots; moves on their words in `states`.

    `form`: of loops, plain or compiled. `empty`: rows before which nothing is held, so that timer ticks would give
    nothing. `fakes_only`: there are no rows, only a time in `ticks` that each slot has come to.
    """
    fakes: list[Fakes] = []
    fired: list[Array] = []
    n = int(offsets[-1])
    if fakes_only:
        timers = [line for line in level.triggers.lines.tolist() if line[KIND] == TIME]
        nothing = np.zeros(n, bool)
        for line in timers:
            _borders(form, line, slots, offsets, states, ticks, base, nothing, fakes)
        return nothing, Fakes.joined([f.without(empty) for f in fakes])
    for line, limit in zip(level.triggers.lines.tolist(), level.triggers.limits.tolist()):
        kind, word = line[KIND], line[WORD]
        if kind == COUNT:
            fired.append(form(count_fires)(slots, offsets, states, word, line[A]))
        elif kind == TIME:
            fired.append(np.zeros(n, bool))
            _borders(form, line, slots, offsets, states, ticks, base, fired[-1], fakes)
        elif kind == PUNCT:
            fired.append(cols[line[COLUMN], base : base + n] == 1.0)
        elif kind in (EUCLID, COSINE_):
            fired.append(
                form(delta_fires)(
                    kind, line[A], limit, slots, offsets, states, word, floats, line[FLOATS], cols, line[COLUMN], base
                )
            )
        else:
            inner = fired[len(fired) - line[CHILDREN] :]
            del fired[len(fired) - line[CHILDREN] :]
            fired.append(_combined(kind, inner, n))
    return fired[0], Fakes.joined([f.without(empty) for f in fakes])


def _borders(
    form: Form, line: list[int], slots: Array, offsets: Array, states: Array, ticks: Array, base: int,
    fired: Array, fakes: list[Fakes],
) -> None:  # fmt: skip
    size, mode, column = line[A], line[B], line[COLUMN]
    row, border, count = form(border_runs)(slots, offsets, states, line[WORD], size, ticks[column], base)
    if mode == PASSIVE:
        fired[row] = True
        return
    if mode == ON_ROW:
        # a border on the very time of a row is the row's own: it fires, and is no timer tick
        own = (border + (count - 1) * size) == ticks[column, base + row]
        fired[row[own]] = True
        count = count - own
        row, border, count = row[count > 0], border[count > 0], count[count > 0]
    fakes.append(Fakes(row, border, np.full(len(row), size), count, np.full(len(row), column == 0)))


def _combined(kind: int, inner: list[Array], n: int) -> Array:
    if not inner:
        return np.full(n, kind == ALL)
    if len(inner) == 1:
        return inner[0]
    if kind == ANY:
        return np.logical_or.reduce(inner)
    if kind == ALL:
        return np.logical_and.reduce(inner)
    return np.sum(inner, axis=0) == 1
