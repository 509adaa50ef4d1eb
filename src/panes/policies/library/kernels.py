"""The containers as one loop over the rows of a batch, all keys at once: plain for few rows, compiled for many.

The steps of tumbling.py, sliding.py and partitions.py from the same tables, over arrays instead of
objects; the rules are those that containers ask, too. A subwindow is a line of `subs` (fields S_*), a tuple is a line
of `rows` (fields R_*), linked to the next one of its key. Queues are binary heaps: lines of four numbers, ordered by
the first three.
"""

from __future__ import annotations

import numpy as np

from panes.policies.library import fields as k
from panes.policies.loop import one_source
from panes.policies.rules import counted, is_beyond, leaves_by_count

Array = np.ndarray


def _less(heap: Array, a: int, b: int) -> bool:
    for i in range(3):
        if heap[a, i] != heap[b, i]:
            return bool(heap[a, i] < heap[b, i])
    return False


def _swap(heap: Array, a: int, b: int) -> None:
    for i in range(4):
        heap[a, i], heap[b, i] = heap[b, i], heap[a, i]


def heap_push(heap: Array, n: int, a: int, b: int, c: int, d: int) -> int:
    """Put (a, b, c, d) into a heap of n entries ordered by the first three; returns its new size."""
    heap[n, 0], heap[n, 1], heap[n, 2], heap[n, 3] = a, b, c, d
    at = n
    while at > 0:
        parent = (at - 1) // 2
        if not _less(heap, at, parent):
            break
        _swap(heap, at, parent)
        at = parent
    return n + 1


def heap_drop(heap: Array, n: int) -> int:
    """Remove the first entry; returns the new size."""
    n -= 1
    _swap(heap, 0, n)
    at = 0
    while True:
        child = 2 * at + 1
        if child >= n:
            return n
        if child + 1 < n and _less(heap, child + 1, child):
            child += 1
        if not _less(heap, child, at):
            return n
        _swap(heap, at, child)
        at = child


def _tell(kind: int, slot: int, row: int, at: int, subs: Array, g: Array, config: Array, events: Array) -> None:
    """Write an event down, and see to it that its tuples can be found when the push is over."""
    if not (config[k.C_WATCH] >> kind) & 1:
        return
    n = g[k.G_OUT]
    first = subs[slot, k.S_FIRST]
    end = first + subs[slot, k.S_SIZE]
    events[n, k.E_KIND], events[n, k.E_SLOT], events[n, k.E_ROW], events[n, k.E_AT] = kind, slot, row, at
    events[n, k.E_FULL], events[n, k.E_FROM], events[n, k.E_TO] = subs[slot, k.S_FULL], first, end
    g[k.G_OUT] = n + 1
    if kind == k.FIRED:
        g[k.G_FIRED] += 1
    if end > first:
        if subs[slot, k.S_VIEW_FROM] == k.NEVER:
            subs[slot, k.S_VIEW_FROM] = first
            subs[slot, k.S_VIEW_ROW] = subs[slot, k.S_HEAD]
        subs[slot, k.S_VIEW_TO] = end


def _unlink(slot: int, subs: Array, g: Array) -> None:
    before, after = subs[slot, k.S_BEFORE], subs[slot, k.S_AFTER]
    if before == k.NEVER:
        g[k.G_FIRST] = after
    else:
        subs[before, k.S_AFTER] = after
    if after == k.NEVER:
        g[k.G_LAST] = before
    else:
        subs[after, k.S_BEFORE] = before


def _link_last(slot: int, subs: Array, g: Array) -> None:
    last = g[k.G_LAST]
    subs[slot, k.S_BEFORE], subs[slot, k.S_AFTER] = last, k.NEVER
    if last == k.NEVER:
        g[k.G_FIRST] = slot
    else:
        subs[last, k.S_AFTER] = slot
    g[k.G_LAST] = slot


def _empty(slot: int, subs: Array, g: Array) -> None:
    g[k.G_TUPLES] -= subs[slot, k.S_SIZE]
    subs[slot, k.S_FIRST] += subs[slot, k.S_SIZE]
    subs[slot, k.S_SIZE] = 0


def _remove(slot: int, subs: Array, g: Array, config: Array) -> None:
    """The subwindow goes, with all that its policies remember."""
    _empty(slot, subs, g)
    if config[k.C_LIMIT] != k.NO_LIMIT and config[k.C_SELECT] != k.LFU:
        _unlink(slot, subs, g)
    subs[slot, k.S_ALIVE] = 0
    g[k.G_LIVE] -= 1


