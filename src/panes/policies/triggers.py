"""From the triggers of one key to the rows at which they fire and the fake items before rows, over a whole batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from panes.policies.program import (
    ALL,
    ANY,
    CHILDREN,
    COLUMN,
    COUNT,
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


@dataclass(frozen=True)
class Fakes:
    """Runs of fake items by row: before `row`, `count` of them from `first` in `step`s.

    Those before the same row are sent in the order of their times, then of the runs (`next_run` in kernels.py).
    """

    row: Array
    first: Array
    step: Array
    count: Array
    timed: Array  # their results have the time of the fake item, not of the row

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


def look(
    level: Level, slots: Array, offsets: Array, states: Array, floats: Array, ticks: Array, cols: Array, base: int,
    *, empty: Array, fakes_only: bool = False,
) -> tuple[Array, Fakes]:  # fmt: skip
    """Run all triggers of a level over rows base.. of slots; moves on their words in `states`.

    `empty`: rows before which nothing is held, so that fake items would give nothing. `fakes_only`: there are no rows,
    only a time in `ticks` that each slot has come to.
    """
    from panes.policies import trigger_kernels

    fakes: list[Fakes] = []
    fired: list[Array] = []
    n = int(offsets[-1])
    if fakes_only:
        timers = [line for line in level.triggers.lines.tolist() if line[KIND] == TIME]
        nothing = np.zeros(n, bool)
        for line in timers:
            _borders(trigger_kernels, line, slots, offsets, states, ticks, base, nothing, fakes)
        return nothing, Fakes.joined([f.without(empty) for f in fakes])
    for line, limit in zip(level.triggers.lines.tolist(), level.triggers.limits.tolist()):
        kind, word = line[KIND], line[WORD]
        if kind == COUNT:
            fired.append(trigger_kernels.count_fires(slots, offsets, states, word, line[A]))
        elif kind == TIME:
            fired.append(np.zeros(n, bool))
            _borders(trigger_kernels, line, slots, offsets, states, ticks, base, fired[-1], fakes)
        elif kind == PUNCT:
            fired.append(cols[line[COLUMN], base : base + n] == 1.0)
        elif kind in (ANY, ALL) or line[CHILDREN] or kind > ALL:
            inner = fired[len(fired) - line[CHILDREN] :]
            del fired[len(fired) - line[CHILDREN] :]
            fired.append(_combined(kind, inner, n))
        else:
            fired.append(
                trigger_kernels.delta_fires(
                    kind, line[A], limit, slots, offsets, states, word, floats, line[FLOATS], cols, line[COLUMN], base
                )
            )
    return fired[0], Fakes.joined([f.without(empty) for f in fakes])


def _borders(
    compiled: Any, line: list[int], slots: Array, offsets: Array, states: Array, ticks: Array, base: int,
    fired: Array, fakes: list[Fakes],
) -> None:  # fmt: skip
    word, size, mode, column = line[WORD], line[A], line[B], line[COLUMN]
    if mode == PASSIVE:
        fired[compiled.border_runs(slots, offsets, states, word, size, ticks[column], base)[0]] = True
        return
    if mode == ON_ROW:
        # a border on the very time of a row is the row's own: it fires, and is no fake item
        row, border, count = compiled.border_runs(slots, offsets, states, word, size, ticks[column], base)
        own = (border + (count - 1) * size) == ticks[column, base + row]
        fired[row[own]] = True
        count = count - own
        row, border, count = row[count > 0], border[count > 0], count[count > 0]
    else:
        row, border, count = compiled.border_runs(slots, offsets, states, word, size, ticks[column], base)
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
