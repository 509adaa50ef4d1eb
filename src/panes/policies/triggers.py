"""From the triggers of one key to the rows at which they fire and the timer ticks before rows, over a whole batch.

Triggers look at rows only, never at what is held, so each runs over all rows before any eviction does: `fired` says at
which rows, and runs of timer ticks say which borders lie before a row. The loops are one source, plain or compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

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
from panes.policies.rules import borders_due, distance
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

    def expanded(self) -> tuple[Array, Array, Array]:
        """Each timer tick: before which row, at what time, and whether that is the time of its result."""
        nth = np.arange(self.count.sum()) - (self.count.cumsum() - self.count).repeat(self.count)
        row, first, step, timed = (each.repeat(self.count) for each in (self.row, self.first, self.step, self.timed))
        return row, first + nth * step, timed

    def at(self, places: Array) -> Fakes:
        """The same with row i at places[i], in the order of places."""
        row = places[self.row]
        order = row.argsort(kind="stable")
        return Fakes(*(column[order] for column in (row, *self.columns()[1:])))

    def without(self, rows: Array) -> Fakes:
        """All but those before these rows."""
        if not len(rows) or not len(self.row):
            return self
        left = np.ones(max(self.row.max(), rows.max()) + 1, bool)
        left[rows] = False
        left = left[self.row]
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


@one_source()
def count_fires(slots: Array, offsets: Array, states: Array, word: int, size: int, fired: Array) -> None:
    for g in range(len(slots)):
        k, stop = slots[g], offsets[g + 1]
        at = offsets[g] + max(0, size - states[k, word])
        if at >= stop:
            states[k, word] += stop - offsets[g]
            continue
        for i in range(at, stop, size):
            fired[i] = True
        states[k, word] = (stop - 1 - at) % size + 1


@one_source(distance)
def delta_fires(
    by_angle: bool, n: int, limit: float, slots: Array, offsets: Array, states: Array, word: int, floats: Array,
    at: int, cols: Array, column: int, base: int, last: Array, fired: Array,
) -> None:  # fmt: skip
    """Rows further than `limit` from the last that fired: n values of floats, if the word of the key says so."""
    for g in range(len(slots)):
        k = slots[g]
        known = states[k, word]
        for c in range(n):
            last[c, 0] = floats[k, at + c]
        for j in range(base + offsets[g], base + offsets[g + 1]):
            if known == 0:
                known = 1
                for c in range(n):
                    if cols[column + c, j] != cols[column + c, j]:
                        known = 0
            elif distance(by_angle, n, last, 0, 0, cols, column, j) > limit:
                fired[j - base] = True
            else:
                continue
            for c in range(n):
                last[c, 0] = cols[column + c, j]
        states[k, word] = known
        for c in range(n):
            floats[k, at + c] = last[c, 0]


@one_source(borders_due)
def border_runs(
    slots: Array, offsets: Array, states: Array, word: int, size: int, ticks: Array, column: int, base: int,
    rows: Array, firsts: Array, counts: Array,
) -> int:  # fmt: skip
    """Rows with borders up to their time: (row, first border, how many), each border once. How many such rows."""
    at = 0
    for g in range(len(slots)):
        border = states[slots[g], word]
        for i in range(offsets[g], offsets[g + 1]):
            now = ticks[column, base + i]
            if border <= now:
                due = borders_due(border, now, size)
                rows[at], firsts[at], counts[at] = i, border, due
                border += due * size
                at += 1
        states[slots[g], word] = border
    return at


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
    for line, limit in zip(level.triggers.lines.tolist(), level.triggers.limits.tolist()):
        kind, word = line[KIND], line[WORD]
        if fakes_only:
            fired.append(np.zeros(n, bool))
            if kind == TIME:
                _borders(form, line, slots, offsets, states, ticks, base, fired[-1], fakes)
        elif kind == COUNT:
            fired.append(np.zeros(n, bool))
            form(count_fires)(slots, offsets, states, word, line[A], fired[-1])
        elif kind == TIME:
            fired.append(np.zeros(n, bool))
            _borders(form, line, slots, offsets, states, ticks, base, fired[-1], fakes)
        elif kind == PUNCT:
            fired.append(cols[line[COLUMN], base : base + n] == 1.0)
        elif kind in (EUCLID, COSINE_):
            fired.append(np.zeros(n, bool))
            form(delta_fires)(
                kind == COSINE_, line[A], limit, slots, offsets, states, word, floats, line[FLOATS], cols, line[COLUMN],
                base, np.empty((line[A], 1)), fired[-1],
            )  # fmt: skip
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
    latest = ticks[column, base : base + len(fired)].max(initial=0)
    most = np.maximum((latest - states[slots, line[WORD]]) // size + 1, 0).sum()
    runs = np.empty((3, min(len(fired), int(most))), np.int64)
    n = form(border_runs)(slots, offsets, states, line[WORD], size, ticks, column, base, *runs)
    row, border, count = runs[:, :n]
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
