"""The state of compiled policies as Arrow tables and back; and from Python policies to compiled ones and back.

Small streams never pay for compiling: they begin in Python and go over when there are rows enough (adaptive.py).
Snapshots always have the compiled form, which holds numbers only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from panes.errors import QueryError
from panes.policies.arena import Arena
from panes.policies.program import (
    COLUMN,
    COSINE_,
    EUCLID,
    FIRST_WORD,
    HEAD,
    KIND,
    SEEN,
    TAIL,
    TAIL_AT,
    TIME,
    WORD,
    A,
    Level,
)
from panes.policies.runtimes import (
    ActiveWrapper,
    CountEviction,
    CountTrigger,
    DeltaEviction,
    DeltaTrigger,
    ManyEvictions,
    ManyTriggers,
    TimeEviction,
    TimeTrigger,
)
from panes.state.checked import MANY, demand, numbers, one_row, read_table, within
from panes.windows.base import Array

if TYPE_CHECKING:
    from panes.policies.compiled import Compiled
    from panes.policies.flow import Group
    from panes.policies.interpreted import Interpreted


_INT, _FLOAT = pa.int64(), pa.float64()


def dump(compiled: Compiled, slots: Array) -> dict[str, pa.Table]:
    """The state of these keys; that of the centre only with all keys."""
    seen = np.flatnonzero(compiled.states[:, TAIL] >= 0)
    if compiled.central and len(slots) and not np.isin(seen, slots).all():
        raise QueryError("central policies have state that belongs to all keys: snapshot all key groups at once")
    part = compiled.select(slots)
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


def load(compiled: Compiled, tables: Mapping[str, pa.Table], slot_map: Any) -> None:
    """Add a dump."""
    theirs = Arena(len(compiled.columns.ticks), len(compiled.columns.floats))
    words, floats = compiled.states.shape[1], compiled.floats.shape[1]
    ticks, cols = (_named("tick", len(theirs.ticks), _INT), _named("col", len(theirs.cols), _FLOAT))
    keys = read_table(tables, "keys", {"slot": _INT, "last_time": _INT, "origin": _INT, **_named("word", words, _INT),
                                  **_named("float", floats, _FLOAT)})  # fmt: skip
    rows = read_table(tables, "rows", {"slot": _INT, "position": _INT, "follows": _INT, **ticks, **cols})
    centre = one_row(read_table(tables, "centre"), "centre")
    if not keys.num_rows:
        demand(not rows.num_rows, "rows of no key are kept")
        return
    if compiled.central:
        middle, middle_floats = np.array([centre["word"]], np.int64), np.array([centre["float"]], np.float64)
        demand(middle.shape == compiled.middle.shape, "central policies have too much state, or too little")
        demand(
            middle_floats.shape == compiled.middle_floats.shape, "central policies have too much state, or too little"
        )
        compiled.middle, compiled.middle_floats = middle, middle_floats
    slots = slot_map[numbers(keys, "slot")]
    demand(len(np.unique(slots)) == len(slots), "the state of one key is there twice")
    n = rows.num_rows
    owners = slot_map[numbers(rows, "slot")] if n else np.empty(0, np.int64)
    compiled.grow(int(slots.max()) + 1)
    for i in range(words):
        compiled.states[slots, i] = numbers(keys, f"word.{i}", low=-MANY, high=MANY)
    for i in range(floats):
        compiled.floats[slots, i] = numbers(keys, f"float.{i}", _FLOAT)
    compiled.notes[slots, 0], compiled.notes[slots, 1] = numbers(keys, "last_time"), numbers(keys, "origin")
    lines = [np.array([numbers(rows, name, kind) for name in names]).reshape(len(names), n)
             for names, kind in ((ticks, _INT), (cols, _FLOAT))]  # fmt: skip
    theirs.append(lines[0], lines[1], owners, numbers(rows, "position", low=0))
    theirs.follows[:n] = numbers(rows, "follows", low=-1, high=n - 1)
    _check(compiled, theirs, slots)
    compiled.adopt(theirs, owners, slots)


def _named(name: str, count: int, kind: pa.DataType) -> dict[str, pa.DataType]:
    return {f"{name}.{i}": kind for i in range(count)}


def _check(compiled: Compiled, arena: Arena, slots: Array) -> None:
    """Compiled loops follow what they are given: every place that a word or a row names must be what it should be."""
    n = arena.size
    owner, position, follows = arena.slots[:n], arena.positions[:n], arena.follows[:n]
    on = np.flatnonzero(follows >= 0)
    after = follows[on]
    demand(
        (after > on).all() and (owner[after] == owner[on]).all() and (position[after] == position[on] + 1).all(),
        "a row is followed by one that does not come after it",
    )
    states = compiled.states[slots]
    head, tail = states[:, HEAD], states[:, TAIL]
    seen = tail >= 0
    within(tail, "the number of rows of a key", low=-1)
    within(states[:, SEEN], "whether a key was seen", low=0, high=1)
    within(head[seen], "where a window begins", low=0, high=tail[seen])
    within(compiled.notes[slots, 1][seen], "the first row of a key", low=0, high=tail[seen])
    for line in compiled.own.triggers.lines.tolist():
        if line[KIND] == TIME and line[COLUMN] == 0:  # borders up to the last row have been given
            within(states[seen, line[WORD]], "the next border", low=compiled.notes[slots, 0][seen])
    lasts = states[:, TAIL_AT]
    _check_places(arena, slots, lasts, tail - 1, seen & (lasts >= 0), "the last row of a key")
    order = np.lexsort((position, owner))
    same = owner[order][1:] == owner[order][:-1]
    demand((np.diff(position[order])[same] == 1).all(), "rows that are kept of a key don't follow each other")
    held = np.bincount(owner, minlength=len(compiled.states))[slots] if n else np.zeros(len(slots), np.int64)
    for word in compiled.own.own_heads:
        first = states[:, word]
        within(first[seen], "the first row that an eviction compares", low=0, high=tail[seen])
        some = seen & (first < tail)
        _check_places(arena, slots, states[:, word + 1], first, some, "the first row that an eviction compares")
        within((tail - first)[some], "the rows that an eviction compares", high=held[some])
        places = states[some, word + 1]
        demand(_reach(arena, order, places, tail[some] - 1), "an eviction compares rows that are not kept")
    if compiled.central:
        _check_centre(compiled, n)


def _check_places(arena: Arena, slots: Array, places: Array, positions: Array, some: Array, what: str) -> None:
    """These places are those of rows of the key, at these positions."""
    within(places, what, low=-1, high=arena.size - 1)
    at = places[some]
    demand((at >= 0).all(), f"{what} is not kept")
    if len(at):
        demand((arena.slots[at] == slots[some]).all() and (arena.positions[at] == positions[some]).all(),
               f"{what} is another one")  # fmt: skip


def _reach(arena: Arena, order: Array, places: Array, lasts: Array) -> bool:
    """Whether rows that follow those at `places` lead to those at positions `lasts`; `order`: by key and position."""
    if not len(places):
        return True
    owner, rank = arena.slots[order], np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    last = np.append(owner[1:] != owner[:-1], True)
    broken = np.cumsum(~last & (arena.follows[order] != np.append(order[1:], -1)))
    end = np.searchsorted(owner, arena.slots[places], side="right") - 1
    # of all rows from the place on, the last but one included, each leads to the next
    before = np.append(0, broken)[rank[places]]
    whole = broken[end] == before
    return bool(whole.all() and (arena.positions[order[end]] == lasts).all())


def _check_centre(compiled: Compiled, kept: int) -> None:
    middle = compiled.middle[0]
    within(middle, "the state of central policies", low=-MANY, high=MANY)
    head, tail = int(middle[HEAD]), int(middle[TAIL])
    demand(0 <= head <= tail, "central policies hold fewer rows than none")
    spans = [(int(middle[w + 1]), tail - int(middle[w])) for w in compiled.centre.own_heads]
    if compiled.machine.central_evict:
        spans.append((int(middle[TAIL_AT]), tail - head))
    for place, count in spans:
        demand(0 <= count <= kept and -1 <= place <= kept - count, "central policies compare rows that are not kept")
        demand(place >= 0 or not count, "central policies compare rows that are not kept")


def to_compiled(old: Interpreted, new: Compiled) -> None:
    """Put the state of built-in policies in Python into compiled ones that have seen nothing."""
    grouped, slots = old.grouped, sorted(old.groups)
    new.grow(slots[-1] + 1 if slots else 0)
    for slot in slots:
        group = old.groups[slot]
        new.states[slot, :FIRST_WORD] = group.head, group.tail, -1, 1
        new.notes[slot] = old.notes[slot]
        _write(group.triggers, group.evictions, new.states[slot], new.floats[slot], group.tail, group.size)
    held = len(grouped.rows)
    new.middle[0, :FIRST_WORD] = 0, held, 0, 1
    _write(grouped.triggers, grouped.evictions, new.middle[0], new.middle_floats[0], held, held)
    if not new.keeps:
        return
    if new.machine.central_evict:
        listed = list(grouped.rows)
    else:
        firsts = {s: min((int(new.states[s, w]) for w in new.own.own_heads), default=0) for s in slots}
        listed = [(s, position) for s in slots for position in range(firsts[s], old.groups[s].tail)]
    _fill(old, new, listed)


def _fill(old: Interpreted, new: Compiled, listed: list[tuple[int, int]]) -> None:
    """The rows that evictions compare, as far as anybody knows their values."""
    n = len(listed)
    ticks = np.zeros((len(new.columns.ticks), n), np.int64)
    cols = np.full((len(new.columns.floats), n), np.nan)
    place = {row: i for i, row in enumerate(listed)}
    for slot, group in old.groups.items():
        for word, column, queue, by_time in _queues(new.own, group.evictions):
            first = group.tail - len(queue)
            where = [place[slot, first + i] for i in range(len(queue))]
            _put(ticks if by_time else cols, column, where, queue)
            new.states[slot, word + 1] = where[0] if where else -1
        if new.own.evictions.keeps_rows and (slot, group.tail - 1) in place:
            new.states[slot, TAIL_AT] = place[slot, group.tail - 1]
    for word, column, queue, by_time in _queues(new.centre, old.grouped.evictions):
        _put(ticks if by_time else cols, column, list(range(n - len(queue), n)), queue)
        new.middle[0, word + 1] = n - len(queue)
    slots = np.array([s for s, _ in listed], np.int64)
    new.arena.append(ticks, cols, slots, np.array([p for _, p in listed], np.int64))
    for (slot, position), i in place.items():
        new.arena.follows[i] = place.get((slot, position + 1), -1)


def _put(table: Array, column: int, where: list[int], queue: Any) -> None:
    for place, value in zip(where, queue):
        if isinstance(value, tuple):
            table[column : column + len(value), place] = value
        else:
            table[column, place] = value


def _write(triggers: Any, evictions: Any, words: Array, floats: Array, tail: int, size: int) -> None:
    """Words and floats of policies, in the order in which program.py lays them out."""
    word, at = FIRST_WORD, 0
    for trigger in _leaves(triggers):
        if isinstance(trigger, DeltaTrigger):
            n = len(trigger.spec.on)
            words[word] = trigger.last is not None
            floats[at : at + n] = np.nan if trigger.last is None else trigger.last
            word, at = word + 1, at + n
        elif isinstance(trigger, CountTrigger | TimeTrigger):
            words[word] = trigger.counter if isinstance(trigger, CountTrigger) else trigger.border
            word += 1
    for eviction in _leaves(evictions):
        if isinstance(eviction, CountEviction):
            words[word] = eviction.counter
            word += 1
        elif isinstance(eviction, TimeEviction | DeltaEviction):
            while len(eviction.queue) > size:  # it would notice with the next row
                eviction.queue.popleft()
            words[word], words[word + 1] = tail - len(eviction.queue), -1
            word += 2


def _queues(level: Level, evictions: Any) -> Iterator[tuple[int, int, Any, bool]]:
    """(word, column, queue, whether it holds times) of each eviction that compares rows."""
    lines = [line for line in level.evictions.lines.tolist() if line[KIND] in (TIME, EUCLID, COSINE_)]
    queues = [e for e in _leaves(evictions) if isinstance(e, TimeEviction | DeltaEviction)]
    for line, word, eviction in zip(lines, level.own_heads, queues):
        yield word, line[COLUMN], eviction.queue, line[KIND] == TIME


def to_interpreted(old: Compiled, new: Interpreted) -> None:
    """The way back: for a restored state that is small."""
    seen = np.flatnonzero((old.states[:, TAIL] >= 0) & (old.states[:, SEEN] == 1))
    for slot in seen.tolist():
        group: Group = new.grouped.group(slot)
        group.head, group.tail = int(old.states[slot, HEAD]), int(old.states[slot, TAIL])
        new.notes[slot] = tuple(old.notes[slot].tolist())
        _read(old.own, group.triggers, group.evictions, old, old.states[slot], old.floats[slot], contiguous=False)
    middle = old.middle[0]
    grouped = new.grouped
    _read(old.centre, grouped.triggers, grouped.evictions, old, middle, old.middle_floats[0], contiguous=True)
    if old.machine.central_evict:
        first = int(middle[TAIL_AT])
        for place in range(first, first + int(middle[TAIL] - middle[HEAD])):
            grouped.rows.append((int(old.arena.slots[place]), int(old.arena.positions[place])))


def _read(
    level: Level, triggers: Any, evictions: Any, old: Compiled, words: Array, floats: Array, *, contiguous: bool
) -> None:
    word, at = FIRST_WORD, 0
    for trigger in _leaves(triggers):
        if isinstance(trigger, DeltaTrigger):
            n = len(trigger.spec.on)
            trigger.last = tuple(floats[at : at + n].tolist()) if words[word] else None
            word, at = word + 1, at + n
        elif isinstance(trigger, CountTrigger):
            trigger.counter = int(words[word])
            word += 1
        elif isinstance(trigger, TimeTrigger):
            trigger.border = int(words[word])
            word += 1
    for eviction in _leaves(evictions):
        if isinstance(eviction, CountEviction):
            eviction.counter = int(words[word])
            word += 1
        elif isinstance(eviction, TimeEviction | DeltaEviction):
            word += 2
    arena = old.arena
    for own, column, queue, by_time in _queues(level, evictions):
        place = int(words[own + 1])
        n = 1 if by_time else _width(level, own)
        for _ in range(int(words[TAIL] - words[own])):
            values = arena.ticks[column, place] if by_time else arena.cols[column : column + n, place]
            queue.append(int(values) if by_time else tuple(values.tolist()))
            place = place + 1 if contiguous else int(arena.follows[place])


def _width(level: Level, word: int) -> int:
    return next(
        int(line[A]) for line in level.evictions.lines if line[WORD] == word and line[KIND] in (EUCLID, COSINE_)
    )


def _leaves(policies: Any) -> Iterator[Any]:
    for policy in policies:
        if isinstance(policy, ManyTriggers | ManyEvictions):
            yield from _leaves(policy.nested)
        else:
            yield policy.inner if isinstance(policy, ActiveWrapper) else policy