def _create(slot: int, now: int, subs: Array, g: Array, config: Array, due: Array, rarest: Array) -> None:
    g[k.G_UPDATES] += 1
    g[k.G_LIVE] += 1
    created = g[k.G_UPDATES]
    subs[slot, k.S_ALIVE] = 1
    subs[slot, k.S_CREATED] = subs[slot, k.S_UPDATED] = created
    subs[slot, k.S_UPDATES] = subs[slot, k.S_COUNTER] = subs[slot, k.S_FULL] = subs[slot, k.S_HAS_BASE] = 0
    subs[slot, k.S_UPDATED_AT] = now
    subs[slot, k.S_EVICT_DUE] = k.NO_TIME
    if config[k.C_LIMIT] != k.NO_LIMIT:
        if config[k.C_SELECT] == k.LFU:
            g[k.G_RAREST] = heap_push(rarest, g[k.G_RAREST], 0, created, slot, 0)
        else:
            _link_last(slot, subs, g)
    if config[k.C_TUMBLING] and config[k.C_EVICT] == k.TIME:
        period = subs[slot, k.S_PERIOD]
        subs[slot, k.S_EVICT_DUE] = now + config[k.C_SIZE] if period == k.NO_TIME else period
        subs[slot, k.S_PERIOD] = k.NO_TIME
        g[k.G_DUE] = heap_push(due, g[k.G_DUE], subs[slot, k.S_EVICT_DUE], k.DUE_EVICT, created, slot)
    if config[k.C_TRIGGER] == k.TIME:
        subs[slot, k.S_TRIGGER_DUE] = now + config[k.C_EVERY]
        g[k.G_DUE] = heap_push(due, g[k.G_DUE], subs[slot, k.S_TRIGGER_DUE], k.DUE_TRIGGER, created, slot)


def _flush(slot: int, row: int, at: int, subs: Array, g: Array, config: Array, events: Array) -> None:
    _tell(k.FIRED, slot, row, at, subs, g, config, events)
    if config[k.C_DISCARD]:
        _remove(slot, subs, g, config)
    else:
        _empty(slot, subs, g)


def _fill(slot: int, row: int, at: int, subs: Array, g: Array, config: Array, events: Array) -> None:
    if not subs[slot, k.S_FULL]:
        subs[slot, k.S_FULL] = 1
        _tell(k.FILLED, slot, row, at, subs, g, config, events)


def _oldest_is_beyond(slot: int, value: float, subs: Array, values: Array, limit: float) -> bool:
    """Whether the window has a tuple, and the oldest one is further from a value than it reaches."""
    return subs[slot, k.S_SIZE] > 0 and is_beyond(value, values[subs[slot, k.S_HEAD]], limit)


def _evict_oldest(slot: int, subs: Array, rows: Array, g: Array) -> None:
    subs[slot, k.S_HEAD] = rows[subs[slot, k.S_HEAD], k.R_NEXT]
    subs[slot, k.S_FIRST] += 1
    subs[slot, k.S_SIZE] -= 1
    g[k.G_TUPLES] -= 1


def _due(row: int, subs: Array, rows: Array, g: Array, config: Array, due: Array, events: Array) -> None:
    """What the first of the moments brings."""
    at, what, created, slot = due[0, 0], due[0, 1], due[0, 2], due[0, 3]
    g[k.G_DUE] = heap_drop(due, g[k.G_DUE])
    if what == k.DUE_FORGET:
        if subs[slot, k.S_PERIOD] == at:
            subs[slot, k.S_PERIOD] = k.NO_TIME
        return
    if not subs[slot, k.S_ALIVE] or subs[slot, k.S_CREATED] != created:
        return
    if config[k.C_TUMBLING]:
        after = at + config[k.C_SIZE]
        subs[slot, k.S_EVICT_DUE] = after
        if config[k.C_DISCARD]:
            subs[slot, k.S_PERIOD] = after
            g[k.G_DUE] = heap_push(due, g[k.G_DUE], after, k.DUE_FORGET, created, slot)
        else:
            g[k.G_DUE] = heap_push(due, g[k.G_DUE], after, k.DUE_EVICT, created, slot)
        _flush(slot, row, at, subs, g, config, events)
    elif what == k.DUE_TRIGGER:
        subs[slot, k.S_TRIGGER_DUE] = at + config[k.C_EVERY]
        g[k.G_DUE] = heap_push(due, g[k.G_DUE], subs[slot, k.S_TRIGGER_DUE], k.DUE_TRIGGER, created, slot)
        _tell(k.FIRED, slot, row, at, subs, g, config, events)
    else:
        _fill(slot, row, at, subs, g, config, events)
        while subs[slot, k.S_SIZE] > 0 and is_beyond(at, rows[subs[slot, k.S_HEAD], k.R_TIME], config[k.C_SIZE]):
            _evict_oldest(slot, subs, rows, g)
        subs[slot, k.S_EVICT_DUE] = k.NO_TIME
        if subs[slot, k.S_SIZE] > 0:
            subs[slot, k.S_EVICT_DUE] = rows[subs[slot, k.S_HEAD], k.R_TIME] + config[k.C_SIZE] + 1
            g[k.G_DUE] = heap_push(due, g[k.G_DUE], subs[slot, k.S_EVICT_DUE], k.DUE_EVICT, created, slot)


