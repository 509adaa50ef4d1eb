"""The state of built-in policies as Arrow tables and back: numbers only, whatever the form in which loops run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from panes.errors import QueryError
from panes.policies.arena import Arena
from panes.policies.program import COLUMN, HEAD, KIND, SEEN, TAIL, TAIL_AT, TIME, WORD
from panes.state.checked import MANY, demand, numbers, one_row, read_table, within
from panes.windows.base import Array

if TYPE_CHECKING:
    from panes.policies.built_in import BuiltInPolicies

_INT, _FLOAT = pa.int64(), pa.float64()


def dump(running: BuiltInPolicies, slots: Array) -> dict[str, pa.Table]:
    """The state of these keys; that of the centre only with all keys."""
    seen = np.flatnonzero(running.states[:, TAIL] >= 0)
    if running.central and len(slots) and not np.isin(seen, slots).all():
        raise QueryError("central policies have state that belongs to all keys: snapshot all key groups at once")
    part = running.select(slots)
    arena, n = part.arena, part.arena.size
    rows = {
        "slot": slots[arena.slots[:n]], "position": arena.positions[:n], "follows": arena.follows[:n],
        **{f"tick.{i}": line[:n] for i, line in enumerate(arena.ticks)},
        **{f"col.{i}": line[:n] for i, line in enumerate(arena.cols)},
    }  # fmt: skip
    keys = {
        "slot": slots, "last_time": part.notes[:, 0], "origin": part.notes[:, 1],
        **{f"word.{i}": part.states[:, i] for i in range(part.states.shape[1])},
        **{f"float.{i}": part.floats[:, i] for i in range(part.floats.shape[1])},
    }  # fmt: skip
    return {
        "keys": pa.table({name: np.ascontiguousarray(column) for name, column in keys.items()}),
        "rows": pa.table({name: np.ascontiguousarray(column) for name, column in rows.items()}),
        "centre": pa.table({"word": part.middle.tolist(), "float": part.middle_floats.tolist()}),
    }


def load(running: BuiltInPolicies, tables: Mapping[str, pa.Table], slot_map: Any) -> None:
    """Add a dump."""
    theirs = Arena(len(running.columns.ticks), len(running.columns.floats))
    words, floats = running.states.shape[1], running.floats.shape[1]
    ticks, cols = (_named("tick", len(theirs.ticks), _INT), _named("col", len(theirs.cols), _FLOAT))
    keys = read_table(tables, "keys", {"slot": _INT, "last_time": _INT, "origin": _INT, **_named("word", words, _INT),
                                  **_named("float", floats, _FLOAT)})  # fmt: skip
    rows = read_table(tables, "rows", {"slot": _INT, "position": _INT, "follows": _INT, **ticks, **cols})
    centre = one_row(read_table(tables, "centre"), "centre")
    if not keys.num_rows:
        demand(not rows.num_rows, "rows of no key are kept")
        return
    if running.central:
        middle, middle_floats = np.array([centre["word"]], np.int64), np.array([centre["float"]], np.float64)
        demand(middle.shape == running.middle.shape, "central policies have too much state, or too little")
        demand(
            middle_floats.shape == running.middle_floats.shape, "central policies have too much state, or too little"
        )
        running.middle, running.middle_floats = middle, middle_floats
    slots = slot_map[numbers(keys, "slot")]
    demand(len(np.unique(slots)) == len(slots), "the state of one key is there twice")
    n = rows.num_rows
    owners = slot_map[numbers(rows, "slot")] if n else np.empty(0, np.int64)
    running.grow(int(slots.max()) + 1)
    for i in range(words):
        running.states[slots, i] = numbers(keys, f"word.{i}", low=-MANY, high=MANY)
    for i in range(floats):
        running.floats[slots, i] = numbers(keys, f"float.{i}", _FLOAT)
    running.notes[slots, 0], running.notes[slots, 1] = numbers(keys, "last_time"), numbers(keys, "origin")
    lines = [np.array([numbers(rows, name, kind) for name in names]).reshape(len(names), n)
             for names, kind in ((ticks, _INT), (cols, _FLOAT))]  # fmt: skip
    theirs.append(lines[0], lines[1], owners, numbers(rows, "position", low=0))
    _check(running, theirs, slots)
    running.link(theirs, slots)
    for word in running.own.own_heads:
        lacking = (running.states[slots, word] < running.states[slots, TAIL]) & (running.states[slots, word + 1] < 0)
        demand(not lacking.any(), "an eviction compares rows that are not kept")
    running.adopt(theirs, owners, slots)


def _named(name: str, count: int, kind: pa.DataType) -> dict[str, pa.DataType]:
    return {f"{name}.{i}": kind for i in range(count)}


def _check(running: BuiltInPolicies, arena: Arena, slots: Array) -> None:
    """Loops follow what they are given: every place that a word or a row names must be what it should be."""
    states = running.states[slots]
    head, tail = states[:, HEAD], states[:, TAIL]
    seen = tail >= 0
    within(tail, "the number of rows of a key", low=-1)
    within(states[:, SEEN], "whether a key was seen", low=0, high=1)
    within(head[seen], "where a window begins", low=0, high=tail[seen])
    within(running.notes[slots, 1][seen], "the first row of a key", low=0, high=tail[seen])
    for line in running.own.triggers.lines.tolist():
        if line[KIND] == TIME and line[COLUMN] == 0:  # borders up to the last row have been given
            within(states[seen, line[WORD]], "the next border", low=running.notes[slots, 0][seen])
    owner, position = arena.slots[: arena.size], arena.positions[: arena.size]
    demand(np.isin(owner, slots).all(), "rows of no key are kept")
    order = np.lexsort((position, owner))
    same = np.diff(owner[order]) == 0
    demand((np.diff(position[order])[same] == 1).all(), "rows that are kept of a key don't follow each other")
    demand((np.diff(order)[same] > 0).all(), "a row is followed by one that does not come after it")
    lasts = order[np.append(~same, True)[: len(order)]]
    demand((position[lasts] == running.states[owner[lasts], TAIL] - 1).all(), "the last row of a key is not kept")
    for word in running.own.own_heads:
        within(states[seen, word], "the first row that an eviction compares", low=0, high=tail[seen])
    if running.central:
        _check_centre(running, arena.size)


def _check_centre(running: BuiltInPolicies, kept: int) -> None:
    middle = running.middle[0]
    within(middle, "the state of central policies", low=-MANY, high=MANY)
    head, tail = int(middle[HEAD]), int(middle[TAIL])
    demand(0 <= head <= tail, "central policies hold fewer rows than none")
    spans = [(int(middle[w + 1]), tail - int(middle[w])) for w in running.centre.own_heads]
    if running.machine.central_evict:
        spans.append((int(middle[TAIL_AT]), tail - head))
    for place, count in spans:
        demand(0 <= count <= kept and -1 <= place <= kept - count, "central policies compare rows that are not kept")
        demand(place >= 0 or not count, "central policies compare rows that are not kept")