def _next_to_go(current: int, subs: Array, g: Array, config: Array, rarest: Array) -> int:
    """The subwindow that is selected, or k.NEVER if there is none but the current one."""
    if config[k.C_SELECT] != k.LFU:
        first = g[k.G_FIRST]
        return int(subs[first, k.S_AFTER]) if first == current else int(first)
    chosen = k.NEVER
    aside = k.NEVER
    while g[k.G_RAREST] > 0 and chosen == k.NEVER:
        updates, updated, slot = rarest[0, 0], rarest[0, 1], rarest[0, 2]
        g[k.G_RAREST] = heap_drop(rarest, g[k.G_RAREST])
        if not subs[slot, k.S_ALIVE] or subs[slot, k.S_CREATED] > updated:
            continue
        if subs[slot, k.S_UPDATES] != updates or subs[slot, k.S_UPDATED] != updated:
            g[k.G_RAREST] = heap_push(rarest, g[k.G_RAREST], subs[slot, k.S_UPDATES], subs[slot, k.S_UPDATED], slot, 0)
        elif slot == current:
            aside = updated
        else:
            chosen = slot
    if aside != k.NEVER:
        g[k.G_RAREST] = heap_push(rarest, g[k.G_RAREST], subs[current, k.S_UPDATES], aside, current, 0)
    return int(chosen)


def _limit_partitions(
    current: int, row: int, now: int, subs: Array, g: Array, config: Array, rarest: Array, events: Array
) -> None:
    """After a tuple was put into `current`."""
    while True:
        held = g[k.G_LIVE] if config[k.C_LIMIT] == k.PARTITIONS else g[k.G_TUPLES]
        if held <= config[k.C_MOST]:
            return
        slot = _next_to_go(current, subs, g, config, rarest)
        if slot == k.NEVER:
            return
        _tell(k.DROPPED, slot, row, now, subs, g, config, events)
        _remove(slot, subs, g, config)


def _drop_aged(row: int, now: int, subs: Array, g: Array, config: Array, events: Array) -> None:
    while g[k.G_FIRST] != k.NEVER and is_beyond(now, subs[g[k.G_FIRST], k.S_UPDATED_AT], config[k.C_MOST]):
        slot = g[k.G_FIRST]
        _tell(k.DROPPED, slot, row, now, subs, g, config, events)
        _remove(slot, subs, g, config)


def _advance(row: int, now: int, subs: Array, rows: Array, g: Array, config: Array, due: Array, events: Array) -> bool:
    """Everything that is due until now; False if the events have no room left and it must be called again."""
    while g[k.G_DUE] > 0 and due[0, 0] <= now:
        if g[k.G_FIRED] >= config[k.C_ROOM]:
            return False
        _due(row, subs, rows, g, config, due, events)
    return True


def _put_in(slot: int, row: int, now: int, subs: Array, rows: Array, g: Array, config: Array, due: Array) -> None:
    rows[row, k.R_TIME] = now
    last = subs[slot, k.S_LAST]
    if last != k.NEVER:
        rows[last, k.R_NEXT] = row
    subs[slot, k.S_LAST] = row
    if subs[slot, k.S_SIZE] == 0:
        subs[slot, k.S_HEAD] = row
    subs[slot, k.S_SIZE] += 1
    g[k.G_TUPLES] += 1
    if config[k.C_EVICT] == k.TIME and subs[slot, k.S_EVICT_DUE] == k.NO_TIME:
        subs[slot, k.S_EVICT_DUE] = now + config[k.C_SIZE] + 1
        g[k.G_DUE] = heap_push(due, g[k.G_DUE], subs[slot, k.S_EVICT_DUE], k.DUE_EVICT, subs[slot, k.S_CREATED], slot)


_INLINED = (_evict_oldest, _put_in)
_PARTS = (
    is_beyond, leaves_by_count, counted, _less, _swap, heap_push, heap_drop, _tell, _unlink, _link_last, _empty,
    _remove, _create, _flush, _fill, _oldest_is_beyond, _due, _next_to_go, _limit_partitions, _drop_aged, _advance,
)  # fmt: skip
create = one_source(*_PARTS)(_create)
advance = one_source(*_PARTS, inlined=_INLINED)(_advance)


@one_source(*_PARTS, inlined=_INLINED)
def arrive(
    begin: int, slots: Array, times: Array, first_row: int, subs: Array, rows: Array, g: Array, config: Array,
    steps: Array, evict_values: Array, evict_delta: float, coming: Array, trigger_delta: float,
    bases: Array, last_evict: Array, last_trigger: Array, due: Array, rarest: Array, events: Array,
) -> int:  # fmt: skip
    """Rows from `begin` on arrive. Returns how many are done: fewer than all if the events have no room left.

    Row i is tuple `first_row + i`; `coming` is what a delta trigger reads of it. A delta attribute that falls stops
    the loop: k.G_BAD is then the row.
    """
    # Read once: the compiler can't know that writing to other arrays leaves the configuration as it is.
    evict, size, trigger, every = config[k.C_EVICT], config[k.C_SIZE], config[k.C_TRIGGER], config[k.C_EVERY]
    limit, tumbling, room = config[k.C_LIMIT], config[k.C_TUMBLING], config[k.C_ROOM]
    by_recency = limit == k.AGE or (limit != k.NO_LIMIT and config[k.C_SELECT] == k.LRU)
    for i in range(begin, len(slots)):
        now = g[k.G_NOW]
        if len(times):
            now = max(now, times[i])
            g[k.G_NOW] = now
            if g[k.G_DUE] > 0 and due[0, 0] <= now and not _advance(i, now, subs, rows, g, config, due, events):
                return i
        if g[k.G_FIRED] >= room:
            return i
        if limit == k.AGE:
            _drop_aged(i, now, subs, g, config, events)
        slot = slots[i]
        row = first_row + i
        if not subs[slot, k.S_ALIVE]:
            _create(slot, now, subs, g, config, due, rarest)
        elif (evict == k.DELTA and evict_values[row] < last_evict[slot]) or (
            trigger == k.DELTA and coming[i] < last_trigger[slot]
        ):
            g[k.G_BAD] = i
            return i
        if evict == k.DELTA:
            last_evict[slot] = evict_values[row]
        if trigger == k.DELTA:
            last_trigger[slot] = coming[i]
        g[k.G_UPDATES] += 1
        subs[slot, k.S_UPDATED] = g[k.G_UPDATES]
        subs[slot, k.S_UPDATES] += 1
        subs[slot, k.S_UPDATED_AT] = now
        if by_recency and g[k.G_LAST] != slot:
            _unlink(slot, subs, g)
            _link_last(slot, subs, g)
        if (
            evict == k.DELTA and not tumbling
            and _oldest_is_beyond(slot, evict_values[row], subs, evict_values, evict_delta)
        ):  # fmt: skip
            _fill(slot, i, now, subs, g, config, events)
        for step in steps:
            if step == k.INSERT:
                if evict != k.COUNT or size > 0:
                    _put_in(slot, row, now, subs, rows, g, config, due)
                if not tumbling and evict == k.COUNT and subs[slot, k.S_SIZE] >= size:
                    _fill(slot, i, now, subs, g, config, events)
            elif step == k.EVICT:
                if evict == k.COUNT:
                    while leaves_by_count(subs[slot, k.S_SIZE], size):
                        _evict_oldest(slot, subs, rows, g)
                else:
                    value = evict_values[row]
                    while subs[slot, k.S_SIZE] > 0 and is_beyond(
                        value, evict_values[subs[slot, k.S_HEAD]], evict_delta
                    ):
                        _evict_oldest(slot, subs, rows, g)
            elif step == k.FLUSH:
                if evict == k.COUNT:
                    full = subs[slot, k.S_SIZE] >= size
                else:
                    full = subs[slot, k.S_SIZE] > 0 and is_beyond(
                        evict_values[row], evict_values[subs[slot, k.S_HEAD]], evict_delta
                    )
                if full:
                    _flush(slot, i, now, subs, g, config, events)
            elif trigger == k.COUNT:
                subs[slot, k.S_COUNTER] = counted(subs[slot, k.S_COUNTER], every)
                if subs[slot, k.S_COUNTER] == 0:
                    _tell(k.FIRED, slot, i, now, subs, g, config, events)
            elif not subs[slot, k.S_HAS_BASE]:
                subs[slot, k.S_HAS_BASE] = 1
                bases[slot] = coming[i]
            elif is_beyond(coming[i], bases[slot], trigger_delta):
                bases[slot] = coming[i]
                _tell(k.FIRED, slot, i, now, subs, g, config, events)
        if limit in (k.PARTITIONS, k.TUPLES):
            _limit_partitions(slot, i, now, subs, g, config, rarest, events)
    return len(slots)


@one_source(*_PARTS)
def punctuate(slots: Array, row: int, subs: Array, g: Array, config: Array, events: Array) -> None:
    """Flush these subwindows, in this order."""
    for slot in slots:
        _flush(slot, row, g[k.G_NOW], subs, g, config, events)
